"""What a program deals with has pages: the code of all its layers about a feed, an entry, a tag."""

from __future__ import annotations

from itertools import chain

from surveys import survey_of

from rag.wiki import page_markdown
from rag.wiki.facts.facts import facts_of
from rag.wiki.facts.subjects import singular
from rag.wiki.pages.structure import structure_of

NOUNS = {"feed": "feeds", "entry": "entries", "tag": "tags"}
VERBS = ("create", "update", "delete")


def layer(folder: str, noun: str, ending: str) -> dict[str, str]:
    """A file of a layer: a class named after a noun and its role, and functions about it."""
    named = noun.capitalize()
    functions = "".join(
        f'def {verb}_{noun}(one):\n    """{verb.capitalize()} it."""\n    return one\n\n\n' for verb in VERBS
    )
    return {f"{folder}/{noun}.py": f"class {named}{ending}:\n    one: int = 1\n\n\n{functions}"}


def program(nouns: dict[str, str]) -> dict[str, str]:
    """A program in four layers, with a document that uses the plural of each noun."""
    about = f"It manages {', '.join(nouns.values())}."
    texts = {"README.md": f"# App\n\n{about}\n\n## Feeds\n\nA feed is read hourly.\n"}
    for noun in nouns:
        for folder, ending in (("models", ""), ("views", "View"), ("forms", "Form"), ("api", "Handler")):
            texts |= layer(f"app/{folder}", noun, ending)
    return texts


def test_nouns_of_types_are_subjects_and_roles_are_none() -> None:
    found = facts_of(survey_of(program(NOUNS))).subjects
    assert [one.title for one in found] == ["Entries", "Feeds", "Tags"]
    (feeds,) = (one for one in found if one.title == "Feeds")
    assert ([one.path for one in feeds.types], feeds.verbs) == (["app/models/feed.py"], VERBS)
    assert {one.path for one in feeds.symbols} == {
        f"app/{folder}/feed.py" for folder in ("api", "forms", "models", "views")
    }


def test_few_nouns_or_nouns_that_no_document_uses_are_no_subjects() -> None:
    assert facts_of(survey_of(program({"feed": "feeds", "entry": "entries"}))).subjects == []
    silent = {**program(NOUNS), "README.md": "# App\n"}
    assert facts_of(survey_of(silent)).subjects == []


def test_a_program_with_subjects_has_their_pages_and_its_folders_as_parts() -> None:
    texts = {path: text + "x = 1\n" * 200 for path, text in program(NOUNS).items()}
    structure = structure_of(survey_of(texts))
    titles = {page.title: page for page in structure.pages}
    assert [page.title for page in structure.pages if page.kind == "subject"] == ["Entries", "Feeds", "Tags"]
    assert {"Models", "Views", "Forms", "API"} <= titles.keys()
    parts = [page.file_paths for page in structure.pages if page.kind == "package"]
    assert sorted(chain.from_iterable(parts)) == sorted(path for path in texts if path.endswith(".py"))
    text = page_markdown(structure, titles["Feeds"].id)
    assert "create, update, delete" in text and "A feed is read hourly." in text
    assert "## In [Views]" in text and "`FeedForm`" in text


def test_singular_of_english_endings() -> None:
    words = ("entries", "boxes", "classes", "status", "news", "bus", "feeds", "gas")
    assert [*map(singular, words)] == ["entry", "box", "class", "status", "new", "bus", "feed", "gas"]
