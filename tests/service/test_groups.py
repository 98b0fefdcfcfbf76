"""Questions to groups of repositories: which are chosen, and what a group is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import rag

from rag.errors import NotFound, SettingsError
from rag.service import Engine
from rag.service.repositories.groups import ALL, members, selected
from rag.settings import Settings, load_settings
from rag.types import Filters, Source

COUNT = 14
SUBJECTS = [
    "invoice", "parcel", "ticket", "recipe", "voucher", "glacier", "violin",
    "orchard", "satellite", "lantern", "harbour", "pigment", "meadow", "turbine",
]  # fmt: skip


def repository(folder: Path, name: str, subject: str) -> Path:
    root = folder / name
    root.mkdir(parents=True)
    (root / "app.py").write_text(
        f"def load_{subject}(number):\n    '''Load the {subject} from the database.'''\n    return number\n"
    )
    return root


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Settings(home=tmp_path / "rag-home"))


@pytest.fixture
def sources(engine: Engine, tmp_path: Path) -> list[Source]:
    roots = [repository(tmp_path / "all", f"repo{n}", subject) for n, subject in enumerate(SUBJECTS)]
    return [engine.repository(str(root)).source for root in roots]


@pytest.mark.parametrize("number", [0, 7, COUNT - 1])
def test_the_repository_that_has_the_words_is_chosen_first(engine, sources, number) -> None:
    chosen = selected(engine, sources, f"Where is the {SUBJECTS[number]} loaded?", 3)
    assert chosen.sources[0] == sources[number]
    assert (len(chosen.sources), chosen.total) == (3, COUNT)
    assert chosen.note.startswith(f"asked 3 of {COUNT} repositories")
    assert f"repo{number}" in chosen.note


def test_the_repository_that_is_named_is_chosen_first(engine, sources) -> None:
    chosen = selected(engine, sources, "Where does repo9 load the invoice?", 2)
    assert chosen.sources == (sources[9], sources[0])


def test_all_are_asked_if_they_are_few(engine, sources) -> None:
    chosen = selected(engine, sources[:3], "anything", 3)
    assert (chosen.sources, chosen.note) == (tuple(sources[:3]), "")


def test_repositories_without_an_index_are_named(engine, sources, tmp_path) -> None:
    fresh = Source(str(repository(tmp_path, "fresh", "invoice")))
    chosen = selected(engine, [fresh, *sources], "Where is the invoice loaded?", 2)
    assert chosen.sources[0] == sources[0]
    assert chosen.note.endswith("without an index: fresh")
    with pytest.raises(NotFound, match="none of the 2 repositories is indexed"):
        selected(engine, [fresh, Source("/nowhere")], "Where is it?", 1)


def test_all_are_those_indexed_here_each_once(engine, sources, tmp_path) -> None:
    part = Source(sources[0].location, filters=Filters(include=("*.py",)))
    engine.repository(part)
    shutil.rmtree(sources[5].location)
    assert set(members(engine, ALL)) == {*sources} - {sources[5]}


def test_a_damaged_index_is_no_member_and_no_error(engine, sources) -> None:
    engine.store_file(sources[1]).write_bytes(b"\x80\x05broken")
    assert sources[1] not in members(engine, ALL)
    assert "repo1" in selected(engine, sources, "Where is the invoice loaded?", 2).without_index


def test_groups_are_in_the_settings_file(tmp_path) -> None:
    here, there = (repository(tmp_path, name, name) for name in ("here", "there"))
    home = tmp_path / "rag-home"
    home.mkdir()
    (home / "config.toml").write_text(f"[groups]\nmine = [{str(here)!r}, {str(there)!r}]\n")
    engine = Engine(load_settings({"home": home}))
    assert [source.name for source in members(engine, "@mine")] == ["here", "there"]
    with pytest.raises(NotFound, match="no group @yours; the groups are @all, @mine"):
        members(engine, "@yours")


@pytest.mark.parametrize(
    "text",
    [
        "groups = 3",
        "[groups]\nall = ['a']",
        "[groups]\na = 'b'",
        "[groups]\na = []",
        "[groups]\n'x y' = ['a']",
    ],
)
def test_an_invalid_group_is_refused_with_its_line(tmp_path, text) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"config.toml, line 1, sets groups"):
        load_settings({"home": tmp_path})


# ------------------------------------------------------------ the command line


@pytest.fixture
def indexed(tmp_path: Path) -> list[Path]:
    roots = [repository(tmp_path / "all", f"repo{n}", subject) for n, subject in enumerate(SUBJECTS)]
    for root in roots:
        assert rag("index", root).code == 0
    return roots


def test_a_conversation_about_a_group_stays_with_its_repositories(indexed) -> None:
    first = rag("ask", ALL, "Where is the glacier loaded?", "--json")
    assert first.code == 0, first.err
    assert first.json["sources"][0]["repository"] == "repo5"
    assert any(note.startswith(f"asked 10 of {COUNT} repositories") for note in first.json["notes"])
    more = rag("ask", ALL, "And who calls it?", "-c", "--json")
    assert more.code == 0, more.err
    assert more.json["conversation"] == first.json["conversation"]
    assert more.json["subject"]["name"] == "load_glacier"
    assert not any("repositories, chosen" in note for note in more.json["notes"])


def test_c_with_a_group_continues_only_a_conversation_within_it(indexed, sample_repo) -> None:
    rag("ask", sample_repo, "How are sessions signed?")
    shutil.rmtree(sample_repo)
    done = rag("ask", ALL, "And who calls it?", "-c")
    assert (done.code, "no conversation about repositories of this group" in done.err) == (2, True)


def test_a_string_is_searched_in_the_whole_group(indexed) -> None:
    found = rag("search", ALL, "def load_", "--exact", "-k", 50, "--json")
    assert {hit["repository"] for hit in found.json["hits"]} == {root.name for root in indexed}
    found = rag("search", ALL, "Where is the turbine loaded?", "--json")
    assert found.json["hits"][0]["repository"] == f"repo{COUNT - 1}"
    assert f"asked 10 of {COUNT} repositories" in found.err


def test_a_group_needs_a_question(indexed) -> None:
    for command in (["chat", ALL], ["search", ALL, "--batch"]):
        done = rag(*command, stdin="")
        assert (done.code, "a group needs a question" in done.err) == (2, True), done.err
    done = rag("ask", ALL)
    assert (done.code, "a source without a question" in done.err) == (2, True)
