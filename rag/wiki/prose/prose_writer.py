"""Let a model write prose for a page from the page's files, and sanitize its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from http import HTTPStatus
from typing import TYPE_CHECKING

from rag.answer.markdown import closes_fence, code_spans, opened_fence
from rag.code.survey import Survey
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
from rag.markdown import block, code, without_module_line
from rag.resources import template_path
from rag.service.loop.ask import converse
from rag.service.loop.dialog import Dialog, HitSelection
from rag.service.loop.history import WholeAnswers
from rag.types import Answer, Hit
from rag.wiki.models import Prose, ProseCitation, WikiPage, WikiStructure, sha256
from rag.wiki.pages.links import CitationWriter

if TYPE_CHECKING:
    from rag.service import Engine, Repository

_MAX_CHUNKS = 40
_MAX_FILES_NAMED = 30
_CHUNKS_PER_FILE = 6


class Cancelled(RagError):
    """The run was cancelled; the page's text is discarded."""


def page_selection(own: Sequence[Hit], about: str, left_out: Callable[[str], bool]) -> HitSelection:
    """Select the page's own chunks and the chunks found for its topic, alternating; each chunk once.

    Args:
        own: the page's own chunks, the most important first.
        about: the query.
        left_out: whether a file does not belong to the repository, such as a wiki written into it.
    """

    def choose(hits: Sequence[Hit], k: int) -> Sequence[Hit]:
        others = [hit for hit in hits if not left_out(hit.path)]
        merged: dict[tuple[str, int], Hit] = {}
        for number in range(max(len(own), len(others))):
            for hit in (*own[2 * number : 2 * number + 2], *others[number : number + 1]):
                merged.setdefault((hit.path, hit.start), hit)
        return list(merged.values())[:_MAX_CHUNKS]

    return HitSelection(choose, about=about, is_judged=False)


class ProseWriter:
    """Asks an engine's model for the prose of pages. Safe to use from several threads at once.

    Args:
        engine: its settings name the model; its turn store keeps one conversation per page.
        repository: the open repository of the wiki.
        structure: the pages.
    """

    def __init__(self, engine: Engine, repository: Repository, structure: WikiStructure) -> None:
        self.template = template_path(engine.settings.home, "wiki_page")
        self.engine = engine.with_settings(template=str(self.template))
        self.repository, self.structure = repository, structure
        # Opened here once, so that threads do not compete for it.
        self._used = (self.engine.turns, self.engine.counter)
        self._chunks = _chunks_by_path(repository, structure)

    def question(self, page: WikiPage) -> str:
        """Return the request for a page: its title, topic, files, and the notes on it."""
        lines = [f"Title: {page.title}", f"About: {page.description}"]
        if page.file_paths:
            lines.append(f"Files: {', '.join(page.file_paths[:_MAX_FILES_NAMED])}")
        lines += [f"Note: {note}" for note in (*page.notes, *self.structure.notes)]
        return "\n".join(" ".join(line.split()) for line in lines)

    def fingerprint(self, page: WikiPage) -> str:
        """Return a hash of all the model's inputs for a page: while it is unchanged, the prose is reused."""
        settings = self.engine.settings
        files = self.structure.survey.files
        blobs = [f"{path} {files[path].blob}" for path in page.file_paths if path in files]
        asked = [self.template.read_text(encoding="utf-8"), settings.language, str(settings.model)]
        return sha256("\0".join([*asked, self.question(page), *blobs]))

    def is_current(self, page: WikiPage, prose: Prose | None) -> bool:
        """Return whether prose was written from the same inputs, and all its citations are still valid."""
        if prose is None or prose.fingerprint != self.fingerprint(page):
            return False
        return is_valid(prose, self.structure.survey)

    def write(self, page: WikiPage, stopped: Callable[[], bool]) -> Prose:
        """Return the prose of a page.

        Raises:
            ProviderError, ConfigError: as the service does; no turn is stored.
            Cancelled: `stopped` returned True.
        """
        answer = self._ask_model(self.dialog(page), self.question(page), stopped)
        return self.taken(page, answer)

    def dialog(self, page: WikiPage) -> Dialog:
        """Return the conversation in which a page is requested."""
        files = self.structure.survey.files
        return Dialog(
            self.engine,
            [self.repository],
            history=WholeAnswers(
                self.engine,
                name=f"wiki {self.structure.title}: {page.title} ({self.fingerprint(page)[:12]})",
            ),
            selection=page_selection(
                self._own(page), f"{page.title}. {page.description}", lambda path: path not in files
            ),
        )

    def taken(self, page: WikiPage, answer: Answer) -> Prose:
        """Return the answer to the request for a page as its prose.

        Raises:
            ProviderBroke: the answer is empty.
        """
        if not answer.text.strip():
            raise ProviderBroke("the model wrote nothing", provider=answer.model, retryable=True)
        citations = tuple(ProseCitation(c.n, c.path, c.start, c.end, c.blob) for c in answer.citations)
        return Prose(
            answer.text,
            self.fingerprint(page),
            answer.model,
            citations,
            answer.invented,
            answer.conversation_id,
            answer.usage,
            answer.cut,
            answer.support.unsupported_line if answer.support else "",
        )

    def _ask_model(self, dialog: Dialog, question: str, stopped: Callable[[], bool]) -> Answer:
        generator = self.engine.generator()
        with closing(converse(dialog, question, generator)) as pieces:
            for piece in pieces:
                if stopped():
                    raise Cancelled("the writing was stopped")
                if isinstance(piece, Answer):
                    return piece
        raise AssertionError("a conversation ends with its answer")

    def _own(self, page: WikiPage) -> list[Hit]:
        """Return chunks of the page's files, alternating: of each its beginning, then its definitions."""
        store = self.repository.store
        listed = [self._chunks.get(path, [])[:_CHUNKS_PER_FILE] for path in page.file_paths[:_MAX_CHUNKS]]
        order = [c for n in range(_CHUNKS_PER_FILE) for chunks in listed for c in chunks[n : n + 1]]
        return [store.hit(chunk, 1.0, {"page": 1.0}) for chunk in order[:_MAX_CHUNKS]]


def is_valid(prose: Prose, surveyed: Survey) -> bool:
    """Return whether the files that prose cites are those that the model saw."""
    files = surveyed.files
    return all(c.path in files and files[c.path].blob == c.blob for c in prose.citations)


def concerns_all(error: RagError) -> bool:
    """Return whether the error would affect every page: a wrong setting, an unreachable service, a spent
    budget.
    """
    if isinstance(error, ProviderRejected):
        return error.status == HTTPStatus.NOT_FOUND  # no such model; else it refused this page's request
    if isinstance(error, RateLimited):
        return not error.retryable
    return isinstance(error, (AuthenticationFailed, ProviderUnreachable)) or (
        isinstance(error, ConfigError) and not isinstance(error, ContextTooSmall)
    )


def _chunks_by_path(repository: Repository, structure: WikiStructure) -> dict[str, list[int]]:
    """Return the chunks of each file on a page, in order."""
    store = repository.store
    wanted = {path for page in structure.pages for path in page.file_paths}
    paths = {number: store.file_path(number) for number in set(store.file.tolist())}
    found: dict[str, list[int]] = {}
    for chunk, number in enumerate(store.file.tolist()):
        path = paths[number]
        if path in wanted and (store.dead is None or not store.dead[chunk]):
            found.setdefault(path, []).append(chunk)
    return found


# ---------------------------------------------------------------- sanitizing

_REFERENCE = re.compile(r"\[(\d{1,3}(?:[ \t]*[,;–-][ \t]*\d{1,3})*)\]")
_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*)$")
_ESCAPED = {sign: f"&#{ord(sign)};" for sign in "<[]!~{}`"}


def as_markdown(prose: Prose, cited: CitationWriter) -> str:
    """Return prose as Markdown for a page: its references link to the cited lines, and nothing else is a
    link.

    The model's HTML, images and links become words, its diagrams plain text: only diagrams from the code are
    drawn. Headings begin at the second level.
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
            out.append(without_module_line(_line(line, places, cited)))
        number += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip("\n")


def _line(line: str, places: dict[int, ProseCitation], cited: CitationWriter) -> str:
    """Convert one line outside fenced blocks."""
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
