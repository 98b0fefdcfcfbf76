"""Recognizes a reply that is nothing but calls of tools, written as text: that is no answer.

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


class WrittenCalls:
    """Holds back the pieces of a reply as long as they may be calls alone; `found` is set if they were."""

    def __init__(self) -> None:
        self._held, self._holds, self.found = "", True, False

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be shown now."""
        if not self._holds:
            return piece
        self._held += piece
        begun = self._held[:_DECIDING_CHARS].lstrip()
        is_short = len(self._held) < _DECIDING_CHARS
        may_begin = any(one.startswith(begun[: len(one)]) for one in _BEGINNINGS)
        self._holds = may_begin and (is_short or _begins(self._held[: 2 * _DECIDING_CHARS]))
        return "" if self._holds else self._released()

    def close(self, *, is_cut: bool = False) -> str:
        """Return what was held back, unless it is calls, or the beginning of one that was cut."""
        self.found = _begins(self._held) if is_cut else is_written_call(self._held)
        return "" if self.found else self._released()

    def _released(self) -> str:
        held, self._held = self._held, ""
        return held


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
