"""What the client library for Redis raises, as errors of ours."""

from __future__ import annotations

from typing import Any

from rag.errors import StoreCorrupt, StoreError, StoreUnreachable, StoreUnwritable

_UNWRITABLE = {
    "OOM": "raise the server's maxmemory, or delete conversations",
    "READONLY": "name the primary instead of a replica",
    "MISCONF": "the server cannot save to its disk: free room there, see its log",
    "NOREPLICAS": "start the replicas that the server's min-replicas-to-write asks for",
    "ACL": "give the user of the address the right to it",
    "NOPERM": "give the user of the address the right to it",
}
_UNREACHABLE = {
    "LOADING": "it is still reading its data",
    "BUSY": "a script has been running on it for too long",
    "CLUSTERDOWN": "not all slots of the cluster are served now",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "TRYAGAIN": "keys are being moved",
    "NOAUTH": "it asks for a password",
    "WRONGPASS": "it refuses the user or the password",
    "DENIED": "it runs in protected mode",
}


def turned_away(result: Any) -> tuple[str, tuple[str, int]]:
    """How a node turned a call away that may be carried out elsewhere or later, and where to ask.

    MOVED, ASK, NOSCRIPT, CLUSTERDOWN, TRYAGAIN, GONE (it is not there); "" when it did not. Older versions of
    the library have no class for some of them.
    """
    import redis.exceptions as known

    if isinstance(result, known.ConnectionError):
        return "GONE", ("", 0)
    if not isinstance(result, known.ResponseError):
        return "", ("", 0)
    kinds = {
        known.MovedError: "MOVED",
        known.AskError: "ASK",  # after MOVED, which is one of them
        known.NoScriptError: "NOSCRIPT",
        known.ClusterDownError: "CLUSTERDOWN",
        known.TryAgainError: "TRYAGAIN",
    }
    told = str(result).split()
    word = told[0] if told and told[0] in kinds.values() else ""
    word = word or next((name for kind, name in kinds.items() if isinstance(result, kind)), "")
    host, _, port = told[-1].rpartition(":") if word == "ASK" else ("", "", "0")
    return word, (host, int(port))


def is_not_there(error: Exception) -> bool:
    """Whether no connection could be made, so that certainly nothing was sent."""
    return "connecting to" in str(error)


def translated(error: Exception, path: str, password: str | None) -> StoreError:
    """An error of ours for one of the client library's. The password never stands in it."""
    import redis.exceptions as known

    why = " ".join(str(error).split()) or type(error).__name__
    if password:
        why = why.replace(password, "***")
    word = _first_word(error, why)
    if word in _UNREACHABLE:
        return StoreUnreachable(path=path, why=f"{_UNREACHABLE[word]} ({why})")
    if word in _UNWRITABLE:
        return StoreUnwritable(path=path, why=why, fix=_UNWRITABLE[word])
    if word == "WRONGTYPE":
        return StoreCorrupt(path=path, why=why, fix="choose another prefix= in its address")
    if isinstance(error, (known.ConnectionError, known.TimeoutError, known.InvalidResponse, OSError)):
        return StoreUnreachable(path=path, why=why)
    return StoreError(f"{path} refused: {why}; it has to be a Redis of version 6, a Valkey, or newer")


def too_few_replicas(path: str, have: int, wait: int, wait_s: float) -> StoreError:
    """What was written is not yet where it was asked for."""
    return StoreError(
        f"{path} has what was written, but only {have} of {wait} replicas have it after {wait_s:g} s; "
        "start the replicas, or lower wait= in the address"
    )


def _first_word(error: Exception, why: str) -> str:
    """What the server began its refusal with; the library takes the word away where it has a class for it."""
    import redis.exceptions as known

    named: dict[type[Exception], str] = {
        known.BusyLoadingError: "LOADING",
        known.OutOfMemoryError: "OOM",
        known.ReadOnlyError: "READONLY",
        known.NoPermissionError: "NOPERM",
        known.ClusterDownError: "CLUSTERDOWN",
        known.MasterDownError: "MASTERDOWN",
        known.TryAgainError: "TRYAGAIN",
        known.AuthenticationWrongNumberOfArgsError: "NOAUTH",
        known.AuthenticationError: "NOAUTH",
    }
    word = why.split(" ", 1)[0].strip("-:").upper()
    if word in _UNREACHABLE or word in _UNWRITABLE:
        return word
    for kind, stands_for in named.items():
        if isinstance(error, kind):
            return "WRONGPASS" if "invalid" in why and stands_for == "NOAUTH" else stands_for
    return word
