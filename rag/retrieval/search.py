"""The whole search: turn a question in its context into ranked hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.code.languages import kind_of_path
from rag.identifiers import composed
from rag.ports import ChunkIndex, Embedder, Reranker, VectorIndex, Vectors, takes_bags
from rag.retrieval import rank
from rag.retrieval.asked_definition import asked_definition, definition_chunks
from rag.retrieval.build_commands import asked_script
from rag.retrieval.changes import read_change
from rag.retrieval.context import CARRY, Carry, ContextualQuestion, in_context
from rag.retrieval.dense import cosines, embed_question, mixed, nearest
from rag.retrieval.german import in_english
from rag.retrieval.instructions import without_client_blocks
from rag.retrieval.kinds.asked import Asked, Ranked, merged_hits
from rag.retrieval.kinds.recognition import is_answered_by_rules, is_pasted, kinds_of, relation_of
from rag.retrieval.kinds.rules import find, hits_for
from rag.retrieval.lexical import Bm25, Rarity
from rag.retrieval.literal import SOUGHT, name_chunks, phrase_chunks
from rag.retrieval.mentions import project_question, referenced
from rag.retrieval.named_folders import folder_factor
from rag.retrieval.own_subject import names_its_subject
from rag.retrieval.project_questions import ProjectQuestion
from rag.retrieval.pronouns import bare_pronoun
from rag.retrieval.question import ParsedQuestion, bare_name, last_part, parse_question, without_marks
from rag.retrieval.question_language import names_apart
from rag.retrieval.relations import facet_factor, shown_factor
from rag.retrieval.rerank import RERANKED, rerank
from rag.retrieval.shown_definition import named_at, named_by, named_by_key
from rag.retrieval.spelling import corrected, corrections
from rag.retrieval.synonyms import synonyms
from rag.retrieval.url_paths import url_path_chunks
from rag.retrieval.working_set import Exchange, WeighedPlace
from rag.types import CodeFacts, Hit, Subject
from rag.types.question_kinds import (
    CALLERS,
    COMMAND,
    ERRORS,
    LINES,
    MESSAGE,
    OPTIONS,
    OVERVIEW,
    SETTING,
    VARIABLES,
)

CANDIDATES = 250
"""How many chunks each retriever proposes."""
MAX_RANKED = 250
"""How many of them, the best of both retrievers, are ranked by all signals; three times k if that is more."""
FURTHER_HITS = RERANKED
"""How many hits, with those asked for, a prompt with room can show."""
SHOWN_HITS = 5
"""How many hits of an earlier question count as its answer, where only the question is known."""
SYNONYM_WEIGHT = 0.7
"""The weight of a synonym in a name; the question's own word weighs 1."""


@dataclass(frozen=True, slots=True)
class Searcher:
    """A store with everything needed to search it."""

    index: ChunkIndex
    embedder: Embedder
    vectors: VectorIndex
    weights: rank.RankingWeights = rank.DEFAULT
    carry: Carry = CARRY
    reranker: Reranker | None = None
    fused_reranker: Reranker | None = None
    """The second stage of what a question and its phrasings found together."""

    def defines(self, name: str) -> bool:
        """Return whether the store has a definition of a name."""
        occurs = all(len(self.index.postings(term).chunks) for term in terms(name))
        return occurs and bool(self.index.defining(name) or self.index.graph.definitions(name))

    def has(self, place: Subject) -> bool:
        """Return whether the graph of the store has the definition or the value at a place."""
        graph = self.index.graph
        found = (*graph.definitions(place.symbol), *graph.values(place.symbol)) if place.symbol else ()
        return any(one.path == place.path for one in found)


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """Hits, best first, and the question as it was searched.

    `near` is the best cosine of any chunk with the question; None if context was added to the question
    vector, or the scale is not known. `lexical` is the best BM25; None if context terms were added. `taken`
    maps the mistyped words of the question to their corrections. `ranked` are the hits of the ranking alone;
    `further` are the next ones after `hits`, if they are wanted for a prompt with room; `changed` is the
    number of changed files if the text is a pasted change, whose tests come first; `is_overview` if the
    question is about the project as a whole;
    `code_facts` is None unless the question is of a known kind and its rules found something: then the chunks
    that hold the facts come first among the hits. `phrased` are the results of phrasings whose hits are among
    these.
    """

    hits: tuple[Hit, ...]
    ranked: tuple[Hit, ...]
    sought: ContextualQuestion
    near: float | None = None
    lexical: float | None = None
    taken: Mapping[str, str] = field(default_factory=dict)
    code_facts: CodeFacts | None = None
    further: tuple[Hit, ...] = ()
    changed: int = 0
    is_overview: bool = False
    phrased: tuple[RetrievalResult, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """Return notes about the search for the person who asked, as sentences."""
        notes = [f'"{word}" was not found; searched for "{other}"' for word, other in self.taken.items()]
        files = "1 changed file" if self.changed == 1 else f"{self.changed} changed files"
        return [*notes, *([f"the text names {files}: tests for them come first"] if self.changed else [])]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The candidates of one store, with the values of the two retrievers (not yet scaled).

    `named` is 1 for those that the question or the conversation names; `pointed` is how strongly the question
    refers to some of them, `asked_lines` where the answer begins in these, `phrases` how much of it some of
    them hold word for word, and `SOUGHT` for those that it asks for by name or quotation; `alike` are the
    synonyms searched; candidates that are not `headed` have none of the words in path or name.
    """

    searcher: Searcher
    query: Vectors
    alike: dict[str, float]
    chunks: rank.Chunks
    lexical: rank.Signal
    synonym: rank.Signal
    dense: rank.Signal
    named: rank.Signal
    pointed: dict[int, float]
    asked_lines: dict[int, int]
    phrases: dict[int, float]
    headed: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The best candidates of one store, to be ranked by all signals.

    `legs` are weighted and on one scale across stores; `file` and `about` are not yet.
    """

    gathered: _Candidates
    chunks: rank.Chunks
    headed: npt.NDArray[np.bool_]
    legs: dict[str, rank.Signal]
    file: rank.Signal
    about: rank.Signal


def search(
    searchers: Sequence[Searcher],
    question: str,
    *,
    past: Sequence[Exchange] = (),
    k: int = 10,
    with_further: bool = False,
    with_facts: bool = True,
) -> RetrievalResult:
    """Find the k best chunks for a question in one or more stores, best first.

    Fewer are returned when fewer match at all. The scores of several stores are on one scale: rarity is
    counted over all stores, and each signal is divided by its best value over all.

    Args:
        searchers: the stores.
        question: any text.
        past: the earlier exchanges of the conversation, oldest first.
        k: at least 1.
        with_further: whether the result has `further` hits, up to `FURTHER_HITS` together.
        with_facts: whether the rules of the question's kind look for facts.

    Raises:
        StoreCorrupt: a store is damaged where the search had to read it.
    """
    try:
        every = max(k, FURTHER_HITS) if with_further else k
        return _search_stores(searchers, question, past, k, every, with_facts=with_facts)
    except (IndexError, ValueError, OverflowError, MemoryError):
        # Stores are memory-mapped, not read: damage is first noticed here.
        for searcher in searchers:
            searcher.index.verify()
        raise


def _search_stores(
    searchers: Sequence[Searcher],
    question: str,
    past: Sequence[Exchange],
    k: int,
    every: int,
    *,
    with_facts: bool,
) -> RetrievalResult:
    question, changed = pasted_change(searchers, question)
    read, taken = _parsed(searchers, question)
    read = replace(read, asks=read.asks | {"tests"}) if changed else read
    sought = _in_context(searchers, read, past)
    rarity = Rarity([searcher.index for searcher in searchers])
    # The context of a follow-up has the words of code, and so have names.
    plain = not (sought.carried or sought.question.names or is_answered_by_rules(sought.question.text))
    asked = asked_definition(sought.question) or _marked_name(searchers, sought.question.text)
    name = asked or _subject_asked(sought)
    defined = [definition_chunks(searcher.index, name) if name else {} for searcher in searchers]
    about = [project_question(one.index, sought.question, begins=not past) for one in searchers]
    gathered = [
        _gather(searcher, sought, rarity, chunks, topic, plain=plain)
        for searcher, chunks, topic in zip(searchers, defined, about, strict=True)
    ]
    best_lexical, best_dense = _best(g.lexical for g in gathered), _best(g.dense for g in gathered)
    # A question that refers to places or definitions is answered by them, whatever words a name has.
    is_pointed = any(defined) or any(g.pointed for g in gathered)
    purposes = (topic.purpose for topic in about if topic and not sought.recalled)
    purpose = next(filter(None, purposes), "")
    kinds = [] if changed or not with_facts else _kinds(sought, purpose, is_pointed=is_pointed)
    depth = max(every, hits_for(kinds))
    judged = [_judge(g, best_lexical, best_dense, depth) for g in gathered if len(g.chunks)]
    best_file, best_about = _best(j.file for j in judged), _best(j.about for j in judged)
    # What a follow-up means is decided by its context, which the second stage does not see.
    reranker = searchers[0].reranker if searchers and not sought.carried else None
    depth = depth if reranker is None else max(depth, RERANKED)
    best = [one for j in judged for one in _rank(j, sought, rarity, best_file, best_about, depth)]
    best.sort(key=lambda one: -one[0].score)
    if reranker is not None:
        held = {(hit.location, hit.span): index for hit, index in best}
        wanted = {term: idf * sought.terms[term] for term, idf in rarity.of(sought.terms).items()}
        hits = rerank(reranker, sought.question.text, [hit for hit, _ in best], wanted)
        best = [(hit, held[hit.location, hit.span]) for hit in hits]
    if changed:
        best.sort(key=lambda one: one[0].kind != "test")
    alone = sought.terms == sought.question.terms
    best = _named(best, sought, asked, k)
    code_facts = _code_facts(kinds, sought, searchers, best, purpose)
    shown = tuple(hit for hit, _ in best if not sought.recalled)
    if code_facts:
        shown = merged_hits(code_facts, shown, [searcher.index for searcher in searchers], every)
    return RetrievalResult(
        hits=shown[:k],
        further=shown[k:every],
        ranked=tuple(hit for hit, _ in best[:k]),
        code_facts=code_facts,
        sought=sought,
        near=_nearness(gathered, sought),
        lexical=best_lexical if alone else None,
        taken=taken,
        changed=changed,
        is_overview=purpose == OVERVIEW,
    )


def _kinds(sought: ContextualQuestion, purpose: str, *, is_pointed: bool) -> list[str]:
    """Return the kinds whose rules look for the facts of a question, in order."""
    if sought.recalled:
        return [sought.recalls]
    if any(path for path, *_ in sought.question.lines):
        return [LINES]
    if purpose:
        is_list = purpose in (VARIABLES, OPTIONS, ERRORS)
        return [] if purpose == OVERVIEW else [VARIABLES if is_list else COMMAND]
    text = sought.question.text
    if sought.setting:
        kinds = kinds_of(text)
        return [*kinds, SETTING] if relation_of(text) == "tests" else [SETTING, *kinds]
    if is_pointed and is_pasted(text):
        return [MESSAGE]  # the lines of a traceback may be those of another version
    names_files = bool(sought.question.paths) and relation_of(text) == "importers"
    return [] if is_pointed and not names_files else kinds_of(text)


def pasted_change(searchers: Sequence[Searcher], question: str) -> tuple[str, int]:
    """Return what a pasted change says, and the number of its files without tests; else the question, 0."""
    said, paths = read_change(question)
    tested = [path for path in paths if kind_of_path(path) != "test"]
    is_known = any(searcher.index.chunks_of(path) for searcher in searchers for path in tested)
    return (said, len(tested)) if is_known else (question, 0)


def _parsed(searchers: Sequence[Searcher], question: str) -> tuple[ParsedQuestion, Mapping[str, str]]:
    """Return a question in the words that the stores have, and the mistyped words with their corrections."""
    question = in_english(
        without_client_blocks(composed(question)), lambda name: any(s.index.defining(name) for s in searchers)
    )
    question = names_apart(question, lambda name: any(searcher.defines(name) for searcher in searchers))
    taken = corrections([s.index for s in searchers], searchers[0].embedder, question) if searchers else {}
    return parse_question(corrected(question, taken) if taken else question), taken


def _in_context(
    searchers: Sequence[Searcher], question: ParsedQuestion, past: Sequence[Exchange]
) -> ContextualQuestion:
    """Return a question with its context; without one if it names its own subject."""
    if past and names_its_subject([searcher.index for searcher in searchers], question):
        past = ()
    carry = searchers[0].carry if searchers else CARRY
    sought = in_context(question, past, carry, lambda place: any(one.has(place) for one in searchers))
    return _of_test(_of_named(searchers, sought))


def _of_named(searchers: Sequence[Searcher], sought: ContextualQuestion) -> ContextualQuestion:
    """Return a question for the callers or the tests of a definition that it names, with that as subject."""
    question = sought.question
    for name in question.names if not question.asks.isdisjoint(("callers", "tests")) else ():
        defined = [one for s in searchers for one in s.index.graph.definitions(last_part(name))]
        for one in sorted(defined, key=lambda one: kind_of_path(one.path) == "test")[:1]:
            named = Subject(one.path, one.name, one.scope, one.start, one.end)
            about = (WeighedPlace(named, 1.0, question.text), *sought.about)
            return replace(sought, about=about, says_it=True)
    return sought


def _of_test(sought: ContextualQuestion) -> ContextualQuestion:
    """Return a question about "it", where that is a test, as one about tests: they are not ranked lower."""
    if not (sought.says_it and sought.subject and kind_of_path(sought.subject.path) == "test"):
        return sought
    return replace(sought, question=replace(sought.question, asks=sought.question.asks | {"test_code"}))


def _subject_asked(sought: ContextualQuestion) -> str:
    """Return the name of the subject of the conversation if the question only asks what it does."""
    if sought.subject is None or "behaviour" not in sought.question.asks:
        return ""
    return sought.subject.name if sought.bare or bare_pronoun(sought.question.text) else ""


def _marked_name(searchers: Sequence[Searcher], text: str) -> str:
    """Return the name with a mark that is all of a question and is defined: `save!`, `#send`; else ""."""
    name = bare_name(text)
    if name.isidentifier() or any(char.isspace() for char in name):
        return ""
    every = (one.name for searcher in searchers for one in searcher.index.graph.definitions(name))
    marked = (one for one in every if not one.isidentifier() and one in name)
    return next((name[: name.rindex(one) + len(one)] for one in marked), "")


def _named(
    best: Sequence[tuple[Hit, ChunkIndex]], sought: ContextualQuestion, asked: str, k: int
) -> list[tuple[Hit, ChunkIndex]]:
    """Return hits of which the first k are named by what the question is about, where they define it."""
    question = sought.question
    names = [last_part(name) for name in (asked, without_marks(asked), *question.names) if name]
    named = [
        (
            named_at(index, hit, hit.asked_line)
            if hit.asked_line
            else named_by(index, hit, names, sought.terms),
            index,
        )
        for hit, index in best[:k]
    ]
    if script := asked_script(question.text):
        named = [(named_by_key(hit, script), index) for hit, index in named]
    return named + list(best[k:])


def _code_facts(
    kinds: list[str],
    sought: ContextualQuestion,
    searchers: Sequence[Searcher],
    best: Sequence[tuple[Hit, ChunkIndex]],
    purpose: str,
) -> CodeFacts | None:
    if not kinds or not (best or sought.recalled or purpose or CALLERS in kinds):
        return None
    return find(Asked(sought, [s.index for s in searchers], [Ranked(*one) for one in best], purpose), kinds)


def search_in_turn(
    searchers: Sequence[Searcher], question: str, earlier: Sequence[str], *, k: int = 10
) -> RetrievalResult:
    """Search as in a conversation of which only the questions are known.

    The earlier questions are searched in turn, each with the context of the results before it.
    """
    past: list[Exchange] = []
    for text in earlier:
        found = search(searchers, text, past=past, k=SHOWN_HITS)
        past.append(exchange(text, found))
    return search(searchers, question, past=past, k=k)


def exchange(question: str, found: RetrievalResult) -> Exchange:
    """Return an earlier question with the places found, where its answer is not known."""
    shown = found.hits[:SHOWN_HITS]
    places = tuple(Subject.of(hit.span) for hit in shown)
    facts, scores = found.code_facts, tuple(hit.score for hit in shown)
    setting = facts.subject if facts and facts.kind == SETTING and facts.certain_count else ""
    return Exchange(question, places, found.sought.subject, scores, setting=setting)


def _gather(
    searcher: Searcher,
    sought: ContextualQuestion,
    rarity: Rarity,
    defined: Mapping[int, float],
    about: ProjectQuestion | None,
    *,
    plain: bool,
) -> _Candidates:
    """Return the candidates of both retrievers, with the values of both for all of them, and the chunks with
    the definitions asked for.
    """
    index = searcher.index
    lexical = Bm25(index, sought.terms, rarity)
    own = {term: w for term, w in sought.question.terms.items() if term in sought.terms}
    best = lexical.best(CANDIDATES)
    first = best[np.argsort(-lexical.scores(best), kind="stable")].tolist()
    alike = synonyms(index, own, rarity)
    synonym = Bm25(index, alike, rarity)
    query = _query_vector(searcher, sought)
    if takes_bags(searcher.embedder) and not lexical:
        # No word of the question occurs: neighbours in such an embedding are chance.
        query = np.zeros_like(query)
    defining = {name: index.defining(last_part(name)) for name in sought.question.names}
    mentioned = [chunk for found in defining.values() for chunk in found]
    pointed, asked_lines = referenced(index, sought.question, about)
    mentioned += pointed
    unknown = {name for name, found in defining.items() if not len(found)} - {*sought.question.paths}
    phrases, by_name = phrase_chunks(index, sought.question.text, first), name_chunks(index, unknown)
    phrases |= {chunk: max(value, phrases.get(chunk, 0.0)) for chunk, value in by_name.items()}
    phrases |= {chunk: SOUGHT * value for chunk, value in defined.items()}
    phrases |= dict.fromkeys(url_path_chunks(index, sought.question.text), SOUGHT)
    mentioned += phrases
    named = rank.union([np.asarray(mentioned, np.int64)])
    near = nearest(searcher.vectors, index, query, CANDIDATES)
    chunks = rank.union([best, near, named, *([synonym.best(CANDIDATES)] if plain else [])])
    is_named = np.zeros(len(chunks), np.float32)
    is_named[np.searchsorted(chunks, named)] = 1
    return _Candidates(
        searcher=searcher,
        query=query,
        alike=alike,
        chunks=chunks,
        lexical=lexical.scores(chunks),
        synonym=synonym.scores(chunks),
        dense=cosines(index, chunks, query),
        named=is_named,
        pointed=pointed,
        asked_lines=asked_lines,
        phrases=phrases,
        headed=lexical.in_head(chunks) | synonym.in_head(chunks),
    )


def _nearness(gathered: Sequence[_Candidates], sought: ContextualQuestion) -> float | None:
    """Return the best cosine of all; None unless the vector was the question's own and that of its words."""
    alone = all(takes_bags(g.searcher.embedder) and g.query.any() for g in gathered)
    if sought.carried or not alone or not gathered:
        return None
    return max(float(g.dense.max(initial=0.0)) for g in gathered)


def _judge(gathered: _Candidates, best_lexical: float, best_dense: float, k: int) -> _Chosen:
    """Return the candidates worth a closer look, best first by both retrievers; at least one was gathered."""
    index, weights = gathered.searcher.index, gathered.searcher.weights
    legs = {
        "lexical": weights.lexical * rank.scaled(gathered.lexical, best_lexical),
        "synonym": weights.synonym * rank.scaled(gathered.synonym, best_lexical),
        "dense": weights.dense * rank.scaled(gathered.dense, best_dense),
    }
    relevance = legs["lexical"] + legs["synonym"] + legs["dense"]
    judged = np.argsort(-(relevance + gathered.named), kind="stable")[: max(MAX_RANKED, 3 * k)]
    chunks = gathered.chunks[judged]
    return _Chosen(
        gathered=gathered,
        chunks=chunks,
        headed=gathered.headed[judged],
        legs={name: leg[judged] for name, leg in legs.items()},
        file=rank.file_signal(index, chunks, relevance[judged]),
        about=rank.about_signal(index, chunks, gathered.query),
    )


def _rank(
    judged: _Chosen, sought: ContextualQuestion, rarity: Rarity, best_file: float, best_about: float, k: int
) -> list[tuple[Hit, ChunkIndex]]:
    """Return the k best candidates of one store as hits, best first, each with the store."""
    gathered, chunks = judged.gathered, judged.chunks
    index, weights, carry = gathered.searcher.index, gathered.searcher.weights, gathered.searcher.carry
    wanted = {term: idf * sought.terms[term] for term, idf in rarity.of(sought.terms).items()}
    total = sum(wanted.values()) or 1.0
    meant = {term: SYNONYM_WEIGHT * weight * rarity(term) for term, weight in gathered.alike.items()}
    # A question that names a definition is about the code, whatever heading has the name too.
    is_named = any(len(index.defining(last_part(name))) for name in sought.question.names)
    prose = rank.prose_factor(index, chunks, {} if is_named else wanted, total)
    wanted = meant | wanted
    # Candidates without any of the words in path or name are skipped.
    headed = judged.headed
    names = list(compress(index.names(chunks), headed.tolist()))
    legs = judged.legs | {
        "symbol": weights.symbol * _spread(rank.symbol_signal(names, wanted, total), headed),
        "mention": weights.mention * rank.mention_signal(index, chunks, sought.question),
        "pointed": weights.pointed * rank.reference_signal(chunks, gathered.pointed),
        "phrase": weights.phrase * rank.reference_signal(chunks, gathered.phrases),
        "path": weights.path * _spread(rank.path_signal(index, chunks[headed], wanted, total), headed),
        "file": weights.file * rank.scaled(judged.file, best_file),
        "about": weights.about * rank.scaled(judged.about, best_about),
    }
    scores: rank.Signal = np.sum(list(legs.values()), axis=0, dtype=np.float32)
    factors = np.maximum(rank.kind_factor(index, chunks, sought.question, weights), prose)
    factors *= shown_factor(index, chunks, sought, carry) * facet_factor(index, chunks, sought, carry)
    factors *= folder_factor(index, chunks, sought.question.text, sought.earlier)
    factors *= rank.place_factor(index, chunks, sought.question, weights)
    factors = np.maximum(factors, weights.phrase_factor * rank.reference_signal(chunks, gathered.phrases))
    scores = np.where(legs["pointed"] > 0, legs["pointed"] + scores / 10, scores * factors)
    scores = rank.penalize_repeats(index, chunks, scores, weights)
    hits = []
    for i in np.lexsort((chunks, -scores))[:k].tolist():
        given = {name: round(float(values[i]), 4) for name, values in legs.items() if values[i]}
        hit = index.hit(int(chunks[i]), float(scores[i]), given)
        asked_line = gathered.asked_lines.get(int(chunks[i]), 0)
        hits.append((replace(hit, asked_line=asked_line) if asked_line else hit, index))
    return hits


def _spread(values: rank.Signal, to: npt.NDArray[np.bool_]) -> rank.Signal:
    """Return values of some candidates as a signal over all, 0 for the others."""
    signal = np.zeros(len(to), np.float32)
    signal[to] = values
    return signal


def _best(signals: Iterable[rank.Signal]) -> float:
    """Return the best value in any store, at least 0."""
    return max((float(signal.max(initial=0.0)) for signal in signals), default=0.0)


def _query_vector(searcher: Searcher, sought: ContextualQuestion) -> Vectors:
    """Return the question's vector; in a follow-up, with a share of the carried terms' vector."""
    terms = {term: w for term, w in sought.question.terms.items() if term in sought.terms}
    own = embed_question(searcher.embedder, searcher.index, sought.question.text, terms)
    if not sought.carried:
        return own
    about = " ".join((*sought.focus, *sought.carried))
    carried = embed_question(searcher.embedder, searcher.index, about, sought.carried)
    return mixed([(own, 1.0), (carried, searcher.carry.question * sought.share)])
