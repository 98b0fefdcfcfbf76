"""Leave out what a program writes before a message in its log: the time, the level, the logger."""

from __future__ import annotations

import re

_DATE = (
    r"\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?(?:[-/]\d\d?[-/]\d{2,4}|\.\d\d?\.\d{4}(?!\.))"
    r"|[A-Z][a-z]{2}\s{1,2}\d\d?(?=\s+\d\d?:)"
)
_TIME = r"\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?(?:\s?Z\b|\s?[-+]\d\d:?\d\d\b|\s[AP]M\b)?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|FATAL|CRITICAL|SEVERE|ALERT)\b"
_DOTTED = r"[\w-]{1,80}(?:(?:\.|::|/)[\w-]{1,80}){1,12}(?::\d{1,7})?"
_BETWEEN = r"[\s|>,:·–-]*"
_SAID_OF_IT = (
    r"(?!\s+(?:is|isn['’]?t|was|wasn['’]?t|are|gets?|becomes?|does|doesn['’]?t|should|shows?|and|or|in|as|to|broke"
    r"|breaks|fails|has|level|section|block|table|option|settings?|mode|logs?|logging)\b)"
)
"""What no log has after a time or a level: a sentence about that begins so."""
_OF_LOGS = re.compile(
    rf"[\s│|]*(?:(?>[\[(<]?(?:(?:{_DATE})(?:[T\s_,]+{_TIME})?|{_TIME})[\])>]?|\[(?i:{_LEVEL})\]){_SAID_OF_IT}"
    rf"|{_LEVEL}(?=\s*[:|>\]]|\s{{2}}|\s+{_DOTTED}:){_SAID_OF_IT}(?!:\s*(?:true|false|\d+\s*\Z)\b)"
    rf"|npm ERR!){_BETWEEN}"
)
"""A time or a level, as only logs have it at the beginning of a line."""
_AROUND = re.compile(
    rf"(?:{_LEVEL}|\[[^\[\]\s]{{1,80}}\]|(?:[\w.-]{{1,80}}\s)?[\w./-]{{1,80}}\[\d{{1,9}}\]|\d{{1,9}}(?=\s)"
    rf"|{_DOTTED}(?=[\s:\]])|[\w-]{{1,80}}(?=\s*[|>]\s)){_BETWEEN}"
)
"""A level, a logger, a process or a thread, which only next to one of these is no part of the message."""
_MAX_PARTS = 8
_MAX_CHARS = 400
_MAX_LINES = 400


def without_log_prefixes(text: str) -> str:
    """Return a text without what logs write before the messages on its first lines."""
    return "\n".join(map(_message_of, text.split("\n", _MAX_LINES)))


def _message_of(line: str) -> str:
    at, is_logged = 0, False
    for _ in range(_MAX_PARTS):
        if found := _OF_LOGS.match(line, at, _MAX_CHARS):
            is_logged = True
        elif not (found := _AROUND.match(line, at, _MAX_CHARS)):
            break
        at = found.end()
    return line[at:] if is_logged and line[at:].strip() else line
