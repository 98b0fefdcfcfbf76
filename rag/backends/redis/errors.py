"""Translates errors of the Redis client library to ours."""

from __future__ import annotations

from rag.errors import StoreCorrupt, StoreError, StoreUnreachable, StoreUnwritable

_UNWRITABLE = {
    "OOM": "raise the server's maxmemory, or delete conversations",
    "READONLY": "name the primary instead of a replica",
    "MISCONF": "the server cannot save to its disk: free space there, and see its log",
    "NOREPLICAS": "start the replicas that the server's min-replicas-to-write requires",
    "ACL": "grant the user of the address the permission",
    "NOPERM": "grant the user of the address the permission",
}
_OF_A_CLUSTER = ("CLUSTERDOWN", "CROSSSLOT", "MOVED", "ASK", "TRYAGAIN")
"""Replies of the nodes of a cluster."""
_UNREACHABLE = {
    "LOADING": "it is still loading its data",
    "BUSY": "a script has been running on it for too long",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "NOAUTH": "it requires a password",
    "WRONGPASS": "it rejects the user or the password",
    "DENIED": "it runs in protected mode",
}


def translated(error: Exception, path: str, password: str | None) -> StoreError:
    """Translate an error of the client library. The result never contains the password."""
    import redis.exceptions as known

    why = " ".join(str(error).split()) or type(error).__name__
    if password:
        why = why.replace(password, "***")
    word = _first_word(error, why)
    if word in _UNREACHABLE:
        return StoreUnreachable(path=path, why=f"{_UNREACHABLE[word]} ({why})")
    if word in _UNWRITABLE:
        return StoreUnwritable(path=path, why=why, fix=_UNWRITABLE[word])
    if word in _OF_A_CLUSTER or isinstance(error, (known.ClusterError, known.AskError, known.TryAgainError)):
        return StoreError(
            f"{path} is a node of a cluster, which is not supported ({why}); name a server that is in none"
        )
    if word == "WRONGTYPE":
        return StoreCorrupt(path=path, why=why, fix="choose another prefix= in its address")
    if isinstance(error, (known.ConnectionError, known.TimeoutError, known.InvalidResponse, OSError)):
        return StoreUnreachable(path=path, why=why)
    return StoreError(f"{path} refused: {why}; it has to be a Redis of version 6, a Valkey, or newer")


def too_few_replicas(path: str, have: int, wait: int, wait_s: float) -> StoreError:
    """Return the error for a write that too few replicas have."""
    return StoreError(
        f"{path} has stored the write, but only {have} of {wait} replicas have it after {wait_s:g} s; "
        "start the replicas, or lower wait= in the address"
    )


def _first_word(error: Exception, why: str) -> str:
    """Return the first word of a server's error, which the library removes if it has a class for it."""
    import redis.exceptions as known

    named: dict[type[Exception], str] = {
        known.BusyLoadingError: "LOADING",
        known.OutOfMemoryError: "OOM",
        known.ReadOnlyError: "READONLY",
        known.NoPermissionError: "NOPERM",
        known.MasterDownError: "MASTERDOWN",
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
