"""Load on a server: `python -m tools.benchmarks.load`, told on standard input, tells what it saw as JSON.

{"port": 8000, "clients": 32, "requests": 2000, "stream": false, "repository": "django", "questions": […]}

Each client keeps one connection and sends its next question when the last is answered. The clients are
coroutines of this one process, whose own CPU time is told: it takes that from the server's machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import count
from typing import Any


async def client(job: dict[str, Any], numbers: Any, seen: list[tuple[int, float, float]]) -> None:
    """Ask until the requests are spent; note status, first byte and whole time of each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", job["port"])
    questions = job["questions"]
    while (number := next(numbers)) < job["requests"]:
        body = json.dumps(
            {
                "question": questions[number % len(questions)],
                "repositories": [job["repository"]],
                "stream": job["stream"],
            }
        ).encode()
        began = time.perf_counter()
        head = f"POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        told = (await reader.readuntil(b"\r\n\r\n")).lower()
        first = time.perf_counter() - began
        if b"transfer-encoding: chunked" in told:
            while size := int(await reader.readline(), 16):
                await reader.readexactly(size + 2)
            await reader.readline()
        else:
            length = told.split(b"content-length: ")[1].split(b"\r\n")[0]
            await reader.readexactly(int(length))
        seen.append((int(told.split()[1]), first, time.perf_counter() - began))
    writer.close()
    await writer.wait_closed()


async def load(job: dict[str, Any]) -> dict[str, Any]:
    """Run the clients to their end; what they saw, in milliseconds."""
    seen: list[tuple[int, float, float]] = []
    numbers = count()
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(client(job, numbers, seen) for _ in range(job["clients"])))
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "requests": len(seen),
        "failed": sum(status != 200 for status, _, _ in seen),
        "seconds": took,
        "per_second": len(seen) / took,
        "cpu_share": cpu / took,
        "first_p50_ms": _at(0.5, [first for _, first, _ in seen]),
        "first_p95_ms": _at(0.95, [first for _, first, _ in seen]),
        "p50_ms": _at(0.5, [whole for _, _, whole in seen]),
        "p95_ms": _at(0.95, [whole for _, _, whole in seen]),
    }


def _at(share: float, values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] * 1000


if __name__ == "__main__":
    json.dump(asyncio.run(load(json.load(sys.stdin))), sys.stdout)
