"""Check what is configured, reachable and missing, and name the fix."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from rag import backends, processes
from rag.database.locate import stores
from rag.errors import BackendMissing, RagError, SettingsError, ShelfError, SourceError, StoreError
from rag.quoting import without_secrets
from rag.service.repositories.remotes import git_version
from rag.service.upkeep.stored_secrets import StoredSecret, stored_secrets
from rag.settings import Settings

State = Literal["ok", "off", "bad"]

_SHOWN_SECRETS = 8
_LEAST_FREE_BYTES = 50_000_000
"""Less than this is soon used up by an index and by conversations."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `off` is an unused option; `bad` is a problem, which `fix` solves."""

    name: str
    state: State
    detail: str
    fix: str = ""


def diagnose(settings: Settings, *, ask_servers: bool = True) -> Iterator[Finding]:
    """Run all checks, in the order in which the parts are needed."""
    yield Finding("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")
    yield _imports()
    yield _installed()
    yield _git()
    yield _home(settings)
    yield _settings_file(settings)
    yield _embedder(settings, ask_servers=ask_servers)
    yield _stores(settings)
    yield _shared_stores(settings, ask_servers=ask_servers)
    yield from _memory(settings, scan=ask_servers)
    if settings.local_model:
        yield from _local_model(settings, settings.local_model)
    else:
        yield _model(settings, ask_servers=ask_servers)


def _imports() -> Finding:
    """Check that a repository's own modules cannot run here: whether the current folder was in the import
    path.
    """
    if processes.began_with_current_folder():
        return Finding(
            "imports",
            "bad",
            "Python started with the current folder in its import path (`python -m rag`, or an empty entry "
            "in PYTHONPATH): code of a repository there could run",
            "rag …, or python -P -m rag …, with no empty entry in PYTHONPATH",
        )
    return Finding("imports", "ok", "nothing from the current folder")


def _installed() -> Finding:
    missing = []
    for package in ("adalflow", "faiss-cpu", "jinja2", "numpy", "openai", "tiktoken", "tree-sitter"):
        try:
            version(package)
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return Finding(
            "packages", "bad", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}"
        )
    return Finding("packages", "ok", f"adalflow {version('adalflow')}, openai {version('openai')}")


def _git() -> Finding:
    try:
        return Finding("git", "ok", git_version())
    except SourceError as error:
        return Finding("git", "bad", f"{error}; only plain folders can be read", "install git")


def _home(settings: Settings) -> Finding:
    home = settings.home
    parent = next((p for p in (home, *home.parents) if p.exists()), home)
    if not os.access(parent, os.W_OK | os.X_OK):
        return Finding("home", "bad", f"{home} cannot be written", "export RAG_HOME=/a/folder/of/yours")
    free = shutil.disk_usage(parent).free
    if free < _LEAST_FREE_BYTES:
        fix = "free some disk space (`rag storage show`), or export RAG_HOME=/a/folder/with/space"
        return Finding("home", "bad", f"{home}, only {free / 1e6:,.0f} MB free", fix)
    return Finding("home", "ok", f"{home}, {free / 1e9:.1f} GB free")


def _settings_file(settings: Settings) -> Finding:
    if settings.config_file.exists():
        return Finding("settings file", "ok", str(settings.config_file))
    return Finding("settings file", "off", f"none at {settings.config_file}; flags and environment are used")


def _embedder(settings: Settings, *, ask_servers: bool) -> Finding:
    try:
        embedder = backends.open_embedder(settings)
        if ask_servers or settings.embedder in ("static", "minilm"):
            dim = embedder.embed(["where is the token checked"], role="query").shape[1]
            return Finding("embedder", "ok", f"{settings.embedder}, {dim} dimensions")
        return Finding("embedder", "ok", f"{settings.embedder}, not checked")
    except RagError as error:
        return Finding("embedder", "bad", str(error), "rag … --embedder static")


def _stores(settings: Settings) -> Finding:
    found = list(stores(settings.home))
    broken = [path.name for path, header in found if isinstance(header, StoreError)]
    if broken:
        return Finding(
            "stores", "bad", f"cannot be read: {', '.join(broken)}", f"rm {settings.home}/stores/{broken[0]}"
        )
    approximate = [recall for _, header in found if (recall := _recall(header)) is not None]
    said = f"{len(found)} in {settings.home / 'stores'}"
    if approximate:
        said += f"; {len(approximate)} searched approximately (recall@10 {min(approximate):.3f} or more)"
    return Finding("stores", "ok", said)


def _shared_stores(settings: Settings, *, ask_servers: bool) -> Finding:
    if not settings.stores:
        return Finding("shared stores", "off", "none; indexes are not shared with other machines")
    try:
        shelf = backends.open_shelf(settings)
        assert shelf is not None, "the settings name one"
        cached = sum(one.generation.size_bytes for one in shelf.cache.generations())
        cache = f"{cached / 1e6:.1f} of {settings.stores_cache_bytes / 1e6:,.0f} MB cached"
        if not ask_servers:
            return Finding("shared stores", "ok", f"{shelf.name}, not checked; {cache}")
        return Finding("shared stores", "ok", f"{len(shelf.keys())} at {shelf.name}; {cache}")
    except ShelfError as error:
        return Finding("shared stores", "bad", f"{error.shelf}: {error.why}", error.fix)
    except BackendMissing as error:
        return Finding("shared stores", "bad", str(error), "pip install '.[object-store]'")
    except RagError as error:
        return Finding("shared stores", "bad", str(error), "export RAG_STORES=/a/shared/folder")


def _recall(header: Mapping[str, Any] | StoreError) -> float | None:
    found = None if isinstance(header, StoreError) else header.get("recall_at_10")
    return found if isinstance(found, float) else None


def _memory(settings: Settings, *, scan: bool) -> Iterator[Finding]:
    try:
        store = backends.open_turn_store(settings)
        try:
            count = len(store.conversations(namespace=settings.namespace))
            secrets = list(stored_secrets(store)) if scan else None
        finally:
            store.close()
    except RagError as error:
        yield Finding("memory", "bad", str(error), "rag … --memory sqlite:///ANOTHER/FILE")
        return
    where = without_secrets(settings.memory) or settings.home / "turns.db"
    yield Finding("memory", "ok", f"{count} conversation{'' if count == 1 else 's'} in {where}")
    if secrets is not None:
        yield _stored_secrets(secrets)


def _stored_secrets(found: Sequence[StoredSecret]) -> Finding:
    if not found:
        return Finding("stored secrets", "ok", "none found in turns and cached answers")
    shown = [f"{secret.place}: {secret.kind}" for secret in found[:_SHOWN_SECRETS]]
    more = f"; and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    return Finding(
        "stored secrets",
        "bad",
        f"{len(found)} likely: " + "; ".join(shown) + more,
        "rag turns delete TURN, rag cache clear; and revoke the key",
    )


def _local_model(settings: Settings, path: Path) -> Iterator[Finding]:
    """Check what a model file needs, without loading it."""
    from rag.backends.llama import server

    try:
        server.check_installed()
        yield Finding("model server", "ok", f"{server.PACKAGE} {version(server.PACKAGE)}")
    except BackendMissing as error:
        yield Finding("model server", "bad", str(error), "pip install '.[local]'")
    if lacking := server.missing_instructions():
        detail = f"this processor lacks {', '.join(lacking)}, which {server.PACKAGE} is built for"
        yield Finding("processor", "bad", detail, "--base-url of a model server on another machine")
    try:
        server.check_file(path)
    except SettingsError as error:
        yield Finding("model", "bad", str(error), "--model PATH.gguf")
        return
    size, context = path.stat().st_size / 1e9, backends.fitted(settings).context_tokens
    yield Finding("model", "ok", f"{path} ({size:.1f} GB); context of {context:,} tokens; not loaded")


def _model(settings: Settings, *, ask_servers: bool) -> Finding:
    if not settings.has_model:
        return Finding(
            "model",
            "off",
            "none; answers quote the nearest lines",
            "rag setup",
        )
    if settings.command is not None:
        try:
            found = processes.users_command(settings.command)[0]
        except SettingsError as error:
            return Finding("model", "bad", str(error), "rag setup")
        return Finding("model", "ok", f"the command {settings.command} ({found}), not run")
    where = settings.base_url or "api.openai.com"
    if not ask_servers or settings.client != "openai":
        return Finding("model", "ok", f"{settings.model or 'the only one'} at {where}, not checked")
    from rag.backends.openai.endpoint import list_models

    try:
        names = list_models(settings.base_url, settings.api_key, min(settings.timeout_s, 10.0))
    except RagError as error:
        return Finding("model", "bad", str(error), "rag setup")
    if settings.model and names and settings.model not in names:
        known = ", ".join(names[:8])
        return Finding("model", "bad", f"{where} has no model {settings.model}", f"--model one of: {known}")
    counter = backends.open_token_counter(settings).name
    return Finding("model", "ok", f"{settings.model or ', '.join(names[:3])} at {where}; tokens: {counter}")
