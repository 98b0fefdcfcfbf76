"""Who calls, uses, raises, overrides, extends or imports something: looked up in the graph of the code.

The subject is what the question names, else (in a follow-up) that of the conversation. Of several definitions
of a name, the words of the question choose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rag.analysis import is_stop_word, terms
from rag.code.graph_files import MAX_FILES
from rag.code.languages import TEMPLATE, kind_of_path, language_of_path
from rag.code.name_resolution import COMMON
from rag.code.use_search import MAX_POSSIBLE
from rag.identifiers import LIKE_CODE, LOWER, NAME, UNCASED, UPPER
from rag.ports import ChunkIndex
from rag.retrieval.kinds import importers
from rag.retrieval.kinds.asked import INCOMPLETE, Asked, FactPlace, code_facts, named
from rag.retrieval.kinds.by_text import subtypes_by_text, uses_by_text
from rag.retrieval.kinds.recognition import NEGATED, relation_of, subject_of_tests
from rag.retrieval.kinds.tested import tests_of
from rag.retrieval.question import spelled_names
from rag.retrieval.rank import is_bundle
from rag.top_k import distinct
from rag.types import CodeDefinition, CodeFacts, CodeUse, Hit, UseRole
from rag.types.question_kinds import CALLERS

_NAME = re.compile(rf"{NAME}(?:(?:\.|::|->|#)~?{NAME})*")
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
_MAX_LINE_CHARS = 400
_DOC = 2
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
    "callers": ("call", "call", "calls"),
    "uses": ("mention", "use", "uses"),
    "overrides": ("override", "method", "methods"),
    "subclasses": ("base", "base class", "base classes"),
    "importers": ("import", "import", "imports"),
}
"""What may be a use though it could not be resolved, by relation: its role, and its name in words."""
_RAISES = re.compile(r"\b(?:raise|throw|panic\w*|abort|die|fail|reject|Err|bail|ensure)\b")
"""What a line holds that raises the error that it names."""
_MAX_UNRESOLVED = 3
_OPEN = f"{INCOMPLETE}names and types that are only known at run time are not resolved"
_DOUBT = "Where the type of an object is not known, its name decides"
_SPAN = re.compile(r"(?<!`)`+([^`\n]{1,200})`+")


@dataclass(frozen=True, slots=True)
class _Subject:
    """The definitions that a question is about, all of one name."""

    index: ChunkIndex
    targets: list[CodeDefinition]


def find(asked: Asked) -> CodeFacts | None:
    """Return the uses, certain ones first, those in tests last; None if the subject is not clear."""
    relation = relation_of(asked.question.question.text)
    if relation == "importers" and (found := importers.find(asked)) is not None:
        return found
    if relation in ("callers", "uses") and (found := importers.of_models(asked)) is not None:
        return found
    subject = _subject(asked)
    if relation is None or subject is None:
        return None
    target = subject.targets[0]
    if target.unit == "section" and relation in ("callers", "importers", "raisers"):
        relation = "uses"
    uses = _uses(asked, subject, relation)
    if relation == "raisers":
        raising = [use for use in uses if _RAISES.search(_line(asked, subject.index, use))]
        relation, uses = ("raisers", raising) if raising else ("uses", uses)
    if relation == "callers" and not uses:
        uses = _uses(asked, subject, "uses")  # passed on, or a class that is only named
        uses = uses or _qualified(asked, subject)
    if relation in ("subclasses", "implementers") and not uses:
        uses = list(dict.fromkeys(subtypes_by_text(asked, subject.index, target.name)))
    if language_of_path(target.path) == TEMPLATE and relation in ("callers", "uses"):
        uses = []  # the manifests that include it are not in the graph
    if relation in ("callers", "uses") and not uses and target.unit != "section" and _is_rare(subject):
        by_text = uses_by_text(asked, subject.index, target.name, _is_code)
        uses = [use for use in by_text if not _is_within(use, target)]
    uses, bundled = _without_bundles(subject.index, uses)
    if not uses:
        # "What implements retry?" may ask for a function, and not every language names what it implements.
        # A test may use what it covers through something else.
        return None if relation in ("implementers", "tests") else _unused(asked, subject, relation)
    uses.sort(key=lambda use: (not use.certain, kind_of_path(use.path) == "test"))
    places = list(_places(asked, subject, uses, relation))
    counts = len(_lines(uses)), len(_lines(use for use in uses if use.certain))
    return code_facts(
        asked,
        CALLERS,
        target.qualified_name,
        _summary(relation, subject, *counts),
        places,
        note="; ".join(filter(None, ("" if all(use.certain for use in uses) else _DOUBT, bundled))),
        count=counts[0],
        certain_count=counts[1],
        is_doubtful=True,
    )


def _without_bundles(index: ChunkIndex, uses: list[CodeUse]) -> tuple[list[CodeUse], str]:
    """Return the uses that are not in bundles, and a note on the others; all if every use is in one."""
    bundles = {path for path in {use.path for use in uses} if is_bundle(index, path)}
    kept = [use for use in uses if use.path not in bundles]
    if not kept or not bundles:
        return uses, ""
    where = ", ".join(map(named, sorted(bundles)[:_MAX_UNRESOLVED]))
    return kept, f"{len(uses) - len(kept)} more are in files that repeat this code: {where}"


def _uses(asked: Asked, subject: _Subject, relation: str) -> list[CodeUse]:
    index, targets = subject.index, subject.targets
    if relation == "tests":
        return tests_of(asked, index, targets)
    graph = index.graph
    of_one: Callable[[CodeDefinition], list[CodeUse]]
    if relation in ("callers", "uses", "raisers"):
        uses = list(graph.callers(targets) if relation == "callers" else graph.uses(targets))
        _name_limits(asked, subject, uses)
        return uses
    if relation == "importers":
        return [use for path in dict.fromkeys(t.path for t in targets) for use in graph.importers(path)]
    of_one = graph.overrides if relation == "overrides" else graph.subclasses
    found = {use: None for target in targets for use in of_one(target)}
    own = {(target.path, target.start) for target in targets}
    return [use for use in found if (use.path, use.line) not in own or len(targets) == 1]


def _name_limits(asked: Asked, subject: _Subject, uses: Sequence[CodeUse]) -> None:
    """Note which limits of the graph were met: it reads some of the files with a name, and returns some of
    the possible uses.
    """
    index = subject.index
    for term in terms(subject.targets[0].name)[-1:]:
        chunks = index.postings(term).chunks
        files = distinct(index.file[chunks[index.kind[chunks] != _DOC]])
        asked.first(files.tolist(), MAX_FILES, "files with the name were read")
    if sum(not use.certain for use in uses) >= MAX_POSSIBLE:
        asked.limits[f"only {MAX_POSSIBLE} possible uses are counted"] = None


def _is_rare(subject: _Subject) -> bool:
    """Return whether a name says alone what is meant: it has one definition, and is not common."""
    name = subject.targets[0].name
    return name not in COMMON and len(subject.index.graph.definitions(name)) == 1


def _is_code(hit: Hit) -> bool:
    return hit.kind in ("code", "test", "config")


def _is_within(use: CodeUse, target: CodeDefinition) -> bool:
    return use.path == target.path and target.start <= use.line <= target.end


def _qualified(asked: Asked, subject: _Subject) -> list[CodeUse]:
    """Return the calls that are not resolved, but name the class of the method: `Curl\\Util::execute(…)`."""
    target = subject.targets[0]
    if not target.scope:
        return []
    owner = re.escape(re.split(r"\W+", target.scope)[-1])
    names_class = re.compile(rf"(?<!\w){owner}\s*(?:::|->|\.)\s*{re.escape(target.name)}(?!\w)")
    unresolved = subject.index.graph.unresolved(subject.targets, "call")
    return [use for use in unresolved if names_class.search(_line(asked, subject.index, use))]


def _line(asked: Asked, index: ChunkIndex, use: CodeUse) -> str:
    file = asked.file(index, use.path)
    return file.lines[use.line - 1][:_MAX_LINE_CHARS] if file and use.line <= len(file.lines) else ""


def _places(asked: Asked, subject: _Subject, uses: Sequence[CodeUse], relation: str) -> Iterator[FactPlace]:
    name = subject.targets[0].name
    for use in uses:
        verb = "mentions" if use.role == "mention" and relation == "callers" else _SAYS[relation][1]
        place = asked.place(subject.index, use.path, use.line, f"{verb} {name}", certain=use.certain)
        if place is not None:
            yield place


def _lines(uses: Iterable[CodeUse]) -> set[tuple[str, int]]:
    return {(use.path, use.line) for use in uses}


def _summary(relation: str, subject: _Subject, count: int, certain: int) -> str:
    name, verb = subject.targets[0].qualified_name, _SAYS[relation][0]
    places = f"{count} place" + ("s" if count != 1 else "")
    if not certain:
        return f"`{name}` is possibly {verb} in {places}"
    return f"`{name}` is {verb} in {places}" + (f", {certain} of them certain" if certain < count else "")


def _unused(asked: Asked, subject: _Subject, relation: str) -> CodeFacts | None:
    """Return that no use was resolved, with the definition and the first places that may be uses."""
    target = subject.targets[0]
    file = asked.file(subject.index, target.path)
    if file is None:
        return None
    summary = f"`{target.qualified_name}` is {_SAYS[relation][0]} in 0 places in this repository"
    role, one, several = _UNRESOLVED[relation]
    unresolved = subject.index.graph.unresolved(subject.targets, role)
    if unresolved:
        which = f"{len(unresolved)} {one if len(unresolved) == 1 else several}"
        summary = f"{summary} that could be resolved; {which} of that name could not"
    places = [FactPlace(file, target.start, f"defines {target.name}")]
    for use in unresolved[:_MAX_UNRESOLVED]:
        verb = _SAYS[relation][1]
        if used := asked.place(subject.index, use.path, use.line, f"{verb} {target.name}", certain=False):
            places.append(used)
    found = code_facts(
        asked,
        CALLERS,
        target.qualified_name,
        summary + ("; it is exported" if target.is_exported else ""),
        places,
        note=_OPEN,
    )
    return None if found is None else replace(found, count=0, certain_count=0)


# ---------------------------------------------------------------- the subject


def _subject(asked: Asked) -> _Subject | None:
    text = asked.question.question.text
    positive = NEGATED.sub(" ", text)
    for name in spelled_names(_OWNER.sub(" ", positive)):
        for index in asked.indexes:
            if whole := [one for one in index.graph.definitions(name) if one.name == name]:
                chosen = _chosen(whole[:_MAX_CANDIDATES], text, positive, name)
                return _considered(asked, index, whole, chosen)
    for name, is_sure in _names(positive):
        for index in asked.indexes:
            if found := index.graph.definitions(name):
                some = found[:_MAX_CANDIDATES]
                originals = [one for one in some if not is_bundle(index, one.path)]
                chosen = _chosen(originals or some, text, positive, name)
                if is_sure or len(chosen) <= _MAX_TARGETS:
                    return _considered(asked, index, found, chosen)
    return _in_focus(asked)


def _considered(
    asked: Asked, index: ChunkIndex, found: list[CodeDefinition], chosen: list[CodeDefinition]
) -> _Subject:
    """Return the subject of those that were chosen among the first that were found."""
    what = "definitions of the name were considered"
    asked.first(found, _MAX_CANDIDATES, what)
    return _Subject(index, asked.first(chosen, _MAX_TARGETS, what))


def _names(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what may be a name of code, the surest first, and whether it is written as one."""
    owned = [f"{owner}.{name}" for name, owner in _OWNED.findall(text) if not is_stop_word(name)]
    spans = [*owned, *(name for span in _SPAN.findall(text) for name in _NAME.findall(span))]
    spans += _CALLED.findall(text)
    words = _NAME.findall(text)
    like_code = [word for word in words if _LIKE_CODE.search(word)]
    tested = subject_of_tests(text)
    if tested and not is_stop_word(tested):
        like_code += [tested, tested.rstrip("?!")]  # a mark may end the name or the question
    yield from ((name, True) for name in dict.fromkeys((*spans, *like_code)))
    yield from ((name, False) for name in _BASE.findall(text))
    for n, word in enumerate(words):
        before = words[n - 1].lower() if n else ""
        after = words[n + 1].lower() if n + 1 < len(words) else ""
        if len(word) < 2 or is_stop_word(word) or word.lower() in _BEFORE | _AFTER:
            continue
        if before in _BEFORE or (after in _AFTER and before not in ("a", "an")):
            yield word, False


def _chosen(found: Sequence[CodeDefinition], text: str, positive: str, name: str) -> list[CodeDefinition]:
    """Return the definitions that the other words of the question fit best."""
    own = set(terms(name))
    wanted = set(terms(positive)) - own
    unwanted = {term for part in NEGATED.findall(text) for term in terms(part)} - own - wanted
    is_member = bool(re.search(r"\bmethods?\b|\bclass\b|\w[.#]\w", positive))
    is_function = bool(re.search(r"\bmodule-level\b|\bfunctions?\b", positive)) and not is_member

    def score(one: CodeDefinition) -> tuple[int, int, bool]:
        around = set(terms(f"{one.path.rpartition('.')[0]} {one.scope}"))
        shape = (is_member and bool(one.scope)) or (is_function and not one.scope)
        return len(around & wanted) - len(around & unwanted), int(shape), kind_of_path(one.path) != "test"

    best = max(score(one) for one in found)
    return [one for one in found if score(one) == best]


def _in_focus(asked: Asked) -> _Subject | None:
    """Return what "it" means: the subject of the conversation."""
    meant = asked.question.subject
    if meant is None or not meant.symbol or not asked.question.leans:
        return None
    for index in asked.indexes:
        found = [one for one in index.graph.definitions(meant.symbol) if one.path == meant.path]
        same = [one for one in found if one.scope == meant.scope]
        if found:
            return _considered(asked, index, [], same or found)
    return None
