"""The generated parts of the documentation hold everything that the code has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from typer.core import TyperOption

from rag.cli.options import WordsCommand
from rag.code import grammars
from rag.serve import settings as server
from rag.serve.settings import ServerSettings
from rag.settings import ENVIRONMENT
from tools.docs import commands, http_api, links
from tools.docs import fields as settings

ROOT = Path(__file__).resolve().parents[1]


def test_every_command_has_its_section_with_examples_and_options() -> None:
    text = commands.command_reference()
    for name, command in commands.commands():
        (section,) = re.findall(rf"^##+ `rag {name}`\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
        if not hasattr(command, "commands"):
            assert f"rag {name} [OPTIONS]" in section
            assert "```sh" in section
            options = [option for each in command.params for option in each.opts if option.startswith("-")]
            assert all(f"`{option}`" in section for option in options if option not in ("-h", "--help"))


def test_help_says_what_can_be_repeated() -> None:
    for name, command in commands.commands():
        for each in command.params:
            if isinstance(each, TyperOption) and each.multiple:
                assert "Repeatable." in (each.help or ""), (name, each.opts)
            elif each.nargs == -1 and not isinstance(command, WordsCommand):
                assert (each.metavar or f"{each.name}...").endswith("..."), (name, each.name)


def test_the_first_page_says_how_many_languages_are_split_by_syntax() -> None:
    assert f"(tree-sitter, {len(grammars._MODULES)} languages)" in (ROOT / "docs/index.md").read_text()


def test_everything_in_the_data_folder_is_listed() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "rag").rglob("*.py"))
    made = set(re.findall(r"\bself\._home / \"(\w[^\"]*)\"|\bhome / \"(\w[^\"]*)\"", code))
    table = (ROOT / "docs/operations.md").read_text().partition("## Disk space")[0]
    names = {one or other for one, other in made} - {"Library"}  # the home folder of the user, on macOS
    assert len(names) > 12
    assert [name for name in sorted(names) if f"`{name}" not in table] == []


def test_the_size_of_the_drawing_program_is_said_as_it_is() -> None:
    size = f"{(ROOT / 'rag/serve/page/static/vendor/mermaid.min.js').stat().st_size / 1e6:.1f} MB"
    wiki = next(command for name, command in commands.commands() if name == "wiki")
    assert any(f"mermaid ({size})" in (getattr(each, "help", "") or "") for each in wiki.params)
    assert f"omits its {size}" in (ROOT / "docs/wiki.md").read_text()


def test_every_setting_has_its_row_with_variables_and_default() -> None:
    text = settings.settings_table()
    for name, variables in ENVIRONMENT.items():
        assert f"| {'<br>'.join(f'`{each}`' for each in (name, *variables))} |" in text
    assert re.search(r"^\| `context_tokens`<br>`RAG_CONTEXT_TOKENS` \| .+ \| 16_000 \|$", text, re.M)
    assert re.search(r"^\| `gate`<br>`RAG_GATE` \| .+ \| on \|$", text, re.M)


def test_every_setting_of_a_server_has_its_row() -> None:
    text = settings.server_table()
    for name in {field.name for field in fields(ServerSettings)} - server.NOT_SETTINGS:
        assert f"| `{server.ENVIRONMENT.get(name, name)}` |" in text
    assert re.search(r"^\| `port` \| .* \| 8000 \|$", text, re.M)


def test_every_route_and_type_is_described_and_every_link_has_its_type() -> None:
    api, text = http_api.openapi(), http_api.http_reference()
    for path, method, _ in http_api.routes(api):
        assert f"### `{method.upper()} {path}`" in text
    linked = set(re.findall(r"\(#(type-\w+)\)", text))
    assert linked <= set(re.findall(r"\{ #(type-\w+) \}", text))
    assert len(linked) > 20


def test_the_tools_are_those_that_a_client_sees() -> None:
    text = http_api.mcp_reference()
    for name in ("ask_question", "read_wiki_structure", "search_code", "who_calls"):
        assert f"### `{name}`" in text
    assert "| `question` | string |" in text


@pytest.mark.parametrize(
    ("text", "folder", "there"),
    [
        ("[a](memory.md#stores)", "docs", "[a](memory.md#stores)"),
        ("[a](../SECURITY.md)", "docs", "[a](security-policy.md)"),
        ("[a](docs/memory.md#stores)", "", "[a](memory.md#stores)"),
        ("[a](examples)", "", "[a](examples.md)"),
        ("[a](../examples/library.py)", "docs", "[a](examples.md#librarypy)"),
        ("[it](../compose.yaml)", "docs", "it (`compose.yaml`)"),
        ("[templates/](../templates)", "docs", "`templates`"),
        ("[a](https://example.org/x)", "docs", "[a](https://example.org/x)"),
        ("[a](#here)", "docs", "[a](#here)"),
        ("```text\n[a](../compose.yaml)\n```", "docs", "```text\n[a](../compose.yaml)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_name_their_file(text: str, folder: str, there: str) -> None:
    assert links.on_site(text, folder) == there


def test_links_in_code_are_no_links() -> None:
    assert links.targets("[a](b.md) `[c](d.md)`\n```\n[e](f.md)\n```\n[`g`](h.md)") == ["b.md", "h.md"]
