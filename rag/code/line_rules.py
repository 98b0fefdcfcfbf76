"""Line patterns: how a definition looks in languages that are read without a grammar.

Each rule is a unit and an expression that matches from the line's first character; its group `name` holds the
symbol, and may be missing; so may the group `scope`, what references write before it. The first matching rule
counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from re import IGNORECASE, Pattern, compile
from typing import TYPE_CHECKING

from rag.identifiers import MARKS

if TYPE_CHECKING:
    from rag.types import Unit

_MODIFIERS = (
    r"(?:(?:pub(?:\([\w ]+\))?|public|private|protected|internal|fileprivate|static|export|default|declare"
    r"|abstract|final|async|override|virtual|inline|extern|unsafe|sealed|partial|open|data|local|global"
    r"|external|late|const|pure|recursive|elemental|inner|mutating|required|convenience)\s+)*"
)
_NAME = rf"(?P<name>[\w$][\w$.:?!'*{MARKS}-]*)"

_RawRule = tuple["Unit", str]


def _words(unit: Unit, words: str) -> _RawRule:
    """Return a rule for definitions that begin with one of these words; `_` in a word means white space."""
    alternatives = "|".join(word.replace("_", r"\s+") for word in words.split())
    return unit, rf"{_MODIFIERS}(?:{alternatives})\s+{_NAME}"


def _classes(words: str) -> _RawRule:
    return _words("class", words)


def _functions(words: str) -> _RawRule:
    return _words("function", words)


_TYPED: _RawRule = (
    "function",
    r"(?!(?:return|else|new|throw|await|yield|case|import|using|typedef"
    r"|delete|assert|in|if|for|while|switch)\b)"
    r"(?:[\w<>\[\],.?*&:]+\s+)+[*&]?(?P<name>[\w:~]+)\s*\([^;]*\)?\s*(?:async\*?|const|noexcept|override)?\s*(?:\{|=>.*)?\s*$",
)
_C_LIKE = (
    _classes(
        "class struct interface enum trait mixin extension module namespace record union protocol object impl"
    ),
    _functions("function func fn fun"),
    _TYPED,
)
_HEAD_END = r"(?=\s*(?:[({\[<:;=]|$|(?:extends|implements|inherits)\b))"
"""What follows the name in a definition, and seldom a word in a sentence."""
_SELECTOR: _RawRule = ("block", r"(?P<name>[@.#&%:*\w\[][^{};]*?)\s*\{")
_SECTION_KEY: _RawRule = ("section", r"(?P<name>[\w./\"'-]+):(?:\s|$)")


@dataclass(frozen=True, slots=True)
class LineRules:
    """The rules of a language. In a flat language bodies are not indented below their head."""

    rules: tuple[tuple[Unit, Pattern[str]], ...]
    is_flat: bool


_LISP = (
    r"\(\s*(?:cl-)?(?:define(?:-\w+)*|defun\*?|defmacro\*?|defsubst|defvar|defcustom|defconst|defclass|defgeneric"
    r"|defmethod|defstruct|defn-?|defmulti|defprotocol|defrecord|deftype|def|ns)\s+(?:\^\S+\s+)*\(?(?P<name>[^\s()\[\]]+)"
)
_SQL_KINDS = "temp temporary unlogged materialized unique global".replace(" ", "|")
_SQL_CREATE = rf"create\s+(?:or\s+replace\s+)?(?:(?:{_SQL_KINDS}|definer\S+)\s+)*"
_SQL_NAME = r"\s+(?:concurrently\s+)?(?:if\s+not\s+exists\s+)?(?P<name>[\w.\"`\[\]]+)"

_INDENTED: dict[str, tuple[_RawRule, ...]] = {
    "perl": (_classes("package"), _functions("sub method")),
    "r": (("function", r"(?P<name>[\w.]+)\s*(?:<-|=)\s*function\b"),),
    "julia": (_classes("struct mutable_struct module abstract_type"), _functions("function macro")),
    "gradle": (
        _classes("class interface enum trait task"),
        _functions("def void"),
        ("block", r"(?P<name>\w+)\s*(?:\([^)]*\)\s*)?\{\s*$"),
    ),
    "elixir": (
        _classes("defmodule defprotocol defimpl"),
        _functions("def defp defmacro defmacrop defguard defdelegate"),
    ),
    "ocaml": (
        _classes("module_type module type class exception"),
        _functions("let_rec let and val external"),
    ),
    "fsharp": (_classes("module namespace type"), _functions("let_rec let_inline let member override and")),
    "clojure": (("function", _LISP),),
    "lisp": (("function", _LISP),),
    "zig": (
        _functions("fn"),
        (
            "class",
            r"(?:pub\s+)?const\s+(?P<name>\w+)\s*=\s*(?:packed\s+|extern\s+)?(?:struct|enum|union|opaque)\b",
        ),
    ),
    "nim": (_functions("proc func method iterator template macro converter"),),
    "crystal": (
        _classes("class struct module enum lib"),
        ("function", rf"{_MODIFIERS}(?:def|macro|fun)\s+(?:self\.)?{_NAME}"),
    ),
    "ada": (_classes("package_body package task"), _functions("procedure function")),
    "powershell": (_classes("class enum"), _functions("function filter")),
    "vb": (_classes("Class Module Structure Interface Enum"), _functions("Sub Function Property")),
    "solidity": (
        _classes("contract interface library struct enum"),
        _functions("function modifier event error"),
        ("function", r"(?P<name>constructor)\b"),
    ),
    "vim": (("function", r"fu(?:nction)?!?\s+(?P<name>[\w:#.<>]+)"),),
    "tcl": (_classes("namespace_eval"), _functions("proc")),
    "awk": (_functions("function func"),),
    "fish": (_functions("function"),),
    "proto": (_classes("message service enum oneof extend"), _functions("rpc")),
    "thrift": (_classes("struct service enum union exception"),),
    "graphql": (
        _classes("type interface enum input union scalar directive extend_type"),
        _classes("fragment query mutation subscription"),
    ),
    "prisma": (_classes("model enum datasource generator type"),),
    "terraform": (
        ("section", r"(?:resource\s+|(?=data\s))(?P<scope>(?:data\s+)?\"[^\"]+\")\s+\"(?P<name>[^\"]+)\""),
        ("section", r"(?P<scope>variable|module|output|provider)\s+\"(?P<name>[^\"]+)\""),
        ("section", r"(?:locals|terraform|moved|import|removed|check|run)\b(?:\s+\"[^\"]+\")*\s*\{"),
        ("section", r"(?P<name>\w+(?:\s+\"[^\"]+\")+)\s*\{"),
    ),
    "kconfig": (_functions("config menuconfig"),),
    "scss": (_SELECTOR,),
    "css": (_SELECTOR,),
    "bazel": (_functions("def"), ("block", r"(?P<name>\w+)\(\s*$")),
    "gherkin": (
        ("class", r"(?:Feature|Rule):\s*(?P<name>.+)"),
        ("function", r"Scenario[^:]*:\s*(?P<name>.+)"),
    ),
    "jsonnet": (("block", r"local\s+(?P<name>\w+)"),),
    "xml": (("section", r"<[\w:.-]+[^>]*?\s(?:id|name|x:Name|x:Key)\s*=\s*[\"'](?P<name>[^\"']+)[\"']"),),
    "nix": (("block", r"(?P<name>[\w.-]+)\s*=\s*(?:\{|.*:\s*$|rec\b|let\b)"),),
    "python": (_classes("class"), _functions("def")),
    "ruby": (_classes("class module"), _functions("def")),
    "lua": (_functions("function"),),
    "php": (_classes("class interface trait enum"), _functions("function")),
    "bash": (("function", r"(?:function\s+)?(?P<name>[\w:-]+)\s*\(\s*\)"), _functions("function")),
    "rust": (_classes("struct enum union trait impl mod"), _functions("fn macro_rules!")),
    "go": (("function", r"func\s+(?:\([^)]*\)\s*)?(?P<name>\w+)"), _classes("type")),
    "yaml": (_SECTION_KEY,),
    "json": (("section", r"\"(?P<name>[^\"]+)\"\s*:\s*[\[{]"),),
    "other": tuple(
        (unit, rule + _HEAD_END)
        for unit, rule in (
            _classes(
                "class struct interface enum trait mixin extension module namespace record union protocol"
                " object contract component service message package type class_name"
            ),
            _functions("function func fn fun def sub proc procedure method macro rule task defun"),
        )
    ),
    **dict.fromkeys(
        "dart d glsl c cpp java csharp kotlin scala swift javascript typescript tsx".split(), _C_LIKE
    ),
}

_FLAT: dict[str, tuple[_RawRule, ...]] = {
    "erlang": (("function", r"(?P<name>[a-z]\w*)\((?=.*->)"),),
    "haskell": (
        _classes("class data newtype type instance module"),
        ("function", r"(?P<name>[a-z_][\w']*)\s*::"),
    ),
    "purescript": (
        _classes("class data newtype type instance module"),
        ("function", r"(?P<name>[a-z_][\w']*)\s*::"),
    ),
    "elm": (_classes("type_alias type port_module module"), ("function", r"(?P<name>[a-z_][\w']*)\s*:\s")),
    "v": (_classes("module interface package entity architecture class"), _functions("function task")),
    "objc": (
        ("class", r"@(?:interface|implementation|protocol)\s+(?P<name>\w+)"),
        ("function", r"[-+]\s*\([^)]*\)\s*(?P<name>\w+)"),
        _TYPED,
    ),
    "pascal": (_classes("unit program"), _functions("procedure function constructor destructor")),
    "fortran": (
        ("class", r"(?:sub)?module\s+(?!procedure)(?P<name>\w+)|program\s+\w+"),
        ("function", r"(?!end)(?:[\w()*=,]+\s+)*?(?:subroutine|function)\s+(?P<name>\w+)"),
    ),
    "assembly": (("function", r"(?P<name>[^\W\d][\w.$]*|[.$][\w.$]*):"),),
    "batch": (("function", r":(?P<name>\w+)"),),
    "matlab": (_classes("classdef"), ("function", r"function\s+(?:[^=(]*=\s*)?(?P<name>[\w.]+)")),
    "cmake": (("function", r"(?:function|macro)\s*\(\s*(?P<name>\w+)"),),
    "make": (("function", r"(?P<name>[\w./%$(){}-]+(?:[ ][\w./%$(){}-]+)*)\s*::?(?![=:])"),),
    "docker": (
        ("section", r"FROM\s+.*\sAS\s+(?P<name>\S+)"),
        ("section", r"FROM\s+(?P<name>\S+)"),
    ),
    "ini": (("section", r"\[(?P<name>[^\]]+)\]"),),
    "toml": (("section", r"\[\[?(?P<name>[^\]]+)\]"),),
    "template": (("function", r"\{\{-?\s*(?:define|block)\s+[\"`](?P<name>[^\"`]+)[\"`]"),),
    "sql": (
        ("function", r"\{%[-+]?\s*(?:macro|test|data_test|snapshot)\s+(?P<name>\w+)"),
        (
            "class",
            _SQL_CREATE + r"(?:table|view|type|schema|domain|extension|index|sequence|policy)" + _SQL_NAME,
        ),
        ("function", _SQL_CREATE + r"(?:function|procedure|trigger|aggregate|operator|rule)" + _SQL_NAME),
        ("block", r"(?<!\s)(?:alter|drop|insert|update|delete|select|grant|comment|with|set)\b"),
    ),
}

_IGNORES_CASE = frozenset({"sql", "pascal", "fortran", "ada", "powershell", "vb", "cmake", "docker"})


@cache
def line_rules(language: str) -> LineRules | None:
    """Return the rules of a language, None when there are none."""
    is_flat = language in _FLAT
    raw = _FLAT.get(language) or _INDENTED.get(language)
    if raw is None:
        return None
    flags = IGNORECASE if language in _IGNORES_CASE else 0
    return LineRules(tuple((unit, compile(rf"[ \t]*(?:{pattern})", flags)) for unit, pattern in raw), is_flat)
