"""An answer says that a setting is the one that is asked for only if it is named so."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.retrieval.kinds import settings
from rag.retrieval.kinds.recognition import kinds_of
from rag.retrieval.search import search
from rag.service import Engine
from rag.settings import Settings
from rag.types import CodeFacts

OPTIONS = """\
def parse(parser):
    parser.add_argument(
        "--relative-glazes",
        action="store_true",
        help="Use relative glazes in the kiln server, useful for development",
    )
    parser.add_argument("--port", type=int, help="The port to serve at")


SETTINGS = {
    "PORT": 8000,
    "KILN_COLOUR": "red",
}
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine


def facts(engine: Engine, folder: Path, question: str, **files: str) -> CodeFacts:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    found = search([engine.repository(str(folder)).searcher], question).code_facts
    assert found is not None
    return found


@pytest.mark.parametrize(
    "question",
    [
        "What is the default port of the development server of the kiln?",
        "which port is used by default in the development server of the kiln",
        "What is the default value of the port for the kiln server in development?",
    ],
)
def test_a_default_of_a_setting_of_one_word_is_that_of_the_setting(
    tmp_path: Path, engine: Engine, question: str
) -> None:
    found = facts(engine, tmp_path, question, server_dot_py=OPTIONS)
    assert found.subject == "PORT" and found.items[0].text.strip() == '"PORT": 8000,'


def test_the_own_default_comes_before_those_of_templates_and_deployments(
    tmp_path: Path, engine: Engine
) -> None:
    found = facts(
        engine,
        tmp_path,
        "What is the default port of the server?",
        k8s__server_dot_yml="server:\n  port: 9000\n",
        tools__templates__tasks_dot_py="# settings of the server\nserver = {\n    'port': 7000,\n}\n",
        src__server_dot_py='# settings of the server\nSERVER = {\n    "port": 8000,\n}\n',
    )
    assert found.items[0].path == "src/server.py"
    assert {"k8s/server.yml", "tools/templates/tasks.py"} >= {item.path for item in found.items[1:]}


def test_a_setting_that_is_not_named_as_it_is_asked_for_is_only_the_nearest(
    tmp_path: Path, engine: Engine
) -> None:
    text = '# How hot the oven may become, in degrees: the hottest oven.\nLIMIT_X = 1200\nCOLOUR = "red"\n'
    found = facts(engine, tmp_path, "Which option sets how hot the oven may become?", oven_dot_py=text)
    assert found.summary == "No setting was found by name; the nearest is `LIMIT_X`, declared in `oven.py`"
    assert found.is_only_nearest and not any(item.certain for item in found.items)


def test_a_word_within_the_name_names_a_setting(tmp_path: Path, engine: Engine) -> None:
    text = "# The format of the glaze prompt\nPROMPTFMT = '>'\nCOLOUR = 'red'\n"
    found = facts(engine, tmp_path, "Which option sets the format of the glaze prompt?", prompt_dot_py=text)
    assert found.summary == "`PROMPTFMT` is the setting that fits best; it is declared in `prompt.py`"


def test_a_setting_without_a_line_near_the_question_keeps_the_lines_it_was_found_by(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings._Settings, "with_key", lambda self, key: settings._Setting())
    text = "MAX_WAIT_SECONDS = 5  # how long a wait may take\n"
    found = facts(
        engine, tmp_path, "Which setting says how many seconds a wait may take?", limits_dot_py=text
    )
    assert found.subject == "MAX_WAIT_SECONDS"


def test_the_declaration_of_what_the_best_files_only_mention_comes_first(
    tmp_path: Path, engine: Engine
) -> None:
    found = facts(
        engine,
        tmp_path,
        "how many firing threads by default?",
        fire_dot_c="// The number of firing threads by default.\n// It is threaded with --firing-threads=T.\n"
        "int fire(int firing, int threads) {\n  return firing * threads;\n}\n",
        options_dot_ggo='option "firing-threads" T "as many pots"\n    default="4"\n',
    )
    assert (found.subject, found.items[0].path) == ("firing-threads", "options.ggo")
    assert found.summary.endswith("declared in `options.ggo`")


@pytest.mark.parametrize("folder", ["lang/", ""])
def test_the_texts_of_a_program_in_other_languages_are_no_settings(
    tmp_path: Path, engine: Engine, folder: str
) -> None:
    texts = (
        '{\n  "kilnPortDescription": "The port that the kiln listens on by default",\n  "glaze": "Glaze"\n}\n'
    )
    for path in (f"{folder}en.json", f"{folder}de-DE.json"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(texts)
    searcher = engine.repository(str(tmp_path)).searcher
    found = search([searcher], "which port does the kiln listen on by default?")
    assert found.code_facts is None
    assert found.hits[0].path.startswith((f"{folder}en", f"{folder}de"))


def test_what_a_named_function_returns_is_no_setting(tmp_path: Path, engine: Engine) -> None:
    source = "import os\n\n\ndef kiln_port(given):\n    return given or os.environ.get('KILN_PORT')\n"
    found = facts(engine, tmp_path, "what does kiln_port return if nothing is set", kiln_dot_py=source)
    assert (found.kind, found.subject) == ("failure", "kiln_port")


DESCRIBED = '''\
class KilnTmpDir(Setting):
    name = "kiln_tmp_dir"
    section = "Kiln"
    default = None
    desc = """A directory to use for the heartbeat file of the kiln.

    A disk can block it for a long time.
    """


class MaxFirings(Setting):
    name = "max_firings"
    section = "Kiln"
    default = 0
    desc = """The number of firings after which the kiln restarts, against cracks."""
'''


def test_what_no_description_says_is_searched(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "kiln.py").write_text(DESCRIBED)
    found = search([engine.repository(str(tmp_path)).searcher], "How do I teach the dog to use the disk?")
    assert found.code_facts is None


UNDESCRIBED = """\
MSG_FIRE_KILN = 0x12  # the type of a kiln firing

firings_killed = 0


def fire_kiln(kiln, heartbeat=None):
    return kiln
"""


@pytest.mark.parametrize(
    "question",
    [
        "Can a firing of the kiln be killed?",
        "How many firings were killed?",
        "Is there a way the heartbeat of a kiln is lost?",
        "Can I call fire_kiln after some firings without a restart?",
        "Can the directory of the heartbeat file be null in fire_kiln?",
    ],
)
def test_a_question_on_the_code_is_answered_by_no_setting(
    tmp_path: Path, engine: Engine, question: str
) -> None:
    (tmp_path / "kiln.py").write_text(UNDESCRIBED)
    if "fire_kiln" in question:
        (tmp_path / "config.py").write_text(DESCRIBED)
    assert search([engine.repository(str(tmp_path)).searcher], question).code_facts is None


@pytest.mark.parametrize(
    "question",
    [
        "Where is it decided how large a pot may be?",
        "What glazes can a kiln have?",
        "How do I add a new kiln type?",
        "How do you draw the kiln?",
        "How do we get the address of the kiln?",
        "How do I find whether the kiln is hot?",
        "Is there a way that two kilns share a chimney?",
        "How do I make the heat a percentage in code?",
        "How can I test that a kiln is called?",
        "can you explain the kiln to me",
        "The kiln falls back to wood, why?",
        "How high is one row of pots computed?",
        "Nothing burns unless the door was closed, where is that?",
        "Unless the kiln is hidden, what redraws it?",
        "Why does the switch statement of the kiln have so many cases?",
        "i think the heat defaults to 30 because of the loop",
    ],
)
def test_a_question_for_a_place_or_a_list_is_answered_by_no_setting(question: str) -> None:
    assert "setting" not in kinds_of(question)


FLAGS = """\
var flags = []Flag{
	Flag{Name: "pot-size-limit", Value: defaultPotSizeLimit, Usage: "size limit of a pot"},
	Flag{Name: "built-in", Usage: "only what is there"},
}

const defaultPotSizeLimit = 15

func read(c Context) int {
	builtin := 12
	return c.Int("pot-size-limit") + builtin
}
"""


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What does pot-size-limit default to?", "pot-size-limit"),
        ("what does pot-size-limit fall back to when I leave it out?", "pot-size-limit"),
        ("What is the size limit of a well-known pot by default?", "pot-size-limit"),
    ],
)
def test_a_setting_with_hyphens_in_its_name_is_named(
    tmp_path: Path, engine: Engine, question: str, name: str
) -> None:
    found = facts(engine, tmp_path, question, flags_dot_go=FLAGS)
    assert (found.kind, found.subject) == ("setting", name)
    assert "pot-size-limit" in found.items[0].text or "PotSizeLimit = " in found.items[0].text


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("DEFAULT_SEPARATOR", "separator"),
        ("defaultSortOrder", "sortorder"),
        ("DEFAULTS_TIMEOUT_CONFIG", "timeout"),
        ("timeout_default", "timeout"),
        ("default", "default"),
    ],
)
def test_the_default_of_a_setting_has_its_name(name: str, key: str) -> None:
    assert settings._key(name) == key


def test_the_default_that_something_uses_is_that_of_the_word_before(tmp_path: Path, engine: Engine) -> None:
    question = "Which port does the development server of the kiln use by default?"
    assert facts(engine, tmp_path, question, server_dot_py=OPTIONS).subject == "PORT"
