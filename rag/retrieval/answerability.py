"""Estimate how likely the repository holds an answer, from what was found and what was asked for.

An unlikely answer is returned with a warning. "Not found" is returned only for a question of which no word
occurs anywhere.

A question names things ("Kafka", "encrypt", `parse_range`) or paraphrases them in everyday words ("Why do I
get a notice instead of gibberish?"). A named thing that is missing from the best hits is evidence against an
answer, and the rarer the word is here, the stronger the evidence. A missing everyday word is weak evidence,
since code uses words of its own. How much a word names something was counted over the documentation of
thousands of packages (data/specificity.txt). A logistic model weighs thirteen signals between 0 and 1. It was
fitted on the dev questions and the train questions by kind; the trainer is
`tools/benchmarks/gate.py` of commit 7b601db9.

Greetings and instructions about the form of the answer are ignored. Text that occurs in the repository word
for word (a pasted error message) is always treated as answerable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

from rag.analysis import WORD, is_stop_word, term_set, terms
from rag.identifiers import LIKE_CODE, UPPER, folded
from rag.ports import takes_bags
from rag.retrieval.asked_definition import asked_definition
from rag.retrieval.context import lacks_subject
from rag.retrieval.dense import cosines, embed_question, nearest
from rag.retrieval.first_right import FirstSignals, WeighedWord, first_right, first_signals
from rag.retrieval.german import function_words
from rag.retrieval.instructions import without_instructions
from rag.retrieval.kinds.recognition import is_pasted
from rag.retrieval.lexical import K1, Rarity, bm25
from rag.retrieval.literal import is_quoted
from rag.retrieval.log_prefix import without_log_prefixes
from rag.retrieval.members import missing_part
from rag.retrieval.pronouns import bare_pronoun
from rag.retrieval.question import last_part, without_contractions, without_places
from rag.retrieval.question_language import is_foreign
from rag.retrieval.search import RetrievalResult, Searcher
from rag.retrieval.specificity import specificity
from rag.types import MIN_CONFIDENCE, CodeFacts, Confidence, Hit
from rag.types.question_kinds import (
    AFFECTED,
    AGAIN,
    CALLERS,
    COMMAND,
    HISTORY,
    LINES,
    LIST,
    MESSAGE,
    OVERVIEW,
    RECALL,
    SETTING,
    VARIABLES,
)

CHECKED_HITS = 3
"""How many of the best hits are checked, together, for the words of the question."""

DEFAULT_COSINE = 0.5
"""The cosine assumed for embedders for which nothing was fitted."""

_SENTENCE_BEGINS = re.compile(r"(?:^|[.?!:]\s)[\W_]*\Z")
_IN_A_NAME = re.compile(rf"[{UPPER}0-9_]")
_LIKE_CODE = re.compile(LIKE_CODE)
_MISSING_PART = 0.2
"""The confidence if a part that the question names does not exist."""
_MAX_GAP_CHARS = 100
"""The largest number of characters between two words."""


class Signals(NamedTuple):
    """The evidence for and against an answer, each value from 0 to 1.

    `unmet`: how much of the named things the best hits lack; `name`: the rarest such word that is written as
    a name; `paraphrased`: how much of the plain words they lack; `covered`: the share of all words that they
    hold, weighted by rarity; `lexical`: the best chunk's BM25 as a share of the maximum for the question;
    `near`: the best chunk's cosine with the question; `titled`: how much of the question is in the name that
    one of the best hits defines, as weighed in the ranking; `absent`: the share of the words that are
    everyday words and occur nowhere; `absent_name`: 1 if a word written like an identifier occurs nowhere;
    `phrase`: how much of the question one of the best hits holds word for word; `words`: the number of words,
    1 from twelve; `everyday`: how much they are everyday words; `ahead`: how far the first hit is ahead of
    the fifth.
    """

    unmet: float
    name: float
    paraphrased: float
    covered: float
    lexical: float
    near: float
    titled: float
    absent: float
    absent_name: float
    phrase: float
    words: float
    everyday: float
    ahead: float


@dataclass(frozen=True, slots=True)
class AnswerabilityWeights:
    """The weight of each signal, in the order of `Signals`; a sum above zero means an answer."""

    unmet: float
    name: float
    paraphrased: float
    covered: float
    lexical: float
    near: float
    titled: float
    absent: float
    absent_name: float
    phrase: float
    words: float
    everyday: float
    ahead: float
    bias: float


FITTED = AnswerabilityWeights(
    *(-2.35, -0.50, 5.18, 1.63, 4.43, 1.72, 4.84, -4.05, -2.45, 5.66, 1.87, 2.70, 2.48), bias=-5.41
)


def judge(
    searchers: Sequence[Searcher], found: RetrievalResult, weights: AnswerabilityWeights = FITTED
) -> Confidence:
    """Estimate how likely the repositories hold an answer to the question that was searched.

    The probability is 0 without hits, and where no word of the question occurs, unless it depends on earlier
    questions. A place or a quotation in the question itself counts as an answer. A question in a language
    other than English counts as answered when the embedder may understand it.
    """
    asked = _question_words(searchers, found)
    named = [word for word in asked if word.specific >= 0.5 and word.lack > 0]
    lacking = sorted(named, key=lambda word: -word.lack)
    by_words = any(takes_bags(searcher.embedder) for searcher in searchers)
    foreign = any(is_foreign(found.sought.question.text, searcher.embedder) for searcher in searchers)
    leans = found.sought.leans and found.sought.question.dependent
    occurs = not asked or leans or any(word.occurs for word in asked)
    value = 0.0
    right = first_right(_of_first(found, asked)) if found.hits else None
    facts = found.code_facts
    if (
        facts is not None
        and (facts.certain_count or facts.kind in (CALLERS, OVERVIEW))
        and _names_subject(facts, found)
    ):
        value = 1.0  # the definition or the file that the question names exists
    elif found.hits and (
        found.ranked[0].legs.get("pointed")
        or _shows_subject(found)
        or _asks_for_defined(searchers, found)
        or (foreign and not by_words)
    ):
        value = 1.0
    elif found.hits and occurs:
        value = _probability(_signals(searchers, found, asked), weights)
        pasted = is_pasted(found.sought.question.text)
        is_message = pasted and facts is not None and facts.kind == MESSAGE
        if value < MIN_CONFIDENCE and (
            is_message or is_quoted([searcher.index for searcher in searchers], _judged_text(found))
        ):
            value = MIN_CONFIDENCE
    if foreign and value < MIN_CONFIDENCE and _names_definition(searchers, found):
        value = MIN_CONFIDENCE
    missing = missing_part([searcher.index for searcher in searchers], _judged_text(found))
    if missing is not None:
        value = min(value, _MISSING_PART)
    return Confidence(
        value=value,
        found=not lacks_subject(found.sought) and (value >= MIN_CONFIDENCE or (bool(found.hits) and occurs)),
        sought=tuple(word.text for word in asked),
        unmet=tuple(
            word.text
            for word in lacking
            if not word.absent and not _is_in(found.ranked[:CHECKED_HITS], word.text)
        ),
        absent=tuple(word.text for word in lacking if word.absent),
        foreign=foreign and by_words,
        first_right=right,
        missing_part=missing,
    )


def _is_in(hits: Sequence[Hit], word: str) -> bool:
    """Return whether a word occurs in the text of a hit, also as part of a name."""
    return any(folded(word) in folded(hit.text) for hit in hits)


def _names_subject(facts: CodeFacts, found: RetrievalResult) -> bool:
    """Return whether the question names what the facts are about, as the code does, or as "it"."""
    if facts.kind in (AFFECTED, AGAIN, COMMAND, HISTORY, LINES, OVERVIEW, RECALL, SETTING, VARIABLES):
        return True
    name, sought = last_part(facts.subject), found.sought
    if sought.subject and last_part(sought.subject.symbol) == name and bare_pronoun(sought.question.text):
        return True
    is_name = _LIKE_CODE.search(name) is not None or specificity(folded(name)) == 1
    is_name = is_name or name in sought.question.names or (facts.kind == CALLERS and facts.count > 0)
    return facts.kind in (CALLERS, LIST) and is_name and name in sought.question.text


def _shows_subject(found: RetrievalResult) -> bool:
    """Return whether the question asks only for "it", and the first hit is what that means."""
    subject = found.sought.subject
    is_first = subject is not None and (subject.path, subject.symbol) == (
        found.ranked[0].path,
        found.ranked[0].symbol,
    )
    return is_first and (found.sought.bare or bare_pronoun(found.sought.question.text) != "")


def _names_definition(searchers: Sequence[Searcher], found: RetrievalResult) -> bool:
    """Return whether the question has the name of a definition, in whatever language the rest is."""
    names = map(last_part, found.sought.question.names)
    return any(searcher.defines(name) for name in names for searcher in searchers)


def _asks_for_defined(searchers: Sequence[Searcher], found: RetrievalResult) -> bool:
    """Return whether the question asks for a definition that exists: "Where is `t` defined?"."""
    name = asked_definition(found.sought.question)
    graphs = [searcher.index.graph for searcher in searchers if name]
    return any(graph.definitions(name) or graph.values(name) for graph in graphs)


def signals(searchers: Sequence[Searcher], found: RetrievalResult) -> Signals:
    """Return the signals of a search, for fitting. `found` has at least one hit."""
    return _signals(searchers, found, _question_words(searchers, found))


def signals_of_first(searchers: Sequence[Searcher], found: RetrievalResult) -> FirstSignals:
    """Return the signals of the first hit, for fitting. `found` has at least one hit."""
    return _of_first(found, _question_words(searchers, found))


def titled(found: RetrievalResult) -> float:
    """Return how much of the question is in the name that one of the best hits defines, as weighed in the
    ranking.
    """
    return max((hit.legs.get("symbol", 0.0) for hit in found.ranked[:CHECKED_HITS]), default=0.0)


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the question: its rarity here, and the share of it that the best hits hold, from 0 to 1.

    `specific` is how much it names something, from 0 to 1; `named` words are written as names. An `absent`
    word occurs nowhere as a whole; a part of it may still occur.
    """

    text: str
    rarity: float
    held: float
    specific: float
    named: bool
    absent: bool
    occurs: bool

    @property
    def lack(self) -> float:
        return self.rarity * (1 - self.held)


def _signals(searchers: Sequence[Searcher], found: RetrievalResult, asked: Sequence[_Word]) -> Signals:
    unmet = sum(word.lack * word.specific for word in asked)
    paraphrased = sum(word.lack * (1 - word.specific) for word in asked)
    rarity = sum(word.rarity for word in asked)
    count = max(len(asked), 1)
    scores = [hit.score for hit in found.ranked[:5]] or [0.0]
    question = found.sought.question.text
    near = found.near if without_instructions(question) == question else None
    if near is None:
        near = max((_near(searcher, found) for searcher in searchers), default=0.0)
    return Signals(
        unmet=1 - math.exp(-unmet),
        name=max((word.lack for word in asked if word.named), default=0.0),
        paraphrased=1 - math.exp(-paraphrased / 2),
        covered=sum(word.rarity * word.held for word in asked) / rarity if rarity else 1.0,
        lexical=_lexical(searchers, found),
        near=near,
        titled=titled(found),
        absent=sum(word.absent and not word.named and word.specific < 0.5 for word in asked) / count,
        absent_name=float(any(word.absent and _LIKE_CODE.search(word.text) for word in asked)),
        phrase=max((hit.legs.get("phrase", 0.0) for hit in found.ranked[:CHECKED_HITS]), default=0.0) / 1.5,
        words=min(len(asked), 12) / 12,
        everyday=sum(1 - word.specific for word in asked) / count,
        ahead=max(1 - scores[-1] / scores[0], 0.0) if scores[0] > 0 else 0.0,
    )


def _of_first(found: RetrievalResult, asked: Sequence[_Word]) -> FirstSignals:
    held = set(_terms_of(found.hits[0]))
    words = [WeighedWord(word.rarity, terms(word.text)[-1] in held) for word in asked]
    facts = found.code_facts is not None
    return first_signals(found.hits, words, facts=facts, follow_up=bool(found.sought.carried))


def _probability(given: Signals, weights: AnswerabilityWeights) -> float:
    *factors, bias = astuple(weights)
    total = bias + sum(weight * signal for weight, signal in zip(factors, given, strict=True))
    return 1 / (1 + math.exp(-total))


def _lexical(searchers: Sequence[Searcher], found: RetrievalResult) -> float:
    """Return the best chunk's BM25 for the question's own words, as a share of the maximum BM25."""
    own = _own_terms(found)
    rarity = Rarity([searcher.index for searcher in searchers])
    most = sum(weight * rarity(term) for term, weight in own.items())
    best = found.lexical if own is found.sought.question.terms else None
    if best is None:
        scores = [bm25(searcher.index, own, rarity) for searcher in searchers]
        best = max((float(each.max(initial=0.0)) for each in scores), default=0.0)
    return min(best / (most * (K1 + 1)), 1.0) if most else 0.0


def _own_terms(found: RetrievalResult) -> dict[str, float]:
    """Return the terms of the question, without those of greetings and instructions."""
    question = found.sought.question
    judged = without_instructions(question.text)
    if judged == question.text:
        return question.terms
    around = set(terms(question.text)) - set(terms(judged))
    return {term: weight for term, weight in question.terms.items() if term not in around}


def _near(searcher: Searcher, found: RetrievalResult) -> float:
    """Return the best chunk's cosine with the question's own words; a default where the scale is unknown."""
    text, index = without_instructions(found.sought.question.text), searcher.index
    if not takes_bags(searcher.embedder) or not len(index):
        return DEFAULT_COSINE
    query = embed_question(searcher.embedder, index, text, _own_terms(found))
    best = nearest(searcher.vectors, index, query, 1)
    return max(float(cosines(index, best, query).max(initial=0.0)), 0.0)


def _judged_text(found: RetrievalResult) -> str:
    """Return the question without parts that need not occur: places, greetings, the form of the answer."""
    said = without_log_prefixes(found.sought.question.text)
    return without_contractions(without_instructions(without_places(said)))


def _question_words(searchers: Sequence[Searcher], found: RetrievalResult) -> list[_Word]:
    """Return the meaningful words of the question, each once, in their order."""
    text = _judged_text(found)
    held = set().union(*map(_terms_of, found.ranked[:CHECKED_HITS]))
    held |= {term for repo in {hit.repo for hit in found.hits} for term in terms(repo)}
    chunks = sum(searcher.index.live_count for searcher in searchers)
    words: dict[str, _Word] = {}
    names, ignored = _names(text), function_words(text)
    for match in WORD.finditer(text):
        lower = match[0].lower()
        if lower in words or lower in ignored:
            continue
        parts = [term for term in dict.fromkeys(terms(match[0])) if len(term) > 1 or not term.isascii()]
        if not parts:
            continue
        count = {term: sum(len(s.index.postings(term).chunks) for s in searchers) for term in parts}
        named = match.start() in names
        words[lower] = _Word(
            text=match[0],
            rarity=_mean([_rarity(chunks, count[term]) for term in parts]),
            held=_held_share(parts, {term: _rarity(chunks, count[term]) for term in parts}, held),
            specific=1.0 if named else max(specificity(part) for part in parts),
            named=named,
            absent=not count[parts[-1]] and parts[-1] not in held,
            occurs=any(count[part] or part in held for part in parts),
        )
    return list(words.values())


def _held_share(parts: Sequence[str], rarity: dict[str, float], held: set[str]) -> float:
    """Return the share of a word that is held: 1 for the whole identifier, up to half for its parts."""
    if parts[-1] in held or len(parts) == 1:
        return float(parts[-1] in held)
    *pieces, _ = parts
    total = sum(rarity[piece] for piece in pieces)
    return sum(rarity[piece] for piece in pieces if piece in held) / total / 2 if total else 0.5


def _terms_of(hit: Hit) -> set[str]:
    return term_set(f"{hit.text} {hit.path} {hit.scope} {hit.symbol}")


def _rarity(chunks: int, holding: int) -> float:
    """Return 1 for a term that no chunk holds, 0 for one that all chunks hold."""
    most = math.log1p((chunks + 0.5) / 0.5)
    return math.log1p((max(chunks - holding, 0) + 0.5) / (holding + 0.5)) / most if chunks else 1.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _names(text: str) -> set[int]:
    """Return where the words that are written as names begin: `parse_range`, HTTP2, Kafka within a sentence.

    Return none when most words are capitalised, as in a title.
    """
    found, capitalisable = set(), 0
    for match in WORD.finditer(text):
        if is_stop_word(match[0]):
            continue
        capitalisable += 1
        near = max(match.start() - _MAX_GAP_CHARS, 0)  # searching from the start would be quadratic
        begins = _SENTENCE_BEGINS.search(text, near, match.start()) is not None
        if _IN_A_NAME.search(match[0][1:] if begins else match[0]):
            found.add(match.start())
    return found if len(found) <= max(capitalisable / 2, 1) else set()
