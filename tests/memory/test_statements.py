"""Which sentences state something worth remembering, and which facts are about the same subject."""

from __future__ import annotations

import pytest

from rag.memory.facts import Fact, held_at
from rag.memory.statements import mentions, on_same_subject, stated_by_answer, stated_by_user


@pytest.mark.parametrize(
    ("message", "stated"),
    [
        ("Remember that releases are cut on Fridays.", [("Releases are cut on Fridays.", "")]),
        ("please note: never call stir() directly", [("Never call stir() directly", "convention")]),
        (
            "We decided to keep tokens in Redis. How are they stored?",
            [("We decided to keep tokens in Redis.", "decision")],
        ),
        ("Always pass a timeout to requests.", [("Always pass a timeout to requests.", "convention")]),
        ("sign_it must not be called twice.", [("sign_it must not be called twice.", "constraint")]),
        ("By slug we mean the code of a link.", [("By slug we mean the code of a link.", "definition")]),
        ("Remember: sign_it is slow.", [("sign_it is slow.", "")]),
        ("Note: we never use black.", [("We never use black.", "convention")]),
        ("By the way, we always use ruff. Where is it run?", [("We always use ruff.", "convention")]),
        ("FYI our tests are in app/tests", [("Our tests are in app/tests", "")]),
        ("So how is it run?", []),
        ("by the way,", []),
        ("记住：令牌一小时后过期。", [("令牌一小时后过期。", "")]),
        ("How is a token signed?", []),
        ("Where must the config be?", []),
        ("What must never happen here", []),
        ("fix a.py, it always fails with an error", []),
        ("Remember to be brief.", []),
        ("", []),
        ("```\nThis must not be found in code.\n```", []),
    ],
)
def test_what_a_user_states(message: str, stated: list[tuple[str, str]]) -> None:
    assert [(one.text, one.kind) for one in stated_by_user(message)] == stated


def test_an_answers_statements_have_the_references_that_they_have_themselves() -> None:
    answer = """Tokens must expire after one hour [1]. The default is 3600 [2]. It must not be zero [2].

- `sign` always seals the mixture with wax. [2][4-5]
- A key must be random [3]. A lock must be old. It is read once [3].

```python
# This must not be found [1].
```
> A quoted line must not be found [1].
Note: this remark must not be found [1].
A pepper is a secret that every token shares 【1】. This one must be left out without references.
"""
    assert [(one.text, one.kind, one.numbers) for one in stated_by_answer(answer)] == [
        ("Tokens must expire after one hour.", "constraint", (1,)),
        ("`sign` always seals the mixture with wax.", "convention", (2, 4, 5)),
        ("A key must be random.", "constraint", (3,)),
        ("A pepper is a secret that every token shares.", "definition", (1,)),
    ]


@pytest.mark.parametrize(
    ("new", "old", "is_same"),
    [
        ("Sessions end after two hours", "A session ends after one hour.", True),
        ("We indent with spaces", "We indent with tabs", False),
        (
            "`Store.put` must be atomic",
            "Writes of Store.put need not be atomic at all, as readers retry",
            True,
        ),
        ("Releases are cut on Fridays", "Tokens are signed with a pepper", False),
    ],
)
def test_facts_about_the_same_subject(new: str, old: str, is_same: bool) -> None:
    other = Fact(old, "/r")
    assert on_same_subject(Fact(new, "/r"), [other]) == ([other] if is_same else [])
    assert on_same_subject(Fact(new, "/elsewhere"), [other]) == []


def test_a_fact_has_not_its_own_subject() -> None:
    fact = Fact("Sessions end after two hours", "/r")
    assert on_same_subject(fact, [fact]) == []


def test_names_are_whole_words() -> None:
    assert mentions("Call sign_it first", "sign_it")
    assert not mentions("Call sign_it_now first", "sign_it")
    assert not mentions("It is a b", "a")


def test_what_held_follows_from_what_was_stated_before() -> None:
    first = Fact("one", "/r", id="a", superseded_by="b")
    second = Fact("two", "/r", id="b", superseded_by="c")
    third = Fact("three", "/r", id="c")
    waiting = Fact("four", "/r", id="d", state="proposed")
    every = [first, second, third, waiting]
    for known, held in (("", ""), ("a", "a"), ("ab", "b"), ("abcd", "c")):
        assert [fact.id for fact in held_at(every, lambda fact, known=known: fact.id in known)] == list(held)


def test_a_fact_whose_successor_is_lost_is_over() -> None:
    assert held_at([Fact("one", "/r", id="a", superseded_by="b")], lambda fact: True) == []
