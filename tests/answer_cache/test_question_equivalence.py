"""Questions that one answer serves have one meaning; questions that are merely alike have not."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tools.benchmarks.answer_cache import PRECISION, by_meaning, read_pairs, read_single_pairs

from rag.answer_cache.question_equivalence import meaning
from tools.benchmarks.bench import QUESTIONS

ONE_MEANING = [
    [
        "Where is the session cookie set?",
        "where is the session cookie set",
        "Where’s the session cookie set ?",
        "Where do we set the session cookie?",
        "Hello! Where is the session cookie set? Thanks a lot!",
        "Where does snip set the session cookie?",
        "Where does the session cookie get set?",
        "In which file is the session cookie set?",
        "Hi, can you please show me where the session cookie gets set?",
        "Which file sets the session cookie?",
        "where exactly is the session cookie set, please",
    ],
    [
        "How does the client quickly notify the server?",
        "How is the server quickly notified by the client?",
        "Explain how the client notifies the server quickly.",
    ],
    ["Who calls `sign_token`?", "Where is sign_token() called?", "Which functions call `sign_token`?"],
    ["What does `sign` return?", "What is the return value of `sign`?", "tell me what `sign` returns"],
    ["Why aren't retries limited?", "Why are retries not limited?", "Why do we not limit retries?"],
    ["What does Get return?", "what does `Get` return", "Hi, What does Get return?"],
    ["Where Is The JSON Body Parsed?", "where is the json body parsed", "WHERE IS THE JSON BODY PARSED?"],
    ["How do I add a route?", "how can I add a route"],
    ["What does `Store.open` do?", "explain what Store.open() does"],
    ["What are the limits of a token?", "Tell me what the limits of a token are."],
    ["什么是 RAG？", "RAG 是什么？", "rag是什么", "你好，请问什么是RAG呢？", "能告诉我什么是 RAG 吗？"],
    ["token 在哪里检查？", "请问token在什么地方检查", "你能告诉我 token 在哪儿检查吗"],
    ["如何给 `Store` 添加索引？", "怎么给`Store`添加索引", "请问怎样给 `Store` 添加索引呢"],
]
"""Of the questions in each list all are the same, when the program is called snip."""

APART = [
    "Where is the token set?|Where is the token deleted?|Where is the token not set?|Why is the token set?",
    "What calls `a_b`?|What does `a_b` call?|Where is `a_b` defined?|Why is `a_b` called?",
    "What calls `open`?|What calls `Open`?|What calls `opens`?|What calls `x.open`?",
    "What does Get return?|What does get return?|What does GetAll return?",
    "Where is the stat read?|Where is the state read?|Where is the parser read?|Where is parsing read?",
    "How is the parent notified?|How does the parent notify?|Is the parent notified?",
    "What happens after the parent is killed?|What happens after the parent kills?",
    "How is a str turned into bytes?|How are bytes turned into a str?",
    "Where do users log in?|Where do users log out?|Where do users log?",
    "Is it cached for 1 s?|Is it cached for 2 s?|Is it cached for 1.5 s?|Is it cached for -1 s?",
    "Is x < 3 checked?|Is x > 3 checked?|Is x == 3 checked?|Is x != 3 checked?",
    "Where is the first key kept?|Where is the second key kept?|Where are all keys kept?",
    "Where is .env read?|Where is env read?",
    'Who logs "a b"?|Who logs "a c"?|Who logs "A b"?',
    "How are tokens checked before they are used?|How are tokens used before they are checked?",
    "How do we add a route?|How do I add a route?|How should a route be added?",
    "北京在哪里?|上海在哪里?",
    "token 在哪里设置？|token 在哪里删除？|token 不在哪里设置？|token 为什么设置？|token 是什么？",
    "什么是 A 和 B 的区别？|什么是 A 和 C 的区别？|说明文档在哪？|文档在哪？|请求在哪？|求在哪？",
    "能上传文件吗？|上传文件吗？|效果怎么样？|效果怎么？|x > 3 吗？|x < 3 吗？",
    "Where are GET requests handled?|Where are requests handled?|Where are POST requests handled?",
    "What does NOT do?|What does not do?|What does IF do?",
    "Where is T defined?|Where is t defined?|Where is A defined?|Where is type defined?",
    "What does -v do?|What does -V do?|What does v do?|What does --v do?|What does -vv do?",
    "Where is ; handled?|Where is , handled?|Where is ( handled?|Where is - handled?|Where is it handled?",
    "Where is '.' kept?|Where is ',' kept?|Where is it kept?",
    "How is get implemented?|How is it implemented?",
    "Is it safe? Where is it set?|Is it safe? Where is it deleted?",
]


@pytest.mark.parametrize("questions", ONE_MEANING, ids=lambda questions: questions[0])
def test_questions_that_one_answer_serves_mean_the_same(questions):
    assert len({meaning(question, ("snip",)) for question in questions}) == 1


@pytest.mark.parametrize("questions", APART)
def test_questions_that_are_merely_alike_differ(questions):
    alike = questions.split("|")
    assert len({meaning(question) for question in alike}) == len(alike)


_OFTEN = """what where how many which who is does the we it i not by of file that code get can have set it's
`x` differ and 3 tell me quickly""".split()


@given(
    st.text()
    | st.text(string.ascii_lowercase[:6] + " ?`'.\n")
    | st.lists(st.sampled_from(_OFTEN)).map(" ".join)
)
@example("what")
@example("`")
@example("how do and differ")
def test_any_text_has_a_meaning_that_case_blanks_and_a_question_mark_leave_alone(text):
    found = meaning(text)
    assert meaning(f"  {text.strip()} ?") == found
    if text.isascii() and text.isalpha() and text == text.lower():
        assert meaning(text.capitalize()) == found


@pytest.mark.parametrize("part", ["`", "呢", "什么是", '"', "'", "a.b", "-1", "can you tell me ", "\n"])
def test_a_long_text_takes_no_time_to_speak_of(part):
    began = time.process_time()
    text = f"a{part * 20_000}!"
    assert meaning(text) == meaning(f" {text} ?")
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", ["dev", "final"])
def test_what_is_served_is_right(name):
    pairs = read_pairs(name)
    served = [pair for pair, found in zip(pairs, by_meaning(pairs), strict=True) if found]
    assert sum(pair.same for pair in served) >= PRECISION * len(served)
    assert sum(not pair.same for pair in served) <= (1 - PRECISION) * sum(not pair.same for pair in pairs)
    assert min(sum(pair.same for pair in pairs), sum(not pair.same for pair in pairs)) >= 200


@pytest.mark.parametrize(("name", "recall"), [("cache_pairs", 0.75), ("cache_strangers", 0.15)])
def test_pairs_that_differ_in_one_word_or_its_form_are_told_apart(name, recall):
    pairs = read_single_pairs(QUESTIONS / f"{name}.jsonl")
    served = by_meaning(pairs) > 0
    wrong = [(p.first, p.second) for p, found in zip(pairs, served, strict=True) if found and not p.same]
    assert wrong == []
    assert sum(not pair.same for pair in pairs) >= 300
    right = sum(bool(found) for p, found in zip(pairs, served, strict=True) if p.same)
    assert right >= recall * sum(pair.same for pair in pairs)


INFLECTED = [
    ("item", "items"),
    ("query", "queries"),
    ("match", "matches"),
    ("parse", "parsed"),
    ("set", "setting"),
    ("write", "written"),
    ("delete", "remove"),
    ("dir", "directory"),
    ("Store", "store"),
]


@pytest.mark.parametrize(("one", "other"), INFLECTED)
@pytest.mark.parametrize(
    "question", ["Where is the {} kept?", "How do we test the {} before a start?", "Which {} comes first?"]
)
def test_a_symbol_of_the_repository_is_only_itself(question, one, other):
    texts = [question.format(word) for word in (one, other)]
    for symbol in (one, other):
        names = {symbol}
        assert meaning(texts[0], (), names.__contains__) != meaning(texts[1], (), names.__contains__)
        assert meaning(f"Hi, {texts[0]}", (), names.__contains__) == meaning(texts[0], (), names.__contains__)
