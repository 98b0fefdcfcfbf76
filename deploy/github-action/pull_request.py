"""Comment on a pull request with outdated wiki pages and with a review; the last step of `action.yml`.

The comment of an earlier run is updated, and none is written if there is nothing to report. Everything comes
from environment variables. Outside of GitHub, or without a token that may comment, the text is printed.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

MARKER = "<!-- rag: outdated wiki pages and review -->"
MAX_CHARS = 60_000
"""GitHub refuses comments of more than 65,536 characters."""
TIMEOUT_S = 30
MAX_PAGES = 20
COMMAND = [sys.executable, "-I", "-m", "rag"]


class StepError(Exception):
    """The step cannot be completed; the message says why."""


def chosen(name: str, default: str = "") -> str:
    """Return an input of the action."""
    return os.environ.get(name, default).strip()


def is_on(name: str) -> bool:
    """Return whether an input is true."""
    return chosen(name, "true").lower() in ("true", "1", "yes")


def report(*arguments: str) -> tuple[str, bool]:
    """Run `rag`; return its Markdown, and whether it reports something.

    Raises:
        StepError: it failed.
    """
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    show(done.stderr)
    if done.returncode not in (0, 1):
        raise StepError(f"`rag {shlex.join(arguments)}` failed with exit code {done.returncode}")
    return done.stdout.strip(), done.returncode == 1


def show(text: str) -> None:
    """Write text to the log. What it quotes of the pull request must not be a command to the runner."""
    mark = secrets.token_hex(16)
    print(f"::stop-commands::{mark}\n{text.rstrip()}\n::{mark}::", flush=True)


def command(name: str, message: str) -> None:
    """Send a message on one line to the runner: an error, or a warning."""
    escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::{name}::{escaped}", flush=True)


def reports() -> tuple[str, bool]:
    """Return the text of the comment, and whether it reports something."""
    parts = []
    if wiki := chosen("WIKI"):
        parts.append(
            report("wiki", ".", "-o", wiki, "--check", "--markdown", *shlex.split(chosen("WIKI_OPTIONS")))
        )
    if is_on("REVIEW"):
        base = chosen("BASE")
        if not base:
            raise StepError("a review needs the input `base`: the event is not a pull request")
        parts.append(report("review", f"origin/{base}...HEAD", "--markdown"))
    text = "\n\n".join([MARKER, *(markdown for markdown, _ in parts)])
    if len(text) > MAX_CHARS:
        kept = text[:MAX_CHARS].rpartition("\n")[0]
        text = f"{kept}\n\n… and {len(text) - len(kept):,} more characters, which the log of the job has."
    return text, any(found for _, found in parts)


def call(method: str, address: str, body: Any = None) -> Any:
    """Call the API of GitHub; return what it answers. Raises OSError."""
    request = urllib.request.Request(
        address,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {chosen('GITHUB_TOKEN')}",
            "Content-Type": "application/json",
            "User-Agent": "rag",
        },
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        return json.load(response)


def comment(text: str, *, is_news: bool) -> None:
    """Write or update the comment. Without news, only an earlier comment is updated. Raises OSError."""
    event = json.loads(Path(chosen("GITHUB_EVENT_PATH")).read_text(encoding="utf-8"))
    number = event.get("number") or event.get("pull_request", {}).get("number")
    if not number:
        raise StepError("the event names no pull request, so there is nothing to comment on")
    repository = f"{chosen('GITHUB_API_URL')}/repos/{urllib.parse.quote(chosen('GITHUB_REPOSITORY'))}"
    thread = f"{repository}/issues/{int(number)}/comments"
    for page in range(1, MAX_PAGES + 1):
        comments = call("GET", f"{thread}?per_page=100&page={page}")
        for earlier in comments:
            if str(earlier.get("body") or "").startswith(MARKER):
                try:
                    call("PATCH", f"{repository}/issues/comments/{int(earlier['id'])}", {"body": text})
                    return
                except urllib.error.HTTPError:
                    continue  # someone else wrote a comment with our marker
        if len(comments) < 100:
            break
    if is_news:
        call("POST", thread, {"body": text})


def main() -> int:
    """Return the exit code of the step."""
    try:
        text, is_news = reports()
        show(text)
        if summary := chosen("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(text + "\n")
        if is_on("COMMENT") and chosen("GITHUB_EVENT_PATH"):
            try:
                comment(text, is_news=is_news)
            except (OSError, ValueError) as error:
                # The token of a pull request from a fork may not comment.
                command("warning", f"no comment was written ({error}); the summary of the job has its text")
    except StepError as error:
        command("error", str(error))
        return 2
    return 1 if is_news and is_on("FAIL") else 0


if __name__ == "__main__":
    sys.exit(main())
