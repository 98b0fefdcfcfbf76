"""An exact search finds what a scan of the files finds, in a sensible order, and only in the chosen files."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.database.filtering import filtered
from rag.database.store import Store
from rag.errors import SearchInvalid, SourceError
from rag.retrieval import exact
from rag.retrieval.exact import find_text
from rag.retrieval.search import search
from rag.service import Engine, Repository
from rag.service.tools.search import SearchQuery, search_repositories
from rag.settings import Settings
from rag.types import SearchFilter

FILES = {
    "app/tokens.py": "# check_token is below\nimport os\n\n\ndef check_token(token: str) -> bool:\n"
    '    """Check."""\n'
    '    return token != "" and not os.environ.get("NO_TOKEN")\n',
    "app/login.py": "from app.tokens import check_token\n\n\ndef log_in(user, token):\n"
    "    if not check_token(token):\n"
    "        raise ValueError('the token is wrong, check_token refused it')\n",
    "app/long.js": "var a="
    + ",".join(f"f{n}(check_token,'the token is wrong')" for n in range(200))
    + ";\n"
    + "b();\n" * 60,
    "web/view.ts": "export function view(): string {\r\n  return 'Größe: the token';\r\n}\r\n",
    "tests/test_tokens.py": "from app.tokens import check_token\n\n\ndef test_empty():\n"
    '    assert not check_token("")\n',
    "docs/tokens.md": "# Tokens\n\nA token is checked by `check_token`.\n\nThe token is wrong?\n",
    "settings.toml": '[token]\nname = "check_token"\n',
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """A repository in two segments: one file was changed and one deleted after it was indexed."""
    folder = tmp_path_factory.mktemp("shop")
    for path, text in (FILES | {"app/login.py": "import this\n", "gone.py": "check_token(1)\n"}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        engine.repository(str(folder))
        (folder / "gone.py").unlink()
        (folder / "app/login.py").write_text(FILES["app/login.py"])
        found = engine.repository(str(folder))
        assert len(found.store.segments) == 2
        yield found


@pytest.fixture
def store(repository: Repository) -> Store:
    return repository.store


def scanned(pattern: re.Pattern[str]) -> tuple[int, set[tuple[str, int]]]:
    """The number of matches in the files, and the lines on which one begins."""
    count, lines = 0, set()
    for path, text in FILES.items():
        for match in pattern.finditer(text):
            if match[0]:
                count += 1
                lines.add((path, text.count("\n", 0, match.start()) + 1))
    return count, lines


def checked(store: Store, pattern: str, expected: re.Pattern[str], **options: bool) -> None:
    found = find_text([store], pattern, k=10_000, **options)
    count, lines = scanned(expected)
    assert (found.matches.count, {(hit.path, hit.start) for hit in found.hits}) == (count, lines)
    assert len(found.hits) == len(lines) == found.matches.lines and found.matches.more == 0
    assert found.matches.files == len({path for path, _ in lines}) and found.matches.complete


_TEXT = "\n".join(FILES.values())
_PARTS = st.builds(lambda at, size: _TEXT[at : at + size], st.integers(0, len(_TEXT) - 1), st.integers(1, 60))


@given(pattern=_PARTS | st.text("chektokn_ \n\"'(.,é", min_size=1, max_size=8))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_string_is_found_wherever_a_scan_finds_it(store: Store, pattern: str) -> None:
    checked(store, pattern, re.compile(re.escape(pattern)))
    if pattern.isascii():
        checked(store, pattern, re.compile(re.escape(pattern), re.ASCII | re.IGNORECASE), ignore_case=True)


@pytest.mark.parametrize(
    "pattern",
    [
        r"check_\w+",
        r"^def ",
        r"token[.,]?$",
        r"(?i)THE TOKEN",
        r"a*",
        r"[^\n]+",
        r"\bthe token\b",
        "x{2}|é|ö",
    ],
)
def test_an_expression_is_found_wherever_a_scan_finds_it(store: Store, pattern: str) -> None:
    checked(store, pattern, re.compile(pattern, re.MULTILINE), regex=True)


def test_definitions_come_first_then_code_settings_tests_and_documents(store: Store) -> None:
    found = find_text([store], "check_token", k=50)
    assert (found.hits[0].path, found.hits[0].start, found.hits[0].symbol) == (
        "app/tokens.py",
        5,
        "check_token",
    )
    kinds = [hit.kind for hit in found.hits[1:]]
    assert kinds == sorted(kinds, key=["code", "config", "test", "doc"].index)
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)


def test_of_many_lines_a_few_of_each_file_are_chosen_and_tests_and_documents_last(tmp_path: Path) -> None:
    line = "print('basket')\n"
    files = {
        "app/a.py": line * 9,
        "app/z.py": line * 4,
        "app/migrations/0001.py": line * 9,
        "app/basket.css": ".basket {}\n",
        "guide.md": "A basket.\n",
        "tests/test_a.py": line * 5,
    }
    for path, text in files.items():
        (tmp_path / "shop" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shop" / path).write_text(text)
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        store = engine.repository(str(tmp_path / "shop")).store
        chosen = [(hit.path, hit.start) for hit in find_text([store], "basket", k=8).hits]
        every = find_text([store], "basket", k=50)
    assert chosen == [
        *(("app/a.py", n) for n in (1, 2, 3, 4, 5)),
        *(("app/z.py", n) for n in (1, 2, 3)),
    ]
    assert list(dict.fromkeys(hit.path for hit in every.hits)) == [
        *("app/a.py", "app/z.py", "tests/test_a.py", "guide.md", "app/basket.css", "app/migrations/0001.py")
    ]
    assert every.lines_by_path == {path: text.count("\n") for path, text in files.items()}


def test_a_heading_comes_first_among_documents_and_after_code(store: Store) -> None:
    hits = find_text([store], "token", ignore_case=True, k=50).hits
    documents = [hit.start for hit in hits if hit.kind == "doc"]
    assert documents[0] == 1 and len(documents) > 1
    assert [hit.kind for hit in hits][-len(documents) :] == ["doc"] * len(documents)


@given(
    pattern=st.sampled_from(["token", "t", "check_token", "\n", "the token", "nowhere"]), k=st.integers(1, 9)
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_pages_together_have_each_line_once_and_each_names_the_rest(
    store: Store, pattern: str, k: int
) -> None:
    every = find_text([store], pattern, k=1_000)
    listed: list[tuple[str, int]] = []
    page: int | None = 1
    while page is not None:
        found = find_text([store], pattern, k=k, page=page)
        assert found.matches.before == len(listed) and len(found.hits) == min(
            k, every.matches.lines - len(listed)
        )
        listed += [(hit.path, hit.start) for hit in found.hits]
        left = {one.path: one.lines for one in found.matches.rest}
        shown = Counter(path for path, _ in listed)
        assert left == Counter(every.lines_by_path) - shown and sum(left.values()) == found.matches.more
        assert (found.matches.next_page is None) == (not left)
        page = found.matches.next_page
    assert sorted(listed) == sorted((hit.path, hit.start) for hit in every.hits)
    assert len(set(listed)) == len(listed) == every.matches.lines
    assert not find_text([store], pattern, k=k, page=99).hits


def test_of_very_many_files_the_lines_of_the_last_are_counted_by_folder(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "_NAMED_FILES", 1)
    matches = find_text([store], "token", k=1).matches
    files, folders = matches.rest[:1], matches.rest[1:]
    assert [one.path for one in files] == ["app/login.py"]
    assert {one.path for one in folders} == {"app/", "web/", "tests/", "docs/", "./"}
    assert sum(one.lines for one in matches.rest) == matches.more == matches.lines - 1


def test_hits_are_lines_and_the_others_are_counted(store: Store) -> None:
    found = find_text([store], "check_token", k=2)
    assert len(found.hits) == 2 and found.matches.more == found.matches.lines - 2 > 0
    assert found.hits[0].text == "def check_token(token: str) -> bool:" and found.hits[0].blob
    assert "more lines are not shown" in found.matches.note


def test_a_long_line_is_cut_around_its_match(store: Store) -> None:
    (hit,) = find_text([store], "f150(").hits
    assert hit.text.startswith("…") and hit.text.endswith("…") and "f150(" in hit.text
    assert len(hit.text) < 250


def test_a_match_may_span_lines(store: Store) -> None:
    (hit,) = find_text([store], "import os\n\n\ndef").hits
    assert (hit.start, hit.end, hit.text) == (2, 5, "import os\n\n\ndef check_token(token: str) -> bool:")


@pytest.mark.parametrize("pattern", ["(", "a{2000}", "*", r"(?=a)", r"\1"])
def test_an_invalid_expression_is_an_error_that_says_why(store: Store, pattern: str) -> None:
    with pytest.raises(SearchInvalid, match=r"invalid regular expression: .*RE2"):
        find_text([store], pattern, regex=True)


@pytest.mark.parametrize("pattern", ["", "x" * 1_001])
def test_an_empty_or_very_long_pattern_is_an_error(store: Store, pattern: str) -> None:
    with pytest.raises(SearchInvalid, match=r"empty|1,000"):
        find_text([store], pattern)


def test_a_search_ends_at_its_time_limit_and_says_so(store: Store) -> None:
    found = find_text([store], "token", max_seconds=-1.0)
    assert not found.matches.complete and "time limit" in found.matches.note


def test_lines_beyond_those_that_are_ordered_are_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "_MAX_PLACES", 3)
    found = find_text([store], "token", k=50)
    assert found.matches.next_page is None and "cannot be listed" in found.matches.note
    assert found.matches.more == found.matches.lines - 3 == sum(one.lines for one in found.matches.rest)
    assert len(found.hits) == 3 and found.matches.lines == len(scanned(re.compile("token"))[1])


def test_a_string_with_inner_words_reads_only_the_files_that_have_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = Store.file_bytes
    monkeypatch.setattr(
        Store, "file_bytes", lambda self, file: read.append(self.file_path(file)) or real(self, file)
    )
    assert find_text([store], "Check.").matches.count == 1
    assert len(read) == len(FILES)
    read.clear()
    assert find_text([store], "not os.environ.get(").matches.count == 1
    assert set(read) == {"app/tokens.py", "app/long.js"}, "a divided line may hide a word"


# ---------------------------------------------------------------- filters

FILTERS = {
    SearchFilter(paths=("app/",)): {"app/tokens.py", "app/login.py", "app/long.js"},
    SearchFilter(paths=("*.py", "!test_*")): {"app/tokens.py", "app/login.py"},
    SearchFilter(languages=("Python",)): {"app/tokens.py", "app/login.py", "tests/test_tokens.py"},
    SearchFilter(languages=(".ts", "js")): {"web/view.ts", "app/long.js"},
    SearchFilter(kinds=("test", "doc")): {"tests/test_tokens.py", "docs/tokens.md"},
    SearchFilter(paths=("app/",), languages=("python",), kinds=("code",)): {"app/tokens.py", "app/login.py"},
    SearchFilter(paths=("nowhere/",)): set(),
}
PATHS = (
    *(
        "app/(shop)/[slug]/page.py",
        "app/(shop)/s/page.py",
        "lib/a*b.py",
        "lib/axb.py",
        "lib/q?.py",
        "lib/qx.py",
    ),
    *("!not.py", "#no.py", "lib/[id]/c.py", "lib/i/c.py", normalize("NFD", "lib/Café.py")),
)


@pytest.fixture(scope="module")
def odd_paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("odd")
    for path in PATHS:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("def a():\n    return 1\n")
    with closing(Engine(Settings(home=tmp_path_factory.mktemp("home"), memory="memory:"))) as engine:
        yield engine.repository(str(folder)).store


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("filters", "allowed"),
    [
        *(((path,), {path}) for path in PATHS),
        (("app/(shop)/[slug]",), {"app/(shop)/[slug]/page.py"}),
        (("./app/(shop)/[slug]/",), {"app/(shop)/[slug]/page.py"}),
        (("[id]",), {"lib/[id]/c.py"}),
        (("app/(shop)/[st]/page.py",), {"app/(shop)/s/page.py"}),
        (("lib/a*b.py", "lib/q*"), {"lib/a*b.py", "lib/q?.py", "lib/qx.py"}),
        (("lib", "!lib/[id]/c.py"), {one for one in PATHS if one.startswith("lib/")} - {"lib/[id]/c.py"}),
    ],
)
def test_a_path_that_exists_is_meant_before_a_pattern(
    odd_paths: Store, filters: Sequence[str], allowed: set[str], form: Literal["NFC", "NFD"]
) -> None:
    only = SearchFilter(paths=tuple(normalize(form, one) for one in filters))
    store = filtered(odd_paths, only)
    assert {hit.path for hit in find_text([store], "def", k=1_000).hits} == allowed


@pytest.mark.parametrize("only", FILTERS, ids=str)
def test_a_filter_selects_files_before_anything_is_ranked(repository: Repository, only: SearchFilter) -> None:
    store, allowed = filtered(repository.store, only), FILTERS[only]
    found = find_text([store], "\n", k=1_000)
    assert {hit.path for hit in found.hits} == allowed
    result = search_repositories([repository], SearchQuery("Where is the token checked?", k=50, only=only))
    assert {hit.path for hit in result.hits} <= allowed and bool(result.hits) == bool(allowed)
    assert len(result.hits) == store.live_count or len(allowed) > 1
    said = " ".join(result.remarks)
    assert ("no indexed file matches the filter (path nowhere/)" in said) == (not allowed)


@given(kept=st.sets(st.sampled_from(sorted(FILES))))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_filtered_search_is_that_of_a_repository_with_only_these_files(
    repository: Repository, kept: set[str]
) -> None:
    only = SearchFilter(paths=tuple(kept) or ("nothing",))
    store = filtered(repository.store, only)
    assert {store.file_path(int(file)) for file in store.file[~store.dead]} == kept
    for question in ("check_token", "app/tokens.py:5", "What is this project?", '"the token is wrong"'):
        (one,) = search_repositories([repository], SearchQuery(question, k=50, only=only)).searched
        assert {hit.path for hit in search([one.searcher], question, k=50).hits} <= kept
    assert all((store.file_text(path) is not None) == (path in kept) for path in FILES)


@pytest.mark.parametrize(
    ("only", "said"),
    [
        (SearchFilter(languages=("pyton",)), "did you mean python"),
        (SearchFilter(languages=("qqq",)), "use .*markdown, python"),
        (SearchFilter(kinds=("tests",)), "use code, test, doc, config"),  # type: ignore[arg-type]
        (SearchFilter(paths=("[z-a]",)), "path filter"),
    ],
)
def test_an_invalid_filter_is_an_error_that_says_what_is_valid(
    repository: Repository, only: SearchFilter, said: str
) -> None:
    with pytest.raises((SearchInvalid, SourceError), match=said):
        filtered(repository.store, only)


def test_the_time_limit_holds_within_one_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(exact.time, "monotonic", lambda: float(next(seconds)))
    found = find_text([store], "(?s)t.*nowhere|t", regex=True, max_seconds=20.0)
    assert not found.matches.complete
    assert found.matches.count <= 20


def test_the_groups_of_an_expression_cost_nothing(store: Store) -> None:
    """With the groups captured this takes 40 times as long."""
    nested = "(" * 400 + "[a-z]" + ")" * 400
    began = time.process_time()
    assert find_text([store], nested, regex=True).hits == find_text([store], "[a-z]", regex=True).hits
    assert time.process_time() - began < 2
