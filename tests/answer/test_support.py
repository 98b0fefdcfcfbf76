"""What is said of each statement of an answer, beside the lines that it cites."""

from __future__ import annotations

import time

import pytest

from rag.answer.statements import statements, whole_sentences
from rag.answer.support import check_support, unknown_names
from rag.types import Hit, Span

POOL = Hit(
    Span("lib", "net/pool.py", 1, 9, "b", "c", "acquire", "Pool"),
    '''def acquire(self, timeout_s=30):
    """Wait for a free connection and lock it."""
    if self.closed:
        raise PoolClosed("the pool is closed")
    self.free.append(self.wait(timeout_s * 1000))
    self.enable_keepalive()
''',
    1.0,
)
CACHE = Hit(
    Span("lib", "cache.py", 1, 3, "b", "c", "evict", ""),
    "def evict(items):\n    items.popitem(last=False)\n",
    1.0,
)
SOURCES = (POOL, CACHE)


def kinds(text: str) -> list[tuple[str, str]]:
    return [(one.kind, one.reason) for one in check_support(text, SOURCES).flagged]


@pytest.mark.parametrize(
    "text",
    [
        "`acquire` waits up to 30 seconds for a free connection [1].",
        "`Pool.acquire()` raises `PoolClosed` if the pool is closed [1].",
        'A closed pool raises "The pool is closed" [1].',
        'It reads "Wait for … connection" [1].',
        "It calls `self.free.append(…)` for a connection [1].",
        "The method in `pool.py` locks the connection that it waited for [1].",
        "It waits half a minute, that is 30,000 ms, for a free connection [1].",
        "Keepalive is enabled on the connection [1].",
        "`evict` pops an item, while `acquire` waits for a connection [1, 2].",
    ],
)
def test_what_the_lines_say_is_supported(text):
    check = check_support(text, SOURCES)
    assert (check.statements, check.supported, check.flagged) == (1, 1, ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("`acquire` uses `retry_delay` to wait [1].", "`retry_delay` does not occur in the cited lines"),
        ("The pool calls releaseAll on a closed connection [1].", "`releaseAll` does not occur"),
        ("`acquire` waits up to 45 seconds for a connection [1].", "45 does not occur"),
        ('A closed pool raises "no more connections" [1].', "“no more connections” does not occur"),
        ("Keepalive is `None` on the free connection [1].", "`None` does not occur"),
        ("It is signed with SHA-256 for a free connection [1].", "256 does not occur"),
        ("`acquire` waits for a free connection [2].", "`acquire` does not occur"),
        ("Templates are rendered with escaped HTML by a sandboxed engine [1].", "shares no word"),
    ],
)
def test_what_the_lines_do_not_have_is_unsupported(text, reason):
    ((kind, why),) = kinds(text)
    assert kind == "unsupported" and reason in why


ONE_LINE = Hit(Span("lib", "net/pool.py", 1, 1, "b", "c", "acquire", "Pool"), "def acquire(self):", 1.0)


def test_a_source_of_one_line_is_judged_with_all_that_was_given():
    found = check_support(
        "`acquire` waits for a connection and locks it [1]. It calls `enable_keepalive()` then [1:1].\n\n"
        "It also starts the `retry_loop()` there [1].",
        [ONE_LINE, CACHE],
        given=POOL.text,
    )
    assert [(one.kind, one.reason) for one in found.flagged] == [
        ("unsupported", "`retry_loop()` does not occur in the cited lines")
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "`acquire` waits 30 seconds [1], see steps 4 and 7 to 9.",
        "`acquire` waits for a free connection, as MQTT 3.1.1 says [1].",
        "`acquire` waits for a free connection, for example 77 of them [1].",
        "For `obj/pool.o`, `acquire` waits for a free connection [1].",
        "With about 67 MB, `acquire` waits for a free connection [1].",
    ],
)
def test_labels_examples_and_what_the_question_says_are_not_missed(sentence):
    asked = "Why does obj/pool.o with 67108880 bytes wait?"
    assert check_support(sentence, SOURCES, question=asked).flagged == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "Why the connection was lost, the code does not show.",
        "A search for `reap` in all 84 indexed files finds nothing.",
    ],
)
def test_what_was_not_found_is_no_claim(sentence):
    assert statements(sentence) == []


def test_a_reference_covers_its_own_sentence_only():
    found = statements(
        "The pool waits for a connection. It then locks it [1]. The rest is for the caller to do.\n\n"
        "The pool has limits:\n- it waits for thirty seconds [2]\n\n# Cache\n\nItems are popped one by one."
    )
    assert [one.cited for one in found] == [(), (1,), (), (2,), ()]
    assert [one.introduces for one in found] == [True, False, False, False, False]


INTRODUCTIONS = [
    "This happens in several steps. `acquire` raises `PoolClosed` if the pool is closed [1].",
    "This happens in several steps.\n\n- `acquire` waits for a free connection [1].",
    "This happens in several steps.\n\n`acquire` waits for a free connection [1].",
    "This happens in several steps.\n\n**Waiting**\n\n`acquire` waits for a free connection [1].",
]


@pytest.mark.parametrize("text", INTRODUCTIONS)
def test_a_sentence_that_introduces_statements_with_references_is_no_claim(text):
    check = check_support(text, SOURCES)
    assert (check.statements, check.supported, check.flagged) == (1, 1, ())


@pytest.mark.parametrize("text", INTRODUCTIONS)
def test_an_introduction_that_names_what_no_source_has_is_unsupported(text):
    ((kind, why),) = kinds(text.replace(" steps", " steps of `drain_pool()`", 1))
    assert (kind, why) == ("unsupported", "`drain_pool()` does not occur in the sources")


def test_a_sentence_after_references_is_supported_by_their_lines_or_cites_nothing():
    text = (
        "`acquire` waits for a connection [1]. The free connection is locked. The weather was fine that day."
    )
    assert [one.text for one in check_support(text, SOURCES).flagged] == ["The weather was fine that day."]


@pytest.mark.parametrize(
    "text",
    [
        "The sources do not show where `retry_delay` is set to 45.",
        "The numbered sources don't include the body of `drain()`.",
        "How `drain()` is called is not visible in the sources shown.",
        "Nothing in the excerpts says that a connection is closed.",
        "None of the provided lines has a default of 45 seconds.",
        "The retry logic itself is not shown here, only its caller.",
        "The provided code does not contain a test of it.",
        "The sources never mention a limit.",
    ],
)
def test_what_the_sources_do_not_show_is_no_claim(text):
    assert check_support(text, SOURCES).statements == 0


@pytest.mark.parametrize(
    "text",
    [
        "The pool does not retry a closed connection [1].",
        "`acquire` never shows a connection to callers [1].",
    ],
)
def test_what_the_code_does_not_do_is_a_claim(text):
    assert check_support(text, SOURCES).statements == 1


QUESTION = 'What if I acquire with timeout 45 for "ada@example.org", and `evict` my_own_name?'


@pytest.mark.parametrize(
    ("text", "is_supported"),
    [
        ("With 45, `acquire` waits for a free connection [1].", True),
        ('For "ada@example.org" it waits for a free connection [1].', True),
        ("For `my_own_name`, `acquire` waits for a free connection [1].", True),
        ("`evict` waits for a free connection [1].", False),
        ("With 46, `acquire` waits for a free connection [1].", False),
    ],
)
def test_an_example_of_the_question_is_not_missed_but_a_name_of_the_code_is(text, is_supported):
    check = check_support(text, SOURCES, question=QUESTION, occurs=lambda name: name != "my_own_name")
    assert bool(check.supported) == is_supported


def test_a_lead_in_covers_its_list_unless_the_list_has_references():
    given = "It does two things [1]:\n\n- it waits for a connection\n- it locks the connection"
    assert [one.cited for one in statements(given)] == [(1,), (1,)]


@pytest.mark.parametrize(
    "text",
    [
        "# How the pool works in detail",
        "**How the pool works in detail:**",
        "Does the pool wait for a connection?",
        "In summary, the pool waits for a connection.",
        "Here are the steps that it takes:",
        "Yes, it does.",
        "```python\nthe pool waits for a connection\n```",
        "| the pool | waits for | a connection |",
    ],
)
def test_what_states_nothing_is_no_statement(text):
    assert statements(text) == []


def test_a_statement_without_a_reference_is_marked_at_its_place():
    text = "# Pool\n\nThe pool waits for `a.b` to be free."
    (one,) = check_support(text, SOURCES).flagged
    assert one.kind == "uncited" and text[one.begin_char : one.end_char] == one.text == text[8:]


def test_a_statement_without_a_reference_names_the_source_that_has_its_words():
    text = "# Items\n\n`evict` pops the last of the items. The weather was fine on that day."
    check = check_support(text, SOURCES)
    assert [(one.kind, one.cited) for one in check.flagged] == [("uncited", (2,)), ("uncited", ())]
    assert "[2] has its words" in check.flagged[0].reason
    assert check.nearest == (2,)
    assert check.summary.startswith("2 of 2 statements cite no source (see [2])")


def test_a_place_in_the_text_is_a_reference():
    assert check_support("`acquire` waits for a connection, see net/pool.py:3-4.", SOURCES).supported == 1


def test_a_name_that_occurs_nowhere_is_flagged_once():
    text = "`acquire` calls `frobnicate()` [1]. `frobnicate()` waits [1]."
    check = check_support(text, SOURCES, given="who calls acquire?", occurs=lambda name: False)
    assert check.unknown_names == ("frobnicate()",)
    (one,) = (one for one in check.flagged if one.kind == "unknown_name")
    assert text[one.begin_char :].startswith("`frobnicate()`")


@pytest.mark.parametrize(
    "code",
    "true None GET .py --verbose os.path.join asyncio.run len str.join 42 <name> self.x {id} => "
    "npm git~install~x".split(),
)
def test_general_names_are_not_unknown(code):
    assert not unknown_names(f"Use `{code.replace('~', ' ')}` here.", lambda name: False)


def test_a_cut_text_ends_with_its_last_whole_sentence():
    assert whole_sentences("It waits. Then it locks [1]. After tha") == "It waits. Then it locks [1]."
    assert whole_sentences("It waits.\n```\nx = 1.\ny") == "It waits."
    assert whole_sentences("no sentence") == "no sentence"


@pytest.mark.parametrize(
    "text",
    [
        "`" * 100_000,
        "`a` " * 25_000,
        "It waits for `x` [1]. " * 10_000,
        "a_" * 50_000,
        "[1" + ",1" * 50_000,
        "**" * 50_000,
        '"' * 100_000,
        "1," * 50_000,
        ". [" * 30_000,
        "- " * 50_000,
        "[1-999]. " * 10_000,
        "x" * 100_000 + "()",
        "word\n" * 20_000,
    ],
)
def test_a_hostile_answer_takes_bounded_time(text):
    began = time.process_time()
    check = check_support(text, SOURCES, occurs=lambda name: False)
    assert time.process_time() - began < 2
    assert check.statements <= 400 and len(check.flagged) <= 20
    assert check.supported + check.unsupported + check.uncited == check.statements
