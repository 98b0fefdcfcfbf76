"""Exploring: parts of a question, the budget as a law, and what kind of place comes first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import takewhile
from pathlib import Path

import pytest

from rag.errors import SearchInvalid
from rag.service import Engine, Repository, locate
from rag.service.tools.explore import explore, explore_page, parts_of
from rag.service.tools.explored_definitions import short
from rag.service.tools.explored_places import _excerpts, _grouped, _weights
from rag.settings import Settings
from rag.types import CodeFact, Hit, Span

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
EXPORTERS = ("Plain", "Table", "Tree", "Chart")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    home = tmp_path_factory.mktemp("home")
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        yield engine


@pytest.fixture(scope="module")
def sample(engine: Engine) -> Repository:
    return engine.repository(locate(str(SAMPLE)))


@pytest.fixture(scope="module")
def registry(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("registry")
    files = {
        "exporters.py": "\n\n".join(f"@public\nclass {name}:\n    pass\n" for name in EXPORTERS),
        "registry.py": f"from exporters import {', '.join(EXPORTERS)}\n\nEXPORTERS = {{\n"
        + "".join(f'    "{name.lower()}": {name},\n' for name in EXPORTERS)
        + "}\n",
        "options.py": "def register(name):\n    return name\n\n\ndef setup():\n"
        + "".join(f'    register("option_{n}")\n' for n in range(6)),
        "tags.py": "def generate_entity_tag(data):\n    return hash(data)\n",
        "http.py": (
            "from tags import generate_entity_tag\n\n\ndef respond(body):\n"
            "    return generate_entity_tag(body), body\n"
        ),
        "proxy.py": "EVENTS = [\n"
        + "".join(f"    'event{n}',\n" for n in range(6))
        + "]\n"
        + "".join(
            f"def relay_{n}(self):\n    self.emit('event{n}')\n" + f"    wait({n})\n" * 48 for n in range(8)
        ),
        "server.py": "".join(
            f"def step_{n}(self):\n    # nothing\n    self.emit('{name}')\n" + "    wait(1)\n" * 7
            for n, name in enumerate(("opened", "asked", "closed"))
        ),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return engine.repository(locate(str(folder)))


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Where is a token checked?", 1),
        ("Where is a token checked, and who calls it?", 2),
        ("Where is a token checked? How long does it live?", 2),
        ("- where is a token checked\n- who calls authenticate", 2),
        ("Traceback (most recent call last):\n  File 'a.py', line 3, in f\nValueError: no token", 1),
        ("authenticate", 1),
        ("What limits a body: where is the limit set, how is it checked?", 3),
        ("Is a token, which is signed, checked?", 1),
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
        assert place.path in found.text.splitlines()
        assert all(f"{number} {text.strip()[:40]}" in flat(found.text) for number, text in place.lines)
        assert all(text.rstrip("…") in lines[number - 1].expandtabs(4) for number, text in place.lines)


def flat(text: str) -> str:
    """Return a text without the indentation of its lines, after their numbers."""
    return re.sub(r"^(\d+) +", r"\1 ", text, flags=re.MULTILINE)


def test_a_file_is_named_once_and_its_lines_are_in_order(engine: Engine, sample: Repository) -> None:
    found = explore(sample, "Who calls authenticate, and where is it defined?", counter=engine.counter)
    rows = found.text.splitlines()
    files = [row for row in rows if (SAMPLE / row).is_file()]
    assert files and len(files) == len(set(files))
    for at in map(rows.index, files):
        following = takewhile(lambda row: row not in files, rows[at + 1 :])
        numbers = [int(row.split()[0]) for row in following if re.match(r"\d+ (?!more )", row)]
        assert numbers == sorted(set(numbers))


def test_the_members_of_a_list_are_shown_where_they_are_defined(engine: Engine, registry: Repository) -> None:
    found = explore(registry, "List all entries of EXPORTERS.", counter=engine.counter)
    shown = [(place.path, number) for place in found.places for number, _ in place.lines]
    assert {
        *(("registry.py", n) for n in range(4, 8)),
        *(("exporters.py", n) for n in (2, 7, 12, 17)),
    } <= set(shown)


def test_every_call_in_a_definition_is_shown(engine: Engine, registry: Repository) -> None:
    found = explore(registry, "register: which option names are registered?", counter=engine.counter)
    lines = {number for place in found.places if place.path == "options.py" for number, _ in place.lines}
    assert set(range(6, 12)) <= lines


def test_words_of_the_question_name_a_definition(engine: Engine, registry: Repository) -> None:
    found = explore(registry, "Where are entity tags generated?", counter=engine.counter)
    assert ("tags.py", 1) in [(place.path, number) for place in found.places for number, _ in place.lines]
    assert ("http.py", 5) in [(place.path, number) for place in found.places for number, _ in place.lines]


def test_lines_with_the_words_are_found_in_a_named_file(engine: Engine, registry: Repository) -> None:
    found = explore(registry, "Which events does server.py emit?", counter=engine.counter)
    lines = {number for place in found.places if place.path == "server.py" for number, _ in place.lines}
    assert {3, 13, 23} <= lines


def test_a_list_in_a_named_file_does_not_hide_its_other_lines(engine: Engine, registry: Repository) -> None:
    found = explore(registry, "Which events does proxy.py emit?", counter=engine.counter)
    lines = {number for place in found.places if place.path == "proxy.py" for number, _ in place.lines}
    assert {10 + 50 * n for n in range(8)} <= lines


def hit(text: str, symbol: str = "") -> Hit:
    return Hit(Span("r", "a.py", 1, text.count("\n") + 1, "0" * 40, symbol=symbol), text, 1.0)


def shown(repository: Repository, hits: list[Hit], question: str, *, with_weak: bool = False) -> list[str]:
    found = _excerpts(repository, hits, _weights(question, hits), with_weak=with_weak)
    return [text.strip() for place in found for _, text in place.lines]


def test_the_line_with_most_of_the_words_is_shown_of_a_chunk(registry: Repository) -> None:
    text = "def close_socket(sock):\n    count = 0\n    sock.shutdown(2)\n    sock.linger = 1\n"
    assert shown(registry, [hit(text, "close_socket")], "where is a sock closed?") == [
        "def close_socket(sock):"
    ]
    assert shown(registry, [hit(text, "close_socket")], "shutdown of a sock") == ["sock.shutdown(2)"]
    assert shown(registry, [hit("\nx = 1\ny = 2\n")], "sock") == ["x = 1"], "a place has a line"


def test_chunks_that_fit_far_less_than_the_best_are_left_out(registry: Repository) -> None:
    best, weak = "refuse(token, expired)\n", "print(token)\n"
    question = "where is an expired token refused: refuse"
    assert shown(registry, [hit(best), hit(weak), hit(weak)], question) == ["refuse(token, expired)"]
    assert len(shown(registry, [hit(weak), hit(weak)], question)) == 2
    assert len(shown(registry, [hit(best), hit(weak), hit(weak)], question, with_weak=True)) == 3


def test_a_decorator_takes_no_line_of_a_fact() -> None:
    def fact(text: str) -> CodeFact:
        return CodeFact(Span("r", "a.py", 5, 5 + text.count("\n"), "0" * 40, symbol="A"), text)

    (place,) = _grouped([fact("@public\n@final\nclass A(B):\n    x = 1\n")])
    assert place.lines == ((7, "class A(B):"), (8, "    x = 1"))
    (place,) = _grouped([fact("@public\n")])
    assert place.lines == ((5, "@public"),)


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


@pytest.fixture(scope="module")
def handlers(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("handlers")
    for n in range(60):
        text = f"def on_packet_{n}(packet):\n    return store(packet, {n})\n"
        (folder / f"part_{n}.py").write_text(text, encoding="utf-8")
    return engine.repository(locate(str(folder)))


def test_a_larger_budget_has_more_places(engine: Engine, handlers: Repository) -> None:
    question = "Store the size of a packet"
    found = explore(handlers, question, counter=engine.counter, budget_tokens=5000)
    assert len({place.path for place in found.places}) == 60
    assert engine.counter.count(found.text) <= 5000


def test_the_same_question_again_comes_to_all_places(engine: Engine, handlers: Repository) -> None:
    seen: dict[str, set[int]] = {}
    for _ in range(12):
        found = explore(handlers, "Store the size of a packet", counter=engine.counter, seen=seen)
        for place in found.places:
            seen.setdefault(place.path, set()).update(number for number, _ in place.lines)
    assert len(seen) == 60


@pytest.mark.parametrize("at", [0, 100, 400, 880])
def test_a_long_line_is_cut_around_what_is_sought(at: int) -> None:
    line = f"{'x' * at} otter_token {'y' * (900 - at)}"
    shown = short(line, {"otter"})
    assert "otter_token" in shown
    assert len(shown) <= 162
    assert shown.startswith("…") == (at > 40)
    assert short("otter", {"otter"}) == "otter"


def test_a_value_is_found_by_its_name(engine: Engine, registry: Repository) -> None:
    found = explore(registry, "EXPORTERS", counter=engine.counter)
    assert ("registry.py", 3) in [(place.path, number) for place in found.places for number, _ in place.lines]


@pytest.mark.parametrize("budget", [5_000, 600, 100])
def test_lines_that_were_sent_before_are_named(engine: Engine, handlers: Repository, budget: int) -> None:
    seen = {f"part_{n}.py": {1, 2} for n in range(60)}
    found = explore(handlers, "packet", counter=engine.counter, budget_tokens=budget, seen=seen)
    assert engine.counter.count(found.text) <= budget
    assert "part_0.py:1-2; " in found.text
    named = len(re.findall(r"part_\d+\.py:1", found.text))
    left = re.search(r"; and lines of (\d+) more files\.$", found.text)
    assert (named == 60) == (budget == 5_000)
    assert bool(left) == (budget < 5_000)


def test_texts_in_the_codes_words_come_before_the_questions_own_words(engine, sample):
    question = "How are people kept from asking too often?"
    texts = ["RateLimiter token bucket", "TooManyRequests 429"]
    counter = engine.counter
    alone = explore(sample, question, counter=counter, budget_tokens=300)
    said = explore(sample, question, counter=counter, budget_tokens=300, in_code_words=texts)
    assert said.places[0].path == "snip/ratelimit.py"
    assert counter.count(said.text) <= 300
    assert said != alone
    with pytest.raises(SearchInvalid):
        explore(sample, question, counter=counter, in_code_words=["x"] * 9)


def test_each_page_has_other_lines(engine, sample):
    question, counter = "Where are errors raised?", engine.counter
    pages = [
        explore_page(sample, question, page, counter=counter, budget_tokens=200, next_places="turn the page")
        for page in (1, 2, 3)
    ]
    lines = [{(one.path, n) for one in page.places for n, _ in one.lines} for page in pages]
    assert all(lines[:2])
    assert not lines[0] & lines[1] and not lines[1] & lines[2]
    assert "turn the page" in pages[0].text


def test_with_little_room_the_best_definition_is_shown_without_its_callers(
    engine: Engine, sample: Repository
) -> None:
    question = "Where is a token checked?"
    small, usual = (
        explore(sample, question, counter=engine.counter, budget_tokens=budget) for budget in (400, 1_300)
    )
    assert "def authenticate(" in small.text and "called in: snip/app.py" not in small.text
    assert "def authenticate(" in usual.text and "called in: snip/app.py" in usual.text


def test_what_is_probably_not_here_is_said_before_the_places(engine: Engine, sample: Repository) -> None:
    question = "Which module sends parcels over Kafka?"
    lacking = explore(sample, question, counter=engine.counter)
    assert lacking.text.startswith("`Kafka` occurs nowhere in the indexed files of this repository.")
    again = {place.path: {n for n, _ in place.lines} for place in lacking.places}
    more = explore(sample, question, counter=engine.counter, seen=again)
    assert more.text.startswith("`Kafka` occurs nowhere"), "what was sent before may be of another question"
    here = explore(sample, "Where is a token checked?", counter=engine.counter)
    assert "occurs nowhere" not in here.text


def test_texts_in_the_codes_words_that_are_here_end_the_doubt(engine: Engine, sample: Repository) -> None:
    question = "Which Bouncer throws out Strangers?"
    assert "occurs nowhere" in explore(sample, question, counter=engine.counter).text
    said = explore(sample, question, counter=engine.counter, in_code_words=["authenticate token user"])
    assert "occurs nowhere" not in said.text
