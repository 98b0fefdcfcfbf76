"""Find what happens if something fails: the lines of the subject that raise, handle or return a failure.

If the question asks what is returned, these are all lines that return something, too. The subject is that of
the conversation if the question names nothing else; if not, it is one of the best hits: the ranking counts
most, then how many such lines a hit has and how much of the question they and the lines before them hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import numpy as np

from rag.analysis import is_stop_word, terms, words
from rag.code.languages import language_of_path
from rag.lines import lines_of
from rag.retrieval.asked_definition import AFTER, HERE, NAME, UNIT
from rag.retrieval.kinds.asked import Asked, FactPlace, FileText, Ranked, code_facts, named
from rag.retrieval.kinds.recognition import without_quoted_names
from rag.retrieval.lexical import Rarity
from rag.retrieval.pronouns import bare_pronoun, words_of_its_own
from rag.retrieval.question import last_part
from rag.types import CodeFacts
from rag.types.question_kinds import FAILURE

_OF_A_NAME = re.compile(
    rf"\A\W*(?:what|which) (?:(?:errors?|exceptions?) )?(?:does|can|could|may|might|will|would) "
    rf"{UNIT}{NAME}{AFTER} (?:return|raise|throw|fail with|give back){HERE}",
    re.I,
)
"""A question that is about one definition by its name, whatever else the repository has."""
_DOES = re.compile(r"\bwhat (?:does|do|will|would|can) (?:the )?`?(?-i:\w*[a-z\d][A-Z_]\w)", re.I)
"""A question for what a function does itself, not what it calls."""
_EMPHASIS = frozenset("exactly actually really precisely".split())
_ON_CONDITION = re.compile(
    rf"(?<!\Awhat happens )(?<!\Awhat )\b(?:when|if|once|after|before|unless) {UNIT}{NAME} "
    r"(?:raises|returns|throws|fails|finds|gives|yields|is|has|panics|errors)\b",
    re.I,
)
"""A function on which what is asked for depends: "Which error is logged when send_mail fails?"."""
_HITS = 10
_MAX_PLACES = 6
_ENOUGH = 3
_MAX_LINE_CHARS = 400
_MAX_DEFINITIONS = 12
_FAILS, _COVERED = 0.2, 0.2
"""The weights of failure lines, and of the share of the question that they hold; that of the ranking is 1."""
_LEANED_ON = 1.1
"""The weight of the subject of a question that leans on it; that of the best hit is 1."""
_FAILURE = re.compile(
    r"\b(?:raise|throw|throws|rescue|except|catch|panic|abort|fail\w*|exit|die|errors?\.New|Errorf|Err|error|err"
    r"|warn\w*|ERR\w*|E[A-Z]{3,}|return -1|return (?:nil|None|null|false|NULL|undefined)|Left|Nothing"
    r"|invalid\w*|reject|bail|anyhow|ensure)\b|:error|\bERROR|\b[A-Z]+_E[A-Z]+\b"
)
_NO_FAILURE = re.compile(r"\s*func\b.*\{\s*$")
"""The head of a function of Go, which names its error among the results."""
_ASKS_RETURNED = re.compile(
    r"\bwhat (?:does|do|did|will|would|is|are)\b[^?.]{0,80}\breturn(?:s|ed)?\b"
    r"|\bwhat\b[^?.]{0,40}\b(?:comes?|get|gets|gives?|given|hands?|handed|sends?|sent) back\b",
    re.I,
)
_RETURNS = re.compile(r"(?:^|[;:{}()>]|\b(?:else|then|do|and|or)\b)\s*(?:return|yield)\b")
_LAST_IS_RETURNED = frozenset({"ruby", "rust", "elixir", "scala", "haskell", "ocaml", "clojure"})
"""Languages in which the last expression of a function is returned, without a word for it."""
_LAST_TOO = "the last expression is returned too"
_COMMENT = re.compile(r"\s*(?://|#(?!\s*define)|/\*|\*|--|;|\"{3}|'{3}|<!--|%|:)")
_OPENS = re.compile(r"\s*[rRuU]?(\"{3}|'{3}|/\*)")
_CLOSING = {'"""': '"""', "'''": "'''", "/*": "*/"}
_REASONS = (
    ("raises", re.compile(r"\b(?:raise|throw|panic|abort|die|reject)\b")),
    ("handles", re.compile(r"\b(?:except|catch|rescue)\b")),
    ("returns", re.compile(r"\breturn\b")),
)

_Subject = tuple[FileText, tuple[int, int], str]
"""A definition: its file, its first and last line, its name."""


def find(asked: Asked) -> CodeFacts | None:
    """Return the failure lines of the hit that fits best, or of the subject if the question names only that
    ("What if it fails?"); None if there are none.

    A question that leans on its subject and names more ("What if the address is missing?") may mean another
    place, if the failure lines there hold some of it.
    """
    wanted = _weights(asked)
    if (own := _named_subject(asked)) is not None and (found := _facts(asked, *own, wanted)) is not None:
        return found
    subject = _subject(asked)
    if subject is not None and bare_pronoun(asked.question.question.text):
        return _facts(asked, *subject, wanted)
    if subject is not None and not _has_a_word(asked, *subject):
        subject = None
    if functions := _named_functions(asked):
        facts = _facts(asked, *max(functions, key=lambda one: _own_score(asked, one, wanted)), wanted)
        if facts is not None or _DOES.search(asked.question.question.text):
            return facts
    best = 0.0
    chosen: _Subject | None = None
    if subject is not None:
        best, chosen = _own_score(asked, subject, wanted), subject
    top = max(asked.best[0].hit.score, 1e-9)
    for one in asked.best[:_HITS]:
        if one.hit.kind != "code":
            continue
        score, covered = _score(one.hit.score / top, lines_of(one.hit.text), asked, wanted)
        if score <= best or (asked.question.leans and not covered):
            continue
        file_of_hit = asked.file(one.index, one.hit.path)
        if file_of_hit is not None:
            best = score
            chosen = file_of_hit, _all_chunks(one, file_of_hit), one.hit.label or one.hit.path
    if chosen is None or best < max(_plain(asked), 0.0):
        return None
    return _facts(asked, *chosen, wanted, is_named=chosen is subject)


def _own_score(asked: Asked, one: _Subject, wanted: dict[str, float]) -> float:
    """Return the score of a definition that the question names or leans on."""
    file, (first, last), _ = one
    return _score(_LEANED_ON, file.lines[first - 1 : last], asked, wanted)[0]


def _score(
    ranked: float, lines: Sequence[str], asked: Asked, wanted: dict[str, float]
) -> tuple[float, float]:
    """Return the score of a place and the share of the question in its failure lines; 0 if it has none."""
    failing = _failing(lines, asked)
    if not failing:
        return 0.0, 0.0
    covered = _covered(lines, failing, wanted)
    return ranked + _FAILS * min(len(failing), _ENOUGH) / _ENOUGH + _COVERED * covered, covered


def _named_functions(asked: Asked) -> list[_Subject]:
    """Return the functions that a question names as code does, apart from those of a condition: it is about
    no other one.
    """
    found: list[_Subject] = []
    conditions = [one[1] for one in _ON_CONDITION.finditer(asked.question.question.text)]
    names = [name for name in asked.question.question.names if name not in conditions]
    for index, name in product(asked.indexes, names):
        defined = [one for one in index.graph.definitions(last_part(name)) if one.unit == "function"]
        within = [one for one in defined if one.qualified_name == name] or defined
        for one in within if len(within) <= _MAX_DEFINITIONS else ():
            if (file := asked.file(index, one.path)) is not None and asked.kind_of(file) != "test":
                found.append((file, (one.start, one.end), one.qualified_name))
    return found


def _named_subject(asked: Asked) -> _Subject | None:
    """Return the only definition of the name that is asked about; None if there is none, or several."""
    named_one = _OF_A_NAME.match(asked.question.question.text)
    name = next(filter(None, named_one.groups()), "") if named_one else ""
    if not name or is_stop_word(name):
        return None
    defined = [(index, one) for index in asked.indexes for one in index.graph.definitions(name)]
    file = asked.file(defined[0][0], defined[0][1].path) if len(defined) == 1 else None
    if file is None:
        return None
    one = defined[0][1]
    return file, (one.start, one.end), one.qualified_name


def _subject(asked: Asked) -> _Subject | None:
    """Return the definition that a question leans on: its file, lines and name; None if there is none."""
    meant = asked.question.subject
    if meant is None or not meant.symbol or not asked.question.leans:
        return None
    for index in asked.indexes:
        for one in index.graph.definitions(meant.symbol):
            if (one.path, one.scope) == (meant.path, meant.scope) and (file := asked.file(index, one.path)):
                return file, (one.start, one.end), one.qualified_name
    return None


def _has_a_word(asked: Asked, file: FileText, span: tuple[int, int], _: str) -> bool:
    """Return whether the lines of the subject have a word of what the question names, if it names something.

    "What is returned when a hook is not found?" is not about a subject without hooks.
    """
    named = _named_terms(asked)
    if asked.question.question.dependent or not named:
        return True
    return not named.isdisjoint(terms(" ".join(file.lines[span[0] - 1 : span[1]])))


def _facts(
    asked: Asked,
    file: FileText,
    span: tuple[int, int],
    name: str,
    wanted: dict[str, float],
    *,
    is_named: bool = True,
) -> CodeFacts | None:
    """Return the failure lines between two lines of a file, those that fit the question best; None if there
    are none. What the question does not name only fits best.
    """
    first, last = span
    lines = file.lines[first - 1 : last]
    failing = _failing(lines, asked)
    if not failing:
        return None
    kept = sorted(failing, key=lambda n: -_covered(lines, [n], wanted))[:_MAX_PLACES]
    places = [FactPlace(file, first + n, _reason(lines[n])) for n in sorted(kept)]
    count = "1 line" if len(failing) == 1 else f"{len(failing)} lines"
    what, note = "on failures", ""
    if _asks_returned(asked):
        what = f"that return{'s' * (len(failing) == 1)} or fail{'s' * (len(failing) == 1)}"
        note = _LAST_TOO if language_of_path(file.path) in _LAST_IS_RETURNED else ""
    has = "has" if is_named or _is_written(asked, name) else "fits best; it has"
    summary = f"{named(name)} {has} {count} {what}"
    return code_facts(asked, FAILURE, name, summary, places, note=note, count=len(failing))


def _is_written(asked: Asked, name: str) -> bool:
    """Return whether a question has a name, as a word."""
    return last_part(name).lower() in map(str.lower, words(asked.question.question.text))


def _asks_returned(asked: Asked) -> bool:
    return _ASKS_RETURNED.search(without_quoted_names(asked.question.question.text)) is not None


def _failing(lines: Sequence[str], asked: Asked) -> list[int]:
    """Return the numbers of the lines on failures, from 0, and of those that return if that is asked."""
    returns, documentation = _asks_returned(asked), _documentation(lines)
    return [
        number
        for number, line in enumerate(line[:_MAX_LINE_CHARS] for line in lines)
        if number not in documentation
        and _COMMENT.match(line) is None
        and not _NO_FAILURE.match(line)
        and (_FAILURE.search(line) or (returns and _RETURNS.search(line)))
    ]


def _documentation(lines: Sequence[str]) -> set[int]:
    """Return the lines, from 0, of docstrings and block comments that take several; they are prose.

    Marks alone on a line that are not closed end what began before the first line, in a part of a definition.
    """
    found: set[int] = set()
    closing, opened_at = "", 0
    for number, line in enumerate(lines):
        if closing:
            found.add(number)
            closing = "" if closing in line else closing
        elif (opened := _OPENS.match(line)) and _CLOSING[opened[1]] not in line[opened.end() :]:
            closing, opened_at = _CLOSING[opened[1]], number
    if closing and lines[opened_at].strip() == closing:
        return set(range(opened_at))
    return found


def _all_chunks(one: Ranked, file: FileText) -> tuple[int, int]:
    """Return the first and last line of the chunks of a hit's definition, which may be cut into several."""
    chunks, own = file.chunks, (one.hit.symbol, one.hit.scope)
    names = one.index.names(np.asarray(chunks, np.int64))
    first = last = chunks.index(file.chunk_at(one.hit.start))
    while own[0] and first > 0 and names[first - 1] == own:
        first -= 1
    while own[0] and last + 1 < len(chunks) and names[last + 1] == own:
        last += 1
    end = one.index.hit(chunks[last], 0.0, {}).end
    return min(one.index.lines(chunks[first])[0], one.hit.start), max(end, one.hit.end)


def _plain(asked: Asked) -> float:
    """Return the score of the best hit if it is no code: then nothing is a subject but what beats it."""
    return 0.0 if asked.best[0].hit.kind == "code" else 1.0


def _weights(asked: Asked) -> dict[str, float]:
    """Return the weights of the terms; those that only ask for failures do not count next to others."""
    rarity, every = Rarity(asked.indexes), asked.question.question.terms
    return {term: max(rarity(term), 0.1) for term in (every.keys() & _named_terms(asked)) or every}


def _named_terms(asked: Asked) -> set[str]:
    """Return the terms of what a question names, without what it asks for."""
    text = _ASKS_RETURNED.sub(" ", without_quoted_names(asked.question.question.text))
    return {term for word in words_of_its_own(text) if word not in _EMPHASIS for term in terms(word)}


def _covered(lines: Sequence[str], failing: Sequence[int], wanted: dict[str, float]) -> float:
    """Return the share of the question, by weight, in some lines and the two lines before each."""
    near = {n for at in failing for n in range(max(at - 2, 0), at + 1)}
    held = set(terms(" ".join(lines[n][:_MAX_LINE_CHARS] for n in sorted(near)))) & wanted.keys()
    return sum(wanted[term] for term in held) / (sum(wanted.values()) or 1.0)


def _reason(line: str) -> str:
    return next((reason for reason, pattern in _REASONS if pattern.search(line)), "reports")
