"""`/ws/chat`: one JSON text in, plain text frames out; the close is the end.

An error is a text frame that begins with `Error`, then a normal close: the frontend knows no other. A client
that goes ends its answer, and nothing of it is stored.

The frontend's Ask sends each question alone. A cookie that is renewed with each connection, and forgotten
half an hour after the last, stands for the browser, so that its questions are one conversation.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from contextlib import aclosing, suppress

from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from rag.errors import RagError
from rag.serve.access.json_limits import check_json
from rag.serve.access.keys import Caller
from rag.serve.deepwiki.chat import DeepWikiChat
from rag.serve.deepwiki.schema import DeepWikiRequest
from rag.serve.errors import BadRequest, ModelFailed, ShuttingDown, TooSlow
from rag.serve.service import Service
from rag.serve.settings import ServerSettings

_COOKIE = "rag_ask"
_REMEMBERED_S = 1_800
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")


async def answer_socket(socket: WebSocket, service: Service, chat: DeepWikiChat) -> None:
    """Answer the one request of a connection."""
    known = socket.cookies.get(_COOKIE, "")
    browser = known if _TOKEN.fullmatch(known) else secrets.token_urlsafe(16)
    cookie = f"{_COOKIE}={browser}; Path=/ws; Max-Age={_REMEMBERED_S}; HttpOnly; SameSite=Lax"
    cookie += "; Secure" if socket.url.scheme == "wss" else ""
    await socket.accept(headers=[(b"set-cookie", cookie.encode())])
    try:
        asked = await _request(socket, service.settings)
        sending = asyncio.create_task(_send(socket, service, chat, asked, browser))
        with service.streams.registered(sending):
            await _unless_gone(socket, sending)
    except WebSocketDisconnect:
        return
    except RagError as error:
        await _say(socket, f"Error: {_one_line(service, error)}")
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close()


async def _request(socket: WebSocket, settings: ServerSettings) -> DeepWikiRequest:
    """The request.

    Raises:
        BadRequest: it is none.
        TooLarge: its JSON has too many values.
        TooSlow: it does not come.
        WebSocketDisconnect: the client has gone.
    """
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            message = await socket.receive()
    except TimeoutError:
        raise TooSlow(f"no request came within {settings.body_timeout_s:g} seconds") from None
    if message["type"] != "websocket.receive":
        raise WebSocketDisconnect()
    sent = message.get("text") or message.get("bytes") or b""
    text = sent.encode("utf-8", "surrogatepass") if isinstance(sent, str) else sent
    check_json(text, max_values=settings.max_json_values)
    try:
        return DeepWikiRequest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "JSON"
        raise BadRequest(f"the request cannot be read: {first['msg']} ({where})") from None


async def _send(
    socket: WebSocket, service: Service, chat: DeepWikiChat, asked: DeepWikiRequest, browser: str
) -> None:
    """Send the answer, or how it failed, in frames."""
    caller: Caller = socket.state.caller
    base = re.sub(r"^ws", "http", str(socket.base_url))
    begun = ""
    try:
        async with aclosing(chat.pieces(caller, asked, base=base, browser=browser)) as pieces:
            async for piece in pieces:
                await socket.send_text(piece)
                begun = "\n\n"
    except RagError as error:
        quotes = f"\n\n{error.more['quotes']}" if isinstance(error, ModelFailed) else ""
        await _say(socket, f"{begun}Error: {_one_line(service, error)}{quotes}")
    except asyncio.CancelledError:
        if not service.streams.ending:
            raise
        stopping = ShuttingDown("the server stops; ask again in a moment", retry_after_s=5)
        await _say(socket, f"{begun}Error: {stopping}")


async def _unless_gone(socket: WebSocket, sending: asyncio.Task[None]) -> None:
    """Wait until all is sent, or end that when the client goes."""
    gone = asyncio.create_task(_gone(socket))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not sending.done():
            sending.cancel()
        with suppress(asyncio.CancelledError, WebSocketDisconnect):
            await sending
        with suppress(asyncio.CancelledError):
            await gone


async def _gone(socket: WebSocket) -> None:
    """Until the client closes; what else it says is not heard."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _say(socket: WebSocket, text: str) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.send_text(text)


def _one_line(service: Service, error: RagError) -> str:
    return " ".join(service.public_message(error).split())
