"""The JSON form of every value: CLI `--json`, `/api`, `/v1`, MCP, exports, imports and the turn stores.

Each form is derived from the fields of its dataclass, so a value and its JSON cannot diverge. JSON names are
the field names except for those in this table; a name has the same meaning everywhere:

    repository     name of the repository                          value: `repo`
    path           of a file, relative to the repository's root, with forward slashes
    start_line     first line, from 1                              value: `start`
    end_line       last line (inclusive)                           value: `end`
    symbol         bare name that the lines define, "" for none
    scope          enclosing scope, "" for none
    commit, blob   the commit, and Git's id of the file's bytes
    location       folder or URL of the repository; remote clients get only the name of a folder
    n              number of a citation in its answer: [1], [2], …
    id             of the object itself; references to it from other objects are named by its kind:
    conversation   id of a conversation                            value: `conversation_id`
    turn, parent   ids of turns                                    values: `turn_id`, `parent_id`
    number         of a turn or message in its conversation, from 1     value: `order`, from 0
    forked_after   number of the last turn that a fork inherited, 0 for none    value: `forked_at`, an order
    asked, answered    times of a question and of its answer
    usage          {prompt_tokens, answer_tokens, total_tokens, estimated, cost_usd}
    state          of a turn: asked, answered, partial, failed; `complete` is true only for answered
    trace          [{name, query, result, error, seconds}], the steps towards an answer
    scope          of a turn: user, project, team; of lines: see above
    confidence     {value, found, sought, unmet, absent, foreign, first_right}; null if not computed
    asked_line     of a hit: where the answer to a question about the project begins, 0 if not known
    code_facts     {kind, subject, summary, items, count, certain_count, complete, note}; null if no rule of
                   a kind of question found anything
    subject        {path, symbol, scope, start_line, end_line, name}: what "it" means; null if nothing
    freshness      {state, reason, path, start_line, end_line} of a citation; of a turn, the worst of them
    state          of a fact: proposed, confirmed or rejected; its `scope`: user, project or team
    nodes, arrows  of a diagram of calls: definitions, and the calls between two of them by their index
    depth          of a node: -1 for a caller of the subject, 0 for the subject, then the number of calls
    valid_from     the commit at which a fact was stated; `superseded_by` and `closed`: the id of the fact
                   that replaced it, and when; `may_supersede`: ids of facts on the same subject

A span is not nested: its fields are fields of its hit or citation. An answer has each place once, as a
source; `used` says whether its text refers to it. Times are ISO 8601 in UTC with microseconds; a time
without a zone is interpreted as local time. Marks are sorted and unique.

Turn stores and exports contain *records* (`turn_record`, `message_record`, `conversation_record`): the same
objects with `order` and `forked_at` instead of `number` and `forked_after`. Every reader accepts both. The
record of a turn also has its version as `record`: 2 since it has a state (1, without the field, before). A
record of a higher version was written by a later program and is refused; fields that are not known are not.

Output of earlier versions can be read: missing fields get their default, and `OLD_NAMES` are accepted. In it
citations have no `scope` and a qualified `symbol`. A dotted name of code (`Outer.name`) is split at its last
dot; any other text (`Changelog.0.1.0 – unreleased`, `.PHONY`) is the symbol as a whole.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from rag.errors import StoreTooNew
from rag.types import (
    Answer,
    AssistantResponse,
    Citation,
    Conversation,
    DialogTurn,
    Filters,
    Freshness,
    Message,
    Source,
    Span,
    Subject,
    SupportCheck,
    Usage,
    UserQuery,
    worst,
)

Json = dict[str, Any]
Record = Json
T = TypeVar("T")

NAMES = {
    "repo": "repository",
    "start": "start_line",
    "end": "end_line",
    "conversation_id": "conversation",
    "turn_id": "turn",
    "turn_order": "number",
    "order": "number",
    "parent_id": "parent",
    "forked_at": "forked_after",
    "user_query_timestamp": "asked",
    "assistant_response_timestamp": "answered",
}
"""JSON names of fields, where they differ."""
OLD_NAMES = {"repository": "repo", "start_line": "start", "end_line": "end"}
"""JSON names in stores, exports and lists of questions of version 0.1, which are still read."""

ANSWER_FIELDS = """
    conversation turn number found confidence warning missing_words code_facts model notes coverage subject
    trace support
""".split()
"""The fields of an answer that `/v1` and MCP send in addition to its text and its citations."""
_ORDERS = {"number": "order", "forked_after": "forked_at"}
"""Numbers (from 1) with the names of the orders (from 0) that replace them in records."""
OPAQUE = frozenset({"metadata", "question_metadata", "answer_metadata", "content"})
"""Fields with JSON of other programs, whose names are not changed."""
_LEFT_OUT: Mapping[type, frozenset[str]] = {
    Answer: frozenset({"documents", "hits"}),
    DialogTurn: frozenset({"checks"}),
}
_COMPUTED: Mapping[type, tuple[str, ...]] = {
    Usage: ("total_tokens",),
    Subject: ("name",),
    DialogTurn: ("complete",),
}
"""Properties that are in the form of a value in addition to its fields."""
_UNCHANGED = "it was not changed"
RECORD_VERSION = 2
"""The version of the records of turns that this program writes; see the top of the module."""
_DOTTED_NAME = re.compile(r"([^\s./]+(?:\.[^\s./\d][^\s./]*)*)\.([^\s./\d][^\s./]*)")


class Field(NamedTuple):
    """A field of a form: its name and type, its getter, and its converters to and from JSON.

    `path` is the attribute to get, "" if `get` computes the value. `attribute` is the argument of the
    dataclass for the field, "" if the class has its own reader. `default` makes the value of a missing field;
    None if the field is required.
    """

    name: str
    type: Any
    get: Callable[[Any], Any]
    attribute: str = ""
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None
    default: Callable[[], Any] | None = None
    path: str = ""


class Form(Generic[T]):
    """The conversion of a dataclass to and from JSON; obtained from `form_of`."""

    def __init__(self, cls: type[T]) -> None:
        self.cls = cls
        self._make: Callable[..., T] = cls
        self.fields = tuple(_fields_of(cls))
        self.computed = _COMPUTED.get(cls, ())
        hints = get_type_hints(cls)
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        at = next((n for n, name in enumerate(names) if hints[name] is Span), None)
        self._span = None if at is None else (at, at + len(fields(Span)))
        self._attributes = [field.attribute for field in self.fields]
        self._readers = [(n, field.read) for n, field in enumerate(self.fields) if field.read]
        self._writers = [(field.name, field.write) for field in self.fields if field.write]
        self._all = itemgetter(*(field.name for field in self.fields))
        # Dozens of citations are read and written per question: one getter gets all plain attributes at once.
        plain = [field for field in self.fields if field.path]
        self._values_of = attrgetter(*(field.path for field in plain)) if len(plain) > 1 else None
        self._plain = [field.name for field in plain] if self._values_of else []
        self._getters = [(field.name, field.get) for field in self.fields if field.name not in self._plain]
        self._empty: Json = dict.fromkeys(field.name for field in self.fields)

    def write(self, value: T) -> Json:
        """Return the value as JSON."""
        found = self._empty.copy()
        if self._values_of is not None:
            found.update(zip(self._plain, self._values_of(value), strict=True))
        for name, get in self._getters:
            found[name] = get(value)
        for name, write in self._writers:
            found[name] = write(found[name])
        for name in self.computed:
            found[name] = getattr(value, name)
        return found

    def read(self, written: Mapping[str, Any]) -> T:
        """Return the value of its JSON, also of an earlier version. Raises KeyError for a missing field."""
        values = self._values(written)
        if self._span is None:
            return self._make(*values)
        at, end = self._span
        return self._make(*values[:at], Span(*values[at:end]), *values[end:])

    def arguments(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """Return JSON as arguments of the class, without fields that have their own reader."""
        found = dict(zip(self._attributes, self._values(written), strict=True))
        found.pop("", None)
        return found

    def _values(self, written: Mapping[str, Any]) -> Sequence[Any]:
        try:
            values: Sequence[Any] = self._all(written)
        except KeyError:
            values = self._older(written)
        if not self._readers:
            return values
        values = list(values)
        for n, read in self._readers:
            values[n] = read(values[n])
        return values

    def _older(self, written: Mapping[str, Any]) -> list[Any]:
        record = with_new_names(written)
        if self.cls is Citation and "scope" not in record:
            record |= _split_symbol(str(record.get("symbol", "")))
        for field in self.fields:
            if field.name not in record:
                if field.default is None:
                    raise KeyError(field.name)
                default = field.default()
                record[field.name] = field.write(default) if field.write else default
        return list(self._all(record))


_FORMS: dict[type, Form[Any]] = {}


def form_of(cls: type[T]) -> Form[T]:
    """Return the form of a class of `rag.types`, or of any dataclass with fields of the same types."""
    if cls not in _FORMS:
        _FORMS[cls] = Form(cls)
    return _FORMS[cls]


def to_json(value: Any) -> Json:
    """Return a turn, message, conversation, answer, hit, citation, or a part of one as JSON.

    Raises:
        ValueError: it has no id, or contains a number that JSON cannot represent (NaN, infinity).
        TypeError: a text field is not text, or the metadata contains anything but dicts with text keys,
            lists, text, numbers, booleans and None.
    """
    if isinstance(value, (DialogTurn, Message)):
        return _item_json(value)
    return form_of(type(value)).write(value)


def from_json(cls: type[T], written: Mapping[str, Any]) -> T:
    """Return the value that `to_json` wrote.

    Raises:
        KeyError: a required field is missing.
    """
    special: dict[Any, Callable[[Mapping[str, Any]], Any]]
    special = {DialogTurn: _turn, Message: _message, Source: _source_from}
    found: T = special[cls](written) if cls in special else form_of(cls).read(written)
    return found


def with_new_names(written: Mapping[str, Any]) -> Json:
    """Rename the fields of an earlier version to their current names."""
    found = {**written}
    for name, old in OLD_NAMES.items():
        if name not in found and old in found:
            found[name] = found[old]
    return found


def order_of(number: int | None) -> int | None:
    """Return the order (from 0) of a number (from 1)."""
    return None if number is None else number - 1


def number_of(order: int | None) -> int | None:
    """Return the number (from 1) of an order (from 0)."""
    return None if order is None else order + 1


# ---------------------------------------------------------------- turns, messages, conversations


def turn_record(turn: DialogTurn) -> Record:
    """Return the stored form of a turn. Raises what `to_json` raises."""
    unchecked = replace(turn, checks=()) if turn.checks else turn
    return {**_as_record(to_json(unchecked)), "record": RECORD_VERSION}


def turn_from_record(record: Mapping[str, Any]) -> DialogTurn:
    """Return the turn of a record or of `to_json`.

    Raises:
        KeyError: it has no id.
        StoreTooNew: a later version of the program wrote the record.
    """
    if (version := record.get("record", 1)) > RECORD_VERSION:
        raise StoreTooNew(
            path=f"record of turn {record.get('id')}", found=version, supported=RECORD_VERSION, fix=_UNCHANGED
        )
    return _turn(_of_record(record))


def message_record(message: Message) -> Record:
    """Return the stored form of a message. Raises what `to_json` raises."""
    return _as_record(to_json(message))


def message_from_record(record: Mapping[str, Any]) -> Message:
    """Return the message of a record or of `to_json`. Raises KeyError if it has no id or content."""
    return _message(_of_record(record))


def conversation_record(conversation: Conversation) -> Record:
    """Return the stored form of a conversation, without its turns."""
    return _as_record(to_json(conversation))


def conversation_from_record(record: Mapping[str, Any]) -> Conversation:
    """Return the conversation of a record or of `to_json`."""
    return from_json(Conversation, _of_record(record))


def _as_record(written: Json) -> Record:
    """Replace the numbers in JSON by the orders of records."""
    for name, order in _ORDERS.items():
        if name in written:
            written[order] = order_of(written.pop(name))
    return written


def _of_record(record: Mapping[str, Any]) -> Mapping[str, Any]:
    given = {name: number_of(record[order]) for name, order in _ORDERS.items() if order in record}
    return {**record, **given}


def marks_in(marks: Any) -> list[str]:
    """Return marks in their stored form: sorted and unique.

    Raises:
        TypeError: text instead of a sequence of texts, which would be split into letters.
    """
    if isinstance(marks, str) or not all(isinstance(mark, str) for mark in marks):
        raise TypeError(f"marks must be a sequence of texts, for example ('HINT',), not {marks!r}")
    return sorted(set(marks))


def checked_turn(turn: DialogTurn, pairs: Iterable[tuple[Citation, Freshness]] | None = None) -> Json:
    """Return the freshness of a turn and of the citations that it is based on (or of `pairs`) as JSON."""
    return {
        "turn": turn.id,
        "number": number_of(turn.order),
        "conversation": turn.conversation_id,
        "question": turn.question,
        "freshness": to_json(turn.freshness or worst(())),
        "citations": checked_citations(turn.checked if pairs is None else pairs),
    }


def checked_citations(pairs: Iterable[tuple[Citation, Freshness]]) -> list[Json]:
    """Return citations as JSON, each with its `freshness`."""
    return [to_json(citation) | {"freshness": to_json(found)} for citation, found in pairs]


def add_diffs(checked: Json, diffs: Mapping[int, Sequence[str]]) -> Json:
    """Add the `diff` of the cited lines, "" for none, to each citation of a checked turn; return it.

    `diffs` are those of a turn by the number of the citation, see `rag.service.checks.freshness.differences`.
    """
    for citation in checked["citations"]:
        citation["diff"] = "".join(f"{line}\n" for line in diffs.get(citation["n"], ()))
    return checked


def _item_json(item: DialogTurn | Message) -> Json:
    """Return a turn, with the freshness of its citations if it was checked, or a message as JSON."""
    kind = "turn" if isinstance(item, DialogTurn) else "message"
    if not item.id:
        raise ValueError(f"a {kind} needs an id to be stored, and this one has none")
    written = form_of(type(item)).write(item)
    if isinstance(item, Message):
        _require_text(**{name: written[name] for name in ("id", "role", "name", "mime")})
        return written
    _require_text(id=item.id, question=item.question, answer=item.answer, standalone=item.standalone_question)
    if item.checks:
        written["citations"] = checked_citations(zip(item.citations, item.checks, strict=True))
        written["freshness"] = item.freshness and to_json(item.freshness)
    return written


def _turn(written: Mapping[str, Any]) -> DialogTurn:
    if "state" not in written:
        written = _before_states(written)
    turn = DialogTurn(**form_of(DialogTurn).arguments(written))
    if (question := written.get("question")) is not None:
        turn.user_query = UserQuery(question, written.get("question_metadata"))
    if (answer := written.get("answer")) is not None:
        turn.assistant_response = AssistantResponse(answer, written.get("answer_metadata"))
    checks = [one["freshness"] for one in written.get("citations", ()) if "freshness" in one]
    turn.checks = tuple(map(form_of(Freshness).read, checks))
    return turn


def _before_states(written: Mapping[str, Any]) -> Json:
    """Return the JSON of a turn of version 1 with the fields of version 2.

    The subject was in its metadata. Before 0.2, the fields of the usage were those of the turn.
    """
    found = {**written}
    found.setdefault("usage", written)
    found["state"] = "answered" if written.get("complete", True) else "partial"
    metadata = written.get("metadata")
    if isinstance(metadata, dict) and (subject := _subject_in(metadata.get("subject"))) is not None:
        found["subject"] = form_of(Subject).write(subject)
        found["metadata"] = {name: value for name, value in metadata.items() if name != "subject"} or None
    return found


def _subject_in(written: Any) -> Subject | None:
    """Return the subject in the metadata of a turn; None if it is something else."""
    form = form_of(Subject)
    if not isinstance(written, dict) or set(written) != {*(f.name for f in form.fields), *form.computed}:
        return None
    types = {field.name: field.type for field in form.fields}
    return form.read(written) if all(isinstance(written[n], kind) for n, kind in types.items()) else None


def _message(written: Mapping[str, Any]) -> Message:
    content = written["content"]
    is_binary = written.get("encoding") == "base64"
    more = form_of(Message).arguments(written)
    return Message(b64decode(content) if is_binary else content, **more)


# ---------------------------------------------------------------- derive forms from dataclasses


def _fields_of(cls: Any) -> Iterable[Field]:
    """Yield the fields of a dataclass in order; a span, question or answer is replaced by its own fields."""
    hints = get_type_hints(cls)
    for field in fields(cls):
        if field.name in _LEFT_OUT.get(cls, ()):
            continue
        if hints[field.name] is Span:
            for one in form_of(Span).fields:
                yield one._replace(get=attrgetter(f"span.{one.path}"), path=f"span.{one.path}")
            continue
        if parts := _PARTS.get((cls, field.name)):
            yield from parts
            continue
        name = "answer" if cls is Answer and field.name == "text" else NAMES.get(field.name, field.name)
        default = None if field.default_factory is MISSING else field.default_factory
        if field.default is not MISSING:
            default = _constant(field.default)
        if (cls, name) in {(DialogTurn, "id"), (Message, "id")}:
            default = None
        write, read = _converters(hints[field.name], name)
        get = attrgetter(field.name)
        yield Field(name, hints[field.name], get, field.name, write, read, default, path=field.name)


def _part(name: str, of: str, attribute: str, type_: Any) -> Field:
    """Return a field that reads an attribute of an attribute; None if the latter is None."""

    def got(value: Any) -> Any:
        whole = getattr(value, of)
        return None if whole is None else getattr(whole, attribute)

    write = partial(_json, f"{of}.{attribute}") if attribute == "metadata" else None
    return Field(name, type_, got, write=write, default=_constant(None))


def _encoded(message: Message) -> Any:
    """Return the content as JSON; bytes become base64."""
    content = message.content
    return b64encode(content).decode("ascii") if _is_binary(message) else _json("content", content)


def _is_binary(message: Message) -> bool:
    return isinstance(message.content, (bytes, bytearray, memoryview))


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _converters(hint: Any, name: str) -> tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None]:
    """Return the functions that write and read a value of this type."""
    if (special := _SPECIAL.get(name)) is not None:
        return special
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (kind,) = (one for one in arguments if one is not NoneType)
        write, read = _converters(kind, name)
        return write and _unless_none(write), read and _unless_none(read)
    if origin is tuple:
        write, read = _converters(arguments[0], name)
        return _each(write, list), _each(read, tuple)
    if hint is Source:
        return form_of(Source).write, _source_from
    if hint is SupportCheck:
        return form_of(SupportCheck).write, _support_from
    if is_dataclass(hint):
        form = form_of(hint)  # type: ignore[arg-type]
        return form.write, form.read
    if hint is datetime:
        return _moment, _from_moment
    # Lines and scores are often NumPy numbers.
    plain: dict[Any, Callable[[Any], Any]] = {int: int, float: lambda number: _json(name, float(number))}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict, dict
    return plain.get(hint), None


def _source_from(written: Mapping[str, Any]) -> Source:
    filters = Filters(tuple(written.get("include", ())), tuple(written.get("exclude", ())))
    return Source(written["location"], written.get("ref"), filters)


def _support_from(written: Mapping[str, Any]) -> SupportCheck:
    """Read a check; the statements that earlier versions called weakly supported are supported today."""
    flagged = [one for one in written.get("flagged", ()) if one["kind"] != "weak"]
    supported = written.get("supported", 0) + written.get("weak", 0)
    return form_of(SupportCheck).read({**written, "flagged": flagged, "supported": supported})


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _each(convert: Callable[[Any], Any] | None, make: Callable[[Iterable[Any]], Any]) -> Callable[[Any], Any]:
    return make if convert is None else lambda values: make(map(convert, values))


def _split_symbol(qualified: str) -> Json:
    """Split the qualified symbol of an old citation into symbol and scope; see the top of the module."""
    found = _DOTTED_NAME.fullmatch(qualified)
    return {"scope": found[1], "symbol": found[2]} if found else {"scope": "", "symbol": qualified}


# ---------------------------------------------------------------- values that JSON cannot represent


def _require_text(**values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, which is not text")


def _moment(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat(timespec="microseconds")


def _from_moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _json(place: str, value: Any) -> Any:
    """Return a copy of a JSON value; refuse values that JSON would change (tuples, non-text keys)."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{place} has the key {key!r}; JSON keys are text")
        return {key: _json(f"{place}.{key}", item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(f"{place}[{n}]", item) for n, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}, which JSON cannot represent")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(
        f"{place} is a {type(value).__name__}, which is not JSON; use text, numbers, lists or dicts"
    )


_PARTS: Mapping[tuple[type, str], tuple[Field, ...]] = {
    (Answer, "cached"): (
        Field(
            "cached",
            str | None,
            lambda answer: answer.cached or None,
            "cached",
            read=lambda turn: turn or "",
            default=_constant(None),
        ),
    ),
    (DialogTurn, "user_query"): (
        _part("question", "user_query", "query_str", str | None),
        _part("question_metadata", "user_query", "metadata", Any),
    ),
    (DialogTurn, "assistant_response"): (
        _part("answer", "assistant_response", "response_str", str | None),
        _part("answer_metadata", "assistant_response", "metadata", Any),
    ),
    (Source, "filters"): tuple(
        Field(name, tuple[str, ...], attrgetter(f"filters.{name}"), write=list, default=_constant(()))
        for name in ("include", "exclude")
    ),
    (Message, "content"): (
        Field(
            "encoding",
            Literal["json", "base64"],
            lambda message: "base64" if _is_binary(message) else "json",
            default=_constant("json"),
        ),
        Field("content", Any, _encoded),
    ),
}
"""Fields that become several fields in JSON, or have another type there."""

_SPECIAL: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any] | None]] = {
    "number": (number_of, order_of),
    "forked_after": (number_of, order_of),
    "marks": (marks_in, tuple),
    "metadata": (partial(_json, "metadata"), None),
}
"""Converters of fields for which their type does not determine it, by name."""
