"""Who calls, uses, raises, overrides, extends or imports something: looked up in the graph of the code.

The subject is what the question names, else (in a follow-up) that of the conversation. Of several definitions
of a name, the words of the question choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from rag.analysis import is_stop_word, terms, words
from rag.code.languages import kind_of_path
from rag.identifiers import LIKE_CODE, LOWER, NAME, UNCASED, UPPER, composed
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.kinds import importers
from rag.retrieval.kinds.asked import INCOMPLETE, Asked, FactPlace, code_facts
from rag.retrieval.kinds.by_text import subtypes_by_text
from rag.retrieval.kinds.recognition import NEGATED, relation_of, subject_of_tests
from rag.retrieval.kinds.tested import tests_of, tests_with_word
from rag.retrieval.pronouns import bare_pronoun
from rag.retrieval.question import ParsedQuestion, spelled_names
from rag.retrieval.uses import Uses, indexed_files, preferred, summary, uses_of_name
from rag.retrieval.working_set import own_terms, plausible
from rag.types import CodeDefinition, CodeFacts, CodeUse, Subject, UseRole
from rag.types.question_kinds import CALLERS

_NAME = re.compile(rf"[~#]?{NAME}(?:(?:\.|::|->|#)[~#]?{NAME})*")
_WHOLE_NAME = rf"(?<![\w$.:>#~])({_NAME.pattern})"
"""A name from its beginning: a search within one that is long would be quadratic."""
_CALLED = re.compile(rf"{_WHOLE_NAME}\(")
_OWNED = re.compile(
    rf"{_WHOLE_NAME}`?(?:\(\))?`? (?:(?:method|function|member) )?(?:of|in|on|from) (?:the )?"
    rf"(?:class )?`?(?-i:([{UPPER}]\w*[{LOWER}]\w*))"
)
"""A name with the class that has it: "recover() of Server"."""
_OWNER = re.compile(r"\b(?:in|from) (?:the )?`?[\w.:#-]+", re.I)
"""What has a name, such as its module: "float from XMonad.Operations"."""
_LIKE_CODE = re.compile(rf"{LIKE_CODE}|::|->|#|\w\.\w|{UNCASED}")
_BEFORE = frozenset(
    """calls call uses use of function method class invokes invoke overrides override imports import extends
    helper macro component hook references raise raises raising throw throws throwing""".split()
)
_AFTER = frozenset(
    "method function class called used invoked macro of helper overridden imported raised thrown".split()
)
_BASE = re.compile(
    r"\b(?:extend\w*|implement\w*(?: of)?|(?:inherit\w*|deriv\w*) from|sub-?class\w*(?: of)?) (?:the |an? )?"
    rf"(?-i:([{UPPER}]\w*))",
    re.I,
)
"""The name of a type after a word for what extends it: "which classes extend Base"."""
_VERBS = frozenset(term for word in _BEFORE | _AFTER for term in terms(word))
"""They say what is asked, and not which definition is meant."""
_MAX_LINE_CHARS = 400
_MAX_CANDIDATES = 40
_MAX_TARGETS = 12
_SAYS = {
    "callers": ("called", "calls"),
    "uses": ("used", "uses"),
    "raisers": ("raised", "raises"),
    "overrides": ("overridden", "overrides"),
    "subclasses": ("extended", "extends"),
    "implementers": ("implemented", "implements"),
    "importers": ("imported", "imports"),
    "tests": ("used in tests", "tests"),
}
_UNRESOLVED: dict[str, tuple[UseRole, str, str]] = {
    "overrides": ("override", "method", "methods"),
    "subclasses": ("base", "base class", "base classes"),
    "importers": ("import", "import", "imports"),
}
"""What may be a use though it could not be resolved, by relation: its role, and its name in words."""
_RAISES = re.compile(r"\b(?:raise|throw|panic\w*|abort|die|fail|reject|Err|bail|ensure)\b")
"""What a line holds that raises the error that it names."""
_MAX_UNRESOLVED = 3
_MAX_OF_OTHER = 3
"""How many facts are shown of another definition that "it" may mean."""
_OPEN = f"{INCOMPLETE}names and types that are only known at run time are not resolved"
_INDIRECT = f"{INCOMPLETE}a test may use it through something else"
_DOUBT = "Where the type of an object is not known, its name decides"
_SPAN = re.compile(r"(?<!`)`+([^`\n]{1,200})`+")


@dataclass(frozen=True, slots=True)
class _Subject:
    """The definitions that a question is about, all of one name.

    `same_name` is the number of definitions with this name, 0 if that was not looked up.
    """

    index: ChunkIndex
    targets: list[CodeDefinition]
    same_name: int = 0


def find(asked: Asked) -> CodeFacts | None:
    """Return the uses, those in code first, each certain ones first; None if the subject is not clear."""
    relation = relation_of(asked.question.question.text)
    if relation is None:
        return None
    imports = importers.find(asked) if relation == "importers" else None
    if imports is not None and imports.count:
        return imports
    subjects = _subjects(asked, relation)
    every = [facts for one in subjects if (facts := _found(asked, one, relation)) is not None]
    found = _joined(every) if every else None if subjects else _undefined(asked, relation)
    return imports if imports is not None and not (found and found.count) else found


def _joined(found: Sequence[CodeFacts]) -> CodeFacts:
    """Return the facts on what "it" may mean as one: all of the first, and a few of each other."""
    first, *others = found
    return replace(
        first,
        summary="; ".join(one.summary for one in found),
        items=(*first.items, *(item for one in others for item in one.items[:_MAX_OF_OTHER])),
        count=sum(one.count for one in found),
        certain_count=sum(one.certain_count for one in found),
        complete=all(one.complete for one in found),
        note="; ".join(dict.fromkeys(one.note for one in found if one.note)),
    )


def _found(asked: Asked, subject: _Subject, relation: str) -> CodeFacts | None:
    """Return what is in a relation to one subject; None if that is not clear."""
    if subject.targets[0].unit == "section" and relation in ("callers", "importers", "raisers"):
        relation = "uses"
    if relation in ("callers", "uses", "raisers"):
        return _used(asked, subject, relation)
    uses = _related(asked, subject, relation)
    if not uses:
        # "What implements retry?" may ask for a function, and not every language names what it implements.
        if relation == "implementers":
            return None
        # "Is the price tested?" may mean something else than a function of that name.
        is_word = relation == "tests" and not _is_named(asked, subject)
        found = _with_word(asked, subject.index, subject.targets[0].name) if is_word else None
        return found or _unrelated(asked, subject, relation)
    uses.sort(key=lambda use: (kind_of_path(use.path) == "test", not use.certain))
    name, verb = subject.targets[0].name, _SAYS[relation][1]
    lines = {(use.path, use.line) for use in uses}
    certain = {(use.path, use.line) for use in uses if use.certain}
    return code_facts(
        asked,
        CALLERS,
        subject.targets[0].qualified_name,
        _summary(relation, subject, len(lines), len(certain)),
        list(_places(asked, subject.index, ((use, f"{verb} {name}") for use in uses))),
        note="" if all(use.certain for use in uses) else _DOUBT,
        count=len(lines),
        certain_count=len(certain),
        is_doubtful=True,
    )


def _used(asked: Asked, subject: _Subject, relation: str) -> CodeFacts | None:
    """Return who calls or uses the subject, or raises it; with none the definition, and what may."""
    index, target = subject.index, subject.targets[0]
    found = uses_of_name(index, target.name, meant=subject.targets, calls=relation == "callers")
    found = replace(found, definitions=subject.same_name or found.definitions)
    return _used_in(asked, index, found, relation)


def _undefined(asked: Asked, relation: str) -> CodeFacts | None:
    """Return who calls or uses a name of code that the question has and that nothing defines."""
    if relation in ("callers", "uses"):
        for name, is_sure in _names(NEGATED.sub(" ", asked.question.question.text)):
            for index in asked.indexes if is_sure or relation == "callers" else ():
                found = uses_of_name(index, name, calls=relation == "callers")
                if found.found and not found.is_file and (is_sure or found.are_calls):
                    return _used_in(asked, index, found, relation)
    word = subject_of_tests(asked.question.question.text).rstrip("?!")
    if relation == "tests" and terms(word) and not is_stop_word(word):
        tested = (_with_word(asked, index, word) for index in asked.indexes)
        untested = (_in_no_test(asked, index, word) for index in asked.indexes)
        return next(filter(None, (*tested, *untested)), None)
    return None


def _with_word(asked: Asked, index: ChunkIndex, word: str) -> CodeFacts | None:
    """Return the tests that have a word, which is not known to be a name; None without any."""
    uses = tests_with_word(asked, index, word)
    several = "s" if len(uses) != 1 else ""
    return code_facts(
        asked,
        CALLERS,
        word,
        f"The word `{word}` is in {len(uses)} test{several}, which may test something else",
        list(_places(asked, index, ((use, f"has the word {word}") for use in uses))),
        note=_INDIRECT,
        count=len(uses),
        is_doubtful=True,
    )


def _in_no_test(asked: Asked, index: ChunkIndex, word: str) -> CodeFacts | None:
    """Return that no test has a word, with the first lines that have it; None without any."""
    wanted = terms(word)[-1]
    lines = (
        (hit.path, number)
        for hit in asked.hits_with(index, [wanted], code=True)
        for number, line in enumerate(lines_of(hit.text), hit.start)
        if wanted in terms(line)
    )
    shown = (asked.place(index, *place, f"has the word {word}") for place in islice(lines, _MAX_UNRESOLVED))
    found = code_facts(
        asked,
        CALLERS,
        word,
        f"No test has the word `{word}`, in {indexed_files(index.file_count)}",
        [place for place in shown if place is not None],
        note=_INDIRECT,
    )
    return None if found is None else replace(found, count=0, certain_count=0)


def _used_in(asked: Asked, index: ChunkIndex, found: Uses, relation: str) -> CodeFacts | None:
    """Return uses as facts; without any, that there are none, with the definition."""
    if relation == "raisers":
        raising = tuple(use for use in found.found if _RAISES.search(_line(asked, index, use)))
        relation = "raisers" if raising else "uses"
        found = replace(found, found=raising or found.found, others=() if raising else found.others)
    asked.limits.update(dict.fromkeys(found.limits))
    verbs = _SAYS[relation]
    said = summary(found, verbs, files=index.file_count)
    shown = [(use, found.reason(use, verbs[1])) for use in found.shown]
    places = list(_places(asked, index, shown))
    is_doubtful = any(not use.certain for use in found.shown)
    notes = [*([_DOUBT] if found.found and is_doubtful else []), *found.notes]
    if not found.found:
        target = found.targets[0]
        file = asked.file(index, target.path)
        if file is None:
            return None
        said += "; it is exported" if target.is_exported and target.unit != "constant" else ""
        places.insert(0, FactPlace(file, target.start, f"defines {target.name}"))
        notes = [_OPEN]
    facts = code_facts(
        asked,
        CALLERS,
        found.name,
        said,
        places,
        note="; ".join(notes),
        is_doubtful=True,
    )
    return facts and replace(facts, count=len(found.found), certain_count=found.certain)


def _related(asked: Asked, subject: _Subject, relation: str) -> list[CodeUse]:
    """Return the tests, imports, overrides or subtypes of the subject."""
    index, targets = subject.index, subject.targets
    if relation == "tests":
        return tests_of(asked, index, targets)
    if relation == "importers":
        return [use for path in dict.fromkeys(t.path for t in targets) for use in index.graph.importers(path)]
    of_one = index.graph.overrides if relation == "overrides" else index.graph.subclasses
    found = {use: None for target in targets for use in of_one(target)}
    own = {(target.path, target.start) for target in targets}
    related = [use for use in found if (use.path, use.line) not in own or len(targets) == 1]
    if relation in ("subclasses", "implementers") and not related:
        related = list(dict.fromkeys(subtypes_by_text(asked, index, targets[0].name)))
    return related


def _line(asked: Asked, index: ChunkIndex, use: CodeUse) -> str:
    file = asked.file(index, use.path)
    return file.lines[use.line - 1][:_MAX_LINE_CHARS] if file and use.line <= len(file.lines) else ""


def _places(asked: Asked, index: ChunkIndex, uses: Iterable[tuple[CodeUse, str]]) -> Iterator[FactPlace]:
    for use, reason in uses:
        place = asked.place(index, use.path, use.line, reason, certain=use.certain)
        if place is not None:
            yield place


def _summary(relation: str, subject: _Subject, count: int, certain: int) -> str:
    name, verb = subject.targets[0].qualified_name, _SAYS[relation][0]
    places = f"{count} place" + ("s" if count != 1 else "")
    if not certain:
        return f"`{name}` is possibly {verb} in {places}"
    return f"`{name}` is {verb} in {places}" + (f", {certain} of them certain" if certain < count else "")


def _unrelated(asked: Asked, subject: _Subject, relation: str) -> CodeFacts | None:
    """Return that nothing overrides, extends or imports the subject, with the first places that may."""
    target, index = subject.targets[0], subject.index
    file = asked.file(index, target.path)
    if file is None:
        return None
    said, verb = _SAYS[relation]
    sentence = f"`{target.qualified_name}` is {said} in 0 places in {indexed_files(index.file_count)}"
    role, one, several = _UNRESOLVED.get(relation, (None, "", ""))
    unresolved = index.graph.unresolved(subject.targets, role) if role else []
    if unresolved:
        which = f"{len(unresolved)} {one if len(unresolved) == 1 else several}"
        sentence = f"{sentence} that could be resolved; {which} of that name could not"
    shown = [(use, f"{verb} {target.name}") for use in unresolved[:_MAX_UNRESOLVED]]
    found = code_facts(
        asked,
        CALLERS,
        target.qualified_name,
        sentence + ("; it is exported" if target.is_exported else ""),
        [FactPlace(file, target.start, f"defines {target.name}"), *_places(asked, index, shown)],
        note=_INDIRECT if relation == "tests" else _OPEN,
    )
    return None if found is None else replace(found, count=0, certain_count=0)


def _is_named(asked: Asked, subject: _Subject) -> bool:
    """Return whether a question has the name of its subject, which is no word of prose."""
    name = subject.targets[0].name
    return _LIKE_CODE.search(name) is not None and name in asked.question.question.text


# ---------------------------------------------------------------- the subject


def _subjects(asked: Asked, relation: str) -> list[_Subject]:
    """Return what the question names, else what "it" may mean: the most plausible first.

    A constant has uses alone; if its name may be a word of any text, only what calls it is asked for.
    """
    text = asked.question.question.text
    positive = NEGATED.sub(" ", text)
    for name in [*_SPAN.findall(positive), *spelled_names(_OWNER.sub(" ", positive))]:
        for index in asked.indexes:
            every = [] if name.isidentifier() else _defined(index, name, relation)
            ends = composed(name), re.split(r"\.|::|#", composed(name))[-1]
            if whole := [one for one in every if one.name in ends and not one.name.isidentifier()]:
                chosen = _chosen(whole[:_MAX_CANDIDATES], text, positive, name)
                return [_considered(asked, index, whole, chosen)]
    for name, is_sure in _names(positive):
        for index in asked.indexes:
            if every := _defined(index, name, relation, is_sure=is_sure):
                chosen = _chosen(every[:_MAX_CANDIDATES], text, positive, name)
                if is_sure or len(chosen) <= _MAX_TARGETS:
                    return [_considered(asked, index, every, chosen)]
    is_it = asked.question.leans and asked.question.says_it and _says_no_other(asked.question.question)
    meant = plausible(asked.question.about) if is_it else []
    found = (_at(asked, place, relation) for place in meant if place.symbol)
    return [subject for subject in found if subject is not None]


def _defined(index: ChunkIndex, name: str, relation: str, *, is_sure: bool = True) -> list[CodeDefinition]:
    with_constants = relation == "callers" or (is_sure and relation == "uses")
    return index.graph.definitions(name) or (index.graph.values(name) if with_constants else [])


def _says_no_other(question: ParsedQuestion) -> bool:
    """Return whether a question says "it", or has no word for another thing: "any callers?"."""
    own = own_terms(question).keys() - _VERBS
    others = (word for word in words(question.text) if not own.isdisjoint(terms(word)))
    return question.refers or not any(relation_of(word) is None for word in others)


def _considered(
    asked: Asked, index: ChunkIndex, found: list[CodeDefinition], chosen: list[CodeDefinition]
) -> _Subject:
    """Return the subject of those that were chosen among the first that were found."""
    what = "definitions of the name were considered"
    asked.first(found, _MAX_CANDIDATES, what)
    return _Subject(index, asked.first(chosen, _MAX_TARGETS, what), len(found))


def _names(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what may be a name of code, the surest first, and whether it is written as one."""
    owned = [f"{owner}.{name}" for name, owner in _OWNED.findall(text) if not is_stop_word(name)]
    spans = [*owned, *(name for span in _SPAN.findall(text) for name in _NAME.findall(span))]
    spans += _CALLED.findall(text)
    written = _NAME.findall(text)
    like_code = [word for word in written if _LIKE_CODE.search(word)]
    tested = subject_of_tests(text)
    if tested and not is_stop_word(tested):
        like_code += [tested, tested.rstrip("?!")]  # a mark may end the name or the question
    yield from ((name, True) for name in dict.fromkeys((*spans, *like_code)))
    yield from ((name, False) for name in _BASE.findall(text))
    for n, word in enumerate(written):
        before = written[n - 1].lower() if n else ""
        after = written[n + 1].lower() if n + 1 < len(written) else ""
        is_verb = word in _BEFORE | _AFTER and bool(after)  # `Import` is a name, and so is the last of all
        is_last = before in _BEFORE and not after and not bare_pronoun(text)  # "who calls all?"
        if len(word) < 2 or (is_stop_word(word) and not is_last) or is_verb:
            continue
        if before in _BEFORE or (after in _AFTER and before not in ("a", "an")):
            yield word, False


def _chosen(found: Sequence[CodeDefinition], text: str, positive: str, name: str) -> list[CodeDefinition]:
    """Return the definitions that the other words of the question fit best."""
    own = set(terms(name)) | _VERBS
    wanted = set(terms(positive)) - own
    unwanted = {term for part in NEGATED.findall(text) for term in terms(part)} - own - wanted
    is_member = bool(re.search(r"\bmethods?\b|\bclass\b", positive))
    is_function = bool(re.search(r"\bmodule-level\b|\bfunctions?\b", positive)) and not is_member

    def score(one: CodeDefinition) -> tuple[int, int]:
        around = set(terms(f"{one.path.rpartition('.')[0]} {one.scope}"))
        shape = (is_member and bool(one.scope)) or (is_function and not one.scope)
        return len(around & wanted) - len(around & unwanted), int(shape)

    best = max(map(score, found))
    return preferred([one for one in found if score(one) == best])


def _at(asked: Asked, place: Subject, relation: str) -> _Subject | None:
    """Return the definition at a place of the conversation."""
    for index in asked.indexes:
        found = [one for one in _defined(index, place.symbol, relation) if one.path == place.path]
        same = [one for one in found if one.scope == place.scope]
        if found:
            return _considered(asked, index, [], same or found)
    return None
