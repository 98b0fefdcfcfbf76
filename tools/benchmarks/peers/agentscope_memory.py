"""AgentScope 1.0's memories on SQLite and Redis: a job as JSON on standard input, seconds as JSON out."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from agentscope.memory import AsyncSQLAlchemyMemory, MemoryBase, RedisMemory
from agentscope.message import Msg
from sqlalchemy.ext.asyncio import create_async_engine


def said(turns: list[list[str]]) -> list[Msg]:
    """Each turn as what the user and what the assistant said."""
    return [
        Msg(who, text, who) for turn in turns for who, text in zip(("user", "assistant"), turn, strict=True)
    ]


def memory_of(job: dict[str, Any]) -> MemoryBase:
    if job["kind"] == "sqlite":
        return AsyncSQLAlchemyMemory(create_async_engine(f"sqlite+aiosqlite:///{job['where']}"), "s", "u")
    return RedisMemory("s", "u", host="127.0.0.1", port=job["where"])


async def measure(job: dict[str, Any]) -> dict[str, Any]:
    memory, turns, batch, singles = memory_of(job), job["turns"], job["batch"], job["singles"]
    seconds: dict[str, list[float]] = {"batch": [], "single": [], "context": []}
    for at in range(0, len(turns), batch):
        messages = said(turns[at : at + batch])
        began = time.perf_counter()
        await memory.add(messages)
        seconds["batch"].append(time.perf_counter() - began)
    for turn in singles:
        messages = said([turn])
        began = time.perf_counter()
        await memory.add(messages)
        seconds["single"].append(time.perf_counter() - began)
    for _ in range(job["reads"]):
        began = time.perf_counter()
        recent = (await memory.get_memory())[-2 * job["last"] :]
        seconds["context"].append(time.perf_counter() - began)
        assert [one.content for one in recent[-2:]] == (singles or turns)[-1]
    return seconds


if __name__ == "__main__":
    json.dump(asyncio.run(measure(json.load(sys.stdin))), sys.stdout)
