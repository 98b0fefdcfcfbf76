"""An answer says that a series is the list that is asked for only if the series is named so."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.retrieval.search import exchange, search
from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer, CodeFacts

GLAZES = 'GLAZES = {\n    "ochre": 1,\n    "umber": 2,\n    "cobalt": 3,\n    "celadon": 4,\n}\n'
FIRING = (
    "class FiringMode(Enum):\n    OXIDATION = 1\n    REDUCTION = 2\n    RAKU = 3\n    SODA = 4\n"
    "\n\ndef fire(kiln, schedule):\n    return kiln.fire(schedule)\n"
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine


def facts(engine: Engine, folder: Path, question: str, **files: str) -> CodeFacts | None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return search([engine.repository(str(folder)).searcher], question).code_facts


@pytest.mark.parametrize(
    "question",
    [
        "List all glazes.",
        "Which glazes are there?",
        "What kinds of glazes exist?",
        "List all glaze values that the shop knows.",
    ],
)
def test_a_list_that_is_named_as_it_is_asked_for_is_one(
    tmp_path: Path, engine: Engine, question: str
) -> None:
    found = facts(engine, tmp_path, question, shop=GLAZES)
    assert found and found.summary == "The list is `GLAZES` in `shop.py`, which has 4 members"
    assert found.certain_count == 4 and all(item.certain for item in found.items)


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("List all firing schedules.", FIRING),  # an enum of another thing
        ("Which glaze suppliers are there?", GLAZES),  # a registry of another thing
        ("List all potters of the glaze.", GLAZES),
    ],
)
def test_a_series_of_something_else_is_no_list(
    tmp_path: Path, engine: Engine, question: str, file: str
) -> None:
    words = "def suppliers_and_potters():\n    '''Return suppliers, potters.'''\n"
    found = facts(engine, tmp_path, question, shop=file, people=words)
    assert found is None


def test_what_has_half_of_what_is_asked_for_is_no_list(tmp_path: Path, engine: Engine) -> None:
    """`with_kiln` decorates what handles kilns, but no kiln alarm codes."""
    handlers = "".join(
        f"@with_kiln\ndef {name}(kiln):\n    return kiln\n\n\n" for name in ("heat", "cool", "vent")
    )
    assert facts(engine, tmp_path, "Which kiln alarm codes are used?", handlers=handlers) is None


def test_the_members_of_something_else_are_not_claimed(tmp_path: Path, engine: Engine) -> None:
    other = 'WHEEL_STATES = {\n    "on": 1,\n    "off": 2,\n    "slow": 3,\n    "fast": 4,\n}\n'
    found = facts(engine, tmp_path, "List all states of a kiln.", wheel=other, kiln="class Kiln: pass\n" * 3)
    assert found is None


def test_one_of_the_members_is_not_the_list(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "gas.c").write_text(
        'kiln_t gas_kiln = {\n\t"gas",\n\tgas_init,\n\tgas_start,\n\tgas_heat,\n\tgas_stop,\n};\n'
    )
    found = search([engine.repository(str(tmp_path)).searcher], "List all kilns.").code_facts
    assert found is None


def test_a_question_without_a_list_is_answered_by_places(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "shop.py").write_text(FIRING)
    dialog, generator = Dialog(engine, [engine.repository(str(tmp_path))]), ExtractiveGenerator()
    *_, answer = converse(dialog, "List all firing schedules.", generator)
    assert isinstance(answer, Answer) and not answer.code_facts
    assert "members" not in answer.text and "`shop.py:" in answer.text


@pytest.mark.parametrize("name", ["kiln_states.py", "rs/kiln_state.rs"])
def test_the_name_of_a_file_does_not_make_a_list(tmp_path: Path, engine: Engine, name: str) -> None:
    marked = (
        "@timed\ndef {0}(): pass\n\n" if name.endswith("py") else "#[instrument]\nfn {0}(kiln: Kiln) {{}}\n\n"
    )
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("".join(marked.format(one) for one in ("heat", "cool", "vent", "open")))
    found = search([engine.repository(str(tmp_path)).searcher], "Which states are there?").code_facts
    assert found is None


def test_a_class_that_is_one_of_what_is_asked_for_is_no_list(tmp_path: Path, engine: Engine) -> None:
    kiln = "class Kiln(Base):\n" + "".join(
        f"    {name} = states.{name}\n" for name in ("HOT", "COLD", "OPEN")
    )
    assert facts(engine, tmp_path, "Which kilns are supported?", kiln=kiln) is None


def test_the_kinds_of_something_are_its_list(tmp_path: Path, engine: Engine) -> None:
    kinds = "class ExportType(Enum):\n    CSV = 1\n    JSON = 2\n    ORG = 3\n    TEXT = 4\n"
    found = facts(engine, tmp_path, "List all export formats.", shop=kinds)
    assert found and found.summary == "The list is `ExportType` in `shop.py`, which has 4 members"


ANNOTATED = {
    "java": 'package shop;\n\n@Entity\n@Table(name = "{0}s")\npublic class {0} extends Base {{\n}}\n',
    "py": "from base import entity\n\n\n@entity\n@table('{0}s')\nclass {0}(Base):\n    pass\n",
}


@pytest.mark.parametrize("extension", ["java", "py"])
def test_definitions_with_an_annotation_are_listed_from_all_files(
    tmp_path: Path, engine: Engine, extension: str
) -> None:
    for name in ("Owner", "Pet", "Vet", "Visit"):
        (tmp_path / f"{name}.{extension}").write_text(ANNOTATED[extension].format(name))
    found = search([engine.repository(str(tmp_path)).searcher], "List all entities.").code_facts
    assert found and found.subject.lower() == "entity" and found.count == 4
    assert sorted(item.path.partition(".")[0] for item in found.items) == ["Owner", "Pet", "Vet", "Visit"]
    assert all("class" in item.text for item in found.items)


def test_one_definition_with_an_annotation_is_no_list(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "Vet.java").write_text(ANNOTATED["java"].format("Vet"))
    (tmp_path / "Base.java").write_text("package shop;\npublic class Base {}\n" * 3)
    found = search([engine.repository(str(tmp_path)).searcher], "List all entities.").code_facts
    assert found is None


KILN_ERROR = """use std::fmt;

#[derive(Debug)]
pub(crate) enum KilnError<'a> {
    Overheated { limit: u32 },
    Cracked(Vec<&'a str>),
    NoFuel,
    NoAir,
    DoorOpen,
    /// The shelf fell.
    #[allow(dead_code)]
    Collapsed {
        shelf: u8,
    },
    Flooded(Box<dyn Fn(u8) -> u8>),
}
"""


def test_an_enum_has_all_its_members_and_its_name(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "error.rs").write_text(KILN_ERROR)
    found = search([engine.repository(str(tmp_path)).searcher], "Which kiln errors are there?").code_facts
    assert found and found.summary == "The list is `KilnError` in `error.rs`, which has 7 members"
    assert [item.start for item in found.items] == [5, 6, 7, 8, 9, 12, 15] and found.complete


def test_an_enum_with_values_of_another_form_is_not_said_to_be_complete(
    tmp_path: Path, engine: Engine
) -> None:
    kiln = (
        "public enum KilnState {\n    HOT,\n    COLD,\n    OPEN,\n    SHUT, BROKEN;\n"
        "    private static final int LIMIT = 3;\n}\n"
    )
    (tmp_path / "KilnState.java").write_text(kiln)
    found = search([engine.repository(str(tmp_path)).searcher], "Which kiln states are there?").code_facts
    assert found and found.subject == "KilnState" and not found.complete


ORDERS = "".join(
    f'    {{\n        "name": "{name}",\n        # when\n        "hour": 3,\n'
    f'        "potter": "{name}.make",\n        "glaze": None,\n    }},\n'
    for name in ("bowl", "cup", "jug", "plate", "vase", "tile")
)


def test_a_list_of_tables_has_its_entries_as_members(tmp_path: Path, engine: Engine) -> None:
    found = facts(engine, tmp_path, "Which orders are there?", shop=f"orders = [\n    # daily\n{ORDERS}]\n")
    assert found and found.summary == "The list is `orders` in `shop.py`, which has 6 members"
    assert all('"name"' in item.text for item in found.items)


@pytest.mark.parametrize(
    "text",
    [
        f"orders = [\n{ORDERS}    *read_more(),\n]\n",  # some are not shown
        "orders = [{\n" + ORDERS.partition("{\n")[2].replace("    {", "}, {"),  # nor where they begin
        "orders = {}\nfor order in read():\n    orders[order.name] = {\n"
        + "".join(f'        "{key}": order.{key},\n' for key in ("potter", "glaze", "hour", "price"))
        + "    }\n",
    ],
)
def test_the_keys_of_one_entry_are_no_list(tmp_path: Path, engine: Engine, text: str) -> None:
    assert facts(engine, tmp_path, "Which orders are there?", shop=text) is None


def test_the_arms_of_a_match_are_no_members(tmp_path: Path, engine: Engine) -> None:
    arms = "".join(f"            | Self::{name}Glaze\n" for name in ("Ash", "Salt", "Lead", "Tin"))
    (tmp_path / "glaze.rs").write_text(
        f"impl Pot {{\n    fn is_glaze(self) -> bool {{\n        match self {{\n            Self::Raw\n{arms}"
        "            | Self::SlipGlaze => true,\n        }\n    }\n}\n"
    )
    assert search([engine.repository(str(tmp_path)).searcher], "Which glazes are there?").code_facts is None


def test_what_a_message_of_the_log_holds_is_no_list(tmp_path: Path, engine: Engine) -> None:
    held = "".join(
        f'\t\tslog.String("{name}Kiln", {name}),\n' for name in ("gas", "wood", "raku", "salt", "pit")
    )
    (tmp_path / "log.go").write_text(
        f'package kiln\n\nfunc migrate() {{\n\tslog.Info("kilns",\n{held}\t)\n}}\n'
    )
    assert (
        search([engine.repository(str(tmp_path)).searcher], "Which kilns are supported?").code_facts is None
    )


def test_a_follow_up_without_words_of_its_own_has_no_list(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "shop.py").write_text(GLAZES)
    searcher, first = engine.repository(str(tmp_path)).searcher, "What ways of glazing exist here?"
    past = [exchange(first, search([searcher], first))]
    assert search([searcher], "All of them please.", past=past).code_facts is None
