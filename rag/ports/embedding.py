"""Models that embed texts, and models that rank them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags
from rag.types import Hit

Vectors = npt.NDArray[np.float32]
Role = Literal["query", "passage"]


class Embedder(Protocol):
    """Embeds texts as unit vectors."""

    @property
    def dim(self) -> int:
        """The width of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """The model, its version and width. Vectors of two embedders may be mixed only if these are equal."""
        ...

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts in their order: float32, shape (len(texts), dim), rows of length 1.

        A text that the model cannot embed gets a zero row. No texts give shape (0, dim).

        Raises:
            ProviderError: a service failed; the vectors of the other texts are dropped too.
        """
        ...


class BagEmbedder(Embedder, Protocol):
    """An embedder of counted terms, which saves analyzing a text twice."""

    def embed_bags(self, bags: TermBags, idf: npt.NDArray[np.float32], *, role: Role) -> Vectors:
        """Embed counted terms: float32, shape (len(bags), dim), rows of length 1 or zero.

        Args:
            bags: the terms of each text.
            idf: the inverse document frequency of each vocabulary term in the corpus that is searched.
            role: whether the texts are queries or passages.
        """
        ...

    def knows(self, term: str) -> bool:
        """Whether the term has its own vector; other terms share vectors by hashing."""
        ...


def takes_bags(embedder: Embedder) -> TypeGuard[BagEmbedder]:
    """Whether an embedder can embed counted terms.

    Called several times per search; `isinstance` takes 30 µs for a protocol.
    """
    return hasattr(embedder, "embed_bags")


class Reranker(Protocol):
    """A second stage of the search: judges each of a few hits again, together with the question."""

    @property
    def fingerprint(self) -> str:
        """The model and its version. Scores of two rerankers may be compared only if these are equal."""
        ...

    def scores(
        self, question: str, hits: Sequence[Hit], *, terms: Mapping[str, float]
    ) -> npt.NDArray[np.float32]:
        """Return how well each hit answers the question, in the order given.

        Args:
            question: the question, which needs no context.
            terms: the terms that are searched, each with its weight: its rarity in the repositories, lowered
                where it is another spelling of a word.
            hits: best first by the first stage; hits that take long are scored in this order.

        Returns:
            float32, shape (len(hits),), 0 or more, where 1 counts as much as the best score of the first
            stage; NaN for a hit that was not scored in time. A hit's score depends on the question, its
            terms, and the hit's names and text only.
        """
        ...
