"""The names that requests may use, and the repositories that they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from rag.errors import RagError
from rag.request_context import note_repository
from rag.serve.access.keys import Caller
from rag.serve.errors import Forbidden, ServeError, TooMany, UnknownRepository
from rag.serve.repositories.entry import ServedRepository
from rag.serve.settings import ServerSettings
from rag.service import locate
from rag.service.repositories.groups import ALL
from rag.types import Conversation, Source

_MAX_UNLISTED = 50
"""The number of refs and URLs that requests may add."""
_MAX_SHOWN_NAMES = 20
_MAX_GROUP_CHARS = 120


class RepositoryNames:
    """The listed repositories, and the refs and URLs that requests have added.

    Args:
        settings: the listed repositories, the groups, and the hosts whose URLs are allowed.
        released: called with the source of an entry that was dropped to make room.
    """

    def __init__(self, settings: ServerSettings, *, released: Callable[[Source], None]) -> None:
        self._settings, self._released = settings, released
        self._entries = {name: ServedRepository(name, source) for name, source in settings.repositories}

    def names(self) -> list[str]:
        """Return the names of the listed repositories, in order, then those that requests added."""
        return list(self._entries)

    def listed_names(self) -> str:
        """Return the names of the list for a message; "none" if it is empty."""
        listed = [entry.name for entry in self.entries() if entry.is_listed]
        more = f" and {len(listed) - _MAX_SHOWN_NAMES} more" if len(listed) > _MAX_SHOWN_NAMES else ""
        return (", ".join(listed[:_MAX_SHOWN_NAMES]) or "none") + more

    def entries(self) -> list[ServedRepository]:
        """Return all entries, in the order of `names`."""
        return list(self._entries.values())

    def visible_to(self, caller: Caller) -> list[ServedRepository]:
        """Return the listed entries, then those that the caller has requested: the branches and URLs that
        others use are private. Those that could not be indexed are left out."""
        return [
            s
            for s in self.entries()
            if s.is_listed or (caller.namespace in s.asked_by and (s.can_answer or s.state != "failed"))
        ]

    def entry(self, name: str, ref: str | None = None, *, caller: Caller | None = None) -> ServedRepository:
        """Return the entry that a request names: `NAME`, `NAME@REF`, or an allowed URL (also with `@REF`).

        An unlisted entry becomes visible to the `caller`.

        Raises:
            UnknownRepository: no such name is served.
            Forbidden: a path, or a URL that is not allowed.
            TooMany: too many requested refs and URLs are being indexed.
        """
        full, source = self._named(name, ref)
        entry = self._entries.get(full) or self._added(full, source)
        note_repository(full)
        if caller is not None and not entry.is_listed:
            entry.asked_by.add(caller.namespace)
        return entry

    def groups(self) -> list[str]:
        """Return the groups, `@all` first; none if a single repository is listed."""
        if sum(entry.is_listed for entry in self.entries()) < 2:
            return []
        return [ALL, *(f"@{name}" for name, _ in self._settings.groups)]

    def members(self, group: str) -> list[ServedRepository]:
        """Return the entries of a group: `@all`, or one of the settings. Raises UnknownRepository."""
        if group == ALL:
            return [entry for entry in self.entries() if entry.is_listed]
        named = dict(self._settings.groups)
        if group[1:] not in named:
            known = ", ".join([ALL, *(f"@{name}" for name in named)])
            raise UnknownRepository(f"there is no group {group[:_MAX_GROUP_CHARS]!r}; there are {known}")
        return [self._entries[name] for name in named[group[1:]]]

    def only_entry(self) -> ServedRepository:
        """Return the only listed entry, for a request that names none.

        Raises:
            UnknownRepository: the list is empty, or has several.
        """
        listed = [entry for entry in self.entries() if entry.is_listed]
        if len(listed) != 1:
            raise UnknownRepository(f"no repository is named; name one of: {self.listed_names()}")
        return listed[0]

    def named(self, name: str, ref: str | None = None) -> str:
        """Return the full name of the entry that a request names, without adding it.

        Raises:
            UnknownRepository, Forbidden: as `entry`.
        """
        return self._named(name, ref)[0]

    def source(self, name: str) -> Source:
        """Return the source that a request names, without adding an entry. Raises as `named`."""
        return self._named(name, None)[1]

    def base_name(self, source: Source) -> str:
        """Return the name of a source before any `@REF`: its name in the list, at any ref, else its URL."""
        place = (source.location, source.filters)
        listed = (s for s in self.entries() if s.is_listed and (s.source.location, s.source.filters) == place)
        return next((entry.name for entry in listed), source.location)

    def _named(self, name: str, ref: str | None) -> tuple[str, Source]:
        full = f"{name}@{ref}" if ref else name
        if known := self._entries.get(full):
            return full, known.source
        base, named_ref = (name, ref) if ref else _split_ref(name)
        listed = self._entries.get(base)
        if listed is not None and listed.is_listed and named_ref:
            source = _at(listed.source, named_ref)
        elif "://" in base:
            base = self._allowed_url(base)
            source = locate(base, named_ref)
        else:
            raise self._unknown(base)
        return (f"{base}@{named_ref}" if named_ref else base), source

    def about_served(self, conversations: Sequence[Conversation]) -> list[Conversation]:
        """Return the conversations about a served repository, at any ref, and those about none."""
        places = {source.location: source for one in conversations for source in one.sources}
        served = {location for location, source in places.items() if self._is_served(source)}
        return [
            one
            for one in conversations
            if not one.sources or not served.isdisjoint(source.location for source in one.sources)
        ]

    def _is_served(self, source: Source) -> bool:
        with suppress(RagError):
            self._named(self.base_name(source), None)
            return True
        return False

    def entry_of(self, source: Source) -> ServedRepository | None:
        """Return the entry of a source that a conversation has stored; None when it is not served.

        Raises:
            TooMany: as `entry`.
        """
        found = next((entry for entry in self._entries.values() if entry.source == source), None)
        if found is not None:
            return found
        try:  # a ref or URL that was not requested since the server started, or was evicted
            name, known = self._named(self.base_name(source), source.ref)
        except RagError:
            return None
        return self.entry(name) if known == source else None

    def _added(self, name: str, source: Source) -> ServedRepository:
        if self._unlisted() >= _MAX_UNLISTED:
            # First drop entries that were only named, or could not be indexed.
            self._entries = {known: s for known, s in self._entries.items() if s.is_listed or s.is_usable}
        if self._unlisted() >= _MAX_UNLISTED:
            # Then the least recently used one. Its store stays on disk while there is room.
            idle = [s for s in self._entries.values() if not (s.is_listed or s.running)]
            if not idle:
                raise TooMany(
                    f"{_MAX_UNLISTED} refs and URLs that are not listed are being indexed; retry when some "
                    "are done, or add --repo for them to the server",
                    retry_after_s=60,
                )
            dropped = min(idle, key=lambda s: s.checked)
            del self._entries[dropped.name]
            self._released(dropped.source)
        entry = self._entries[name] = ServedRepository(name, source, is_listed=False)
        return entry

    def _is_trusted(self, source: Source) -> bool:
        """Whether the operator chose its location, at any ref, rather than a request."""
        return not source.is_url or any(
            source.location == listed.location for _, listed in self._settings.repositories
        )

    def _unlisted(self) -> int:
        return sum(not entry.is_listed for entry in self._entries.values())

    def _allowed_url(self, url: str) -> str:
        """Return the normalised URL if it is allowed.

        Raises:
            Forbidden: it is not https on an allowed host, has credentials, or is malformed.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise Forbidden(f"that URL is malformed: {error}") from error
        host = (parts.hostname or "").lower()
        shown = f"{host}:{port}" if port not in (None, 443) else host
        if parts.scheme.lower() != "https" or shown not in {h.lower() for h in self._settings.allow_urls}:
            raise Forbidden(
                "this URL is not served; the operator can allow https hosts with --allow-urls HOST"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise Forbidden("the URL of a repository must not have a user, password, query or fragment")
        if any(part in (".", "..") for part in parts.path.split("/")) or "%" in parts.path:
            raise Forbidden("that is not the path of a repository")
        found = locate(url)
        if found.ref is not None:
            raise Forbidden("that is the page of a branch; name the repository, then `@` and the branch")
        return found.location

    def _unknown(self, name: str) -> ServeError:
        names = self.listed_names()
        return UnknownRepository(f"no repository of that name is served ({name[:80]!r}); there are: {names}")


def _split_ref(name: str) -> tuple[str, str | None]:
    """Split `NAME@REF`; in a URL the ref follows the last `@` of its path."""
    head, at, ref = name.rpartition("@")
    if not at or ("://" in name and not re.fullmatch(r"[a-z+]+://[^/@]+/.+", head, re.IGNORECASE)):
        return name, None
    return head, ref


def _at(source: Source, ref: str) -> Source:
    """Return the same source at another ref, which is validated."""
    return replace(locate(source.location, ref), filters=source.filters)
