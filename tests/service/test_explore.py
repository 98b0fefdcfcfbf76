"""Exploring: parts of a question, the budget as a law, and what kind of place comes first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.service import Engine, Repository, locate
from rag.service.explore import explore, parts_of
from rag.settings import Settings

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    home = tmp_path_factory.mktemp("home")
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        yield engine


@pytest.fixture(scope="module")
def sample(engine: Engine) -> Repository:
    return engine.repository(locate(str(SAMPLE)))


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Where is a token checked?", 1),
        ("Where is a token checked, and who calls it?", 2),
        ("Where is a token checked? How long does it live?", 2),
        ("- where is a token checked\n- who calls authenticate", 2),
        ("Traceback (most recent call last):\n  File 'a.py', line 3, in f\nValueError: no token", 1),
        ("authenticate", 1),
        ("", 1),
    ],
)
def test_a_question_has_parts(question: str, parts: int) -> None:
    assert len(parts_of(question)) == parts


@pytest.mark.parametrize("budget", [100, 150, 300, 1_000])
@pytest.mark.parametrize(
    "question", ["Where is a token checked, and who calls authenticate?", "authenticate", "zzz", "?"]
)
def test_the_text_is_within_the_budget(
    engine: Engine, sample: Repository, question: str, budget: int
) -> None:
    found = explore(sample, question, counter=engine.counter, budget_tokens=budget)
    assert 0 < engine.counter.count(found.text) <= budget
    for place in found.places:
        lines = (SAMPLE / place.path).read_text().splitlines()
        assert place.place in found.text
        assert all(text.rstrip("…") in lines[number - 1].expandtabs(4) for number, text in place.lines)


def test_each_part_is_covered(engine: Engine, sample: Repository) -> None:
    question = "Who calls authenticate, and how is a session token signed?"
    found = explore(sample, question, counter=engine.counter)
    assert any("authenticate(" in text for place in found.places for _, text in place.lines)
    assert any("sign" in text for place in found.places for _, text in place.lines)


def test_a_quoted_string_is_found_exactly(engine: Engine, sample: Repository) -> None:
    path = SAMPLE / "snip" / "auth.py"
    number, line = next(
        (n, line)
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if "raise" in line and "(" in line
    )
    found = explore(sample, f"Where is `{line.strip()}` written?", counter=engine.counter)
    assert found.places[0].path == "snip/auth.py"
    assert number in [shown for shown, _ in found.places[0].lines]


def test_what_was_seen_is_left_out_until_nothing_is_left(engine: Engine, sample: Repository) -> None:
    seen: dict[str, set[int]] = {}
    for _ in range(40):
        found = explore(sample, "authenticate", counter=engine.counter, budget_tokens=200, seen=seen)
        if not found.places:
            break
        for place in found.places:
            numbers = {number for number, _ in place.lines}
            assert not numbers & seen.setdefault(place.path, set())
            seen[place.path] |= numbers
    assert not found.places and not found.more and "sent before" in found.text
