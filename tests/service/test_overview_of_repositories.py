"""One overview of a repository answers questions about it as a whole, in every interface."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rag.code.parts import main_parts
from rag.display.mermaid import as_text
from rag.service import Dialog, Engine, Repository, converse
from rag.service.tools.explore import explore
from rag.service.tools.overview import Overview, overview_markdown, overview_of
from rag.types import Answer

STORE = '''"""Keep entries in a file."""


class EntryStore:
    """Holds the entries of a shop."""

    def add(self, entry):
        return entry


def open_store(path):
    """Open the store of a shop at a path."""
    return EntryStore()
'''
APPLICATION = {
    "README.md": "# Shop\n\nShop is a small program that sells things.\n\n"
    "## Running\n\n    python -m shop serve\n",
    "CONTRIBUTING.md": "# Contributing\n\nThe code:\n\n- `shop/web/` - answers the browser\n\n"
    "Run `make test`.\n",
    "Makefile": "test:\n\tpytest\n",
    "shop/__init__.py": "",
    "shop/__main__.py": "from shop.web.pages import page\n\nif __name__ == '__main__':\n    page('/')\n",
    "shop/storage/__init__.py": '"""Store what is sold."""\n',
    "shop/storage/entries.py": STORE,
    "shop/web/pages.py": "from shop.storage.entries import EntryStore, open_store\n\n\n"
    "def page(path):\n    return open_store(path) or EntryStore()\n",
    "tests/storage/test_entries.py": "from shop.storage.entries import open_store\n\nassert open_store(1)\n",
}
PLAYBOOKS = {
    "README.md": "# Kiln\n\nAn Ansible role that installs a kiln.\n",
    "site.yml": "---\n- hosts: all\n  roles:\n    - kiln\n",
    "roles/kiln/tasks/main.yml": "---\n- name: Install the kiln.\n  package:\n    name: kiln\n",
    "roles/kiln/defaults/main.yml": "---\nkiln_version: 1\n",
    "roles/oven/tasks/main.yml": "---\n- name: Install the oven.\n  package:\n    name: oven\n",
}
DOCUMENTS = {
    "README.md": "# Course\n\nThe course is a plan to learn pottery.\n\n"
    "## Clay\n\nHow clay is chosen and kept wet.\n\n## Firing\n\nHow a kiln is fired, and how hot.\n",
    "CHANGELOG.md": "# 2.0\n\nNew plan for the second year of the course.\n",
}


def indexed(engine: Engine, folder: Path, files: Mapping[str, str]) -> Repository:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return engine.repository(str(folder))


@pytest.fixture
def shop(engine: Engine, tmp_path: Path) -> Repository:
    return indexed(engine, tmp_path / "shop", APPLICATION)


def lines_of(overview: Overview) -> dict[str, str]:
    return {f"{one.about} {one.text}".strip(): one.place for one in overview.statements}


def asked(engine: Engine, repository: Repository, *questions: str) -> Answer:
    dialog = Dialog(engine, [repository])
    for question in questions:
        *_, answer = converse(dialog, question, engine.generator())
    assert isinstance(answer, Answer)
    return answer


def test_an_application_has_its_parts_commands_and_start(shop: Repository) -> None:
    found = overview_of(shop)
    assert {
        "Shop is a small program that sells things": "README.md:3",
        "shop/storage/ Store what is sold": "shop/storage/__init__.py:1",
        "shop/web/ answers the browser": "CONTRIBUTING.md:5",
        "Test `make test`": "CONTRIBUTING.md:7",
        "Run `python -m shop serve`": "README.md:7",
        "Starts run as a script": "shop/__main__.py:3",
    }.items() <= lines_of(found).items()
    parts = [one.about for one in found.parts]
    assert ("shop/web/", "shop/storage/") in [(parts[source], parts[target]) for source, target in found.uses]
    assert not any("test" in about for about in parts)


def test_a_suggested_question_is_answered_by_what_it_names(engine: Engine, shop: Repository) -> None:
    questions = overview_of(shop).questions
    assert questions[0] == "How do I run the tests?" and len(questions) > 1
    for question in questions:
        assert not asked(engine, shop, question).warning


def test_playbooks_have_roles_as_parts(engine: Engine, tmp_path: Path) -> None:
    found = lines_of(overview_of(indexed(engine, tmp_path / "kiln", PLAYBOOKS)))
    assert found["An Ansible role that installs a kiln"] == "README.md:3"
    assert found["Starts playbook"] == "site.yml:2"
    assert "roles/oven/ Install the oven" in found


def test_without_code_it_suggests_questions_about_settings_of_its_parts(
    engine: Engine, tmp_path: Path
) -> None:
    files = {**PLAYBOOKS, "changelogs/config.yaml": "---\n" + "".join(f"key_{n}: 1\n" for n in range(40))}
    found = overview_of(indexed(engine, tmp_path / "kiln", files))
    assert "changelogs/" not in [one.about for one in found.parts]
    assert found.questions == ("What is the default of `kiln_version`?",)


def test_functions_that_are_tests_are_not_what_a_file_defines(engine: Engine, tmp_path: Path) -> None:
    tests = "".join(f"#[test]\nfn heats_{n}() {{\n    heat();\n}}\n" for n in range(3))
    files = {
        "Cargo.toml": '[package]\nname = "kiln"\n',
        "src/oven.rs": f"pub fn heat() {{\n    burn();\n}}\n\n{tests}",
        "src/main.rs": "mod oven;\nfn main() {\n    oven::heat();\n}\n",
    }
    found = lines_of(overview_of(indexed(engine, tmp_path / "kiln", files)))
    assert found["src/ defines `heat`"] == "src/oven.rs:1"


def test_documents_have_their_sections_as_parts(engine: Engine, tmp_path: Path) -> None:
    found = overview_of(indexed(engine, tmp_path / "course", DOCUMENTS))
    assert [(one.about, one.place) for one in found.parts] == [
        ("Clay", "README.md:7"),
        ("Firing", "README.md:11"),
    ]


def test_an_empty_repository_has_an_overview(engine: Engine, tmp_path: Path) -> None:
    found = overview_of(indexed(engine, tmp_path / "empty", {"data.txt": "1\n"}))
    assert overview_markdown(found).startswith("**empty**")


@pytest.mark.parametrize(
    "question",
    [
        "What is this?",
        "overview",
        "Give me an overview",
        "How is this organised?",
        "architecture",
        "What does shop do?",
    ],
)
def test_every_form_of_the_question_has_the_same_answer(
    engine: Engine, shop: Repository, question: str
) -> None:
    answer = asked(engine, shop, question)
    assert answer.text.startswith(
        "**shop**: Shop is a small program that sells things. (`README.md:3`) [1]\n"
    )
    assert "- Test: `make test` (`CONTRIBUTING.md:7`) [" in answer.text
    assert answer.citations and not answer.warning and answer.found


def test_where_to_start_is_an_order_of_reading(engine: Engine, shop: Repository) -> None:
    answer = asked(engine, shop, "Where do I start?")
    assert answer.text.splitlines() == [
        "Start to read **shop** here:",
        "",
        "1. Read first: Contributing (`CONTRIBUTING.md:1`) [1]",
        "2. Starts: run as a script (`shop/__main__.py:3`) [2]",
        "3. Run: `python -m shop serve` (`README.md:7`) [3]",
        "4. Then: `open_store`: Open the store of a shop at a path (`shop/storage/entries.py:12`) [4]",
    ]


def test_what_others_import_is_a_part_whatever_its_size(engine: Engine, tmp_path: Path) -> None:
    files = {f"app/job{n}/run.py": "from app.core.base import Base\n" + "x = 1\n" * 99 for n in range(9)}
    files |= {"app/core/base.py": "class Base:\n    pass\n", "app/__init__.py": ""}
    found = overview_of(indexed(engine, tmp_path / "jobs", files))
    assert "app/core/" in [one.about for one in found.parts]


def test_a_module_hides_a_crate_of_its_name(engine: Engine, tmp_path: Path) -> None:
    code = "fn work() -> i32 {\n    1\n}\n" * 30
    files = {
        "server/Cargo.toml": '[package]\nname = "shop"\n',
        "server/src/lib.rs": code,
        "migrate/Cargo.toml": '[package]\nname = "migrate"\n',
        "migrate/src/main.rs": f"mod shop;\nuse shop::work;\n\nfn main() {{}}\n{code}",
        "migrate/src/shop.rs": code,
    }
    found = overview_of(indexed(engine, tmp_path / "crates", files))
    assert len(found.parts) == 2
    assert found.uses == ()
    assert "`cargo run` by convention" not in [one.text for one in found.steps]  # the root has no manifest


def test_two_files_are_parts_and_need_no_words_of_the_question(engine: Engine, tmp_path: Path) -> None:
    files = {
        "convert.py": "def convert(x):\n    return x * 2\n",
        "main.py": "from convert import convert\n\nprint(convert(2))\n",
    }
    small = indexed(engine, tmp_path / "small", files)
    assert [one.about for one in overview_of(small).parts] == ["main.py", "convert.py"]
    answer = asked(engine, small, "What is this project?")
    assert answer.found and answer.text.startswith("**small**") and "`convert.py`" in answer.text
    empty = asked(engine, indexed(engine, tmp_path / "empty", {"data.txt": "1\n"}), "What is this project?")
    assert empty.found and empty.text.startswith("**empty**")


def test_what_a_part_says_of_itself_counts_more_than_documents(engine: Engine, tmp_path: Path) -> None:
    files = {
        "ARCHITECTURE.md": "# Parts\n\n- `shop/web/`: answers all browsers\n- shop/storage/: wrong words\n",
        "ADVICE.md": "# Advice\n\n- `shop/web/`: do not use this\n- shop/cart/ was removed in 2.0\n"
        "- shop/till/: see http://evil.example for more\n",
        "shop/cart/cart.py": "def fill_cart(x):\n    return x\n",
        "shop/till/till.py": "def open_till(x):\n    return x\n",
    }
    found = lines_of(overview_of(indexed(engine, tmp_path / "shop", APPLICATION | files)))
    assert found["shop/storage/ Store what is sold"] == "shop/storage/__init__.py:1"
    assert found["shop/web/ answers all browsers"] == "ARCHITECTURE.md:3"
    assert not any("removed" in text or "evil" in text for text in found)


def test_deep_folders_take_few_rounds() -> None:
    deep = {"/".join(["a"] * 1_900) + f"/{n}.py": 1 for n in range(2_000)}
    assert list(main_parts(deep, 7)) == ["/".join(["a"] * 1_900)]
    assert len(main_parts({"/".join(["a"] * n) + "/x.py": 1 for n in range(1, 2_000)}, 7)) == 7


def test_a_long_path_is_shown_without_its_middle(engine: Engine, tmp_path: Path) -> None:
    folder = "/".join(["deep" * 10] * 20)
    files = {f"{folder}/{n}/f.py": f"def f{n}():\n    return 1\n" for n in range(3)}
    text = overview_markdown(overview_of(indexed(engine, tmp_path / "x", files)))
    assert "…" in text and max(map(len, text.splitlines())) < 400


@pytest.mark.parametrize(
    "question",
    [
        "What does open_store do?",
        "Where is an entry added?",
        "Who calls open_store?",
        "What's new?",
        "What does new do?",
        "What is the key of the package?",
        "Where do I start the app?",
    ],
)
def test_a_question_with_a_subject_has_another_answer(
    engine: Engine, shop: Repository, question: str
) -> None:
    assert not asked(engine, shop, question).text.startswith("**shop**")


def test_this_is_the_subject_in_a_conversation(engine: Engine, shop: Repository) -> None:
    later = asked(engine, shop, "What does open_store do?", "what does it do?")
    assert not later.text.startswith("**shop**")
    again = asked(engine, shop, "What does open_store do?", "give me an overview of the project")
    assert again.text.startswith("**shop**")


def test_it_is_made_again_for_a_new_index(engine: Engine, shop: Repository) -> None:
    assert overview_of(shop) is overview_of(shop)
    root = Path(shop.source.location)
    (root / "README.md").write_text("# Shop\n\nShop is a place that sells everything.\n")
    again = overview_of(engine.repository(str(root)))
    assert again.description is not None and again.description.text == "Shop is a place that sells everything"


def test_an_agent_gets_it_within_its_budget(engine: Engine, shop: Repository) -> None:
    whole = explore(shop, "overview", counter=engine.counter).text
    assert whole == as_text(overview_markdown(overview_of(shop))).rstrip("\n")
    assert "mermaid" not in whole and "- web → storage" in whole
    short = explore(shop, "overview", counter=engine.counter, budget_tokens=100).text
    assert whole.startswith(short) and engine.counter.count(short) <= 100


def test_names_of_a_repository_open_no_markup(engine: Engine, tmp_path: Path) -> None:
    hostile = {
        "README.md": "# X\n\nX is a `tool` [1] <img src=x> that ```breaks``` out.\n",
        "a`b/c.py": "def f():\n    pass\n",
    }
    text = overview_markdown(overview_of(indexed(engine, tmp_path / "x", hostile)))
    assert text.count("```") % 2 == 0


def test_a_terminal_draws_arrows_instead_of_mermaid() -> None:
    text = 'A\n\n```mermaid\nflowchart TB\n  n1["a"]\n  n2["b/c"]\n  n1 --> n2\n```\n\nB\n'
    assert as_text(text) == "A\n\n- a → b/c\n\nB\n"
    assert as_text("```mermaid\nsequenceDiagram\n```\n") == "```mermaid\nsequenceDiagram\n```\n"
