"""Plain words lead to the words of code that they describe; the words of the code need no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.analysis import terms
from rag.backends.faiss_index import FaissIndex
from rag.database.store import Store
from rag.database.update import Options, write_texts
from rag.resources import shipped
from rag.retrieval.code_words import code_words
from rag.retrieval.kinds.recognition import is_answered_by_rules
from rag.retrieval.lexical import Bm25, Rarity
from rag.retrieval.rank import RankingWeights
from rag.retrieval.search import Searcher, search
from rag.types import Checkout, Source, SourceFile, blob_id
from tests.contracts.hashing_embedder import HashingEmbedder
from tools.train.code_words import SOURCES, compiled

TEXTS = {
    "jobs.py": "def lease(task):\n    return store.claim(task)\n",
    "cache.py": "def evict(entries):\n    while len(entries) > limit: entries.popitem(last=False)\n",
    "colours.py": "def grab_colour(picture):\n    return picture.mean()\n",
    "log.py": "def write(line):\n    stream.write(line)\n",
}


WORDS_ALONE = RankingWeights(dense=0, file=0, about=0)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    folder: Path = tmp_path_factory.mktemp("code-words")
    files = [SourceFile(path, text, blob_id(text.encode()), "python", "code") for path, text in TEXTS.items()]
    return write_texts(
        files, Checkout(Source(str(folder)), folder), folder / "s.pkl", HashingEmbedder(16), Options()
    )


def of(store: Store, question: str) -> dict[str, float]:
    wanted, rarity = dict.fromkeys(terms(question), 1.0), Rarity([store])
    return code_words(store, wanted, rarity, Bm25(store, wanted, rarity).best(10))


def test_the_shipped_table_is_that_of_the_sources():
    """If this fails: `python -m tools.train.code_words`."""
    assert shipped("data/code_words.txt").read_text() == compiled(sorted(SOURCES.glob("*.txt")))


@pytest.mark.parametrize(
    ("question", "path", "word"),
    [
        ("How are two people kept from taking one piece of work when both grab?", "jobs.py", "leas"),
        ("Where are old things thrown out when there is no more room?", "cache.py", "evict"),
    ],
)
def test_plain_words_find_code_that_has_none_of_them(store, question, path, word):
    assert word in of(store, question)
    assert not set(terms(question)) & set(terms(TEXTS[path]))
    searcher = Searcher(store, HashingEmbedder(16), FaissIndex(store.vectors), WORDS_ALONE)
    assert search([searcher], question).hits[0].path == path


def test_a_question_whose_words_one_chunk_has_needs_no_other_words(store):
    assert of(store, "grab picture") == {}


def test_a_plain_word_that_describes_much_is_not_enough(store):
    assert of(store, "change") == {}


@pytest.mark.parametrize(
    ("question", "by_rules"),
    [
        ("Where are old things thrown out when there is no more room?", False),
        ("What happens to old things when there is no more room?", False),
        ("Who throws out old things?", False),
        ("Who calls evict()?", True),
        ("List all things that are thrown out.", True),
        ("Which option sets when old things are thrown out?", True),
        ("What if there is no more room for old things?", True),
        ("error: there is no more room for old things", True),
    ],
)
def test_what_rules_look_for_is_searched_in_its_own_words(question, by_rules):
    assert is_answered_by_rules(question) == by_rules


@given(
    st.lists(st.sampled_from("grab throw room change old people work twice colour zzz".split()), max_size=6)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_code_words_are_of_the_repository_and_not_of_the_question(store, words):
    found = of(store, " ".join(words))
    assert all(len(store.postings(word).chunks) and word not in terms(" ".join(words)) for word in found)
    assert all(0 <= weight <= 1.6 for weight in found.values())
    assert list(found) == list(of(store, " ".join(dict.fromkeys(words))))
