from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.backends.openai.reasoning import Habit, Thoughts


def without_thoughts(text: str) -> str:
    """Return an answer, which arrives as a whole, without the thoughts of its model."""
    thoughts = Thoughts("closes")
    begun = thoughts.feed(text)
    rest = thoughts.close()
    return rest if thoughts.restarted else begun + rest


ANSWER = "It is in `auth.py` [2]. It raises ValueError [1].\n"
FORMS = [
    "<think>\nIs it [1]? No.\n</think>\n\n",
    "Okay, the user's question is about `auth`.\n</think>\n\n",
    "thoughts </think> ",
    "thoughts</think>",
    "</think>\n",
    "\n\n  <think>\nthoughts</think>",
    "<think>\n\n</think>\n\n",
    "<Think>thoughts</Think>",
    "<THINK>thoughts</think>",
    "<think time=3>thoughts</think>",
    "<thinking>thoughts</thinking>\n",
    "<thinking>a <reflection>b</reflection> c</thinking>\n",
    "<thinking>thoughts</thinking>",
    "<thought>thoughts</thought>\n",
    "<thoughts>a</thoughts><thought>b</thought>",
    "<reasoning>thoughts</reasoning>",
    "<reflection>thoughts</reflection>",
    "<longcat_think>thoughts</longcat_think>\n",
    "thoughts</longcat_think>\n",
    "<antThinking>thoughts</antThinking>",
    "<inner_thoughts>thoughts</inner_thoughts>",
    "<chain-of-thought>thoughts</chain-of-thought>",
    "<thought_process>thoughts</thought_process>\n",
    "< think >thoughts</ think >",
    "<think>thoughts<\\/think>",
    "&lt;think&gt;thoughts&lt;/think&gt;\n",
    "thoughts&lt;/think&gt;\n",
    "＜think＞thoughts＜/think＞",
    "[REASONING]thoughts[/REASONING]\n",
    "<|think_start|>thoughts<|think_end|>",
    "<|thinking|>thoughts</|thinking|>",
    "<｜begin▁of▁thinking｜>thoughts<｜end▁of▁thinking｜>",
    "<|begin|>assistant<|think|>thoughts<|end|>\n<|begin|>assistant<|content|>",
    "<ctrl94>thought\nthoughts<ctrl95>",
    "Thinking...\nthoughts\n...done thinking.\n\n",
    "Thought: I know it.\nFinal Answer: ",
    "<seed:think>thoughts</seed:think>",
    "[THINK]thoughts[/THINK]",
    "thoughts[/THINK]\n",
    "<|START_THINKING|>thoughts<|END_THINKING|>",
    "<|begin_of_thought|>thoughts<|end_of_thought|>",
    "thoughts<|end_of_thought|>",
    "<|think|>thoughts<|/think|>",
    "◁think▷thoughts◁/think▷",
    "<unused94>thought\nthoughts<unused95>",
    "<|channel>thought\nthoughts<channel|>",
    "<|inner_prefix|>thoughts<|inner_suffix|>",
    "<|channel|>analysis<|message|>thoughts<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|start|>assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>"
    "b<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
    "<|channel|>final<|message|>",
    "analysisThe user asks. I answer.assistantfinal",
    "Here is my thought process: a\n\nHere is my response:\n",
    "<think>a</think>\n<think>b</think>\n",
    "<think>It looks for `</think>`, or '</think>' in code.</think>\n",
    "<think>a <think>\nb\n</think>\nc</think>\n",
    '<think>the "word</think>',
    '<details type="reasoning">\nthoughts\n</details>\n',
    '<details type="reasoning" done="true" duration="3">\n<summary>a</summary>\n> b\n</details>\n',
    "&lt;details class='thinking'&gt;thoughts&lt;/details&gt;\n",
    "&lt;think class='a'&gt;thoughts&lt;/think&gt;\n",
    "[think]thoughts[/think]\n",
    "[Thinking]\nthoughts\n[/Thinking]\n\n",
    "<|im_start|>think\nthoughts<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>think\nthoughts\n<|im_start|>answer\n",
    "<planning>\n1. look\n</planning>\n",
    "<internal>thoughts</internal>",
    "<!-- think -->thoughts<!-- /think -->\n",
    "<!--reasoning-->\nthoughts\n<!-- end reasoning -->\n",
    "Let me see 'foo and `bar\n</think>\n",
    "It isn't \"done. </think> ",
]
WRAPPED = [
    ("<think>thoughts</think><answer>{}</answer>", ""),
    ("<think>thoughts</think>\n<response>\n{}</response>\n", "\n"),
    ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>", ""),
    ("<|begin_of_thought|>a<|end_of_thought|>\n\n<|begin_of_solution|>{}<|end_of_solution|>", ""),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>", ""),
]
QUOTED = [
    "`<think>` is stripped [1]. `</think>` too [1].",
    "It splits at ``</think>`` [1].",
    "The template ends in `{{ '<|im_start|>assistant\\n<think>\\n' }}` [1].",
    'It appends "<think>\\n" to the prompt, and cuts at "</think>" [1].',
    "It compares with '</think>' (and isn't done) [1].",
    "It is “</think>” or «</think>».",
    "```jinja\n<think>\n</think>\n{{ content.split('</think>')[-1] }}\n```\nThat is all.",
    "- a list:\n  ~~~\n  </think>\n  ~~~\n",
    '{"answer": "It is <think>, \\"quoted\\", then </think>."}',
    "The `[THINK]` token and `<|channel|>final<|message|>` [1].",
    "It returns List<Thought> and Map<str, Reasoning>.",
    "<thinker> is a tag, <b>so</b> is <a href='x'>.",
    "It looks for the <think> tag and removes it [1].",
    "a < b and b <c, a[0], [x] and [TODO], x <| y <|",
    "analysis.py has it.",
    "analysisResult is computed.",
    "Here is my answer.",
    "Thinking... takes time. Thought: a heading.",
    "`&lt;think&gt;` and `<inner_thoughts>` are escaped; a & b && c &lt; d.",
    "<thinking-dots> is an element, [THINKER] a name.",
    "<details>\n<summary>All the callers</summary>\n`a` [1]\n</details>\nThat is all.",
    '```html\n<details type="reasoning">\na\n</details>\n```\nIt is shown folded.',
    "[thinking](docs/thinking.md) is a link, [think]: https://example.org another, `[think]` a tag.",
    "[think] is a tag that nothing closes, <b>as\n<planning> is.",
    "The setting <internal>true</internal> hides it; a[think] is an element.",
    "`<planning>a</planning>` and\n```xml\n<internal>true</internal>\n```\nare elements; </planning> ends.",
    "<!-- a comment --> and `<!-- think -->`.",
    "`<|im_start|>think` begins it, `<|im_end|>` ends it.",
    "  <thin",
    "",
]
UNCLOSED = [
    "<think>and it never ends",
    "[THINK]and",
    "<|channel|>analysis<|message|>and<|end|>",
    "◁think▷",
    "<think>`</think>`",
    '<details type="reasoning">and',
    "<|im_start|>think\nand",
    "<!-- think -->\nand",
]
TAGS = [
    "<think>",
    "</think>",
    "<Thinking>",
    "</thinking>",
    "[THINK]",
    "[/THINK]",
    "<|channel|>analysis",
    "```\n",
]
TAGS += [
    "<|channel|>final<|message|>",
    "<|end|>",
    "<|START_THINKING|>",
    "<|END_THINKING|>",
    "`",
    '"',
    "'",
    "\\",
]
TAGS += [
    "<answer>",
    "</answer>",
    "analysis",
    "assistantfinal",
    "\n",
    " ",
    "a",
    "B",
    "<",
    ">",
    "◁think▷",
    "é ",
    "[think]",
    "[/think]",
    "<planning>",
    "</planning>",
    "<|im_start|>think",
    "<|im_end|>",
    "<!-- think -->",
    '<details type="reasoning">',
    "</details>",
]
TEXTS = st.lists(st.sampled_from(TAGS), max_size=25).map("".join)


@pytest.mark.parametrize("thoughts", FORMS)
def test_thoughts_are_no_part_of_an_answer(thoughts: str) -> None:
    assert without_thoughts(thoughts + ANSWER) == ANSWER


@pytest.mark.parametrize(("form", "end"), WRAPPED)
def test_what_wraps_an_answer_after_thoughts_is_no_part_of_it(form: str, end: str) -> None:
    assert without_thoughts(form.format(ANSWER)) == ANSWER + end


@pytest.mark.parametrize("text", QUOTED)
def test_an_answer_may_quote_the_tags(text: str) -> None:
    assert without_thoughts(text) == text
    assert without_thoughts(f"<think>a</think>\n{text}") == text.lstrip()


def test_tags_around_an_answer_are_text_without_thoughts() -> None:
    text = "An <answer> is a tag, <|end|> a token."
    assert without_thoughts(text) == text


@pytest.mark.parametrize("text", UNCLOSED)
def test_thoughts_that_never_end_are_no_answer(text: str) -> None:
    assert without_thoughts(text) == ""


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Sure. <think>thoughts</think> It is here.", "Sure. It is here."),
        ("One.\n\n<think>\nthoughts\n</think>\n\nTwo.", "One.\n\nTwo."),
        ("One. <think>thoughts, cut", "One. "),
        ("The <think> tag, cut </think>and closed", "The and closed"),
    ],
)
def test_thoughts_in_an_answer_are_removed(text: str, answer: str) -> None:
    assert without_thoughts(text) == answer


def fed(text: str, cuts: list[int], habit: Habit) -> tuple[str, Thoughts]:
    """What is left of an answer that arrives in pieces, as a caller that obeys `restarted` has it."""
    thoughts, shown = Thoughts(habit), ""
    for start, end in pairwise([0, *cuts, len(text)]):
        piece = thoughts.feed(text[start:end])
        shown = piece if thoughts.restarted else shown + piece
        thoughts.restarted = False
    rest = thoughts.close()
    return (rest if thoughts.restarted else shown + rest), thoughts


@pytest.mark.parametrize("habit", ["", "answers", "closes"])
@pytest.mark.parametrize("text", [*FORMS, *QUOTED, *UNCLOSED, *(form for form, _ in WRAPPED)])
def test_single_characters_give_the_same_answer(text: str, habit: Habit) -> None:
    text += ANSWER
    assert fed(text, list(range(1, len(text))), habit)[0] == without_thoughts(text)


@given(TEXTS, st.sampled_from(["", "answers", "closes"]), st.data())
def test_pieces_give_the_same_answer_however_it_is_split(
    text: str, habit: Habit, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    assert fed(text, cuts, habit)[0] == without_thoughts(text)


@given(st.text("think/ a\n'\"`"))
def test_an_answer_without_tags_is_unchanged(text: str) -> None:
    assert without_thoughts(f"x{text}") == f"x{text}"


def test_a_model_that_begins_with_thoughts_shows_nothing_before_its_answer() -> None:
    for habit in ("", "closes"):
        thoughts = Thoughts(habit)
        assert [thoughts.feed(piece) for piece in ("I think", " so.", "</th", "ink>Yes", ", it is")] == [
            *[""] * 3,
            "Yes",
            ", it is",
        ]
        assert not thoughts.restarted
        assert thoughts.habit == "closes"


def test_what_was_shown_of_thoughts_is_taken_back() -> None:
    thoughts = Thoughts("answers")
    assert thoughts.feed("I think so.") == "I think so."
    assert thoughts.feed(" </think> Yes") == "Yes"
    assert thoughts.restarted
    assert thoughts.habit == "closes"


def test_a_model_whose_habit_is_unknown_answers_as_a_whole_once() -> None:
    thoughts = Thoughts("")
    assert thoughts.feed("It is here. ") == ""
    assert thoughts.close() == "It is here. "
    assert thoughts.habit == "answers"
    assert Thoughts(thoughts.habit).feed("It is there.") == "It is there."


def test_an_opening_tag_ends_the_wait() -> None:
    thoughts = Thoughts("")
    assert thoughts.feed("<think>a</think>It is") == "It is"
    assert thoughts.feed(" here.") == " here."


def test_a_cut_answer_of_a_model_that_begins_with_thoughts_is_none() -> None:
    for habit, answer in (("closes", ""), ("", "I think")):
        thoughts = Thoughts(habit)
        assert thoughts.feed("I think") + thoughts.close(is_cut=True) == answer


@pytest.mark.parametrize(
    "unit",
    [
        "<",
        "a",
        "`",
        '"',
        "<think>",
        "</think>",
        "`</think>",
        "<think ",
        "\n",
        "◁",
        "'a",
        "[think]",
        "<!--",
        "<details '",
    ],
)
def test_a_long_answer_takes_linear_time(unit: str) -> None:
    began = time.process_time()
    text = unit * (50_000 // len(unit))
    without_thoughts(text)
    thoughts = Thoughts("answers")
    for start in range(0, len(text), 7):
        thoughts.feed(text[start : start + 7])
    thoughts.close()
    assert time.process_time() - began < 4
