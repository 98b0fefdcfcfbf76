"""The window: newest first to come in, oldest first to go, nothing cut."""

from hypothesis import given
from hypothesis import strategies as st

from rag.memory.recent_turns import BROKEN_OFF, turn_tokens, window
from rag.types import AssistantResponse, DialogTurn, UserQuery


class WordCounter:
    """A token for each word."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split()) or bool(text)


COUNTER = WordCounter()


def turn(question: str, answer: str, *, complete: bool = True) -> DialogTurn:
    return DialogTurn(
        user_query=UserQuery(question),
        assistant_response=AssistantResponse(answer),
        state="answered" if complete else "partial",
    )


words = st.integers(0, 40).map(lambda n: "word " * n)
conversations = st.lists(st.builds(turn, words, words, complete=st.booleans()), max_size=12)


@given(conversations, st.integers(-10, 600))
def test_the_window_is_the_longest_end_of_the_conversation_that_fits(
    turns: list[DialogTurn], budget: int
) -> None:
    chosen = window(turns, budget_tokens=budget, counter=COUNTER)
    costs = [turn_tokens(t, COUNTER) for t in window(turns, budget_tokens=10**6, counter=COUNTER)]
    fitting = [n for n in range(len(turns) + 1) if n == 0 or sum(costs[-n:]) <= budget]
    assert [t.id for t in chosen] == [t.id for t in turns[len(turns) - max(fitting) :]]


@given(conversations)
def test_whole_turns_come_unchanged_and_broken_ones_are_marked(turns: list[DialogTurn]) -> None:
    before = [t.answer for t in turns]
    for shown, kept in zip(window(turns, budget_tokens=10**6, counter=COUNTER), turns, strict=True):
        assert shown is kept if kept.complete else shown.answer == kept.answer + BROKEN_OFF
        assert shown.question == kept.question
    assert [t.answer for t in turns] == before


def test_a_small_old_turn_does_not_slip_past_a_large_one() -> None:
    turns = [turn("a", "b"), turn("long " * 100, "long"), turn("c", "d")]
    assert window(turns, budget_tokens=60, counter=COUNTER) == turns[-1:]


def test_a_turn_without_an_answer_costs_its_question() -> None:
    asked = DialogTurn(user_query=UserQuery("where is it"))
    assert turn_tokens(asked, COUNTER) == turn_tokens(turn("where is it", ""), COUNTER)
