"""A hit in the middle of a long definition, and what lies around it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rag.retrieval.expand_definitions import MAX_PARTS, other_parts
from rag.retrieval.search import search
from rag.service import Engine
from rag.settings import Settings


def test_the_parts_of_a_long_definition_are_found_from_any_of_them(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    body = "".join(f"    total_{n} = price_{n} + shipping_{n} * quantity_{n}\n" for n in range(400))
    (root / "bill.py").write_text(
        f"def before():\n    return 1\n\n\ndef bill(order):\n{body}    return order\n"
    )
    (root / "other.py").write_text("def bill(order):\n    return order\n")
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(root)).searcher
        (hit,) = search([searcher], "shipping_200 quantity_200", k=1).hits
        parts = other_parts([searcher], [hit])
        assert (hit.path, hit.symbol) == ("bill.py", "bill")
        assert 2 <= len(parts) <= MAX_PARTS
        edges = [hit.start, hit.end]
        for part in parts:
            assert (part.path, part.symbol) == ("bill.py", "bill")
            assert part.end + 1 == edges[0] or part.start - 1 == edges[1]
            edges = [min(edges[0], part.start), max(edges[1], part.end)]
        assert other_parts([searcher], [hit, *parts[:4]])[:1] != [parts[0]]
        assert other_parts([searcher], [replace(hit, span=replace(hit.span, symbol=""))]) == []
        assert other_parts([searcher], [replace(hit, span=replace(hit.span, start=hit.start + 1))]) == []
        assert other_parts([], [hit]) == []
