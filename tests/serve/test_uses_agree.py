"""Questions, searches, MCP and the HTTP API give the same places for who calls something."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import click
import jinja2
import pytest
import starlette
import typer
from command import rag
from live_server import Served, serving

from rag.agent.protocol import StepRequest
from rag.agent.tools import Found, Tools
from rag.retrieval.uses import summary, uses_of_name
from rag.schema import to_json
from rag.service import Dialog, Engine, converse, locate
from rag.service.tools.search import SearchQuery, search_repositories
from rag.service.tools.unread import uses_note
from rag.settings import Settings
from rag.types import Answer, Reach
from tests.serve.test_mcp import called, connected

SAMPLE = Path(__file__).resolve().parents[2] / "data/sample_repo"
SCRIPT = """export class Pot {
  heat(by) { return this.warm(by); }
  warm(by) { return by; }
}
export const glaze = (pot) => pot.heat(1);
export function fire(pots) {
  pots.forEach(glaze);
  for (const pot of pots) { pot.heat(2); unknown().warm(3); }
  return new Pot();
}
"""
PACKAGES = (click, jinja2, starlette, typer)
SOURCES = {one.__name__: Path(str(one.__file__)).parent for one in PACKAGES} | {"sample": SAMPLE}
NAMES_OF_EACH = 38


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("agree")
    script = home / "script"
    script.mkdir()
    (script / "pot.js").write_text(SCRIPT)
    (script / "use.js").write_text("import { fire, glaze } from './pot.js';\nfire([]);\nglaze(null);\n")
    sources = {name: locate(str(root)) for name, root in (SOURCES | {"script": script}).items()}
    with closing(Engine(Settings(home=home / "rag-home", memory="memory:"))) as engine:
        for source in sources.values():
            engine.repository(source)
    with serving(home, repositories=tuple(sources.items())) as running:
        yield running.ready()


def names_of(store: Any) -> list[str]:
    """Some of the names that code defines, as they are written and with their class."""
    every = {
        name
        for path, (_, kind) in store.files().items()
        if kind == "code"
        for one in (*store.graph.defined_in(path), *store.graph.values_in(path))
        for name in (one.name, one.qualified_name)
        if len(one.name) > 1 and name.replace(".", "").isidentifier()
    }
    return sorted(every, key=lambda name: zlib.crc32(name.encode()))[:NAMES_OF_EACH]


def places_of(facts: Any) -> list[str]:
    """The places of facts, without the definition that comes first if there are none."""
    shown = (one for one in facts["items"] if not one["reason"].startswith("defines"))
    return sorted(f"{one['path']}:{one['start_line']}" for one in shown)


def lines_of_places(places: list[str]) -> list[str]:
    found = []
    for place in places:
        path, _, numbers = place.rpartition(":")
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            found += [f"{path}:{number}" for number in range(int(first), int(last or first) + 1)]
    return sorted(found)


@pytest.mark.parametrize("repository", [*SOURCES, "script"])
def test_all_interfaces_give_the_same_places(served: Served, repository: str) -> None:
    service = served.service
    opened = service.engine.stored(dict(served.settings.repositories)[repository])
    names = names_of(opened.store)

    async def by_mcp() -> dict[str, tuple[str, list[str]]]:
        async with connected(f"{served.url}/mcp") as session:
            found = {}
            for name in names:
                text, values, _ = await called(session, "who_calls", repoName=repository, symbol=name)
                found[name] = text.partition("\n")[0], lines_of_places(values["places"])
            return found

    mcp = asyncio.run(by_mcp())
    for number, name in enumerate(names):
        question = f"Who calls `{name}`?"
        said, places = mcp[name]
        looked_up = uses_of_name(opened.store, name)
        assert summary(looked_up, files=opened.store.file_count) in said
        further = {f"{use.path}:{use.line}" for use in looked_up.further}
        assert further <= set(places), name
        places = [place for place in places if place not in further]
        assert sorted(f"{use.path}:{use.line}" for use in looked_up.shown) == places, name
        found = search_repositories([opened], SearchQuery(question)).retrieval
        assert found is not None and found.code_facts is not None, name
        assert found.code_facts.summary.partition("; it is exported")[0] in said
        assert places_of(to_json(found.code_facts)) == places, name
        if number % 5:
            continue  # these two run the same search
        asked = served.post("/api/search", {"question": question, "repositories": [repository]}).json
        assert places_of(asked["code_facts"]) == places, name
        *_, answer = converse(Dialog(service.engine, [opened]), question, service.engine.generator())
        assert isinstance(answer, Answer)
        assert places_of(to_json(answer.code_facts)) == places, name


SEALING = {
    "core/seal.py": "def seal_parcel(parcel):\n    return parcel\n",
    "core/open.py": "def open_parcel(parcel):\n    return parcel\n",
    "ship.py": "from core.seal import seal_parcel\n\n\ndef ship(parcel):\n    return seal_parcel(parcel)\n",
    "more.py": "# Generated by a tool. DO NOT EDIT.\ndef send(parcel):\n    return seal_parcel(parcel)\n",
    "vendor/x/ship.py": "def back(parcel):\n    return open_parcel(seal_parcel(parcel))\n",
    "heavy.py": "def weigh(parcel):\n    raise ValueError('the parcel is too heavy to be sent')\n",
    "carrier.py": "class Carrier:\n    pass\n\n\n"
    + "\n\n".join(f"class {name}(Carrier):\n    pass\n" for name in ("Ship", "Train", "Bike", "Truck")),
}
COUNTED = "not indexed: more.py:3 (generated); not searched: 1 vendored"
NOWHERE = "not indexed: vendor/x/ship.py:2 (vendored); also searched, though not indexed: "
LISTED, SKIPPED = "not searched: 1 vendored", "not searched: 1 generated, 1 vendored"


@pytest.fixture(scope="module")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("coverage")
    for path, text in SEALING.items():
        (home / "shop" / path).parent.mkdir(parents=True, exist_ok=True)
        (home / "shop" / path).write_text(text)
    with serving(home, repositories=(("shop", locate(str(home / "shop"))),)) as running:
        yield running.ready()


@pytest.mark.parametrize(
    ("question", "says", "note", "tool"),
    [
        ("Who calls `seal_parcel`?", "`seal_parcel` is called in 1 place", COUNTED, "seal_parcel"),
        ("Who calls `open_parcel`?", "`open_parcel` is called in 0 places", NOWHERE, "open_parcel"),
        ("What are all the subclasses of Carrier?", "Carrier", LISTED, ""),
        (
            'Where is "the parcel is too heavy to be sent" written?',
            "The message is written here",
            SKIPPED,
            "",
        ),
    ],
)
def test_all_interfaces_say_what_an_answer_does_not_cover(
    sealing: Served, question: str, says: str, note: str, tool: str
) -> None:
    engine, root = sealing.service.engine, sealing.home / "shop"
    opened = engine.stored(dict(sealing.settings.repositories)["shop"])
    *_, answer = converse(Dialog(engine, [opened]), question, engine.generator())
    assert isinstance(answer, Answer)
    facts = answer.code_facts
    assert facts is not None and says in facts.summary and note in facts.note and not facts.complete
    said = [answer.text, rag("search", root, question).out, rag("ask", root, question).out]
    found = sealing.post("/api/search", {"question": question, "repositories": ["shop"]}).json["code_facts"]
    assert found["note"] == facts.note
    said.append(found["summary"] + found["note"])

    async def by_mcp() -> None:
        async with connected(f"{sealing.url}/mcp") as session:
            said.append((await called(session, "ask_question", repoName="shop", question=question))[0])
            said.append((await called(session, "explore", repoName="shop", question=question))[0])
            if tool:
                said.append((await called(session, "who_calls", repoName="shop", symbol=tool))[0])

    asyncio.run(by_mcp())
    if tool:
        looked = Tools(
            [opened.store],
            search=lambda query, seen: Found(()),
            find=lambda text, mode: ((), ""),
            unread=partial(uses_note, opened, reach=Reach(around=False, secrets=False)),
        )
        said.append(looked.run(StepRequest("callers", {"name": tool}), {}).parts[0].head)
        nowhere = looked.run(StepRequest("definition", {"name": "back"}), {}).error
        assert "'back' is not defined in " in nowhere
        assert "not indexed: vendor/x/ship.py:1 (vendored)" in nowhere
    for text in said:
        assert says in text and note in text.replace("Not ", "not "), text


def test_calls_are_drawn_with_what_is_not_covered(sealing: Served) -> None:
    for name, says in (("seal_parcel", f"is called in 1 place; {COUNTED}."), ("open_parcel", NOWHERE)):
        caption = sealing.get(f"/api/repositories/shop/calls?symbol={name}").json["caption"]
        assert says in caption and "Nothing is left out" not in caption, caption


def test_a_path_that_is_asked_for_leads_to_its_imports(sealing: Served) -> None:
    async def by_mcp() -> None:
        async with connected(f"{sealing.url}/mcp") as session:
            for path, says in (
                (
                    "./core/seal.py",
                    f"`core/seal.py` is imported in 1 place; {LISTED}:\n\n- ship.py:1, imports ",
                ),
                ("heavy.py", "`heavy.py` is imported in 0 places in the 5 indexed files; "),
            ):
                text, *_ = await called(session, "who_calls", repoName="shop", symbol=path)
                assert text.startswith(says), text

    asyncio.run(by_mcp())


def test_a_name_is_found_however_a_client_writes_it(sealing: Served) -> None:
    async def by_mcp() -> None:
        async with connected(f"{sealing.url}/mcp") as session:
            for name in (
                "seal_parcel",
                "`seal_parcel`",
                " 'seal_parcel' ",
                "seal_parcel()",
                "seal_parcel(x, y)",
            ):
                text, *_ = await called(session, "who_calls", repoName="shop", symbol=name)
                assert text.startswith("`seal_parcel` is called in 1 place"), text
                text, *_ = await called(session, "find_symbol", repoName="shop", name=name)
                assert text.startswith("core/seal.py:1-2"), text
            text, *_ = await called(session, "find_symbol", repoName="shop", name="parcel")
            assert "is not defined" in text and ", but written in " in text and ".py:" in text, text

    asyncio.run(by_mcp())
