"""Questions that a program writes from repositories, each about a name, a file or a string that occurs there.

Written questions hide what their writers do not think of; a random name does not. The right places are read
from the text with the patterns below, never from the code graph, so that faults of the graph show. A pattern
knows less than a parser: only names with one definition count, and comments and imports are no uses.

The repositories are split by name into `dev`, whose failures are written to `generated-dev.jsonl` among the
results to be read, and `final`, whose failures are not kept. `GENERATED` is the number of names of each kind
in a repository (10).
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rag.code.languages import kind_of_path, language_of_path
from rag.retrieval.search import search
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.types import Hit
from tools.benchmarks.answer_judging import interval
from tools.benchmarks.bench import QUESTIONS, Bench, show
from tools.benchmarks.repositories import obtain_all, read_repositories

PER_REPOSITORY = int(os.environ.get("GENERATED", "10"))
_AMONG = 3
_MAX_LINE_CHARS = 400
_MAX_USES = 40
_KINDS = frozenset({"code", "test"})
_CODE = frozenset(
    "python javascript typescript tsx go rust java kotlin swift c cpp csharp perl ruby php".split()
)
_C_LIKE = frozenset({"c", "cpp", "java", "csharp"})
_WORD = re.compile(r"(?<![\w$])[A-Za-z_]\w{4,}")
_DEFINED = re.compile(
    r"^\s*(?:(?:export|default|public|private|protected|internal|static|abstract|final|sealed|open|override"
    r"|data|async|unsafe|pub(?:\(\w+\))?|partial|virtual|inline|suspend|@\w+) )*"
    r"(?P<unit>def|class|func|fn|fun|function|struct|interface|trait|enum|sub|protocol|object)\s+"
    r"(?:\([^)]*\)\s*)?(?P<name>[A-Za-z_]\w{4,})"
)
_TYPED = re.compile(
    r"^\s*(?:(?!(?:return|else|throw|new|delete|case|goto|using|typedef)\b)[\w:<>,\[\]]+[\s*&]+)+"
    r"(?:\w+::)?(?P<name>[A-Za-z_]\w{4,})\s*\([^;]*(?:\{|\)|,)\s*$"
)
_CLASSES = frozenset("class struct interface trait protocol".split())
_COMMENT = re.compile(r"\s*(?://|#(?!\s*(?:define|if|include|\[))|/?\*|--|;|=|%|\"{3}|'{3})")
_IMPORT = re.compile(r"\s*(?:import|from|use|using|package|namespace|require|#\s*include|export\s*[{*])\b")
_CONSTANT = re.compile(
    r"^\s*(?:(?:pub|public|private|protected|internal|static|final|const|constexpr|export|let|val|var|readonly"
    r"|int|long|String|std::string|double|float|auto|our|my|use constant|#\s*define)\s+)*"
    r"(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]{2,})\b(?::\s*[\w&' <>\[\]]{1,30})?\s*(?:=>?\s*|\s)"
    r"(?:[-\"'\d]|true\b|false\b|True\b|False\b|None\b|nil\b|null\b|\[|\{|\()"
)
_STRING = re.compile(r"\"([^\"\\\n]{18,90})\"|'([^'\\\n]{18,90})'")
_PHRASE = re.compile(r"(?:\w[\w,.'/-]* ){3,}")
_VARIABLE = re.compile(r"[{}%$<>#\\]")
_RETURNS = re.compile(r"\s+return\b\s*[^\s;]")
_RAISES = re.compile(r"\s+(?:raise|throw|panic)\b")
_EXTENDS = (
    r"\b(?:class|interface|struct|enum|object|protocol|extension|record)\s+\w+(?:<[^{{]*?>)?"
    r"(?:\s*(?::|\()|\s+(?:extends|implements)\b)[^{{]*\b{0}\b|^\s*(?:extends|implements)\b[^{{]*\b{0}\b"
    r"|\bimpl(?:<[^>]*>)? (?:\w+::)*{0}\b.* for |^use (?:parent|base|Mojo::Base)\b.*\b{0}\b"
)
_IMPORTING = (
    r"\b(?:import|from|use|require\w*|include)\b.*"
    r"(?<!\w){0}(?:\.(?:[jt]sx?|h|hpp|hh))?(?:[\"'>;]|\s|\.\w+;?$|$)"
)
_IMPORTED = frozenset("python javascript typescript tsx java c cpp perl".split())
FORMS: Mapping[str, Sequence[str]] = {
    "definition": ("Where is {} defined?", "What does `{}` do?", "Show me the code of {}"),
    "file": ("Which file defines {}?",),
    "callers": ("Who calls {}?",),
    "uses": ("Where is `{}` used?",),
    "tests": ("Which tests cover {}?", "Is {} tested?"),
    "quoted phrase": ('Where is "{}"?',),
    "constant": ("What is the value of {}?", "What is the default of {}?"),
    "importers": ("Who imports {}?", "Which files import {}?"),
    "subclasses": ("Which classes extend {}?", "implementations of {}"),
    "returns": ("What does {} return?",),
    "raises": ("What does {} raise?",),
}
"""How each kind is asked. Of the second and third form the names are the same."""
Places = frozenset[tuple[str, int]]
"""Paths and lines, from 1. A line 0 means the whole file."""


@dataclass
class _Tree:
    """What the patterns find in the files of a repository.

    `defined` has of each name where it is defined and with which keyword; `code` the lines of each file of
    code, without comments; `used` where each word is on such a line.
    """

    code: dict[str, list[str]] = field(default_factory=dict)
    defined: dict[str, list[tuple[str, int, str]]] = field(default_factory=lambda: defaultdict(list))
    used: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> _Tree:
        """Return what is in some texts by path."""
        tree = cls()
        for path, text in texts.items():
            language = language_of_path(path) or ""
            if language not in _CODE or kind_of_path(path) not in _KINDS:
                continue
            code = text.partition("\n__END__\n")[0] if language == "perl" else text
            lines = [line if len(line) <= _MAX_LINE_CHARS else "" for line in code.split("\n")]
            tree.code[path] = ["" if _COMMENT.match(line) else line for line in lines]
            for number, line in enumerate(tree.code[path], 1):
                found = _DEFINED.match(line) or (_TYPED.match(line) if language in _C_LIKE else None)
                if found:
                    tree.defined[found["name"]].append((path, number, found.groupdict().get("unit", "")))
                for word in set(_WORD.findall(line)):
                    tree.used[word].append((path, number))
        return tree

    def single(self) -> dict[str, tuple[str, int, str]]:
        """Return the names with one definition, which is in code, and the place of it."""
        return {
            name: places[0]
            for name, places in self.defined.items()
            if len(places) == 1 and kind_of_path(places[0][0]) == "code" and not name.startswith("_")
        }

    def body(self, path: str, start: int) -> Iterator[tuple[int, str]]:
        """Yield the lines of a definition after its first: those that are indented deeper, at most 60."""
        lines = self.code[path]
        indent = len(lines[start - 1]) - len(lines[start - 1].lstrip())
        for number in range(start + 1, min(start + 60, len(lines) + 1)):
            line = lines[number - 1]
            if line.strip() and len(line) - len(line.lstrip()) <= indent and line.strip()[0] not in "{)":
                return
            yield number, line

    def holding(self, pattern: str, name: str, own: tuple[str, int], *, imports: bool = False) -> Places:
        """Return the lines that hold a name and match a pattern, without its definition."""
        wanted = re.compile(pattern.format(re.escape(name)))
        return frozenset(
            (path, number)
            for path, number in self.used.get(name, ())
            if (path, number) != own
            and wanted.search(line := self.code[path][number - 1])
            and bool(_IMPORT.match(line)) == imports
        )


def questions_of(tree: _Tree, texts: Mapping[str, str], seed: int = 7) -> Iterator[tuple[str, str, Places]]:
    """Yield kind, question and right places: for each kind `PER_REPOSITORY` names at random, each in all
    forms.
    """
    drawn = random.Random(seed)
    for kind, found in _subjects(tree, texts).items():
        names = sorted(name for name, places in found.items() if 0 < len(places) <= _MAX_USES)
        drawn.shuffle(names)
        for name in names[:PER_REPOSITORY]:
            for form in FORMS[kind]:
                yield kind, form.format(name), found[name]


def _subjects(tree: _Tree, texts: Mapping[str, str]) -> dict[str, dict[str, Places]]:
    """Return of each kind what can be asked for, with the right places."""
    found: dict[str, dict[str, Places]] = {kind: {} for kind in FORMS}
    for name, (path, start, unit) in tree.single().items():
        own = path, start
        found["definition"][name] = frozenset({own})
        found["file"][name] = frozenset({(path, 0)})
        found["uses"][name] = tree.holding(r"(?<![\w$]){0}\b", name, own)
        if unit in _CLASSES:
            found["subclasses"][name] = tree.holding(_EXTENDS, name, own)
            tests = found["uses"][name]
        else:
            tests = found["callers"][name] = tree.holding(r"(?<![\w$]){0}\s*\(", name, own)
            for kind, pattern in (("returns", _RETURNS), ("raises", _RAISES)):
                body = tree.body(path, start)
                found[kind][name] = frozenset((path, n) for n, line in body if pattern.match(line))
        found["tests"][name] = frozenset(place for place in tests if kind_of_path(place[0]) == "test")
    found["constant"] = _constants(tree)
    found["quoted phrase"] = _phrases(tree, texts)
    found["importers"] = _importers(tree)
    return found


def _constants(tree: _Tree) -> dict[str, Places]:
    found: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for path, lines in tree.code.items():
        for number, line in enumerate(lines, 1):
            if constant := _CONSTANT.match(line):
                found[constant["name"]].add((path, number))
    return {name: frozenset(places) for name, places in found.items() if len(places) == 1}


def _phrases(tree: _Tree, texts: Mapping[str, str]) -> dict[str, Places]:
    found: dict[str, Places] = {}
    for path, lines in tree.code.items():
        for line in lines:
            for phrase in (one.strip() for both in _STRING.findall(line) for one in both):
                if _PHRASE.match(phrase) and not _VARIABLE.search(phrase) and kind_of_path(path) == "code":
                    found[phrase] = frozenset()
    chosen = random.Random(3).sample(sorted(found), min(len(found), 3 * PER_REPOSITORY))
    return {phrase: frozenset(_lines_with(phrase, texts)) for phrase in chosen}


def _lines_with(phrase: str, texts: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for path, text in texts.items():
        if phrase in text:
            yield from ((path, n) for n, line in enumerate(text.split("\n"), 1) if phrase in line)


def _importers(tree: _Tree) -> dict[str, Places]:
    """Return the imports of files whose stem no other file has."""
    stems: dict[str, list[str]] = defaultdict(list)
    for path in tree.code:
        stems[Path(path).stem].append(path)
    return {
        path.rpartition("/")[2]: tree.holding(_IMPORTING, stem, ("", 0), imports=True)
        for stem, (path, *others) in stems.items()
        if not others and language_of_path(path) in _IMPORTED and kind_of_path(path) == "code"
    }


def is_right(hit: Hit, places: Places) -> bool:
    """Return whether a hit has one of the lines, or is in one of the files."""
    return any(hit.path == path and (not line or hit.start <= line <= hit.end) for path, line in places)


def generated(bench: Bench) -> None:
    """Questions that a program writes from repositories outside all sets, right places read from the text."""
    engine = Engine(load_settings({"memory": "memory:"}))
    for split in ("dev", "final"):
        repositories = read_repositories(QUESTIONS / f"generated_{split}_repositories.toml")
        ranks: dict[str, list[int]] = defaultdict(list)
        failures = []
        began = time.process_time()
        for name, folder in obtain_all(repositories, bench.cache).items():
            searcher = engine.repository(locate(str(folder))).searcher
            index = searcher.index
            every = sorted({index.file_path(file) for file in range(index.total_files)})
            texts = {path: found[0] for path in every if (found := index.file_text(path)) is not None}
            for kind, question, places in questions_of(_Tree.of(texts), texts):
                hits = search([searcher], question, k=_AMONG).hits
                rank = next((n for n, hit in enumerate(hits, 1) if is_right(hit, places)), 0)
                ranks[kind].append(rank)
                if rank != 1:
                    got = [f"{hit.path}:{hit.start}-{hit.end} {hit.symbol}" for hit in hits]
                    failures.append([name, kind, question, rank, sorted(places)[:4], got])
        _show(split, len(repositories), ranks, time.process_time() - began)
        if split == "dev":
            bench.results.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(one) + "\n" for one in failures)
            (bench.results / "generated-dev.jsonl").write_text(text, encoding="utf-8")


def _show(split: str, count: int, ranks: Mapping[str, Sequence[int]], cpu_s: float) -> None:
    rows = [_row(kind, ranks[kind]) for kind in FORMS if ranks[kind]]
    every = [rank for found in ranks.values() for rank in found]
    title = f"Generated questions, {split}: {count} repositories, {cpu_s:.0f} CPU-s"
    show(title, ("kind", "n", "right first", f"among {_AMONG}"), [*rows, _row("all", every)])


def _row(kind: str, ranks: Iterable[int]) -> tuple[str, int, str, str]:
    found = list(ranks)
    return kind, len(found), interval([n == 1 for n in found]), interval([n > 0 for n in found])
