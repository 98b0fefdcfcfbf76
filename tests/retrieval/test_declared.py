"""The forms in which lines declare settings."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.retrieval.kinds import declared as forms
from rag.retrieval.kinds.declared import MAX_LINE_CHARS, declared


def named(text: str, line: int = 1, *, is_config: bool = False) -> list[tuple[str, str]]:
    return [(one.sort, one.name) for one in declared(text.splitlines(), line, is_config=is_config)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('    ("cooling_hours", 12),', ("default", "cooling_hours")),
        ('    { "cooling-hours", 12, "how long" },', ("default", "cooling-hours")),
        ('    ("cooling-hours", "cooling-hours", None),', ("option", "cooling-hours")),
        ("$config['cooling_hours'] = 12;", ("default", "cooling_hours")),
        ('app.config["cooling_hours"] = 12', ("default", "cooling_hours")),
        ("#define COOLING_HOURS 12", ("default", "COOLING_HOURS")),
        ('    } else if (strcasecmp(key, "cooling-hours") == 0) {', ("compared", "cooling-hours")),
        ('    case "cooling-hours":', ("compared", "cooling-hours")),
        ("    cooling_hours    int    (default 12)", ("documented", "cooling_hours")),
        ("if 'KILN_HOURS' in os.environ:", ("environment", "KILN_HOURS")),
        ('    "env_key": "KILN_HOURS",', ("environment", "KILN_HOURS")),
        ('HOURS = max(get_int_from_env("KILN_HOURS", 30), 1)', ("environment", "KILN_HOURS")),
        ('hours = env.int("KILN_HOURS", default=3)', ("environment", "KILN_HOURS")),
        ("const hours = numberFromEnv('KILN_HOURS', 3)", ("environment", "KILN_HOURS")),
        ('    if let Some(path) = std::env::var_os("KILN_HOURS") {', ("environment", "KILN_HOURS")),
        ("  hours ??= 12", ("local", "hours")),
        ('  cli.String{Name: "config", EnvVars: []string{"KILN_CONFIG"}},', ("environment", "KILN_CONFIG")),
        ('  cli.Int{Name: "cooling-hours", Usage: "how long"},', ("record", "cooling-hours")),
        ("  { name: 'type', alias: 't', description: 'of the pot' },", ("record", "type")),
        ('  @Option(names = "--cooling-hours", description = "how long")', ("record", "cooling-hours")),
        ('  hours := cmd.Flags().GetInt("cooling-hours")', ("compared", "cooling-hours")),
        ('  cmd.Flags().Int("cooling-hours", 12, "how long")', ("option", "cooling-hours")),
        ('  hours = options.get("cooling-hours", twelve)', ("option", "cooling-hours")),
        ('option(KILN_DOOR "Whether the kiln has a door" ON)', ("default", "KILN_DOOR")),
        ('set(KILN_HOURS 12 CACHE STRING "How long it cools")', ("default", "KILN_HOURS")),
    ],
)
def test_a_line_declares_a_setting(text: str, expected: tuple[str, str]):
    assert named(text)[0] == expected


@pytest.mark.parametrize("call", ["get_int_from_env(", "int(os.getenv(", "env.bool("])
def test_a_variable_of_the_environment_may_be_in_the_line_below_the_call(call: str):
    found = declared([f"HOURS = {call}", '    "KILN_HOURS",', "    12,"], 2)
    assert [(one.sort, one.name) for one in found] == [("environment", "KILN_HOURS")]


def test_a_line_reads_all_its_variables():
    line = 'HOURS = int_from_env("KILN_HOURS", os.getenv("OLD_KILN_HOURS"))'
    assert [one.name for one in declared([line], 1)] == ["KILN_HOURS", "OLD_KILN_HOURS"]


def test_an_attribute_declares_the_option_and_its_environment_variable():
    text = '#[arg(long, env = "KILN_CONFIG")]\npub config: Option<PathBuf>,\n'
    assert named(text) == [("option", "config"), ("environment", "KILN_CONFIG")]


def test_a_line_of_a_settings_file_needs_no_literal():
    assert named("log-level: warning", is_config=True) == [("default", "log-level")]


def test_the_entries_after_an_opening_bracket_are_settings_too():
    assert ("default", "max") in named("DEFAULT = {'max': 80,")


def test_names_of_every_record_are_no_settings():
    assert named('    "description": "how long it cools",') == []
    assert named("DEFAULT = 12") == []


SIGNATURE = """
def fire(
    self, kiln, hours=12, retries: int = 3,
    door="closed",
):
    again = fire(kiln, hours=7)
    self.last(hours=7)
"""


def test_parameters_of_a_definition_are_settings_and_arguments_of_a_call_are_not():
    lines = SIGNATURE.splitlines()
    at = {text.strip(): number for number, text in enumerate(lines, 1)}
    own = declared(lines, at["self, kiln, hours=12, retries: int = 3,"])
    assert [(one.sort, one.name) for one in own] == [("default", "hours"), ("default", "retries")]
    assert not any(one.sort == "default" for one in declared(lines, at["again = fire(kiln, hours=7)"]))
    assert not any(one.sort == "default" for one in declared(lines, at["self.last(hours=7)"]))


@pytest.mark.parametrize(
    ("text", "expected", "end"),
    [
        ('#[clap(long, default_value = "12")]\npub cooling_hours: u8,', ("default", "cooling_hours"), 2),
        ("#[arg(long)]\ncooling_hours: u8,", ("option", "cooling_hours"), 2),
        ('@Option(names = {"-c", "--cooling-hours"},\n  "text")\nint hours;', ("option", "cooling-hours"), 3),
    ],
)
def test_an_attribute_and_its_field_are_one_place(text: str, expected: tuple[str, str], end: int):
    (one,) = declared(text.splitlines(), 1)
    assert ((one.sort, one.name), one.end) == (expected, end)


def test_the_name_of_an_option_may_have_a_line_of_its_own():
    assert named('flag.IntVar(&hours,\n\t"cooling-hours",\n\t12)', 2) == [("option", "cooling-hours")]
    assert named('print(\n\t"cooling-hours",\n)', 2) == []


@pytest.mark.parametrize(
    "part",
    [
        *(
            "x.",
            "a ",
            "'a',",
            '"a": ',
            "(",
            "{",
            "[",
            "=",
            "a=1,",
            "env ",
            "--a ",
            "#[clap(",
            "@Option(",
            "def f(",
        ),
        *("case '", "strcmp(a, ", "default ", "a[", "&a, ", "flag(", "\t"),
    ],
)
def test_hostile_lines_take_little_time(part: str):
    line = (part * MAX_LINE_CHARS)[:MAX_LINE_CHARS]
    began = time.thread_time()
    for number in range(1, 41):
        declared([line] * 40, number)
    assert time.thread_time() - began < 2


WORDS = """strcmp( case .equals( == != = : := ' " name Flag( ſetting( 12 add_ARGUMENT( -- , env ( True
x""".split()
PIECES = st.lists(st.sampled_from([*WORDS, " "]), max_size=12).map("".join)


@given(PIECES)
def test_what_is_skipped_quickly_has_no_match(line: str):
    assert forms._may_compare(line) or not forms._COMPARED.search(line)
    assert forms._has_call_word(line) == bool(forms._CALL_WORD.search(line))
    assert "=" in line or ":" in line or not forms._VALUE.search(line)


def test_a_line_is_read_once_for_what_it_declares_by_itself(monkeypatch: pytest.MonkeyPatch):
    read: list[str] = []
    original = forms._declared
    monkeypatch.setattr(
        forms, "_declared", lambda line, is_config: read.append(line) or original(line, is_config)
    )
    lines = ["kiln_lines_read_once = 12", "return nothing_at_all_here"]
    found = [[declared(lines, number) for number in (1, 2)] for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert [one.name for one in found[0][0]] == ["kiln_lines_read_once"]
    assert not found[0][1]
    assert read == lines


KCONFIG = 'config KILN\n\tbool "Support for kilns"\n\tdepends on FIRE\n\tdefault y\n\thelp\n\t  Fires clay.\n'


def test_an_option_of_kconfig_is_a_record_with_its_default():
    assert declared(KCONFIG.splitlines(), 1)[0][:3] == ("record", "KILN", 4)
    assert declared(KCONFIG.replace("\tdefault y\n", "").splitlines(), 1)[0][:3] == ("record", "KILN", 2)
    assert declared(["config KILN", "", "config DOOR"], 1) == []


VARIABLE = (
    'variable "kiln_hours" {\n  description = "Hours, not the default ones."\n'
    "  type = number\n  default = 3\n}\n"
)


def test_a_variable_of_terraform_is_a_record_with_its_default():
    assert declared(VARIABLE.splitlines(), 1, is_config=True)[0][:3] == ("record", "kiln_hours", 4)
    bare = VARIABLE.replace("  default = 3\n", "").splitlines()
    assert declared(bare, 1, is_config=True)[0][:3] == ("record", "kiln_hours", 2)


@pytest.mark.parametrize(
    "text",
    [
        "  kiln_hours = var.kiln_hours",
        "  kiln_hours = module.kiln.hours",
        '  kiln_hours = "${local.hours}"',
        "  kiln_hours: {{ .Values.kiln.hours }}",
        '  kiln_hours: "{{ .Values.kiln.hours }}"',
        "  kiln_hours: ${{ inputs.hours }}",
    ],
)
def test_what_another_setting_gives_is_no_default(text):
    assert named(text, is_config=True) == [("local", "kiln_hours")]
    assert named("  kiln_hours: 12", is_config=True) == [("default", "kiln_hours")]
