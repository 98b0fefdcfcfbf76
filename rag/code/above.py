"""What is above the folder of a source: the names and manifests by which code names what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rag.code.resolve import Above

_MANIFESTS = ("go.mod", "Cargo.toml", "package.json", "tsconfig.json", "tsconfig.base.json", "composer.json")
_MAX_FOLDERS = 12
_MAX_BYTES = 100_000


def above(location: str) -> Above:
    """Return what is above a source: of a folder the last names of its path, and the manifests there, within
    its git repository if there is one; of a URL its last name.
    """
    folder = Path(location)
    if not folder.is_absolute():
        name = location.rstrip("/").replace(":", "/").rpartition("/")[2].removesuffix(".git")
        return Above(f"{name}/" if name else "")
    folders = list(islice((one for one in (folder, *folder.parents) if one.name), _MAX_FOLDERS))
    top = folders[-1].parent if folders else folder
    manifests = {path.relative_to(top).as_posix(): text for path, text in _manifests(folders)}
    return Above("".join(f"{one.name}/" for one in reversed(folders)), manifests)


def _manifests(folders: list[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the manifests above the first of some folders, which is in the others, up to the top of git."""
    for folder, inner in zip(folders[1:], folders, strict=False):
        if (inner / ".git").exists():
            return
        for path in map(folder.joinpath, _MANIFESTS):
            try:
                if path.is_file() and path.stat().st_size <= _MAX_BYTES:
                    yield path, path.read_text("utf-8", "replace")
            except OSError:
                continue  # it cannot be read, and names nothing
