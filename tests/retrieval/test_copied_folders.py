"""Folders with the code of other projects are found by what their files say, and come after own code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rag.backends.faiss_index import FaissIndex
from rag.database.update import Options, write_texts
from rag.retrieval.copied_folders import copied_folders
from rag.retrieval.rank import RankingWeights
from rag.retrieval.search import Searcher, search
from rag.types import Checkout, Kind, Source, SourceFile, blob_id
from tests.contracts.hashing_embedder import HashingEmbedder

HASHED = HashingEmbedder(16)
NOTICE = "# Copyright (c) 2019 Somebody Else\n"
Index = Callable[[Mapping[str, str]], Searcher]
README = "# Kettle\n\nA web framework.\n"
OWN = {
    f"src/{name}.py": f'"""Part of kettle."""\n\ndef {name}(request):\n    return request.{name}\n'
    for name in ("route", "render", "answer", "login", "upload")
}
COPIED = {
    f"parts/looper/{name}.py": f"{NOTICE}\ndef {name}(loop):\n    return loop.{name}()\n"
    for name in ("start", "stop", "wait", "repeat")
}
LICENCE = {"parts/looper/LICENSE": "Permission is granted to everybody.\n"}


@pytest.fixture
def index(tmp_path: Path) -> Index:
    def index(texts: Mapping[str, str]) -> Searcher:
        def kind(path: str) -> Kind:
            return "code" if path.endswith(".py") else "doc"

        files = [
            SourceFile(p, t, blob_id(t.encode()), "python" if p.endswith(".py") else "markdown", kind(p))
            for p, t in ({"README.md": README} | dict(texts)).items()
        ]
        checkout = Checkout(Source(str(tmp_path)), tmp_path)
        store = write_texts(files, checkout, tmp_path / "s.pkl", HASHED, Options())
        return Searcher(store, HASHED, FaissIndex(store.vectors), RankingWeights(dense=0.0, about=0.0))

    return index


def test_a_copied_library_is_found_and_its_folder_too_if_it_holds_nothing_else(index: Index) -> None:
    assert copied_folders(index(OWN | COPIED | LICENCE).index) == ("parts/",)
    with_own = {f"parts/{name}.py": text for name, text in zip("abcde", OWN.values(), strict=True)}
    assert copied_folders(index(OWN | COPIED | LICENCE | with_own).index) == ("parts/looper/",)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({path: text + "# for kettle\n" for path, text in COPIED.items()}, id="mentions us"),
        pytest.param({path: text.removeprefix(NOTICE) for path, text in COPIED.items()}, id="no notice"),
        pytest.param({"parts/looper/LICENSE": "The licence of Kettle applies.\n"}, id="our licence"),
        pytest.param({"parts/looper/LICENSE": ""}, id="no document"),
        pytest.param(
            {path: text.replace("kettle", "it") for path, text in OWN.items()}, id="no name of ours"
        ),
        pytest.param(dict.fromkeys([*COPIED][:2], ""), id="two files"),
    ],
)
def test_code_of_ours_is_none(index: Index, changed: Mapping[str, str]) -> None:
    texts = {path: text for path, text in {**OWN, **COPIED, **LICENCE, **changed}.items() if text}
    assert copied_folders(index(texts).index) == ()


def test_a_notice_below_the_beginning_of_a_file_says_nothing(index: Index) -> None:
    body = "".join(f"def step_{n}(value):\n    return value + {n}\n\n" for n in range(90))
    texts = dict.fromkeys(COPIED, body + NOTICE)
    assert copied_folders(index(OWN | texts | LICENCE).index) == ()


def test_own_code_comes_before_a_copy_unless_the_question_names_the_copy(index: Index) -> None:
    same = '\ndef shut_down(server):\n    """Stop to accept connections."""\n    return server\n'
    ours = {"src/server.py": f'"""The server of kettle."""\n{same}'}
    theirs = {"parts/looper/server.py": f"{NOTICE}{same}"}
    searcher = index(OWN | COPIED | LICENCE | ours | theirs)

    def order(question: str) -> list[str]:
        return [hit.path for hit in search([searcher], question).hits if hit.symbol == "shut_down"]

    assert order("How are connections no longer accepted?") == ["src/server.py", "parts/looper/server.py"]
    assert order("How does looper no longer accept connections?")[0] == "parts/looper/server.py"
