"""Find a part that a question names and that does not exist: "Does `Session` have `retry_limit`?"

Such a question names real things, so that its words and its places fit; only the part is invented. It does
not exist if its name, in any spelling (`retry_limit`, `retryLimit`, `retry-limit`), occurs nowhere in the
repository; if it would be a member of a class here, and neither the class, nor what it derives from, nor any
place that names both has it; or if it would be an option of the command line, and no place writes it as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial, reduce
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag.analysis import is_stop_word, terms
from rag.identifiers import CAMEL, LOWER, UPPER, composed
from rag.ports import ChunkIndex
from rag.retrieval.kinds.recognition import subject_of_tests
from rag.types import MissingPart

_MAX_CHARS = 300
"""Longer questions hold a pasted text; what they name is not asked for."""
_MAX_CHUNKS = 400
"""How many chunks are read for one part; a part with more candidates is taken to exist."""
_MAX_NEAREST = 3
_MAX_BASES = 8
_KINDS = (
    r"(?:methods?|functions?|flags?|options?|switch|parameters?|params?|arguments?|args?|attributes?"
    r"|propert(?:y|ies)|fields?|members?|settings?|keys?|sub-?commands?|commands?|constants?|annotations?"
    r"|env(?:ironment)? variables?|variables?|setters?|getters?|rules?|class(?:es)?|decorators?|signals?)"
)
_KIND = rf"(?P<kind>{_KINDS})\s+(?:named\s+|called\s+)?"
_NAME = (
    r"(?P<quote>[`'\"‘“]?)(?P<name>-{0,2}(?!\d)[\w$@][\w$-]*(?:(?:\.|::|->|#)[\w$-]+)*(?:!|\?(?=[`'\"?]))?)"
    r"[`'\"’”]?"
)
_BARE_ENDS = r"(?=\s*(?:[?.,]|$|(?:have|has|do|does|mean|take|return|of|in|on|for)\b))"
_OF = r"(?:[`'\"@\w$.:-]+\s+){1,5}?"
_OF_IT = r"(?:\s+(?:on|of|in|for)\s+(?:the\s+)?(?P<of>[`'\"\w$.:-]+))?"
_HAVE = (
    r"(?:have|takes?|accepts?|supports?|define|provide|offer|expose|declare|contain|know|got)\s+"
    r"(?:an?\s+|the\s+|any\s+)?"
)
_DOES = rf"\b(?:does|do|can|has|have)\s+(?:the\s+)?(?P<of>{_OF}){_HAVE}"
_ASKS = r"\b(?:what|which|where|how)\b[^?]{0,60}?\bthe\s+(?:\w+\s+){0,2}?"
_PATTERNS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"{_DOES}{_KIND}{_NAME}(?P<bare>{_BARE_ENDS})?",
        rf"{_DOES}{_NAME}(?:\s+(?P<kind>{_KINDS}))?\s*\?",
        rf"\b(?:is|are)\s+there\s+(?:an?\s+|any\s+)?{_KIND}{_NAME}(?P<bare>{_BARE_ENDS})?{_OF_IT}",
        rf"{_ASKS}{_KIND}{_NAME}(?P<bare>{_BARE_ENDS})?{_OF_IT}",
        rf"\b(?:what|which|where|how)\b[^?]{{0,60}}?\bthe\s+{_NAME}\s+(?P<kind>{_KINDS})\b{_OF_IT}",
        rf"\b(?:defaults?|value)\b[^?]{{0,40}}?\b(?:of|does|for)\s+(?:the\s+)?(?:\w+\s+){{0,2}}?(?:{_KIND})?"
        rf"{_NAME}(?P<bare>\s+(?:have|of|in|on)\b|\s*[?,]|\s*$)",
        rf"^\s*(?:what|where|how)\s+(?:does|do|is|are)\s+(?:the\s+)?{_NAME}\s",
        rf"\b(?:which|what)\b[^?]{{0,60}}?\b(?:sets?|enables?|reads?)\s+{_NAME}\s*\?",
    )
)
_JOINT = re.compile(r"\.|::|->|#")
_WRITTEN_AS_CODE = re.compile(
    rf"^--?\w|{CAMEL}|_|\.\w|::|->|#|[{UPPER}]{{2}}\w{{0,60}}\d|^[{UPPER}]{{4,}}$|!$"
)
"""A hyphen alone joins words of English, too."""
_LIKE_AN_OPTION = re.compile(r"(?:max|min|num|no|enable|disable|allow|use|skip|ignore|force)-\w", re.I)
_FILE = re.compile(
    r"\.(?:py|js|mjs|cjs|ts|tsx|jsx|go|rs|cc?|hh?|cpp|hpp|cs|java|kt|rb|php|exs?|md|rst|txt|json|ya?ml|toml|ini"
    r"|cfg|conf|html?|css|sh|sql|xml|lock)$"
)
_NAME_HELD = re.compile(r"(?!\d)[\w$][\w$-]{2,60}")
_NAME_OF_CODE = re.compile(rf"{CAMEL}|\w[_-]\w")
_HUMP = re.compile(rf"(?<=[{LOWER}\d])(?=[{UPPER}])")
_BASES = re.compile(r"\bclass\s+\w+\s*(?:\(([^()]*)\)|(?:<|:|extends|implements)[ \t]*([^{\n]*))")
_ANY_MEMBER = re.compile(
    r"__getattr__|__getattribute__|method_missing|__call\b|__get\b|new Proxy\(|define_method"
)
_ROOTS = frozenset({"object", "Object", "ABC", "Exception", "Enum", "Generic", "Protocol"})
_ARGUMENTS = re.compile(r"^(?:param|arg)", re.I)
_ANY_ARGUMENT = re.compile(r"\*\*\w|\.\.\.\s*\w|\.{3}|\bparams\b|&\w")
_MEMBERS = re.compile(
    r"^(?:methods?|functions?|attributes?|propert\w+|fields?|members?|setters?|getters?)$", re.I
)


class _Named(NamedTuple):
    """What a question names: the part, what it is a part of, and the kind of part; "" if not said."""

    part: str
    of: str
    kind: str


def missing_part(indexes: Sequence[ChunkIndex], question: str) -> MissingPart | None:
    """Return the first part that the question names and that does not exist; None if there is none.

    Only a question that asks for a part by a name that is written as one is judged.
    """
    if len(question) > _MAX_CHARS or not any(index.live_count for index in indexes):
        return None
    for named in _named(question):
        words = _words(named.part)
        if not words or all(is_stop_word(word) for word in words):
            continue
        if not _occurs(indexes, named.part) or _is_no_member(indexes, named) or _is_no_flag(indexes, named):
            return MissingPart(named.part, named.of, _nearest(indexes, named))
    return None


def _named(question: str) -> Iterator[_Named]:
    """Yield what the question names as a part of something, each once."""
    seen = set()
    for pattern in _PATTERNS:
        for matched in pattern.finditer(question):
            found = matched.groupdict()
            name, kind = matched["name"], found.get("kind") or ""
            follows = kind and matched.start("kind") < matched.start("name")
            is_bare = kind and (found.get("bare") is not None or found.get("of"))
            is_bare = is_bare or (follows and "-" in name) or (kind and _LIKE_AN_OPTION.match(name))
            if _FILE.search(name) or not (_WRITTEN_AS_CODE.search(name) or matched["quote"] or is_bare):
                continue
            *outer, part = _JOINT.split(name)
            of = outer[-1] if outer else re.sub("[`'\"@]", "", found.get("of") or "").strip()
            if part and (part, of) not in seen:
                seen.add((part, of))
                yield _Named(part, of, kind)
    if tested := subject_of_tests(question).rstrip("?!"):
        yield _Named(_JOINT.split(tested)[-1], "", "")


def _words(name: str) -> list[str]:
    """Return the words of a name, lower: `retryLimit` → retry, limit."""
    return [word.lower() for word in re.findall(r"(?:[^\W_]|\$)+", _HUMP.sub(" ", composed(name)))]


def _spelled(name: str) -> re.Pattern[str]:
    """Return the pattern of a name in any spelling, as a whole name or at the end of a longer one."""
    words = r"[\s_-]?".join(map(re.escape, _words(name)))
    mark = re.escape(name[-1]) if name.endswith(("!", "?")) else rf"(?![{LOWER}\d])"
    return re.compile(rf"(?<![^\W_]){words}{mark}", re.I)


def _occurs(indexes: Sequence[ChunkIndex], name: str) -> bool:
    """Return whether a name occurs anywhere, in any spelling."""
    words = _words(name)
    parts = {term for word in words for term in terms(word)} if len(words) > 1 else set[str]()
    whole = {*terms("_".join(words))[-1:], *terms("".join(words))[-1:]} - parts
    is_marked = name.endswith(("!", "?"))
    for index in indexes:
        if not is_marked and any(len(index.postings(term).chunks) for term in whole):
            return True
        if is_marked:
            chunks = sorted({int(chunk) for term in whole for chunk in index.postings(term).chunks})
        else:
            chunks = _holding(index, words) if len(words) > 1 else []
        if not chunks:
            continue
        spelled = _spelled(name)
        if len(chunks) > _MAX_CHUNKS or any(spelled.search(_text(index, chunk)) for chunk in chunks):
            return True
    return False


def _holding(index: ChunkIndex, words: Iterable[str]) -> list[int]:
    """Return the chunks that hold each of the words, ascending."""
    lists = [index.postings(term).chunks for word in words for term in terms(word)[-1:]]
    if not lists:
        return []
    shared: npt.NDArray[np.int32] = reduce(partial(np.intersect1d, assume_unique=True), lists)
    return [int(chunk) for chunk in shared]


def _text(index: ChunkIndex, chunk: int) -> str:
    return composed(index.hit(chunk, 0.0, {}).text)


def _is_no_member(indexes: Sequence[ChunkIndex], named: _Named) -> bool:
    """Return whether the part is a member of a class here that neither the class nor its bases have."""
    is_argument = _ARGUMENTS.match(named.kind) is not None
    if not named.of or not (_MEMBERS.match(named.kind) or not named.kind or is_argument):
        return False
    body = _class_text(indexes, named.of.rpartition(" ")[2])
    if not body or _ANY_MEMBER.search(body) or (is_argument and _ANY_ARGUMENT.search(body)):
        return False
    spelled = _spelled(named.part)
    if spelled.search(body):
        return False
    pattern = re.compile(rf"[.:>]\s*{re.escape(named.part)}\b|\b{re.escape(named.part)}\s*[(=:]")
    for index in indexes:
        both = _holding(index, [*_words(named.part), named.of.rpartition(" ")[2]])
        if len(both) > _MAX_CHUNKS or any(pattern.search(_text(index, chunk)) for chunk in both):
            return False
    return True


def _class_text(indexes: Sequence[ChunkIndex], name: str) -> str:
    """Return the text of the classes of a name and of what they derive from.

    "" if there is no such class, or a base is not in the repository.
    """
    texts, wanted, seen = [], [name], set[str]()
    while wanted and len(seen) < _MAX_BASES:
        current = wanted.pop()
        seen.add(current)
        own = list(_chunks_of_class(indexes, current))
        if not own:
            return ""
        texts += own
        for matched in _BASES.finditer("\n".join(own)):
            if not re.match(rf"class\s+{re.escape(current)}\b", matched[0]):
                continue
            bases = re.findall(r"[^\W\d]\w*(?=\s*(?:[,\s)<({]|$))", matched[1] or matched[2] or "")
            wanted += [base for base in bases if base not in seen | _ROOTS and base[0].isupper()]
    return "\n".join(texts)


def _chunks_of_class(indexes: Sequence[ChunkIndex], name: str) -> Iterator[str]:
    """Yield the texts of the chunks that define a class, or what is in it."""
    for index in indexes:
        hits = [index.hit(chunk, 0.0, {}) for chunk in index.defining(name)]
        classes = [hit for hit in hits if hit.unit == "class" and hit.symbol == name]
        for path in dict.fromkeys(hit.path for hit in classes):
            chunks = np.asarray(index.chunks_of(path), np.int64)
            for chunk, (symbol, scope) in zip(chunks.tolist(), index.names(chunks), strict=True):
                if name in (symbol, *re.split(r"\.|::", scope)):
                    yield _text(index, chunk)


def _is_no_flag(indexes: Sequence[ChunkIndex], named: _Named) -> bool:
    """Return whether the part is an option of the command line that no place writes as one."""
    if not named.part.startswith("-") or len(named.part.lstrip("-")) < 2:
        return False
    words = _words(named.part)
    name = r"[_-]?".join(map(re.escape, words))
    pattern = re.compile(rf"(?:(?<![\w-])--?|[\"'`:]){name}(?![\w-])|\b{name}\s*[:=]", re.I)
    for index in indexes:
        chunks = _holding(index, words)
        if len(chunks) > _MAX_CHUNKS or any(pattern.search(_text(index, chunk)) for chunk in chunks):
            return False
    return True


def _nearest(indexes: Sequence[ChunkIndex], named: _Named) -> tuple[str, ...]:
    """Return names that exist and are like the part: members of what it was asked of, then any."""
    members: dict[str, None] = {}
    others: dict[str, None] = {}
    scope = named.of.rpartition(" ")[2]
    for index in indexes:
        paths = dict.fromkeys(index.hit(chunk, 0.0, {}).path for chunk in index.defining(scope))
        for path in islice(paths, _MAX_BASES):
            names = index.names(np.asarray(index.chunks_of(path), np.int64))
            members |= {symbol: None for symbol, within in names if symbol and within.endswith(scope)}
        for word in _words(named.part):
            for term in terms(word)[-1:]:
                for chunk in index.postings(term).chunks[:_MAX_BASES].tolist():
                    held = _NAME_HELD.findall(_text(index, chunk))
                    others |= {one: None for one in held if word in one.lower() and _NAME_OF_CODE.search(one)}
    part = named.part.lstrip("-")
    close = [get_close_matches(part, names, _MAX_NEAREST, 0.5) for names in (members, others)]
    return tuple(dict.fromkeys(name for names in close for name in names if name != scope))[:_MAX_NEAREST]
