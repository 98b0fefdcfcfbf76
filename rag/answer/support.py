"""Compare the statements of a model's answer with the lines that they cite, offline and without a model.

A statement is *unsupported* if it names what its lines do not have: a name (in code font, or written like an
identifier), a quoted text, a number; or if it shares no word with them. The words are those of the index:
stemmed, identifiers split. Examples of the question, names that the repositories do not have, are
not missed. This cannot see that words are in the wrong order ("A calls B" for "B calls A"), so a supported
statement is not proved, and a paraphrase in quite other words is flagged wrongly.

A source of one line, such as a search result, does not have all that can be said of its place: a statement
that cites one is compared with all that the model was given.

A statement that cites nothing is unsupported if it names what the model was not given. Else it is supported
if the source that has most of its words is cited elsewhere in the answer, no claim if it introduces
statements that cite, or *uncited*.

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
from functools import cache, cached_property
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
from rag.types import FlaggedStatement, Hit, SupportCheck

MAX_FLAGGED = 20
_MAX_NAMES = 200
"""The names of an answer that are looked up."""
_MAX_SOURCE_CHARS = 40_000
_MIN_WORDS = 3
"""A statement with this number of words that shares none with its lines is unsupported."""
_NEAREST_SHARE = 0.5
_LITERALS = frozenset("true false none null nil undefined".split())
"""Values that a statement in code font may have only if its lines have them."""
_ELLIPSIS = re.compile(r"…|\.\.\.")

_NAME = re.compile(r"(?!\d)[\w$@][\w.:/$>-]{0,150}\w[!?]?(?:\(\))?")
_IDENTIFIER_ALONE = re.compile(r"[\w$@.:>!?()-]+")
_PART = re.compile(r"(?!\d)[\w$]{3,}")
_IDENTIFIER = re.compile(
    r"(?<![\w/.-])(?:[A-Za-z]\w{0,80}_\w{1,80}|[a-z]\w{0,40}[a-z0-9][A-Z]\w{0,80}"
    r"|[A-Za-z]\w{1,80}(?=\(\)))"
)
_FILE = re.compile(r"[\w./-]{1,120}\.[A-Za-z]\w{0,6}(?::\d+(?:-\d+)?)?")
_QUOTED = re.compile(r'"([^"\n]{2,80})"')
_NUMBER = re.compile(
    r"(?<![\w.#])(?<![\W]-)(?:0[xX][0-9a-fA-F_]{1,16}|\d[\d_,]{0,20}(?:\.\d{1,10})?)(?!\.?\d)(?![\w]*[A-Za-z_]{3})"
)
_WORD = re.compile(r"\w+")
_NEXT_LITERAL = re.compile(r"""(["'`])\s{0,200}[+.\\]?\s{0,200}[a-z]{0,2}\1""")
_EVIDENCE_NUMBER = re.compile(r"0[xX][0-9a-fA-F_]{1,16}|\d[\d_]{0,20}(?:\.\d{1,10})?")
_LABEL = re.compile(
    r"\b(?:(?:lines?|versions?|steps?|python|sections?|rfc|http|examples?)\W{0,3}"
    r"|(?:such as|for example,?|e\.g\.) (?:an? )?)(?:\d{1,9}\W{1,3}(?:(?:and|or|to) )?){0,6}$",
    re.IGNORECASE,
)
"""What is before the number of a place, step or version, or of an example."""
_MAX_LABEL = 60
_PLACE = re.compile(r"[\w./-]{1,120}\.[A-Za-z]\w{0,6}:\d{1,7}(?:[–-]\d{1,7})?")
_SCALES = (1, 60, 3600, 86400, 1000, 100, 1024, 1024**2, 1024**3, 10**6, 10**9)
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
    """What the cited lines have: words in their order, terms, compact names, numbers.

    Literals that follow each other are one text; so a message that the code breaks over lines can be quoted.
    """

    text: str
    terms: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[float]


def check_support(
    text: str,
    sources: Sequence[Hit],
    *,
    question: str = "",
    given: str = "",
    occurs: Callable[[str], bool] = lambda name: True,
) -> SupportCheck:
    """Compare the statements of an answer with its sources.

    Args:
        text: the answer, its references resolved.
        sources: the sources that were shown, in the order of their numbers from 1.
        question: the question; its examples may occur in an answer.
        given: everything that the model was given: question, history, sources.
        occurs: whether an identifier occurs in the repositories.

    Returns:
        The counts, and the first `MAX_FLAGGED` statements that are not supported, in their order; of a
        sentence with an unknown name, both it and the name may be flagged.
    """
    found = statements(text)
    evidence = _Gathered(sources, question, given, occurs)
    used = {n for one in found for n in one.cited}
    flagged: list[FlaggedStatement] = []
    counts: dict[str, int] = dict.fromkeys(("supported", "unsupported", "uncited"), 0)
    for one in found:
        kind, reason = evidence.judged(one)
        cited = one.cited
        if kind == "uncited" and (nearest := evidence.nearest(one)):
            kind = "supported" if nearest in used else kind
            cited, reason = (nearest,), f"{reason}; [{nearest}] has its words"
        if kind == "uncited" and one.introduces:
            continue
        counts[kind] += 1
        if kind != "supported":
            flagged.append(FlaggedStatement(kind, one.text, reason, one.begin, one.end, cited))
    asked = frozenset(map(compact, words(given)))
    unknown = unknown_names(text, lambda name: compact(name) in asked or occurs(name))
    for name, (begin, sentence) in unknown.items():
        reason = f"`{name}` occurs nowhere in the repository"
        flagged.append(
            FlaggedStatement("unknown_name", sentence, reason, begin, min(len(text), begin + len(name)))
        )
    flagged.sort(key=lambda one: (one.begin_char, one.end_char))
    whole = len(text) <= MAX_CHARS and len(found) < MAX_STATEMENTS and len(flagged) <= MAX_FLAGGED
    return SupportCheck(
        statements=sum(counts.values()),
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


def _bare(statement: AnswerStatement) -> str:
    return _PLACE.sub(" ", REFERENCE.sub(" ", statement.text))


def _content(bare: str) -> set[str]:
    """Return the terms of a sentence that say what it is about."""
    return {term for term in term_set(bare) if term not in _GENERIC and not term.isdigit()}


class _Gathered:
    """What the sources have, each combination of them computed once, and the examples of the question."""

    def __init__(
        self, sources: Sequence[Hit], question: str, given: str, occurs: Callable[[str], bool]
    ) -> None:
        self._sources, self._given = sources, given
        self._known: dict[tuple[int, ...], _Evidence] = {}
        self._occurs = occurs
        self._asked = _evidence_of(question)

    def judged(
        self, statement: AnswerStatement
    ) -> tuple[Literal["supported", "unsupported", "uncited"], str]:
        """Return the kind of a statement, and the reason."""
        bare = _bare(statement)
        if (cited := self._cited(statement)) is None:
            for missing in self._missing(bare, self._everything):
                return "unsupported", f"{missing} does not occur in the sources"
            return "uncited", "it cites no source"
        for missing in self._missing(bare, cited):
            return "unsupported", f"{missing} does not occur in the cited lines"
        content = _content(bare)
        if len(content) >= _MIN_WORDS and not content & cited.terms:
            return "unsupported", "it shares no word with the cited lines"
        return "supported", ""

    def nearest(self, statement: AnswerStatement) -> int:
        """Return the number of the source that has most of a statement's words, the first of several.

        It has all that the statement names, and at least half of its words; 0 if there is none.
        """
        bare = _bare(statement)
        content = _content(bare)
        every = [(n, self._of_sources((n,))) for n in range(1, len(self._sources) + 1)]
        for _, n, one in sorted((-len(content & one.terms), n, one) for n, one in every):
            if not content or sum(word in one.terms for word in content) < _NEAREST_SHARE * len(content):
                break
            if not any(self._missing(bare, one)):
                return n
        return 0

    @cached_property
    def _everything(self) -> _Evidence:
        return _evidence_of("\n".join([self._given, *map(_text, self._sources)]))

    def _cited(self, statement: AnswerStatement) -> _Evidence | None:
        """Return what is compared with a statement; None if it cites no source that was shown."""
        cited = self._shown(statement.cited) or self._by_place(statement)
        if not cited:
            return None
        is_short = any(len(self._sources[n - 1].text.splitlines()) < 2 for n in cited)
        return self._everything if is_short else self._of_sources(cited)

    def _shown(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(n for n in numbers if 0 < n <= len(self._sources))

    def _of_sources(self, numbers: tuple[int, ...]) -> _Evidence:
        if numbers not in self._known:
            hits = [self._sources[n - 1] for n in numbers]
            self._known[numbers] = _evidence_of("\n".join(_text(hit) for hit in hits))
        return self._known[numbers]

    def _by_place(self, statement: AnswerStatement) -> tuple[int, ...]:
        """Return the sources that a sentence names as `path:line`."""
        if ":" not in statement.text:
            return ()
        return tuple(n for n, hit in enumerate(self._sources, 1) if f"{hit.path}:" in statement.text)

    def _missing(self, sentence: str, evidence: _Evidence) -> Iterator[str]:
        """Yield what a sentence names, and neither its lines nor the examples of the question have."""
        plain = sentence
        for start, end in code_spans(sentence):
            code = sentence[start:end].strip("`").strip()
            plain = plain[:start] + " " * (end - start) + plain[end:]
            if not _has_code(code, evidence) and not self._is_example(code):
                yield f"`{code[:60]}`"
        for match in _IDENTIFIER.finditer(plain):
            if not _has_name(match[0], evidence) and not self._is_example(match[0]):
                yield f"`{match[0]}`"
        for match in _QUOTED.finditer(plain):
            pieces = [_flat(piece) for piece in _ELLIPSIS.split(match[1])]
            if not all(piece in evidence.text or piece in self._asked.text for piece in pieces):
                yield f"“{match[1]}”"
        for match in _NUMBER.finditer(plain):
            number = _number(match[0])
            if number is None or _LABEL.search(plain, max(0, match.start() - _MAX_LABEL), match.start()):
                continue
            is_asked = _has_number(number, self._asked.numbers) or _is_rounded(number, self._asked.numbers)
            if not is_asked and not _has_number(number, evidence.numbers):
                yield match[0].rstrip(",")

    def _is_example(self, code: str) -> bool:
        """Return whether the question has this text, and it is no name of the repositories.

        A path or another text of several words, as written in the question, is an example whatever its words.
        """
        if not _has_code(code, self._asked):
            return False
        if not _IDENTIFIER_ALONE.fullmatch(code) and _flat(code) in self._asked.text:
            return True
        return not _NAME.fullmatch(code) or not all(self._occurs(part) for part in _PART.findall(code))


def _text(hit: Hit) -> str:
    return f"{hit.path} {hit.scope} {hit.symbol}\n{hit.text[:_MAX_SOURCE_CHARS]}"


def _evidence_of(text: str) -> _Evidence:
    numbers = {_number(match[0]) for match in _EVIDENCE_NUMBER.finditer(text)}
    return _Evidence(
        _flat(text),
        frozenset(term_set(text)),
        frozenset(map(compact, words(text))),
        frozenset(number for number in numbers if number is not None),
    )


def _flat(text: str) -> str:
    """Return the words of a text in their order, between spaces; literals that follow each other joined."""
    found = _WORD.findall(_NEXT_LITERAL.sub("", text.lower()))
    return f" {' '.join(found)} " if found else ""


def _has_code(code: str, evidence: _Evidence) -> bool:
    if _FILE.fullmatch(code):
        return _flat(code.split(":")[0].rsplit("/", 1)[-1]) in evidence.text or _has_name(code, evidence)
    if (number := _number(code)) is not None:
        return _has_number(number, evidence.numbers)
    if all(piece in evidence.text for piece in map(_flat, _ELLIPSIS.split(code))):
        return True
    if code.lower() in _LITERALS:
        return code.lower() in evidence.names
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


def _is_rounded(number: float, numbers: Collection[float]) -> bool:
    """Whether a number of two digits or more is one of these in a larger unit."""
    return number >= 10 and any(round(one / scale) == number for one in numbers for scale in _SCALES[1:])


def _number(written: str) -> float | None:
    digits = written.replace("_", "").replace(",", "").strip()
    try:
        return float(int(digits, 16)) if digits[:2].lower() == "0x" else float(digits)
    except ValueError:
        return None


def _is_known(name: str, occurs: Callable[[str], bool]) -> bool:
    parts = _PART.findall(name)
    if parts and parts[0] in sys.stdlib_module_names:
        return True
    return all(part.lower() in _COMMON or part in _python_names() or occurs(part) for part in parts)


@cache
def _python_names() -> frozenset[str]:
    return frozenset([*dir(builtins), *dir(str), *dir(list), *dir(dict), *keyword.kwlist])
