"""Contract tests of `Embedder`: subclass the class and define an `embedder` fixture.

class TestMyEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        ...
"""

from __future__ import annotations

import numpy as np

from rag.ports import Embedder, Role

TEXTS = [
    "def read_config(path): return json.load(open(path))",
    "func (s *Server) Listen(port int) error { return s.socket.Bind(port) }",
    "Removes every entry that has not been used for an hour from the cache.",
    "überprüft, ob die Datei existiert",
]
ROLES: tuple[Role, Role] = ("query", "passage")


class EmbedderContract:
    """The contract of every embedder."""

    def test_rows_are_unit_float32_in_the_order_asked(self, embedder: Embedder) -> None:
        for role in ROLES:
            rows = embedder.embed(TEXTS, role=role)
            assert rows.dtype == np.float32
            assert rows.shape == (len(TEXTS), embedder.dim)
            assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-4)
            backwards = embedder.embed(TEXTS[::-1], role=role)[::-1]
            assert np.allclose(rows, backwards, atol=2e-2)

    def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        for role in ROLES:
            assert embedder.embed([], role=role).shape == (0, embedder.dim)

    def test_equal_texts_give_equal_rows(self, embedder: Embedder) -> None:
        for role in ROLES:
            first, second = embedder.embed([TEXTS[0], TEXTS[0]], role=role)
            assert np.allclose(first, second, atol=1e-5)
            again = embedder.embed([TEXTS[0]], role=role)[0]
            assert np.allclose(first, again, atol=2e-2)

    def test_every_row_is_finite_whatever_the_text(self, embedder: Embedder) -> None:
        odd = ["", " ", "\n\t", "!!! ... ???", "\x00", "x" * 100_000, "日本語のテキスト", "\U0001f600"]
        for role in ROLES:
            rows = embedder.embed(odd, role=role)
            lengths = np.linalg.norm(rows, axis=1)
            assert np.all(np.isclose(lengths, 1, atol=1e-4) | (lengths == 0))

    def test_a_question_is_nearest_to_the_text_it_is_about(self, embedder: Embedder) -> None:
        questions = [
            "where is the configuration file read?",
            "listening on a port",
            "old cache entries are removed",
        ]
        cosines = embedder.embed(questions, role="query") @ embedder.embed(TEXTS, role="passage").T
        assert cosines.argmax(axis=1).tolist() == [0, 1, 2]

    def test_the_fingerprint_names_the_model_and_stays(self, embedder: Embedder) -> None:
        kind, _, model = embedder.fingerprint.partition(":")
        assert kind
        assert model
        embedder.embed(TEXTS, role="passage")
        assert embedder.fingerprint == f"{kind}:{model}"
