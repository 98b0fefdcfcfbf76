"""A look in one conversation: a model that calls tools looks until it writes the answer itself.

The conversation begins with the prompt of the question, whose numbered sources are the first results of the
search. Results of tools continue their numbers, and nothing is sent twice, so that a reference means the same
in every reply, and a service can cache what it has read before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rag.agent.look import STEP_TOKENS, Look, LookLimits, Surroundings
from rag.agent.protocol import StepRequest, read_call
from rag.agent.tools import Tools
from rag.messages import split_messages
from rag.prompt.templates import render_look
from rag.types import Prepared, Prompt, ToolCall, ToolChat, TraceStep

_LAST = "\n\nNo step is left, and no tool can be called any more: answer now."
_REPLY_SECONDS = 5.0
"""The seconds for the steps of a reply that came late: they are local, and their results are what the model
answers from.
"""


class ToolLook(Look):
    """A look with tools: its conversation is sent until the model answers."""

    form = "tools"

    def __init__(self, prepared: Prepared, tools: Tools, limits: LookLimits, around: Surroundings) -> None:
        super().__init__(prepared, tools, limits, around)
        self._schemas = tuple(spec.schema() for spec in tools.specs)
        self._messages = self._begun(prepared)
        self._window = limits.window - prepared.prompt.answer_tokens
        self._budget.tokens = self._room()
        self._check()

    def begun(self) -> Prepared:
        """Return the question with the conversation to send now."""
        return replace(self._prepared, chat=self._chat(), prompt=self._prompt())

    def read(self, calls: Sequence[ToolCall], answer: str) -> Iterator[tuple[ToolCall, StepRequest]] | None:
        """Return the steps that a reply asks for; each is to be run before the next one is taken.

        Without calls the reply is the answer, which ends the look; then there are None.
        """
        self._sent += self._tokens()
        self._received += self._counter.count(answer)
        self._received += sum(self._counter.count(call.name + call.arguments) for call in calls)
        if not calls or self.ended:
            self.end("the model has enough")
            return None
        return self._pending(calls)

    def _pending(self, calls: Sequence[ToolCall]) -> Iterator[tuple[ToolCall, StepRequest]]:
        """Yield the steps of a reply until the look ends; calls that are not run are not sent back."""
        sent: list[dict[str, Any]] = []
        until = self._budget.until
        self._budget.until = max(until, self._clock() + _REPLY_SECONDS)
        for call in calls:
            request = read_call(call, self._tools.specs)
            one = _sent(call, request)
            self._budget.tokens -= self._counter.count(json.dumps(one, ensure_ascii=False))
            self._check()
            if self.ended:
                break
            if not sent:  # the text before calls is the model's own; it would only take room
                self._messages.append({"role": "assistant", "content": "", "tool_calls": sent})
            sent.append(one)
            yield call, request
        self._budget.requests -= 1
        self._budget.until = until
        self._check()

    def run(self, call: ToolCall, request: StepRequest) -> TraceStep:
        """Run a step of the last reply, and return what came of it.

        Raises:
            StoreCorrupt, StoreError: a store cannot be read.
        """
        step, result = self._run(request)
        self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        self._budget.tokens = self._room()  # exactly: counters learn, and calls take room too
        self._check()
        return step

    def _begun(self, prepared: Prepared) -> list[dict[str, Any]]:
        """Return the messages of the question's prompt, with the rules of a look after the system's."""
        messages: list[dict[str, Any]] = [*split_messages(prepared.prompt.text)]
        rules = render_look(
            self._around.home,
            input_str="",
            repositories=list(self._around.repositories),
            contexts=[],
            tools=self._tools.specs,
            with_tools=True,
            steps=[],
            left=0,
        ).strip()
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{rules}"
        else:
            messages.insert(0, {"role": "system", "content": rules})
        return messages

    def _chat(self) -> ToolChat:
        return ToolChat(tuple(self._to_send()), self._schemas, must_answer=self.ended)

    def _to_send(self) -> list[dict[str, Any]]:
        """Return the conversation; if the look has ended, its last message says so."""
        messages = [dict(message) for message in self._messages]
        if self.ended:
            messages[-1]["content"] += _LAST
        return messages

    def _prompt(self) -> Prompt:
        """Return the conversation as the prompt of the answer."""
        said = [f"{one['role'].upper()}: {_shown_message(one)}" for one in self._to_send()]
        text = "\n\n".join(said)
        prompt = self._prepared.prompt
        return replace(prompt, text=text, sources=tuple(self.sources), tokens=self._tokens())

    def _room(self) -> int:
        """Return the tokens that are left for results."""
        return self._window - self._tokens() - STEP_TOKENS

    def _tokens(self) -> int:
        """Return the tokens of the conversation and of its tools, as they are sent with every request."""
        return self._counter.count(ToolChat(tuple(self._messages), self._schemas).text)


def _sent(call: ToolCall, request: StepRequest) -> dict[str, Any]:
    """Return a call as it is sent back, with its arguments as they were read, which are JSON in any case."""
    arguments = json.dumps(request.arguments, ensure_ascii=False)
    function = {"name": request.tool, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function, **call.extra}


def _shown_message(message: dict[str, Any]) -> str:
    calls = [one["function"] for one in message.get("tool_calls", ())]
    return "\n".join(f"{one['name']} {one['arguments']}" for one in calls) or str(message["content"])
