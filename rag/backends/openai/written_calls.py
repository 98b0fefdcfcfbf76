"""Recognizes a reply that is calls of tools, written as text, or ends in them: that is no whole answer.

Models write calls in the form of their training, between tags or as JSON, if their server leaves it so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rag.parsing import parse_json

_TAG = re.compile(
    r"\s*+(?:<[|｜]?(?P<tag>[a-z:▁]{0,20}(?:tool[_ ▁-]?(?:calls?|code|use)|function[_ ▁-]?calls?|python_tag"
    r"|start_action|action_start|function(?==)|invoke(?= name=))\w{0,20})[^<>\n]{0,80}>"
    r"|\[(?P<token>TOOL_CALLS|TOOL_REQUEST)\]|functools(?=\[)|```tool_(?:code|calls?|use)\b)",
    re.IGNORECASE,
)
_CALL_BEGINS = re.compile(r"\s*+(?:<|```|(?:\[\s*+)?\{|[\w.▁-]{1,80}+\s*+(?:\[\w{1,20}\]\s*+)?[({<])")
_CALL_ENDS = re.compile(r"(?:[>})]|(?<!\d)\]|```)\Z")
_NAMES = "name", "tool", "tool_name", "function", "action"
_ARGUMENTS = "arguments", "parameters", "params", "args", "input", "tool_input", "action_input"
_WRAPPERS = "tool_calls", "tool_call", "function_call", "function"
_OTHERS = "id", "type", "call_id"
_FIRST_KEYS = "|".join((*_NAMES, *_ARGUMENTS, *_WRAPPERS, *_OTHERS))
_JSON = re.compile(rf'\s*+(?:```[\w-]{{0,20}}\s*+)?(?:\[\s*+)?\{{\s*+"(?:{_FIRST_KEYS})"')
_FENCES = re.compile(r"^[ \t]*```[\w-]{0,20}|```$", re.MULTILINE)
_BEGINNINGS = "<", "[", "{", "```", "functools["
_DECIDING_CHARS = 100
"""From this length on, it is known whether a text begins as a call."""


_INSIDE = re.compile(
    r"(?<![^\s.:!?>])(?:<(?=[|｜]?[a-z:▁_-]{0,60}+(?:[\s=>|｜]|\Z))|\[(?=TOOL_|T?O?O?L?\Z))", re.IGNORECASE
)
"""What may begin calls after text."""
_ENDED = re.compile(r"[]>\n]")


class WrittenCalls:
    """Holds back the pieces of a reply as long as they may be calls to its end; `found` is set if they were.

    After text, only calls between tags count, outside of fenced blocks and code font.
    """

    def __init__(self) -> None:
        self._text, self._sent, self._is_begun, self.found = "", 0, False, False

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be shown now."""
        self._text += piece
        if not self._is_begun:
            begun = self._text[:_DECIDING_CHARS].lstrip()
            is_short = len(self._text) < _DECIDING_CHARS
            may_begin = any(one.startswith(begun[: len(one)]) for one in _BEGINNINGS)
            self._is_begun = not (may_begin and (is_short or _begins(self._text[: 2 * _DECIDING_CHARS])))
        return self._released(self._call_at()) if self._is_begun else ""

    def close(self, *, is_cut: bool = False) -> str:
        """Return what was held back, unless it is calls, or the beginning of one that was cut."""
        held = self._text[self._sent :]
        self.found = _begins(held) if is_cut else is_written_call(held)
        return "" if self.found else self._released(len(self._text))

    def _released(self, end: int) -> str:
        begin, self._sent = self._sent, end
        return self._text[begin:end]

    def _call_at(self) -> int:
        """Return where calls may begin in what was not returned yet; its end if they do not."""
        for found in _INSIDE.finditer(self._text, self._sent):
            begun = self._text[found.start() : found.start() + 2 * _DECIDING_CHARS]
            is_short = len(begun) < 2 * _DECIDING_CHARS and (_TAG.match(begun) or not _ENDED.search(begun))
            if (is_short or _begins(begun)) and self._text.count("```", 0, found.start()) % 2 == 0:
                return found.start()
        return len(self._text)


def _begins(text: str) -> bool:
    if _JSON.match(text):
        return True
    tag = _TAG.match(text)
    return bool(tag and _CALL_BEGINS.match(text, tag.end()))


def is_written_call(reply: str) -> bool:
    """Whether a whole reply is calls of tools."""
    reply = reply.strip()
    if not _begins(reply):
        return False
    if not (tag := _TAG.match(reply)):
        return _is_json_call(_FENCES.sub("", reply))
    name = (tag["tag"] or "").partition("=")[0]
    closing = reply.rfind(f"</{name}>") if name else -1
    return not reply[closing + len(name) + 3 :].strip() if closing > 0 else bool(_CALL_ENDS.search(reply))


def _is_json_call(text: str) -> bool:
    try:
        return _is_call(parse_json(text))
    except ValueError:
        pass
    try:
        return all(_is_call(parse_json(line)) for line in text.splitlines() if line.strip())
    except ValueError:
        return False


def _is_call(value: Any) -> bool:
    """Whether a value of JSON has the shape of a call, or of several."""
    if isinstance(value, list):
        return bool(value) and all(map(_is_call, value))
    if not isinstance(value, Mapping):
        return False
    inner = next((value[key] for key in _WRAPPERS if isinstance(value.get(key), (list, Mapping))), None)
    if inner is not None:
        return _is_call(inner)
    if any(isinstance(value.get(key), str) for key in ("tool", "tool_name")):
        return True
    is_named = any(isinstance(value.get(key), str) for key in _NAMES)
    return is_named and any(key in value for key in _ARGUMENTS) and value.keys() <= _KEYS


_KEYS = {*_NAMES, *_ARGUMENTS, *_OTHERS}
