"""The MkDocs plugin in a fresh project: its pages, the site's own navigation and theme, and clear errors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Mapping
from html import unescape
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from command import rag
from conftest import git
from mkdocs.__main__ import cli

MKDOCS = [sys.executable, "-W", "ignore", "-m", "mkdocs"]
STRICT = {
    "nav": {"omitted_files": "warn", "not_found": "warn"},
    "links": {"anchors": "warn", "absolute_links": "warn", "unrecognized_links": "warn"},
}
ADDED = '\n\ndef revoke_every_link(owner):\n    """Revoke all links of an owner."""\n    return owner\n'
DEADLINE_S = 120


def run_mkdocs(folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run a strict build in this process, where everything is imported; return its exit code and its log."""
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(cli, ["build", "--strict"], env=env, catch_exceptions=False)
    return done.exit_code, done.output


class Project:
    """A MkDocs project with pages of its own, next to a repository."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder, self.source = folder, source
        (folder / "docs/guide").mkdir(parents=True)
        (folder / "docs/index.md").write_text("# Welcome\n\nSee [the guide](guide/first.md#steps).\n")
        (folder / "docs/guide/first.md").write_text(
            "---\ndescription: How to begin\n---\n# First\n\n## Steps\n\nOne.\n"
        )
        self.configure()

    def configure(self, *, theme: str = "mkdocs", **more: object) -> None:
        options = {"source": os.path.relpath(self.source, self.folder), **more.pop("rag", {})}
        config = {
            "site_name": "A site",
            "theme": {"name": theme},
            "plugins": ["search", {"rag": options}],
            "validation": STRICT,
            **more,
        }
        (self.folder / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False))

    def build(self, **env: str) -> str:
        """Build it; return what was logged."""
        code, logged = run_mkdocs(self.folder, env)
        assert code == 0, logged
        return logged

    def error(self, **env: str) -> str:
        code, logged = run_mkdocs(self.folder, env)
        assert code == 1, logged
        assert "Traceback" not in logged
        return logged

    def page(self, name: str) -> str:
        return (self.folder / "site" / name).read_text()

    def titles(self) -> list[str]:
        """The entries of the navigation in order, of a theme that shows them as they are."""
        return [
            unescape(title).strip() for title in re.findall(r"nav-title>([^<]*)<", self.page("index.html"))
        ]


@pytest.fixture
def project(tmp_path: Path, sample_repo: Path) -> Project:
    return Project(tmp_path / "project", sample_repo)


NAVIGATION = """\
{%- macro entry(item) -%}<b nav-title>{{ item.title }}</b>
{%- for child in item.children or [] -%}{{ entry(child) }}{%- endfor -%}{%- endmacro -%}
{% for item in nav %}{{ entry(item) }}{% endfor %}
<p prev>{{ page.previous_page.url if page.previous_page }}</p>
<p next>{{ page.next_page.url if page.next_page }}</p>
<main>{{ page.content }}</main>
"""


def with_own_theme(project: Project, **more: object) -> None:
    """A theme that shows the navigation as it is."""
    theme = project.folder / "theme"
    theme.mkdir(exist_ok=True)
    (theme / "main.html").write_text(NAVIGATION)
    project.configure(**more)
    config = yaml.safe_load((project.folder / "mkdocs.yml").read_text())
    config["theme"] = {"name": None, "custom_dir": "theme"}
    (project.folder / "mkdocs.yml").write_text(yaml.safe_dump(config))


def tree(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("theme", ["mkdocs", "readthedocs", "material"])
def test_pages_are_added_and_a_strict_build_finds_no_fault(project, theme):
    project.configure(theme=theme)
    before = tree(project.folder), tree(project.source)
    project.build()
    assert "snip/sessions.py" in "".join(
        path.read_text() for path in (project.folder / "site/code").rglob("index.html")
    )
    after = {path: text for path, text in tree(project.folder).items() if "/site/" not in path}
    assert (
        after,
        tree(project.source),
    ) == before  # nothing that MkDocs watches, and nothing of the repository


def test_every_link_of_the_pages_leads_to_a_file_of_the_site(project):
    project.build()
    site = project.folder / "site"
    pages = list((site / "code").rglob("index.html"))
    assert len(pages) > 5
    for page in pages:
        for target in re.findall(r'href="([^"#]+)[#"]', page.read_text()):
            if not re.match(r"[a-z]+:|/", target):
                place = (page.parent / target).resolve()
                assert (place / "index.html" if place.is_dir() else place).is_file(), (page, target)


def test_a_second_build_writes_nothing_and_a_change_only_its_pages(project):
    assert "indexing the repository" in project.build()
    again = project.build()
    assert " 0 written" in again and "indexing" not in again
    with (project.source / "snip/storage.py").open("a") as file:
        file.write(ADDED)
    counts = re.search(r"(\d+) pages of the wiki: (\d+) written, (\d+) unchanged", project.build())
    total, written, unchanged = map(int, counts.groups())
    assert written and unchanged and written + unchanged == total
    assert "revoke_every_link" in "".join(
        path.read_text() for path in (project.folder / "site/code").rglob("index.html")
    )


def test_without_a_navigation_the_section_comes_last(project):
    with_own_theme(project)
    project.build()
    titles = project.titles()
    assert titles[:4] == ["Welcome", "Guide", "First", "Code"]
    headings = {
        unescape(re.search(r"<h1[^>]*>(.*?)</h1>", path.read_text())[1])
        for path in (project.folder / "site/code").rglob("index.html")
    }
    assert set(titles[4:]) == headings


def test_the_user_s_navigation_is_untouched_and_pages_follow_each_other(project):
    nav = [{"Home": "index.md"}, {"Guide": ["guide/first.md"]}]
    with_own_theme(project, nav=nav, rag={"section": "Inside", "path": "reference/inside"})
    project.build()
    assert project.titles()[:4] == ["Home", "Guide", "First", "Inside"]
    seen, page = [], "index.html"
    while page:
        seen.append(page)
        page = re.search(r"<p next>(.*?)</p>", project.page(page))[1]
        page = f"{page.rstrip('/')}/index.html" if page else ""
        if page:
            assert re.search(r"<p prev>(.*?)</p>", project.page(page))[1].rstrip("/") == seen[
                -1
            ].removesuffix("index.html").rstrip("/")
    inside = list((project.folder / "site/reference/inside").rglob("index.html"))
    assert len(seen) == 2 + len(inside)


def test_the_section_goes_where_the_navigation_names_its_first_page(project):
    nav = [{"Home": "index.md"}, {"More": [{"The code": "code/index.md"}, "guide/first.md"]}]
    with_own_theme(project, nav=nav)
    project.build()
    titles = project.titles()
    assert titles[:4] == ["Home", "More", "The code", "Overview"]
    assert titles[-1] == "First" and titles.count("The code") == 1


def test_the_lists_for_programs_have_all_pages_with_links_from_the_root(project):
    project.configure(nav=[{"Home": "index.md"}, {"Guide": ["guide/first.md"]}])
    project.build()
    text = project.page("llms.txt")
    assert "- [First](guide/first/): How to begin" in text and "## Code" in text
    full = project.page("llms-full.txt")
    assert "See [the guide](guide/first/#steps)." in full
    code = re.compile(r"^(`{3,}).*?^\1$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
    for name, links in (("llms.txt", text), ("llms-full.txt", full)):
        targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", code.sub("", links))
        assert targets, name
        for target in targets:
            assert (project.folder / "site" / target / "index.html").is_file(), (name, target)
    assert "revoke_every_link" not in full
    assert "snip/storage.py" in full and "(source/" not in full  # a label names the lines, without an address


def test_lists_of_the_site_s_own_are_kept(project):
    (project.folder / "docs/llms.txt").write_text("Ours.\n")
    project.build()
    assert project.page("llms.txt") == "Ours.\n"
    assert "Source: code/" in project.page("llms-full.txt")
    project.configure(rag={"llms": False})
    project.build()
    assert not (project.folder / "site/llms-full.txt").exists()


@pytest.mark.parametrize("theme", ["mkdocs", "material"])
def test_pages_with_diagrams_load_a_script_of_the_site(project, theme):
    project.configure(theme=theme)
    project.build()
    drawn = 0
    for path in (project.folder / "site/code").rglob("index.html"):
        html = path.read_text()
        scripts = re.findall(r'<script src="([^"]*assets/(?:mermaid\.min|diagrams)\.js)"', html)
        if '<pre class="mermaid">' in html:
            drawn += 1
            assert len(scripts) == (1 if theme == "material" else 2)
            assert all((path.parent / script).resolve().is_file() for script in scripts)
        else:
            assert scripts == []
    assert drawn
    assert '<pre class="mermaid">' not in project.page("index.html")
    project.configure(theme=theme, rag={"diagrams": False})
    project.build()
    assert not list((project.folder / "site").rglob("mermaid.min.js"))


@pytest.fixture
def own_wiki(project: Project) -> Path:
    """A wiki that `rag wiki` wrote, published from its folder; its first page can be edited."""
    assert rag("wiki", ".", "--no-draw", cwd=project.source).code == 0
    project.configure(
        rag={"folder": str(project.source / "wiki")},
        markdown_extensions=["pymdownx.snippets", "pymdownx.superfences"],
    )
    return project.source / "wiki/docs"


def edit(page: Path, text: str) -> None:
    page.write_text(page.read_text() + text)


def test_quoted_code_includes_no_file_of_the_machine(project, own_wiki):
    (project.folder / "secret.txt").write_text("a secret of the machine")
    edit(own_wiki / "index.md", '\n```text\n--8<-- "secret.txt"\n```\n')
    project.build()
    html = "".join(path.read_text() for path in (project.folder / "site").rglob("*.html"))
    assert "a secret of the machine" not in html and "secret.txt" in html


def test_the_links_of_a_diagram_lead_to_built_pages(project, own_wiki):
    other = next(path for path in sorted(own_wiki.glob("*.md")) if path.name != "index.md")
    copy = next((own_wiki / "source").rglob("*.html"))
    edit(
        own_wiki / "index.md",
        f'\n```mermaid\nflowchart LR\n  n1["a"]\n  n2["b"]\n  n1 --> n2\n  click n1 href "{other.name}#x"\n'
        f'  click n2 href "{copy.relative_to(own_wiki)}#L1"\n```\n',
    )
    edit(
        other, f"\n```mermaid\nsequenceDiagram\n  participant n1 as A\n  link n1: Code @ {other.name}\n```\n"
    )
    project.build()
    first, second = re.findall(r'href "([^"]+)"', unescape(project.page("code/index.html")))
    site = project.folder / "site/code"
    assert first == f"{other.stem}/#x" and (site / first.partition("#")[0] / "index.html").is_file()
    assert second.endswith("#L1") and (site / second.partition("#")[0]).is_file()
    assert ": Code @ ./" in project.page(f"code/{other.stem}/index.html")


def test_a_repository_with_the_site_in_it_does_not_describe_the_built_site(sample_repo):
    (sample_repo / "docs/index.md").write_text("# Snip\n")
    (sample_repo / "mkdocs.yml").write_text("site_name: Snip\nplugins: [rag]\n")

    def build() -> str:
        command = [*MKDOCS, "build", "--strict"]
        done = subprocess.run(command, cwd=sample_repo, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    build()
    assert " 0 written" in build()
    assert "site/code" not in (sample_repo / "site/llms-full.txt").read_text()


def test_a_wiki_that_was_written_before_can_be_published(project, own_wiki):
    edit(own_wiki / "index.md", "\nOur own words.\n")
    assert "edited by hand" in project.build()
    assert "Our own words." in project.page("code/index.html")


def test_links_and_pipes_in_the_folder_of_a_wiki_are_not_published(project, own_wiki, tmp_path):
    (tmp_path / "secret.txt").write_text("a secret of this machine")
    (own_wiki / "picture.png").write_bytes(b"PNG")
    (own_wiki / "linked.png").symlink_to(tmp_path / "secret.txt")
    (own_wiki / "folder").symlink_to(tmp_path)
    os.mkfifo(own_wiki / "pipe.png")
    project.build()
    built = {path.name for path in (project.folder / "site/code").rglob("*")}
    assert "picture.png" in built
    assert not built & {"linked.png", "folder", "secret.txt", "pipe.png"}
    (own_wiki / "index.md").unlink()
    (own_wiki / "index.md").symlink_to(tmp_path / "secret.txt")
    assert "index.md is a symbolic link" in project.error()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source": "nowhere"}, r"rag: there is no folder .*nowhere"),
        ({"path": "../code"}, "option 'path': '../code' is no path within the site"),
        ({"max_pages": 0}, "option 'max_pages': it is 0, but must be a number of at least 1"),
        ({"max_pages": "many"}, "option 'max_pages': Expected type"),
        ({"max_page": 3}, "Unrecognised configuration name: max_page"),
        ({"folder": "docs/wiki"}, "choose a folder outside of it"),
        ({"folder": "."}, "choose a folder outside of it"),
        ({"path": "guide", "folder": None}, ""),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(project, options, said):
    project.configure(rag=options)
    if said:
        assert re.search(said, project.error())
    else:
        project.build()  # a path with pages of the site is fine while no name is taken twice


def test_a_name_that_the_site_has_already_is_an_error(project):
    (project.folder / "docs/code").mkdir()
    (project.folder / "docs/code/index.md").write_text("# Ours\n")
    assert "the site has a file 'code/index.md' already; choose another `path`" in project.error()


@pytest.mark.parametrize("name", ["code.md", "code/README.md"])
def test_a_page_that_is_built_at_the_same_address_is_an_error(project, name):
    page = project.folder / "docs" / name
    page.parent.mkdir(exist_ok=True)
    page.write_text("# Ours\n")
    assert f"the site has a file {name!r} already, which is built as 'code/index.html'" in project.error()


def test_quoted_code_is_no_template_of_another_plugin(project, own_wiki):
    """mkdocs-macros renders each page with Jinja unless its metadata forbid it, which it reads as below."""
    edit(own_wiki / "index.md", "\n```text\n{{ 6 * 7 }}\n```\n")
    (project.folder / "macros.py").write_text(
        "def on_page_markdown(markdown, page, **more):\n"
        "    if page.meta.get('render_macros') is False:\n"
        "        return markdown\n"
        "    return markdown.replace('{{ 6 * 7 }}', '42')\n"
    )
    project.configure(hooks=["macros.py"], rag={"folder": os.path.relpath(own_wiki.parent, project.folder)})
    project.build()
    assert "{{ 6 * 7 }}" in project.page("code/index.html")


def test_an_empty_repository_is_an_error(project, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet", "--template=")
    project.configure(rag={"source": str(empty)})
    assert "rag: nothing to index" in project.error()


def test_without_git_the_error_says_what_to_install(project, tmp_path):
    assert "install git" in project.error(PATH=str(tmp_path))


def test_an_index_that_cannot_be_written_is_an_error(project, tmp_path):
    home = tmp_path / "broken"
    home.mkdir()
    (home / "stores").write_text("no folder")
    assert re.search(r"rag: the store .* cannot be opened", project.error(RAG_HOME=str(home)))


def test_a_model_that_is_set_elsewhere_is_not_asked(project):
    """The address is refused at once if it is."""
    project.build(RAG_MODEL="m", RAG_BASE_URL="http://127.0.0.1:9/v1", RAG_EMBEDDER="openai:e")


def test_a_model_that_fails_fails_a_strict_build(project):
    project.configure(rag={"prose": True})
    said = project.error(
        RAG_MODEL="m", RAG_BASE_URL="http://127.0.0.1:9/v1", RAG_EMBEDDER="static", OPENAI_API_KEY="k"
    )
    assert "has no text of a model" in said


def test_serve_builds_once_for_each_change(project):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    log = project.folder.parent / "log"
    with (
        log.open("w") as file,
        subprocess.Popen(
            [*MKDOCS, "serve", "--dev-addr", f"127.0.0.1:{port}"],
            cwd=project.folder,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        try:
            wait_for(server, port, "code/", "snip")
            (project.folder / "docs/index.md").write_text("# Changed once\n")
            wait_for(server, port, "", "Changed once")
            (project.folder / "docs/index.md").write_text("# Changed twice\n")
            wait_for(server, port, "", "Changed twice")
            wait_for(server, port, "code/", "snip")
        finally:
            server.terminate()
            server.wait(timeout=DEADLINE_S)
    assert log.read_text().count("pages of the wiki:") == 3, log.read_text()


def wait_for(server: subprocess.Popen[bytes], port: int, path: str, text: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert server.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as response:
                if text in response.read().decode():
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{text!r} did not appear at /{path}")


def test_the_plugin_is_registered_under_its_name():
    code = (
        "from importlib.metadata import entry_points; import json;"
        "found = [e.value for e in entry_points(group='mkdocs.plugins') if e.name == 'rag'];"
        "print(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["rag.integrations.mkdocs_plugin:WikiPlugin"]
