"""One meaning of the end of a span: the last line that belongs to it, at most the number of lines."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.answer.extract import extract
from rag.code.languages import kind_of, language_of_path, language_of_text
from rag.code.symbols import File, symbols_of
from rag.corpus.chunk import chunk
from rag.lines import lines_of, whole_lines_of, without_blank_end
from rag.service import Dialog, Engine
from rag.service.repositories.read_lines import read_lines
from rag.settings import Settings
from rag.types import SourceFile, blob_id
from rag.wiki.pages.structure import wiki_structure
from rag.wiki.pages.text import wiki_contents

ROOT = Path(__file__).resolve().parent.parent
_LARGEST = 60_000
_EVERY = 200

texts = st.text(alphabet=" \n\r\t\u2028ab", max_size=40)


@given(texts)
def test_lines_are_those_that_git_counts(text):
    lines = lines_of(text)
    assert len(lines) == text.count("\n") + (not text.endswith("\n") and bool(text))
    assert "".join(whole_lines_of(text)) == text
    assert [line.removesuffix("\n") for line in whole_lines_of(text)] == lines


@given(texts)
def test_blank_lines_at_the_end_are_parted_off(text):
    content, blank = without_blank_end(text)
    assert content + blank == text
    assert not blank.strip()
    if text.strip():
        assert lines_of(content)[-1].strip()
    else:
        assert not blank


def _files() -> Iterator[Path]:
    snippets = ROOT / "tests" / "corpus" / "snippets"
    installed = sorted(Path(sysconfig.get_path("purelib")).rglob("*.*"))
    for path in [
        *sorted((ROOT / "rag").rglob("*.py")),
        *sorted((ROOT / "data" / "sample_repo").rglob("*")),
        *sorted((ROOT / "data" / "page").rglob("*.*")),
        *sorted(snippets.iterdir()),
        *sorted(ROOT.glob("*.*")),
        *installed[::_EVERY],
    ]:
        if path.is_file() and path.stat().st_size <= _LARGEST:
            yield path


def test_no_chunk_and_no_definition_ends_behind_its_file():
    seen = 0
    for path in _files():
        text = path.read_bytes().decode("utf-8", "replace")
        name = path.name.removesuffix(".txt") if path.parent.name == "snippets" else path.name
        language = language_of_path(name)
        if language is None or "\0" in text:
            continue
        language = language_of_text(language, name, text)
        file = SourceFile(name, text, blob_id(text.encode()), language, kind_of(name, language))
        whole, expected = whole_lines_of(text), 1
        for part in chunk(file):
            assert 1 <= part.start <= part.end <= len(whole), (path, part)
            assert part.start in (expected, expected - 1), (path, part)  # the same line where one is cut
            shown, blank = without_blank_end(part.text)
            end = part.end - len(lines_of(blank))
            assert shown in "".join(whole[part.start - 1 : end]), (path, part)
            expected = part.end + 1
        lines = tuple(lines_of(text))
        for symbol in symbols_of(File(name, text, file.blob, language, file.kind, lines)):
            assert 1 <= symbol.start <= symbol.end <= len(lines), (path, symbol)
        seen += 1
    assert seen > 400


QUESTIONS = ["Where is a short code made?", "How are links stored?", "Which settings are there?", "README"]


@pytest.fixture
def engine(tmp_path):
    engine = Engine(Settings(home=tmp_path / "home", memory="memory:"))
    yield engine
    engine.close()


def test_hits_sources_and_quotes_say_the_same_lines(engine, sample_repo):
    repository = engine.repository(str(sample_repo))
    dialog = Dialog(engine, [repository])
    for question in QUESTIONS:
        prepared = dialog.prepare(question)
        hits = [*prepared.hits, *(source.hit for source in prepared.prompt.sources)]
        for hit in hits:
            lines = whole_lines_of((sample_repo / hit.path).read_text())
            assert hit.end <= len(lines)
            assert hit.text == "".join(lines[hit.start - 1 : hit.end])
            assert lines[hit.end - 1].strip()
            assert read_lines(repository, hit.path, hit.start, hit.end).text == hit.text
        text = "".join(extract(prepared))
        shown = {source.n: source.hit for source in prepared.prompt.sources}
        for place, n in re.findall(r"`([^`]+:\d+-\d+)` \[(\d+)\]", text):
            hit = shown[int(n)]
            start, end = map(int, place.rpartition(":")[2].split("-"))
            assert hit.start <= start <= end <= hit.end
            if len(lines_of(hit.text)) <= 15 and not prepared.code_facts:
                assert place == hit.place


def test_no_link_of_a_wiki_leads_behind_a_file(engine, sample_repo):
    (sample_repo / "snip" / "empty.py").write_text("")
    contents = wiki_contents(wiki_structure(engine.repository(str(sample_repo))))
    found = re.findall(r"\(<?([^()\s#]+)#L(\d+)-L(\d+)", contents)
    assert found
    for path, start, end in found:
        count = len(lines_of((sample_repo / unquote(path)).read_text()))
        assert 1 <= int(start) <= int(end) <= max(1, count), (path, start, end, count)
