"""The frame of a repository: what it is, its folders, its names; small, and the same for the same index."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.service import Engine, locate
from rag.service.tools.frame import MAX_BYTES, SUMMARY_BYTES, frame_of, frames_of
from rag.settings import Settings

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
TEXT = """\
sample_repo: A small link shortener
clients/
schema/
scripts/
snip/
worker/
Response, User, Storage, Request, SnipError, hash_password, Application, issue_token, ClickCounter, \
BadRequest, Unauthorized, Config, RateLimiter, TooManyRequests, Link, hash_token, create_app, CreatedLink, \
find_route, Bucket, toError, load_config, delayMs, ClientOptions, _checked_url, _encode, is_valid_code, \
Scheduler, default_jobs, Job, _merge, check_password, create_link, create_token, build_parser, \
SessionSigner, _text, readLines, _shown, encode_id"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        yield engine


def indexed(engine: Engine, folder: Path, files: dict[str, str]) -> str:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return frame_of(engine.repository(locate(str(folder)))).text


def test_a_frame_says_what_the_project_is_its_folders_and_its_names(engine: Engine):
    frame = frame_of(engine.repository(locate(str(SAMPLE))))
    assert frame.text == TEXT


def test_the_prompt_of_an_answer_has_no_names_and_that_of_a_rewording_has(engine: Engine):
    repository = engine.repository(locate(str(SAMPLE)))
    summary, _, _ = TEXT.rpartition("\n")
    assert frames_of([repository], with_names=False) == [summary]
    assert frames_of([repository], with_names=True) == [TEXT]
    assert engine.counter.count(summary) <= 120


def test_a_large_repository_has_a_frame_of_the_same_size(engine: Engine, tmp_path: Path):
    files = {
        f"library/part_{n}/__init__.py": f'"""Part {n}, which {"does very much " * 9}."""\n'
        for n in range(30)
    }
    files |= {
        f"library/part_{n}/code.py": f"class Thing{n}OfALongName:\n    pass\n\n\ndef make_{n}():\n"
        + "".join(f"    Thing{m}OfALongName()\n" for m in range(n))
        for n in range(30)
    }
    text = indexed(
        engine, tmp_path / "large", files | {"README.md": f"# large\n\nlarge is a {'很' * 900}.\n"}
    )
    assert len(text.encode()) <= MAX_BYTES
    assert len(text.rpartition("\n")[0].encode()) <= SUMMARY_BYTES
    assert text.count("library/part_") > 3
    assert text.rpartition("\n")[2].startswith("Thing0OfALongName, Thing")


def test_examples_vendored_code_tests_and_tools_are_not_in_a_frame(engine: Engine, tmp_path: Path):
    own = "class OwnThing:\n    pass\n\n\nOwnThing()\n"
    text = indexed(
        engine,
        tmp_path / "mixed",
        {
            "core/own.py": own,
            "core/use.py": "from core.own import OwnThing\n\nOwnThing()\n",
            **{
                f"{folder}/other.py": own.replace("OwnThing", "OtherThing")
                for folder in ("vendor", "examples", "tests", "tools")
            },
        },
    )
    assert text == "mixed\ncore/\ntools/\nOwnThing"


def test_a_frame_has_no_control_characters(engine: Engine, tmp_path: Path):
    files = {"README.md": "# evil\n\nevil is a \x1b[31mred\x1b[0m \u202etool for all.\n"}
    text = indexed(engine, tmp_path / "evil", files)
    assert text == "evil: evil is a \\x1b[31mred\\x1b[0m \\u202etool for all."


def test_a_repository_without_code_has_its_name(engine: Engine, tmp_path: Path):
    assert indexed(engine, tmp_path / "notes", {"a.txt": "b\n"}) == "notes"


def test_a_frame_is_cached_and_follows_the_index(engine: Engine, tmp_path: Path):
    folder = tmp_path / "changing"
    assert (
        indexed(engine, folder, {"README.md": "# changing\n\nchanging is a kiln.\n"})
        == "changing: changing is a kiln."
    )
    repository = engine.repository(locate(str(folder)))
    assert frame_of(repository) is frame_of(repository)
    assert (
        indexed(engine, folder, {"README.md": "# changing\n\nchanging is an oven.\n"})
        == "changing: changing is an oven."
    )


def test_another_process_finds_the_same_frame(engine: Engine, tmp_path: Path):
    program = (
        "import sys\nfrom pathlib import Path\nfrom rag.service import Engine, locate\n"
        "from rag.service.tools.frame import frame_of\nfrom rag.settings import Settings\n"
        "engine = Engine(Settings(home=Path(sys.argv[1])))\n"
        "sys.stdout.buffer.write(frame_of(engine.repository(locate(sys.argv[2]))).text.encode())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "other"), str(SAMPLE)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout.decode()
        for seed in ("1", "2")
    }
    assert found == {frame_of(engine.repository(locate(str(SAMPLE)))).text}
