"""Conversations whose code changes under them: what their turns cite is kept and compared."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command import rag
from conftest import git

from rag.answer.extract import ExtractiveGenerator
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.component.memory import Memory
from rag.errors import RefNotFound, StoreError
from rag.service import Dialog, Engine, converse
from rag.service.checks.freshness import checked, turns_about
from rag.service.loop.rewording import reword_prompt
from rag.service.upkeep.retention import PROMPTS, SHELF, KeptFiles, delete_conversation, delete_turn
from rag.settings import Settings
from rag.types import Answer, DialogTurn, Source, blob_id
from tests.contracts.clock import SteppedClock

SIGN = '''def sign_token(token, secret_key):
    """Sign a session token with the secret key of the shop."""
    digest = keyed_digest(secret_key, token)
    return token + separator + digest


'''
OTHER = '''def render_receipt(order, printer):
    """Print the receipt of an order, with every line item."""
    for item in order.line_items:
        printer.print_line(item.description, item.price)
    printer.cut_paper()


'''
CLOCK = '''def wind_clock(clock, hours):
    """Wind the big clock in the hall for some hours."""
    clock.spring.turn(hours * TURNS_AN_HOUR)
    return clock.spring.tension


'''
QUESTION = "How is a session token signed with the secret key?"


@pytest.fixture(params=["memory:", ""], ids=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = Engine(Settings(home=tmp_path / "home", memory=request.param))
    yield made
    made.close()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A git repository with two files."""
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src" / "tokens.py").write_text(OTHER + SIGN + CLOCK)
    (root / "README.md").write_text("# Shop\n\nIt sells clocks.\n")
    git(root, "init", "--quiet", "--template=")
    commit(root)
    return root


class Quoting(ExtractiveGenerator):
    """Quotes in the place of a model, so that prompts are rendered and stored."""

    model = "quoting"


def commit(root: Path) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "next")
    return git(root, "rev-parse", "HEAD")


def ask(engine: Engine, root: Path | str, question: str = QUESTION, **more: str) -> DialogTurn:
    source = Source(str(root), **more)
    dialog = Dialog(engine, [engine.repository(source)])
    *_, answer = converse(dialog, question, Quoting())
    assert isinstance(answer, Answer)
    return engine.turns.turn(answer.turn_id)


def now(engine: Engine, turn: DialogTurn, root: Path | str, **more: str | bool | None) -> str:
    """What became of the citation of `sign_token`."""
    (found,) = checked(engine, [turn], [Source(str(root))], **more)
    (check,) = [check for citation, check in found.checked if citation.symbol == "sign_token"]
    return str(check)


def write(root: Path, path: str, text: str) -> None:
    (root / path).write_text(text)


# ---------------------------------------------------------------- a folder with git


def test_a_walk_through_what_can_happen_to_a_cited_function(engine, shop):
    turn = ask(engine, shop)
    first = git(shop, "rev-parse", "HEAD")
    assert now(engine, turn, shop) == "fresh"
    write(shop, "src/tokens.py", CLOCK + OTHER + SIGN)
    assert now(engine, turn, shop) == "moved → src/tokens.py:14-17"
    commit(shop)
    assert now(engine, turn, shop) == "moved → src/tokens.py:14-17"
    write(shop, "src/tokens.py", CLOCK + OTHER)
    write(shop, "src/signing.py", "import hmac\n\n\n" + SIGN)
    assert now(engine, turn, shop) == "moved → src/signing.py:4-7"
    git(shop, "add", "--all")
    assert now(engine, turn, shop) == "moved → src/signing.py:4-7"
    second = commit(shop)
    write(shop, "src/signing.py", "import hmac\n\n\n" + SIGN.replace("separator", "SEPARATOR"))
    assert now(engine, turn, shop).startswith("changed → ") or now(engine, turn, shop).startswith("gone")
    assert now(engine, turn, shop, as_of=second) == "moved → src/signing.py:4-7"
    assert now(engine, turn, shop, as_of=first) == "fresh"
    with pytest.raises(RefNotFound):
        now(engine, turn, shop, as_of="nowhere")


@pytest.mark.parametrize("other", ["HEAD", "nowhere"])
def test_of_several_refs_of_a_repository_the_first_is_compared(engine, shop, other):
    write(shop, "src/tokens.py", CLOCK + SIGN)
    turn = ask(engine, shop)
    folder = Source(str(shop))
    (found,) = checked(engine, [turn], [folder, replace(folder, ref=other)])
    assert {check.state for check in found.checks} == {"fresh"}


def test_an_uncommitted_file_that_was_cited_can_be_compared_after_it_is_gone(engine, shop):
    write(shop, "src/tokens.py", "import hmac\n" + OTHER + SIGN)
    turn = ask(engine, shop)
    assert any(citation.dirty for citation in turn.citations)
    git(shop, "checkout", "--", ".")
    assert now(engine, turn, shop) == "moved → src/tokens.py:8-11"


def test_a_rename_is_followed_and_a_copy_is_not(engine, shop):
    turn = ask(engine, shop)
    shutil.copy(shop / "src" / "tokens.py", shop / "copy.py")
    assert now(engine, turn, shop) == "fresh"
    commit(shop)
    git(shop, "mv", "src/tokens.py", "auth.py")
    assert now(engine, turn, shop) == "moved → auth.py:8-11 (one of 2 places with these lines)"
    (shop / "auth.py").unlink()
    (shop / "src").mkdir(exist_ok=True)
    write(shop, "src/tokens.py", OTHER + SIGN.replace("digest", "checksum") + CLOCK)
    assert now(engine, turn, shop).startswith("changed → src/tokens.py:8-")


def test_links_submodules_and_data_in_the_place_of_a_file_are_named(engine, shop, tmp_path):
    turn = ask(engine, shop)
    file = shop / "src" / "tokens.py"
    file.write_bytes(b"\0" + file.read_bytes())
    assert now(engine, turn, shop) == "changed → src/tokens.py (the file is not text any more)"
    file.unlink()
    file.symlink_to(shop / "README.md")
    assert now(engine, turn, shop) == "gone (replaced by a symbolic link)"
    linked = commit(shop)
    assert now(engine, turn, shop, as_of=linked) == "gone (replaced by a symbolic link)"
    file.unlink()
    other = tmp_path / "other"
    shutil.copytree(shop, other)
    git(shop, "rm", "--quiet", "--cached", "src/tokens.py")
    git(shop, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "src/tokens.py")
    assert now(engine, turn, shop) == "gone (replaced by a folder)"
    assert now(engine, turn, shop, as_of=commit(shop)) == "gone (replaced by a submodule)"


def test_a_file_whose_encoding_broke_elsewhere_is_compared_by_its_bytes(engine, shop):
    turn = ask(engine, shop)
    file = shop / "src" / "tokens.py"
    file.write_bytes(file.read_bytes() + b"# \xff\xfe broken\n")
    assert now(engine, turn, shop) == "fresh"


# ---------------------------------------------------------------- without git, and without the old objects


def test_a_plain_folder_is_compared_as_well(engine, shop):
    shutil.rmtree(shop / ".git")
    turn = ask(engine, shop)
    assert now(engine, turn, shop) == "fresh"
    write(shop, "src/tokens.py", CLOCK + OTHER + SIGN)
    assert now(engine, turn, shop) == "moved → src/tokens.py:14-17"
    write(shop, "src/tokens.py", CLOCK + OTHER)
    write(shop, "src/signing.py", SIGN)
    assert now(engine, turn, shop) == "moved → src/signing.py:1-4 (found without history)"


def test_a_repository_that_is_gone_makes_turns_unknown_with_the_reason(engine, shop):
    turn = ask(engine, shop)
    shutil.rmtree(shop)
    assert now(engine, turn, shop) == f"unknown (there is no folder {shop})"


def test_what_is_kept_nowhere_is_unknown_never_fresh(engine, shop):
    shutil.rmtree(shop / ".git")
    turn = ask(engine, shop)
    engine.turns.delete_records(shelf=SHELF)
    write(shop, "src/tokens.py", OTHER + SIGN + CLOCK + "# end\n")
    assert now(engine, turn, shop).startswith("unknown (the cited version (")


@pytest.fixture
def origin(shop, tmp_path) -> str:
    """The shop as a bare repository behind a URL."""
    bare = tmp_path / "origin.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(shop), str(bare))
    git(shop, "remote", "add", "origin", str(bare))
    return f"file://{bare}"


def test_our_clone_keeps_cited_commits_through_a_force_push_and_garbage_collection(engine, shop, origin):
    turn = ask(engine, origin)
    root = engine.repository(Source(origin)).checkout.root
    cited = git(root, "for-each-ref", "--format=%(refname)", "refs/rag/cited")
    assert cited == f"refs/rag/cited/{turn.citations[0].commit}"
    write(shop, "src/tokens.py", CLOCK + OTHER + SIGN)
    git(shop, "add", "--all")
    git(shop, "commit", "--quiet", "--amend", "--message", "other")
    git(shop, "push", "--quiet", "--force", "origin", "HEAD")
    assert now(engine, turn, origin, refresh=True) == "moved → src/tokens.py:14-17"
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "--quiet", "--prune=now")
    assert git(root, "cat-file", "-t", turn.citations[0].blob) == "blob"
    assert now(engine, turn, origin) == "moved → src/tokens.py:14-17"


def test_a_shallow_clone_that_lost_what_was_cited_is_still_compared(engine, shop, origin, tmp_path):
    mine = tmp_path / "mine"
    git(tmp_path, "clone", "--quiet", "--depth", "1", origin, str(mine))
    turn = ask(engine, mine)
    write(shop, "src/tokens.py", CLOCK + OTHER + SIGN)
    commit(shop)
    git(shop, "push", "--quiet", "--force", "origin", "HEAD")
    git(mine, "fetch", "--quiet", "--depth", "1")
    git(mine, "reset", "--quiet", "--hard", "@{upstream}")
    git(mine, "reflog", "expire", "--expire=now", "--all")
    git(mine, "gc", "--quiet", "--prune=now")
    assert turn.citations[0].commit not in git(mine, "cat-file", "--batch-all-objects", "--batch-check")
    assert now(engine, turn, mine) == "moved → src/tokens.py:14-17"


# ---------------------------------------------------------------- what is kept, and for how long


def test_the_bytes_of_cited_files_go_with_the_last_turn_that_cites_them(engine, shop):
    one, two = ask(engine, shop), ask(engine, shop)
    content = (shop / "src" / "tokens.py").read_bytes()
    kept = KeptFiles(engine.turns, "")
    assert kept.contents([blob_id(content)]) == {blob_id(content): content}
    assert delete_turn(engine.turns, one)
    assert kept.contents([blob_id(content)])
    assert delete_conversation(engine.turns, engine.turns.conversation(two.conversation_id)) == 1
    assert engine.turns.count_records(shelf=SHELF) == 0
    three = ask(engine, shop)
    engine.turns.delete_turn(three.id)
    assert kept.sweep() > 0
    assert engine.turns.count_records(shelf=SHELF) == 0


@pytest.mark.parametrize("way", ["clear", "rewind", "delete", "delete by mark"])
def test_what_was_kept_goes_with_a_turn_that_a_memory_takes_back(engine, shop, way):
    turn = ask(engine, shop)
    memory = Memory(engine.turns, turn.conversation_id)
    memory.mark("done")
    assert engine.turns.count_records(shelf=SHELF) and engine.turns.count_records(shelf=PROMPTS)
    if way == "clear":
        memory.clear()
    elif way == "rewind":
        memory.rewind(-1)
    elif way == "delete":
        del memory.current_conversation.dialog_turns[0]
    else:
        memory.delete_by_mark("done")
    assert engine.turns.count_records(shelf=SHELF) == engine.turns.count_records(shelf=PROMPTS) == 0


def test_a_long_conversation_goes_in_steps_and_what_a_fork_shows_stays(engine, shop, monkeypatch):
    monkeypatch.setattr("rag.service.upkeep.retention._DELETE_BATCH_TURNS", 2)
    dialog = Dialog(engine, [engine.repository(Source(str(shop)))])
    for question in (QUESTION, "How is a receipt rendered?", QUESTION, "How is the clock wound?", QUESTION):
        list(converse(dialog, question, Quoting()))
    conversation = dialog.conversation
    turns = engine.turns.turns(conversation.id)
    fork = engine.turns.fork(conversation.id, at=1)
    assert delete_conversation(engine.turns, conversation) == 5
    assert engine.turns.turns(fork.id) == turns[:2]
    shown = {turn.id for turn in turns[:2]}
    assert {key for key, _ in engine.turns.scan_records(shelf=PROMPTS)} == shown
    assert delete_conversation(engine.turns, fork) == 2
    assert engine.turns.count_records(shelf=SHELF) == engine.turns.count_records(shelf=PROMPTS) == 0


def test_a_deletion_that_was_broken_off_leaves_nothing_of_the_turns_it_took(engine, shop, monkeypatch):
    dialog = Dialog(engine, [engine.repository(Source(str(shop)))])
    for question in (QUESTION, "How is a receipt rendered?", QUESTION):
        list(converse(dialog, question, Quoting()))
    with monkeypatch.context() as patched:
        patched.setattr("rag.service.upkeep.retention._DELETE_BATCH_TURNS", 2)
        patched.setattr(engine.turns, "delete_conversation", broken_off)
        with pytest.raises(StoreError):
            delete_conversation(engine.turns, dialog.conversation)
    (left,) = engine.turns.turns(dialog.conversation.id)
    assert [key for key, _ in engine.turns.scan_records(shelf=PROMPTS)] == [left.id]
    kept = {key for key, _ in engine.turns.scan_records(shelf=SHELF)}
    assert kept == {citation.blob for citation in left.citations}
    assert delete_conversation(engine.turns, dialog.conversation) == 1
    assert engine.turns.count_records(shelf=SHELF) == engine.turns.count_records(shelf=PROMPTS) == 0


def broken_off(*_: object, **__: object) -> int:
    raise StoreError("the server is gone")


def test_a_sweep_removes_the_prompts_of_turns_that_nobody_shows(engine, shop):
    dialog = Dialog(engine, [engine.repository(Source(str(shop)))])
    for question in (QUESTION, "How is a receipt rendered?"):
        list(converse(dialog, question, Quoting()))
    shown = engine.turns.turns(engine.turns.fork(dialog.conversation.id, at=0).id)
    engine.turns.delete_conversation(dialog.conversation.id)
    assert engine.turns.count_records(shelf=PROMPTS) == 2
    KeptFiles(engine.turns, "").sweep()
    assert [key for key, _ in engine.turns.scan_records(shelf=PROMPTS)] == [turn.id for turn in shown]


def test_what_was_kept_goes_with_a_turn_that_made_room(engine, shop):
    repository = engine.repository(Source(str(shop)))
    conversation = engine.turns.create_conversation(sources=[repository.source], keep_last=1)
    dialog = Dialog(engine, [repository], conversation)
    for question in (QUESTION, "How is a receipt rendered?", QUESTION):
        list(converse(dialog, question, Quoting()))
    (turn,) = engine.turns.turns(conversation.id)
    assert [key for key, _ in engine.turns.scan_records(shelf=PROMPTS)] == [turn.id]
    kept = {key for key, _ in engine.turns.scan_records(shelf=SHELF)}
    assert kept == {citation.blob for citation in turn.citations}


def test_what_an_expired_conversation_cited_is_gone_after_the_next_command(shop):
    def kept() -> int:
        store = SqliteTurnStore(Settings().home / "turns.db")
        try:
            return store.count_records(shelf=SHELF)
        finally:
            store.close()

    engine = Engine(Settings())
    engine.__dict__["turns"] = SqliteTurnStore(Settings().home / "turns.db", clock=SteppedClock())
    repository = engine.repository(Source(str(shop)))
    conversation = engine.turns.create_conversation(sources=[repository.source], ttl_s=60)
    list(converse(Dialog(engine, [repository], conversation), QUESTION, Quoting()))
    engine.close()
    assert kept() > 0
    assert rag("turns", "list", "--json").json == []  # long after that minute
    assert kept() == 0
    assert rag("memory", "sweep").out == "removed 0 stored files\n"


# ---------------------------------------------------------------- asking on, and asking about


def test_a_follow_up_sees_that_the_earlier_answer_is_stale_and_follows_what_moved(engine, shop):
    dialog = Dialog(engine, [engine.repository(Source(str(shop)))])
    list(converse(dialog, QUESTION, Quoting()))
    write(shop, "src/tokens.py", OTHER + CLOCK)
    write(shop, "signing.py", SIGN)
    moved = Dialog(engine, [engine.repository(Source(str(shop)))], dialog.conversation)
    assert "[Stale" not in moved.prepare("And who calls it?").prompt.text
    assert "signing.py" in moved.search("And who calls it?").sought.near
    write(shop, "signing.py", SIGN.replace("digest", "checksum"))
    changed = Dialog(engine, [engine.repository(Source(str(shop)))], dialog.conversation)
    text = changed.prepare("And who calls it?").prompt.text
    assert text.index("[Stale: the code has changed since.") < text.index("Question: And who calls it?")
    assert "[Stale: the code has changed since." in (reword_prompt(changed, "And when does it end?") or "")


def test_the_turns_about_a_line_are_found_wherever_the_line_stood(engine, shop):
    turn = ask(engine, shop)
    ask(engine, shop, "How is the big clock in the hall wound?")
    write(shop, "src/tokens.py", OTHER + CLOCK)
    write(shop, "signing.py", SIGN)
    commit(shop)
    source = Source(str(shop))
    found = turns_about(engine, source, "signing.py", lines=(3, 3))
    assert turn.id in [one.turn.id for one in found]
    assert {citation.symbol for one in found for citation, _ in one.pairs} == {"sign_token"}
    assert turns_about(engine, source, "signing.py", lines=(30, 31)) == []
    assert turns_about(engine, source, "nowhere.py") == []
