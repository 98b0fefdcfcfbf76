"""Lines that are pasted into a question are recognised where they occur; ordinary phrases are not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.retrieval.answerability import judge
from rag.retrieval.literal import SOUGHT, is_quoted, phrase_chunks
from rag.retrieval.search import Searcher, search
from rag.service import Engine
from rag.settings import Settings

SOURCE = '''
def charge(card, amount):
    """Charge a card."""
    if amount <= 0:
        raise ValueError(f"cannot charge {amount} cents, the balance would become negative")
    log.error("gateway %s refused card ending in %s with code %d", gateway, card.tail, code)
'''


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "charge.py").write_text(SOURCE)
    for number in range(30):
        (folder / f"other{number}.py").write_text(
            f"def job{number}(queue):\n    return queue.take({number})\n"
        )
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine.repository(str(folder)).searcher


PASTED = [
    "ValueError: cannot charge -3 cents, the balance would become negative",
    "2026-11-03 14:22:09,881 ERROR [worker-7] kombu.pool: the balance would become negative (retry 3/5)",
    'Traceback (most recent call last):\n  File "/srv/app/x.py", line 8, in run\n    f()\n'
    "ValueError: cannot charge 0 cents, THE BALANCE WOULD  become\nnegative",
    "Zookeeper says 'gateway acme-7 refused card ending in 4242 with code 51'. What now?",
]


@pytest.mark.parametrize("message", PASTED)
def test_a_pasted_message_is_never_doubted(shop: Searcher, message):
    assert is_quoted([shop.index], message)
    assert judge([shop], search([shop], message)).is_sure


@pytest.mark.parametrize("message", PASTED)
def test_the_source_of_a_pasted_message_is_first(shop: Searcher, message):
    first = search([shop], message).hits[0]
    assert first.path == "charge.py" and first.legs["phrase"] > 0


@pytest.mark.parametrize("question", ["What happens when I press F9?", "F9", "where is F9 handled"])
def test_a_rare_name_that_nothing_defines_is_found_where_it_is_written(tmp_path: Path, question: str):
    folder = tmp_path / "keys"
    folder.mkdir()
    for number in range(30):
        (folder / f"job{number}.py").write_text(
            f"def handle_press{number}(event):\n    return what_happens(event, {number % 10})\n"
        )
    (folder / "table.py").write_text('TABLE = (\n    ("F8", "nice"),\n    ("F9", "kill"),\n)\n')
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(folder)).searcher
        assert search([searcher], question).hits[0].path == "table.py"


@pytest.mark.parametrize(
    ("question", "share"),
    [
        ('Which code says "card ending in"?', SOUGHT),
        ("where does `card ending in` come from", SOUGHT),
        ("What prints 'ending in' for a card?", 1.0),
    ],
)
def test_what_is_in_quotation_marks_is_searched_as_it_is(shop: Searcher, question, share):
    assert set(phrase_chunks(shop.index, question).values()) == {share}


def test_a_quotation_must_occur_as_a_whole(shop: Searcher):
    assert phrase_chunks(shop.index, 'Where is "card ending of"?') == {}
    assert phrase_chunks(shop.index, "it's the user's card") == {}


@pytest.mark.parametrize(
    "question",
    [
        "Where does the balance become negative over Kafka?",  # no four words in a row
        "would become negative the balance",
        "cannot charge cents, the balance",
        "the balance would",
        "",
        "the the the the",
    ],
)
def test_words_in_another_order_are_no_quotation(shop: Searcher, question):
    assert not is_quoted([shop.index], question)


def test_a_phrase_of_grammar_alone_is_no_quotation(tmp_path: Path):
    (tmp_path / "a.md").write_text("This is how it is done in all of them, with each of these.\n")
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        index = engine.repository(str(tmp_path)).searcher.index
    assert not is_quoted([index], "Kafka, this is how it is in all of them?")


def test_a_long_text_is_looked_up_within_bounds(shop: Searcher):
    text = " ".join(f"queue job{n % 40} return take" for n in range(20_000))
    began = time.process_time()
    assert not is_quoted([shop.index], text)
    assert time.process_time() - began < 2


def test_many_quotations_are_looked_up_within_bounds(shop: Searcher):
    text = " ".join(f'"queue take {n}"' for n in range(1_500))
    began = time.process_time()
    phrase_chunks(shop.index, text)
    assert time.process_time() - began < 1


def test_the_exact_spelling_of_a_quoted_phrase_comes_first(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def a():\n    return 'Connection lost: retry later'\n")
    (tmp_path / "b.py").write_text("def b():\n    return 'connection lost, retry later'\n")
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        index = engine.repository(str(tmp_path)).searcher.index
        for phrase, path in (("Connection lost: retry", "a.py"), ("connection lost, retry", "b.py")):
            found = phrase_chunks(index, f'Where is "{phrase}" from?')
            best = max(found, key=lambda chunk: found[chunk])
            assert index.hit(best, 0.0, {}).path == path and sorted(found.values()) == [0.9, SOUGHT]


def test_a_text_of_common_words_is_found_in_the_one_chunk_that_has_it(tmp_path: Path) -> None:
    adds = (
        "def add_{0}(door):\n    '''Add to the doors of the kiln {0}.'''\n    return door.kiln\n\n\n".format
    )
    watches = (
        "def watch_{0}(kiln):\n    '''Whether a watched kiln may change {0}.'''\n    return kiln\n\n\n".format
    )
    for n in range(20):
        (tmp_path / f"a{n}.py").write_text(adds(n))
        (tmp_path / f"b{n}.py").write_text(watches(n))
    sentence = "Add doors that should be watched for change."
    (tmp_path / "z.py").write_text(f"def late(kilns):\n    '''{sentence}'''\n    return kilns\n")
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(tmp_path)).searcher
        for question in (sentence, f"Where do we {sentence.lower()}"):
            first = search([searcher], question).hits[0]
            assert first.path == "z.py" and first.legs["phrase"]
