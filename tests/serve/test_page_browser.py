"""The web page in a real browser: what a reader sees and does, and what never runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from chromium import in_browser
from live_server import SAMPLE, Served, sample_copy, serving
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Route,
    expect,
)

from rag.types import Source
from rag.wiki import wiki_contents, wiki_structure
from tests.servers.provider import ProviderServer

pytestmark = in_browser

AXE = (Path(__file__).parent / "vendor" / "axe-core-4.14.1.min.js").read_text(encoding="utf-8")
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
SIGNED = "How are sessions signed?"
EXPIRE = "And when do they expire?"

Open = Callable[..., Page]


DRAWN = """() => new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, 2000);  // a page in the background is not drawn
})"""


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Open a server's page; at the end nothing may have failed in it, nor asked another server."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def opened(served: Served, path: str = "/", **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on(
            "console", lambda said: wrong.append(f"{said.location} {said.text}") if _is_wrong(said) else None
        )
        page.on(
            "request", lambda request: wrong.append(request.url) if _is_foreign(request.url, served) else None
        )
        page.goto(served.url + path)
        return page

    opened.wrong = wrong  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")  # a failed test may have left a request unanswered
        context.close()
    assert not wrong


def _is_wrong(said: ConsoleMessage) -> bool:
    answered = said.text.startswith("Failed to load resource: the server responded")
    return said.type == "error" and not answered


def _is_foreign(url: str, served: Served) -> bool:
    return not url.startswith((served.url, "blob:", "data:"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose answers are written by a model's service, which is `served.provider`."""
    home = tmp_path_factory.mktemp("written")
    root = home / "snip"
    shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "hostile.md").write_text(HOSTILE)
    (root / "hostile.html").write_text(HOSTILE)
    with ProviderServer() as provider:
        engine = {
            "base_url": provider.base_url,
            "model": "m",
            "api_key": "k",
            "gate": False,
            "answer_tokens": 4_000,  # the hostile answer has 2,000; cut, it would lack its last traps
        }
        with serving(home, repositories=(("snip", Source(str(root))),), engine=engine) as served:
            served.provider = provider  # type: ignore[attr-defined]
            yield served.ready()


@pytest.fixture
def provider(written: Served) -> ProviderServer:
    server: ProviderServer = written.provider  # type: ignore[attr-defined]
    # The answer of a page that was closed may still be asking, and would be taken for this test's.
    written.wait_until(lambda: written.service.limiter.asking == 0)
    server.behaviours[:] = ["good"]
    server.requests.clear()
    server.client_left.clear()
    return server


@pytest.fixture
def provider_of_models(tmp_path: Path) -> Iterator[tuple[Served, ProviderServer]]:
    """A server that offers three models of one service."""
    with ProviderServer(models=["m", "small", "large"]) as provider:
        settings = {"base_url": provider.base_url, "model": "m", "api_key": "k", "gate": False}
        repositories = (("sample", sample_copy(tmp_path)),)
        with serving(
            tmp_path, repositories=repositories, engine=settings, models=("small", "large")
        ) as served:
            yield served.ready(), provider


def ask(page: Page, question: str) -> Locator:
    """Ask, and give the turn when it is done."""
    page.get_by_label("Question", exact=True).fill(question)
    page.keyboard.press("Enter")
    turn = page.locator("article.turn").last
    expect(turn.get_by_role("heading", name=question)).to_be_visible()
    expect(turn).to_have_class(re.compile(r"\b(done|failed)\b"), timeout=PATIENCE_MS)
    return turn


# ---------------------------------------------------------------- asking


def test_the_first_screen_shows_what_the_repository_is_and_what_to_ask(served, visit):
    page = visit(served)
    overview = page.locator(".empty .overview")
    expect(overview).to_contain_text("sample: ")
    expect(overview.get_by_text("README.md:", exact=False).first).to_be_visible()
    questions = page.get_by_role("list", name="Questions to ask").get_by_role("button")
    expect(questions.first).to_have_text("How do I run the tests?")
    overview.locator("button", has_text=re.compile(r"^README\.md:\d+$")).first.click()
    expect(page.get_by_label("Evidence", exact=True)).to_contain_text("README.md")
    questions.first.click()
    expect(page.locator("article.turn .answer")).to_contain_text("Run ")
    expect(page.locator(".empty")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_screen_fits(served, visit, width):
    page = visit(served, viewport={"width": width, "height": 900})
    overview = page.locator(".empty .overview")
    expect(overview).to_contain_text("sample: ")
    place = overview.bounding_box()
    assert place is not None and place["x"] >= 0 and place["x"] + place["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_answer_is_shown_next_to_its_sources(served, visit):
    page = visit(served)
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    turn = ask(page, SIGNED)
    expect(turn.locator(".answer")).to_contain_text("sign_session")
    expect(turn.locator(".answer pre .hljs-keyword").first).to_have_text("def")
    panel = page.get_by_label("Evidence", exact=True)
    expect(panel.get_by_role("tab", name="Sources")).to_have_attribute("aria-selected", "true")
    source = panel.get_by_role("button", name=re.compile(r"^Open source 1\b"))
    expect(source.locator("pre")).to_contain_text("def sign_session")


def test_without_a_model_a_line_says_how_to_connect_one_until_the_second_question(served, visit):
    page = visit(served)
    line = page.locator(".model")
    expect(line).to_have_text(
        "To have answers explained, connect a model with rag setup and restart the server"
    )
    ask(page, SIGNED)
    expect(line).to_contain_text("rag setup")
    ask(page, EXPIRE)
    expect(line).to_have_text("")


def test_the_page_says_which_model_answers(written, provider, visit):
    page = visit(written)
    expect(page.locator(".model")).to_have_text("Answers by m")
    expect(ask(page, SIGNED).locator(".turn-foot")).to_contain_text("m ·")


def test_a_model_can_be_chosen_among_those_that_the_server_offers(provider_of_models, visit):
    served, provider = provider_of_models
    page = visit(served, viewport={"width": 390, "height": 800})
    picker = page.get_by_label("Answers by")
    expect(picker.locator("option")).to_have_text(["m", "small", "large"])
    picker.select_option("large")
    expect(ask(page, SIGNED).locator(".turn-foot")).to_contain_text("large ·")
    assert provider.requests[-1].body["model"] == "large"
    page.reload()
    expect(picker).to_have_value("large")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390


def test_a_fact_that_a_question_states_is_kept_or_dismissed_below_its_answer(visit, tmp_path):
    with serving(tmp_path, repositories=(("sample", Source(str(SAMPLE))),)) as served:
        page = visit(served.ready())
        turn = ask(page, f"Cookies must be signed with a rotated key. We always use ruff here. {SIGNED}")
        proposals = turn.locator(".proposal")
        expect(proposals).to_have_count(2)
        expect(turn).not_to_contain_text("proposed as a fact")
        proposals.filter(has_text="We always use ruff here.").get_by_role("button", name="Keep").click()
        expect(page.locator("#notes")).to_contain_text("Kept")
        proposals.get_by_role("button", name="Dismiss").click()
        expect(proposals).to_have_count(0)
        (kept,) = served.get("/api/facts").json
        assert kept["text"] == "We always use ruff here."
        assert served.get("/api/facts?state=proposed").json == []


def test_a_source_opens_at_its_lines(served, visit):
    page = visit(served)
    turn = ask(page, SIGNED)
    cited = turn.get_by_role("button", name="Source 1, snip/sessions.py")
    first, last = map(int, re.findall(r"\d+", cited.first.get_attribute("title") or "")[-2:])
    cited.first.click()
    lines = page.locator(".lines-list li")
    text = (SAMPLE / "snip" / "sessions.py").read_text().splitlines()
    expect(lines).to_have_count(len(text))
    assert [line.text_content() for line in lines.all()] == text
    assert page.locator(".lit").evaluate_all("all => all.map((one) => Number(one.dataset.n))") == list(
        range(first, last + 1)
    )
    expect(page.locator(f"#L{first}")).to_be_in_viewport()
    page.get_by_role("button", name="Back to the sources").click()
    expect(page.get_by_role("tab", name="Sources")).to_be_visible()


def test_the_viewer_has_an_address_of_its_own(served, visit):
    found = served.post("/api/search", {"question": SIGNED, "repositories": ["sample"], "k": 1}).json["hits"][
        0
    ]
    page = visit(served, found["url"].removeprefix(served.url))
    expect(page.locator(f"#L{found['start_line']}")).to_be_in_viewport()
    expect(page.locator(f"#L{found['start_line']}")).to_have_class("lit")
    assert page.title().startswith("sessions.py")


def test_a_file_next_to_the_conversation_is_not_covered(served, visit):
    page = visit(served, "/repos/sample/view?path=snip/sessions.py", viewport={"width": 1280, "height": 800})
    expect(page.locator("#L1")).to_be_visible()
    middle, panel = (page.locator(name).bounding_box() for name in (".top", "#panel"))
    assert middle and panel and middle["x"] + middle["width"] <= panel["x"] + 1
    name = page.locator(".picker b")
    assert name.evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_references_to_lines_open_these_lines(written, provider, visit):
    provider.answers[:] = ["Sessions are signed in `sign_session` [1:35-36, 2]."]
    page = visit(written)
    turn = ask(page, SIGNED)
    line = turn.locator(".answer").get_by_role("button", name="Source 1, snip/sessions.py:35-36")
    expect(line).to_have_text("1:35")
    expect(turn.locator(".answer").get_by_role("button", name=re.compile("^Source 2, "))).to_have_text("2")
    line.click()
    expect(page.locator("#L35")).to_be_in_viewport()
    lit = page.locator(".lit").evaluate_all("all => all.map((one) => Number(one.dataset.n))")
    assert lit == [35, 36]


def test_pieces_are_shown_as_they_come_and_stop_keeps_them(written, provider, visit):
    provider.behaviours[:] = ["endless"]
    page = visit(written)
    page.get_by_label("Question", exact=True).fill(SIGNED)
    page.keyboard.press("Enter")
    expect(page.locator(".turn.writing .answer")).not_to_be_empty()
    expect(page.locator(".turn.writing .answer p > .caret")).to_be_visible()  # behind the last word
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".turn.stopped")).to_contain_text("Stopped: the answer is not complete")
    assert provider.client_left.wait(25)
    page.reload()
    expect(page.locator(".turn.stopped .answer")).to_contain_text("and on and on")
    provider.behaviours[:] = ["good"]
    page.locator(".turn.stopped").get_by_role("button", name="Ask again").click()
    expect(page.locator(".turn.done")).to_have_count(1)
    expect(page.locator(".turn.stopped")).to_have_count(1)


HELD = (
    "Sessions are signed in `sign_session` [2], and the signature is compared in constant time when a "
    "request comes with its session, before anything else of the session is read, which is where a "
    "session that was changed or that is too old is refused and its user has to log in again, with a "
    "key of the settings [1]."
)


def half_an_answer(written: Served, provider: ProviderServer, visit: Open) -> Page:
    """Ask; return the page that shows the first half, where the service waits for `provider.go_on`."""
    provider.behaviours[:], provider.answers[:] = ["held"], [HELD]
    provider.go_on.clear()
    page = visit(written)
    page.get_by_label("Question", exact=True).fill(SIGNED)
    page.keyboard.press("Enter")
    expect(page.locator(".turn.writing .answer")).to_contain_text("Sessions are signed")
    return page


def test_an_answer_goes_on_after_a_reload_and_in_another_tab(written, provider, visit):
    page = half_an_answer(written, provider, visit)
    expect(page.locator(".turn.writing .chip").first).to_contain_text(".py:")  # before the end
    expect(page.locator("#side li.current")).to_contain_text("1 turn")
    page.reload()
    expect(page.locator(".turn.writing .answer")).to_contain_text("Sessions are signed")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    other = visit(written, page.url.removeprefix(written.url))
    expect(other.locator(".turn.writing .answer")).to_contain_text("Sessions are signed")
    provider.go_on.set()
    for tab in (page, other):
        expect(tab.locator(".turn.done .answer")).to_contain_text("with a key of the settings")
        expect(tab.locator(".turn.done .chip").first).to_contain_text(".py:")

    provider.behaviours[:] = ["good"]
    ask(other, "Where is a short code made?")
    expect(page.locator(".turn.done")).to_have_count(2)
    other.locator("article.turn").first.hover()
    other.locator("article.turn").first.get_by_role("button", name="Delete this turn").click()
    other.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".turn")).to_have_count(1)


def test_a_lost_connection_says_so_and_the_answer_goes_on(written, provider, visit):
    page = half_an_answer(written, provider, visit)
    waiting: list[Route] = []
    page.route("**/api/turns/*/events", lambda route: waiting.append(route))
    for task in list(written.service.streams._tasks):
        task.get_loop().call_soon_threadsafe(task.cancel)
    expect(page.locator(".turn.writing")).to_contain_text("Reconnecting")
    page.unroute("**/api/turns/*/events")
    for route in waiting:
        route.continue_()
    provider.go_on.set()
    expect(page.locator(".turn.done .answer")).to_have_text(re.compile("^Sessions are signed .* settings"))
    expect(page.locator(".turn.done .answer")).not_to_have_text(re.compile("signed.*signed in"))
    visit.wrong[:] = [one for one in visit.wrong if "ERR_INCOMPLETE_CHUNKED_ENCODING" not in one]


def test_an_error_is_shown_and_can_be_retried(written, provider, visit):
    provider.behaviours[:] = ["unauthorized"]
    page = visit(written)
    turn = ask(page, SIGNED)
    expect(turn.get_by_role("alert")).to_be_visible()
    expect(turn.get_by_role("button", name="Ask again")).to_be_visible()
    expect(turn.locator(".answer")).to_contain_text("in function SessionSigner.sign_session")
    expect(turn.locator(".answer pre").first).to_contain_text("def sign_session")
    turn.get_by_role("button", name="Source 1, snip/sessions.py").first.click()
    expect(page.locator(".lit").first).to_be_visible()


def test_an_answer_of_what_is_probably_not_there_begins_with_its_warning(serve, visit):
    turn = ask(visit(serve().ready()), "How does Kafka rebalance its consumer groups?")
    warning = "Kafka and rebalance occur nowhere in this repository."
    expect(turn.locator(".answer > p").first).to_contain_text(warning)


# ---------------------------------------------------------------- conversations


def test_conversations_are_kept_searched_renamed_forked_exported_and_deleted(served, visit):
    page = visit(served)
    ask(page, "Where is a zebra rate limited?")
    ask(page, EXPIRE)
    side = page.get_by_role("navigation", name="Conversations")
    current = side.locator("li.current")
    expect(current).to_contain_text("2 turns")

    side.get_by_label("Search conversations").fill("zebra")
    expect(side.locator("li")).to_have_count(1)
    side.get_by_label("Search conversations").fill("in function")  # which only answers hold
    expect(side.locator(".match").first).to_contain_text("in function")
    side.get_by_label("Search conversations").fill("")
    expect(side.locator(".match")).to_have_count(0)  # until then, the rows are replaced

    current.get_by_role("button", name="More about").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Name", exact=True).fill("limits")
    page.keyboard.press("Enter")
    expect(current).to_contain_text("limits")

    page.locator("article.turn").first.hover()
    page.locator("article.turn").first.get_by_role("button", name="Fork the conversation here").click()
    expect(page.locator("article.turn")).to_have_count(1)
    expect(current).to_contain_text("fork")

    current.get_by_role("button", name="More about").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 2

    address = page.url
    current.get_by_role("button", name="More about").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    assert served.get(f"/api/conversations/{address.split('#c=')[1]}").status == 404


def test_a_conversation_that_went_on_elsewhere_is_not_deleted(served, visit):
    page = visit(served)
    ask(page, "Where is a giraffe rate limited?")
    page.wait_for_url(re.compile("#c="))
    conversation = page.url.split("#c=")[1]
    current = page.get_by_role("navigation", name="Conversations").locator("li.current")
    current.get_by_role("button", name="More about").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("with its 1 turn is deleted")
    assert served.post("/api/ask", {"question": EXPIRE, "conversation": conversation}).status == 200
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#notes").get_by_role("alert")).to_be_visible()
    assert len(served.get(f"/api/conversations/{conversation}").json["all_turns"]) == 2


def test_a_repository_is_found_among_many_by_a_part_of_its_name(tmp_path, serve, visit):
    names = [f"team/part-{number:03}" for number in range(210)]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.py").write_text("def f():\n    return 1\n")
    served = serve(repositories=tuple((name, Source(str(tmp_path / name))) for name in names)).ready()
    page = visit(served)
    expect(page.get_by_role("heading", name="Ask team/part-000 anything")).to_be_visible()
    page.locator(".picker").click()
    rows = page.locator(".repositories li")
    expect(rows).to_have_count(100)
    expect(page.locator("#repositories")).to_contain_text("110 more; filter by name to find them.")
    part = page.get_by_label("Filter repositories by name")
    expect(part).to_be_focused()
    page.keyboard.type("part-20")
    expect(part).to_have_value("part-20")
    expect(rows).to_have_count(10)
    page.keyboard.press("Home")
    page.keyboard.type("x")
    expect(part).to_have_value("xpart-20")
    expect(page.locator("#repositories")).to_contain_text("No repository matches.")
    part.fill("PART-209")  # of the second page that the server gives
    rows.locator(".repository").click()
    expect(page.get_by_role("heading", name="Ask team/part-209 anything")).to_be_visible()
    page.locator(".picker").click()
    expect(part).to_have_value("")


def test_a_conversation_goes_on_after_a_reload(served, visit):
    page = visit(served)
    ask(page, SIGNED)
    page.wait_for_url(re.compile("#c="))
    page.reload()
    expect(page.get_by_role("heading", name=SIGNED)).to_be_visible()
    ask(page, EXPIRE)
    page.reload()
    expect(page.locator("article.turn")).to_have_count(2)


def test_a_stale_answer_says_so_and_is_asked_again(serve, visit, tmp_path):
    served = serve(repositories=(("sample", sample_copy(tmp_path)),), refresh_s=0.0).ready()
    page = visit(served)
    ask(page, SIGNED)
    page.wait_for_url(re.compile("#c="))
    page.reload()
    expect(page.locator(".badge")).to_contain_text("Up to date")
    file = Path(served.settings.repositories[0][1].location) / "snip" / "sessions.py"
    file.write_text(
        re.sub(r"(?s)    def sign_session.*?\n\n", "    sign_session = None\n\n", file.read_text())
    )
    page.locator(".turn").hover()
    page.get_by_role("button", name="Re-check").click()
    badge = page.locator(".badge")
    expect(badge).to_contain_text("May be out of date")
    expect(page.get_by_text("Compared with the current code")).to_be_visible()
    expect(page.locator(".cite.changed, .cite.gone").first).to_be_visible()
    page.get_by_role("button", name="Sources").first.click()
    expect(page.locator(".source.changed, .source.gone").first).to_be_visible()
    page.get_by_text("What changed").first.press("Enter")
    expect(page.locator(".changes .diff .removed").first).to_be_visible()
    page.locator(".source.changed, .source.gone").first.press("Enter")
    expect(page.locator(".file-notice")).to_contain_text(re.compile("have changed|were deleted"))
    changed = page.locator("#panel > .changes")
    if changed.get_attribute("open") is None:
        changed.locator("summary").press("Enter")
    expect(changed.locator(".diff .removed").first).to_contain_text("sign_session")
    page.get_by_role("button", name="Back to the sources").click()
    badge.get_by_role("button", name="Ask again").click()
    expect(page.locator("article.turn.done")).to_have_count(2)
    expect(page.locator("article.turn.selected")).to_have_id(
        page.locator("article.turn").last.get_attribute("id") or ""
    )
    expect(page.locator(".source").first).to_be_visible()
    expect(page.locator(".source.changed, .source.gone")).to_have_count(0)  # they are those of the new answer


# ---------------------------------------------------------------- the panel


def test_the_trace_shows_what_each_signal_gave(served, visit):
    page = visit(served)
    ask(page, SIGNED)
    page.get_by_role("tab", name="Trace").click()
    rows = page.locator(".ranked")
    expect(rows.first).to_contain_text("snip/sessions.py")
    assert float(rows.first.locator(".ranked-score").inner_text()) > 0
    expect(rows.first.locator(".bar")).to_have_attribute("aria-label", re.compile(r"lexical \d"))
    found = rows.count()
    page.wait_for_url(re.compile("#c="))
    page.reload()
    expect(page.get_by_role("heading", name=SIGNED)).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Current search results")).to_be_visible()
    expect(rows).to_have_count(found)


def test_a_change_is_reviewed_by_keyboard(visit, tmp_path, committed_sample):
    root = shutil.copytree(committed_sample, tmp_path / "sample")
    path = root / "snip" / "sessions.py"
    path.write_text(path.read_text().replace("return ", "return  not ", 1))
    with serving(tmp_path, repositories=(("sample", Source(str(root))),)) as changed:
        page = visit(changed.ready())
        expect(page.get_by_role("button", name=re.compile("sample")).first).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("r")
        expect(page.get_by_role("textbox", name="Commits to compare")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=re.compile("Changed symbols"))).to_be_visible()
        expect(page.get_by_role("heading", name=re.compile("Tests to run"))).to_be_visible()
        assert serious(page) == []
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy as Markdown").press("Enter")
        expect(page.locator("#notes")).to_contain_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("## `HEAD`") and "### Tests to run" in copied


def test_calls_wiki_and_subject_are_reached_by_keyboard(served, visit):
    page = visit(served, reduced_motion="reduce")
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    name = page.get_by_label("Definition", exact=True)
    expect(name).to_be_focused()
    name.fill("sign_session")
    page.keyboard.press("Enter")
    nodes = page.locator("svg.calls a")
    expect(nodes.first).to_be_visible()
    assert 3 <= nodes.count() <= 12
    for node in nodes.all():
        assert re.match(r"/repos/sample/view\?path=.+#L\d+-L\d+$", node.get_attribute("href") or "")
    expect(page.locator("figcaption")).to_contain_text(
        re.compile("Left out: |is (?:possibly )?(?:called|used) in")
    )
    expect(
        page.get_by_role("link", name=re.compile(r"SessionSigner\._signature, .* \(is called\)"))
    ).to_be_visible()
    assert not serious(page)
    nodes.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".lit").first).to_be_visible()
    page.get_by_role("button", name="Calls of these lines").press("Enter")
    expect(page.locator("svg.calls .subject .call-name")).to_have_text("login")
    page.get_by_label("What is drawn").select_option("flow")
    expect(page.locator("figcaption")).to_contain_text("What a call of login leads to")

    page.keyboard.press("Escape")
    page.keyboard.press("w")
    page.get_by_role("button", name=re.compile("^Overview")).press("Enter")
    expect(page.locator(".wiki-page h1")).to_have_text("Overview")
    assert not serious(page)
    page.locator(".wiki-page a[href*='/wiki?page=']").last.press("Enter")
    expect(page.locator(".wiki-page h1")).not_to_have_text("Overview")
    page.get_by_role("button", name="All pages").press("Enter")
    page.get_by_role("button", name=re.compile("^Snip")).press("Enter")
    page.locator(".wiki-page a[href*='/view?path=']").first.press("Enter")
    expect(page.locator(".lit").first).to_be_visible()
    page.get_by_role("button", name="Back to the wiki").press("Enter")
    page.get_by_role("button", name="Ask about this").press("Enter")
    question = page.get_by_label("Question", exact=True)
    expect(question).to_be_focused()
    about = page.get_by_role("group", name=re.compile("in the next question"))
    expect(about).to_contain_text(re.compile(r"it = snip/\w+\.py"))

    about.get_by_role("button", name="Clear").press("Enter")
    expect(about.get_by_role("button")).to_have_count(0)
    expect(question).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    page.get_by_label("Definition or file").fill("sign_session")
    page.keyboard.press("Enter")
    expect(about).to_contain_text("it = sign_session")
    turn = ask(page, "Who calls it?")
    expect(turn.get_by_role("button", name="it = SessionSigner.sign_session")).to_be_visible()
    expect(about.get_by_role("button", name="Clear")).to_have_count(0)
    expect(about).to_contain_text("it = SessionSigner.sign_session")


def test_the_command_about_sets_the_subject_and_asks_for_it_without_a_name(served, visit):
    page = visit(served)
    question = page.get_by_label("Question", exact=True)
    question.fill("/about")
    page.keyboard.press("Enter")
    page.get_by_label("Definition or file").fill("Storage")
    page.keyboard.press("Enter")
    expect(page.locator(".about")).to_contain_text("it = Storage")
    question.fill("/about sign_session")
    page.keyboard.press("Enter")
    expect(page.locator(".about")).to_contain_text("it = sign_session")
    expect(page.locator("article.turn")).to_have_count(0)


def test_a_page_of_the_wiki_and_a_question_have_addresses(served, visit):
    page = visit(served, "/repos/sample/wiki?page=glossary")
    expect(page.locator(".wiki-page h1")).to_have_text("Glossary")
    page.goto(f"{served.url}/?repository=sample&about=sign_session&question=Why")
    expect(page.get_by_label("Question", exact=True)).to_have_value("Why")
    expect(page.locator(".about")).to_contain_text("it = sign_session")


def test_all_facts_are_listed_confirmed_and_forgotten(serve, visit):
    served = serve().ready()
    add = {"repository": "sample"}
    old = served.post("/api/facts", {"text": "Lines have 88 characters", **add}).json
    served.post("/api/facts", {"text": "Lines have 100 characters", "supersedes": [old["id"]], **add})
    served.post("/api/ask", {"question": f"We always use ruff here. {SIGNED}", "repositories": ["sample"]})
    page = visit(served, reduced_motion="reduce")
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    headings = page.locator(".fact-list h3")
    expect(headings).to_have_text(["Proposed (1)", "Confirmed (1)", "Superseded (1)"])
    expect(page.locator(".fact.superseded")).to_contain_text("replaced by “Lines have 100 characters”")
    assert not serious(page)
    page.get_by_role("button", name="Keep: We always use ruff here.").press("Enter")
    expect(headings).to_have_text(["Confirmed (2)", "Superseded (1)"])
    page.get_by_role("button", name="Forget: Lines have 88 characters").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Forget").press("Enter")
    expect(headings).to_have_text(["Confirmed (2)"])
    page.get_by_label("A new fact").fill("Tests need no network")
    page.keyboard.press("Enter")
    expect(headings).to_have_text(["Confirmed (3)"])
    assert len(served.get("/api/facts?repository=sample&closed=true").json) == 3


def test_code_is_searched_by_meaning_by_text_and_by_expression(served, visit):
    page = visit(served)
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    field = page.get_by_label("Search the code", exact=True)
    expect(field).to_be_focused()
    field.fill(SIGNED)
    field.press("Enter")
    results = page.locator(".search-results")
    expect(results.get_by_role("button").first).to_contain_text("snip/sessions.py")
    expect(results).to_contain_text("the best first")

    field.fill("def ")
    page.get_by_label("Kind of search").select_option("exact")
    expect(results).to_contain_text(re.compile(r"\d+ matches in \d+ files"))
    page.get_by_label("Only these files").fill("snip/sessions.py")
    page.get_by_label("Only these files").press("Enter")
    expect(results).to_contain_text("in 1 file.")

    field.fill("def [")
    page.get_by_label("Kind of search").select_option("regex")
    expect(results.get_by_role("alert")).to_contain_text("missing ]")
    field.fill(r"^class \w+")
    field.press("Enter")
    hit = results.get_by_role("button").first
    expect(hit).to_contain_text("class ")
    hit.click()
    expect(page.locator(".lit").first).to_contain_text("class ")
    page.get_by_role("button", name="Back to the search").click()
    expect(field).to_have_value(r"^class \w+")
    expect(results.get_by_role("button").first).to_contain_text("class ")
    field.fill("no such text anywhere")
    page.get_by_label("Kind of search").select_option("exact")
    expect(results).to_contain_text("No match")


def test_a_repository_is_indexed_again_from_the_page(served, visit):
    page = visit(served)
    page.get_by_role("button", name=re.compile("^Repository: sample")).click()
    popup = page.get_by_role("dialog", name="Repositories")
    jobs = served.service.registry.entry("sample").jobs
    popup.get_by_role("button", name="Update the index of sample").click()
    served.wait_until(lambda: served.service.registry.entry("sample").jobs == jobs + 1)
    expect(popup.get_by_role("button", name="Update the index of sample")).to_be_visible()
    expect(popup).to_contain_text("files")


def test_the_question_has_the_focus_before_anything_is_loaded_and_never_takes_it_back(served, visit):
    page = visit(served, "/health")
    held: list[Route] = []
    page.route("**/api/repositories*", lambda route: held.append(route), times=1)
    page.goto(served.url)
    question = page.get_by_label("Question", exact=True)
    expect(question).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    held.pop().continue_()
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    expect(page.get_by_label("Search conversations")).to_be_focused()


def test_a_turn_stored_while_the_conversation_is_loaded_stays(served, visit):
    """What was loaded is older than the turn."""
    page = visit(served)
    loading: list[Route] = []
    ask(page, SIGNED)
    page.wait_for_url(re.compile("#c="))
    conversation = page.url.partition("#c=")[2]
    page.route(f"**/api/conversations/{conversation}", lambda route: loading.append(route), times=1)
    other = {"question": "Who calls sign_session?", "conversation": conversation}
    assert served.post("/api/ask", other).status == 200
    served.wait_until(lambda: page.evaluate("1") and loading)
    older = loading[0].fetch()
    ask(page, EXPIRE).evaluate("turn => turn.dataset.same = 'yes'")
    with page.expect_event("requestfinished", lambda request: request.url.endswith(conversation)):
        loading[0].fulfill(response=older)
    page.evaluate(DRAWN)
    expect(page.locator("article.turn[data-same]")).to_have_count(1)


def test_a_question_asked_while_the_conversation_is_loaded_is_shown_once(served, visit):
    """What was loaded may have the question, which has no id on the page yet."""
    page = visit(served)
    loading: list[Route] = []
    asking: list[Route] = []
    ask(page, SIGNED)
    page.wait_for_url(re.compile("#c="))
    conversation = page.url.partition("#c=")[2]
    loads = f"**/api/conversations/{conversation}"
    page.route(loads, lambda route: loading.append(route))
    other = {"question": "Who calls sign_session?", "conversation": conversation}
    assert served.post("/api/ask", other).status == 200
    served.wait_until(lambda: page.evaluate("1") and loading)
    page.route("**/api/ask", lambda route: asking.append(route))
    page.get_by_label("Question", exact=True).fill(EXPIRE)
    page.keyboard.press("Enter")
    served.wait_until(lambda: page.evaluate("1") and asking)
    shown = page.locator("article.turn").count()  # with the other question, if a load before these had it
    with page.expect_event("requestfinished", lambda request: request.url.endswith(conversation)):
        loading[0].continue_()
    page.evaluate(DRAWN)
    expect(page.locator("article.turn")).to_have_count(shown)
    page.unroute(loads)
    for later in loading[1:]:
        later.continue_()
    asking[0].continue_()
    expect(page.locator("article.turn.done")).to_have_count(3)


def test_keys_do_what_the_list_of_keys_says(served, visit):
    page = visit(served)
    ask(page, SIGNED)
    ask(page, EXPIRE)
    page.keyboard.press("Escape")
    selected = page.locator(".turn.selected")
    page.keyboard.press("k")
    expect(selected).to_contain_text(SIGNED)
    page.keyboard.press("j")
    expect(selected).to_contain_text(EXPIRE)
    page.keyboard.press("o")
    expect(page.locator(".lit").first).to_be_visible()
    expect(page.locator(".file-body")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".lit")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    expect(page.get_by_label("Search conversations")).to_be_focused()
    expect(page.locator("#veil")).to_be_hidden()


def test_a_key_is_asked_for_and_stays_out_of_every_address(serve, visit):
    served = serve(keys=("the-key-of-this-test",)).ready()
    page = visit(served)
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.get_by_label("Key", exact=True).fill("a wrong one")
    page.keyboard.press("Enter")
    page.get_by_label("Key", exact=True).fill("the-key-of-this-test")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    ask(page, SIGNED)
    assert addresses and not [url for url in addresses if "the-key" in url]
    assert "the-key" not in page.evaluate("JSON.stringify([localStorage, document.cookie, location.href])")
    page.wait_for_url(re.compile("#c="))
    page.reload()
    expect(page.get_by_role("heading", name=SIGNED)).to_be_visible()


# ---------------------------------------------------------------- what never runs

# Every trap leaves a trace in a window, in the title, or at the provider's server.
RUN = "top.ran=1;parent.ran=1;ran=1;document.title='ran';new Image().src='BEACON/ran';fetch('BEACON/ran')"
HOSTILE = (Path(__file__).parent / "hostile.md").read_text(encoding="utf-8").replace("RUN", RUN)


@pytest.fixture
def hostile(provider: ProviderServer) -> str:
    """The text, its traps set to be seen by the provider's server."""
    beacon = provider.base_url.removesuffix("/v1")
    return HOSTILE.replace("BEACON", beacon)


ACTIVE = """() => {
  const names = ["SCRIPT", "STYLE", "IFRAME", "FORM", "INPUT", "META", "BASE", "LINK", "OBJECT", "svg"];
  const acts = (a) => a.name.startsWith("on") || /^\\s*(javascript|data|vbscript):/i.test(a.value);
  return [...document.querySelectorAll(".answer *:not(.icon), .panel *:not(.icon)")]
    .filter((one) => !one.closest(".search-form, .calls"))  // our own; texts of others are set as text
    .filter((one) => names.includes(one.tagName) || [...one.attributes].some(acts))
    .map((one) => one.outerHTML);
}"""


def assert_nothing_ran(page: Page, provider: ProviderServer) -> None:
    for frame in page.frames:
        assert frame.evaluate("typeof window.ran") == "undefined", frame.url
    assert page.title() != "ran"
    assert not [request.path for request in provider.requests if "ran" in request.path]
    assert page.locator("#thread").count() == 1
    assert not page.evaluate(ACTIVE)


def test_nothing_in_an_answer_runs(written, provider, hostile, visit):
    provider.answers[:] = [hostile]
    page = visit(written)
    turn = ask(page, "Show me something hostile")
    expect(turn.locator("figure.diagram, .diagram-error")).to_have_count(2)
    for link in turn.locator(".answer a").all():
        assert re.match(r"https?:|mailto:", link.get_attribute("href") or "")
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    turn.locator(".answer").click(position={"x": 5, "y": 5})
    turn.locator(".answer table").hover()
    expect(turn.locator(".answer")).to_contain_text("<script>")  # it is shown, as the text that it is
    assert_nothing_ran(page, provider)
    page.wait_for_url(re.compile("#c="))
    page.reload()  # the title in the list, the question, and the answer as it was stored
    expect(page.locator(".turn.done figure.diagram, .turn.done .diagram-error")).to_have_count(2)
    assert_nothing_ran(page, provider)


@pytest.mark.parametrize("path", ["hostile.md", "hostile.html"])
def test_nothing_in_a_file_runs(written, provider, visit, path):
    page = visit(written, f"/repos/snip/view?path={path}#L2-L3")
    expect(page.locator("#L2")).to_contain_text("<script>")
    assert_nothing_ran(page, provider)


def test_nothing_in_a_question_a_name_or_an_address_runs(written, provider, hostile, visit):
    trap = f'"><img src=x onerror="{RUN}">'
    page = visit(written)
    provider.answers[:] = ["Fine [1]."]
    ask(page, trap)
    conversation = page.url
    page.wait_for_url(re.compile("#c="))
    conversation = page.url.split("#c=")[1]
    renamed = written.request("PATCH", f"/api/conversations/{conversation}", {"name": trap})
    assert renamed.status == 200
    page.goto(f"{written.url}/repos/snip/view?path={trap}#L1-L2")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_text(trap).first).to_be_visible()
    assert_nothing_ran(page, provider)


TRAP = f'"><img src=x onerror="{RUN}"><script>{RUN}</script>'
PLAIN = set(
    "id turn conversation state kind mode repository commit blob model asked answered created".split()
)
"""Fields that are no text: ids, names of states, times."""


def trapped(value: Any, key: str = "") -> Any:
    """The value with a trap in every text."""
    if isinstance(value, str):
        return value if key in PLAIN or "_at" in key else f"{value} {TRAP}"
    if isinstance(value, list):
        return [trapped(one, key) for one in value]
    return {name: trapped(one, name) for name, one in value.items()} if isinstance(value, dict) else value


def test_nothing_in_any_field_of_a_stored_turn_runs(written, provider, visit):
    provider.answers[:] = ["It is checked in `authenticate` [1], and `check_all` says so."]
    page = visit(written)
    ask(page, SIGNED)
    page.wait_for_url(re.compile("#c="))
    step = {"name": "look search", "query": "token", "result": "5 places", "error": "none", "seconds": 0.1}
    flagged = {"kind": "uncited", "text": "It is", "reason": "few words", "begin_char": 0, "end_char": 5}

    def poison(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        for turn in body["all_turns"] if isinstance(body, dict) else ():
            turn["trace"] = [step, *(turn.get("trace") or [])]
            turn["support"] = {
                **(turn.get("support") or {}),
                "flagged": [{**flagged, "cited": [1]}, {**flagged, "kind": "unknown_name", "cited": []}],
                "unknown_names": ["check_all"],
                "complete": False,
            }
        route.fulfill(response=answer, json=trapped(body))

    page.route(re.compile(r"/api/conversations/[^/?]+$"), poison)
    page.reload()
    turn = page.locator("article.turn").last
    expect(turn.get_by_text("<script>").first).to_be_visible()
    for box in page.locator("details").all():
        box.evaluate("one => { one.open = true; }")
    expect(turn.locator(".looked li").first).to_contain_text("<script>")
    expect(turn.locator(".support li").first).to_contain_text("<script>")
    page.get_by_role("button", name="Sources (s)").click()
    for name in ("Sources", "Trace", "Calls", "Facts"):
        page.get_by_role("tab", name=name).click()
        assert_nothing_ran(page, provider)


def test_nothing_in_the_calls_the_wiki_and_the_facts_runs(written, provider, visit):
    page = visit(written, reduced_motion="reduce")
    written.post("/api/facts", {"repository": "snip", "text": f"A fact {TRAP}"})
    link = f"[x](/repos/snip/view?path={TRAP}) [y](javascript:{RUN}) [z](//evil.example/repos/) <b>{TRAP}</b>"

    def poison(route: Route) -> None:
        answer = route.fetch()
        body = trapped(answer.json())
        for one in body.get("pages", []):
            one |= {"id": one["id"].replace(f" {TRAP}", ""), "parent": ""}
        if "text" in body:
            body["text"] = f"# {TRAP}\n\n{link}\n\n```mermaid\ngraph TD\n A[{TRAP}]\n```\n"
        if "view" in body:
            body["view"] = "callers"
            for one in body["nodes"]:
                one["kind"] = "code"
        route.fulfill(response=answer, json=body)

    page.route(re.compile(r"/api/repositories/snip/(calls|wiki)"), poison)
    expect(page.get_by_role("heading", name="Ask snip anything")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.get_by_label("Definition", exact=True).fill("sign_session")
    page.keyboard.press("Enter")
    expect(page.locator("figcaption")).to_contain_text("<script>")
    for node in page.locator("svg.calls a").all():
        assert (node.get_attribute("href") or "").startswith("/repos/snip/view?path=")
    elements = page.locator("svg.calls *").evaluate_all("all => [...new Set(all.map((one) => one.tagName))]")
    assert set(elements) == {"defs", "marker", "path", "a", "title", "rect", "text"}
    assert_nothing_ran(page, provider)
    page.keyboard.press("Escape")
    page.keyboard.press("w")
    expect(page.locator(".wiki-entry").first).to_contain_text("<script>")
    page.locator(".wiki-entry").first.click()
    expect(page.locator(".wiki-page h1")).to_contain_text("<script>")
    hrefs = page.locator(".wiki-page a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert all(re.match(r"/repos/|https?:", href) for href in hrefs), hrefs
    expect(page.locator(".wiki-page figure.diagram, .wiki-page .diagram-error")).to_have_count(1)
    assert_nothing_ran(page, provider)
    page.keyboard.press("a")
    expect(page.locator(".fact q").first).to_contain_text("<script>")
    assert_nothing_ran(page, provider)


def test_a_diagram_is_drawn_as_a_picture(written, provider, visit):
    provider.answers[:] = ["```mermaid\ngraph TD\n  A[Request] --> B[Session]\n```\n\nSo it is [1]."]
    page = visit(written, color_scheme="light")
    turn = ask(page, "Draw it")
    picture = turn.locator("figure.diagram img")
    expect(picture).to_be_visible()
    assert picture.evaluate("one => one.naturalWidth") > 50
    light = picture.get_attribute("src") or ""
    assert light.startswith("blob:")
    assert turn.locator("svg:not(.icon)").count() == 0
    page.emulate_media(color_scheme="dark")
    expect(picture).not_to_have_attribute("src", light)


def test_a_diagram_that_cannot_be_drawn_is_shown_as_text(written, provider, visit):
    provider.answers[:] = ["```mermaid\nthis is no diagram\n```\n"]
    turn = ask(visit(written), "Draw it")
    expect(turn.locator(".diagram-error")).to_be_visible()
    expect(turn.locator("pre")).to_contain_text("this is no diagram")


def test_every_diagram_of_a_wiki_is_one_that_mermaid_draws(served, visit):
    served.get("/api/repositories/sample/wiki")  # opens the repository
    contents = wiki_contents(wiki_structure(served.service.registry.entry("sample").repository))
    diagrams = re.findall(r"```mermaid\n(.*?)\n```", contents, re.DOTALL)
    assert len(diagrams) > 3
    page = visit(served)
    main = page.locator("script[type=module]").get_attribute("src") or ""
    page.goto(served.url + main.replace("js/main.js", "diagram.html"))
    for number, text in enumerate(diagrams):
        render = "async ([id, text]) => (await mermaid.render(id, text)).svg"
        drawn = page.evaluate(render, [f"wiki{number}", text])
        assert drawn.startswith("<svg"), text


def test_a_name_with_underscores_is_drawn_as_it_is(served, visit):
    page = visit(served)
    main = page.locator("script[type=module]").get_attribute("src") or ""
    page.goto(served.url + main.replace("js/main.js", "diagram.html"))
    render = """async ([id, settings, text]) => {
        mermaid.initialize({startOnLoad: false, ...settings});
        const box = document.createElement("div");
        box.innerHTML = (await mermaid.render(id, text)).svg;
        const bold = [...box.querySelectorAll("strong, em, [font-weight=bold], [font-style=italic]")];
        return [box.textContent, bold.map((one) => one.textContent).join("")];
    }"""
    text = 'flowchart LR\n  n1["rag/__init__.py"]\n  n2["x"]\n  n1 --> n2'
    for number, settings in enumerate(({}, {"htmlLabels": False, "flowchart": {"htmlLabels": False}})):
        shown, bold = page.evaluate(render, [f"name{number}", settings, text])
        assert "rag/__init__.py" in shown
        assert not bold.strip()


LABELS = [
    ('flowchart LR\n  A["<b>now</b>"] --> B["a > b"]', ["<b>now</b>", "a > b"]),
    ('flowchart LR\n  A{"List<String>?"} -->|"p > q"| B["a <i"]', ["List<String>?", "p > q", "a <i"]),
    (
        'flowchart LR\n  A[["Map<String, List<Int>>"]] --> B[List<Int>]',
        ["Map<String, List<Int>>", "List<Int>"],
    ),
    (
        'flowchart LR\n  A["one<br/>two"] --> B["rag/serve/access/rate_limits.py"]',
        ["one", "two", "rag/serve/access/rate_limits.py"],
    ),
    ("sequenceDiagram\n  A->>B: <img src=x> of List<Int>", ["<img src=x> of List<Int>"]),
    ("classDiagram\n  A <|-- B\n  A <.. C\n  class A {\n    +get() Map<Int,Int>\n  }", ["Map<Int,Int>"]),
    ("stateDiagram-v2\n  [*] --> S\n  S --> T: List<Int>\n  state C <<choice>>", ["List<Int>"]),
]


def test_tags_in_a_diagram_are_shown_as_text(served, visit):
    page = visit(served)
    main = page.locator("script[type=module]").get_attribute("src") or ""
    page.goto(served.url + main.replace("js/main.js", "diagram.html"))
    for number, (text, labels) in enumerate(LABELS):
        drawn = page.evaluate(
            """([id, text]) => new Promise((resolve) => {
              addEventListener("message", ({ data }) => {
                if (data.id === id && (data.svg || data.error)) resolve(data);
              });
              postMessage({ id, text, dark: false }, "*");
            })""",
            [number, text],
        )
        assert "error" not in drawn, drawn
        picture = ElementTree.fromstring(drawn["svg"])
        lines = ["".join(one.itertext()) for one in picture.iter() if one.tag.endswith(("}text", "}tspan"))]
        assert [label for label in labels if not any(label in line for line in lines)] == [], text
        assert not [one.tag for one in picture.iter() if one.tag.endswith(("}b", "}i", "}img"))], text


# ---------------------------------------------------------------- for everybody


def serious(page: Page) -> list[str]:
    """What axe finds, at every level, as lines."""
    if not page.evaluate("typeof window.axe !== 'undefined'"):
        page.evaluate(AXE)
    page.evaluate(
        "Promise.all(document.getAnimations().map((one) => one.finished.catch(() => {})).slice(0, 0))"
    )
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['impact']} {one['id']}: {json.dumps([node['html'][:160] for node in one['nodes'][:3]])}"
        for one in found["violations"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(served, visit, scheme):
    page = visit(served, color_scheme=scheme, reduced_motion="reduce")
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    assert not serious(page)
    ask(page, SIGNED)
    expect(page.locator(".source pre").first).to_contain_text("def")
    assert not serious(page)
    page.get_by_role("tab", name="Trace").click()
    expect(page.locator(".ranked").first).to_be_visible()
    assert not serious(page)
    page.get_by_role("tab", name="Sources").click()
    page.locator(".source").first.click()
    expect(page.locator(".lit").first).to_be_visible()
    assert not serious(page)
    page.get_by_role("button", name="Search (c)").click()
    page.get_by_label("Search the code", exact=True).fill(SIGNED)
    page.keyboard.press("Enter")
    expect(page.locator(".search-hits pre").first).to_contain_text("def")
    assert not serious(page), "Search"
    page.get_by_role("button", name=re.compile("^Repository")).click()
    assert not serious(page)
    page.keyboard.press("Escape")
    page.locator("li.current").get_by_role("button", name="More about").click()
    assert not serious(page)
    page.get_by_role("menuitem", name="Rename").click()
    assert not serious(page)


def test_a_phone_shows_one_thing_at_a_time(served, visit):
    page = visit(served, viewport={"width": 360, "height": 740}, has_touch=True, reduced_motion="reduce")
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()
    assert not serious(page)
    turn = ask(page, SIGNED)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.get_by_label("Evidence", exact=True)).to_be_hidden()
    panel = page.get_by_label("Evidence", exact=True)
    page.get_by_role("button", name="Sources").first.click()
    long_line = panel.get_by_role("button", name="Open source").first
    expect(long_line).to_be_visible()
    assert (long_line.bounding_box() or {})["width"] < 360
    page.get_by_role("tab", name="Search").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not serious(page)
    closing = page.get_by_role("button", name="Close the panel")
    edges = closing.bounding_box() or {}
    assert edges["x"] + edges["width"] <= 360, "not cut off"
    closing.click()
    turn.get_by_role("button", name="Source 1").first.click()
    assert (panel.bounding_box() or {})["width"] == 360
    assert not serious(page)
    page.get_by_role("button", name="Close the file").click()
    expect(page.get_by_role("navigation", name="Conversations")).to_be_hidden()
    page.get_by_role("button", name="Conversations", exact=True).click()
    expect(page.get_by_role("navigation", name="Conversations")).to_be_visible()
    assert not serious(page)
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_role("heading", name="Ask sample anything")).to_be_visible()


def test_a_phone_shows_the_whole_name_of_a_file(visit, tmp_path):
    root = shutil.copytree(SAMPLE, tmp_path / "sample", ignore=shutil.ignore_patterns("__pycache__"))
    name = "the_long_name_of_a_module_that_one_line_of_a_phone_cannot_hold.py"
    (root / "snip" / name).write_text("def hello():\n    return 1\n")
    with serving(tmp_path, repositories=(("sample", Source(str(root))),)) as long:
        page = visit(
            long.ready(), f"/repos/sample/view?path=snip/{name}", viewport={"width": 360, "height": 740}
        )
        shown = page.locator(".file-name b")
        expect(shown).to_have_text(name)
        assert shown.evaluate(
            "one => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight"
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not serious(page)


def test_a_chosen_theme_stays(served, visit):
    page = visit(served, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name=re.compile("^Theme")).click()
    page.get_by_role("button", name=re.compile("^Theme: Light")).click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name=re.compile("^Theme: Dark")).click()
    assert page.evaluate(ground) == light


# ---------------------------------------------------------------- what a model did, and what holds of it

READ = [("read", json.dumps({"path": "snip/app.py", "start": 1, "end": 12}))]
DOUBTFUL = "🙂 It calls **`retry_delay_forever`** [1].\n\nThe sky over the harbour was green that evening."


@pytest.fixture
def looking(serve: Callable[..., Served], provider: ProviderServer) -> Served:
    """A server whose model may look again."""
    return serve(engine={"model": "m", "base_url": provider.base_url, "steps": 4}).ready()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_second_look_and_the_flagged_statements_are_shown_and_stay(looking, provider, visit, scheme):
    provider.answers[:] = [READ, DOUBTFUL]
    phone = {"width": 360, "height": 740}
    page = visit(looking, color_scheme=scheme, reduced_motion="reduce", viewport=phone)
    ask(page, SIGNED)
    for _ in range(2):  # as it comes, and after a reload
        turn = page.locator(".turn.done")
        expect(turn.locator(".looked summary")).to_have_text("Looked again: 1 step")
        turn.locator(".looked summary").click()
        expect(turn.locator(".looked li")).to_contain_text("read: snip/app.py")
        flags = turn.locator(".answer .flag")
        expect(flags.first).to_have_attribute("aria-label", re.compile("retry_delay_forever"))
        assert "⸢" not in turn.inner_text()
        expect(turn.locator(".answer strong code")).to_have_text("retry_delay_forever")
        expect(turn.locator(".answer p").first.locator(".flag")).not_to_have_count(0)
        expect(turn.locator(".answer p").last.locator(".flag.uncited")).to_have_count(1)
        flags.last.focus()
        page.keyboard.press("Enter")
        expect(turn.locator(".support li").last).to_be_focused()
        expect(turn.locator(".support li").last).to_contain_text("Cites no source")
        assert not serious(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.reload()


def test_a_supported_answer_has_no_mark(looking, provider, visit):
    provider.answers[:] = ["Sessions are signed in `sign_session` [1]."]
    page = visit(looking)
    turn = ask(page, SIGNED)
    expect(turn.locator(".answer")).to_contain_text("Sessions are signed")
    expect(turn.locator(".flag, .support, .looked")).to_have_count(0)


def test_steps_are_shown_while_the_answer_is_written(looking, provider, visit):
    provider.answers[:], provider.behaviours[:] = [READ, HELD], ["good", "held"]
    provider.go_on.clear()
    page = visit(looking)
    page.get_by_label("Question", exact=True).fill(SIGNED)
    page.keyboard.press("Enter")
    expect(page.locator(".turn.writing .looked")).to_contain_text("Looked again: 1 step")
    page.reload()
    expect(page.locator(".turn.writing .looked")).to_contain_text("Looked again: 1 step")
    provider.go_on.set()
    expect(page.locator(".turn.done .looked")).to_contain_text("Looked again: 1 step")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_question_waits_for_the_first_index_also_after_a_reload(served, visit, width):
    page = visit(served, viewport={"width": width, "height": 900})
    refused = {"error": {"message": "sample is being indexed", "code": "indexing"}}
    page.route("**/api/ask", lambda route: route.fulfill(status=503, json=refused))
    page.get_by_label("Question", exact=True).fill(SIGNED)
    page.keyboard.press("Enter")
    turn = page.locator("article.turn")
    expect(turn.locator(".waiting")).to_have_text("Indexing sample; the answer follows")
    expect(turn.locator(".ended")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.reload()
    expect(turn.locator(".waiting")).to_have_text("Indexing sample; the answer follows")
    page.unroute("**/api/ask")
    expect(turn.locator(".answer")).to_contain_text("sign_session")
    expect(turn).to_have_class(re.compile(r"\bdone\b"))
    page.reload()
    expect(turn).to_have_count(1)  # it is stored, and not asked once more
