"""What ranking promises, on small repositories: other words for the same, whole things before loose lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rag.analysis import terms
from rag.backends.faiss_index import FaissIndex
from rag.corpus.chunk import chunk
from rag.database.store import Store
from rag.database.update import Options, write_texts
from rag.errors import StoreCorrupt
from rag.ports import Embedder
from rag.resources import shipped
from rag.retrieval import rank
from rag.retrieval.answerability import judge
from rag.retrieval.lexical import Rarity
from rag.retrieval.question import parse_question
from rag.retrieval.search import Searcher, search
from rag.retrieval.synonyms import synonyms
from rag.service import Engine
from rag.settings import load_settings
from rag.types import Checkout, Source, SourceFile, blob_id
from tests.contracts.hashing_embedder import HashingEmbedder

DISK = '''
def rmdir(path):
    """Drop it with all that lies below."""
    for child in path.iterdir():
        rmdir(child)


def describe(path):
    """Say what it holds."""
    return [child.name for child in path.iterdir()]
'''
OTHER = '''
"""Somewhere else."""
import folderless


def greet(name):
    """Say hello to somebody, in whatever tongue is theirs."""
    return f"hello {name}"
'''
HASHED = HashingEmbedder(16)
LONG_BODY = "".join(f"        heat_{n} = self.measure(gas, wood, {n})\n" for n in range(30))


@pytest.fixture
def searcher(tmp_path: Path) -> Callable[[Mapping[str, str]], Searcher]:
    def searcher(texts: Mapping[str, str], embedder: Embedder = HASHED) -> Searcher:
        files = [SourceFile(p, t, blob_id(t.encode()), "python", "code") for p, t in texts.items()]
        checkout = Checkout(Source(str(tmp_path)), tmp_path)
        store = write_texts(files, checkout, tmp_path / "s.pkl", embedder, Options())
        words_alone = rank.RankingWeights(dense=0.0, about=0.0)  # such vectors know no meaning
        return Searcher(store, embedder, FaissIndex(store.vectors), words_alone)

    return searcher


def test_a_question_in_everyday_words_finds_the_technical_ones(searcher):
    found = search([searcher({"disk.py": DISK, "other.py": OTHER})], "How is a folder thrown away?").hits
    assert found[0].symbol == "rmdir"
    assert found[0].legs["synonym"] > 0


def test_a_word_of_the_repository_s_own_names_needs_its_synonyms_less(searcher):
    wanted = dict.fromkeys(terms("folder"), 1.0)
    bare = searcher({"a.py": "def dir():\n    pass\n"}).index
    named = searcher({"a.py": "def dir():\n    pass\n", "folder.py": "x = 1\n"}).index
    foreign = synonyms(bare, wanted, Rarity([bare]))
    own = synonyms(named, wanted, Rarity([named]))
    assert own["dir"] < foreign["dir"] <= 1


@pytest.mark.parametrize("name", ["Kiln.fire", "GasKiln.fire", "WoodKiln.fire"])
def test_a_qualified_name_means_the_method_of_that_class(searcher, name):
    classes = "".join(
        f"class {kiln}:\n    def fire(self, gas, wood):\n{LONG_BODY}        {lines}\n\n\n"
        for kiln, lines in (
            ("GasKiln", "return self.fire(gas, wood)  # GasKiln.fire"),
            ("Kiln", "return gas + wood"),
            ("WoodKiln", "return Kiln.fire(wood, gas)  # Kiln.fire"),
        )
    )
    found = search([searcher({"kiln.py": classes})], f"What does {name} return?").hits
    assert (found[0].scope, found[0].symbol) == tuple(name.split("."))


def test_every_line_of_the_table_says_something():
    lines = shipped("data/synonyms.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            said, one_way, written = line.partition(":")
            assert terms(said), line
            assert not one_way or terms(written), line


def test_the_places_in_a_file_are_counted_from_its_best():
    files, chunks = np.array([3, 1, 3, 1, 3], np.int32), np.arange(5)
    scores = np.array([1.0, 2.0, 5.0, 2.0, 4.0], np.float32)
    assert rank._place_in_file(files, chunks, scores).tolist() == [2, 0, 0, 1, 1]


def test_what_a_file_is_about_is_the_mean_over_all_its_chunks(searcher):
    found = searcher({"disk.py": DISK, "other.py": OTHER})
    query = np.asarray(found.embedder.embed(["drop a path"], role="query")[0])
    chunks = np.arange(len(found.index))[::-1]
    values = rank.about_signal(found.index, chunks, query)
    near = np.maximum(np.asarray([found.index.vector(int(c)) @ query for c in chunks]), 0)
    mean = {f: near[found.index.file[chunks] == f].mean() for f in set(found.index.file.tolist())}
    expected = np.asarray([mean[f] for f in found.index.file[chunks].tolist()])
    np.testing.assert_allclose(values, expected, rtol=1e-4)
    assert len(chunks) == sum(
        len(chunk(SourceFile(p, t, "", "python", "code"))) for p, t in (("d", DISK), ("o", OTHER))
    )


@pytest.mark.parametrize(
    "question",
    [
        "What happens at src/other.py:8?",
        "other.py#L7",
        "./src/other.py:6-8 rmdir describe",
        'Traceback:\n  File "/usr/lib/site-packages/src/other.py", line 8, in greet\nrmdir: no such path',
        "Error: describe rmdir\n    at greet (/home/me/shop/src/other.py:8:12)",
    ],
)
def test_a_line_that_is_mentioned_comes_first_and_is_an_answer(searcher, question):
    where = searcher({"src/disk.py": DISK, "src/other.py": OTHER})
    found = search([where], question)
    assert (found.hits[0].path, found.hits[0].symbol) == ("src/other.py", "greet")
    assert judge([where], found).value == 1.0


def test_of_a_long_traceback_both_ends_count(searcher):
    where = searcher({"src/disk.py": DISK, "src/other.py": OTHER})
    frames = [f'  File "/lib/frame{n}.py", line {n}, in run' for n in range(300)]
    for at in (0, 300):
        said = [*frames[:at], '  File "src/other.py", line 8, in greet', *frames[at:]]
        assert search([where], "\n".join(said)).hits[0].symbol == "greet"


@pytest.mark.parametrize("question", ["rmdir at src/other.py:800", "rmdir in lib/other.py:8", "rmdir 1.5:8"])
def test_a_line_that_is_not_there_points_nowhere(searcher, question):
    found = search([searcher({"src/disk.py": DISK, "src/other.py": OTHER})], question)
    assert found.hits[0].symbol == "rmdir"
    assert not any("pointed" in hit.legs for hit in found.hits)


def test_what_all_of_it_is_says_the_beginning_of_its_readme(searcher):
    texts = {"README.py": '"""A shop."""\n', "docs/README.py": "project = 1\n", "disk.py": DISK}
    where = searcher(texts)
    for question in (
        "What does this project do?",
        "Give me an overview of the repository.",
        "describe this app",
    ):
        found = search([where], question)
        assert found.hits[0].path == "README.py"
        assert judge([where], found).found
    for question in ("What does this project do with a path?", "What removes a project?"):
        assert not any("pointed" in hit.legs for hit in search([where], question).hits)


def test_a_search_of_a_damaged_store_says_so(searcher, tmp_path):
    whole = searcher({"disk.py": DISK, "other.py": OTHER})
    data = whole.index.path.read_bytes()
    damaged = tmp_path / "damaged.pkl"
    damaged.write_bytes(data[:4096] + bytes([0xFF]) * (len(data) - 4096))
    index = Store.open(damaged)
    searching = replace(whole, index=index, vectors=FaissIndex(index.vectors))
    with pytest.raises(StoreCorrupt, match=r"(does not match its checksum|a text is damaged).*--rebuild"):
        search([searching], "How is a folder thrown away?")


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("Is the clean-up of stale locks tested?", True),
        ("tests for it?", True),
        ("which tests cover the retry?", True),
        ("Are there any tests that a full disk is reported?", True),
        ("where do we test loading cookies", True),
        ("do the tests cover that?", True),
        ("How is the order of the tests randomized from the seed?", False),
        ("Which switch lets me run my tests in one thread?", False),
        ("A test with a timeout hangs forever: what ends it?", False),
        ("list every test filter class", False),
        ("Where does the test runner decide how many modules run at once?", False),
    ],
)
def test_a_question_that_only_mentions_tests_does_not_ask_for_them(question, asks):
    assert ("tests" in parse_question(question).asks) is asks
    assert parse_question(question).asks & {"tests", "test_code"}


@pytest.mark.parametrize("bundle", ["dist/all.js", "pot.min.js", "pot.bundle.js", "single_include/pot.h"])
def test_a_bundle_comes_after_the_sources_it_was_made_of(searcher, bundle):
    source = "function kappa_measure(value) {\n  return kappa_table[value].measure();\n}\n"
    found = search([searcher({"lib/kappa.js": source, bundle: source})], "Where is kappa measured?").hits
    assert [hit.path for hit in found] == ["lib/kappa.js", bundle]
    assert found[1].score < 0.8 * found[0].score


def test_the_path_of_a_file_is_looked_up_once_for_its_place(searcher, monkeypatch):
    index = searcher({"disk.py": DISK, "examples/other.py": OTHER}).index
    looked_up: list[int] = []
    original = type(index).file_path
    monkeypatch.setattr(
        type(index), "file_path", lambda self, file: looked_up.append(file) or original(self, file)
    )
    chunks, question = np.arange(len(index)), parse_question("Where is the path dropped?")
    factors = [rank.place_factor(index, chunks, question, rank.DEFAULT) for _ in range(3)]
    is_example = np.asarray([original(index, file) != "disk.py" for file in index.file.tolist()])
    for one in factors:
        np.testing.assert_allclose(one, np.where(is_example, rank.DEFAULT.aside, 1.0))
    assert sorted(looked_up) == sorted(set(index.file.tolist()))
    asked = rank.place_factor(index, chunks, parse_question("Show me an example"), rank.DEFAULT)
    assert asked.tolist() == [1.0] * len(chunks)


GUIDE = "# Kilns\n\n## {heading}\n\nIf you forgot the password of the admin, run the tool to reset it.\n"
RESET = "def reset(args):\n    password = ask(args.admin)\n    write(hashed(password))\n"


@pytest.mark.parametrize(
    ("heading", "question", "first"),
    [
        ("Reset the admin password", "How do I reset the admin password?", "docs/guide.md"),
        ("Reset the admin password", "where is `reset` of the admin password", "reset.py"),
        ("Tools", "How do I reset the admin password?", "reset.py"),
    ],
)
def test_a_section_comes_before_code_if_its_heading_is_what_is_asked(
    tmp_path: Path, heading: str, question: str, first: str
) -> None:
    pages = {"docs/guide.md": GUIDE.format(heading=heading), "reset.py": RESET, "fire.py": OTHER}
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with closing(Engine(load_settings({"home": str(tmp_path / "home"), "memory": "memory:"}))) as engine:
        found = search([engine.repository(str(tmp_path)).searcher], question, with_facts=False).hits
    assert found[0].path == first


def test_tests_next_to_the_code_come_after_it(tmp_path: Path) -> None:
    body = "".join(f"        heat(wood, {n}, kiln, door, chimney, draught);\n" for n in range(30))
    code = f"pub fn fire_kiln(wood: u32) {{\n{body}}}\n"
    test = f"    #[test]\n    fn fires_kiln_with_wood() {{\n{body}        fire_kiln(1);\n    }}\n"
    (tmp_path / "kiln.rs").write_text(f"{code}\n#[cfg(test)]\nmod tests {{\n{test}}}\n")
    with closing(Engine(load_settings({"home": str(tmp_path / "home"), "memory": "memory:"}))) as engine:
        searcher = engine.repository(str(tmp_path)).searcher
        found = search([searcher], "How is wood fired in a kiln?").hits
        asked = search([searcher], "Which tests fire the kiln with wood?").hits
    assert [hit.kind for hit in found[:4]] == ["code", "code", "test", "test"]
    assert asked[0].kind == "test"
