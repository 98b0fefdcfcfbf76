"""The web page as HTTP sees it: what is sent, under which policy, and what is never sent."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from live_server import sample_copy

from rag.resources import packaged, shipped
from rag.types import Source

PAGE = packaged("serve/page/static")
VENDOR = PAGE / "vendor"
HOSTILE = [
    "../../../etc/passwd",
    "/etc/passwd",
    "snip/../../secret",
    "..%2f..%2fsecret",
    "out",
    "folder/secret",
    "\0",
]


class Tags(HTMLParser):
    """Every start tag with its attributes, and the text within scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.inline += data.strip()


def linked(html: str) -> list[str]:
    return re.findall(r'(?:src|href)="(/static/[^"]+)"', html)


def test_the_page_holds_no_script_or_style_of_its_own(served):
    for path in ("/", "/repos/sample/view?path=README.md", "/repos/sample/wiki?page=overview"):
        html = served.get(path).body.decode()
        found = Tags(html)
        assert not found.inline
        for tag, attributes in found.tags:
            assert "style" not in attributes, tag
            assert not [name for name in attributes if name.startswith("on")], tag
            assert "javascript:" not in json.dumps(attributes)


def test_the_policy_lets_only_our_own_files_run(served):
    policy = served.get("/").headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == rules["style-src"] == "'self'"
    assert rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in policy


def test_the_frame_of_diagrams_has_no_origin_and_no_network(served):
    version = linked(served.get("/").body.decode())[0].split("/")[2]
    reply = served.get(f"/static/{version}/diagram.html")
    policy = reply.headers["content-security-policy"]
    assert "sandbox allow-scripts;" in f"{policy};"
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy and "img-src" not in policy
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    assert reply.headers["x-frame-options"] == "SAMEORIGIN"
    assert served.get("/").headers["x-frame-options"] == "DENY"


def test_a_frame_without_an_origin_loads_public_files_and_nothing_else(served):
    path = linked(served.get("/").body.decode())[0]
    assert served.get(path, headers={"Origin": "null"}).status == 200
    assert served.get("/api/repositories", headers={"Origin": "null"}).status == 403
    assert served.post("/api/ask", {"question": "Why?"}, headers={"Origin": "null"}).status == 403
    assert served.get(path, headers={"Origin": "http://elsewhere.example"}).status == 403


def test_every_file_that_the_page_names_is_there_and_lasts(served):
    files = linked(served.get("/").body.decode())
    assert len(files) > 5
    for path in files:
        reply = served.get(path)
        assert reply.status == 200, path
        assert "immutable" in reply.headers["cache-control"]
        assert reply.headers["x-content-type-options"] == "nosniff"
    script = next(path for path in files if path.endswith("main.js"))
    assert served.get(script).headers["content-type"].startswith("text/javascript")
    for module in (PAGE / "js").glob("*.js"):
        for other in re.findall(r'from "(\.[^"]+)"', module.read_text()):
            assert (module.parent / other).resolve().is_file(), f"{module.name} imports {other}"


def test_modules_are_short_and_plain():
    for module in [*(PAGE / "js").glob("*.js"), *(PAGE / "css").glob("*.css")]:
        text = module.read_text()
        assert text.count("\n") < 300, module
        assert not re.search(r"\.innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), (
            module
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), f"{module} names another server"


def test_a_file_that_is_known_is_not_sent_again(served):
    first = served.get("/")
    assert served.get("/", headers={"If-None-Match": first.headers["etag"]}).status == 304
    zipped = served.get("/", headers={"Accept-Encoding": "gzip"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == first.body


def test_files_of_another_version_are_not_mixed_in(served):
    path = linked(served.get("/").body.decode())[0]
    version = path.split("/")[2]
    assert served.get(path.replace(version, "0" * len(version))).status == 404


@pytest.mark.parametrize("path", [*HOSTILE[:4], "index.html/../../../pyproject.toml", "vendor/obtain.py", ""])
def test_nothing_but_the_files_of_the_page_is_sent(served, path):
    version = linked(served.get("/").body.decode())[0].split("/")[2]
    reply = served.get(f"/static/{version}/{path}")
    assert reply.status == 404
    assert "root:" not in reply.body.decode()


def test_vendored_files_are_those_of_their_packages():
    manifest = json.loads((VENDOR / "manifest.json").read_text())
    named = {file["name"]: file["sha256"] for package in manifest for file in package["files"]}
    there = {path.name for path in VENDOR.iterdir() if path.is_file()}
    assert there == set(named) | {"manifest.json"}
    for name, digest in named.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
    notice = shipped("data/NOTICE").read_text()
    for package in manifest:
        assert any(file["name"].endswith(".LICENSE") for file in package["files"])
        assert package["version"] in notice


def test_the_trace_draws_every_signal_of_the_search(served):
    questions = (
        'Where is "sign" in `sessions.py`?',
        "what does F9 do",
        "sign",
    )
    given = {
        leg
        for question in questions
        for hit in served.post("/api/search", {"question": question}).json["hits"]
        for leg in hit["legs"]
    }
    script, style = ((VENDOR.parent / name).read_text() for name in ("js/trace.js", "css/panel.css"))
    drawn = set(re.findall(r'^  \["(\w+)", "', script, re.MULTILINE))
    assert {"lexical", "mention"} <= given <= drawn | {"pointed"}  # which decides the order alone
    assert drawn == set(re.findall(r"\.leg\.(\w+)", style))


@pytest.fixture(scope="module")
def crooked(tmp_path_factory) -> Path:
    """A repository with links that lead out of it, and a secret next to it."""
    home = tmp_path_factory.mktemp("crooked")
    (home / "secret").write_text("the secret next to the repository")
    root = Path(sample_copy(home).location)
    (root / "out").symlink_to(home / "secret")
    (root / "folder").symlink_to(home)
    (root / "odd.py").write_text("a = 1\x0c\nb = 'two\u2028lines'\nc = 3\n")
    return root


def test_the_viewer_opens_nothing_outside_the_repository(serve, crooked):
    served = serve(repositories=(("crooked", Source(str(crooked))),)).ready()
    assert served.get("/api/repositories/crooked/source?path=README.md").status == 200
    for path in HOSTILE:
        reply = served.get(f"/api/repositories/crooked/source?path={path.replace(chr(0), '%00')}")
        assert reply.status == 404, path
        page = served.get(f"/repos/crooked/view?path={path.replace(chr(0), '%00')}")
        assert page.status == 200
        for body in (reply.body, page.body):
            assert b"secret next to" not in body and b"root:" not in body


def test_lines_are_counted_as_editors_count_them(serve, crooked):
    served = serve(repositories=(("crooked", Source(str(crooked))),)).ready()
    found = served.get("/api/repositories/crooked/source?path=odd.py&start_line=3&end_line=9").json
    assert (found["text"], found["language"]) == ("c = 3\n", "python")
    assert (found["lines"], found["end_line"]) == (3, 3)
    assert served.get("/api/repositories/crooked/source?path=odd.py&start_line=4").status == 404


def test_the_page_echoes_nothing_of_its_address(served):
    plain = served.get("/repos/sample/view?path=README.md").body
    assert served.get("/repos/%3Cscript%3Ealert(1)%3C/script%3E/view?path=%22%3E%3Cscript%3E").body == plain


def test_the_page_needs_no_key_and_what_it_shows_does(serve):
    served = serve(keys=("a-key-of-the-test",)).ready()
    html = served.get("/")
    assert html.status == 200
    assert served.get(linked(html.body.decode())[-1]).status == 200
    assert served.get("/repos/sample/view?path=README.md").status == 200
    private = [f"/api/repositories/sample/{what}" for what in ("calls?symbol=x", "wiki")]
    for path in ("/api/repositories", *private, "/api/conversations/x/freshness"):
        assert served.get(path).status == 401
    allowed = {"Authorization": "Bearer a-key-of-the-test"}
    assert served.get("/api/repositories/sample/wiki", headers=allowed).status == 200


def test_what_was_answered_is_compared_with_the_code_as_it_is_now(serve, tmp_path):
    served = serve(repositories=(("sample", sample_copy(tmp_path)),), refresh_s=0.0).ready()
    asked = served.post("/api/ask", {"question": "How are sessions signed?"}).json
    assert 0 <= asked["confidence"]["value"] <= 1
    address = f"/api/conversations/{asked['conversation']}/freshness"
    (check,) = served.get(address).json
    assert (check["turn"], check["freshness"]["state"]) == (asked["turn"], "fresh")
    assert len(check["citations"]) == len(asked["sources"])
    root = Path(served.settings.repositories[0][1].location)
    for cited in asked["sources"]:
        file = root / cited["path"]
        lines = file.read_text().splitlines()
        lines[cited["start_line"] - 1 : cited["end_line"]] = [f"nothing_{n} = None" for n in range(3)]
        file.write_text("\n".join(lines))
        os.utime(file)
        break
    (check,) = served.get(address).json
    assert check["freshness"]["state"] in ("changed", "gone")
    assert served.get("/api/conversations/none/freshness").status == 404


def test_a_conversation_is_shown_under_its_name_or_first_question(served):
    asked = served.post("/api/ask", {"question": "Where is\n  a code made?"}).json["conversation"]
    titles = {one["id"]: one["title"] for one in served.get("/api/conversations").json}
    assert titles[asked] == "Where is a code made?"
    renamed = served.request("PATCH", f"/api/conversations/{asked}", {"name": "codes"}).json
    assert renamed["title"] == "codes"


def test_the_page_replaces_elements_without_writing_the_word_null():
    """`replaceChildren(null)` writes it; `refill` of dom.js leaves empty children out."""
    scripts = {path.name: path.read_text(encoding="utf-8") for path in (PAGE / "js").glob("*.js")}
    assert len(scripts) > 20
    assert [name for name, text in scripts.items() if "replaceChildren" in text] == ["dom.js"]
