"""What MkDocs calls while it builds the site (`mkdocs.yml`): generated parts, pages from the checkout, links.

A line `<!-- generated: NAME -->` of a page is replaced by what the code says now, so the site is never older
than the code that it was built from.
"""

from __future__ import annotations

import ast
import logging
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from tools.docs import links  # noqa: E402

MERMAID = "assets/mermaid.min.js"
_MARKER = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)
_log = logging.getLogger("mkdocs.plugins.rag")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs/`, and the script that draws diagrams."""
    for name, page in links.PAGES.items():
        if page == "index.md":
            continue
        text = examples() if name == "examples" else (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=links.on_site(text, "")))
    files.append(File.generated(config, MERMAID, abs_src_path=str(mermaid())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the generated parts of a page, and direct its links to pages of the site."""
    is_whole = page.file.src_uri in links.PAGES.values() and page.file.src_uri != "index.md"
    if is_whole:
        return markdown
    return _MARKER.sub(lambda marker: generated(marker[1]), links.on_site(markdown, "docs"))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Load the script that draws diagrams, on the pages that have some."""
    if 'class="mermaid"' not in html:
        return html
    above = "../" * page.url.count("/")
    return f'<script src="{above}{MERMAID}"></script>\n{html}'


@cache
def generated(name: str) -> str:
    """A part that is made from the code. A name that does not exist fails a strict build."""
    parts = parts_by_name()
    if name not in parts:
        _log.warning("no generated part is called %r; there are %s", name, ", ".join(parts))
        return ""
    return parts[name]()


def parts_by_name() -> dict[str, Callable[[], str]]:
    """What can be generated; nothing of it is imported before it is needed."""
    from tools.docs import commands, fields, http_api

    return {
        "cli": commands.command_reference,
        "settings": fields.settings_table,
        "server-settings": fields.server_table,
        "http-api": http_api.http_reference,
        "mcp-tools": http_api.mcp_reference,
        "openai-parameters": http_api.parameter_table,
    }


def examples() -> str:
    """The page of the examples: each file with its docstring as the text."""
    parts = [(ROOT / "examples" / "README.md").read_text(encoding="utf-8")]
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        words = ast.get_docstring(ast.parse(code)) or ""
        body = code.split('"""', 2)[2].strip()
        parts.append(f"## {path.name}\n\n{words}\n\n```python\n{body}\n```")
    return "\n\n".join(parts)


def mermaid() -> Path:
    """The script that draws diagrams, as `rag wiki` ships it."""
    (found,) = [path for top in ("data", "rag") for path in (ROOT / top).rglob("mermaid.min.js")]
    return found
