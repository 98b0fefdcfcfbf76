"""The tree of errors is what its drawing says, and each message says what to do."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from rag import errors
from rag.errors import ConfigError, ProviderError, RagError

LINE = re.compile(r"^    (?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: +\S.*)?$")

SAID = {
    errors.RefNotFound: ({"source": "https://example.org/app", "ref": "v9"}, "git ls-remote"),
    errors.NothingToIndex: ({"source": "/x", "seen": 7, "reasons": {"binary": 7}}, "check the path"),
    errors.StoreCorrupt: ({"path": "/x.pkl", "why": "the file is empty"}, "rag index SOURCE --rebuild"),
    errors.StoreUnreadable: ({"path": "/x.pkl", "why": "I/O error"}, "check the disk"),
    errors.TooManyOpenFiles: ({"path": "/x.pkl", "why": "too many open files"}, "ulimit -n"),
    errors.StoreTooNew: ({"path": "/x.pkl", "found": 9, "supported": 1}, "upgrade rag"),
    errors.StoreOutdated: ({"path": "/x.pkl", "found": 1, "supported": 2}, "rag index SOURCE --rebuild"),
    errors.StoreBusy: ({"path": "/x.pkl", "waited_s": 30}, "wait for it to end"),
    errors.StoreUnwritable: ({"path": "/x.pkl", "why": "no room"}, "RAG_HOME"),
    errors.StoreReadOnly: ({"path": "/x.db", "why": "its file system is read-only"}, "RAG_HOME"),
    errors.StoreUnreachable: ({"path": "redis://h:1/0", "why": "connection refused"}, "RAG_MEMORY"),
    errors.ShelfError: ({"shelf": "s3://b", "why": "it failed", "fix": "retry it"}, "retry it"),
    errors.ShelfUnreachable: ({"shelf": "s3://b", "why": "no answer in 30 s"}, "RAG_STORES"),
    errors.ShelfFull: ({"shelf": "/mnt/stores"}, "rag storage shared --collect"),
    errors.ShelfRefused: ({"shelf": "s3://b", "why": "there is no such bucket"}, "RAG_STORES"),
    errors.ShelfConflict: (
        {"shelf": "s3://b", "key": "app-1", "expected": "a" * 32, "found": "b" * 32},
        "publish again",
    ),
    errors.ShelfOutdated: (
        {"shelf": "s3://b", "key": "app-1", "published": "b" * 10, "commit": "a" * 10},
        "--force",
    ),
    errors.ShelfDamaged: ({"shelf": "s3://b", "why": "a file is missing"}, "rag storage shared --verify"),
    errors.DimensionMismatch: ({"expected": 128, "got": 256}, "rag index SOURCE --rebuild"),
    errors.BackendMissing: (
        {"backend": "minilm", "missing": "onnxruntime", "extra": "minilm"},
        "pip install",
    ),
    errors.QuestionEmpty: ({}, "ask, for instance"),
    errors.QuestionTooLong: ({"length": 900, "limit": 800}, "shorten it"),
    errors.ContextTooSmall: (
        {"context_tokens": 100, "needed_tokens": 190, "what": "the question"},
        "--context-tokens",
    ),
    errors.ConversationMismatch: (
        {"conversation": "login", "about": "/x", "asked": "/y"},
        "--conversation NAME",
    ),
    errors.ConversationChanged: (
        {"conversation": "login", "expected": "3f2c", "found": "77ab"},
        "rag turns show",
    ),
}
"""The classes that write their own message: what they are told, and what they tell the user to do."""


def classes() -> list[type[RagError]]:
    found = [value for _, value in inspect.getmembers(errors, inspect.isclass)]
    return [value for value in found if issubclass(value, RagError)]


def drawn() -> dict[str, str]:
    """Each class in the drawing, and the class it hangs from."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if not (match := LINE.match(line)):
            continue
        depth = len(match["indent"])
        above = [(d, name) for d, name in above if d < depth]
        parents[match["name"]] = above[-1][1] if above else "Exception"
        above.append((depth, match["name"]))
    return parents


def test_the_tree_is_as_it_is_drawn():
    assert drawn() == {kind.__name__: kind.__bases__[0].__name__ for kind in classes()}
    assert len(drawn()) > 20


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_who_can_mend_it_decides_the_exit_code(kind):
    theirs = {
        errors.SourceUnreachable,
        errors.ShelfUnreachable,
        *(k for k in classes() if issubclass(k, ProviderError)),
    }
    assert kind.exit_code == (3 if kind in theirs - {errors.AuthenticationFailed} else 2)
    assert issubclass(kind, (ConfigError, ProviderError)) or kind is RagError
    assert kind.__doc__


def test_every_class_with_a_message_of_its_own_is_checked_here():
    own = {kind for kind in classes() if "__init__" in vars(kind)}
    assert own == {*SAID, ProviderError}


@pytest.mark.parametrize("kind", SAID, ids=lambda kind: kind.__name__)
def test_a_message_holds_the_facts_and_what_to_do(kind):
    facts, advice = SAID[kind]
    error = kind(**facts)
    assert advice in str(error)
    for name, value in facts.items():
        assert getattr(error, name) == value
        if not isinstance(value, dict):
            assert str(value) in str(error)
    for reason, count in facts.get("reasons", {}).items():
        assert f"{count} {reason}" in str(error)


def test_a_service_that_failed_says_which_and_whether_to_try_again():
    error = errors.RateLimited(
        "example.org takes no more", provider="example.org", retryable=True, status=429
    )
    assert (error.provider, error.retryable, error.status) == ("example.org", True, 429)
    assert issubclass(errors.NotFound, LookupError)
    assert issubclass(errors.DimensionMismatch, ValueError)
    assert issubclass(errors.BackendMissing, ImportError)


@pytest.mark.parametrize("kind", [k for k in classes() if k not in SAID and not issubclass(k, ProviderError)])
def test_an_error_crosses_processes(kind):
    again = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(again), str(again)) == (kind, "what happened")


def test_a_name_that_is_taken_is_no_other_repository() -> None:
    taken = errors.ConversationMismatch(conversation="login", about="/x", asked="/x")
    assert str(taken) == "a conversation called 'login' already exists; choose another name"
