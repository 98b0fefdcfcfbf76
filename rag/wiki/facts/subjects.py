"""What a program deals with: feeds and entries, songs and playlists; each with the code about it.

A subject is a noun with a plural that types are named after, that qualifies other names (`FeedForm`,
`create_feed`) more often than it is qualified (`FeedHandler` makes `handler` a role), and that the documents
of the repository use. Its code is what has the noun in its name, in several folders.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rag.code.survey import Survey
from rag.code.symbols import File, Symbol

_MIN_SUBJECTS, _MAX_SUBJECTS = 3, 12
_MIN_FILES, _MIN_FOLDERS, _MIN_CHARS = 4, 2, 3
_MANY_ALIKE = 3
"""A name that more than a third of its files define a type of is a role that every folder has."""
_MAX_VERBS, _MIN_OBJECTS = 8, 3
_NO_VERBS = frozenset("as by for from get has in init is new no of on set test the to use with".split())
_MIGRATIONS = re.compile(r"(?:^|/)migrations?/", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OF_ANY_PROGRAM = frozenset(
    "api app auth client command config content context data error field file form format function get"
    " handler id info input item key level list manager model msg name node object option output param parser"
    " path request response result route run set state status string type url util uuid value view".split()
)
"""Nouns of programming, which say nothing about what a program is for."""


@dataclass(frozen=True, slots=True)
class WikiSubject:
    """A noun as a title ("Feeds"), and the definitions with it in their names, the most important first.

    `types` are called exactly so; `verbs` are those of the functions (`create_feed`).
    """

    title: str
    symbols: tuple[Symbol, ...]
    types: tuple[Symbol, ...] = ()
    verbs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Noun:
    """What the names of a repository show of a noun. `qualifies` and `is_qualified` count names."""

    symbols: list[Symbol]
    qualifies: int = 0
    is_qualified: float = 0
    types: int = 0
    plurals: int = 0


def subjects(
    survey: Survey,
    own: Sequence[File],
    documented: Mapping[str, int],
    importance: Callable[[Symbol], float],
) -> list[WikiSubject]:
    """Return the subjects of a repository, those with most files first; [] for fewer than three.

    Args:
        survey: has the definitions.
        own: the repository's own code.
        documented: the number of documents with each word.
        importance: how much a reader should know a definition.
    """
    nouns: dict[str, _Noun] = defaultdict(lambda: _Noun([]))
    stems: dict[str, set[str]] = defaultdict(set)
    for file in own:
        if file.language == "sql" or _MIGRATIONS.search(file.path):
            continue  # they keep what was renamed or removed since
        if len(stem := _words(posixpath.basename(file.path).partition(".")[0])) == 1:
            stems[singular(stem[0])].add(file.folder)
        for symbol in survey.symbols(file.path):
            _count(nouns, symbol)
    found = {
        word: noun
        for word, noun in nouns.items()
        if len(word) >= _MIN_CHARS
        and word not in _OF_ANY_PROGRAM
        and (noun.types or (noun.is_qualified and len(stems[word]) > 1))
        and noun.qualifies >= noun.is_qualified
        and _is_spread(noun)
        and (noun.plurals or documented[_plural(word)])
        and any(documented[form] for form in _forms(word))
    }
    if len(found) < _MIN_SUBJECTS:
        return []
    order = sorted(found, key=lambda word: (-len({s.path for s in found[word].symbols}), word))
    objects = _objects(nouns)
    return [_subject(word, found[word], objects, importance) for word in order[:_MAX_SUBJECTS]]


def _count(nouns: dict[str, _Noun], symbol: Symbol) -> None:
    written = _words(symbol.name)
    words = [*map(singular, written)]
    for word, as_written in dict(zip(words, written, strict=True)).items():
        nouns[word].symbols.append(symbol)
        nouns[word].plurals += word != as_written
    if len(words) == 1 and symbol.unit == "class":
        nouns[words[0]].types += 1
    elif len(words) > 1 and symbol.unit == "class":
        nouns[words[0]].qualifies += 1
        nouns[words[-1]].is_qualified += 1
    elif len(words) == 2:  # a verb and its object
        nouns[words[1]].qualifies += 1
    elif words:
        nouns[words[-1]].is_qualified += 0.5


def _objects(nouns: Mapping[str, _Noun]) -> dict[str, set[str]]:
    """Return what each first word of a function's name is done to; none for the names of types."""
    found: dict[str, set[str]] = defaultdict(set)
    for word, noun in nouns.items():
        for name in (_words(symbol.name) for symbol in noun.symbols if symbol.unit == "function"):
            is_of_it = len(name) == 2 and singular(name[1]) == word
            if is_of_it and not (name[0] in nouns and nouns[name[0]].types):
                found[name[0]].add(word)
    return found


def _is_spread(noun: _Noun) -> bool:
    paths = {symbol.path for symbol in noun.symbols}
    folders = {posixpath.dirname(path) for path in paths}
    return len(paths) >= max(_MIN_FILES, _MANY_ALIKE * noun.types) and len(folders) >= _MIN_FOLDERS


def _subject(
    word: str, noun: _Noun, objects: Mapping[str, set[str]], importance: Callable[[Symbol], float]
) -> WikiSubject:
    ranked = sorted(noun.symbols, key=lambda one: (-importance(one), one.path, one.start))
    types = (one for one in ranked if one.unit == "class" and singular(one.name.lower()) == word)
    names = [_words(one.name) for one in ranked if one.unit == "function"]
    of_functions = dict.fromkeys(name[0] for name in names if len(name) == 2 and singular(name[1]) == word)
    verbs = [verb for verb in of_functions if verb not in _NO_VERBS and len(objects[verb]) >= _MIN_OBJECTS]
    return WikiSubject(_plural(word).capitalize(), tuple(ranked), tuple(types), tuple(verbs[:_MAX_VERBS]))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _forms(word: str) -> Sequence[str]:
    both = (word, _plural(word))
    return [*both, *(one.capitalize() for one in both)]


def singular(word: str) -> str:
    """Return the singular of an English noun in lower case, as its ending shows."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "sh", "ch", "x")) else f"{word}s"
