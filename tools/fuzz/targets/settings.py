"""Files that say how rag works: settings, templates, stores."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

from rag.database.store import Store
from rag.errors import RagError, SettingsError, StoreError, TemplateError
from rag.prompt.templates import load_template, render_reword
from rag.serve.config import read_config
from rag.settings import load_settings
from tools.fuzz import text
from tools.fuzz.case import Case, case_of
from tools.fuzz.targets.base import ROOT, Target, open_engine, sample_copy

_SERVER = (ROOT / "deploy" / "server.toml").read_text(encoding="utf-8")
_OWN = 'model = "a"\ncontext_tokens = 4000\ngate = "off"\nbase_url = "http://a"\n[a]\nb = [1]\n'
_TOML = (
    "[[",
    "]]",
    "[",
    "]",
    "{",
    "}",
    '"""',
    "'''",
    "=",
    "a",
    "a.",
    "#",
    "\n",
    "1979-05-27",
    "0x",
    "inf",
    "nan",
    "1e",
    "\\u",
    "version = 1\n",
    "model = ",
    "repositories",
    "host",
    "port = ",
    "9" * 5000,
)


class SettingsFile(Target):
    """`config.toml`, the server's settings, and the variables of the environment."""

    name, share = "settings", 5.0

    def make(self, rng: Random) -> Case:
        label = rng.choice(
            ("config.toml", "server.toml", "RAG_CONTEXT_TOKENS", "RAG_GATE", "RAG_TIMEOUT", "RAG_LANGUAGE")
        )
        samples = [_SERVER if label == "server.toml" else _OWN]
        most = 50_000 if label.endswith("toml") else 1_000
        return case_of(self.name, label, text.text(rng, most, samples=samples, tokens=_TOML))

    def run(self, case: Case) -> None:
        file = self.folder / case.label
        home = {"RAG_HOME": str(self.folder)}
        try:
            if not case.label.endswith(".toml"):
                load_settings({}, {**home, case.label: case.text})
                return
            file.write_bytes(case.content)
            read_config(file) if case.label == "server.toml" else load_settings({}, home)
        except SettingsError:
            pass
        except RagError:
            if case.label != "server.toml":  # the place of a repository may be none
                raise
        finally:
            file.unlink(missing_ok=True)


class TemplateText(Target):
    """Templates as text, as files, and as names."""

    name, share = "template", 5.0
    _JINJA = (
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{% if a %}",
        "{% endif %}",
        "{% for a in contexts %}",
        "{% endfor %}",
        "input_str",
        "|",
        "contexts",
        ".text",
        "(",
        ")",
        "[",
        "]",
        "not ",
        "~",
        "{% raw %}",
        "{% macro a() %}",
        "{{ input_str }}",
        "{% set a = ",
        "{% include ",
        "conversation_history",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.samples = [
            file.read_text(encoding="utf-8") for file in sorted((ROOT / "templates").glob("*.j2"))
        ]

    def make(self, rng: Random) -> Case:
        label = rng.choice(("text", "file", "name"))
        most = 2_000 if label == "name" else 50_000
        return case_of(self.name, label, text.text(rng, most, samples=self.samples, tokens=self._JINJA))

    def run(self, case: Case) -> None:
        home = self.folder / "home"
        file = home / "templates" / "reword.j2"
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            if case.label == "file":
                file.write_bytes(case.content)
                render_reword(home, question="Where?", frames=["sample"], phrasings=3)
            else:
                load_template(case.text, home)
        except TemplateError:
            pass
        finally:
            file.unlink(missing_ok=True)


class StoreFile(Target):
    """A store whose bytes were changed: it opens and can be searched, or it is reported as damaged."""

    name, share = "store", 2.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with closing(open_engine(folder)) as engine:
            self.content = engine.repository(str(sample_copy(folder))).store.path.read_bytes()
        self.file = folder / "store.pkl"

    def make(self, rng: Random) -> Case:
        """An edit of the store: where, how many bytes, and what stands there instead."""
        at = rng.randrange(2_000 if rng.random() < 0.6 else len(self.content))
        edits = bytearray(self.content)
        for _ in range(rng.choice((1, 1, 2, 8))):
            length = rng.choice((0, 1, 1, 4, 50))
            edits[at : at + length] = rng.choice(
                (rng.randbytes(length), rng.randbytes(4), b"\xff" * length, b"")
            )
            at = rng.randrange(max(1, min(2_000, len(edits))))
        if rng.random() < 0.1:
            del edits[rng.randrange(len(edits)) :]
        return Case(self.name, "", bytes(edits))

    def run(self, case: Case) -> None:
        self.file.write_bytes(case.content)
        try:
            store = Store.open(self.file)
            store.verify()
        except StoreError:
            return
        store.known_files()
