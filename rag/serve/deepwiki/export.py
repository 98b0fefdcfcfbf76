"""Export of a wiki as one file, in deepwiki-open's format."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import escape

from rag.serve.deepwiki.schema import ExportRequest, WikiPage

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def exported(asked: ExportRequest) -> tuple[str, str, str]:
    """Return the content, its media type, and the file name."""
    now = datetime.now(UTC)
    name = _UNSAFE.sub("_", asked.repo_url.rstrip("/").rpartition("/")[2])[:80].strip("._") or "wiki"
    name = f"{name}_wiki_{now:%Y%m%d_%H%M%S}"
    if asked.format == "markdown":
        return _markdown(asked, now), "text/markdown", f"{name}.md"
    return _json(asked, now), "application/json", f"{name}.json"


def _json(asked: ExportRequest, now: datetime) -> str:
    metadata = {
        "repository": asked.repo_url,
        "generated_at": now.isoformat(),
        "page_count": len(asked.pages),
    }
    whole = {"metadata": metadata, "pages": [page.model_dump() for page in asked.pages]}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _markdown(asked: ExportRequest, now: datetime) -> str:
    parts = [
        f"# Wiki Documentation for {_line(asked.repo_url)}",
        f"Generated on: {now:%Y-%m-%d %H:%M:%S}",
        "## Table of Contents",
        "\n".join(_link(page) for page in asked.pages),
    ]
    by_id = {page.id: page for page in asked.pages}
    for page in asked.pages:
        parts += [f"<a id='{escape(_line(page.id))}'></a>", f"## {_line(page.title)}"]
        related = [by_id[name] for name in page.relatedPages if name in by_id]
        if related:
            links = ", ".join(_link(other).removeprefix("- ") for other in related)
            parts += ["### Related Pages", f"Related topics: {links}"]
        parts += [page.content, "---"]
    return "\n\n".join(parts) + "\n\n"


def _link(page: WikiPage) -> str:
    return f"- [{_line(page.title)}](#{_line(page.id)})"


def _line(text: str) -> str:
    """Return a text on one line, without tags."""
    return " ".join(text.split()).replace("<", "‹").replace(">", "›")
