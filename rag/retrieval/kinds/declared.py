"""The forms in which lines declare settings, in any language.

One line can declare a setting by itself: a value for a name, a constant, a row of a table, an environment
variable, an option of the command line, a documented name. Other forms take several lines: a record with a
name and a description, an attribute above a field, a call with the name on a line of its own, the parameters
of a function with their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rag.retrieval.kinds.line_series import indentation

MAX_LINE_CHARS = 400
RECORD_LINES = 24
"""How many lines a record has at most."""
_LITERAL = (
    r"(?:[\"'`]|[-+(&]*\d|\[|\{|(?:[Tt]rue|[Ff]alse|TRUE|FALSE|[Nn]one|null|nil|undefined|yes|no|on|off)\b|:\w"
    r"|[A-Z][A-Z0-9_]{2,}\b|(?:time|datetime|timedelta|Duration|TimeSpan|Boolean)\b|@\w)"
)
_GIVEN = rf"(?P<sign>=>|:=|\|\|=|\?\?=|=(?![=>])|:(?!:))\s*{_LITERAL}"
_VALUE = re.compile(_GIVEN)
"""The end of `_DEFAULT`, which takes far longer to find nothing."""
_DEFAULT = re.compile(
    r"\s*+(?P<mark>[-*+#;/,|]{0,3}\s*+)(?P<type>(?:[\w.<>\[\]*&:?!]+\s+){0,5}?)"
    r"(?P<owner>(?:[a-z]\w{0,20}(?:\.|->)){1,3}|[$@]?[\w.]{1,30}\[(?=[\"'])|[@$&]|)(?P<quote>[\"']?)"
    r"(?P<name>[^\W\d][\w-]{2,60})[\"']?\]?\s*"
    rf"(?P<typed>:\s*[\w.\[\]|<> ]{{1,40}})?{_GIVEN}"
)
_OPENED = re.compile(r"[=:]\s*(?:\w+\()?[\[{(]")
_PAIR = re.compile(rf"(?<![\w.])[\"']?([^\W\d][\w-]{{2,60}})[\"']?\s*(?:=>|=(?!=)|:(?!:))\s*{_LITERAL}")
_PARAMETER = re.compile(rf"(?<![\w.])([^\W\d]\w{{2,60}})\s*(?::\s*[\w.\[\]| ]{{1,40}})?=(?!=)\s*{_LITERAL}")
_ROW = re.compile(
    rf"\s*[({{\[]+\s*[\"']-{{0,2}}([^\W\d_][\w.-]{{2,60}})[\"']\s*,\s*(?![\"']-{{0,2}}\1[\"'])({_LITERAL})?"
)
_NOTHING = re.compile(r"\s*(?:None|null|NULL|nil|undefined|\[\]|\{\}|\"\"|'')\s*[;,]?\s*$")
_MODIFIER = re.compile(
    r"\b(?:static|public|private|protected|internal|const|final|readonly|pub|val|export|extern)\b"
)
_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)\s+\S")
_DEFAULT_CONSTANT = re.compile(
    r"\s*(?:[\w.]+\s+){0,4}(\w*(?:_default|default_|Default[A-Z]|[a-z]Default)\w*|\w*DEFAULT_?\w*)"
    r"\s*(?::[^=]{1,40})?\s:?=\s+[\w(\[{\"'.&-]"
)
"""A constant that has the default of what the rest of its name says: `DEFAULT_TIMEOUT_CONFIG`."""
_FIELD = re.compile(
    r"\s*(?:,\s*)?(?:(?:public|readonly|pub|val|var|let|final|static)\s+){0,3}([^\W\d]\w{2,60})\??\s*::?\s*[\w!(\[&]"
)
_OPTION = re.compile(r"[\"'`\s#|]--?([^\W\d_][\w-]{2,60})\b")
_CALL_OPTION = re.compile(
    r"\b\w*(?:flag|option|opt|setting|config|param|attr|accessor|var|arg)\w*[\w.]*\s*[(! ]\s*[^\"':]{0,60}"
    r"[\"':]([^\W\d_][\w.-]{2,60})",
    re.I,
)
_READS = re.compile(
    r"(?:\b(?:get|has|is|find|lookup|fetch|read|changed|contains)|Get|Changed|[A-Z]\w{0,60}Set)\w{0,60}\s*\(\s*[\"':]\Z"
)
"""What a line has before the name of an option that it reads, unless a default follows the name."""
_CMAKE_OPTION = re.compile(
    r"\s*(?:\w+_)?option\s*\(\s*([^\W\d][\w-]{2,60})\s+\"|\s*set\s*\(\s*(\w{3,60})\s[^#]*\sCACHE\s", re.I
)
_CALL_WORDS = ("flag", "opt", "setting", "config", "param", "attr", "accessor", "var", "arg")
_CALL_WORD = re.compile("|".join(_CALL_WORDS), re.I)
"""A line without any of them has no `_CALL_OPTION`."""
_ENVIRONMENT = re.compile(
    r"(?:[Gg]et_?[Ee]nv\w{0,12}|environ(?:\.get)?|\benv(?:_?vars?|::vars?|::var_os|\.fetch|\.get)?|\bENV(?:\.fetch)?"
    r"|[Ll]ookup_?[Ee]nv|process\.env|\bvar_os|\benv\s*=)[\s(\[.!?\"'{:$]{1,4}([A-Z][A-Z0-9_]{2,60})\b"
    r"|[\"']([A-Z][A-Z0-9]*_[A-Z0-9_]{2,60})[\"']\s+(?:not\s+)?in\s+\S*(?:environ|env|ENV)\b"
    r"|\b[Ee]nv(?:ironment)?_?(?:[Vv]ar\w{0,8}|[Kk]ey|[Nn]ame)?[\"']?\s?[:=(]{1,2}[^\"',]{0,20}[\"']([A-Z][A-Z0-9]*_[A-Z0-9_]{1,60})[\"']"
    r"|(?:_env|[a-z]Env|\benv\.)\w{0,20}\s*\(\s*[\"']([A-Z][A-Z0-9]*_[A-Z0-9_]{2,60})[\"']"
)
_READS_ENVIRONMENT = re.compile(r"(?:_env|[gG]et[eE]nv|[a-z]Env|\benv\.)\w{0,20}\(\s*$")
_EXPANDED = re.compile(r"\$\{([A-Z][A-Z0-9_]{2,60}):?[-=]")
"""A variable of a shell with what replaces it if it is not set: `${TMPDIR:-/tmp}`."""
_RECORD_NAME = re.compile(
    r"\s*\.?[\"']?(?:name|key|option|flag|id|long|setting)[\"']?\s*(?::|=>?)\s*"
    r"[\"']-{0,2}([^\W\d_][\w.-]{2,60})[\"']\s*,?\s*$"
)
_RECORD_LINE = re.compile(
    r"[{(,\s][\"']?(?:[Nn]ames?|long|key|id|flag)[\"']?\s*[:=]\s*[\"'`]-{0,2}([^\W\d_][\w.-]{2,60})[\"'`]\s*,"
    r".{0,300}?[{(,\s][\"']?(?:[Dd]efault\w*|[Dd]escr\w*|[Hh]elp\w*|[Uu]sage|[Dd]oc|[Ss]ummary)[\"']?\s*[:=]"
)
"""A record on one line, such as a call with the name of an option and its description."""
_RECORD_KEY = re.compile(r"\s*[\"']?([^\W\d_][\w.-]{2,60})[\"']?\s*(?::|=>?)\s*(?:[\w.]{0,60}\()?\{\s*$")
_RECORD_PART = re.compile(
    r"\s*\.?[\"']?(?:default\w*|desc\w*|help\w*|usage|doc\w*|summary)[\"']?\s*(?::|=>?)", re.I
)
_SAYS_DEFAULT = re.compile(r"default|\bdef_", re.I)
_VARIABLE = re.compile(r"\s*variable\s+\"(\w{2,60})\"\s*\{\s*$")
"""A variable of a module of Terraform."""
_KCONFIG = re.compile(r"\s*(?:menu)?config\s+(\w{2,60})\s*$")
_KCONFIG_PART = re.compile(r"\s*(?:default|def_bool|def_tristate|bool|tristate|int|hex|string|help)\b")
_ALONE = re.compile(r"\s*[\"']-{0,2}([^\W\d_][\w.-]{2,60})[\"']\s*,\s*$")
_CALL_BEGINS = re.compile(
    r"(?:flag|option|opt|setting|config|param|arg)\w*[\w.]*\(\s*(?:&?[\w.]+\s*,\s*)?$", re.I
)
_ATTRIBUTE = re.compile(
    r"\s*(?:#\[|@|\[)\s*(?:\w+::)?(?:clap|arg|structopt|option|setting|param|parameter|value|serde)\w*\s*\(",
    re.I,
)
_ATTRIBUTE_LINES = 6
_ATTRIBUTED = re.compile(
    r"\s*(?:(?:pub(?:\(\w+\))?|public|private|protected|internal|static|final|readonly)\s+){0,3}"
    r"(?:([^\W\d]\w{1,60})\s*:\s*[\w<]|[\w.<>\[\]?, ]{1,60}\s([^\W\d]\w{1,60})\s*(?:[=;{]|$))"
)
_LONG_NAME = re.compile(
    r"[\"']--([^\W\d_][\w-]{1,60})[\"']|\blong\s*=\s*[\"']-{0,2}([^\W\d_][\w-]{1,60})[\"']"
)
_SIGNATURE = re.compile(
    r"\s*(?:[\w@]+\s+){0,4}(?:def|function|func|fn|fun|sub|constructor|__construct|__init__)\b[^(]{0,80}\("
)
_SIGNATURE_LINES = 16
_COMPARED = re.compile(
    r"(?:\bstr\w*cmp\w*\s*\([^\"')]{0,60},\s*|\bcase\s+|\.equals\w*\(\s*|[!=]==?\s*)[\"']-{0,2}([^\W\d_][\w.-]{2,60})[\"']"
)
_DOCUMENTED = re.compile(
    r"\s*(?:[*+-]|#{1,6}|\*\s+-|:|<dt>|\|)\s*[`*:+\"<\[(]{0,3}(?:\w+>)?-{0,2}([^\W\d_][\w.-]{2,60})"
)
_DOCUMENTED_DEFAULT = re.compile(
    r"\s*(?:[*+|/#-]\s*)?[`*]{0,3}-{0,2}([^\W\d_][\w.-]{2,60})[`*]{0,3}[\s:|(].{0,80}?"
    r"\bdefaults?\b(?! value for)",
    re.I,
)
_PASSED = re.compile(r"[^=:]*[=:]\s*[\"']?(?:\$?\{\{|(?:\$\{)?(?:var|local|module|data|each)\.\w)")
"""A line that gives a name what another setting has, in Terraform, a chart or a workflow."""
_CONFIGURED = re.compile(r"\s*+(?:[#;]\s*+)?([^\W\d_][\w.-]{2,60})\s*[:=]\s*\S")
COMMENT = re.compile(r"\s*(?://|#|/\*|\*|--|;|\"{3}|'{3}|<!--|%)")
_REMARK = re.compile(r"\s*(?://|/\*|\*\s)")
"""A comment that mentions an option; in a script, `#` and more signs are those of its usage."""
_GENERIC = frozenset(
    """default defaults description negateddescription desc help usage summary type types value values name
    names key keys conf config option options setting settings choices dest action metavar nargs required
    const doc docs link items enum anyof title metadata self cls this return args kwargs multiple
    cli""".split()
)
"""Names that are parts of any declaration, unless a line declares them as options."""


class Declared(NamedTuple):
    """A setting that a line declares: what sort of line it is, its name, and the last line if there are more.

    `text` describes it, if the lines around do not.
    """

    sort: str
    name: str
    end: int = 0
    text: str = ""


def declared(lines: Sequence[str], number: int, *, is_config: bool = False) -> list[Declared]:
    """Return the settings that a line declares, from 1; `is_config`: in a file of settings."""
    line = lines[number - 1]
    own = _read(line[:MAX_LINE_CHARS], is_config)
    if own is None:
        return []
    if own.may_record and (record := _record(lines, number)):
        return [record]
    if own.may_attribute and (attributed := _attributed(lines, number)):
        variable = _ENVIRONMENT.search(attributed.text)
        named = (
            [attributed._replace(sort="environment", name=variable[1])] if variable and variable[1] else []
        )
        return [attributed, *named]
    if own.may_be_alone and (alone := _alone(lines, number)):
        return [alone]
    if own.parameters and _in_signature(lines, number):
        return [Declared("default", name) for name in own.parameters if name.lower() not in _GENERIC]
    return [
        Declared(sort, name) for sort, name in own.named if sort != "field" or is_commented(lines, number)
    ]


def begins_record(line: str) -> bool:
    """Return whether a line may name a record whose description follows."""
    return _RECORD_NAME.match(line) is not None


def changes_another(line: str) -> bool:
    """Return whether a line sets a field of another object, which may be a later change of the default."""
    matched = _DEFAULT.match(line)
    return matched is not None and matched["owner"] not in ("", "self.", "this.", "@", "$", "&")


def is_commented(lines: Sequence[str], number: int) -> bool:
    """Return whether a line has a comment in it, above or below."""
    line, around = lines[number - 1], lines[max(number - 2, 0) : number + 1]
    return any(COMMENT.match(text) for text in around) or re.search(r"//|#|--|/\*", line) is not None


def _record(lines: Sequence[str], number: int) -> Declared | None:
    """Return the record of a setting that begins in a line: its name is the value of a key as `name`, the key
    of the record itself, an option of Kconfig or a variable of Terraform, and a default or a description
    follows. None if none begins there.
    """
    line = lines[number - 1]
    inside = _RECORD_NAME.match(line)
    kconfig = _KCONFIG.match(line)
    matched = inside or kconfig or _VARIABLE.match(line) or _RECORD_KEY.match(line)
    if matched is None:
        return None
    part = _KCONFIG_PART if kconfig else _RECORD_PART
    least = indentation(line) + (0 if inside else 1)
    body: list[str] = []
    for text in lines[number : number + RECORD_LINES]:
        if text.strip() and indentation(text) < least:
            break
        body.append(text[:MAX_LINE_CHARS])
    level = min((indentation(text) for text in body if text.strip()), default=0)
    parts = [n for n, text in enumerate(body, 1) if indentation(text) == level and part.match(text)]
    if not parts:
        return None
    given = [n for n in parts if _SAYS_DEFAULT.match(body[n - 1].lstrip(" \t.\"'"))]
    default = next((n for n in given or parts if _SAYS_DEFAULT.search(body[n - 1])), parts[0])
    return Declared("record", matched[1], number + default, " ".join((line, *body)))


def _attributed(lines: Sequence[str], number: int) -> Declared | None:
    """Return the option that an attribute above a field declares, with both; None if none begins there."""
    line = lines[number - 1]
    if not _ATTRIBUTE.match(line):
        return None
    above: list[str] = []
    for at, text in enumerate(lines[number - 1 : number - 1 + _ATTRIBUTE_LINES], number):
        is_attribute = text.lstrip().startswith(("#[", "@", "[", '"', "'")) or not text.strip()
        if at > number and not is_attribute and (field := _ATTRIBUTED.match(text)):
            written = " ".join(above)
            long = _LONG_NAME.search(written)
            name = (long and (long[1] or long[2])) or field[1] or field[2]
            sort = "default" if "default" in written else "option"
            return Declared(sort, name, at, f"{written} {text}") if len(name) > 2 else None
        above.append(text[:MAX_LINE_CHARS])
    return None


def _alone(lines: Sequence[str], number: int) -> Declared | None:
    """Return the option or variable whose name has a line of its own in a call that declares or reads it."""
    matched = _ALONE.match(lines[number - 1])
    before = lines[number - 2][:MAX_LINE_CHARS] if number > 1 else ""
    if matched and matched[1].isupper() and _READS_ENVIRONMENT.search(before):
        return Declared("environment", matched[1])
    return Declared("option", matched[1]) if matched and _CALL_BEGINS.search(before) else None


def _in_signature(lines: Sequence[str], number: int) -> bool:
    """Return whether a line is part of the parameters of a function that is declared."""
    depth = 0
    for text in reversed(lines[max(number - _SIGNATURE_LINES, 0) : number]):
        depth += text.count("(") - text.count(")") if text is not lines[number - 1] else 0
        if _SIGNATURE.match(text[:MAX_LINE_CHARS]):
            return text is lines[number - 1] or depth > 0
        if depth > 0 or (text is not lines[number - 1] and text.rstrip().endswith((":", ";", "{", "}"))):
            return False
    return False


class _Line(NamedTuple):
    """What a line declares by itself, as sort and name, and what it may be with the lines around it."""

    named: tuple[tuple[str, str], ...]
    parameters: tuple[str, ...]
    may_record: bool
    may_attribute: bool
    may_be_alone: bool


_NO_LINE = _Line((), (), False, False, False)


@lru_cache(maxsize=32_768)
def _read(line: str, is_config: bool) -> _Line | None:
    """Return what a line declares by itself, and may declare with others; None for nothing, as most lines."""
    text = line.strip()
    if not text:
        return None
    found = dict.fromkeys(_declared(line, is_config))
    # The first and the last character exclude most of the forms; the expressions take far longer.
    read = _Line(
        tuple(
            (sort, name)
            for sort, name in found
            if sort in ("option", "record") or name.lower() not in _GENERIC
        ),
        tuple(_PARAMETER.findall(line)) if "=" in line else (),
        (text[-1] in "{,\"'" and (_RECORD_NAME.match(line) or _RECORD_KEY.match(line)) is not None)
        or ("config" in text and _KCONFIG.match(line) is not None)
        or (text[-1] == "{" and _VARIABLE.match(line) is not None),
        text[0] in "#@[" and _ATTRIBUTE.match(line) is not None,
        text[0] in "\"'" and text[-1] == "," and _ALONE.match(line) is not None,
    )
    return None if read == _NO_LINE else read


def _declared(line: str, is_config: bool) -> Iterator[tuple[str, str]]:
    # Most lines lack a character without which an expression cannot match; that is found far faster.
    if "env" in line or "ENV" in line or "Env" in line or "var_os" in line:
        for names in _ENVIRONMENT.findall(line):
            yield "environment", next(filter(None, names))
    if "," in line and ("'" in line or '"' in line) and (matched := _RECORD_LINE.search(line)):
        yield "record", matched[1]
        return
    if "${" in line and (matched := _EXPANDED.search(line)):
        yield "environment", matched[1]
    constant = _DEFINE.match(line) if "#" in line else None
    if matched := constant or (_CONFIGURED.match(line) if is_config else None):
        yield "local" if is_config and _PASSED.match(line) else "default", matched[1]
    elif ("=" in line or ":" in line) and _VALUE.search(line) and (matched := _DEFAULT.match(line)):
        yield "default" if _is_declared(line, matched) else "local", matched["name"]
        if opened := _OPENED.search(line):
            yield from (("default", name) for name in _PAIR.findall(line, opened.end()))
    elif "efault" in line.lower() and (matched := _DEFAULT_CONSTANT.match(line)):
        yield "default", matched[1]
    elif "(" in line and (matched := _CMAKE_OPTION.match(line)):
        yield "default", matched[1] or matched[2]
    elif matched := _ROW.match(line):
        yield "default" if matched[2] else "option", matched[1]
    elif matched := _option(line):
        is_read = _READS.search(line, 0, matched.start(1)) and line[matched.end(1) + 1 :].lstrip()[:1] == ")"
        yield "documented" if _REMARK.match(line) else "compared" if is_read else "option", matched[1]
    elif matched := _documented(line):
        yield "documented", matched[1]
    elif _may_compare(line) and (matched := _COMPARED.search(line)):
        yield "compared", matched[1]
    elif ":" in line and (matched := _FIELD.match(line)):
        yield "field", matched[1]


def _option(line: str) -> re.Match[str] | None:
    """Return where a line declares an option of the command line, by a call or as it is typed."""
    may_call = ("'" in line or '"' in line or ":" in line) and _has_call_word(line)
    matched = _CALL_OPTION.search(line) if may_call else None
    return matched or (_OPTION.search(line) if "-" in line else None)


def _has_call_word(line: str) -> bool:
    if not line.isascii():
        return _CALL_WORD.search(line) is not None
    lowered = line.lower()
    return any(word in lowered for word in _CALL_WORDS)


def _may_compare(line: str) -> bool:
    """Return whether a line has a quote and a sign of a comparison, which `_COMPARED` needs."""
    return ('"' in line or "'" in line) and any(
        sign in line for sign in ("==", "!=", "case", "cmp", ".equals")
    )


def _documented(line: str) -> re.Match[str] | None:
    """Return where a line of a list, or one with the word default, names what it documents."""
    return (_DOCUMENTED_DEFAULT.match(line) if "efault" in line else None) or _DOCUMENTED.match(line)


def _is_declared(line: str, matched: re.Match[str]) -> bool:
    """Return whether a line that gives a name a value declares more than a local variable."""
    if matched["quote"] or matched["sign"] == ":":
        return True
    if _NOTHING.match(line, matched.end("sign")):
        return False
    if matched["owner"] or not line[0].isspace():
        return True
    return bool(_MODIFIER.search(matched["type"]))
