"""Changes of a repository that are reviewed, and the steps of a model that looks again."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from rag.agent.protocol import read_call, read_text
from rag.code.file_graph import FileGraph
from rag.code.languages import kind_of, language_of_path
from rag.code.parsing import SourceText, parsed_texts
from rag.code.resolve import Above
from rag.isolated import CPU_S, CPU_S_PER_BYTE
from rag.review.changed_symbols import ReviewedTree, changed_files, changed_symbols
from rag.review.impact import Impact
from rag.service.loop.dialog import Dialog
from rag.service.loop.second_look import tools_of
from rag.types import Kind, ToolCall, blob_id
from tools.fuzz import text
from tools.fuzz.case import Case, case_of
from tools.fuzz.targets.base import Bounds, Target, not_ours, open_engine, sample_copy
from tools.fuzz.targets.files import samples, tokens
from tools.fuzz.targets.questions import written

_BETWEEN = "\n\x1e\n"
_FILES = "a.py a.js a.ts a.go a.rs a.java a.c a.rb a.php a.cs a.lua".split()
_MAX_CHARS = 200_000


class TextTree:
    """A tree of files whose texts are given."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._content = {path: words.encode("utf-8", "replace") for path, words in texts.items()}
        self.blobs = {path: blob_id(content) for path, content in self._content.items()}
        self._graphs: dict[str, FileGraph] = {}

    def content(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return self._content.get(path, b"")

    def prepare(self, paths: Collection[str]) -> None:
        """Do nothing: all files are there."""

    @cached_property
    def _known(self) -> dict[str, tuple[str, Kind]]:
        named = {path: language_of_path(path) or "text" for path in self._content}
        return {path: (language, kind_of(path, language)) for path, language in named.items()}

    def files(self) -> Mapping[str, tuple[str, Kind]]:
        """Return the language and kind of each file."""
        return self._known

    def above(self) -> Above:
        """Return what is above the files: nothing."""
        return Above()

    def code_graph(self, path: str) -> FileGraph:
        """Return the graph of a file."""
        if path not in self._graphs:
            words = SourceText(self.content(path).decode("utf-8", "replace"), self._known[path][0])
            (parsed,) = parsed_texts([words], max_chars=1_600)
            not_ours(parsed.outline.gave_up)
            self._graphs[path] = parsed.graph
        return self._graphs[path]

    def file_text(self, path: str) -> tuple[str, str] | None:
        """Return the text of a file and its blob id."""
        return (
            (self.content(path).decode("utf-8", "replace"), self.blobs[path]) if path in self.blobs else None
        )

    def holding(self, name: str) -> list[str]:
        """Return the files that hold a name."""
        word = re.compile(rb"(?<!\w)%b(?!\w)" % re.escape(name.encode("utf-8", "replace")))
        return [path for path, content in self._content.items() if word.search(content)]

    files_defining = files_referring = holding


class ReviewedChange(Target):
    """Two texts of a file, with a test and a user of it: what the change makes false is found."""

    name, share = "review", 3.0
    bounds = Bounds(
        seconds=2 * (Bounds().seconds + CPU_S), seconds_per_byte=2 * (5e-6 + CPU_S_PER_BYTE)
    )  # both texts are parsed, each in a process of its own

    def make(self, rng: Random) -> Case:
        name = rng.choice(_FILES)
        old = text.text(
            rng, _MAX_CHARS, samples=samples(name), tokens=tokens(language_of_path(name) or "text")
        )
        new = text.mutated(rng, old, len(old)) if rng.random() < 0.8 else text.text(rng, _MAX_CHARS)
        pair = (old, new) if rng.random() < 0.7 else (new, old)
        return case_of(self.name, name, _BETWEEN.join(pair))

    def run(self, case: Case) -> None:
        old, _, new = case.text.partition(_BETWEEN)
        suffix = Path(case.label).suffix
        around = {f"tests/test_a{suffix}": old[:2_000], f"b{suffix}": old[-2_000:]}
        base = ReviewedTree(TextTree({case.label: old, **around}))
        head = ReviewedTree(TextTree({case.label: new, **around}))
        files = changed_files(base, head)
        symbols = changed_symbols(base, head, files)
        impact = Impact(base, head, files, symbols)
        impact.tests()
        impact.broken()
        for symbol in symbols:
            impact.callers(symbol)


class Steps(Target):
    """What a model asks for in a second look, as text or as tool calls: run, or refused in the result."""

    name, share = "steps", 2.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        engine = open_engine(folder)
        dialog = Dialog(engine, [engine.repository(str(sample_copy(folder)))])
        given = tools_of(dialog, dialog.prepare("Where are sessions signed?"))
        self.tools = replace(given, recall=lambda query: [], changes=lambda since, until: [])

    def make(self, rng: Random) -> Case:
        names = [spec.name for spec in self.tools.specs]
        if rng.random() < 0.5:
            lines = [f"LOOK {rng.choice(names)}: {written(rng, 1_200)}" for _ in range(rng.choice((1, 3, 8)))]
            return case_of(self.name, "text", text.mutated(rng, "\n".join(lines), 20_000))
        spec = rng.choice(self.tools.specs)
        given: dict[str, Any] = {name: written(rng, 900) for name in spec.parameters}
        given |= {name: rng.choice((1, 0, -5, 10**30, 7)) for name in spec.numbers}
        changed = text.mutated_json(rng, given, 5_000) if rng.random() < 0.5 else given
        return case_of(self.name, spec.name, text.json_text(rng, changed))

    def run(self, case: Case) -> None:
        specs = self.tools.specs
        if case.label == "text":
            requests = read_text(case.text, [], specs)[:8]
        else:
            requests = [read_call(ToolCall("1", case.label, case.text), specs)]
        for request in requests:
            found = self.tools.run(request, {})
            json.dumps([found.summary, found.error, request.shown])
