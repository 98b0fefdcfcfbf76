"""A message that is pasted from a log is read without the time, the level and the logger before it."""

import time
from contextlib import closing

import pytest

from rag.retrieval.answerability import judge
from rag.retrieval.log_prefix import without_log_prefixes
from rag.retrieval.search import search
from rag.service import Engine
from rag.settings import Settings

FILES = {
    "kiln/glaze.py": '''
GLAZES = {"celadon": 1, "tenmoku": 2}


class GlazeError(Exception):
    """A glaze cannot be mixed."""


def mix(glaze):
    """Mix a glaze from its recipe."""
    if glaze not in GLAZES:
        raise GlazeError(f"Invalid glaze recipe: {glaze}")
    return GLAZES[glaze]


def fire(pots):
    """Fire pots, each with its glaze."""
    for pot in pots:
        mix(pot.glaze)
''',
    "kiln/log.py": '"""Write the log: each entry has a time."""\n\n\ndef write(entry):\n    print(entry)\n',
}
MESSAGE = "Invalid glaze recipe: shino"


@pytest.mark.parametrize(
    "before",
    [
        "[2024-11-03 14:22:10] ERROR kiln.glaze: ",
        "2024-11-03T14:22:10.123Z ERROR kiln::glaze > ",
        "2024-11-03 14:22:10,123 - kiln.glaze - ERROR - ",
        "[ERROR] [kiln_glaze] ",
        "ERROR:kiln.glaze:",
        "12:01:44.123  ERROR  kiln > ",
        "03.11.2024 14:22:10 [main] ",
        "Nov  3 14:22:10 host kiln[123]: ",
        "kiln_1  | 2024-11-03 14:22:10 ERROR ",
        "2025-02-11T09:12:44.001Z npm ERR! [error] ",
        "2024-11-03 14:22:10 ERROR 1234 --- [main] c.e.d.Kiln : ",
    ],
)
def test_what_a_log_writes_before_a_message_is_left_out(before: str):
    assert without_log_prefixes(before + MESSAGE) == MESSAGE


@pytest.mark.parametrize(
    "text",
    [
        "ERROR in kiln: no pots",
        "Error opening /home/me/kiln.lua: Permission denied",
        "fatal: not a kiln",
        "who calls kiln.glaze.mix",
        "was mix changed on 2024-11-03?",
        "[Errno 2] No such kiln",
        "INFO",
        "2024-11-03 14:22:10",
        "2024-11-03 is read as the third of November, where?",
        "14:22:10 isn't shown",
        "12.4.10 broke the kiln, why?",
        "10.0.12.7 is refused",
        "[debug] section is ignored",
        "INFO  level is too noisy",
        "DEBUG: true does nothing",
        "DEBUG: false\nKILN: 80\nwhere are these read?",
    ],
)
def test_other_text_is_kept(text: str):
    assert without_log_prefixes(text) == text


@pytest.mark.parametrize(
    "part", ["a.a.", "[a] ", "12:12:12 ", "ERROR:", "2024-11-03 ", "[ERROR] [", "a|", "\n"]
)
def test_a_long_text_takes_linear_time(part: str):
    begin = time.process_time()
    without_log_prefixes(part * 100_000)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    "pasted",
    [
        f"[2024-11-03 14:22:10] ERROR kiln.glaze: GlazeError: {MESSAGE}",
        f'Traceback (most recent call last):\n  File "/app/run.py", line 3, in main\n    fire(pots)\n'
        f"kiln.glaze.GlazeError: {MESSAGE}",
        f'Traceback (most recent call last):\n  File "/usr/lib/python3/kiln/glaze.py", line 19, in'
        f" fire\n    mix(pot.glaze)\nkiln.glaze.GlazeError: {MESSAGE}",
    ],
)
def test_a_message_with_a_prefix_or_a_traceback_is_found_without_a_warning(tmp_path, pasted: str):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        searcher = engine.repository(str(tmp_path)).searcher
        found = search([searcher], pasted)
        sure = judge([searcher], found)
    assert found.code_facts is not None
    assert (found.code_facts.kind, found.code_facts.items[0].start) == ("message", 12)
    assert sure.value >= 0.5 and not sure.foreign
    assert {"2024", "11", "14", "22"}.isdisjoint(sure.unmet)
