"""Files of a repository, on the way that indexing takes: walk, read, chunk, count."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random

from rag.code import line_rules
from rag.code.grammars import has_grammar
from rag.code.languages import kind_of, language_of_path, language_of_text
from rag.code.parsing import SourceText, parsed_texts
from rag.corpus import skip
from rag.corpus.walk import walk
from rag.database.workers import digest_all
from rag.decoding import text_of
from rag.errors import RagError
from rag.isolated import CPU_S, CPU_S_PER_BYTE
from rag.lines import LONG_VALUE
from rag.types import Filters
from tools.fuzz import text
from tools.fuzz.case import Case, case_of
from tools.fuzz.targets.base import ROOT, Bounds, Refused, Target, not_ours

MAX_FILE_BYTES = 1_000_000
_REPLACED_S = 0.5
_PARSED = Bounds(
    seconds=Bounds().seconds + CPU_S + _REPLACED_S,
    seconds_per_byte=Bounds().seconds_per_byte + CPU_S_PER_BYTE,
)
"""For one text that may take all that its parser may, whose process is then replaced."""
_SNIPPETS = ROOT / "tests" / "corpus" / "snippets"

GRAMMAR_FILES = """
    a.py a.js a.jsx a.ts a.tsx a.java a.go a.rs a.c a.h a.cpp a.cu a.rb a.php a.cs a.kt a.scala a.swift
    a.lua a.sh a.sql a.ex
    a.html a.j2 a.vue a.svelte a.css a.json a.jsonl a.yaml a.toml a.md a.mdx a.ipynb
""".split()
"""A file name for each language with a grammar."""

LINE_FILES = """
    a.scss a.rst a.adoc a.org a.tex a.txt a.xml a.ini a.properties a.proto a.thrift a.graphql a.tf a.gradle
    a.cmake Makefile
    Dockerfile a.pl a.r a.jl a.dart a.ex a.erl a.hs a.ml a.fs a.clj a.el a.scm a.zig a.nim a.d a.v a.vhd
    a.cr a.m a.pas a.f90
    a.adb a.s a.ps1 a.bat a.vb a.sol a.vim a.tcl a.awk a.nix a.fish a.glsl a.tmpl a.bzl BUILD meson.build
    a.coffee a.elm
    a.purs a.prisma a.feature a.jsonnet a.rego a.1 LICENSE README go.mod .gitignore CODEOWNERS
""".split()
"""Names of files that are read by lines, and some whose language only the text tells."""


def samples(name: str) -> list[str]:
    """Real texts of the language of a file name; of others where there are none."""
    suffix = Path(name).suffix
    found = [_SNIPPETS / f"sample{suffix}.txt"] if suffix else [_SNIPPETS / f"{name}.txt"]
    texts = [file.read_text(encoding="utf-8") for file in found if file.is_file()]
    return texts or _some()


@cache
def _some() -> list[str]:
    return [file.read_text(encoding="utf-8") for file in sorted(_SNIPPETS.glob("*.txt"))]


@cache
def tokens(language: str) -> list[str]:
    """The words and signs of a language: those of its grammar, else of the rules for its lines."""
    if has_grammar(language):
        from rag.code.grammars import parse

        tree = parse("", language)
        known = None if tree is None else tree.language
        if known is not None:
            kinds = (
                (known.node_kind_for_id(n), known.node_kind_is_named(n)) for n in range(known.node_kind_count)
            )
            return sorted({kind for kind, named in kinds if kind and not named and len(kind) < 30})
    rules = line_rules.line_rules(language)
    patterns = " ".join(pattern.pattern for _, pattern in rules.rules) if rules else ""
    return sorted({*re.findall(r"[A-Za-z]{2,}", patterns), *"(){}[]<>=:;,.#*-@'\"/\\|&"})


class Source(Target):
    """One file, indexed as `rag index` does: also the rules on what is left out come first."""

    name, share = "source", 48.0
    bounds = _PARSED

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = folder / "repository"
        self.root.mkdir()

    def make(self, rng: Random) -> Case:
        name = rng.choice(GRAMMAR_FILES if rng.random() < 0.7 else LINE_FILES)
        language = language_of_path(name) or "text"
        made = text.text(rng, MAX_FILE_BYTES - 1, samples=samples(name), tokens=tokens(language))
        if rng.random() < 0.02:
            return Case(self.name, name, text.text(rng, 10_000).encode("utf-16", "surrogatepass"))
        return case_of(self.name, name, made)

    def run(self, case: Case) -> None:
        file = self.root / case.label
        file.write_bytes(case.content)
        try:
            walked = walk(self.root, Filters(), max_file_bytes=MAX_FILE_BYTES)
            digests = list(
                digest_all(self.root, walked.files, max_chars=1_600, progress=lambda done, total: None)
            )
        finally:
            file.unlink()
        for digest in digests:
            for skipped in digest.skipped:
                not_ours(skipped.detail)
            position = 0
            lines = text_of(case.content).split("\n")
            is_whole = not any(len(line) > 16_000 or LONG_VALUE.search(line) for line in lines)
            for start, end in digest.chunks[:, 3:5].tolist():
                if start < position or (is_whole and start != position) or end <= start:
                    raise Refused(f"a chunk begins at byte {start}, the one before ends at {position}")
                position = end


class References(Target):
    """Definitions, imports and calls of one file."""

    name, share = "references", 4.0
    bounds = _PARSED
    files = "a.py a.js a.ts a.tsx a.go a.rs a.java a.c a.cpp a.rb a.php".split()

    def make(self, rng: Random) -> Case:
        name = rng.choice(self.files)
        language = language_of_path(name) or "text"
        if rng.random() < 0.3:  # a fragment, so that a part is often where it cannot be
            words = ["a", "b", "c", *tokens(language)]
            return Case(self.name, name, " ".join(rng.choices(words, k=rng.randint(2, 12))).encode())
        made = text.text(rng, MAX_FILE_BYTES - 1, samples=samples(name), tokens=tokens(language))
        return case_of(self.name, name, made)

    def run(self, case: Case) -> None:
        language = language_of_path(case.label) or "text"
        (parsed,) = parsed_texts([SourceText(case.text, language)], max_chars=1_600)
        not_ours(parsed.outline.gave_up)


class Globs(Target):
    """`--include`, `--exclude`, `.ragignore` and `.gitignore`: patterns of strangers over a tree of files."""

    name, share = "globs", 8.0

    _PIECES = (
        "*",
        "**",
        "*a",
        "a*",
        "?",
        "[a-z]",
        "[!a]",
        "[",
        "]",
        "\\",
        "/",
        "**/",
        "/**",
        "!",
        "#",
        " ",
        "a",
        ".py",
        "{a,b}",
        "é",
        "\x00",
        "\ud800",
        "[[:alpha:]]",
        "[z-a]",
        "[]-a]",
        "\\ ",
        "*a*",
        "**a**",
        "(",
        ")",
        "+",
        "$",
        "^",
        "|",
        "a{2}",
    )
    _PATHS = (
        "a" * 200 + ".py",
        "a/" * 100 + "b.py",
        "src/aaa/bbb.py",
        "a-b_c.d.e/f g.txt",
        "-" * 120,
        ("ab" * 20 + "/") * 4 + "x",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = folder / "repository"
        for path in self._PATHS:
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x = 1\n")

    def make(self, rng: Random) -> Case:
        where = rng.choice(("include", "exclude", ".ragignore", ".gitignore"))
        if rng.random() < 0.3:
            return case_of(self.name, where, text.text(rng, 20_000))
        lines = []
        for _ in range(rng.choice((1, 1, 2, 20))):
            few = [rng.choice(self._PIECES) for _ in range(rng.randint(1, 4))]
            lines.append("".join(rng.choice(few) for _ in range(rng.randint(1, 40))))
        return case_of(self.name, where, "\n".join(lines))

    def run(self, case: Case) -> None:
        lines = tuple(case.text.split("\n"))
        file = self.root / case.label
        filters = Filters()
        if case.label == "include":
            filters = Filters(lines, ())
        elif case.label == "exclude":
            filters = Filters((), lines)
        else:
            file.write_bytes(case.content)
        try:
            walk(self.root, filters, max_file_bytes=MAX_FILE_BYTES)
        except RagError:
            pass
        finally:
            if case.label.startswith("."):
                file.unlink()


class Names(Target):
    """Names of files: their language, their kind, and why they are left out."""

    name, share = "names", 3.0

    def make(self, rng: Random) -> Case:
        made = text.text(
            rng, 4_000, tokens=[*GRAMMAR_FILES, *LINE_FILES, "/", ".", "_pb2.py", "test_", ".min.js"]
        )
        return case_of(self.name, "", made)

    def run(self, case: Case) -> None:
        path = case.text
        language = language_of_path(path)
        kind_of(path, language or "text")
        language_of_text("text", path, path)
        skip.reason_by_name(path)
        skip.vendored_folder(path)
