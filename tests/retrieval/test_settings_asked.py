"""Questions for a setting, and follow-ups about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.retrieval.kinds.recognition import kinds_of
from rag.retrieval.kinds.value import value_at
from rag.retrieval.search import Searcher, search, search_in_turn
from rag.service import Engine
from rag.types.question_kinds import SETTING

FILES = {
    "app/settings.py": 'import os\n\nBODY_LIMIT = int(os.getenv("BODY_LIMIT", "10000"))\n'
    "# If BODY_LIMIT is above the default of the server, that is raised.\n"
    "if BODY_LIMIT > 99:\n    SERVER_LIMIT = BODY_LIMIT\n",
    "app/views.py": "from app import settings\n\n\ndef ping(request, response):\n"
    "    body = request.body[: settings.BODY_LIMIT]\n"
    '    response["Body-Limit"] = str(settings.BODY_LIMIT)\n    return body\n',
    "app/config.rs": "pub struct Config {\n"
    '    #[builder(default = "3890")]\n    pub ldap_port: u16,\n    pub ldap_host: String,\n}\n',
    "app/serve.go": "package app\n\nfunc New() *Config {\n\tconfig := &Config{}\n\tconfig.Port = 8080\n"
    "\treturn config\n}\n",
    "app/reader.py": "def read_all(path):\n    return open(path).read()\n\n\ndef set_mode(path, mode):\n"
    "    path.chmod(mode)\n",
    "app/checks.py": "def check(settings):\n    if settings.UPLOAD_LIMIT:\n"
    '        raise ValueError("the UPLOAD_LIMIT is too small")  # or UPLOAD_LIMIT is wrong\n'
    '    print(f"is {settings.UPLOAD_LIMIT} enough?")\n'
    '    return """\n    of UPLOAD_LIMIT\n    """\n',
    "deploy/main.yml": "kiln_hosts: []\n# the most bytes\nUPLOAD_LIMIT: 5\n",
    "deploy/kiln.conf.j2": "# the default is low\nupload {{ UPLOAD_LIMIT }}\n# default\n",
    "deploy/kinds.yml": "py: python3\n",
    "docs/settings.md": "# Settings\n\n## `BODY_LIMIT`\n\nThe most bytes of a body.\n",
}


@pytest.fixture(scope="module")
def searchers(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> list[Searcher]:
    folder: Path = tmp_path_factory.mktemp("pings")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return [engine.repository(str(folder)).searcher]


def said(found) -> list[str]:
    assert found.code_facts is not None and found.code_facts.kind == SETTING
    return [f"{one.path}:{one.start} {one.reason.split()[0]}" for one in found.code_facts.items]


DEFAULT = "what is the default of BODY_LIMIT?"


def test_a_line_that_reads_a_setting_does_not_set_it(searchers: list[Searcher]):
    found = said(search(searchers, DEFAULT))
    assert found[0] == "app/settings.py:3 sets"
    assert {"app/settings.py:4 documents", "app/settings.py:6 reads", "app/views.py:6 reads"} <= set(found)


@pytest.mark.parametrize(
    ("earlier", "question", "first"),
    [
        ([DEFAULT], "and who reads it?", "app/settings.py:5 reads"),
        ([DEFAULT, "and who reads it?"], "where is it set?", "app/settings.py:3 sets"),
        (["how is a path read?", DEFAULT], "who reads it?", "app/settings.py:5 reads"),
    ],
)
def test_it_is_the_setting_that_was_asked_for(searchers: list[Searcher], earlier, question, first):
    found = search_in_turn(searchers, question, earlier)
    assert found.sought.setting == "BODY_LIMIT"
    assert said(found)[0] == first


def test_a_default_in_an_attribute_is_that_of_the_next_line(searchers: list[Searcher]):
    (fact,) = search(searchers, "what is the default of ldap_port?").code_facts.items
    assert (fact.path, fact.start, fact.reason) == (
        "app/config.rs",
        3,
        "declares `ldap_port` with its default",
    )


def test_a_default_that_has_no_name_is_the_value_of_what_it_is_of(searchers: list[Searcher]):
    facts = search(searchers, "what port does it listen on by default?").code_facts
    assert facts is not None
    assert [(one.path, one.start) for one in facts.items] == [("app/serve.go", 5), ("app/config.rs", 3)]
    assert facts.summary == "`Port` is `8080` (`app/serve.go:5`)"


def test_another_question_ends_what_is_said_of_a_setting(searchers: list[Searcher]):
    found = search_in_turn(searchers, "who calls it?", [DEFAULT, "how is the mode of a path set?"])
    assert found.sought.setting == ""


def test_a_name_in_a_message_is_not_read_but_one_in_a_template_is(searchers: list[Searcher]):
    facts = search_in_turn(searchers, "who reads it?", ["what is the default of UPLOAD_LIMIT?"]).code_facts
    found = {f"{one.path}:{one.start} {one.reason.split()[0]}": one.label for one in facts.items}
    assert found == {
        "app/checks.py:2 reads": "check",
        "app/checks.py:4 reads": "check",
        "deploy/kiln.conf.j2:2 reads": "",
        "deploy/main.yml:3 sets": "UPLOAD_LIMIT",
        "app/checks.py:3 mentions": "check",
        "app/checks.py:6 mentions": "check",
    }


@pytest.mark.parametrize(
    ("lines", "name", "value"),
    [
        (["if form in ('PNG', 'TIFF'):"], "PNG", ""),
        (["styles = @('auto', 'full', 'plain')"], "full", ""),
        (["choices = ['auto', 'full', 'plain']"], "full", ""),
        (['port = env("PORT", 80)'], "PORT", "80"),
        (['flags.IntVar(&at, "port", 80, "the port")'], "port", "80"),
        (["port = env(", '    "PORT", 80)'], "PORT", "80"),
        (["parts = [", "    'full', 'plain',"], "full", ""),
        (['if [ "$PORT" = "80" ]; then'], "PORT", ""),
        (["[[ $PORT = 80 ]] || exit"], "PORT", ""),
        (["if (port === 80) {"], "port", ""),
    ],
)
def test_a_text_beside_another_one_or_compared_is_no_default(lines: list[str], name: str, value: str):
    end = lines[-1].index(name) + len(name)
    assert value_at(lines, len(lines), end, is_code=True) == (value, bool(value))


@pytest.mark.parametrize(
    "question", ["What is set by default in app/reader.py?", "Which default has reader.py?"]
)
def test_the_end_of_a_path_is_no_setting(searchers: list[Searcher], question: str):
    facts = search(searchers, question).code_facts
    assert facts is None or facts.subject != "py"


STATED = {
    "The limit of uploads is an option. Where is UPLOAD_LIMIT handed on?": False,
    "Bodies have a limit by default. Where is BODY_LIMIT compared?": False,
    "Where is UPLOAD_LIMIT printed? I know that it is an option.": False,
    "I know UPLOAD_LIMIT. What is the default of BODY_LIMIT?": True,
    "Does UPLOAD_LIMIT belong to 'default'?": False,
}


@pytest.mark.parametrize("question", STATED)
def test_a_setting_is_asked_for_by_the_sentence_that_asks(question: str):
    assert (SETTING in kinds_of(question)) == STATED[question]
