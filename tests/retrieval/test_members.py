"""A part that a question names and that does not exist is named; what exists in any spelling is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from rag.answer.not_found import warning
from rag.ports import ChunkIndex
from rag.retrieval.answerability import judge
from rag.retrieval.members import missing_part
from rag.retrieval.search import Searcher, search
from rag.service import Engine
from rag.settings import Settings
from rag.types import MAX_QUESTION_CHARS, MissingPart

FILES = {
    "store/session.py": '''
class Base:
    """What sessions share."""

    def close(self):
        self.is_open = False


class Session(Base):
    """A session that retries."""

    def __init__(self, retries=3):
        self.retries = retries
        self.retry_delay = 2

    def send(self, data):
        return self.extend(data)

    def extend(self, data):
        return [data]


class Proxy(External):
    """Derives from a class that is not here."""

    def forward(self):
        return None
''',
    "store/lock.py": '''
class Lock:
    """Kept by one session at a time."""

    def acquire(self):
        return True
''',
    "store/cli.py": """
import argparse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dry-run", action="store_true", help="change nothing in the global list")
    parser.add_argument("--max-count", type=int, default=3)
    return parser.parse_args()
""",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    root = tmp_path_factory.mktemp("repository")
    for path, text in FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine.repository(str(root)).searcher


@pytest.fixture
def index(store: Searcher) -> ChunkIndex:
    return store.index


@pytest.mark.parametrize(
    ("question", "part", "of"),
    [
        ("Does Session have a method resend?", "resend", "Session"),
        ("Does `Session` have `retry_limit`?", "retry_limit", "Session"),
        ("What does Lock.extend do?", "extend", "Lock"),
        ("What does `Session::resendAll` return?", "resendAll", "Session"),
        ("Does the store take a --verbose flag?", "--verbose", "store"),
        ("Does the store have a --global flag?", "--global", "store"),
        ("Which default does the option max-tries have?", "max-tries", ""),
        ("Is there a setting retryBackoff?", "retryBackoff", ""),
        ("What does the max_tries option of Session do?", "max_tries", "Session"),
        ("What does the max-tries option of the session do?", "max-tries", "session"),
        ("Which default does --max-tries of the store have?", "--max-tries", ""),
        ("Where is extend! defined, next to send?", "extend!", ""),
        ("Does Lock accept a dry_run parameter?", "dry_run", "Lock"),
    ],
)
def test_an_invented_part_is_named(index: ChunkIndex, question: str, part: str, of: str):
    found = missing_part([index], question)
    assert found is not None
    assert (found.name, found.of) == (part, of)


@pytest.mark.parametrize(
    "question",
    [
        "Does Session have a method extend?",
        "Does Session have a method close?",  # of its base class
        "What does Session.send do?",
        "Does Session have a retryDelay attribute?",  # in another spelling
        "What does Proxy.acquire do?",  # its base class is not here
        "Does the store take a --dry-run flag?",
        "What is the default of max_count?",
        "What does the max-count option do?",
        "Does Session accept a retries parameter?",
        "Is there a setting that says how long it waits?",
        "Which option limits the number of tries?",
        "Where is the per-environment setting read?",
        "What does cli.py do?",
        "Why does Session.resend fail with ValueError?" + " It worked before." * 30,
        "How are sessions closed?",
        "",
    ],
)
def test_what_exists_or_is_not_asked_for_by_name_is_left_alone(index: ChunkIndex, question: str):
    assert missing_part([index], question) is None


def test_the_nearest_names_are_those_of_the_class(index: ChunkIndex):
    found = missing_part([index], "Does `Session` have `retry_limit`?")
    assert found is not None
    assert "retry_delay" in found.nearest


def test_the_warning_says_what_is_missing_of_what(store: Searcher):
    found = search([store], "What does Lock.extend do?")
    confidence = judge([store], found)
    assert not confidence.is_sure
    assert confidence.missing_words[0] == "extend"
    assert warning(confidence, found.hits).startswith(
        "Probably not in this repository. `Lock` has no `extend`"
    )


def test_a_part_of_nothing_is_missing_without_an_owner(store: Searcher):
    found = search([store], "Is there a setting retryBackoff?")
    confidence = judge([store], found)
    assert confidence.missing_part == MissingPart("retryBackoff", "", confidence.missing_part.nearest)
    assert "No `retryBackoff` was found" in warning(confidence, found.hits)


@pytest.mark.parametrize(
    "part",
    [
        "does a ",
        "what the ",
        "default of ",
        "does the `",
        "a.b.",
        "is there a ",
        "has x have ",
        "a-",
        "--",
        "the rule ",
    ],
)
def test_a_hostile_question_takes_little_time(index: ChunkIndex, part: str):
    began = time.thread_time()
    for length in (300, MAX_QUESTION_CHARS):
        missing_part([index], (part * length)[:length])
    assert time.thread_time() - began < 1
