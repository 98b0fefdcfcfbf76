"""A wiki in a folder: written once, rewritten only where something changed, harmless whatever it holds."""

from __future__ import annotations

import difflib
import importlib.util
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command import rag
from conftest import git
from surveys import outside_fences, survey_of

from rag.errors import WikiUnwritable
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.wiki import WikiOptions, WikiReport, write_wiki
from rag.wiki.site.mkdocs import STYLE, copy_html


def write(source: Path, folder: Path, **options: object) -> WikiReport:
    engine = Engine(load_settings())
    return write_wiki(engine, engine.repository(locate(str(source))), folder, WikiOptions(**options))


def actions(report: WikiReport) -> dict[str, str]:
    return {page.page.id: page.action for page in report.pages}


def pages(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((folder / "docs").glob("*.md"))}


def build_strictly(folder: Path) -> None:
    """As a reader does who serves the wiki with MkDocs."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install mkdocs")
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "-q"]
    done = subprocess.run(
        [*command, "-f", folder / "mkdocs.yml"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wiki_is_written_and_mkdocs_finds_no_fault(sample_repo, tmp_path):
    report = write(sample_repo, tmp_path / "wiki")
    assert set(actions(report).values()) == {"written"}
    assert "index.md" in pages(tmp_path / "wiki")
    build_strictly(tmp_path / "wiki")
    listed = (tmp_path / "wiki/site/llms.txt").read_text()
    linked = re.findall(r"\]\(([^)]+)\)", listed)
    assert len(linked) == len(report.pages)
    assert all((tmp_path / "wiki/site" / name).is_file() for name in linked)
    html = (tmp_path / "wiki/site/snip.html").read_text()
    assert not re.findall(
        r'(?:src|<link[^>]*href)="(?:https?:)?//', html
    )  # nothing is fetched from elsewhere


def test_every_link_of_a_page_leads_to_a_file(sample_repo, tmp_path):
    folder = tmp_path / "wiki"
    write(sample_repo, folder)
    for text in pages(folder).values():
        outside = outside_fences(text)
        named = re.findall(r"^\[([^\]]+)\]: (\S+)$", outside, re.MULTILINE)
        assert set(re.findall(r"`\]\[([^\]]+)\]", outside)) == {label for label, _ in named}
        for target in [*re.findall(r"\]\(([^)]+)\)", outside), *(target for _, target in named)]:
            path, _, anchor = target.partition("#")
            assert (folder / "docs" / path).is_file(), target
            if path.endswith(".html"):
                assert f'id="{anchor}"' in (folder / "docs" / path).read_text(), target


def test_a_second_run_writes_nothing(sample_repo, tmp_path):
    write(sample_repo, tmp_path / "wiki")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "wiki").rglob("*") if path.is_file()}
    report = write(sample_repo, tmp_path / "wiki")
    assert set(actions(report).values()) == {"unchanged"}
    after = {path: path.stat().st_mtime_ns for path in before}
    assert after == before


def test_a_second_run_parses_nothing_and_says_the_same(sample_repo, tmp_path, monkeypatch):
    first = write(sample_repo, tmp_path / "wiki")
    monkeypatch.setattr("rag.wiki.site.writer.structure_of", None)
    again = write(sample_repo, tmp_path / "wiki")
    assert [(r.page, r.file, r.action) for r in again.pages] == [
        (r.page, r.file, "unchanged") for r in first.pages
    ]
    monkeypatch.undo()
    assert again.structure == first.structure


@pytest.mark.parametrize(
    "name", ["docs/snip.md", "mkdocs.yml", "docs/llms.txt", "docs/assets/wiki.css", "docs/source"]
)
def test_what_was_taken_away_is_written_again(sample_repo, tmp_path, name):
    folder = tmp_path / "wiki"
    write(sample_repo, folder)
    taken = next((folder / name).rglob("*.html")) if name == "docs/source" else folder / name
    before = taken.read_text()
    taken.unlink()
    report = write(sample_repo, folder)
    assert taken.read_text() == before
    assert [r.file for r in report.pages if r.action == "written"] == ([taken.name] if "snip" in name else [])


def test_another_program_another_option_and_another_state_of_the_files_are_no_standstill(
    sample_repo, tmp_path, monkeypatch
):
    folder = tmp_path / "wiki"
    kept: list[str] = []

    def made_of(**options: object) -> str:
        write(sample_repo, folder, **options)
        kept.append(json.loads((folder / ".rag-wiki.json").read_text())["made_of"])
        return kept[-1]

    assert made_of() == made_of() != ""
    made_of(max_pages=50)
    with (sample_repo / "snip/app.py").open("a") as file:
        file.write("\n")
    made_of()
    git(sample_repo, "commit", "--all", "--quiet", "--message", "A line")
    made_of()
    monkeypatch.setattr("rag.wiki.site.up_to_date._program", lambda: "another")
    made_of()
    assert len(set(kept)) == 5


def test_only_pages_whose_sources_changed_are_written_again(sample_repo, tmp_path):
    folder = tmp_path / "wiki"
    write(sample_repo, folder)
    kept = json.loads((folder / ".rag-wiki.json").read_text())["pages"]
    before = pages(folder)
    changed = "worker/checker.go"
    text = (sample_repo / changed).read_text()
    (sample_repo / changed).write_text(f"{text}\n// Added says more.\nfunc Added() {{}}\n")
    git(sample_repo, "commit", "--all", "--quiet", "--message", "Say more")
    report = write(sample_repo, folder)
    written = {name for name, action in actions(report).items() if action == "written"}
    # The overview counts lines; every other page that was written cites the file that changed.
    assert (
        {"worker"} <= written - {"overview"} <= {n for n, page in kept.items() if changed in page["sources"]}
    )
    after = pages(folder)
    assert {name for name in after if after[name] != before[name]} == {
        page.file for page in report.pages if page.action == "written"
    }


def test_a_comment_of_one_line_changes_few_lines_of_the_wiki(sample_repo, tmp_path):
    """Wherever it is: each file has few links, and its addresses are written once a page."""
    git(sample_repo, "remote", "add", "origin", "https://github.com/acme/snip.git")
    folder = tmp_path / "wiki"
    write(sample_repo, folder)
    for path in sorted((sample_repo / "snip").glob("*.py")):
        for beginning in ("import ", "def ", "class "):
            lines, before = path.read_text().split("\n"), pages(folder)
            at = next((n for n, line in enumerate(lines) if line.startswith(beginning)), 0)
            path.write_text("\n".join([*lines[:at], "# A comment.", *lines[at:]]))
            git(sample_repo, "commit", "--all", "--quiet", "--message", "Comment")
            write(sample_repo, folder)
            after = pages(folder)
            assert before.keys() == after.keys()
            changed = [
                line
                for name in after
                for line in difflib.unified_diff(before[name].split("\n"), after[name].split("\n"), n=0)
                if line[:1] in "+-" and line[:3] not in ("+++", "---")
            ]
            assert len(changed) <= 30, (path.name, at, len(changed))


def test_another_commit_alone_writes_no_page(sample_repo, tmp_path):
    git(sample_repo, "remote", "add", "origin", "https://github.com/acme/snip.git")
    folder = tmp_path / "wiki"
    write(sample_repo, folder)
    assert "https://github.com/acme/snip/blob/" in pages(folder)["snip.md"]
    assert not (folder / "docs/source").exists()
    git(sample_repo, "commit", "--quiet", "--allow-empty", "--message", "Nothing")
    assert set(actions(write(sample_repo, folder)).values()) == {"unchanged"}
    assert git(sample_repo, "rev-parse", "HEAD") in (folder / "docs/llms.txt").read_text()


def test_a_page_that_is_no_more_goes_and_one_edited_by_hand_stays(sample_repo, tmp_path):
    folder = tmp_path / "wiki"
    write(sample_repo, folder)
    (folder / "docs/snip.md").write_text("# Mine\n")
    git(sample_repo, "rm", "-r", "-q", "worker")
    with (sample_repo / "snip/app.py").open("a") as file:
        file.write("\n# changed\n")
    report = write(sample_repo, folder)
    assert report.removed == ("worker.md",) and not (folder / "docs/worker.md").exists()
    assert actions(report)["snip"] == "kept" and (folder / "docs/snip.md").read_text() == "# Mine\n"
    assert any("edited by hand" in note for note in report.notes)


def _luminance(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("is_dark", "background"), [(False, "#fcfcfc"), (True, "#1f2428")])
def test_words_stand_out_from_their_background(is_dark, background):
    """WCAG asks for 4.5 between letters and what is behind them; the theme's links and code have less."""
    light, _, dark = STYLE.partition("(prefers-color-scheme: dark)")
    rules = dict(re.findall(r"^ *([^{}\n]+) \{([^{}]*)\}", dark if is_dark else light, re.MULTILINE))
    letters = {
        names: found[1]
        for names, style in rules.items()
        if (found := re.search(r"(?<!-)color: (#\w+)", style))
    }
    assert any("code" in names for names in letters)
    assert any("footer" in names for names in letters)
    for colour in letters.values():
        one, other = sorted((_luminance(colour), _luminance(background)))
        assert (other + 0.05) / (one + 0.05) >= 4.5, colour
    header = next(style for names, style in rules.items() if "wy-nav-top" in names)
    assert 1.05 / (_luminance(re.search(r"#\w+", header)[0]) + 0.05) >= 4.5  # its letters are white


def test_the_heads_of_tables_are_light_in_dark():
    """The theme's are black, and cells that inherit their colour inherit that."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", STYLE.partition("(prefers-color-scheme: dark)")[2])
    colours = [
        found[1]
        for names, style in rules
        if re.search(r"\bth\s*$", names) and (found := re.search(r"(?<!-)color: ([^;]+)", style))
    ]
    assert colours[-1] == "#f0f2f4"


def test_the_settings_of_mkdocs_have_characters_of_every_plane(sample_repo, tmp_path):
    yaml = pytest.importorskip("yaml")
    name = "Größe 🚀 数"
    (sample_repo / "pyproject.toml").write_text(f'[project]\nname = "snip"\ndescription = "{name}"\n')
    write(sample_repo, tmp_path / "wiki")
    assert yaml.safe_load((tmp_path / "wiki/mkdocs.yml").read_text())["site_description"] == name


@pytest.mark.parametrize("name", ["mkdocs.yml", "docs/llms.txt", "docs/assets/wiki.css"])
def test_a_file_around_the_pages_that_was_edited_stays_and_ours_lies_beside_it(sample_repo, tmp_path, name):
    folder = tmp_path / "wiki"
    write(sample_repo, folder)
    edited, ours = folder / name, (folder / name).read_text()
    edited.write_text(ours + "# my own line\n")
    for _ in range(2):
        report = write(sample_repo, folder)
        assert edited.read_text() == ours + "# my own line\n"
        assert (folder / f"{name}.new").read_text() == ours
        assert set(actions(report).values()) == {"unchanged"}
        assert [note for note in report.notes if note.startswith(f"{name} was edited by hand")]
    write(sample_repo, folder, overwrite=True)
    assert edited.read_text() == ours
    assert not (folder / f"{name}.new").exists()
    assert write(sample_repo, folder).notes == ()


def test_an_edited_page_is_replaced_only_on_request(sample_repo, tmp_path):
    folder = tmp_path / "wiki"
    write(sample_repo, folder)
    ours = (folder / "docs/snip.md").read_text()
    (folder / "docs/snip.md").write_text("# Mine\n")
    assert actions(write(sample_repo, folder))["snip"] == "kept"
    assert actions(write(sample_repo, folder, overwrite=True))["snip"] == "written"
    assert (folder / "docs/snip.md").read_text() == ours


def test_pages_that_a_repository_asks_for_make_a_whole_wiki(sample_repo, tmp_path):
    asked = [
        {"title": "Start <here>", "purpose": "What snip does"},
        {"title": "Tokens", "purpose": "How tokens are checked", "parent": "Start <here>"},
    ]
    (sample_repo / ".devin").mkdir()
    (sample_repo / ".devin/wiki.json").write_text(json.dumps({"pages": asked}))
    write(sample_repo, tmp_path / "wiki")
    assert pages(tmp_path / "wiki").keys() == {"index.md", "tokens.md"}
    build_strictly(tmp_path / "wiki")


def test_somebody_elses_documents_are_not_touched(sample_repo):
    before = (sample_repo / "docs/api.md").read_text()
    with pytest.raises(WikiUnwritable, match="documents that rag did not write"):
        write(sample_repo, sample_repo)
    assert (sample_repo / "docs/api.md").read_text() == before
    assert not (sample_repo / "mkdocs.yml").exists()


def test_a_wiki_inside_its_repository_does_not_describe_itself(sample_repo):
    write(sample_repo, sample_repo / "wiki")
    report = write(sample_repo, sample_repo / "wiki")
    assert set(actions(report).values()) == {"unchanged"}
    assert not any("wiki/docs" in text for text in pages(sample_repo / "wiki").values())


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>[x](javascript:alert(3)) `a|b` ![i](http://e/x.png)"
)


def hostile_repository(root: Path) -> Path:
    folder = root / 'p<img src=x onerror=alert(4)>"&`|[x](y)'
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(f'"""{HOSTILE}\n\n```mermaid\nclick A href "javascript:1"\n"""\n')
    code = (
        f'def f(a: str | None = "</script>"):\n    """{HOSTILE}"""\n    return g(a)\n\n\n'
        f'def g(a):\n    """```"""\n'
    )
    (folder / "m#1 %2e.py").write_text(code * 30)
    (folder / "a&b;'.py").write_text("from . import x\n" + code)
    (root / "README.md").write_text(f"# {HOSTILE}\n\n{HOSTILE} and more words than three\n")
    (root / "docs").mkdir()
    (root / "docs/<b>.md").write_text(f"# {HOSTILE}\n\n<iframe src=//e> words and words and words\n")
    (root / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[project.scripts]\n"<script>alert(5)</script>" = "a:b|c"\n'
    )
    return root


def test_nothing_of_a_hostile_repository_runs_in_a_page(tmp_path):
    root, folder = hostile_repository(tmp_path / "hostile"), tmp_path / "wiki"
    write(root, folder)
    for text in pages(folder).values():
        outside = re.sub(r"`[^`\n]*`", "", outside_fences(text))
        assert "<" not in outside
        targets = re.findall(r"\]\(([^)]*)\)", outside)
        for target in targets + re.findall(r"^\[[^\]]+\]: (.*)$", outside, re.MULTILINE):
            assert re.fullmatch(r"[\w./%~#-]+", target), target
    for copy in (folder / "docs/source").rglob("*.html"):
        assert set(re.findall(r"<\s*/?(\w+)", copy.read_text())) == set(
            re.findall(r"<\s*/?(\w+)", copy_html(survey_of({"a.py": "x\n"}).files["a.py"]))
        )
    build_strictly(folder)
    for page in (folder / "site").glob("*.html"):
        Reader().feed(page.read_text())


class Reader(HTMLParser):
    """Reads a page and fails on whatever could run or be fetched that the theme itself does not bring."""

    def __init__(self) -> None:
        super().__init__()
        self.in_script = False

    def handle_starttag(self, tag, attrs):
        assert tag not in {"img", "iframe", "object", "embed", "svg", "b", "base"}, self.get_starttag_text()
        for name, value in attrs:
            assert not name.startswith("on"), self.get_starttag_text()
            assert "script:" not in (value or ""), self.get_starttag_text()
            assert name != "src" or not (value or "").startswith(("http", "//")), value
        self.in_script = tag == "script"

    def handle_endtag(self, tag):
        self.in_script = False

    def handle_data(self, data):
        code = re.sub(r'"(?:[^"\\]|\\.)*"', "", data)
        assert not (self.in_script and "alert" in code), data


def test_the_command_writes_a_wiki_and_says_what_it_did(sample_repo, tmp_path):
    first = rag("wiki", sample_repo, "-o", tmp_path / "wiki")
    assert first.code == 0 and "13 pages in" in first.out and "13 written" in first.out
    again = rag("wiki", sample_repo, "-o", tmp_path / "wiki", "--json")
    assert {page["action"] for page in again.json["pages"]} == {"unchanged"}
    refused = rag("wiki", sample_repo, "-o", sample_repo)
    assert refused.code == 2 and "documents that rag did not write" in refused.err
