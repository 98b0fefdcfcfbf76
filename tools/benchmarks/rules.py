"""The rules of the search and of the gate that an ablation switches off, each alone.

A rule is a function of `rag`; switched off, another one takes its place wherever it is called, which does
what the code would do without the rule. The product has no such settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from rag.retrieval import context, rank
from rag.retrieval.kinds.recognition import relation_of
from rag.retrieval.working_set import Exchange, WeighedPlace

Function = Callable[..., Any]


@dataclass(frozen=True)
class Rule:
    """A rule: its name, where it is called, and what is called instead.

    A place is a module below `rag` and a name in it, or the name of a table and a key:
    "retrieval.search.synonyms", "retrieval.kinds.recognition:_RECOGNIZED.list".
    """

    name: str
    places: tuple[str, ...]
    instead: Function

    def found(self) -> list[tuple[dict[str, Any], str]]:
        """Return the tables of names with the rule, each with its key."""
        return [_table(place) for place in self.places]


def _table(place: str) -> tuple[dict[str, Any], str]:
    path, _, key = place.rpartition(".")
    module, _, table = path.partition(":")
    names = vars(import_module(f"rag.{module}"))
    return (names[table] if table else names), key


@contextmanager
def without(rule: Rule) -> Iterator[None]:
    """Switch a rule off for as long as the context lasts."""
    with _replaced((table, key, rule.instead) for table, key in rule.found()):
        yield


@contextmanager
def noticed(rules: Iterable[Rule]) -> Iterator[set[str]]:
    """Yield a set to which each rule is added by name that gives another result than without it."""
    used: set[str] = set()

    def watched(rule: Rule, shipped: Function) -> Function:
        def called(*args: Any, **options: Any) -> Any:
            result, other = shipped(*args, **options), rule.instead(*args, **options)
            if not isinstance(result, Iterator):
                if not _is_same(result, other):
                    used.add(rule.name)
                return result
            values = list(result)
            if values != list(other):
                used.add(rule.name)
            return iter(values)

        return called

    places: dict[tuple[int, str], tuple[dict[str, Any], str, Function]] = {}
    for rule in rules:
        for table, key in rule.found():
            *_, shipped = places.get((id(table), key), (table, key, table[key]))
            places[id(table), key] = table, key, watched(rule, shipped)
    with _replaced(places.values()):
        yield used


@contextmanager
def _replaced(changes: Iterable[tuple[dict[str, Any], str, Function]]) -> Iterator[None]:
    before = []
    try:
        for table, key, function in changes:
            before.append((table, key, table[key]))
            table[key] = function
        yield
    finally:
        for table, key, function in reversed(before):
            table[key] = function


def _is_same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other)


# ---------------------------------------------------------------- what is called instead


def _always(value: Any) -> Function:
    return lambda *_, **__: value


def _empty(of: type) -> Function:
    return lambda *_, **__: of()


def _nothing(*_: Any) -> Iterator[Any]:
    return iter(())


def _first(one: Any, *_: Any) -> Any:
    return one


def _ones(_: Any, chunks: rank.Chunks, *__: Any) -> rank.Signal:
    return np.ones(len(chunks), np.float32)


def _zeros(_: Any, chunks: rank.Chunks, *__: Any) -> rank.Signal:
    return np.zeros(len(chunks), np.float32)


def _no_relation(unwanted: str) -> Function:
    return lambda text: None if (found := relation_of(text)) == unwanted else found


def _weighed(**values: float) -> Function:
    """Return the factor of the kinds of places with other weights."""
    factor = rank.kind_factor
    return lambda index, chunks, asked, weights: factor(index, chunks, asked, replace(weights, **values))


def _carried(**values: float) -> Function:
    """Return a question in its context with other weights of the past."""
    shipped = context.in_context
    return lambda asked, past, carry: shipped(asked, past, replace(carry, **values))


def _last_place(past: Sequence[Exchange]) -> Any:
    """Return the first place of the last answer as the working set."""
    last = past[-1]
    return [WeighedPlace(last.places[0], 1.0, last.question)] if last.places else []


RULES = (
    Rule(
        "kind: callers and other uses", ("retrieval.kinds.recognition:_RECOGNIZED.callers",), _always(False)
    ),
    Rule("kind: lists", ("retrieval.kinds.recognition:_RECOGNIZED.list",), _always(False)),
    Rule("kind: settings", ("retrieval.kinds.recognition:_RECOGNIZED.setting",), _always(False)),
    Rule("kind: pasted messages", ("retrieval.kinds.messages.find",), _always(None)),
    Rule("kind: steps", ("retrieval.kinds.path.find",), _always(None)),
    Rule("kind: lines of a file", ("retrieval.question._lines_asked",), _empty(list)),
    Rule("callers: raisers", ("retrieval.kinds.callers.relation_of",), _no_relation("raisers")),
    Rule("callers: overrides", ("retrieval.kinds.callers.relation_of",), _no_relation("overrides")),
    Rule("callers: subclasses", ("retrieval.kinds.callers.relation_of",), _no_relation("subclasses")),
    Rule("callers: implementers", ("retrieval.kinds.callers.relation_of",), _no_relation("implementers")),
    Rule("callers: importers", ("retrieval.kinds.callers.relation_of",), _no_relation("importers")),
    Rule("callers: callers", ("retrieval.kinds.callers.relation_of",), _no_relation("callers")),
    Rule("callers: uses", ("retrieval.kinds.callers.relation_of",), _no_relation("uses")),
    Rule("callers: tests", ("retrieval.kinds.callers.relation_of",), _no_relation("tests")),
    Rule("callers: files that are imported", ("retrieval.kinds.importers.find",), _always(None)),
    Rule(
        "callers: uses by their text",
        (
            "retrieval.uses.uses_by_text",
            "retrieval.kinds.tested.uses_by_text",
        ),
        _nothing,
    ),
    Rule("callers: subtypes by their text", ("retrieval.kinds.callers.subtypes_by_text",), _nothing),
    Rule("callers: calls that name the class", ("retrieval.uses._qualified",), _empty(list)),
    Rule("callers: bundles left out", ("retrieval.uses._without_bundles",), lambda _, uses: (uses, "")),
    Rule("callers: of it", ("retrieval.kinds.callers.plausible",), _always([])),
    Rule("callers: none found", ("retrieval.kinds.callers._unrelated",), _always(None)),
    Rule("lists: subclasses of a name", ("retrieval.kinds.lists._derived",), _always(None)),
    Rule("lists: doubtful ones", ("retrieval.kinds.lists.is_the_list",), _always(True)),
    Rule("lists: families", ("retrieval.kinds.list_fit.families",), _empty(list)),
    Rule("messages: whole literals", ("retrieval.kinds.messages._may_be_whole",), _always(False)),
    Rule("messages: the nearer literal", ("retrieval.kinds.messages._is_nearer",), _always(False)),
    Rule("messages: uses of the constant", ("retrieval.kinds.messages._uses",), _nothing),
    Rule("phrases", ("retrieval.search.phrase_chunks",), _empty(dict)),
    Rule("rare names", ("retrieval.search.name_chunks",), _empty(dict)),
    Rule("words that ask", ("retrieval.question._without_asking",), _first),
    Rule(
        "missing apostrophes",
        (
            "retrieval.question.without_contractions",
            "retrieval.answerability.without_contractions",
        ),
        _first,
    ),
    Rule("spelling", ("retrieval.search.corrections",), _empty(dict)),
    Rule("a definition by name", ("retrieval.search.asked_definition",), _always("")),
    Rule("a value by name", ("retrieval.search.asked_value",), _always("")),
    Rule("URL paths", ("retrieval.search.url_path_chunks",), _empty(list)),
    Rule("commands of a build", ("retrieval.mentions.build_command",), _always(None)),
    Rule(
        "questions about the project",
        ("retrieval.search.project_question",),
        _always(None),
    ),
    Rule(
        "bundles in the best files",
        (
            "retrieval.kinds.asked.is_bundle",
            "retrieval.uses.is_bundle",
        ),
        _always(False),
    ),
    Rule("bundles", ("retrieval.rank.bundle_factor",), _ones),
    Rule("auxiliary files", ("retrieval.rank.place_factor",), _ones),
    Rule("tests: what they exercise", ("retrieval.search.exercise_signal",), _zeros),
    Rule("conversation: about a test", ("retrieval.search._of_test",), _first),
    Rule("tests: as the topic", ("retrieval.rank.kind_factor",), _weighed(test_topic=rank.DEFAULT.test)),
    Rule("tests, documents: asked for", ("retrieval.rank.kind_factor",), _weighed(asked=1.0)),
    Rule("settings: documents", ("retrieval.rank.kind_factor",), _weighed(doc_of_config=rank.DEFAULT.doc)),
    Rule("settings: settings files", ("retrieval.rank.kind_factor",), _weighed(config_asked=1.0)),
    Rule("conversation: corrections", ("retrieval.context.meant",), _always("")),
    Rule("conversation: one of the list", ("retrieval.context.listed_as_it",), _always(None)),
    Rule("conversation: what was found", ("retrieval.context.recalls",), _always("")),
    Rule("conversation: the whole of it", ("retrieval.context.whole_asked",), _always("")),
    Rule("conversation: lines of it", ("retrieval.context._with_lines_of",), _first),
    Rule("conversation: the working set", ("retrieval.context.working_set",), _last_place),
    Rule("conversation: words of a facet", ("retrieval.context.own_terms",), lambda asked: dict(asked.terms)),
    Rule("conversation: half as much if alone", ("retrieval.search.in_context",), _carried(alone=1.0)),
    Rule("conversation: the first question", ("retrieval.search.in_context",), _carried(question=0.0)),
    Rule("conversation: the last question", ("retrieval.search.in_context",), _carried(last=0.0)),
    Rule("conversation: what is called", ("retrieval.search.linked_signal",), _zeros),
    Rule("conversation: nothing twice", ("retrieval.search.shown_factor",), _ones),
    Rule("conversation: kind of a facet", ("retrieval.search.facet_factor",), _ones),
    Rule("conversation: no subject", ("service.dialog.lacks_subject",), _always(False)),
    Rule(
        "blocks of clients",
        (
            "retrieval.search.without_client_blocks",
            "retrieval.instructions.without_client_blocks",
        ),
        _first,
    ),
    Rule(
        "instructions and small talk",
        (
            "retrieval.answerability.without_instructions",
            "retrieval.pronouns.without_instructions",
        ),
        _first,
    ),
    Rule("gate: missing parts", ("retrieval.answerability.missing_part",), _always(None)),
    Rule("gate: quoted text", ("retrieval.answerability.is_quoted",), _always(False)),
    Rule("gate: the subject exists", ("retrieval.answerability._names_subject",), _always(False)),
    Rule("gate: German words", ("retrieval.answerability.function_words",), _empty(set)),
    Rule("gate: other languages", ("retrieval.answerability.is_foreign",), _always(False)),
    Rule(
        "German",
        (
            "retrieval.search.in_english",
            "retrieval.question.in_english",
        ),
        _first,
    ),
)
"""Every rule that came with answers by kind of question."""
