"""The report of `rag eval` and the comparison of two runs: as values, as JSON, and in a browser."""

from __future__ import annotations

import json
import re
import shlex
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from chromium import in_browser
from command import rag
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect

from rag.errors import ConfigError, SettingsError
from rag.evaluation import Evaluation, evaluate, read_evaluation
from rag.evaluation.excerpts import PlaceLines, excerpts
from rag.evaluation.metrics import LineSpan
from rag.evaluation.page import page as html_page
from rag.evaluation.questions import Question
from rag.evaluation.report import calibration, html_report, measured_part
from rag.evaluation.results import Conditions, MeasuredRepository
from rag.evaluation.runner import Outcome, Scores, Start
from rag.evaluation.summary import measures_of
from rag.evaluation.systems import System

FAKE = Path(__file__).with_name("fake_peer.py")
SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
AXE = Path(__file__).resolve().parents[1] / "serve" / "vendor" / "axe-core-4.14.1.min.js"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&</pre></td>\x00\x1b[2J"


def question(number: int, *, kind: str = "question", text: str = "", lines: bool = True) -> Question:
    path = f"src/m{number % 5}.py"
    return Question(
        id=f"q{number}",
        repo="",
        language="py",
        kind=kind,
        text=text or f"Where is thing {number}?",
        files=frozenset({path}),
        spans=(LineSpan(path, 1, 4),) if lines else (),
        conversation=f"q{number}",
    )


def scores(rank: int | None, place: PlaceLines, sure: float | None = None, *, lines: bool = True) -> Scores:
    found = 0.0 if rank is None else 1 / rank
    right = float(rank is not None and rank <= 3)
    return Scores(
        found, found, float(rank is not None), right if lines else None, 0.004, rank, (place,), sure
    )


def evaluation(
    ranks: dict[str, list[int | None]],
    *,
    text: str = "",
    lines: bool = True,
    sure: float | None = None,
    name: str = "src/m0.py",
    **conditions: Any,
) -> Evaluation:
    """An evaluation with these ranks by system; every excerpt has the text."""
    count = len(next(iter(ranks.values())))
    asked = tuple(question(n, text=text and f"{text} {n}", lines=lines) for n in range(count))
    expected = {one.id: (PlaceLines(next(iter(one.files)), 1, 4, text or "def a(): ..."),) for one in asked}
    place = PlaceLines(name, 1, 9, text or "def b(): ...")
    outcomes = tuple(
        Outcome(
            System(system, ("run", "{path}")),
            False,
            (Start("t", 1.5, 40),),
            {one.id: scores(rank, place, sure, lines=lines) for one, rank in zip(asked, given, strict=True)},
            expected,
        )
        for system, given in ranks.items()
    )
    return Evaluation(asked, outcomes, 50, Conditions(date="2026-01-01 10:00", **conditions), "a machine")


class Tags(HTMLParser):
    """The tags of a page, which nest, and its text."""

    VOID = ("meta", "input")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


# ---------------------------------------------------------------- the page as text


def test_the_report_is_well_formed_loads_nothing_and_escapes_everything() -> None:
    found = evaluation(
        {"ours": [1, 2, None], HOSTILE: [2, 2, 1]},
        text=HOSTILE,
        name=HOSTILE,
        repositories=(MeasuredRepository(HOSTILE, "c" * 40, dirty=True),),
        questions=HOSTILE,
        settings={HOSTILE: HOSTILE},
    )
    text = html_report(found)
    tags = Tags(text)
    assert "table" in tags.seen
    assert tags.seen.count("script") == 1, "only ours"
    assert not {"link", "img", "iframe"} & set(tags.seen)
    assert not [name for name in tags.attributes if name.startswith("on")]
    assert not re.search(r"https?://|url\(|@import|\x00|\x1b", text)
    assert "script-src 'sha256-" in text


def test_a_report_names_repository_commit_date_settings_and_version() -> None:
    about = {
        "repositories": (MeasuredRepository("shop", "0123456789abcdef", dirty=True),),
        "settings": {"embedder": "static"},
        "version": "9.9",
    }
    text = html_report(evaluation({"rag": [1, 2]}, **about))
    for shown in ("shop, commit 0123456789abcdef with uncommitted changes", "embedder static", "rag 9.9"):
        assert shown in text
    assert "2026-01-01 10:00 UTC" in text
    assert "the first place answers 1 of 2 questions; for 0 none of the 50" in text


def test_what_no_question_has_and_what_only_repeats_is_left_out() -> None:
    without = evaluation({"rag": [1, 2, None]}, lines=False)
    assert [one.title for one in measures_of(without.summary)] == ["NDCG@10", "recall@10"], "MRR is the same"
    text = html_report(without)
    assert "lines seen" not in text
    assert ">kind<" not in text, "there is one kind only"
    assert "Calibration" not in text
    assert text.count("all (3)") == 1, "the choice"
    assert "Cost" not in text, "one system is a sentence"
    assert "4.0 ms in the median" in text


def test_the_worst_rank_comes_first_and_places_are_side_by_side() -> None:
    text = html_report(evaluation({"rag": [1, 7, None]}))
    order = re.findall(r"Where is thing (\d)\?", text)
    assert order == ["2", "1", "0"]
    assert text.count("<h3>Expected</h3>") == 3
    assert text.count("<h3>Found</h3>") == 3
    assert '<code>src/m0.py:1-9</code></span> <b class="good">✓ answers</b>' in text
    assert "    1  def a(): ..." in text


def test_calibration_needs_enough_judged_questions() -> None:
    assert calibration(evaluation({"rag": [1] * 19}, sure=0.7)) == ""
    shown = calibration(evaluation({"rag": [1] * 15 + [None] * 5}, sure=0.75))
    assert "<td>75%</td><td>75% [53%, 89%]</td><td>15 of 20</td>" in shown
    assert "calibration error .000" in shown


def test_two_lists_on_a_page_have_ids_of_their_own() -> None:
    found = evaluation({"rag": [1, None]})
    text = html_page("Both", [measured_part(found, "a"), measured_part(found, "b")], script=True)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) == 8


# ---------------------------------------------------------------- lines


def test_excerpts_stay_inside_the_folder_and_hide_secrets(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.py").write_text("x = 1\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "a.py").write_text("".join(f"line {n}\n" for n in range(1, 41)))
    (root / "keys.py").write_text('AWS = "AKIAQ3EGRWZ5T7UXHNPL"\nSECRET = "aws_secret_access_key"\n')
    places = [
        LineSpan("a.py", 3, 4),
        "a.py",
        LineSpan("link.py", 1, 1),
        LineSpan("../outside.py", 1, 1),
        LineSpan("gone\0.py", 1, 1),
        LineSpan("keys.py", 1, 2),
        LineSpan("a.py", 90, 99),
    ]
    shown = excerpts(root, places)
    assert shown[0] == PlaceLines("a.py", 3, 4, "line 3\nline 4")
    assert (shown[1].place, shown[1].text.count("\n")) == ("a.py", 11)
    assert [one.text for one in shown[2:]] == [""] * 5


# ---------------------------------------------------------------- JSON and comparison


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.none() | st.integers(1, 60), min_size=1, max_size=8),
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.none() | st.floats(0, 1),
)
def test_json_gives_back_what_was_written(ranks: list[int | None], text: str, sure: float | None) -> None:
    found = evaluation({"rag": ranks, "peer": ranks[::-1]}, text=text, sure=sure, settings={"a": text})
    again = Evaluation.from_json(json.loads(json.dumps(found.to_json())))
    assert again.to_json() == found.to_json()
    assert again.html() == found.html()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("{", "cannot read"),
        ("[1]", "not a result"),
        ('{"questions": []}', "version 2"),
        ('{"version": 2}', "damaged"),
        ('{"version": 2, "conditions": {"repositories": 3}}', "damaged"),
    ],
)
def test_what_is_no_result_is_named(tmp_path: Path, written: str, says: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(written)
    with pytest.raises(SettingsError, match=says):
        read_evaluation(file)


def test_two_runs_are_compared_on_the_questions_of_both() -> None:
    before = evaluation({"rag": [1, 5, None, 2]}, settings={"reranker": "none"})
    after = evaluation({"rag": [2, 1, 9]}, settings={"reranker": "student"})
    pair = before.compare(after)
    assert pair.systems == ["after: reranker student", "before: reranker none"]
    assert len(pair.questions) == 3
    text = html_report(pair)
    assert "2 have a better rank, 1 a worse one, 0 the same" in text
    assert "better rank (2)" in text
    assert "worse rank (1)" in text
    (everything,) = pair.summary.distinct_groups
    assert everything.rows[1].differences["mrr"].mean == pytest.approx((-0.5 + 0.8 + 1 / 9) / 3)
    with pytest.raises(ConfigError, match="no question in common"):
        before.compare(evaluation({"rag": [1]}, text="another"))


def test_a_measurement_in_python_is_the_one_of_the_command(tmp_path: Path) -> None:
    records = [
        {
            "question": "SessionSigner",
            "answers": [{"path": "snip/sessions.py", "start_line": 22, "end_line": 40}],
        },
        {"question": "Where is the rate limited?", "answers": [{"path": "snip/ratelimit.py"}]},
    ]
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in records))
    first = evaluate(SAMPLE, file)
    second = evaluate(SAMPLE, [file], settings={"reranker": "student"})
    assert (first.systems, second.systems) == (["rag"], ["rag reranker=student"])
    assert second.conditions.settings["reranker"] == "student"
    asked = first.outcomes[0].scores["q.jsonl:1"]
    assert asked.rank == 1
    assert asked.places[0].path == "snip/sessions.py"
    assert asked.first_right is not None
    assert "class SessionSigner" in asked.places[0].text
    assert first.expected(first.questions[0])[0].text.startswith("class SessionSigner")
    paths = [str(one.save(tmp_path / f"{n}.json")) for n, one in enumerate((first, second))]
    done = rag("eval", "--compare", *paths, "--html", tmp_path / "c.html")
    assert done.code == 0, done.err
    assert "after: reranker student" in done.out or "rag reranker=student" in done.out
    assert "better rank" in (tmp_path / "c.html").read_text() or "0 have a better rank" in done.out
    with pytest.raises(SettingsError, match="no setting 'colour'"):
        evaluate(SAMPLE, file, settings={"colour": "red"})
    with pytest.raises(SettingsError, match="either files of questions"):
        evaluate(SAMPLE)


def test_mined_questions_are_measured_in_python() -> None:
    found = evaluate(SAMPLE, mine="docstrings", n=5)
    assert len(found.questions) == 5
    assert "removed from the searched copy" in found.conditions.questions


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--compare", "gone.json", "gone.json"], "cannot read"),
        ([".", "--compare", "a.json", "b.json"], "combine it with"),
    ],
)
def test_what_cannot_be_compared_ends_with_2(arguments: list[str], says: str) -> None:
    done = rag("eval", *arguments)
    assert done.code == 2
    assert says in done.err


# ---------------------------------------------------------------- in a browser


def opened(browser: Browser, found: Evaluation, **options: Any) -> Page:
    """The report in a page that fails on any error, dialog or request."""
    page = browser.new_context(**options).new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("console", lambda said: wrong.append(said.text))
    page.on("request", lambda request: wrong.append(request.url))
    page.set_content(found.html())
    page.wrong = wrong  # type: ignore[attr-defined]
    return page


HOSTILE_PAIR: dict[str, list[int | None]] = {"rag": [1, 4, None] * 10, "peer": [2, 4, 1] * 10}


@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing(browser: Browser, scheme: Any, width: int) -> None:
    found = evaluation(HOSTILE_PAIR, text=HOSTILE, sure=0.6)
    page = opened(browser, found, color_scheme=scheme, viewport={"width": width, "height": 900})
    page.locator("td button").first.click()
    assert page.wrong == []  # type: ignore[attr-defined]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.context.new_cdp_session(page).send("Page.setBypassCSP", {"enabled": True})
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found_by_axe = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [(one["id"], one["nodes"][0]["html"][:120]) for one in found_by_axe["violations"]] == []


@in_browser
def test_the_list_is_sorted_chosen_and_opened_by_keyboard(browser: Browser) -> None:
    page = opened(browser, evaluation({"rag": [3, 1, None, 12], "peer": [3, 2, 1, 1]}))

    def listed() -> list[str]:
        return [one.inner_text()[-2] for one in page.locator("tbody:visible td button").all()]

    assert listed() == ["2", "3", "0", "1"]
    head = page.get_by_role("button", name="rank, rag")
    head.focus()
    page.keyboard.press("Enter")
    assert listed() == ["1", "0", "3", "2"], "12 comes after 3, and what was not found last"
    expect(page.locator("th", has=head)).to_have_attribute("aria-sort", "ascending")
    page.keyboard.press("Enter")
    assert listed() == ["2", "3", "0", "1"]
    page.get_by_label("not found (1)").focus()
    page.keyboard.press("Space")
    assert listed() == ["2"]
    expect(page.get_by_role("status")).to_have_text("1 of 4 shown")
    row = page.locator("tbody:visible td button")
    row.focus()
    expect(page.get_by_role("heading", name="Expected")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Expected")).to_be_visible()
    expect(row).to_have_attribute("aria-expanded", "true")
    assert page.wrong == []  # type: ignore[attr-defined]


@in_browser
def test_without_scripts_everything_is_there(browser: Browser) -> None:
    page = opened(browser, evaluation({"rag": [1, None]}), java_script_enabled=False)
    expect(page.get_by_role("heading", name="Expected").first).to_be_visible()


def test_other_systems_are_named_in_the_report(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"question": "ratelimit", "answers": [{"path": "snip/ratelimit.py"}]}) + "\n")
    system = f"grep={shlex.join([sys.executable, str(FAKE), '{path}'])}"
    text = evaluate(SAMPLE, file, systems=[system]).html()
    assert "Command of grep" in text
    assert "rag ahead of grep by" in text
    assert "<h2>Cost</h2>" in text
