"""LangChain's chat histories on SQLite and Redis: a job as JSON on standard input, seconds as JSON out."""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

from langchain_community.chat_message_histories import RedisChatMessageHistory, SQLChatMessageHistory
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage


def said(turns: list[list[str]]) -> list[BaseMessage]:
    """Each turn as what the user and what the assistant said."""
    return [kind(text) for turn in turns for kind, text in zip((HumanMessage, AIMessage), turn, strict=True)]


def history_of(job: dict[str, Any]) -> BaseChatMessageHistory:
    if job["kind"] == "sqlite":
        return SQLChatMessageHistory("s", connection=f"sqlite:///{job['where']}")
    return RedisChatMessageHistory("s", url=f"redis://127.0.0.1:{job['where']}")


def measure(job: dict[str, Any]) -> dict[str, Any]:
    history, turns, batch, singles = history_of(job), job["turns"], job["batch"], job["singles"]
    seconds: dict[str, list[float]] = {"batch": [], "single": [], "context": []}
    for at in range(0, len(turns), batch):
        messages = said(turns[at : at + batch])
        began = time.perf_counter()
        history.add_messages(messages)
        seconds["batch"].append(time.perf_counter() - began)
    for turn in singles:
        messages = said([turn])
        began = time.perf_counter()
        history.add_messages(messages)
        seconds["single"].append(time.perf_counter() - began)
    for _ in range(job["reads"]):
        began = time.perf_counter()
        recent = history.messages[-2 * job["last"] :]
        seconds["context"].append(time.perf_counter() - began)
        assert [one.content for one in recent[-2:]] == (singles or turns)[-1]
    return seconds


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(measure(json.load(sys.stdin)), sys.stdout)
