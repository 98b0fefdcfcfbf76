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
        ("Keepalive is disabled on the free connection [1].", "“enabl”, not “disabl”"),
        ("`acquire` waits for a free connection [2].", "`acquire` does not occur"),
        ("Templates are rendered with escaped HTML by a sandboxed engine [1].", "almost no word"),
    ],
)
def test_what_the_lines_do_not_have_is_unsupported(text, reason):
    ((kind, why),) = kinds(text)
    assert kind == "unsupported" and reason in why


def test_a_reference_covers_the_sentences_before_it_in_its_paragraph_or_list():
    first, second, third, fourth = statements(
        "The pool waits for a connection. It then locks it [1]. Nothing is known of this.\n\n"
        "The pool has limits:\n- it waits for thirty seconds [2]\n\nAnother paragraph stands for itself."
    )[:4]
    assert [first.cited, second.cited, third.cited, fourth.cited] == [(1,), (1,), (), (2,)]


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
    text = "`evict` pops the last of the items. The weather was fine on that day."
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
    assert check.supported + check.weak + check.unsupported + check.uncited == check.statements
