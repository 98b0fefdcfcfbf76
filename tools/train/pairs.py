"""Units become pairs to learn from: words somebody would ask with, and the code they are about.

Six sorts: what a doc comment says; what a comment says about the lines beneath; what a file's header says;
a test's name and the symbol it tests; a paragraph of the documentation and the symbol it names; a message
(error, log, help) and the function it stands in. Words that only repeat the symbol's name are often taken
out of test names and paragraphs: newcomers do not know the name.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from archives import Package
from units import Unit, is_prose, units

MAX_PAIRS = 5000
MAX_DOC = 2000
_TEST_PATH = re.compile(
    r"(^|/)(tests?|specs?|__tests__|testing|e2e)/|(^|/)tests?_|[_.-](tests?|spec)\.|Tests?\.(java|php)$"
)
_TEST_NAMES = {
    "python": re.compile(r"^\s*(?:async\s+)?def\s+test_?(?P<a>\w+)"),
    "javascript": re.compile(r"^\s*(?:it|test|specify)(?:\.\w+)?\(\s*(['\"`])(?P<a>.+?)\1"),
    "go": re.compile(r"^func\s+(?:Test|Example|Benchmark)_?(?P<a>\w+)|^\s*t\.Run\(\"(?P<b>[^\"]+)\""),
    "rust": re.compile(r"^\s+fn\s+(?:test_)?(?P<a>\w+)\(\)\s*\{"),
    "java": re.compile(r"^\s+(?:public\s+)?void\s+(?:test)?(?P<a>\w+)\(\)"),
    "cpp": re.compile(r"^\s*TEST(?:_F|_P|_CASE)?\(\s*\"?(?P<a>[^\")]+)"),
    "ruby": re.compile(r"^\s*(?:it|specify|test|should)\s+(['\"])(?P<a>.+?)\1|^\s*def\s+test_(?P<b>\w+)"),
    "php": re.compile(r"^\s*public\s+function\s+(?:test|it)_?(?P<a>\w+)"),
}
_TEST_NAMES["typescript"] = _TEST_NAMES["javascript"]
_TEST_NAMES["c"] = _TEST_NAMES["cpp"]
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_STRING = re.compile(r"(?<![\w\\])([\"'`])((?:[A-Za-z%{$<]|\\.)(?:\\.|(?!\1)[^\\\n]){18,200})\1")
_SPAN = re.compile(r"`+([^`\n]{3,80})`+|:\w+:`~?([^`]+)`|\b([A-Za-z_][\w.:]*\w)\(\)")
_MARKUP = re.compile(r"<[^>]{1,80}>|\{@\w+\s+([^}]*)\}|:\w+:`([^`]*)`|\[([^\]]*)\]\([^)]*\)|https?://\S+")
_TAG = re.compile(
    r"^\s*(?:[@\\]\w+|:\w+[^:]*:|Args:|Arguments:|Parameters\b|Returns?:|Raises:|Examples?:?|Usage:|# (?:Examples?|Panics|Errors|Safety)|>>>|```|\.\. |-{4,})",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and the document it should find."""

    sort: str
    language: str
    query: str
    head: str
    body: str


def pairs(package: Package, seed: int) -> list[Pair]:
    """All pairs of a package, at most MAX_PAIRS, no query twice; the same for the same seed."""
    chance = random.Random(f"{seed} {package.name}")
    sources = [f for f in package.files if f[1] != "doc" and not _TEST_PATH.search(f[0])]
    if len(sources) > 900:
        sources = chance.sample(sources, 900)
    found = [unit for path, language, text in sources for unit in units(path, language, text)]
    symbols = _symbols(found)
    made = [pair for unit in found for pair in _documented(unit, symbols, chance)]
    made += [pair for unit in found for pair in _messages(unit, chance)]
    tests = [f for f in package.files if f[1] != "doc" and _TEST_PATH.search(f[0])][:400]
    made += [pair for file in tests for pair in _tests(file, symbols, chance)]
    documents = [f for f in package.files if f[1] == "doc"][:150]
    made += [pair for _, _, text in documents for pair in _paragraphs(text, symbols, chance)]
    chance.shuffle(made)
    unique = {pair.query.lower(): pair for pair in made if len(pair.body) >= 30}
    return list(unique.values())[:MAX_PAIRS]


def _symbols(found: Iterable[Unit]) -> dict[str, list[Unit]]:
    """Definitions by name, the unambiguous ones only (at most three of the same name)."""
    by_name: dict[str, list[Unit]] = defaultdict(list)
    for unit in found:
        if unit.name and unit.sort in ("function", "class"):
            by_name[unit.name].append(unit)
    return {name: same for name, same in by_name.items() if len(same) <= 3}


def _parts(text: str) -> list[str]:
    return [p.lower() for p in _PARTS.findall(text)]


def _plain(text: str) -> str:
    return _MARKUP.sub(lambda m: next((g for g in m.groups() if g), " "), text)


# ------------------------------------------------------------------ documentation and comments


def _documented(unit: Unit, symbols: dict[str, list[Unit]], chance: random.Random) -> Iterator[Pair]:
    if not unit.doc or (unit.sort in ("function", "class") and len(_parts(unit.doc)) < 3):
        return
    doc = _plain(unit.doc[:MAX_DOC]).strip()
    cut = _TAG.search(doc)
    said = doc[: cut.start()].strip() if cut else doc
    sentences = re.split(r"(?<=[.!?])\s+|\n\s*\n", said, maxsplit=1)
    query = said[:500] if chance.random() < 0.3 else sentences[0][:300]
    if len(_parts(query)) < 3 or not is_prose(query):
        return
    if unit.sort == "prototype":
        defined = symbols.get(unit.name, [])
        unit = defined[0] if len(defined) == 1 else unit
    body = unit.body
    if chance.random() < 0.25:  # documents that are searched keep the rest of their documentation
        body = doc[doc.find(query) + len(query) :][:600] + "\n" + body
    if unit.language == "go" and unit.name and query.startswith(unit.name + " "):
        query = query[len(unit.name) + 1 :]
    sort = unit.sort if unit.sort != "prototype" else "function"
    yield Pair(sort, unit.language, " ".join(query.split()), unit.head, body)


def _messages(unit: Unit, chance: random.Random) -> Iterator[Pair]:
    """A message of several words stands for what its function does when it says so; taken out of the body."""
    if unit.sort != "function" or not unit.name:
        return
    strings = [m for m in _STRING.finditer(unit.body) if len(re.findall(r"\b[A-Za-z]{3,}\b", m[2])) >= 4]
    if not strings:
        return
    chosen = chance.choice(strings)
    text = re.sub(r"%[-\d.]*\w|\{[^}]*\}|\$\{?\w+\}?|\\.|<[^>]*>", " ", chosen[2])
    code = sum(text.count(c) for c in ";=()<>|*_/") + sum(1 for w in text.split() if w.isupper())
    if code > 3 or len(_parts(text)) < 4:
        return
    body = unit.body[: chosen.start()] + '""' + unit.body[chosen.end() :]
    yield Pair("message", unit.language, " ".join(text.split()), unit.head, body)


# ------------------------------------------------------------------ tests


def _tests(
    file: tuple[str, str, str], symbols: dict[str, list[Unit]], chance: random.Random
) -> Iterator[Pair]:
    path, language, text = file
    pattern = _TEST_NAMES[language]
    lines = text.split("\n")
    starts = [(i, m) for i, line in enumerate(lines) if (m := pattern.match(line[:300]))]
    stem = set(_parts(path.rsplit("/", 2)[-1]))
    for n, (i, match) in enumerate(starts):
        named = next((v for k, v in match.groupdict().items() if v), "")
        if len(_parts(named)) < 3:
            continue
        end = min(starts[n + 1][0] if n + 1 < len(starts) else len(lines), i + 30)
        unit = _tested("\n".join(lines[i + 1 : end]), set(_parts(named)), stem, symbols)
        if unit:
            words = _parts(named) if " " not in named else named.split()
            query = _without_name(words, unit.name, chance)
            yield Pair("test", language, query, unit.head, unit.body)


def _tested(body: str, named: set[str], stem: set[str], symbols: dict[str, list[Unit]]) -> Unit | None:
    """The symbol used in a test's body that its name (or its file's) speaks of most."""
    best: tuple[float, Unit] | None = None
    for identifier in dict.fromkeys(_IDENTIFIER.findall(body)):
        for unit in symbols.get(identifier, ()):
            parts = set(_parts(identifier))
            shared = len(parts & named) + 0.5 * len(parts & stem)
            score = shared / (len(parts) + 0.5) + (0.3 if identifier + "(" in body else 0)
            if shared >= 0.5 and (best is None or score > best[0]):
                best = (score, unit)
    return best[1] if best else None


def _without_name(words: list[str], name: str, chance: random.Random) -> str:
    """The words, in half the cases without those that only repeat the symbol's name."""
    parts = set(_parts(name))
    rest = [w for w in words if not set(_parts(w)) <= parts]
    return " ".join(rest if len(rest) >= 3 and chance.random() < 0.5 else words)


# ------------------------------------------------------------------ documentation pages


def _paragraphs(text: str, symbols: dict[str, list[Unit]], chance: random.Random) -> Iterator[Pair]:
    heading = ""
    blocks = re.split(r"\n\s*\n|\n(?=\s*[-*] )", re.sub(r"```.*?```|~~~.*?~~~", "", text, flags=re.S))
    for block in blocks:
        block = block.strip()[:MAX_DOC]
        if block.startswith("#") or re.search(r"\n[=\-~^*]{3,}\s*$", block):
            heading = re.sub(r"[#=\-~^*`]", " ", block.split("\n")[0]).strip()
            continue
        if len(block) < 40 or block.startswith(("|", "    ", "<", "..")):
            continue
        spans = [next(g for g in m.groups() if g) for m in _SPAN.finditer(block)][:12]
        named = [
            s.removesuffix("()").replace("::", ".").rstrip(".").split("(")[0].split(".")[-1] for s in spans
        ]
        known = [n for n in named if n in symbols and len(n) > 3]
        if not known:
            continue
        unit = chance.choice(symbols[known[0]])
        prose = _plain(_SPAN.sub(" ", block) if chance.random() < 0.6 else block)
        query = f"{heading} {prose}" if chance.random() < 0.5 else prose
        if len(_parts(prose)) >= 5:
            yield Pair("page", unit.language, " ".join(query.split())[:400], unit.head, unit.body)
