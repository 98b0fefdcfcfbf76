"""Removes a reasoning model's thoughts from its answer.

Some servers send the thoughts separately, others as text between the tags of the model (`_FAMILIES`).
Templates that write the opening tag into the prompt leave only the closing one in the answer: what precedes
it is thoughts. A tag that an answer quotes, in a fenced block, in code font or in quotation marks, is text.
"""

from __future__ import annotations

import re
from typing import Literal

Habit = Literal["", "answers", "closes"]
"""How the answers of a model begin: unknown, as answers or an opening tag, or as thoughts without one."""

_LESS, _MORE = "(?:<|&lt;|＜)", "(?:>|&gt;|＞)"
_XML = (
    rf"{_LESS} ?(?:{{0}})(?:[ \t][^<>\n]{{{{0,80}}}}?)?{_MORE}",
    rf"{_LESS} ?\\?/ ?(?:{{0}})[ \t]{{{{0,4}}}}{_MORE}",
)
_WITH = r"(?:[a-z]{1,20}[:_-]){0,3}", r"(?:_(?:process|content|block|steps?|trace))?"
_TAGS = (
    rf"{_WITH[0]}(?:think(?:ing)?|thoughts?){_WITH[1]}|antthinking",
    rf"reason(?:ing)?{_WITH[1]}",
    "(?:self_)?reflection",
    "scratch_?pad",
    "(?:inner_|internal_)?monologue",
)
_TOKEN = "(?:thought|think|thinking|reasoning)"
_FAMILIES: tuple[tuple[str, str], ...] = (
    *((_XML[0].format(name), _XML[1].format(name)) for name in _TAGS),
    (r"(?-i:\[(?:THINK(?:ING)?|REASONING)\])", r"(?-i:\[/(?:THINK(?:ING)?|REASONING)\])"),
    (
        rf"<[|｜](?:(?:begin|start)[_▁](?:of[_▁])?)?{_TOKEN}(?:_start|_begin)?[|｜]>",
        rf"<(?:[|｜](?:/|end[_▁](?:of[_▁])?){_TOKEN}|/[|｜]{_TOKEN}|[|｜]{_TOKEN}_end)[|｜]>|<\|content\|>",
    ),
    ("◁think▷", "◁/think▷"),
    ("<(?:unused|ctrl)94>", "<(?:unused|ctrl)95>"),
    (r"<\|channel>", r"<channel\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    (
        r"<\|channel\|>\s?(?:analysis|commentary)",
        r"<\|channel\|>\s?final[^<\n]{0,60}(?:<\|constrain\|>[^<\n]{0,20})?<\|message\|>",
    ),
    (rf"<\|im_start\|>{_TOKEN}s?", r"<\|im_end\|>|<\|im_start\|>(?:assistant|answer)"),
    (
        rf"{_LESS}details[ \t][^<>\n]{{0,60}}?[\"'](?:{_TOKEN}|thoughts)[\"'][^<>\n]{{0,60}}?{_MORE}",
        rf"{_LESS}/details{_MORE}",
    ),
    (rf"<!--[ \t]?{_TOKEN}s?[ \t]?-->", rf"<!--[ \t]?(?:/|end[ _]|end of )[ \t]?{_TOKEN}s?[ \t]?-->"),
    (_XML[0].format("planning|internal"), _XML[1].format("planning|internal")),
    (rf"\[{_TOKEN}\](?=[^(\[:])", rf"\[/{_TOKEN}\]"),
    (r"(?-i:analysis)(?=[a-z])", "(?-i:assistantfinal)"),
    ("Here(?: is|'s) my thought process:", "Here(?: is|'s) my response:"),
    (r"Thinking\.\.\.(?=\s)", r"\.\.\.done thinking\."),
    ("Thought:", "Final Answer:"),
)
"""What opens and what closes thoughts. The last four are words: they open only at the beginning, and only if
they are closed. (`analysis…assistantfinal` are harmony's channels without their special tokens; `Thought:` is
of ReAct.) The five before them open only at the beginning of a line, and what would close them is text
elsewhere; the last two of these are also names, and open only if they are closed."""
_WORDS = len(_FAMILIES) - 4
_NAMES, _BLOCKS = _WORDS - 2, _WORDS - 5
_WRAPPER = r"</?(?:answer|response|output|solution)>"
_NOISE = (
    r"<\|(?:im_)?(?:start|begin)\|>assistant|<\|(?:message|return|(?:im_)?end|call)\|>|<\|(?:start|end)_response\|>"
    rf"|<\|(?:begin|end)_of_solution\|>|{_WRAPPER}"
)
"""Tags around an answer that follows thoughts."""
_MARK = re.compile(
    "|".join(f"(?P<o{n}>{opens})" for n, (opens, _) in enumerate(_FAMILIES[:_WORDS]))
    + "".join(f"|(?P<c{n}>{closes})" for n, (_, closes) in enumerate(_FAMILIES[:_BLOCKS]))
    + f"|(?P<noise>{_NOISE})",
    re.IGNORECASE,
)
_CLOSES = [re.compile(closes, re.IGNORECASE) for _, closes in _FAMILIES]
_BEGINS = [re.compile(rf"\s*(?:{opens})", re.IGNORECASE) for opens, _ in _FAMILIES[_WORDS:]]
_BEGINNINGS = (
    "analysis", "Here is my thought process:", "Here's my thought process:", "Thinking... ", "Thought:",
)  # fmt: skip
_WITH_VALUES = "|".join((*_TAGS, "details|planning|internal"))
_PARTIAL = re.compile(
    r"(?:<\|channel\|>[^<\n]{0,80}(?:<\|constrain\|>[^<\n]{0,20})?(?:<[|a-z]{0,12})?"
    r"|<\|(?:im_)?(?:start|begin)\|>[a-z]{0,8}|&(?:lt?)?|<!-{0,2}[ \w/-]{0,40}"
    rf"|{_LESS}[ |｜/\\]{{0,4}}(?:[\w:|｜▁-]{{0,60}}|(?:{_WITH_VALUES})[ \t][^<>\n]{{0,130}})(?:&(?:gt?)?)?"
    r"|\[/?[A-Z]{0,9}\]?|◁/?\w{0,5})\Z",
    re.IGNORECASE,
)
_MARK_CHARS = 250
"""No mark is longer."""
_QUOTED_CHARS = 400
"""A quotation mark farther away than this does not count."""
_FENCE = re.compile(r"[\s>]{0,20}(?:[-*+]\s{1,4}|\d{1,3}[.)]\s{1,4})?(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_QUOTES = re.compile("`+|[\"'“”‘’«»]")
_ENDS = {"“": "”", "‘": "’", "«": "»"}


class Thoughts:
    """Removes the thoughts from a streamed answer. If they never end, there is no answer.

    Args:
        habit: how the model's answers begin. Unless they are known to begin as answers, nothing is returned
            before a closing tag, or the end.

    The text does not depend on how it is split. `restarted` is set by a closing tag without an opening one:
    what was returned before is no part of the answer.
    """

    def __init__(self, habit: Habit = "answers") -> None:
        self._habit = habit
        self._holds = habit != "answers"
        self._buffer, self._scanned = "", 0
        self._family: int | None = None
        self._mention: str | None = None
        self._kept: list[str] = []
        self._lead: list[str] = []
        self._line, self._fence = "", ""
        self._has_begun = self._has_given = self._skips_space = self._thought = self._is_wrapped = False
        self._closed_only = False
        self.restarted = False

    @property
    def habit(self) -> Habit:
        """How this answer began, for the next ones of the model; to be read at its end."""
        if self._closed_only or self._habit == "closes":
            return "closes"
        return "answers"

    def release(self) -> None:
        """Return pieces at once from now on: the server sends thoughts separately."""
        self._habit, self._holds = "answers", False

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be shown now, which may be empty."""
        self._buffer += piece
        self._run(is_end=False)
        return "" if self._holds else self._given()

    def close(self, *, is_cut: bool = False) -> str:
        """Finish the answer and return the text that was held back, unless a cut answer is all thoughts."""
        self._run(is_end=True)
        if self._family is not None and self._mention is not None and not is_cut:
            self._pass(self._mention + self._buffer)
        if is_cut and self._holds and self._habit == "closes":
            self._kept.clear()
        self._kept += self._lead
        return self._given()

    def _given(self) -> str:
        text = "".join(self._kept)
        self._kept.clear()
        self._has_given = self._has_given or bool(text.strip())
        return text

    def _run(self, *, is_end: bool) -> None:
        while self._enter(is_end) if self._family is None else self._leave(is_end):
            pass

    # ------------------------------------------------------------ text

    def _enter(self, is_end: bool) -> bool:
        """Pass on text up to the next mark; return whether there may be another one."""
        if not self._has_begun and (known := self._words_at_beginning(is_end)) is not None:
            return known
        mark = _MARK.search(self._buffer)
        if mark is None:
            tail = max(len(self._buffer) - _MARK_CHARS, 0)
            partial = None if is_end else _PARTIAL.search(self._buffer, tail)
            self._take(partial.start() if partial else len(self._buffer))
            return False
        self._take(mark.start())
        size = mark.end() - mark.start()
        quoted = self._is_quoted(self._line, self._buffer[size:], is_end) if not self._fence else True
        if quoted is None:
            return False
        kind = mark.lastgroup or ""
        if quoted or not self._is_mark(kind, mark[0]):
            self._take(size)
            return True
        self._buffer = self._buffer[size:]
        if kind.startswith("o"):
            self._opened(int(kind[1:]), mark[0])
        elif kind.startswith("c"):
            self._closed_unopened()
        else:
            self._is_wrapped = self._is_wrapped or mark[0][1].isalpha()
            self._skips_space = self._skips_space or not self._has_begun
        return True

    def _words_at_beginning(self, is_end: bool) -> bool | None:
        for family, begins in enumerate(_BEGINS, _WORDS):
            if found := begins.match(self._buffer):
                self._buffer = self._buffer[found.end() :]
                self._opened(family, found[0])
                return True
        begun = self._buffer.lstrip()
        is_partial = begun and not is_end and any(words.startswith(begun) for words in _BEGINNINGS)
        return False if is_partial else None

    def _is_mark(self, kind: str, mark: str) -> bool:
        """Whether a mark that is not quoted means something here."""
        if kind != "noise":  # `List<Thought>` is a type
            family = int(kind[1:]) if kind.startswith("o") else _WORDS
            if _BLOCKS <= family < _WORDS:
                return not self._line.strip()
            return not (family < len(_TAGS) and self._line[-1:].isalnum())
        if re.fullmatch(_WRAPPER, mark, re.IGNORECASE):
            return self._is_wrapped if mark.startswith("</") else self._thought and not self._has_begun
        return self._thought or not self._has_begun

    def _opened(self, family: int, mark: str) -> None:
        self._family, self._scanned, self._lead = family, 0, []
        before = self._line.rstrip(" ")
        in_sentence = before != self._line and before[-1:].isalnum()
        self._mention = mark if in_sentence or family >= _NAMES else None

    def _closed_unopened(self) -> None:
        """Drop all the text so far: it is thoughts."""
        self.restarted = self.restarted or self._has_given
        self._closed_only = True
        self._kept.clear()
        self._lead, self._line, self._fence, self._has_begun = [], "", "", False
        self._ended()

    def _ended(self) -> None:
        self._thought, self._mention = True, None
        self._skips_space = not self._has_begun or self._line[-1:].isspace() or not self._line
        self._holds = self._holds and self._has_begun

    def _take(self, size: int) -> None:
        text, self._buffer = self._buffer[:size], self._buffer[size:]
        self._pass(text)

    def _pass(self, text: str) -> None:
        """Return text to the caller, and note what its last line begins with."""
        if self._skips_space:
            text = text.lstrip()
        if not text:
            return
        self._skips_space = False
        if not self._has_begun:
            self._lead.append(text)
            if not text.strip():
                return
            text, self._lead, self._has_begun = "".join(self._lead), [], True
        self._kept.append(text)
        *lines, rest = text.split("\n")
        for line in lines:
            self._end_line(self._line + line)
            self._line = ""
        self._line += rest

    def _end_line(self, line: str) -> None:
        found = _FENCE.match(line)
        if found is None:
            return
        fence, info = found["fence"], found["info"]
        if not self._fence:
            self._fence = "" if fence[0] == "`" and "`" in info else fence
        elif fence.startswith(self._fence) and not info.strip():
            self._fence = ""

    # ------------------------------------------------------------ thoughts

    def _leave(self, is_end: bool) -> bool:
        """Drop thoughts up to their end; return whether they have ended."""
        assert self._family is not None
        for mark in _CLOSES[self._family].finditer(self._buffer, self._scanned):
            line = self._buffer[self._buffer.rfind("\n", 0, mark.start()) + 1 : mark.start()]
            quoted = self._is_quoted(line, self._buffer[mark.end() :], is_end)
            if quoted is None:
                self._scanned = mark.start()
                return False
            if not quoted:
                self._buffer, self._family = self._buffer[mark.end() :], None
                self._ended()
                return True
            self._scanned = mark.end()
        self._scanned = max(self._scanned, len(self._buffer) - _MARK_CHARS)
        kept = max(len(self._buffer) - _MARK_CHARS - _QUOTED_CHARS, 0)
        if self._mention is not None:
            self._mention += self._buffer[:kept]
        self._buffer, self._scanned = self._buffer[kept:], max(self._scanned - kept, 0)
        return False

    def _is_quoted(self, before: str, after: str, is_end: bool) -> bool | None:
        """Whether a mark is in code font or quotation marks on its line; None if the next piece decides."""
        quote = _open_quote(before[-_QUOTED_CHARS:])
        if not quote:
            return False
        line, newline, _ = after[:_QUOTED_CHARS].partition("\n")
        is_whole = is_end or bool(newline) or len(after) >= _QUOTED_CHARS
        for found in _QUOTES.finditer(line):
            if found.end() == len(line) and not is_whole:
                return None
            before, after = _around(line, found)
            if found[0] == quote and before != "\\" and not (before.isalnum() and after.isalnum()):
                return _can_close(found[0], before, after)
        return False if is_whole else None


def without_thoughts(text: str) -> str:
    """Return a whole answer of any model without its thoughts."""
    thoughts = Thoughts("")
    return (thoughts.feed(text) + thoughts.close()).strip()


def _open_quote(line: str) -> str:
    """Return what would close the quotation that is open at the end of a line; "" if none is."""
    quote = ""
    for found in _QUOTES.finditer(line):
        before, after = _around(line, found)
        if before == "\\":
            continue
        if not quote:
            opens = not after.isspace() and (found[0][0] == "`" or not before.isalnum())
            quote = _ENDS.get(found[0], found[0]) if opens else ""
        elif found[0] == quote and _can_close(quote, before, after):
            quote = ""
    return quote


def _can_close(quote: str, before: str, after: str) -> bool:
    return not before.isspace() and (quote[0] == "`" or not after.isalnum())


def _around(line: str, found: re.Match[str]) -> tuple[str, str]:
    """Return the characters before and after a match; "" for none."""
    return line[max(found.start() - 1, 0) : found.start()], line[found.end() : found.end() + 1]
