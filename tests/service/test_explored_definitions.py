"""Definitions that are shown whole: short ones, parts of long ones, who calls them, which tests use them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from rag.service import Dialog, Engine, Repository, converse, locate
from rag.service.tools.explore import Exploration, explore
from rag.service.tools.explored_definitions import MAX_WHOLE
from rag.settings import Settings
from rag.types import Answer

IMPORT = "from auth.tokens import refuse\n\n\n"
SHORT = (
    'def refuse(token):\n    """Refuse a token that expired."""\n\n    if token.expired:\n'
    "        log(token)\n        raise Refused(token)\n    return token\n"
)
LONG = (
    "def convert(image):\n    size = image.size\n"
    + "".join(f"    step_{n}(image)\n" for n in range(40))
    + "    if image.ratio > 3:\n        image.crop_to_square()\n    return image\n"
    + "".join(f"    later_{n}(image)\n" for n in range(20))
)
FILES = {
    "auth/tokens.py": SHORT,
    "auth/login.py": f"{IMPORT}def login(form):\n    refuse(form.token)\n    refuse(form)\n",
    "auth/logout.py": f"{IMPORT}class Session:\n    def close(self):\n        refuse(self)\n",
    "auth/forms.py": "def sign_form(form):\n    form.signed = True\n\n\n"
    "def submit(form):\n    sign_form(form)\n",
    "tests/test_forms.py": "from auth.forms import submit\n\n\ndef test_submit():\n    submit({})\n",
    "images.py": LONG,
    "tests/test_tokens.py": f"{IMPORT}def test_refuse():\n    refuse(None)\n",
    "notes.rs": "/// Keeps the ledger of payments in order.\n///\n/// Payments that bounce are struck.\n"
    "pub fn tidy(ledger: &Ledger) -> Ledger {\n    ledger.sorted()\n}\n",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    home = tmp_path_factory.mktemp("home")
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        yield engine


@pytest.fixture(scope="module")
def repository(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return opened(engine, tmp_path_factory.mktemp("shop"), FILES)


def opened(engine: Engine, folder: Path, files: Mapping[str, str]) -> Repository:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return engine.repository(locate(str(folder)))


def explored(engine: Engine, repository: Repository, question: str, **options: object) -> Exploration:
    return explore(repository, question, counter=engine.counter, **options)  # type: ignore[arg-type]


def lines_of(found: Exploration, path: str) -> list[int]:
    return [number for place in found.places if place.path == path for number, _ in place.lines]


@pytest.mark.parametrize("question", ["Where is an expired token refused?", "refuse", "auth.tokens.refuse()"])
def test_a_short_definition_is_shown_whole_with_its_callers_and_tests(
    engine: Engine, repository: Repository, question: str
) -> None:
    found = explored(engine, repository, question)
    assert found.places[0].path == "auth/tokens.py"
    assert lines_of(found, "auth/tokens.py") == [1, 2, 4, 5, 6, 7]
    assert "called in: auth/login.py:5,6 login; auth/logout.py:6 Session.close" in found.text
    assert "tests: tests/test_tokens.py:5 test_refuse" in found.text


def test_the_tests_of_its_callers_are_named_if_it_has_none(engine: Engine, repository: Repository) -> None:
    found = explored(engine, repository, "Which tests cover sign_form?")
    assert "called in: auth/forms.py:6 submit" in found.text
    assert "tests of its callers: tests/test_forms.py:5 test_submit" in found.text


def test_the_output_of_a_test_leads_to_the_lines_that_it_names(
    engine: Engine, repository: Repository
) -> None:
    output = (
        "    def test_refuse():\n>       refuse(None)\n\ntests/test_tokens.py:5:\n\n"
        "    def refuse(token):\n>       if token.expired:\n"
        "E       AttributeError: 'NoneType' object has no attribute 'expired'\n\n"
        "auth/tokens.py:4: AttributeError\nFAILED tests/test_tokens.py::test_refuse\n"
    )
    found = explored(engine, repository, output)
    assert found.places[0].path == "auth/tokens.py"
    assert lines_of(found, "auth/tokens.py") == [1, 2, 4, 5, 6, 7]
    assert {4, 5} <= {*lines_of(found, "tests/test_tokens.py")}


def test_what_a_failing_test_calls_is_shown_after_it(engine: Engine, repository: Repository) -> None:
    output = "E       Failed: DID NOT RAISE\n\ntests/test_forms.py:5: Failed\n1 failed\n"
    found = explored(engine, repository, output)
    assert [place.path for place in found.places[:2]] == ["tests/test_forms.py", "auth/forms.py"]


def test_a_remark_on_a_file_is_no_change_and_two_paths_are(engine: Engine, repository: Repository) -> None:
    remark = "auth/tokens.py\nThis should say why an expired token is refused."
    assert explored(engine, repository, remark).places[0].path == "auth/tokens.py"
    files = "auth/tokens.py\nauth/forms.py\n"
    assert explored(engine, repository, files).places[0].path.startswith("tests/")


def test_a_line_that_is_named_has_no_place_of_its_own(engine: Engine, repository: Repository) -> None:
    found = explored(engine, repository, "Who is affected if refuse returns None?")
    single = {(place.path, place.lines[0][0]) for place in found.places if len(place.lines) == 1}
    named = {one for place in found.places for one in place.named}
    assert named and single.isdisjoint(named)


def test_the_deciding_lines_of_a_long_definition_are_shown_without_a_gap(
    engine: Engine, repository: Repository
) -> None:
    found = explored(engine, repository, "Where is an image with a high ratio cropped to a square?")
    numbers = lines_of(found, "images.py")
    assert {1, 43, 44, 45} <= {*numbers} and len(numbers) <= MAX_WHOLE + 2
    window = [number for number in numbers if number > 2]
    assert window == [*range(window[0], window[-1] + 1)]
    assert re.search(rf"^  lines 1-2,{window[0]}-{window[-1]} of 1-65$", found.text, re.MULTILINE)


def test_the_lines_that_document_a_function_lead_to_it(engine: Engine, repository: Repository) -> None:
    found = explored(engine, repository, "What happens with payments that bounce?")
    assert {4, 5} <= {*lines_of(found, "notes.rs")}


def test_guessed_names_that_exist_do_not_come_before_what_the_words_find(
    engine: Engine, repository: Repository
) -> None:
    words = ["crop image to square ratio", "convert image crop", "login"]
    found = explored(engine, repository, "Why do my photos lose their edges?", in_code_words=words)
    assert found.places[0].path == "images.py"


def test_a_definition_that_was_sent_is_not_shown_again(engine: Engine, repository: Repository) -> None:
    first = explored(engine, repository, "refuse")
    seen: dict[str, set[int]] = {}
    for place in first.places:
        seen.setdefault(place.path, set()).update(number for number, _ in place.lines)
    again = explored(engine, repository, "refuse", seen=seen)
    assert not lines_of(again, "auth/tokens.py")


@pytest.mark.parametrize("budget", [100, 130, 160, 200, 260, 340, 450, 600])
def test_a_smaller_budget_has_a_part_of_it(engine: Engine, repository: Repository, budget: int) -> None:
    for question in ("refuse", "Where is an image with a high ratio cropped to a square?"):
        found = explored(engine, repository, question, budget_tokens=budget)
        assert engine.counter.count(found.text) <= budget
        assert found.places


def crowded(count: int) -> dict[str, str]:
    """Files in which a function has so many callers, as many tests, and one that possibly calls it."""
    used = "from depot.parcels import seal\n\n\n"
    calls = {f"depot/line_{n:02}.py": f"{used}def pack_{n}(box):\n    seal(box)\n" for n in range(count)}
    tests = {f"tests/test_{n:02}.py": f"{used}def test_{n}():\n    assert seal({n})\n" for n in range(count)}
    return calls | tests | {"depot/parcels.py": "def seal(box):\n    box.closed = True\n    return box\n"}


def named_in(text: str) -> set[tuple[str, int]]:
    """The places that the notes of an exploration name."""
    notes = [row.partition(": ")[2] for row in text.splitlines() if re.match(r"  (?:called in|tests): ", row)]
    found = set()
    for part in "; ".join(notes).split("; "):
        place = re.search(r"([\w/]+\.py):([\d,]+)", part)
        found |= {(place[1], int(number)) for number in place[2].split(",")} if place else set()
    return found


@pytest.mark.parametrize(
    "question", ["Who calls seal?", "Which tests cover seal?", "What breaks if I rename `seal`?"]
)
@pytest.mark.parametrize("count", [5, 20, 38])
def test_every_caller_and_every_test_has_its_place(
    engine: Engine, tmp_path: Path, count: int, question: str
) -> None:
    found = explored(engine, opened(engine, tmp_path, crowded(count)), question, budget_tokens=2_500)
    shown = {(place.path, n) for place in found.places for n, _ in place.lines}
    asked = ("tests/",) if "tests" in question else ("depot/line", "tests/")
    wanted = {(path, 5) for path in crowded(count) if path.startswith(asked)}
    assert wanted <= named_in(found.text) | shown
    assert "lists all" not in found.text and not re.search(r"\d more\b", found.text)


def test_of_very_many_callers_the_rest_is_counted_with_the_way_to_list_it(
    engine: Engine, tmp_path: Path
) -> None:
    found = explored(engine, opened(engine, tmp_path, crowded(55)), "Who calls seal?", budget_tokens=2_500)
    assert len([path for path, _ in named_in(found.text) if path.startswith("depot/")]) == 40
    assert re.findall(r"(\d+) more( \(.*\))?", found.text)[:2] == [
        ("15", ""),
        ("15", " (an exact search for `seal` lists all)"),
    ]


def test_callers_that_are_only_possible_are_named_apart(engine: Engine, tmp_path: Path) -> None:
    files = crowded(12) | {
        "depot/box.py": "class Box:\n    def seal(self):\n        return self\n\n\nclass Bag:\n"
        "    def seal(self):\n        return self\n",
        **{f"depot/use_{n}.py": f"def use_{n}(thing):\n    thing.seal()\n" for n in range(9)},
    }
    found = explored(engine, opened(engine, tmp_path, files), "Who calls `Box.seal`?", budget_tokens=2_500)
    shown = {(place.path, n) for place in found.places for n, _ in place.lines} | named_in(found.text)
    assert {(f"depot/use_{n}.py", 2) for n in range(9)} <= shown


@pytest.mark.parametrize("name", ['"parcel_id"', "PARCEL_ID"])
def test_a_string_on_many_lines_is_counted_with_the_way_to_list_them(
    engine: Engine, tmp_path: Path, name: str
) -> None:
    bare = name.strip('"')
    files = {f"depot/a{n}.py": f"def a{n}(row):\n    row[{bare!r}]\n" for n in range(30)}
    repository = opened(engine, tmp_path, files | {"few.py": "x = {'other_id': 1}\n"})
    found = explored(engine, repository, f"How does a row get its {name}?")
    count = "30 matches on 30 lines of 30 files"
    assert f"`{bare}`: {count}; an exact search lists all." in found.text.splitlines()[:2]
    few = explored(engine, repository, 'How does a row get its "other_id"?')
    listed = explored(engine, repository, f"If I rename {name}, which places are affected?")
    assert "used in 30 places" in listed.text
    assert "an exact search" not in few.text + listed.text


def test_subclasses_are_places_and_not_called_callers(engine: Engine, tmp_path: Path) -> None:
    files = {"base.py": "class Carrier:\n    pass\n"} | {
        f"c{n}.py": f"from base import Carrier\n\n\nclass C{n}(Carrier):\n    pass\n" for n in range(12)
    }
    found = explored(engine, opened(engine, tmp_path, files), "Which classes extend Carrier?")
    assert {f"c{n}.py" for n in range(12)} <= {place.path for place in found.places}
    assert "called in" not in found.text


@pytest.mark.parametrize(
    "question",
    [
        "Which module sends parcels over Kafka?",
        "Which database migrations exist and how are they run?",
        "Where is the GraphQL schema built and who calls it?",
        "Where is an expired token refused, and who calls that?",
        "Where is an expired token refused?",
    ],
)
def test_the_doubt_is_that_of_an_answer(engine: Engine, repository: Repository, question: str) -> None:
    *_, answer = converse(Dialog(engine, [repository]), question, engine.generator())
    assert isinstance(answer, Answer)
    said = {"auth/tokens.py": {1}}  # in a session, lines of another question were sent before
    for seen in (None, said):
        first = explored(engine, repository, question, seen=seen).text.partition("\n")[0]
        doubt = (
            first
            if re.match(r"(?:Probably not|No place that fits well) |.* occurs? nowhere in ", first)
            else ""
        )
        assert doubt == (answer.warning if answer.found else doubt)
        assert bool(doubt) == (bool(answer.warning) or not answer.found)
