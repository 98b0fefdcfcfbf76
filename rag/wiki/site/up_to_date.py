"""Check whether a wiki is up to date, without parsing files or rendering pages."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import rag
from rag.resources import read_regular, template_path
from rag.wiki.models import sha256
from rag.wiki.pages.devin_json import STEERING_FILE
from rag.wiki.site.build_state import StructureOptions, WikiState
from rag.wiki.site.mkdocs import MERMAID_FILE
from rag.wiki.site.output_files import MAX_BYTES, OutputFiles
from rag.wiki.site.report import WikiOptions

if TYPE_CHECKING:
    from rag.service import Engine, Repository


def inputs_hash(engine: Engine, repository: Repository, folder: Path, options: WikiOptions) -> str:
    """Return a hash of all inputs of a wiki: equal inputs give equal pages.

    The inputs are the files with their blob ids, commit and remote, the options that pages depend on, the
    model, its service and its prompts, and this program.
    """
    root, settings = repository.checkout.root, engine.settings
    known = repository.store.known_files().items()
    files = [
        (path, blob) for path, (_, _, blob) in known if folder not in (root / path).parents or folder == root
    ]
    asked: list[object] = []
    if options.prose and settings.has_model:
        template = template_path(settings.home, "wiki_page").read_text(encoding="utf-8")
        asked = [settings.base_url, settings.model, settings.language, template]
    whole = {
        "program": _program(),
        "checkout": repr(repository.checkout),
        "embedder": settings.embedder,
        "files": sorted(files),
        "steering": _state_of(root / STEERING_FILE),
        "options": [options.max_pages, options.copies, options.mermaid is not None],
        "asked": asked,
    }
    return sha256(json.dumps(whole))


def page_options(repository: Repository, options: WikiOptions) -> StructureOptions:
    """Return what decides which pages a wiki has, besides the files."""
    source = repository.checkout.source
    return StructureOptions(options.max_pages, source.ref, source.filters.include, source.filters.exclude)


def is_up_to_date(state: WikiState, output: OutputFiles, options: WikiOptions) -> bool:
    """Return whether all written files are unchanged, and no rewrite is requested."""
    if options.force or {page.id for page in state.written} != state.pages.keys():
        return False
    written = {f"docs/{page.file}": page.sha256 for page in state.pages.values()} | state.site
    for name, known in written.items():
        text = output.read(name)
        if text is None or sha256(text) != known:
            return False
    if options.mermaid is not None and not _is_copied(options.mermaid, output):
        return False
    return all(output.exists(f"docs/source/{name}") for name in state.copies)


def _state_of(path: Path) -> list[int]:
    try:
        found = path.lstat()
    except OSError:
        return []
    return [found.st_mode, found.st_size, found.st_mtime_ns]


def _is_copied(script: Path, output: OutputFiles) -> bool:
    try:
        return output.read_bytes(f"docs/{MERMAID_FILE}") == read_regular(script, max_bytes=MAX_BYTES)
    except OSError:
        return False


@cache
def _program() -> str:
    """Return a hash of the code of this package: a change of it may change pages."""
    digest = hashlib.sha256()
    package = Path(rag.__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
