"""The other files of a wiki: `mkdocs.yml`, copies of the cited files, diagram scripts.

Opening a page loads nothing from the network. MkDocs is not needed to read the pages, and not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rag.code.symbols import File
from rag.markdown import untagged
from rag.quoting import CONTROLS, string_literal, visible
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.pages.links import page_file

MERMAID_FILE = "assets/mermaid.min.js"
DRAWING_FILE = "assets/diagrams.js"
STYLE_FILE = "assets/wiki.css"

STYLE = """\
.wy-nav-content { max-width: 1100px; }
.rst-content, .wy-menu-vertical a { overflow-wrap: anywhere; }
.wy-table-responsive table td, .wy-table-responsive table th { white-space: normal; }
.rst-content code { white-space: normal; overflow-wrap: anywhere; }
.wy-table-responsive table td { overflow-wrap: anywhere; min-width: 6.8em; }
.wy-table-responsive table td:first-child code { overflow-wrap: break-word; }
.wiki-diagram { overflow-x: auto; overflow-wrap: normal; margin: 1em 0; }
.wy-nav-content a, .rst-content a code { color: #1f6a9c; }
.rst-content p a, .rst-content li a, footer a
  { text-decoration: underline #9dbfd6; text-underline-offset: 2px; }
footer, footer p { color: #5c6166; }
.rst-content code { color: #b03a2e; }
.wy-nav-top, .wy-side-nav-search { background-color: #1f6391; }
@media (prefers-color-scheme: dark) {
  .wy-nav-content-wrap, .wy-nav-content, .wy-body-for-nav { background: #14171a; color: #d8dcdf; }
  .rst-content h1, .rst-content h2, .rst-content h3 { color: #f0f2f4; }
  .wy-nav-content a, .rst-content a code { color: #7cbcf0; }
  .rst-content code, .rst-content pre { background: #1f2428; color: #e6a08c; border-color: #353b41; }
  .rst-content table, .rst-content table td, .rst-content table th
    { background: #14171a !important; color: inherit; border-color: #353b41 !important; }
  .rst-content table th { color: #f0f2f4; }
  .rst-content blockquote { color: #c3c9ce; }
  .rst-content p a, .rst-content li a, footer a { text-decoration-color: #47657c; }
  footer, footer p { color: #aab1b7; }
  .wiki-diagram .labelBkg, .wiki-diagram .edgeLabel p { background: #14171a !important; }
  .wy-nav-top, .wy-side-nav-search { background-color: #1d4f73; }
}
"""

DRAWING_SCRIPT = """\
// Draws the diagrams of this wiki. Labels are text: nothing in them is run. Nodes link to pages and lines.
document.addEventListener("DOMContentLoaded", function () {
  if (!window.mermaid) { return; }
  var drawn = [];
  document.querySelectorAll("pre > code.language-mermaid, pre > code.mermaid").forEach(function (code) {
    var holder = document.createElement("div");
    holder.className = "wiki-diagram";
    drawn.push({ holder: holder, before: code.parentElement, text: code.textContent });
  });
  function isDark() {
    var place = document.querySelector(".wy-nav-content, .md-main") || document.body;
    for (var node = place; node; node = node.parentElement) {
      var parts = (getComputedStyle(node).backgroundColor.match(/[\\d.]+/g) || []).map(Number);
      if (parts.length === 3 || parts[3] > 0) {
        return 0.3 * parts[0] + 0.6 * parts[1] + 0.1 * parts[2] < 128;
      }
    }
    return false;
  }
  function built(href) {
    var page = /^([\\w%-]+)\\.md(#.*)?$/.exec(href);
    return page ? page[1] + ".html" + (page[2] || "") : href;
  }
  function finish(holder, text) {
    var svg = holder.querySelector("svg");
    svg.style.minWidth = Math.min(svg.viewBox.baseVal.width, 680) + "px";  // on a phone it scrolls
    holder.querySelectorAll("a").forEach(function (link) {
      var href = link.getAttribute("xlink:href") || link.getAttribute("href") || "";
      link.removeAttribute("xlink:href");
      link.setAttribute("href", built(href));
      link.setAttribute("target", "_self");
    });
    // In a sequence mermaid hides the links in menus: the participants themselves become links.
    (text.match(/^ *link n\\d+: Code @ \\S+$/gm) || []).forEach(function (line) {
      var parts = /link (n\\d+): Code @ ((?:https?:\\/\\/)?[\\w.~%#\\/:-]+)$/.exec(line);
      var shape = parts && holder.querySelector('[data-type="participant"][data-id="' + parts[1] + '"]');
      if (!shape || /^(?!https?:)\\w+:/.test(parts[2])) { return; }
      var link = document.createElementNS("http://www.w3.org/2000/svg", "a");
      link.setAttribute("href", built(parts[2]));
      shape.replaceWith(link);
      link.appendChild(shape);
    });
    holder.querySelectorAll(".actorPopupMenu").forEach(function (menu) { menu.remove(); });
  }
  function draw() {
    window.mermaid.initialize({
      startOnLoad: false, securityLevel: "strict", maxTextSize: 50000, theme: isDark() ? "dark" : "default",
      sequence: { mirrorActors: false }
    });
    return drawn.reduce(function (previous, one, number) {
      return previous.then(function () {
        return window.mermaid.render("diagram-" + number, one.text);
      }).then(function (result) {
        one.holder.innerHTML = result.svg;
        if (one.before.parentElement) { one.before.replaceWith(one.holder); }
        finish(one.holder, one.text);
      });
    }, Promise.resolve());
  }
  var last = isDark(), running = draw();
  function again() {
    if (isDark() !== last) {
      last = !last;
      running = running.then(draw);
    }
  }
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new MutationObserver(again).observe(document.body, { attributes: true });
});
"""

_COPY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_COPY_STYLE = (
    "body{margin:0;font:13px/1.5 ui-monospace,Menlo,Consolas,monospace;background:#fff;color:#1f2328}"
    "h1{font-size:14px;padding:.6em 1em;margin:0;background:#f6f8fa;border-bottom:1px solid #d1d9e0}"
    "ol{margin:0;padding:.5em 0 2em 5em}li{white-space:pre-wrap;overflow-wrap:anywhere;padding-left:.8em}"
    "li::marker{color:#818b98}li:target{background:#fff8c5}"
)


def mkdocs_yml(structure: WikiStructure, *, commit: str, draws: bool) -> str:
    """Return the settings for MkDocs: navigation like the page tree, and a theme without external resources.

    Args:
        structure: the pages.
        commit: the commit that the pages were written from, "" when unknown.
        draws: whether the scripts that draw diagrams are in the wiki.
    """
    lines = [
        f"site_name: {string_literal(untagged(structure.title))}",
        f"site_description: {string_literal(untagged(structure.description))}",
        'docs_dir: "docs"',
        'site_dir: "site"',
        "use_directory_urls: false",
        "theme:",
        '  name: "readthedocs"',
        "  highlightjs: false",
        "  navigation_depth: 4",
        "markdown_extensions:",
        '  - "fenced_code"',
        '  - "tables"',
        "validation:",
        "  links:",
        "    anchors: warn",
        "    unrecognized_links: warn",
    ]
    if commit:
        lines.append(f"copyright: {string_literal(f'Written from commit {commit[:12]}')}")
    lines += ["extra_css:", f"  - {string_literal(STYLE_FILE)}"]
    if draws:
        lines += [
            "extra_javascript:",
            f"  - {string_literal(MERMAID_FILE)}",
            f"  - {string_literal(DRAWING_FILE)}",
        ]
    pages = [(page, page_file(structure, page)) for page in structure.pages]
    return "\n".join([*lines, "nav:", *_nav_lines(navigation(pages), 1), ""])


Navigation = list[dict[str, "str | Navigation"]]


def navigation(pages: Sequence[tuple[WikiPage, str]], parent: str = "", prefix: str = "") -> Navigation:
    """Return the tree of pages as MkDocs' `nav`: a page with others below it is the first of its section.

    Args:
        pages: each page with the name of its file, in order.
        parent: the id of the page whose children are returned, "" for all pages.
        prefix: put before each name.
    """
    below: Navigation = []
    for page, file in pages:
        if page.parent != parent:
            continue
        title, inner = untagged(page.title), navigation(pages, page.id, prefix)
        below.append({title: [{title: prefix + file}, *inner] if inner else prefix + file})
    return below


def _nav_lines(nav: Navigation, depth: int) -> list[str]:
    lines, indent = [], "  " * depth
    for entry in nav:
        for title, value in entry.items():
            if isinstance(value, str):
                lines.append(f"{indent}- {string_literal(title)}: {string_literal(value)}")
            else:
                lines += [f"{indent}- {string_literal(title)}:", *_nav_lines(value, depth + 2)]
    return lines


def copy_html(file: File) -> str:
    """Return a file as a page on which each line can be linked to. It has only text: no script, no link."""
    rows = "".join(f'<li id="L{number}">{escape(line)}\n</li>' for number, line in enumerate(_shown(file), 1))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_COPY_POLICY}">'
        f"<title>{escape(visible(file.path))}</title><style>{_COPY_STYLE}</style></head>"
        f"<body><h1>{escape(visible(file.path))}</h1><ol>{rows}</ol></body></html>\n"
    )


def _shown(file: File) -> Sequence[str]:
    return [line.rstrip("\r").translate(CONTROLS) for line in file.lines] or [""]
