import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.evaluation.metrics import LineSpan, lines_found, ndcg, ranked_files, recall, reciprocal_rank

RANKING = ["a", "b", "c", "d"]
rankings = st.lists(st.sampled_from("abcdefghijklmnop"), unique=True, max_size=14)
relevants = st.sets(st.sampled_from("abcdefghijklmnop"), min_size=1, max_size=4)
spans = st.builds(
    lambda path, start, length: LineSpan(path, start, start + length),
    st.sampled_from("ab"),
    st.integers(1, 60),
    st.integers(0, 40),
)


@pytest.mark.parametrize(
    ("relevant", "k", "expected"),
    [
        ({"a"}, 10, 1.0),
        ({"b"}, 10, 1 / math.log2(3)),
        ({"b", "d"}, 10, (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))),
        ({"d"}, 3, 0.0),
        ({"a", "z"}, 10, 1 / (1 + 1 / math.log2(3))),
        (set(), 10, 0.0),
    ],
)
def test_ndcg_is_what_the_formula_gives_by_hand(relevant: set[str], k: int, expected: float) -> None:
    assert ndcg(RANKING, relevant, k) == pytest.approx(expected)


def test_reciprocal_rank_and_recall_by_hand() -> None:
    assert reciprocal_rank(RANKING, {"c", "d"}) == pytest.approx(1 / 3)
    assert reciprocal_rank(RANKING, {"c"}, k=2) == 0
    assert recall(RANKING, {"a", "d", "x", "y"}) == pytest.approx(0.5)
    assert recall(RANKING, {"d"}, k=3) == 0
    assert recall(RANKING, set()) == 0


@given(rankings, relevants)
def test_measures_lie_between_0_and_1_and_agree_about_nothing_found(
    ranking: list[str], relevant: set[str]
) -> None:
    values = [measure(ranking, relevant) for measure in (ndcg, reciprocal_rank, recall)]
    assert all(0 <= value <= 1 + 1e-9 for value in values)
    assert len({value > 0 for value in values}) == 1


@given(rankings, relevants)
def test_ndcg_never_falls_when_a_relevant_file_rises(ranking: list[str], relevant: set[str]) -> None:
    for place in range(1, len(ranking)):
        if ranking[place] in relevant:
            risen = [*ranking]
            risen[place - 1], risen[place] = risen[place], risen[place - 1]
            assert ndcg(risen, relevant) >= ndcg(ranking, relevant) - 1e-12


@given(st.sets(st.sampled_from("abcdef"), min_size=1), rankings)
def test_all_relevant_files_first_is_perfect(relevant: set[str], rest: list[str]) -> None:
    ranking = sorted(relevant) + [path for path in rest if path not in relevant]
    assert ndcg(ranking, relevant) == pytest.approx(1)


def test_a_file_ranks_at_its_best_place() -> None:
    results = [LineSpan("b", 1, 2), LineSpan("a", 1, 2), LineSpan("b", 5, 9)]
    assert ranked_files(results) == ["b", "a"]


def test_lines_found_reads_the_budget_from_the_top_and_each_line_once() -> None:
    answer = [LineSpan("a", 11, 20)]
    assert lines_found([LineSpan("a", 11, 20)], answer) == 1
    assert lines_found([LineSpan("a", 16, 30)], answer) == pytest.approx(0.5)
    assert lines_found([LineSpan("b", 1, 195), LineSpan("a", 11, 20)], answer) == pytest.approx(0.5)
    assert lines_found([LineSpan("b", 1, 100), LineSpan("b", 1, 190), LineSpan("a", 11, 20)], answer) == 1
    assert lines_found([LineSpan("b", 1, 200), LineSpan("a", 11, 20)], answer) == 0
    assert lines_found([LineSpan("a", 1, 10)], answer) == 0
    assert lines_found([LineSpan("a", 1, 10)], []) == 0


@given(st.lists(spans, max_size=6), st.lists(spans, min_size=1, max_size=3), st.integers(1, 120))
def test_a_larger_budget_never_shows_fewer_lines(
    results: list[LineSpan], answers: list[LineSpan], budget: int
) -> None:
    few, more = lines_found(results, answers, budget), lines_found(results, answers, budget + 10)
    assert 0 <= few <= more <= 1
