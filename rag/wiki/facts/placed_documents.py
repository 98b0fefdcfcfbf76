"""Place the sections of a repository's documents with the code that they describe.

A section is about the concept whose definitions and files it names. A name counts less the more concepts
define it; common words are no names.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.code.documentation import Quote, paragraphs, title_of
from rag.code.survey import Survey

_NAME = re.compile(r"[^\W\d][\w.]*\w")
_MIN_SCORE = 1.0
_MIN_LEAD = 1.25
"""How much better than the next concept the best must be."""
_MAX_DOCUMENTS = 400
_PARAGRAPHS = 2
_CHANGES = re.compile(r"(?:^|/)(?:change|history|release|news|contributing|license|authors)", re.IGNORECASE)
_NAVIGATION = re.compile(r"\W*(?:(?:next|previous|prev|back|top|up)\W{0,3}:|back to )", re.IGNORECASE)
"""How the line begins that leads from one document to the next."""


@dataclass(frozen=True, slots=True)
class PlacedSection:
    """A section of a document: its title, and its first paragraphs."""

    title: str
    quotes: tuple[Quote, ...]
    score: float


def placed_documents(
    survey: Survey, concepts: Mapping[str, Sequence[str]]
) -> Mapping[str, list[PlacedSection]]:
    """Return the sections about each concept, the closest first.

    Args:
        survey: the repository.
        concepts: the paths of the files of each concept, by any id.
    """
    homes = _names(survey, concepts)
    found: dict[str, list[PlacedSection]] = defaultdict(list)
    for file in survey.of_kind("doc")[:_MAX_DOCUMENTS]:
        if _CHANGES.search(file.path) or file.path.endswith(".py"):
            continue
        sections: dict[str, list[Quote]] = defaultdict(list)
        for title, quote in paragraphs(file.text, file.path):
            if _is_informative(quote):
                sections[title].append(quote)
        for title, quotes in sections.items():
            name = title.partition(" ")[2]
            scores = _scores(f"{name} " + " ".join(quote.text for quote in quotes), homes)
            best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
            if best and best[0][1] >= _MIN_SCORE and (len(best) < 2 or best[0][1] >= best[1][1] * _MIN_LEAD):
                shown = tuple(quotes[:_PARAGRAPHS])
                found[best[0][0]].append(PlacedSection(name, shown, best[0][1]))
    return {
        name: sorted(placed, key=lambda one: (-one.score, one.quotes[0].path, one.quotes[0].start))
        for name, placed in found.items()
    }


def _is_informative(quote: Quote) -> bool:
    """Return whether a paragraph says something by itself: it announces nothing, and is no navigation."""
    is_other = quote.text.endswith(":") or _NAVIGATION.match(quote.text)
    return len(quote.text.split()) > 3 and not is_other


def _names(survey: Survey, concepts: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, float]]:
    """Return the concepts of each name that looks like one in prose, with the weight of the name."""
    homes: dict[str, set[str]] = defaultdict(set)
    for concept, paths in concepts.items():
        for path in paths:
            homes[posixpath.basename(path)].add(concept)
            for symbol in survey.symbols(path):
                if _is_distinct(symbol.name):
                    homes[symbol.name].add(concept)
    return {
        name: dict.fromkeys(sorted(found), 1 / len(found)) for name, found in homes.items() if len(found) <= 3
    }


def _is_distinct(name: str) -> bool:
    """Return whether a name is no ordinary word."""
    return len(name) > 3 and (
        "_" in name.strip("_") or any(c.isupper() for c in name[1:]) or name[:1].isupper()
    )


def _scores(text: str, homes: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    scores: Counter[str] = Counter()
    for word in dict.fromkeys(_NAME.findall(text)):
        for name in dict.fromkeys((word, word.rpartition(".")[2], word.partition(".")[0])):
            for concept, weight in homes.get(name, {}).items():
                scores[concept] += weight  # type: ignore[assignment]
    return scores


def sections_named(survey: Survey, pattern: re.Pattern[str]) -> list[PlacedSection]:
    """Return the sections and documents whose titles match, outer documents first."""
    found = []
    for file in sorted(survey.of_kind("doc"), key=lambda file: (file.path.count("/"), file.path))[
        :_MAX_DOCUMENTS
    ]:
        if _CHANGES.search(file.path) or file.path.endswith(".py"):
            continue
        document = title_of(file.text, file.path).text
        taken: dict[str, list[Quote]] = defaultdict(list)
        for name, quote in paragraphs(file.text, file.path):
            if _is_informative(quote):
                taken[name].append(quote)
        for name, quotes in taken.items():
            section = name.partition(" ")[2]
            if pattern.search(section) or (pattern.search(document) and section == document):
                found.append(PlacedSection(section, tuple(quotes[:_PARAGRAPHS]), 0.0))
    return found
