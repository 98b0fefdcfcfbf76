"""The frame of a repository, for a model that has not seen it: what the project is, its parts, its names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rag.code.languages import kind_of_path, language_of_path
from rag.code.parts import main_parts
from rag.code.project_summary import PACKAGE_DOCS, package_quote, project_description
from rag.code.roles import is_carried
from rag.code.survey import Survey
from rag.code.symbols import File
from rag.database.central_names import central_names
from rag.database.store import Store
from rag.lines import lines_of
from rag.markdown import documented, sentence
from rag.quoting import visible
from rag.service.repositories.last_used import LastUsed
from rag.service.repositories.repository import Repository

MAX_BYTES = 900
"""The size of a frame's text in UTF-8, which is at most 300 tokens."""
_DESCRIPTION_CHARS, _PHRASE_CHARS = 160, 60
_MAX_FOLDERS, _MAX_NAMES = 10, 40
SUMMARY_BYTES = 360
"""The folders end here: the summary is in every prompt of an answer, and has at most about 120 tokens."""
_ABOUT_PROJECT = tuple(
    """readme __init__.py lib.rs doc.go setup.py setup.cfg pyproject.toml cargo.toml package.json
    composer.json pom.xml pubspec.yaml mix.exs""".split()
)
_ENDINGS = (".gemspec", ".cabal", ".csproj", ".podspec", ".1")
"""How the names of the files begin, or end, that may describe the project."""
_MAX_ABOUT_FILES, _MAX_DEPTH = 30, 2
_KEPT = 64
_MAX_FRAMES = 3


class Folder(NamedTuple):
    """A folder with code; `phrase` is its own description, "" if it has none."""

    path: str
    phrase: str


@dataclass(frozen=True, slots=True)
class Frame:
    """What a project is (a sentence of its own, or ""), its main folders, and its names used most."""

    name: str
    description: str
    folders: tuple[Folder, ...]
    names: tuple[str, ...]

    @property
    def summary(self) -> str:
        """What the project is and its folders, as lines of text without control characters."""
        rows = [f"{self.name}: {self.description}" if self.description else self.name]
        rows += [f"{path}/: {phrase}" if phrase else f"{path}/" for path, phrase in self.folders]
        return "\n".join(map(visible, rows))

    @property
    def text(self) -> str:
        """The summary, and the names on a line of their own; at most `MAX_BYTES` of UTF-8."""
        return "\n".join([self.summary, *([visible(", ".join(self.names))] if self.names else [])])


_frames = LastUsed[Frame](_KEPT)


def frames_of(repositories: Sequence[Repository], *, with_names: bool) -> list[str]:
    """Return the text of each frame, for a model; none for many repositories, which would take the room.

    The names help a model that does not see the code to find words for it; else the code shows them.
    """
    frames = map(frame_of, repositories) if len(repositories) <= _MAX_FRAMES else ()
    return [frame.text if with_names else frame.summary for frame in frames]


def frame_of(repository: Repository) -> Frame:
    """Return the frame of an open repository, from its index alone; the same for the same index.

    The last ones are cached; a new one takes up to a tenth of a second for a large repository.

    Raises:
        StoreCorrupt: the store is damaged where it had to be read.
    """
    key = str(repository.store.header["id"]), repository.source.name
    return _frames.get(key, lambda: _fitted(_read(repository)))


def _read(repository: Repository) -> Frame:
    store, name = repository.store, repository.source.name
    kinds = {path: kind for path, (_, kind) in store.files().items()}
    about = sorted(filter(_may_describe, kinds), key=lambda path: (path.count("/"), path))
    checkout = repository.checkout if repository.checkout.has_files else None
    described = project_description(Survey(name, _files(store, about[:_MAX_ABOUT_FILES]), checkout))
    code = [path for path, kind in kinds.items() if kind == "code" and not is_carried(path)]
    description = sentence(described[0].text, _DESCRIPTION_CHARS) if described else ""
    phrases = {path: _phrase(store, path) for path in main_parts(dict.fromkeys(code, 1), _MAX_FOLDERS)}
    return Frame(
        name=name,
        description=description,
        folders=tuple(
            Folder(path, "" if phrase in description else phrase) for path, phrase in phrases.items()
        ),
        names=tuple(central_names(store, _MAX_NAMES)),
    )


def _may_describe(path: str) -> bool:
    name = posixpath.basename(path).lower()
    return path.count("/") <= _MAX_DEPTH and (name.startswith(_ABOUT_PROJECT) or name.endswith(_ENDINGS))


def _files(store: Store, paths: Iterable[str]) -> dict[str, File]:
    found = {}
    for path in sorted(paths):
        if (read := store.file_text(path)) is not None:
            text, blob = read
            lines = tuple(lines_of(text))
            found[path] = File(path, text, blob, language_of_path(path), kind_of_path(path), lines)
    return found


def _phrase(store: Store, folder: str) -> str:
    """Return the first words of a folder's own documentation; "" if it has none."""
    files = _files(store, [f"{folder}/{name}" for name in PACKAGE_DOCS])
    quote = package_quote(Survey("", files), list(files))
    return sentence(documented(quote.text), _PHRASE_CHARS).rstrip(".") if quote else ""


def _fitted(frame: Frame) -> Frame:
    """Return the frame without the folders and names for which there is no room."""
    whole = replace(frame, names=())
    while whole.folders and len(whole.text.encode()) > SUMMARY_BYTES:
        whole = replace(whole, folders=whole.folders[:-1])
    names = frame.names
    while names and len(replace(whole, names=names).text.encode()) > MAX_BYTES:
        names = names[:-1]
    return replace(whole, names=names)
