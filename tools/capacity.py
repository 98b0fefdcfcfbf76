"""How large a site must be: an estimate from measured figures.

    python -m tools.capacity measure SOURCE POSTGRES_URL   # measures on this machine, prints JSON
    python -m tools.capacity                               # prints the table of docs/operations.md
    python -m tools.capacity --repositories 200 --chunks 20e6 --questions 5

The figures are in docs/assets/capacity.json, each with the command that repeats it. All that is computed from
them for another size is extrapolated in proportion. Prices are inputs, 0 by default.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from rag.processes import PIPE, closed_environment, python_command, start
from rag.service import Dialog, Engine, converse
from rag.settings import Settings

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "assets" / "capacity.json"
_QUESTIONS = Path(__file__).resolve().parent / "questions" / "dev.jsonl"
_MEASURED_TURNS = 300
_BYTES_PER_GB = 1e9
_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Site:
    """What a site is to hold and do; prices in any currency, per month."""

    repositories: float = 1e4
    chunks: float = 1e9
    questions_per_s: float = 100.0
    """At the busiest time."""
    turns_per_day: float = 1e6
    retention_days: float = 90.0
    reindexed_per_day: float = 0.02
    """The share of all chunks that changes in a day."""
    cached: float = 0.1
    """The share of the indexes that the disks of each server hold."""
    busy: float = 0.5
    """The share of a core's time that may be used at the busiest time."""
    core_price: float = 0.0
    disk_gb_price: float = 0.0
    bucket_gb_price: float = 0.0
    database_gb_price: float = 0.0


def rows(site: Site, figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return what a site needs: the name, the amount, and how it was computed."""
    value = {name: float(one["value"]) for name, one in figures.items()}
    stores_gb = site.chunks * value["store_bytes_per_chunk"] / _BYTES_PER_GB
    build_h = site.chunks * value["build_cpu_s_per_chunk"] / 3_600
    overhead_h = site.repositories * value["job_s_per_repository"] / 3_600
    ask_cores = site.questions_per_s / value["questions_per_s_per_core"] / site.busy
    refresh_cores = (
        site.chunks * site.reindexed_per_day * value["build_cpu_s_per_chunk"] / _SECONDS_PER_DAY / site.busy
    )
    turns_gb = site.turns_per_day * site.retention_days * value["postgres_bytes_per_turn"] / _BYTES_PER_GB
    memory_gb = site.repositories * value["memory_bytes_per_repository"] / _BYTES_PER_GB
    group_s = site.repositories * value["group_s_per_index"]
    busy, kept = f"{site.busy:.0%} busy", f"{site.retention_days:.0f} days"
    price = (
        (ask_cores + refresh_cores) * site.core_price
        + stores_gb * site.cached * site.disk_gb_price
        + stores_gb * site.bucket_gb_price
        + turns_gb * site.database_gb_price
    )
    found = [
        ("bucket", f"{stores_gb:,.0f} GB", "bytes of an index per chunk"),
        ("disk of all servers", f"{stores_gb * site.cached:,.0f} GB", f"{site.cached:.0%} of the bucket"),
        ("first build", f"{build_h + overhead_h:,.0f} CPU-hours", "CPU per chunk, and a job per repository"),
        ("workers, then", f"{refresh_cores:,.1f} cores", f"{site.reindexed_per_day:.0%} of the chunks a day"),
        ("servers", f"{ask_cores:,.1f} cores", f"{site.questions_per_s:,.0f} questions/s, {busy}"),
        (
            "memory of a server",
            f"{memory_gb:,.1f} GB",
            "if it has every repository listed; without page cache",
        ),
        ("Postgres", f"{turns_gb:,.0f} GB", f"{site.turns_per_day:,.0f} turns a day, kept {kept}"),
        ("a question to `@all`", f"{group_s:,.1f} s", "grows with the number of indexes"),
    ]
    if price:
        found.append(("price", f"{price:,.0f} per month", "without traffic and spare capacity"))
    return found


def markdown(site: Site, figures: dict[str, Any]) -> str:
    """Return the tables of the documentation: the figures, then what the site needs."""
    lines = ["| Measured | | Command |", "|---|--:|---|"]
    for one in figures.values():
        lines.append(f"| {one['what']} | {one['shown']} | {one['command']} |")
    lines += ["", "| Extrapolated | Needs | From |", "|---|--:|---|"]
    lines += [f"| {name} | {amount} | {how} |" for name, amount, how in rows(site, figures)]
    return "\n".join(lines)


def measure(source: str, url: str) -> dict[str, float]:
    """Index a folder and store turns about it in an empty database; return what each took."""
    with TemporaryDirectory(prefix="rag-capacity-") as home:
        before = _children_cpu_s()
        command = python_command("rag", "index", source, "--json")
        environment = closed_environment({"RAG_HOME": home})
        with start(command, environment=environment, stdout=PIPE) as process:
            report = json.loads(process.communicate()[0])
        build_s = _children_cpu_s() - before
        questions = [json.loads(line)["question"] for line in _QUESTIONS.read_text().splitlines()]
        with closing(Engine(Settings(home=Path(home), memory=url))) as engine:
            dialog, generator = Dialog(engine, [engine.repository(source)]), engine.answering_generator()
            sizes = []
            for number, question in enumerate(questions[: _MEASURED_TURNS + 1]):
                for _ in converse(dialog, question, generator):
                    pass
                if number in (0, _MEASURED_TURNS):
                    sizes.append(_database_bytes(url))
    return {
        "chunks": report["chunks"],
        "build_cpu_s_per_chunk": build_s / report["chunks"],
        "store_bytes_per_chunk": report["size_bytes"] / report["chunks"],
        "postgres_bytes_per_turn": (sizes[1] - sizes[0]) / _MEASURED_TURNS,
    }


def _database_bytes(url: str) -> int:
    with psycopg.connect(url) as db:
        row = db.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the tables, or measure."""
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(*sys.argv[2:4]), indent=1))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = Site.__dataclass_fields__
    short = {"questions_per_s": "questions"}
    for name in names:
        option = f"--{short.get(name, name).replace('_', '-')}"
        parser.add_argument(option, type=float, dest=name, default=getattr(Site(), name), metavar="NUMBER")
    site = replace(Site(), **vars(parser.parse_args()))
    print(markdown(site, json.loads(FIGURES.read_text())))


if __name__ == "__main__":
    main()
