"""`rag wiki --check`: which pages of a wiki are outdated, without writing anything."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from command import Ran, rag, rag_process
from conftest import git

from rag.errors import ConfigError, NotFound, WikiUnwritable
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.types import Filters
from rag.wiki import WikiCheck, WikiOptions, check_wiki, write_wiki
from tests.servers.provider import ProviderServer

ADDED = '\n\ndef revoke_every_link(owner):\n    """Revoke all links of an owner."""\n    return owner\n'
CHANGED = "snip/storage.py"


def written(source: Path, folder: Path, **options: object) -> None:
    engine = Engine(load_settings())
    write_wiki(engine, engine.repository(locate(str(source))), folder, WikiOptions(**options))
    engine.close()


def checked(source: Path, folder: Path, filters: Filters | None = None) -> WikiCheck:
    engine = Engine(load_settings())
    try:
        return check_wiki(engine, engine.repository(locate(str(source), filters=filters)), folder)
    finally:
        engine.close()


def statuses(check: WikiCheck) -> dict[str, str]:
    return {page.file: page.status for page in check.outdated}


def state(folder: Path) -> dict[str, object]:
    return json.loads((folder / ".rag-wiki.json").read_text())


def pages_about(folder: Path, path: str) -> set[str]:
    """The files of the pages that cite a file."""
    return {f"docs/{page['file']}" for page in state(folder)["pages"].values() if path in page["sources"]}


def files_of(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


@pytest.fixture
def wiki(sample_repo: Path) -> Path:
    """A wiki inside the repository."""
    written(sample_repo, sample_repo / "wiki")
    return sample_repo / "wiki"


def test_a_wiki_that_was_just_written_is_up_to_date(sample_repo, wiki):
    check = checked(sample_repo, wiki)
    assert check.outdated == check.edited == ()
    assert {page.file for page in check.pages} == {
        f"docs/{path.name}" for path in (wiki / "docs").glob("*.md")
    }


def test_a_change_names_the_pages_that_a_run_would_write_and_nothing_is_written(sample_repo, wiki):
    with (sample_repo / CHANGED).open("a") as file:
        file.write(ADDED)
    before, copied = files_of(sample_repo), pages_about(wiki, CHANGED)
    found = statuses(checked(sample_repo, wiki))
    assert files_of(sample_repo) == before
    assert set(found.values()) == {"changed"}
    assert set(found) & pages_about(wiki, CHANGED)
    old = {path.name: path.read_text() for path in (wiki / "docs").glob("*.md")}
    written(sample_repo, wiki)
    changed = {
        f"docs/{path.name}" for path in (wiki / "docs").glob("*.md") if old.get(path.name) != path.read_text()
    }
    assert changed <= set(found)
    assert set(found) - changed <= copied  # they say the same, but link to a copy of the code before
    assert checked(sample_repo, wiki).outdated == ()


def test_what_changes_no_word_of_a_page_outdates_nothing(sample_repo, wiki):
    git(sample_repo, "commit", "--quiet", "--allow-empty", "--message", "Nothing")
    assert checked(sample_repo, wiki).outdated == ()


def test_a_new_page_and_a_removed_one_are_named(sample_repo):
    wiki = sample_repo / "wiki"

    def plan(*titles: str) -> None:
        pages = [{"title": title, "purpose": f"{title} of snip/sessions.py"} for title in titles]
        (sample_repo / ".devin").mkdir(exist_ok=True)
        (sample_repo / ".devin/wiki.json").write_text(json.dumps({"pages": pages}))

    plan("Home", "Signing in", "Tokens")
    written(sample_repo, wiki)
    plan("Home", "Signing in", "Storage")
    found = statuses(checked(sample_repo, wiki))
    assert found["docs/storage.md"] == "new" and found["docs/tokens.md"] == "removed"
    before = {path.name for path in (wiki / "docs").glob("*.md")}
    written(sample_repo, wiki)
    after = {path.name for path in (wiki / "docs").glob("*.md")}
    assert (after - before, before - after) == ({"storage.md"}, {"tokens.md"})
    assert checked(sample_repo, wiki).outdated == ()


def test_an_edited_page_is_named_and_outdated_only_when_its_sources_changed(sample_repo, wiki):
    page = min(pages_about(wiki, CHANGED) - {"docs/index.md"})
    with (wiki / page).open("a") as file:
        file.write("\nOur own words.\n")
    check = checked(sample_repo, wiki)
    assert [each.file for each in check.edited] == [page]
    assert check.outdated == ()
    with (sample_repo / CHANGED).open("a") as file:
        file.write(ADDED)
    check = checked(sample_repo, wiki)
    if page in statuses(check):
        assert [each.file for each in check.outdated if each.edited] == [page]
    written(sample_repo, wiki)  # it reports the page; from now on its author knows
    check = checked(sample_repo, wiki)
    assert check.outdated == () and [each.file for each in check.edited] == [page]
    assert "Our own words." in (wiki / page).read_text()


def test_a_deleted_page_is_missing(sample_repo, wiki):
    (wiki / "docs/index.md").unlink()
    assert statuses(checked(sample_repo, wiki)) == {"docs/index.md": "missing"}


def test_a_copy_of_a_file_that_changed_outdates_the_pages_that_link_to_it(sample_repo, wiki):
    """The page may say the same, but shows lines that are not those of the code any more."""
    path = sample_repo / CHANGED
    path.write_text(path.read_text().replace("return", "return  ", 1))
    assert set(statuses(checked(sample_repo, wiki))) >= pages_about(wiki, CHANGED)


def test_a_wiki_is_checked_in_a_shallow_clone_with_an_empty_home(sample_repo, wiki, tmp_path):
    git(sample_repo, "remote", "add", "origin", "https://github.com/someone/sample.git")
    with (sample_repo / CHANGED).open("a") as file:
        file.write(ADDED)
    written(sample_repo, wiki)  # the changed file has no commit yet, so its lines link to a copy
    git(sample_repo, "add", "--all")
    git(sample_repo, "commit", "--quiet", "--message", "Both at once")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{sample_repo}", str(clone))
    git(clone, "remote", "set-url", "origin", "git@github.com:someone/sample.git")
    done = rag_process("wiki", ".", "--check", cwd=clone, env={"RAG_HOME": str(tmp_path / "empty")})
    assert (done.code, done.err.count("rag: reading")) == (0, 1), done.out
    assert git(clone, "status", "--porcelain") == ""


def test_other_filters_than_those_of_the_wiki_are_refused_and_its_number_of_pages_is_kept(
    sample_repo, tmp_path
):
    written(sample_repo, tmp_path / "wiki", max_pages=2)
    assert checked(sample_repo, tmp_path / "wiki").outdated == ()
    with pytest.raises(
        ConfigError, match=r"written with no --exclude, but is checked with --exclude docs/\*\*"
    ):
        checked(sample_repo, tmp_path / "wiki", Filters(exclude=("docs/**",)))


def test_without_a_wiki_the_error_says_how_to_write_one(sample_repo, tmp_path):
    with pytest.raises(NotFound, match="write it with `rag wiki -o FOLDER`"):
        checked(sample_repo, tmp_path)


@pytest.mark.parametrize("options", [{"max_pages": "many"}, {"include": [1]}, {"max_pages": 0}])
def test_a_damaged_state_is_an_error(sample_repo, wiki, options):
    (wiki / ".rag-wiki.json").write_text(json.dumps({**state(wiki), "options": options}))
    with pytest.raises(WikiUnwritable, match="damaged"):
        checked(sample_repo, wiki)


def test_a_model_s_text_is_current_while_the_files_it_cites_are_and_no_model_is_asked(sample_repo, tmp_path):
    folder = tmp_path / "wiki"
    with ProviderServer(answers=["It keeps links [1][2]."]) as server:
        engine = Engine(load_settings({"model": "test-model", "base_url": server.base_url, "api_key": "k"}))
        write_wiki(engine, engine.repository(locate(str(sample_repo))), folder, WikiOptions(concurrency=1))
        engine.close()
        asked = len(server.chats)
    assert asked
    assert checked(sample_repo, folder).outdated == ()
    cited = {
        citation["path"]: f"docs/{page['file']}"
        for page in state(folder)["pages"].values()
        for citation in (page["prose"] or {}).get("citations", ())
    }
    path, page = min(cited.items())
    with (sample_repo / path).open("a") as file:
        file.write("\n")
    assert page in statuses(checked(sample_repo, folder))


def check_command(source: Path, *options: str) -> Ran:
    return rag("wiki", ".", "--check", *options, cwd=source)


def test_the_command_lists_pages_in_three_forms_and_exits_with_1(sample_repo, wiki):
    assert check_command(sample_repo).code == 0
    assert "is up to date" in check_command(sample_repo, "--markdown").out
    with (sample_repo / CHANGED).open("a") as file:
        file.write(ADDED)
    text, markdown = check_command(sample_repo), check_command(sample_repo, "--markdown")
    found = check_command(sample_repo, "--json")
    assert text.code == markdown.code == found.code == 1
    outdated = [page for page in found.json["pages"] if page["status"] != "current"]
    assert found.json["outdated"] and outdated
    for page in outdated:
        assert f"  changed  {page['file']}" in text.out
        assert f"`{page['file']}` | changed |" in markdown.out


def test_the_command_refuses_what_does_not_fit(sample_repo, wiki):
    assert rag("wiki", ".", "--markdown", cwd=sample_repo).code == 2
    assert check_command(sample_repo, "--json", "--markdown").code == 2
    assert check_command(sample_repo, "-o", "elsewhere").code == 2
    assert not (sample_repo / "elsewhere").exists()
