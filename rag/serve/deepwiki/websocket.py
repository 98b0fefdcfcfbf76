"""`/ws/chat`: receives one JSON request, sends text frames, and closes the connection.

An error is a text frame that begins with `Error`, followed by a normal close, as the frontend expects. If the
client disconnects, its answer is cancelled and nothing is stored.

The frontend's Ask sends each question without a history, whether or not its conversation was cleared; so each
of them begins a conversation. Its Deep Research sends its own history.
"""

from __future__ import annotations

import asyncio
import re
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


async def answer_socket(socket: WebSocket, service: Service, chat: DeepWikiChat) -> None:
    """Answer the only request of a connection."""
    await socket.accept()
    try:
        asked = await _request(socket, service.settings)
        sending = asyncio.create_task(_send(socket, service, chat, asked))
        with service.streams.registered(sending):
            await _until_disconnect(socket, sending)
    except WebSocketDisconnect:
        return
    except RagError as error:
        await _send_text(socket, f"Error: {_one_line(service, error)}")
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close()


async def _request(socket: WebSocket, settings: ServerSettings) -> DeepWikiRequest:
    """Receive the request.

    Raises:
        BadRequest: it is invalid.
        TooLarge: its JSON has too many values.
        TooSlow: it does not arrive in time.
        WebSocketDisconnect: the client has disconnected.
    """
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            message = await socket.receive()
    except TimeoutError:
        raise TooSlow(f"no request arrived within {settings.body_timeout_s:g} seconds") from None
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
        raise BadRequest(f"the request is invalid: {first['msg']} ({where})") from None


async def _send(socket: WebSocket, service: Service, chat: DeepWikiChat, asked: DeepWikiRequest) -> None:
    """Send the answer or the error in text frames."""
    caller: Caller = socket.state.caller
    base = re.sub(r"^ws", "http", str(socket.base_url))
    separator = ""
    try:
        async with aclosing(chat.pieces(caller, asked, base=base)) as pieces:
            async for piece in pieces:
                await socket.send_text(piece)
                separator = "\n\n"
    except RagError as error:
        quotes = f"\n\n{error.more['quotes']}" if isinstance(error, ModelFailed) else ""
        await _send_text(socket, f"{separator}Error: {_one_line(service, error)}{quotes}")
    except asyncio.CancelledError:
        if not service.streams.ending:
            raise
        stopping = ShuttingDown("the server is shutting down; ask again in a moment", retry_after_s=5)
        await _send_text(socket, f"{separator}Error: {stopping}")


async def _until_disconnect(socket: WebSocket, sending: asyncio.Task[None]) -> None:
    """Wait until everything is sent, or cancel it when the client disconnects."""
    gone = asyncio.create_task(_disconnected(socket))
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


async def _disconnected(socket: WebSocket) -> None:
    """Wait until the client closes the connection; other messages are ignored."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _send_text(socket: WebSocket, text: str) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.send_text(text)


def _one_line(service: Service, error: RagError) -> str:
    return " ".join(service.public_message(error).split())
