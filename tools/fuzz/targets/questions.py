"""Questions, history, answers: what people and models write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from rag.answer.extract import ExtractiveGenerator
from rag.answer.statements import whole_sentences
from rag.answer.support import check_support
from rag.answer_cache.cache import normalised
from rag.errors import RagError
from rag.retrieval.answerability import judge
from rag.retrieval.search import search_in_turn
from rag.service import Dialog, converse
from rag.types import Answer, Hit, Span
from tools.fuzz import text
from tools.fuzz.case import Case, case_of
from tools.fuzz.targets.base import Bounds, Refused, Target, open_engine, sample_copy

_ENDS = "\n\x1e\n"
"""Stands between the texts of a history."""
_MOST = 100_000
_MAX_ANSWER_CHARS = 30_000
_MAX_LETTERS = 5_000

SAMPLES = (
    "Where is a token checked?",
    "Why does `create_session` fail with ValueError: expired token in snip/auth.py:12?",
    "And who calls it?",
    "How are sessions signed, and when do they expire",
    "what about the other one",
    "TLDR please",
    'Traceback (most recent call last):\n  File "snip/app.py", line 12, in main\n'
    "    raise KeyError(name)\nKeyError: 'x'",
    "Which tests cover `storage.py`? Answer in German.",
    "不好意思，请问会话是在哪里签名的？",
    "wo wird das Token geprüft",
    "The answer is in `sign` [1], see [2, 3].\n\n```python\nx = 1\n```\n",
    "# Title\n\n- a\n- b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
)
_TOKENS = (
    "where is the who calls `a` `a.b` a.py a.py:1 a::b() A_B why not it and thx [1] [2] [1,2] ``` "
    "** # \n ? . , ! parse_range HTTP2 tokn sesion 'a' \"a\" -- --flag <a> &amp; | \\ 12 3.4 wo was 哪里 ? "
    "please could you tell me File line"
).split(" ")


def written(rng: Random, most: int = _MOST) -> str:
    """A text as somebody may write it, or as nobody would."""
    return text.text(rng, most, samples=SAMPLES, tokens=_TOKENS)


def _functions() -> dict[str, Callable[[str], Any]]:
    """What reads a text alone, by name."""
    from rag import markdown as sanitize
    from rag import markdown as wiki_markdown
    from rag import messages, quoting
    from rag.agent.protocol import read_text
    from rag.analysis import count_terms
    from rag.answer import citations, markdown
    from rag.code import definitions, documentation, project_summary
    from rag.code.languages import kind_of, language_of_path, language_of_text
    from rag.code.survey import Survey
    from rag.code.symbols import File
    from rag.corpus.address import without_credentials
    from rag.display import answers, mermaid
    from rag.mcp.arguments import lines_seen
    from rag.memory import consolidate, extractive_summary, statements
    from rag.memory.facts import Fact
    from rag.retrieval import question
    from rag.review import code_text
    from rag.review.impact import HOLDS_TESTS, subject_of
    from rag.serve.deepwiki import prompts as deepwiki_prompts
    from rag.serve.openai import thread_matching
    from rag.serve.openai.messages import done_without_model, read_messages
    from rag.service.checks.review import ReviewRange
    from rag.service.tools.explore import parts_of
    from rag.wiki.facts import settings
    from rag.wiki.pages import devin_json

    def source(words: str) -> answers.ShownSource:
        return answers.ShownSource(1, Span("", words, 1, 9, symbol=words), words, words, words, words)

    def streamed(words: str) -> None:
        shown = citations.CitationFilter([])
        for start in range(0, min(len(words), _MAX_ANSWER_CHARS), 997):
            shown.feed(words[start : start + 997])
        shown.resolved(shown.close())

    def letter_by_letter(words: str) -> None:
        shown, made = citations.CitationFilter([]), sanitize.StreamSanitizer()
        for letter in words[:_MAX_LETTERS]:
            shown.feed(letter)
            made.feed(letter)

    def commented(words: str) -> None:
        lines = words.split("\n")
        documentation.docstring(lines, "a.py", 0, len(lines))
        documentation.head_comment(lines, "a.c", "c")
        documentation.comment_above(lines, "a.py", len(lines) - 1, "python")
        documentation.signature(lines, 0, len(lines), "a")

    def of_languages(words: str) -> None:
        for path in ("a", "a.h", "a.m"):
            language_of_text(language_of_path(path) or "text", path, words)

    def manifests(words: str) -> None:
        for path in ("setup.py", "setup.cfg", "pom.xml", "a.gemspec", "mix.exs", "a.toml", "a.yaml"):
            lines = tuple(line + "\n" for line in words.split("\n"))
            language = language_of_path(path) or "text"
            file = File(path, words, "", language, kind_of(path, language), lines)
            survey = Survey("a", {path: file})
            project_summary.project_description(survey)
            settings.settings_of(survey, {path})

    def stated(words: str) -> None:
        said = [*statements.stated_by_user(words), *statements.stated_by_answer(words)]
        facts = [Fact(one.text, "a", kind=one.kind) for one in said[:50]] or [Fact(words, "a")]
        for fact in facts:
            statements.on_same_subject(fact, facts)

    def compared(words: str) -> None:
        for language in ("python", "javascript", "rust", "lua", "php", "bash"):
            code_text.significant(words, language)
            code_text.header(words, language)

    return {
        "stated": stated,
        "compared": compared,
        "holds_tests": HOLDS_TESTS.search,
        "subject_of": subject_of,
        "parts_of": parts_of,
        "review_range": ReviewRange.parse,
        "seen": lambda words: lines_seen(words.split("\n")),
        "look_lines": lambda words: read_text(words, [words[:1_000]], []),
        "of_languages": of_languages,
        "manifests": manifests,
        "done_without_model": lambda words: done_without_model(f'{{"title": ""}}{words}'),
        "understand": question.parse_question,
        "without_places": question.without_places,
        "normalised": normalised,
        "count_terms": lambda words: count_terms([words], [words]),
        "answer_html": lambda words: answers.answer_html(words, words, [source(words)], [words], words),
        "split_messages": messages.split_messages,
        "quoting": lambda words: (
            quoting.one_line(words),
            quoting.without_markers(words),
            quoting.fence(words),
        ),
        "resolve": lambda words: citations.resolve(words, []),
        "check_support": lambda words: check_support(
            f"{words} [1]", [Hit(Span("a", "a.py", 1, 2), words, 1.0)], given=words
        ),
        "whole_sentences": whole_sentences,
        "streamed": streamed,
        "letter_by_letter": letter_by_letter,
        "code_spans": lambda words: [markdown.code_spans(line) for line in words.split("\n")],
        "plain_title": definitions.plain_title,
        "without_credentials": without_credentials,
        "summary_in": consolidate.summary_in,
        "digest": lambda words: extractive_summary.digest(words.split("\n\n")),
        "parse_request": lambda words: deepwiki_prompts.parse_request([("user", words)]),
        "chain": lambda words: thread_matching.chain("a", [(words, words)]),
        "read_messages": lambda words: read_messages(
            [("user", words), ("assistant", words), ("user", words)]
        ),
        "sanitize": sanitize.sanitize,
        "mermaid": lambda words: mermaid.check(words),
        "label_of": mermaid.label_of,
        "introduction": lambda words: documentation.introduction(words, "README.md"),
        "introduction_rst": lambda words: documentation.introduction(words, "README.rst"),
        "title_of": lambda words: documentation.title_of(words, "README.md"),
        "commented": commented,
        "parse_steering": devin_json.parse_steering,
        "sentence": wiki_markdown.sentence,
        "wiki_words": lambda words: (
            wiki_markdown.words(words),
            wiki_markdown.plain(words),
            wiki_markdown.title(words),
        ),
    }


class Texts(Target):
    """Each function that reads a text alone: questions, answers, Markdown, prompts."""

    name, share = "texts", 16.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.functions = _functions()

    def make(self, rng: Random) -> Case:
        return case_of(self.name, rng.choice(sorted(self.functions)), written(rng, 300_000))

    def run(self, case: Case) -> None:
        try:
            self.functions[case.label](case.text)
        except (RagError, ValueError) as error:
            if not isinstance(error, RagError) and case.label not in ("mermaid",):
                raise


class Search(Target):
    """A question with its history is searched, and judged."""

    name, share = "search", 3.0
    bounds = Bounds(seconds_per_byte=6e-6)  # a text is one question to four, and those after it read it too

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.searcher = open_engine(folder).repository(str(sample_copy(folder))).searcher

    def make(self, rng: Random) -> Case:
        texts = [written(rng) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
        return case_of(self.name, "", _ENDS.join(texts))

    def run(self, case: Case) -> None:
        *history, question = case.text.split(_ENDS)
        found = search_in_turn([self.searcher], question, history)
        confidence = judge([self.searcher], found)
        if not 0 <= confidence.value <= 1:
            raise Refused(f"the confidence is {confidence.value}")


class Ask(Target):
    """Questions of one conversation are answered and stored."""

    name, share = "ask", 1.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.engine = open_engine(folder)
        self.repository = self.engine.repository(str(sample_copy(folder)))

    def make(self, rng: Random) -> Case:
        return case_of(self.name, "", _ENDS.join(written(rng, 20_000) for _ in range(rng.choice((1, 2, 3)))))

    def run(self, case: Case) -> None:
        dialog = Dialog(self.engine, [self.repository])
        for question in case.text.split(_ENDS):
            try:
                *_, last = converse(dialog, question, ExtractiveGenerator(), cache=True)
            except RagError:
                continue
            if not isinstance(last, Answer):
                raise Refused("the last piece is no Answer")
