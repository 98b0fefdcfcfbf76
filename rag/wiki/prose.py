"""Prose for a page, written by a model from the page's files, and what of it may stand in the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from rag.answer.markdown import closes_fence, code_spans, opened_fence
from rag.errors import (
    AuthenticationFailed,
    ConfigError,
    ContextTooSmall,
    ProviderBroke,
    ProviderRejected,
    ProviderUnreachable,
    RagError,
    RateLimited,
)
from rag.resources import shipped
from rag.service.ask import converse
from rag.service.dialog import Dialog, HitSelection
from rag.types import Answer, Hit
from rag.wiki.build_state import Prose, ProseCitation, sha256
from rag.wiki.links import CitationWriter
from rag.wiki.markdown import block, code
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.unsupported_claims import whole_sentences

if TYPE_CHECKING:
    from rag.service import Engine, Repository

_SHOWN = 40
_FILES_NAMED = 30
_CHUNKS_A_FILE = 6


class Cancelled(RagError):
    """The writing was stopped on request; nothing of the page is kept."""


def template_path(home: Path, name: str) -> Path:
    """The user's own template of this name, else ours."""
    own = home / "templates" / f"{name}.j2"
    return own if own.is_file() else shipped("templates") / f"{name}.j2"


def page_selection(own: Sequence[Hit], about: str, left_out: Callable[[str], bool]) -> HitSelection:
    """Select the page's own chunks and those found for what it is about, in turn; each chunk once.

    Args:
        own: the page's own chunks, the most important first.
        about: what is searched.
        left_out: whether a file is none of the repository's own, such as a wiki written into it.
    """

    def choose(hits: Sequence[Hit], k: int) -> Sequence[Hit]:
        others = [hit for hit in hits if not left_out(hit.path)]
        merged: dict[tuple[str, int], Hit] = {}
        for number in range(max(len(own), len(others))):
            for hit in (*own[2 * number : 2 * number + 2], *others[number : number + 1]):
                merged.setdefault((hit.path, hit.start), hit)
        return list(merged.values())[:_SHOWN]

    return HitSelection(choose, about=about, is_judged=False)


class ProseWriter:
    """Asks the model of an engine for the prose of pages. Safe to use from several threads at once.

    Args:
        engine: its settings name the model; its turn store keeps one conversation for each page.
        repository: what the wiki is about, open.
        structure: the pages.
    """

    def __init__(self, engine: Engine, repository: Repository, structure: WikiStructure) -> None:
        self.template = template_path(engine.settings.home, "wiki_page")
        self.engine = engine.with_settings(template=str(self.template))
        self.repository, self.structure = repository, structure
        # Opened here once, so that threads need not meet at it.
        self._used = (self.engine.turns, self.engine.counter)
        self._chunks = _chunks_by_path(repository, structure)

    def question(self, page: WikiPage) -> str:
        """What is asked for a page: its title, what it is about, its files, the notes on it."""
        lines = [f"Title: {page.title}", f"About: {page.description}"]
        if page.file_paths:
            lines.append(f"Files: {', '.join(page.file_paths[:_FILES_NAMED])}")
        lines += [f"Note: {note}" for note in (*page.notes, *self.structure.notes)]
        return "\n".join(" ".join(line.split()) for line in lines)

    def fingerprint(self, page: WikiPage) -> str:
        """Stands for everything the model is given for a page: equal ones need no second asking."""
        settings = self.engine.settings
        files = self.structure.survey.files
        blobs = [f"{path} {files[path].blob}" for path in page.file_paths if path in files]
        asked = [self.template.read_text(encoding="utf-8"), settings.language, str(settings.model)]
        return sha256("\0".join([*asked, self.question(page), *blobs]))

    def is_current(self, page: WikiPage, prose: Prose | None) -> bool:
        """Whether prose was asked for with the same, and all it cites still stands."""
        if prose is None or prose.fingerprint != self.fingerprint(page):
            return False
        files = self.structure.survey.files
        return all(c.path in files and files[c.path].blob == c.blob for c in prose.citations)

    def write(self, page: WikiPage, stopped: Callable[[], bool]) -> Prose:
        """The prose of a page.

        Raises:
            ProviderError, ConfigError: as the service does; no turn is stored.
            Cancelled: `stopped` said so.
        """
        answer = self._asked(self.dialog(page), self.question(page), stopped)
        return self.taken(page, answer)

    def dialog(self, page: WikiPage) -> Dialog:
        """The conversation in which a page is asked for."""
        files = self.structure.survey.files
        return Dialog(
            self.engine,
            [self.repository],
            name=f"wiki {self.structure.title}: {page.title} ({self.fingerprint(page)[:12]})",
            selection=page_selection(
                self._own(page), f"{page.title}. {page.description}", lambda path: path not in files
            ),
        )

    def taken(self, page: WikiPage, answer: Answer) -> Prose:
        """What was answered to the question for a page, as its prose.

        Raises:
            ProviderBroke: nothing was answered.
        """
        if not answer.text.strip():
            raise ProviderBroke("the model wrote nothing", provider=answer.model, retryable=True)
        citations = tuple(ProseCitation(c.n, c.path, c.start, c.end, c.blob) for c in answer.citations)
        return Prose(
            whole_sentences(answer.text) if answer.cut else answer.text,
            self.fingerprint(page),
            answer.model,
            citations,
            answer.invented,
            answer.conversation_id,
            answer.usage,
            answer.cut,
        )

    def _asked(self, dialog: Dialog, question: str, stopped: Callable[[], bool]) -> Answer:
        generator = self.engine.generator()
        with closing(converse(dialog, question, generator)) as pieces:
            for piece in pieces:
                if stopped():
                    raise Cancelled("the writing was stopped")
                if isinstance(piece, Answer):
                    return piece
        raise AssertionError("a conversation ends with its answer")

    def _own(self, page: WikiPage) -> list[Hit]:
        """Chunks of the page's files in turn: of each its beginning, then its definitions."""
        store = self.repository.store
        listed = [self._chunks.get(path, [])[:_CHUNKS_A_FILE] for path in page.file_paths[:_SHOWN]]
        order = [c for n in range(_CHUNKS_A_FILE) for chunks in listed for c in chunks[n : n + 1]]
        return [store.hit(chunk, 1.0, {"page": 1.0}) for chunk in order[:_SHOWN]]


def concerns_all(error: RagError) -> bool:
    """Whether no other page would fare better: the setting is wrong, the service away, the budget spent."""
    if isinstance(error, ProviderRejected):
        return error.status == HTTPStatus.NOT_FOUND  # no such model; else it refused what this page said
    if isinstance(error, RateLimited):
        return not error.retryable
    return isinstance(error, (AuthenticationFailed, ProviderUnreachable)) or (
        isinstance(error, ConfigError) and not isinstance(error, ContextTooSmall)
    )


def _chunks_by_path(repository: Repository, structure: WikiStructure) -> dict[str, list[int]]:
    """The chunks of each file that stands on a page, in order."""
    store = repository.store
    wanted = {path for page in structure.pages for path in page.file_paths}
    paths = {number: store.file_path(number) for number in set(store.file.tolist())}
    found: dict[str, list[int]] = {}
    for chunk, number in enumerate(store.file.tolist()):
        path = paths[number]
        if path in wanted and (store.dead is None or not store.dead[chunk]):
            found.setdefault(path, []).append(chunk)
    return found


# ---------------------------------------------------------------- what may stand in the page

_REFERENCE = re.compile(r"\[(\d{1,3}(?:[ \t]*[,;–-][ \t]*\d{1,3})*)\]")
_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*)$")
_ESCAPED = {"<": "&#60;", "[": "&#91;", "]": "&#93;", "!": "&#33;", "~": "&#126;"}


def as_markdown(prose: Prose, cited: CitationWriter) -> str:
    """Prose as it stands in a page: its references lead to the lines they cite, and nothing else is a link.

    HTML, images and links of the model's become words, diagrams of its own plain text: what a page draws
    comes from the code. Headings begin at the second level.
    """
    places = {citation.n: citation for citation in prose.citations}
    out: list[str] = []
    lines = prose.text.strip().split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = opened_fence(line)
        if fence is not None:
            inside: list[str] = []
            number += 1
            while number < len(lines) and not closes_fence(lines[number], fence):
                inside.append(lines[number])
                number += 1
            language = line.strip(" \t>`~").split(" ")[0]
            out += ["", block("\n".join(inside), "text" if language.lower() == "mermaid" else language), ""]
        elif heading := _HEADING.match(line):
            level = max(2, len(heading[1]))
            out.append(f"{'#' * level} {_line(heading[2], places, cited)}")
        else:
            out.append(_line(line, places, cited))
        number += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip("\n")


def _line(line: str, places: dict[int, ProseCitation], cited: CitationWriter) -> str:
    """One line outside fenced blocks."""
    line = line.replace("\t", "    ").rstrip("\r")
    spans = code_spans(line)
    made, position = "", 0
    for start, end in spans:
        made += _text(line[position:start], places, cited) + code(line[start:end].strip("`").strip() or "`")
        position = end
    return made + _text(line[position:], places, cited)


def _text(text: str, places: dict[int, ProseCitation], cited: CitationWriter) -> str:
    made, position = "", 0
    for match in _REFERENCE.finditer(text):
        named = [places[n] for n in _numbers(match[1]) if n in places]
        if not named:
            continue
        links = ", ".join(cited.place(c.path, c.start, c.end) for c in named)
        made += _escaped(text[position : match.start()]) + f"({links})"
        position = match.end()
    return made + _escaped(text[position:])


def _numbers(written: str) -> list[int]:
    found: list[int] = []
    for part in re.split(r"[,;]", written):
        first, _, last = part.replace("–", "-").partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(sign, sign) for sign in text)
