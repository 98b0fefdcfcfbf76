"""Find descriptions of a project and its packages in its own words.

A project's description is, in this order: a sentence of the README whose subject is the project and that
describes it; the first paragraph of its section "What is X"; the description in the package's manifest; the
documentation at the top of the main package; the name line of the manual page; the first informative
paragraph or title of the README. Sections on sponsors, releases, installation and the like are ignored, and
so are paragraphs on the document itself.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from rag.code.definitions import plain_title
from rag.code.documentation import Quote, paragraphs, title_of
from rag.code.survey import Survey
from rag.code.symbols import File
from rag.parsing import parse_json, parse_toml

_MAX_PARAGRAPHS = 3
_OPEN = re.compile(
    r"\b(?:are|for|from|has|have|in|includ(?:es?|ing)|is|like|of|offers?|on|provides?|supports?|to|with):$"
)
_ITEM = re.compile(r"\A\s*[-*+]\s+(?:and\s+)?")
_MAX_ITEMS, _MAX_ITEM_WORDS = 6, 8
_OTHER_SECTIONS = re.compile(
    r"sponsor|donat|fund|backer|supporter|enterprise|licen[cs]e|install|download|contribut|build|status|test"
    r"|\bCI\b|release|announc|news|what'?s new|change|migrat|upgrad|documentation|table of contents|help"
    r"|communit|require|need\b|prerequisite|credit|acknowledg|author|example|usage|quick ?start"
    r"|getting started|why",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"(?:what(?:'s|’s| is| are)|about|introducing|introduction to)\s+(?!an?\s)(\S.*?)\s*\??$", re.IGNORECASE
)
_SELF = re.compile(
    r"(?:about|what is (?:it|this)[^?]*|introduction|overview|description|summary)\??$", re.IGNORECASE
)
_NOISE = re.compile(
    r"\[?!|[_*]{0,2}(?:note|warning|important|tip|caution|attention|disclaimer)\b|these docs|thank|welcome"
    r"|please"
    r"|this (?:readme|document|file|page|guide|branch|is the (?:readme|documentation))"
    r"|in other words|for example|as (?:you|we) "
    r"|we(?:'re|’re| are) (?:excited|happy|proud|pleased|hiring)|if you|you (?:can|may|need)"
    r"|(?:see|read|visit|check|click|download|install|run|star|become|join|follow) "
    r"|to (?:install|build|use|get) |(?:the (?:full |latest |official |complete )?)?documentation"
    r"|(?:for )?(?:more|further) (?:information|details)|copyright"
    r"|licen[cs]ed|dual|version|latest|available|supported|sponsor|https?:"
    r"|\W*$|.*\?$|.*\b(?:announc|sponsor|tidelift|newsletter|open collective|backers?\b|supported by)",
    re.IGNORECASE | re.DOTALL,
)
_FIRST_PAGE = re.compile(
    r"(?:(?:website|site|src|content)/){0,3}docs?/(?:(?:docs|src|content)/)?(?:index|introduction|intro|overview)\.(?:mdx?|rst)"
)
_BEING = (
    r"\s+(?:is|are)\s+(?:(?:also|basically|essentially|just|often|primarily|simply)\s+)?"
    r"(?:(?:referred to|known|described) as\s+)?(?:an?|the|one)\s"
)
_DOING = (
    r"\s+(?:\w+ly\s+)?(?:provides|offers|lets|allows|makes|helps|enables|gives|integrates|implements|adds|turns|brings"
    r"|simplifies|converts|generates|creates|manages|runs|parses|builds)\s"
)
_SUFFIX = re.compile(r"(?<=\w\w)[-_.](?:core|ng|js|ts|py|rb|rs|go|java|cpp|lib|php|net)$", re.IGNORECASE)
"""The end of a repository's name that the project's own texts often leave out."""
_MAX_MANIFEST_LINE_CHARS = 1_000
_DESCRIBED = {
    "setup.cfg": r"^description\s*=\s*(.+)$",
    "setup.py": r"^[ \t]*description\s*=\s*[\"'](.+?)[\"']",
    "pom.xml": r"<description>([^<]{1,2000})</description>",
    ".csproj": r"<Description>([^<]{1,2000})</Description>",
    ".gemspec": r"\.(?:summary|description)\s*=\s*[\"'](.+?)[\"']\s*$",
    ".podspec": r"\.summary\s*=\s*[\"'](.+?)[\"']\s*$",
    "pubspec.yaml": r"^description:\s*[\"']?([^>|\n\"'][^\n\"']*)",
    "mix.exs": r"^[ \t]*(?:description:|@description)\s*\"(.+?)\"",
    "Chart.yaml": r"^description:\s*[\"']?([^>|\n\"'][^\n\"']*)",
    ".cabal": r"^synopsis:\s*(.+)$",
}
"""How a manifest that is read line by line declares its description, by the end of its path."""
PACKAGE_DOCS = (
    "__init__.py",
    "README.md",
    "README.rst",
    "doc.go",
    "lib.rs",
    "mod.rs",
    "index.ts",
    "index.js",
)


def project_description(survey: Survey) -> list[Quote]:
    """Return the project's description: a paragraph and up to two that follow it; none if there is none."""
    readme = next(iter(readmes(survey)), "")
    texts = list(paragraphs(survey.files[readme].text, readme)) if readme else []
    titled = title_of(survey.files[readme].text, readme).text if readme else ""
    texts = [(section.partition(" ")[2], quote) for section, quote in texts]
    is_section = _ABOUT.match(titled) or _SELF.match(titled) or _OTHER_SECTIONS.fullmatch(titled)
    titled = "" if is_section else titled
    texts = [("" if section == titled else section, quote) for section, quote in texts]
    names = _names(survey, readme)
    number = _chosen(texts, names)
    if number is None and (found := _in_documents(survey, names)):
        return found
    if number is None and (described := _described(survey, names) or _manual(survey)):
        return [described]
    if number is None:
        lead = [n for n, (section, _) in enumerate(texts) if section == texts[0][0]]
        about = [n for n, (section, _) in enumerate(texts) if _SELF.match(section)]
        usable = [n for n in (*lead, *about) if _is_informative(*texts[n])]
        whole = (n for n in usable if texts[n][1].text.rstrip().endswith((".", "!")))
        number = next(whole, next(iter(usable), None))
    if number is not None:
        return _with_next(texts, number, survey.files[readme].text)
    title = title_of(survey.files[readme].text, readme) if readme else None
    return [title] if title is not None and len(title.text.split()) > 3 else []


def _in_documents(survey: Survey, names: list[str]) -> list[Quote]:
    """Return what the first page of the documentation says that the project is."""
    for path in filter(_FIRST_PAGE.fullmatch, survey.files):
        texts = [
            (section.partition(" ")[2], quote) for section, quote in paragraphs(survey.files[path].text, path)
        ]
        if (number := _chosen(texts, names)) is not None:
            return _with_next(texts, number, survey.files[path].text)
    return []


def package_quote(surveyed: Survey, paths: Sequence[str]) -> Quote | None:
    """Return the documentation of code that belongs together: that of the package that has most of it, or
    that of its only file; None if there is none.
    """
    folders = Counter(path.rpartition("/")[0] for path in paths)
    folder, count = folders.most_common(1)[0] if folders else ("", 0)
    inside = [f"{folder}/{name}" if folder else name for name in PACKAGE_DOCS]
    named = [
        path for path in inside if path in paths or (path in surveyed.files and folder and len(paths) > 1)
    ]
    wanted = named if count * 2 > len(paths) else []
    for path in wanted or (paths if len(paths) == 1 else ()):
        if path in surveyed.files and (quote := surveyed.summary(path)):
            return quote
    return None


def introduction_of(survey: Survey, folder: str) -> Quote | None:
    """Return the description in the manifest of a folder, else what its README says first; None without."""
    for base in ("package.json", "Cargo.toml", "pyproject.toml", "composer.json", "Chart.yaml"):
        file = survey.files.get(f"{folder}/{base}")
        read = _read(file, base) if file else None
        if file and read and read[1]:
            line = next((n for n, row in enumerate(file.lines, 1) if read[1][:20] in row), 1)
            return Quote(read[1], file.path, line, line)
    readme = next(
        (path for path in (f"{folder}/README.md", f"{folder}/README.rst") if path in survey.files), ""
    )
    texts = paragraphs(survey.files[readme].text, readme) if readme else iter(())
    return next((quote for section, quote in texts if _is_informative(section, quote)), None)


def readmes(survey: Survey) -> list[str]:
    """Return the documents that introduce the repository, the top README first, even if it is a link.

    Those in other languages (`README-de.md`) come last.
    """
    top = [file.path for file in survey.of_kind("doc") if "/" not in file.path]
    named = [path for path in top if re.match(r"readme\b", path, re.IGNORECASE)]
    named.sort(
        key=lambda path: (
            len(path.partition(".")[0]) > len("readme"),
            path.count("."),
            not path.endswith((".md", ".rst")),
            path,
        )
    )
    return named or _linked_readmes(survey) or _own_readmes(survey)


def _linked_readmes(survey: Survey) -> list[str]:
    """Return the targets, inside the root, of READMEs at the top that are symbolic links."""
    if survey.checkout is None:
        return []
    root = survey.checkout.root.resolve()
    links = [path for path in sorted(root.glob("[Rr][Ee][Aa][Dd][Mm][Ee]*")) if path.is_symlink()]
    targets = [Path(os.path.realpath(path)) for path in links]  # `resolve` fails on a link to itself
    inside = [path.relative_to(root).as_posix() for path in targets if path.is_relative_to(root)]
    return [name for name in inside if name in survey.files]


def _own_readmes(survey: Survey) -> list[str]:
    """Return the README of a folder that has the repository's name."""
    own = re.compile(rf"(?:[\w-]+/)?{re.escape(survey.name)}/readme\.\w+", re.IGNORECASE)
    return [path for path in survey.files if own.fullmatch(path)]


def _with_next(texts: list[tuple[str, Quote]], number: int, text: str) -> list[Quote]:
    """Return a paragraph and the informative ones that follow it with nothing but blank lines between."""
    section, first = texts[number]
    if first.text.endswith(":"):
        return [_without_announcement(first, text)]
    found = [first]
    for other, quote in texts[number + 1 :]:
        is_next = other == section and quote.start <= found[-1].end + 2
        if len(found) == _MAX_PARAGRAPHS or not is_next or not _is_informative(other, quote):
            break
        if quote.text.endswith(":"):
            break
        found.append(quote)
    return found


def _without_announcement(quote: Quote, text: str) -> Quote:
    """Return a paragraph without the end that announces a list: "…, with the following features:"; one that
    is no sentence without the list, "hardening for:", has its items.
    """
    said = re.sub(r",?\s+(?:with|having|including|offering)\s+(?:the\s+)?following\b[^.]*:$", "", quote.text)
    below = list(takewhile(_ITEM.match, filter(str.strip, text.split("\n")[quote.end :])))
    outer = [
        line for line in below if len(line) - len(line.lstrip()) == len(below[0]) - len(below[0].lstrip())
    ]
    items = [plain_title(_ITEM.sub("", line)).strip(" :") for line in outer]
    if _OPEN.search(said) and items and all(len(item.split()) <= _MAX_ITEM_WORDS for item in items):
        return replace(quote, text=f"{said.removesuffix(':')} {', '.join(items[:_MAX_ITEMS])}.")
    return replace(quote, text=f"{said.removesuffix(':')}.")


def _names(survey: Survey, readme: str) -> list[str]:
    """Return the names of the project: the repository, its packages, the beginning of the README's title."""
    called = [survey.name, *(name for _, name, _ in _manifests(survey) if name)]
    called += [short for name in called if (short := _SUFFIX.sub("", name)) != name]
    if readme:
        called.append(
            re.split(r"\s[-–—|]\s|[:,(]", title_of(survey.files[readme].text, readme).text)[0].strip()
        )
    return [name for name in dict.fromkeys(called) if name and len(name.split()) <= 4]


def _chosen(texts: list[tuple[str, Quote]], names: list[str]) -> int | None:
    """Return the paragraph of a README that describes the project."""
    subject = rf"(?:the\s+)?(?:{'|'.join(_pattern(name) for name in names)})(?:\s*\([^)]*\))?,?"
    is_it, does = (re.compile(subject + verb, re.IGNORECASE) for verb in (_BEING, _DOING))
    usable = [(n, s, q.text) for n, (s, q) in enumerate(texts) if _is_informative(s, q, is_it)]
    lead = texts[0][0] if texts else ""
    for n, _, text in usable:
        if is_it.match(text):
            return n
    for n, section, text in usable:
        about = _ABOUT.match(section)
        if about and re.match(_pattern(about[1]) + r"\b", text, re.IGNORECASE):
            return n
        if (section == lead or about or _SELF.match(section)) and does.match(text):
            return n
    return None


def _is_informative(section: str, quote: Quote, is_it: re.Pattern[str] | None = None) -> bool:
    """Return whether a paragraph may describe the project; one that matches `is_it` may begin in any way."""
    other = _OTHER_SECTIONS.search(section) and not _ABOUT.match(section)
    is_noise = _NOISE.match(quote.text) and not (is_it and is_it.match(quote.text))
    return not other and len(quote.text.split()) > 3 and not is_noise


def _pattern(name: str) -> str:
    """Return a regular expression for a name, however its parts are joined."""
    return r"[-_ .]?".join(re.escape(part) for part in re.split(r"[-_ .]+", name) if part)


# ---------------------------------------------------------------- manifests


def _described(survey: Survey, names: list[str]) -> Quote | None:
    """Return the description in a manifest, else in the main package itself."""
    for file, _, text in _manifests(survey):
        if len(text.split()) > 1 and not _NOISE.match(text):
            line = next(
                (n for n, row in enumerate(file.lines, 1) if text.split()[0] in row and text[:20] in row), 1
            )
            return Quote(text, file.path, line, line)
    for name in names:
        for path in (
            f"{name}/__init__.py",
            f"src/{name}/__init__.py",
            f"lib/{name}.rb",
            "src/lib.rs",
            "doc.go",
        ):
            if path in survey.files and (summary := survey.summary(path)) and not _NOISE.match(summary.text):
                return summary
    return None


def _manual(survey: Survey) -> Quote | None:
    """Return what the project's manual page says that it is."""
    own = re.compile(rf"(?:.*/)?{re.escape(survey.name)}\.[1-8](?:\.in)?", re.IGNORECASE)
    name = re.compile(
        rf"(?:\.Nd|(?:\\fB)?{re.escape(survey.name)}(?:\\fR|\\fP)?\s+\\?-)\s+(.+)", re.IGNORECASE
    )
    for path in sorted(filter(own.fullmatch, survey.files), key=lambda path: (path.count("/"), path)):
        for number, line in enumerate(survey.files[path].lines, start=1):
            if match := name.match(line[:_MAX_MANIFEST_LINE_CHARS].rstrip()):
                return Quote(match[1].strip('" ').replace("\\-", "-"), path, number, number)
    return None


def _manifests(survey: Survey) -> Iterator[tuple[File, str, str]]:
    """Yield the project's own manifests, those at the top first, each with its name and description."""
    for path in sorted(survey.files, key=lambda path: (path.count("/"), path)):
        file = survey.files[path]
        folder, _, base = path.rpartition("/")
        read = _read(file, base)
        if read is None:
            continue
        own = _plain(survey.name)
        if not folder or own in (_plain(read[0]), _plain(folder.rpartition("/")[2])):
            yield file, *read


def _read(file: File, base: str) -> tuple[str, str] | None:
    """Return name and description of a manifest, "" where it has none; None for any other file."""
    if base in ("pyproject.toml", "Cargo.toml", "package.json", "composer.json"):
        try:
            read: Any = parse_toml(file.text) if base.endswith(".toml") else parse_json(file.text)
        except ValueError:
            return None
        for table in (("project",), ("tool", "poetry"), ("package",), ("workspace", "package"), ()):
            inner = read
            for key in table:
                inner = inner.get(key) if isinstance(inner, dict) else None
            if isinstance(inner, dict) and isinstance(inner.get("description"), str):
                return _last(inner.get("name")), " ".join(inner["description"].split())
        return ("", "") if isinstance(read, dict) else None
    for end, pattern in _DESCRIBED.items():
        if base.endswith(end):
            text = "\n".join(line[:_MAX_MANIFEST_LINE_CHARS].rstrip("\n") for line in file.lines)
            found = re.search(pattern, text, re.MULTILINE)
            name = base.removesuffix(end) if end.startswith(".") else ""
            return name, " ".join(found[1].split()) if found else ""
    return None


def _last(name: object) -> str:
    return name.rpartition("/")[2] if isinstance(name, str) else ""


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())
