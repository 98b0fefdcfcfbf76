from __future__ import annotations

from pathlib import Path

import pytest

from rag.errors import TemplateError
from rag.messages import split_messages
from rag.prompt.background import KnownFact
from rag.prompt.templates import load_template, parse_template


def test_a_template_that_names_no_variable_of_ours_is_told_all_of_them_and_the_line() -> None:
    with pytest.raises(TemplateError, match=r"mine\.j2:3 uses 'qestion'.*contexts, conversation_history"):
        parse_template("{{ input_str }}\n\n{% if false %}{{ qestion }}{% endif %}", origin="mine.j2")


def test_a_mistake_in_the_syntax_is_told_with_its_line() -> None:
    with pytest.raises(TemplateError, match=r"mine\.j2:2 has a mistake"):
        parse_template("{{ input_str }}\n{% if contexts %}", origin="mine.j2")


def test_an_attribute_that_does_not_exist_is_an_error_with_its_line() -> None:
    template = parse_template("\n{{ input_str.nowhere }}", origin="mine.j2")
    with pytest.raises(TemplateError, match=r"mine\.j2:2 cannot be rendered.*nowhere"):
        template.render(input_str="?")


@pytest.mark.parametrize(
    "attack", ["{{ input_str.__class__.__mro__ }}", "{% include '/etc/passwd' %}", "{{ range(10**9)|list }}"]
)
def test_a_template_stays_in_its_sandbox(attack: str) -> None:
    with pytest.raises(TemplateError):
        parse_template("{{ input_str }}" + attack).render(input_str="?")


@pytest.mark.parametrize("name", ["__class__", "__init__", "_private", "__dataclass_fields__"])
def test_a_template_cannot_leave_the_sandbox_through_our_own_values(name: str) -> None:
    fact = KnownFact("text")
    assert parse_template("{{ input_str }}{{ facts[0].text }}").render(input_str="?", facts=[fact]) == "?text"
    with pytest.raises(TemplateError, match=name):
        parse_template("{{ input_str }}{{ facts[0]." + name + " }}").render(input_str="?", facts=[fact])


@pytest.mark.parametrize("huge", ["'x' * 10**18", "'x'.ljust(10**18)", "[1] * 10**18", "'x'|center(10**18)"])
def test_a_template_that_needs_too_much_memory_is_an_error_with_its_line(huge: str) -> None:
    with pytest.raises(TemplateError, match="text:2 cannot be rendered: it needs too much memory"):
        parse_template("{{ input_str }}\n{{ " + huge + " }}").render(input_str="?")


_MANY = "range(99999)"


@pytest.mark.parametrize(
    "endless",
    [
        "{% for a in R %}{% for b in R %}{% endfor %}{% endfor %}",
        "{% for a in R %}{% for b in R if b < 0 %}{{ a }}{% endfor %}{% endfor %}",
        "{% for a in R recursive %}{% if loop.depth < 50 %}{{ loop(R) }}{% endif %}{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(90) }}",
        "{% macro m() %}{% for b in R %}{% endfor %}{% endmacro %}{% for a in R %}{{ m() }}{% endfor %}",
        "{% for a in R %}{{ R|sort|sum }}{% endfor %}",
        "{% for a in R %}{% set x %}{% for b in R %}{% endfor %}{% endset %}{% endfor %}",
        "{% block b %}{% for a in R %}{% for b in R %}{% endfor %}{% endfor %}{% endblock %}",
    ],
)
def test_a_template_that_loops_is_an_error_with_its_line(
    endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.prompt.sandbox.MAX_CPU_S", 0.05)
    template = parse_template("{{ input_str }}\n" + endless.replace("R", _MANY))
    with pytest.raises(TemplateError, match=r"text:2 cannot be rendered: it takes over 0\.05 s of CPU time"):
        template.render(input_str="?")
    assert (
        parse_template("{{ input_str }}" + "{% for a in range(9) %}{{ a }}{% endfor %}").render(input_str="?")
        == "?012345678"
    )


@pytest.mark.parametrize(
    "large",
    [
        "{% set n = namespace(x='ab') %}{% for a in R %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for a in R %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for a in R %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=9) %}{% for a in R %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{% set n = namespace(x='a') %}{% for a in R %}{% set n.x = n.x.replace('a', 'aa') %}{% endfor %}",
        "{% set n = namespace(x='a') %}{% for a in R %}{% set n.x = [n.x, n.x]|join %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for a in R %}{% set n.x %}{{ n.x * 2 }}{% endset %}{% endfor %}",
        "{% macro m(x) %}{% for a in R %}{{ x }}{% endfor %}{% endmacro %}{{ m('ab' * 1000) }}",
        "{% for a in R %}{{ input_str * 1000 }}{% endfor %}",
        "{{ R|map('center', 99999)|list }}",
        "{{ 9 ** 10 ** 9 }}",
        "{{ 'x'|indent(10 ** 10) }}",
    ],
)
def test_a_template_that_makes_too_much_text_is_an_error_with_its_line(large: str) -> None:
    template = parse_template("{{ input_str }}\n" + large.replace("R", _MANY))
    with pytest.raises(TemplateError, match="text:2 cannot be rendered: it needs too much memory"):
        template.render(input_str="?")


def test_a_template_without_a_question_is_an_error() -> None:
    with pytest.raises(TemplateError, match="never shows the question"):
        parse_template("{{ system_prompt }}")


def test_the_users_template_is_found_by_path_by_name_as_text_and_in_place_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "short.j2").write_text("short {{ input_str }}")
    for chosen in (str(folder / "short.j2"), "short", "short.j2", "short {{ input_str }}"):
        assert load_template(chosen, tmp_path).render(input_str="q") == "short q"
    (folder / "answer.j2").write_text("mine {{ input_str }}")
    assert load_template(None, tmp_path).render(input_str="q") == "mine q"
    with pytest.raises(TemplateError, match="no template 'shrot'"):
        load_template("shrot", tmp_path)


@pytest.mark.parametrize("chosen", ["short", "short.j2"])
def test_a_repository_does_not_replace_the_users_template(
    chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, repository = tmp_path / "home", tmp_path / "repository"
    (home / "templates").mkdir(parents=True)
    (home / "templates/short.j2").write_text("mine {{ input_str }}")
    (repository / "templates").mkdir(parents=True)
    for name in ("short", "short.j2", "templates/short", "templates/short.j2", "templates/answer.j2"):
        (repository / name).write_text("theirs {{ input_str }}")
    monkeypatch.chdir(repository)
    assert load_template(chosen, home).render(input_str="q") == "mine q"
    assert "theirs" not in load_template(None, home).origin
    assert load_template("./short", home).render(input_str="q") == "theirs q"


def test_a_template_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_bytes(b"{{ input_str }}\xff")
    with pytest.raises(TemplateError, match="cannot read"):
        load_template(str(tmp_path / "t.j2"), tmp_path)


def test_a_prompt_is_split_into_the_messages_its_markers_say() -> None:
    system, user = "<START_OF_SYSTEM_PROMPT>\nbe\n<END_OF_SYSTEM_PROMPT>\n", "<START_OF_USER_PROMPT>\nask\n"
    both = system + user + "<END_OF_USER_PROMPT>\n"
    assert split_messages(both) == [{"role": "system", "content": "be"}, {"role": "user", "content": "ask"}]
    deepwiki = (
        "<START_OF_SYS_PROMPT>\nbe\n<END_OF_SYS_PROMPT>\n<START_OF_CONTEXT>\nc\n<END_OF_CONTEXT>\n"
        "<START_OF_USER_PROMPT>\nask\n<END_OF_USER_PROMPT>\n"
    )
    first, second = split_messages(deepwiki)
    assert first["content"] == "be"
    assert second["content"].split() == ["<START_OF_CONTEXT>", "c", "<END_OF_CONTEXT>", "ask"]
    assert split_messages("just text") == [{"role": "user", "content": "just text"}]
