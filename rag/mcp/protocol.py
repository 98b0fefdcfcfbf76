"""Messages of the Model Context Protocol, and the replies to them, whatever carries them.

The revisions from 2024-11-05 to 2025-11-25 are spoken, which begin with `initialize`; clients of later ones
fall back to these. The server never sends a request, and its lists do not change, so a client needs nothing
but the replies. What needs no repository is answered without importing what reads one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rag.errors import RagError, StoreCorrupt
from rag.mcp.catalog import McpTool, instructions, listed_tools, prompts, tools
from rag.settings import ToolSet

if TYPE_CHECKING:
    from rag.mcp.host import Host, Progress
    from rag.mcp.toolbox import Reply
    from rag.types import Conversation

Json = dict[str, Any]
log = logging.getLogger("rag.mcp")

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PAGE = 50
"""The conversations of one page of the list, and the values of a completion."""
_MAX_LISTED = 1_000
"""The latest conversations that are listed and completed."""
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
)
CANCELLED, _NOT_FOUND = -32800, -32002
UNEXPECTED = "the server failed; its log has the reason"
_TURNS_URI = "turns://conversations/"
PARAMETERS = {"repoName": "repo", "maxChars": "max_chars", "range": "range_"}
"""Arguments of tools whose parameters have other names: DeepWiki's, and one of Python's functions."""
_MAX_SHOWN = 200
_LEAST_PROGRESS = 0.01

Report = Callable[[Json], Awaitable[None]]
"""Sends a message to the client before the reply."""


class ProtocolError(Exception):
    """A message that cannot be handled: the code of the error in the reply, and the message's id if known."""

    def __init__(self, code: int, message: str, id_: str | int | None = None) -> None:
        super().__init__(message)
        self.code, self.id = code, id_


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """A message of a client; `id` is None for a notification."""

    method: str
    params: Json
    id: str | int | None = None

    @property
    def progress_token(self) -> str | int | None:
        """The token of the client's reports of progress; None if it wants none."""
        meta = self.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        return token if isinstance(token, str | int) else None

    @property
    def cancels(self) -> str | int | None:
        """The id of the request that this notification cancels; None if it is another message."""
        id_ = self.params.get("requestId") if self.method == "notifications/cancelled" else None
        return id_ if isinstance(id_, str | int) else None

    def result(self, result: Json) -> Json:
        """Return the reply with a result."""
        return {"jsonrpc": "2.0", "id": self.id, "result": result}

    def text(self, name: str) -> str:
        """Return a parameter that is text. Raises ProtocolError."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise ProtocolError(INVALID_PARAMS, f"{self.method} needs `{name}`, a text")
        return value

    def mapping(self, name: str) -> Json:
        """Return a parameter that is an object; an empty one if it is missing. Raises ProtocolError."""
        value = self.params.get(name)
        if not isinstance(value, dict | None):
            raise ProtocolError(INVALID_PARAMS, f"`{name}` of {self.method} is an object")
        return value or {}


def read(line: bytes) -> ClientMessage | None:
    """Return a message of a client; None for a reply, since nothing is asked of clients.

    Raises:
        ProtocolError: it is no message.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "the message is not JSON") from None
    if isinstance(message, list):
        raise ProtocolError(INVALID_REQUEST, "batches are not accepted; send each message by itself")
    if not isinstance(message, dict):
        raise ProtocolError(INVALID_REQUEST, "a message is one object of JSON-RPC 2.0")
    if "method" not in message and "id" in message:
        return None
    method, params, id_ = message.get("method"), message.get("params") or {}, message.get("id")
    if isinstance(id_, bool) or not isinstance(id_, str | int | None) or (id_ is None and "id" in message):
        raise ProtocolError(INVALID_REQUEST, "the `id` of a message is text or a whole number")
    if message.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, "a message is one object of JSON-RPC 2.0", id_)
    if not isinstance(method, str) or not isinstance(params, dict):
        raise ProtocolError(INVALID_REQUEST, "a message has a `method`, and `params` are an object", id_)
    return ClientMessage(method, params, id_)


def failure(error: ProtocolError, id_: str | int | None = None) -> Json:
    """Return the reply to a message that cannot be handled."""
    known = error.id if id_ is None else id_
    return {"jsonrpc": "2.0", "id": known, "error": {"code": error.code, "message": str(error)}}


def written(message: Json) -> bytes:
    """Return a message on one line; invalid text becomes `?`."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


@cache
def _product() -> Json:
    return {"name": "rag", "version": version("rag-turns")}


def answered_at_once(request: ClientMessage, names: str, offered: ToolSet) -> Json | None:
    """Return the result of a request that needs no repository; None for another one.

    Args:
        request: the request.
        names: the names of the repositories, for `initialize`.
        offered: the tools that are listed, and the prompts that need no others.
    """
    match request.method:
        case "initialize":
            asked = request.params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in REVISIONS else REVISIONS[-1],
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}},
                "serverInfo": _product(),
                "instructions": f"{instructions(offered)}\nRepositories: {names}.",
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": listed_tools(offered)}
        case "prompts/list":
            return {"prompts": [one.listed() for one in prompts().values() if offered == "all" or one.basic]}
        case "prompts/get":
            return _prompt(request)
        case "resources/templates/list":
            template = {
                "uriTemplate": f"{_TURNS_URI}{{conversation}}",
                "name": "turns_of_a_conversation",
                "description": "The turns of a conversation, oldest first, with the sources of each answer.",
                "mimeType": "application/json",
            }
            return {"resourceTemplates": [template]}
    return None


def _prompt(request: ClientMessage) -> Json:
    name, given = request.text("name"), request.mapping("arguments")
    prompt = prompts().get(name)
    if prompt is None:
        raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name[:_MAX_SHOWN]}")
    odd = [
        each for each, value in given.items() if each not in prompt.arguments or not isinstance(value, str)
    ]
    missing = [each for each in prompt.needed if not given.get(each)]
    if odd or missing:
        wrong = f"needs `{missing[0]}`" if missing else f"has no text argument `{odd[0][:_MAX_SHOWN]}`"
        raise ProtocolError(INVALID_PARAMS, f"the prompt {name} {wrong}")
    content = {"type": "text", "text": prompt.filled(given)}
    return {"description": prompt.about, "messages": [{"role": "user", "content": content}]}


class ClientSession:
    """Answers the requests of one client.

    Args:
        host: provides its repositories.
        tools: the tools that are listed.
    """

    def __init__(self, host: Host, tools: ToolSet) -> None:
        from rag.mcp.memory_tools import MemoryTools
        from rag.mcp.toolbox import Toolbox

        self._host, self._listed = host, tools
        self._tools = (Toolbox(host), MemoryTools(host))

    async def reply(self, request: ClientMessage, report: Report) -> Json:
        """Return the reply to a request; `report` sends what comes before it."""
        try:
            return request.result(await self._result(request, report))
        except ProtocolError as error:
            return failure(error, request.id)
        except RagError as error:
            return failure(ProtocolError(_NOT_FOUND, self._host.message(error)), request.id)
        except Exception:
            log.exception("%s failed", request.method)
            return failure(ProtocolError(INTERNAL, UNEXPECTED), request.id)

    async def _result(self, request: ClientMessage, report: Report) -> Json:
        names = ", ".join(one.name for one in self._host.repositories())
        if (result := answered_at_once(request, names, self._listed)) is not None:
            return result
        match request.method:
            case "tools/call":
                return await self._called(request, _progress(request, report))
            case "resources/list":
                return await self._conversations(request)
            case "resources/read":
                return await self._turns(request.text("uri"))
            case "completion/complete":
                return await self._completed(request)
        raise ProtocolError(UNKNOWN_METHOD, f"there is no method {request.method[:_MAX_SHOWN]}")

    # ------------------------------------------------------------ tools

    async def _called(self, request: ClientMessage, progress: Progress) -> Json:
        from rag.mcp.arguments import checked

        name, given = request.text("name"), request.mapping("arguments")
        tool = tools().get(name)
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name[:_MAX_SHOWN]}")
        work: Callable[..., Awaitable[Reply]] = next(
            getattr(one, name) for one in self._tools if hasattr(one, name)
        )
        try:
            arguments = checked(tool, given)
            named = {PARAMETERS.get(key, key): one for key, one in arguments.items()}
            try:
                reply = await self._run(tool, work, named, progress)
            except StoreCorrupt as damage:
                if not await self._host.repaired(damage):
                    raise
                reply = await self._run(tool, work, named, progress)
        except RagError as error:
            return {"content": [_text(self._host.message(error))], "isError": True}
        values = self._host.sent({"result": reply.text, "coverage": [], **reply.values})
        return {"content": [_text(values["result"])], "structuredContent": values, "isError": False}

    async def _run(
        self, tool: McpTool, work: Callable[..., Awaitable[Reply]], named: Json, progress: Progress
    ) -> Reply:
        """Run a tool, and open its repository first if it works on one."""
        if not tool.opens:
            return await work(progress, **named)
        rest = {name: value for name, value in named.items() if name not in ("repo", "ref")}
        repository = await self._host.opened(named.get("repo"), named.get("ref"), progress)
        return await work(progress, repository, **rest)

    # ------------------------------------------------------------ conversations

    async def _conversations(self, request: ClientMessage) -> Json:
        """Return a page of the client's conversations, the latest first. Raises ProtocolError."""
        cursor = request.params.get("cursor") or "0"
        if not (isinstance(cursor, str) and cursor.isascii() and cursor.isdecimal() and len(cursor) < 7):
            raise ProtocolError(INVALID_PARAMS, "the cursor is not one of this list; omit it to begin")
        begin = int(cursor)
        found = await self._latest()
        listed = [
            {
                "uri": f"{_TURNS_URI}{one.id}",
                "name": one.name or one.id,
                "description": f"Answers about {', '.join(source.name for source in one.sources)}",
                "mimeType": "application/json",
            }
            for one in found[begin : begin + PAGE]
        ]
        following = {"nextCursor": str(begin + PAGE)} if begin + PAGE < len(found) else {}
        return {"resources": listed, **following}

    async def _turns(self, uri: str) -> Json:
        """Return the turns of a conversation as JSON, oldest first, with the sources of each answer."""
        from rag.schema import to_json

        if not uri.startswith(_TURNS_URI):
            raise ProtocolError(_NOT_FOUND, f"there is no resource {uri[:_MAX_SHOWN]}")
        engine = self._host.engine

        def read() -> list[Json]:
            found = engine.find_conversation(uri.removeprefix(_TURNS_URI))
            turns = engine.turns.turns(found.id, namespace=engine.settings.namespace)
            return [self._host.sent(to_json(turn)) for turn in turns]

        text = json.dumps(await self._host.run(read), ensure_ascii=False)
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}

    async def _completed(self, request: ClientMessage) -> Json:
        """Return the names that begin with what was typed, of an argument that has a known set of them."""
        argument = request.mapping("argument")
        typed = str(argument.get("value", ""))
        names: list[str] = []
        if argument.get("name") == "repo":
            names = sorted(one.name for one in self._host.repositories() if one.can_answer)
        elif argument.get("name") == "conversation":
            found = await self._latest()
            names = [*(one.name for one in found if one.name), *(one.id for one in found)]
        fitting = [name for name in dict.fromkeys(names) if name.startswith(typed)]
        values = {"values": fitting[:PAGE], "total": len(fitting), "hasMore": len(fitting) > PAGE}
        return {"completion": values}

    async def _latest(self) -> Sequence[Conversation]:
        """Return the latest conversations about the repositories that are offered."""
        engine = self._host.engine
        found = await self._host.run(lambda: engine.turns.conversations(namespace=engine.settings.namespace))
        offered = {one.source.location for one in self._host.repositories()}
        return [
            one
            for one in found
            if not one.sources or not offered.isdisjoint(source.location for source in one.sources)
        ][:_MAX_LISTED]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _progress(request: ClientMessage, report: Report) -> Progress:
    """Return the function that reports the progress of a call, if the client wants that.

    Each stage begins at 0, but the protocol wants numbers that grow: later ones begin where the last ended.
    """
    token = request.progress_token
    begin = sent = 0.0

    async def progress(done: float, total: float | None, message: str) -> None:
        nonlocal begin, sent
        if token is None:
            return
        if begin + done <= sent:
            begin = sent + (0.0 if done else _LEAST_PROGRESS)
        sent = round(begin + done, 2)
        whole = {} if total is None else {"total": round(begin + total, 2)}
        params = {"progressToken": token, "progress": sent, "message": message, **whole}
        await report({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    return progress
