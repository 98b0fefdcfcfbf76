"""Links between documents, as they are in a checkout and as they are on the site.

A document links to files of the checkout, so that its links work wherever the repository is browsed. Some of
these files are pages of the site (`PAGES`, and `docs/` itself); links to others become names there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CHANGELOG.md": "changelog.md",
    "examples": "examples.md",
}
"""What of the checkout, besides `docs/`, is a page of the site."""

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^()\s]+)\)")
_CODE = re.compile(r"(^(`{3,}).*?^\2$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def targets(text: str) -> list[str]:
    """What the links of a Markdown text lead to; code holds none."""
    return [link[2] for link in LINK.finditer(_CODE.sub(_without_links, text))]


def _without_links(code: re.Match[str]) -> str:
    return "code" if "\n" not in code[0] else ""


def on_site(text: str, folder: str) -> str:
    """The text with its links as they are on the site.

    Args:
        text: Markdown.
        folder: where the document is in the checkout: "docs", or "" for the top.
    """
    parts = re.split(r"(^(`{3,}).*?^\2$)", text, flags=re.DOTALL | re.MULTILINE)
    prose = [LINK.sub(lambda link: _link(link[1], link[2], folder), part) for part in parts[::3]]
    fenced = [*parts[1::3], ""]
    return "".join(piece for pair in zip(prose, fenced, strict=True) for piece in pair)


def _link(words: str, target: str, folder: str) -> str:
    path, hash_, anchor = target.partition("#")
    if "://" in target or not path:
        return f"[{words}]({target})"
    place = posixpath.normpath(posixpath.join(folder, path))
    if place.startswith("docs/"):
        return f"[{words}]({place.removeprefix('docs/')}{hash_}{anchor})"
    if place in PAGES:
        return f"[{words}]({PAGES[place]}{hash_}{anchor})"
    if place.startswith("examples/"):
        return f"[{words}]({PAGES['examples']}#{place.removeprefix('examples/').replace('.', '').lower()})"
    return f"`{place}`" if words.strip("`/") in place else f"{words} (`{place}`)"
