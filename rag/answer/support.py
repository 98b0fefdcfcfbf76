"""Compare the statements of a model's answer with the lines that they cite, offline and without a model.

A statement is *unsupported* if it names what its lines do not have: a name (in code font, or written like an
identifier), a quoted text, a number; if its lines have the opposite of one of its words (`enable`,
`disable`); or if it shares almost no word with them. It is *weak* if it shares few. The words are those of
the index: stemmed, identifiers split. This cannot see that words are in the wrong order ("A calls B" for "B
calls A"), so a supported statement is not proved, and a paraphrase in quite other words is flagged wrongly.

A name in code font is *unknown* if it is in no line of the repositories, nor in anything that the model was
given, nor a keyword or name of a standard library.

Nothing of the answer is changed. The work is bounded: see `MAX_CHARS` and `MAX_STATEMENTS`.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple

from rag.analysis import term_set, terms, words
from rag.answer.markdown import code_spans
from rag.answer.statements import (
    MAX_CHARS,
    MAX_STATEMENTS,
    REFERENCE,
    AnswerStatement,
    outside_fences,
    sentence_at,
    statements,
)
from rag.types import FlaggedStatement, Hit, SupportCheck, SupportKind

MAX_FLAGGED = 20
_MAX_NAMES = 200
"""The names of an answer that are looked up."""
_MAX_SOURCE_CHARS = 40_000
_MIN_SHARE = 0.12
"""A statement that shares less of its words with its lines is unsupported."""
_WEAK_SHARE = 0.34
_NEAREST_SHARE = 0.5

_NAME = re.compile(r"(?!\d)[\w$@][\w.:/$>-]{0,150}\w[!?]?(?:\(\))?")
_PART = re.compile(r"(?!\d)[\w$]{3,}")
_IDENTIFIER = re.compile(
    r"(?<![\w/.-])(?:[A-Za-z]\w{0,80}_\w{1,80}|[a-z]\w{0,40}[a-z0-9][A-Z]\w{0,80}|[A-Z][a-z0-9]+[A-Z]\w{0,80}"
    r"|[A-Za-z]\w{1,80}(?=\(\)))"
)
_FILE = re.compile(r"[\w./-]{1,120}\.[A-Za-z]\w{0,6}(?::\d+(?:-\d+)?)?")
_QUOTED = re.compile(r'"([^"\n]{2,80})"')
_NUMBER = re.compile(
    r"(?<![\w.#-])(?:0[xX][0-9a-fA-F_]{1,16}|\d[\d_,]{0,20}(?:\.\d{1,10})?)(?![\w]*[A-Za-z_]{3})"
)
_EVIDENCE_NUMBER = re.compile(r"0[xX][0-9a-fA-F_]{1,16}|\d[\d_]{0,20}(?:\.\d{1,10})?")
_LINE_NUMBER = re.compile(r"\b(?:lines?|version|step|python|section|rfc|http|example)\W{0,3}$", re.IGNORECASE)
_PLACE = re.compile(r"[\w./-]{1,120}\.[A-Za-z]\w{0,6}:\d{1,7}(?:[–-]\d{1,7})?")
_SCALES = (1, 60, 3600, 86400, 1000, 100, 1024, 1024**2, 1024**3, 10**6, 10**9)
_OPPOSITES = tuple(
    tuple(terms(pair))
    for pair in """enable disable|first last|before after|increase decrease|increment decrement|add remove
    encode decode|ascending descending|allow deny|allow forbid|newest oldest|maximum minimum|max min
    lock unlock|lowercase uppercase|lower upper|push pop|larger smaller|prepend append|true false
    compress decompress|serialize deserialize|connect disconnect|encrypt decrypt|acquire release|left right
    mutable immutable|synchronous asynchronous|top bottom|raise ignore
    include exclude|success failure|accept reject
    even odd|public private|inside outside""".replace("\n", "|").split("|")
    if len(terms(pair)) == 2
)
_GENERIC = term_set(
    """function method class code file line value variable parameter argument return call check define
    implement handle provide ensure perform determine contain object type instance specific given process
    operation result step logic case create set get named following section source snippet example
    responsible based different current input output whether first then allows purpose"""
)
_COMMON = frozenset(
    """true false null nil none undefined nan self this super cls void int integer str string float double
    bool boolean char byte bytes list dict set tuple map array object number any unknown never func function
    def fn let var const class struct enum interface trait impl type import export package module return
    yield await async static public private protected final abstract extends implements new delete throw
    throws try catch finally raise except if else elif elsif unless while for foreach loop break
    continue switch case default match when where with end begin do then todo size_t uint8_t uint16_t
    uint32_t uint64_t int8_t int16_t int32_t int64_t usize isize vec option some err result std
    string_view unique_ptr shared_ptr promise console require exports document window process buffer
    json regexp date math symbol error typeerror get post put patch head options http https url uri html
    css sql xml yaml toml csv txt utf utf-8 ascii md py js ts rb go rs java cpp hpp php cs sh bash git
    npm pip make cmake docker sudo grep sed awk curl cd ls cat echo main args argv argc kwargs foo bar
    baz qux example your name path file value key index item data stdin stdout stderr println printf
    sprintf malloc free memcpy memset strlen strcmp exception throwable runnable iterator iterable
    stream optional arraylist hashmap hashset stringbuilder system override chan goroutine defer panic
    recover nameerror standarderror attr_reader attr_accessor initialize""".split()
)


class _Evidence(NamedTuple):
    """What the cited lines have: text in lower case with single spaces, terms, compact names, numbers."""

    text: str
    terms: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[float]


def check_support(
    text: str,
    sources: Sequence[Hit],
    *,
    given: str = "",
    occurs: Callable[[str], bool] = lambda name: True,
) -> SupportCheck:
    """Compare the statements of an answer with its sources.

    Args:
        text: the answer, its references resolved.
        sources: the sources that were shown, in the order of their numbers from 1.
        given: everything that the model was given: question, history, sources.
        occurs: whether an identifier occurs in the repositories.

    Returns:
        The counts, and the first `MAX_FLAGGED` statements that are not supported, in their order; of a
        sentence with an unknown name, both it and the name may be flagged.
    """
    found = statements(text)
    evidence = _Gathered(sources)
    asked = frozenset(map(compact, words(given)))
    flagged: list[FlaggedStatement] = []
    counts: dict[str, int] = dict.fromkeys(("supported", "weak", "unsupported", "uncited"), 0)
    for one in found:
        kind, reason = judged(one, evidence.of(one))
        counts[kind] += 1
        cited = one.cited
        if kind == "uncited" and len(flagged) < MAX_FLAGGED and (nearest := evidence.nearest(one)):
            cited, reason = (nearest,), f"{reason}; [{nearest}] has its words"
        if kind != "supported":
            flagged.append(FlaggedStatement(kind, one.text, reason, one.begin, one.end, cited))
    unknown = unknown_names(text, lambda name: compact(name) in asked or occurs(name))
    for name, (begin, sentence) in unknown.items():
        reason = f"`{name}` occurs nowhere in the repository"
        flagged.append(
            FlaggedStatement("unknown_name", sentence, reason, begin, min(len(text), begin + len(name)))
        )
    flagged.sort(key=lambda one: (one.begin_char, one.end_char))
    whole = len(text) <= MAX_CHARS and len(found) < MAX_STATEMENTS and len(flagged) <= MAX_FLAGGED
    return SupportCheck(
        statements=len(found),
        **counts,
        unknown_names=tuple(unknown)[:MAX_FLAGGED],
        flagged=tuple(flagged[:MAX_FLAGGED]),
        complete=whole,
    )


def unknown_names(text: str, occurs: Callable[[str], bool]) -> dict[str, tuple[int, str]]:
    """Return the names in code font that do not occur, each with its offset in the text and its sentence.

    `occurs` is called with each part of a dotted name. Keywords, standard names, numbers, options, commands
    of several words and placeholders are no names.
    """
    found: dict[str, tuple[int, str]] = {}
    looked_up = 0
    for offset, line in outside_fences(text[:MAX_CHARS]):
        for start, end in code_spans(line):
            name = line[start:end].strip("`").strip()
            if name in found or looked_up >= _MAX_NAMES or not _NAME.fullmatch(name):
                continue
            looked_up += 1
            if not _is_known(name, occurs):
                found[name] = (offset + start, sentence_at(line, start))
    return found


def compact(name: str) -> str:
    """Return an identifier in lower case without underscores: `maxSize` and `MAX_SIZE` are spelled alike."""
    return name.replace("_", "").replace("$", "").lower()


def judged(
    statement: AnswerStatement, evidence: _Evidence | None
) -> tuple[SupportKind | Literal["supported"], str]:
    """Return the kind of a statement ("supported" or one of `SupportKind`), and the reason."""
    if evidence is None:
        return "uncited", "it cites no source"
    bare = _bare(statement)
    for missing in _missing(bare, evidence):
        return "unsupported", f"{missing} does not occur in the cited lines"
    content = _content(bare)
    for word, opposite in _opposed(content, evidence.terms):
        return "unsupported", f"the cited lines have “{opposite}”, not “{word}”"
    if not content:
        return "supported", ""
    share = len(content & evidence.terms) / len(content)
    if share < _MIN_SHARE:
        return "unsupported", "it shares almost no word with the cited lines"
    if share < _WEAK_SHARE:
        return "weak", "it shares few words with the cited lines"
    return "supported", ""


def _bare(statement: AnswerStatement) -> str:
    return _PLACE.sub(" ", REFERENCE.sub(" ", statement.text))


def _content(bare: str) -> set[str]:
    """Return the terms of a sentence that say what it is about."""
    return {term for term in term_set(bare) if term not in _GENERIC and not term.isdigit()}


class _Gathered:
    """The evidence of combinations of sources, each computed once."""

    def __init__(self, sources: Sequence[Hit]) -> None:
        self._sources = sources
        self._known: dict[tuple[int, ...], _Evidence] = {}

    def of(self, statement: AnswerStatement) -> _Evidence | None:
        """Return what a statement's sources have; None if it cites none that was shown."""
        cited = tuple(n for n in statement.cited if 0 < n <= len(self._sources)) or self._by_place(statement)
        return self._of_sources(cited) if cited else None

    def nearest(self, statement: AnswerStatement) -> int:
        """Return the number of the source that has most of a statement's words, the first of several.

        It has all that the statement names, and at least half of its words; 0 if there is none.
        """
        bare = _bare(statement)
        content = _content(bare)
        every = [(n, self._of_sources((n,))) for n in range(1, len(self._sources) + 1)]
        shares = [(-len(content & one.terms), n, one) for n, one in every]
        for shared, n, one in sorted(shares, key=lambda share: share[:2]):
            if not content or -shared < _NEAREST_SHARE * len(content):
                break
            if not any(_missing(bare, one)):
                return n
        return 0

    def _of_sources(self, numbers: tuple[int, ...]) -> _Evidence:
        if numbers not in self._known:
            self._known[numbers] = _evidence([self._sources[n - 1] for n in numbers])
        return self._known[numbers]

    def _by_place(self, statement: AnswerStatement) -> tuple[int, ...]:
        """Return the sources that a sentence names as `path:line`."""
        if ":" not in statement.text:
            return ()
        return tuple(n for n, hit in enumerate(self._sources, 1) if f"{hit.path}:" in statement.text)


def _evidence(hits: Sequence[Hit]) -> _Evidence:
    texts = [f"{hit.path} {hit.scope} {hit.symbol}\n{hit.text[:_MAX_SOURCE_CHARS]}" for hit in hits]
    text = "\n".join(texts)
    numbers = {_number(match[0]) for match in _EVIDENCE_NUMBER.finditer(text)}
    return _Evidence(
        " ".join(text.lower().split()),
        frozenset(term_set(text)),
        frozenset(map(compact, words(text))),
        frozenset(number for number in numbers if number is not None),
    )


def _missing(sentence: str, evidence: _Evidence) -> Iterator[str]:
    """Yield what a sentence names and its lines do not have: names, quoted texts, numbers."""
    plain = sentence
    for start, end in code_spans(sentence):
        code = sentence[start:end].strip("`").strip()
        plain = plain[:start] + " " * (end - start) + plain[end:]
        if not _has_code(code, evidence):
            yield f"`{code[:60]}`"
    for match in _IDENTIFIER.finditer(plain):
        if not _has_name(match[0], evidence):
            yield f"`{match[0]}`"
    for match in _QUOTED.finditer(plain):
        if " ".join(match[1].lower().split()).strip(" .,;:") not in evidence.text:
            yield f"“{match[1]}”"
    for match in _NUMBER.finditer(plain):
        number = _number(match[0])
        is_label = _LINE_NUMBER.search(plain, max(0, match.start() - 20), match.start())
        if number is not None and not is_label and not _has_number(number, evidence.numbers):
            yield match[0].rstrip(",")


def _has_code(code: str, evidence: _Evidence) -> bool:
    if _FILE.fullmatch(code):
        return code.split(":")[0].rsplit("/", 1)[-1].lower() in evidence.text or _has_name(code, evidence)
    if (number := _number(code)) is not None:
        return _has_number(number, evidence.numbers)
    if not re.search(r"\w", code) or " ".join(code.lower().split()) in evidence.text:
        return True
    return _has_name(code, evidence)


def _has_name(code: str, evidence: _Evidence) -> bool:
    """Whether the lines have every part of a name; keywords and short parts need not occur."""
    return all(
        compact(part) in evidence.names or part.lower() in _COMMON or _is_stem_of(part, evidence)
        for part in _PART.findall(code)
    )


def _is_stem_of(part: str, evidence: _Evidence) -> bool:
    """Whether a plain word is in the lines in another form; an identifier must be there as a whole."""
    found = terms(part)
    return len(found) == 1 and found[0] in evidence.terms


def _has_number(number: float, numbers: Collection[float]) -> bool:
    if number in (0, 1):
        return True
    return any(number * scale in numbers or number / scale in numbers for scale in _SCALES)


def _number(written: str) -> float | None:
    digits = written.replace("_", "").replace(",", "").strip()
    try:
        return float(int(digits, 16)) if digits[:2].lower() == "0x" else float(digits)
    except ValueError:
        return None


def _opposed(content: Collection[str], evidence: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield words of a sentence whose opposite the lines have, and not the word itself."""
    for pair in _OPPOSITES:
        for word, opposite in (pair, pair[::-1]):
            if word in content and opposite not in content and opposite in evidence and word not in evidence:
                yield word, opposite


def _is_known(name: str, occurs: Callable[[str], bool]) -> bool:
    parts = _PART.findall(name)
    if parts and parts[0] in sys.stdlib_module_names:
        return True
    return all(part.lower() in _COMMON or part in _python_names() or occurs(part) for part in parts)


@cache
def _python_names() -> frozenset[str]:
    return frozenset([*dir(builtins), *dir(str), *dir(list), *dir(dict), *keyword.kwlist])
