"""What is built on a store is the same on each: search, recall, facts, preferences, sections, sessions."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unicodedata import normalize

import pytest

from rag.answer_cache.cache import AnswerCache
from rag.errors import NotFound, SettingsError
from rag.memory.agent_notes import MAX_HISTORY_BYTES, Sections
from rag.memory.consolidate import consolidate, watermark
from rag.memory.facts import Fact, Facts, the_fact
from rag.memory.messages import SUMMARIES, MessageMemory
from rag.memory.preferences import Preferences
from rag.memory.recall import recall_turns
from rag.memory.search import search_text
from rag.memory.user_memory import UnifiedMemory
from rag.ports import MemoryStore
from rag.service.upkeep.namespace_retention import apply_policies, expire, policies, set_policy
from rag.service.upkeep.namespaces import Holdings
from rag.service.upkeep.retention import EXPIRING, KeptFiles
from rag.types import Conversation, DialogTurn, Message, now_utc
from tests.contracts.clock import SteppedClock
from tests.contracts.sample_turns import full_turn, new_turn

_SAID = (
    ("Which servers stand in 北京?", "Two."),
    ("What does getUserName return?", "The login."),
    ("And in 上海?", "None, said the user name."),
    ("北京的服务器在哪里?", "在机房。"),
)


class _Words:
    """Counts words, so that budgets in tests can be read off."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


class RememberingContract:
    """Runs beside `MemoryStoreContract`, with the same fixtures, on every store."""

    def test_words_split_as_we_split_them_find_the_same_turns(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.extend([new_turn(*one) for one in _SAID], conversation=here.id)
        orders = {
            query: [found.order for found in search_text(store, query)]
            for query in ("北京", "getUserName", "user name", "userName")
        }
        assert sorted(orders["北京"]) == [0, 3]
        assert orders["user name"] == [2, 1]
        assert orders["userName"] == [2, 1]
        assert orders["getUserName"] == [1, 2]

    def test_words_are_found_in_either_form_and_without_case(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        asked = (normalize("NFD", "Überfahrt nach Genève?"), "Überfahrt nach Genève?", "groß")
        store.extend([new_turn(question) for question in asked], conversation=here.id)
        for form in ("NFC", "NFD"):
            for query, orders in (("Genève", [0, 1]), ("ÜBERFAHRT", [0, 1]), ("GROSS", [2]), ("groß", [2])):
                found = search_text(store, normalize(form, query))
                assert sorted(one.order for one in found) == orders

    def test_a_fact_in_either_form_is_one(self, store: MemoryStore) -> None:
        facts = Facts(store)
        for form in ("NFC", "NFD", "NFC"):
            facts.add([Fact(normalize(form, "Die Gebühr in Zürich ist 5"), location="/app")])
        (only,) = facts.list()
        assert only.text == "Die Gebühr in Zürich ist 5"

    def test_a_single_character_is_found_wherever_it_stands(self, store: MemoryStore) -> None:
        here, there = store.create_conversation(), store.create_conversation()
        store.extend(
            [new_turn("如何释放锁？", "解锁。"), new_turn("锁"), new_turn("token")], conversation=here.id
        )
        store.add_messages([Message("加锁很慢"), Message(b"\xff", mime="image/png")], conversation=there.id)
        fork = store.fork(here.id)
        found = search_text(store, "锁")
        assert [(one.kind, one.order) for one in found] == [("turn", 1), ("turn", 0), ("message", 0)]
        assert all(one.score > 0 for one in found)
        assert [one.order for one in search_text(store, "锁 ?", conversation=fork.id, k=1)] == [1]
        assert [one.kind for one in search_text(store, "锁", kind="message")] == ["message"]
        assert search_text(store, "栈") == search_text(store, "é") == []
        with pytest.raises(NotFound, match="nowhere"):
            search_text(store, "锁", conversation="nowhere")

    def test_for_a_single_character_only_the_newest_is_read(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rag.memory.search.MAX_SCANNED", 3)
        old, new = store.create_conversation(), store.create_conversation()
        store.extend([new_turn("锁"), new_turn("解锁")], conversation=old.id)
        store.extend([new_turn("锁"), new_turn("token")], conversation=new.id)
        found = search_text(store, "锁")
        assert {(one.conversation, one.order) for one in found} == {(old.id, 1), (new.id, 0)}

    def test_what_is_recalled_and_in_which_order(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.extend([new_turn(*one) for one in _SAID], conversation=here.id)
        found = recall_turns(store, "Who returns the name of a user?", conversation=here.id)
        assert [one.turn.order for one in found] == [1, 2, 3, 0]
        assert found[0].covered > 0.6
        assert next(one.turn.order for one in recall_turns(store, "北京", before=3)) == 0

    def test_what_only_expired_conversations_cited_goes_with_the_next_that_expires(
        self, store: MemoryStore, clock: SteppedClock
    ) -> None:
        kept = KeptFiles(store, "")
        blobs = {letter: letter * 40 for letter in "abcdef"}
        kept.keep({blob: letter.encode() for letter, blob in blobs.items()})

        def told(conversation: Conversation, letters: str) -> None:
            one = full_turn().citations[0]
            cited = tuple(replace(one, span=replace(one.span, blob=blobs[letter])) for letter in letters)
            store.append(new_turn("?", citations=cited), conversation=conversation.id)
            kept.expect(conversation, {blobs[letter] for letter in letters})

        def left() -> str:
            return "".join(sorted(content.decode() for content in kept.contents(blobs.values()).values()))

        lasting, first = store.create_conversation(), store.create_conversation(ttl_s=60)
        told(lasting, "a")
        assert store.count_records(shelf=EXPIRING) == 0
        told(first, "ab")
        told(first, "c")
        fork = store.fork(first.id, at=0)
        clock.advance(30)
        told(fork, "d")
        told(store.create_conversation(ttl_s=600), "e")
        assert left() == "abcdef"
        clock.advance(31)  # the first is over; the fork, which shows a and b, is not
        told(store.create_conversation(ttl_s=600), "e")
        assert left() == "abdef"
        clock.advance(30)  # the fork is over
        assert kept.sweep_expired() == 2 and left() == "aef"
        assert kept.sweep_expired() == 0 and store.count_records(shelf=EXPIRING) == 2
        assert kept.sweep() == 1 and left() == "ae"

    def test_preferences_are_values_by_user_and_key(self, store: MemoryStore) -> None:
        kept = Preferences(store, namespace="tenant")
        kept.save("ada", "language", "zh-CN")
        kept.save("ada", "theme", {"dark": True, "sizes": [1, 2.5, None]})
        kept.save("ada:b", "c", 1)
        kept.save("ada", "b:c", 2)
        assert kept.get("ada", "theme") == {"dark": True, "sizes": [1, 2.5, None]}
        assert kept.get_all("ada") == {
            "b:c": 2,
            "language": "zh-CN",
            "theme": {"dark": True, "sizes": [1, 2.5, None]},
        }
        assert kept.get_all("ada:b") == {"c": 1}
        assert Preferences(store).get_all("ada") == {}
        assert kept.delete("ada", "theme") is True
        assert kept.delete("ada", "theme") is False
        assert kept.get("ada", "theme") is None
        with pytest.raises(TypeError):
            kept.save("ada", "bad", {1: "keys are text"})
        with pytest.raises(ValueError, match="JSON"):
            kept.save("ada", "bad", float("nan"))
        assert kept.clear("ada") == 2

    def test_facts_are_kept_by_repository_each_once(self, store: MemoryStore) -> None:
        facts = Facts(store, namespace="tenant")
        cited = full_turn().citations
        (first,) = facts.add([Fact("Tokens live \n an hour.", "/api", turn="t", citations=cited)])
        assert first.text == "Tokens live an hour."
        assert (
            facts.add([Fact("tokens live an hour", "/api"), Fact("Another.", "/api:x")])[0].location
            == "/api:x"
        )
        assert facts.list("/api") == [first]
        assert facts.list("/api")[0].citations == cited
        assert [fact.text for fact in facts.list()] == ["Tokens live an hour.", "Another."]
        again = Fact("Tokens live an hour", "/api", turn="later", citations=cited[:1])
        assert facts.add([again]) == []
        (renewed,) = facts.list("/api")
        assert (renewed.id, renewed.text) == (first.id, first.text)
        assert (renewed.turn, renewed.citations) == ("later", cited[:1])
        assert facts.same_as(again) == renewed
        first = renewed
        assert the_fact(facts.all(), first.id[:10]) == first
        assert facts.delete(first) is True
        assert facts.delete(first) is False
        assert Facts(store).list() == []

    def test_those_who_state_a_fact_at_once_state_one(self, store: MemoryStore) -> None:
        def state(n: int) -> list[Fact]:
            return Facts(store).add([Fact("Tokens live an hour" + "." * (n % 2), "/api \udcff")])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(state, range(16)))
        assert len(Facts(store).list()) == 1

    def test_sections_are_read_as_they_were_written(self, store: MemoryStore) -> None:
        sections = Sections(store, _Words(), namespace="a:b")
        other = Sections(store, _Words(), namespace="a")
        assert sections.read_section("rules") == ""
        assert sections.get_context() == ""
        sections.append_section("rules", "Be concise")
        sections.append_section("rules", "Cite lines")
        other.append_section("b:rules", "Elsewhere")
        sections.add_history("Ada asked\nof tokens")
        assert sections.read_section("rules") == "Be concise\nCite lines\n"
        assert sections.history() == ["Ada asked\nof tokens"]
        assert (
            sections.get_context() == "## rules\nBe concise\nCite lines\n\n## History\nAda asked\nof tokens"
        )
        assert sections.get_context(budget_tokens=4) == "## rules\nCite lines"
        assert other.get_context() == "## b:rules\nElsewhere"
        with pytest.raises(TypeError, match="None"):
            sections.add_history(None)  # type: ignore[arg-type]
        assert sections.history() == ["Ada asked\nof tokens"]

    def test_a_history_keeps_its_newest_entries(self, store: MemoryStore) -> None:
        sections = Sections(store, _Words())
        entry = "x" * (MAX_HISTORY_BYTES // 20)
        for n in range(40):
            sections.add_history(f"{n} {entry}")
            assert sum(map(len, sections.history())) <= MAX_HISTORY_BYTES
        kept = [int(each.split()[0]) for each in sections.history()]
        assert kept == list(range(40 - len(kept), 40)) and len(kept) >= 9
        sections.add_history("y" * MAX_HISTORY_BYTES)
        assert sections.history() == ["y" * MAX_HISTORY_BYTES], "the newest entry stays, whatever its size"
        sections.add_history("after")
        assert sections.history() == ["after"]

    def test_a_section_hides_no_other_part_of_the_context(self, store: MemoryStore) -> None:
        sections = Sections(store, _Words())
        sections.append_section("Summary", "of last week")
        sections.append_section("History", "of the project")
        sections.add_history("Ada asked")
        sections.consolidate([{"role": "user", "content": "We ship on Friday."}])
        for told in ("of last week", "of the project", "Ada asked", "We ship on Friday."):
            assert told in sections.get_context()

    def test_messages_are_consolidated_once(self, store: MemoryStore) -> None:
        sections = Sections(store, _Words())
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": "Where is the token set?"},
            {"role": "assistant", "content": [{"type": "text", "text": "In `sign`."}]},
            {"role": "user", "content": "Where is the token set?"},
        ]
        assert sections.consolidate(messages[:2]) is True
        assert sections.consolidate(messages[:2]) is False
        assert sections.consolidate([]) is False
        first = "user: Where is the token set?\nassistant: In `sign`."
        assert sections.summary == first
        assert sections.consolidate(messages) is True
        assert sections.summary == f"{first}\nuser: Where is the token set?"
        more = [*messages, {"role": "user", "content": "And deleted?"}]
        assert sections.consolidate(more, writer=lambda before, new: f"{len(before)} {new}") is True
        assert sections.summary.endswith("['user: And deleted?']")
        assert sections.get_context().startswith("## Summary\n")

    def test_turns_are_consolidated_once_and_stay(self, store: MemoryStore) -> None:
        here = store.create_conversation()
        store.extend([new_turn("Q one?", "One. And more."), new_turn("Q two?", "Two.")], conversation=here.id)
        done = consolidate(store, here, store.turns(here.id), counter=_Words())
        assert (done.turns, done.summary) == (2, "- Q one? — One.\n- Q two? — Two.")
        assert consolidate(store, here, store.turns(here.id), counter=_Words()).turns == 0
        store.append(new_turn("Q three?", "Three."), conversation=here.id)
        again = consolidate(store, here, store.turns(here.id), counter=_Words(), summary_tokens=10)
        assert (again.turns, again.summary) == (1, "- Q two? — Two.\n- Q three? — Three.")
        assert len(store.turns(here.id)) == 3
        memory = MessageMemory(store, here)
        assert [one.content for one in memory.get_memory()] == [again.summary]
        assert memory.get_memory(prepend_summary=False) == []
        memory.update_compressed_summary("")
        assert watermark(store, here) == -1
        assert consolidate(store, here, store.turns(here.id), counter=_Words()).turns == 3

    def test_a_model_writes_the_summary_and_its_facts_are_bound_to_what_is_cited(
        self, store: MemoryStore
    ) -> None:
        here = store.create_conversation()
        cited = replace(full_turn(), state="answered")
        store.extend([new_turn("Q?", "A."), cited], conversation=here.id)

        def writer(summary: str, turns: Sequence[DialogTurn]) -> str:
            return (
                f"**Summary:** {len(turns)} turns.\n\nFacts\n- [2] Tokens end.\n- [9] Of no turn.\n[1] Plain."
            )

        done = consolidate(store, here, store.turns(here.id), counter=_Words(), writer=writer)
        assert done.summary == "2 turns."
        assert store.records([here.id], shelf=SUMMARIES) == {here.id: b"2 turns."}
        used = [citation for citation in cited.citations if citation.used] or list(cited.citations)
        (fact,) = done.facts
        assert (fact.text, fact.turn) == ("Tokens end.", cited.id)
        assert set(fact.citations) <= set(used)
        assert fact.state == "proposed" and Facts(store).list(fact.location) == []
        assert Facts(store).all(fact.location) == [fact]

    def test_a_session_holds_the_last_messages_oldest_first(
        self, store: MemoryStore, clock: SteppedClock
    ) -> None:
        memory = UnifiedMemory(store, AnswerCache(store, clock=clock), namespace="tenant")
        memory.add_conversation("ada", "user", "你好", ttl=600)
        memory.add_conversation("ada", "assistant", "你好！", ttl=600)
        memory.add_conversation("bob", "user", "Hello", ttl=600)
        history = [{"role": "user", "content": "你好"}, {"role": "assistant", "content": "你好！"}]
        assert memory.get_conversation_history("ada") == history
        assert memory.get_conversation_history("ada", 1) == history[1:]
        assert memory.get_conversation_history("eve") == []
        many = [{"role": "user", "content": str(n)} for n in range(120)]
        assert memory.batch_save_messages("ada", many, ttl=600) == 120
        assert memory.get_conversation_history("ada", 1000) == many[20:]
        memory.save_user_preference("ada", "language", "zh-CN")
        assert memory.get_user_preference("ada", "language") == "zh-CN"
        assert memory.get_user_stats("ada") == {"conversations": 100, "preferences": 1}
        assert UnifiedMemory(store).get_user_stats("ada") == {"conversations": 0, "preferences": 0}
        memory.add_conversation("bob", "user", "again", ttl=1200)
        assert [one["content"] for one in memory.get_conversation_history("bob")] == ["Hello", "again"]
        with pytest.raises(ValueError, match="ttl_s"):
            memory.add_conversation("bob", "user", "never", ttl=0)
        assert [one["content"] for one in memory.get_conversation_history("bob")] == ["Hello", "again"]
        assert len(store.conversations(namespace="tenant")) == 2
        clock.advance(601)
        assert memory.session.get_recent_messages("ada") == []
        assert memory.session.clear_session("bob") == 2
        assert memory.session.clear_session("bob") == 0

    def test_cached_answers_are_given_again_and_what_was_found_is_counted(self, store: MemoryStore) -> None:
        memory = UnifiedMemory(store, AnswerCache(store), namespace="tenant")
        assert memory.get_cached_answer("什么是 RAG？") is None
        memory.cache_qa("什么是 RAG？", "RAG 是检索增强生成")
        assert memory.get_cached_answer("RAG 是什么？") == "RAG 是检索增强生成"
        memory.get_conversation_history("ada")
        assert memory.get_stats() == {
            "semantic_hits": 1,
            "semantic_misses": 1,
            "semantic_hit_rate": 0.5,
            "session_hits": 0,
            "session_misses": 1,
            "session_hit_rate": 0.0,
        }
        assert memory.report().splitlines()[0] == "cached answers: 1 hits, 1 misses (50.0%)"
        assert UnifiedMemory(store).get_cached_answer("什么是 RAG？") is None

    def test_retention_deletes_what_is_older_and_nothing_else(
        self, store: MemoryStore, clock: SteppedClock
    ) -> None:
        now, cited = clock.now + timedelta(days=100), full_turn().citations[0]

        def asked(question: str, days: int, blob: str) -> DialogTurn:
            where = replace(cited, span=replace(cited.span, blob=blob * 40))
            then = now - timedelta(days=days)
            return replace(new_turn(question, citations=(where,)), user_query_timestamp=then)

        kept = KeptFiles(store, "ci")
        kept.keep({letter * 40: letter.encode() for letter in "abcd"})
        here = store.create_conversation(namespace="ci")
        store.add_messages([Message("before")], conversation=here.id, namespace="ci")
        old = store.append(asked("old?", 100, "a"), conversation=here.id, namespace="ci")
        clock.advance(90 * 86_400)
        young = store.append(asked("young?", 10, "b"), conversation=here.id, namespace="ci")
        fork = store.fork(here.id, namespace="ci")
        other = store.create_conversation(namespace="other")
        store.append(asked("elsewhere?", 100, "a"), conversation=other.id, namespace="other")
        facts = Facts(store, namespace="ci")
        facts.add(
            [
                Fact("It was so.", "/r", created=now - timedelta(days=91), citations=(cited,)),
                Fact("It is so.", "/r", created=now - timedelta(days=89)),
            ]
        )
        for turn, days in ((old, 100), (young, 10)):
            then = now - timedelta(days=days)
            answers = AnswerCache(store, namespace="ci", ttl_s=None, clock=lambda then=then: then)
            answers.put(turn.question, "yes", turn=turn.id)
        before = now - timedelta(days=90)
        counted = expire(store, "ci", before, dry_run=True)
        assert (counted.turns, counted.facts, counted.cached_answers) == (1, 1, 1)
        assert len(store.turns(here.id, namespace="ci")) == 2
        gone = expire(store, "ci", before)
        assert (gone.conversations, gone.turns, gone.messages, gone.facts) == (0, 1, 1, 1)
        for conversation in (here, fork):
            assert [turn.id for turn in store.turns(conversation.id, namespace="ci")] == [young.id]
        assert store.messages(here.id, namespace="ci") == []
        assert kept.missing({letter * 40 for letter in "ab"}) == {"a" * 40}
        assert [fact.text for fact in facts.all()] == ["It is so."]
        assert [one.question for one in answers.entries()] == ["young?"]
        assert len(store.turns(other.id, namespace="other")) == 1
        assert expire(store, "ci", before) == Holdings("ci")

    def test_a_policy_is_applied_once_when_it_is_due(self, store: MemoryStore) -> None:
        now = [datetime(2030, 1, 1, tzinfo=UTC)]  # long after the conversations
        here = store.create_conversation(namespace="ci")
        store.append(new_turn("Where?"), conversation=here.id, namespace="ci")
        assert apply_policies(store, clock=lambda: now[0]) == []
        set_policy(store, "ci", timedelta(days=90))
        (policy,) = policies(store)
        assert (policy.namespace, policy.age, policy.applied) == ("ci", timedelta(days=90), None)
        (gone,) = apply_policies(store, clock=lambda: now[0])
        assert (gone.namespace, gone.conversations, gone.turns) == ("ci", 1, 1)
        assert store.conversations(namespace="ci") == []
        assert [one.applied for one in policies(store)] == now
        assert not policies(store)[0].is_due(now[0] + timedelta(minutes=59))
        assert policies(store)[0].is_due(now[0] + timedelta(hours=1))
        assert policies(store)[0].is_due(now[0] - timedelta(days=1))  # the clock was wrong before
        set_policy(store, "ci", None)
        assert policies(store) == []
        with pytest.raises(SettingsError, match="one hour"):
            set_policy(store, "ci", timedelta(minutes=1))

    def test_of_processes_that_apply_a_policy_at_once_one_does(self, store: MemoryStore) -> None:
        set_policy(store, "ci", timedelta(days=90))
        for _ in range(300):
            here = store.create_conversation(namespace="ci")
        store.append(new_turn("Where?"), conversation=here.id, namespace="ci")
        later = now_utc() + timedelta(days=3_650)
        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(apply_policies, store, clock=lambda: later) for _ in range(4)]
        assert sorted(len(one.result()) for one in done) == [0, 0, 0, 1]
