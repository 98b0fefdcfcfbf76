"""`rag facts` and `rag prefer`: facts about repositories, and the user's preferences."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.facts_shared import pull, push
from rag.cli.freshness import AsOf
from rag.cli.selectors import Of, chosen, named, title
from rag.cli.terminal import nothing, opened_engine, out, out_json, result, say, wants_json
from rag.errors import ConfigError
from rag.quoting import counted, visible
from rag.schema import to_json
from rag.settings import FactScope
from rag.types import Source

if TYPE_CHECKING:
    from rag.memory.facts import Fact

_SHOWN_OF_AN_ID = 8

app = options.group("Store facts about a repository, and check which are still true.", default="list")

FactId = Annotated[str, typer.Argument(help="The id of the fact, or its first characters.")]
Supersedes = Annotated[
    list[str] | None,
    typer.Option("--supersedes", metavar="FACT", help="The id of a fact that this one replaces. Repeatable."),
]
Scope = Annotated[
    FactScope | None,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="user, project or team. Default: read all of them; write to RAG_SCOPE, else to user.",
    ),
]
Repository = Annotated[
    str | None,
    typer.Option(
        "--repo",
        "-r",
        metavar="SOURCE",
        help="Only facts about this repository. Default: all.",
    ),
]


@app.command("list")
def list_facts(
    repo: Repository = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="COMMIT", help="The facts that held at this commit, tag or branch."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Superseded facts too.")] = False,
    scope: Scope = None,
) -> None:
    """List the confirmed facts with the state of their places, oldest first.

    rag facts list --repo .

    rag facts list --at v1.0
    """
    from rag.service.checks.facts import check_facts, facts_at, facts_of, sources_of

    with opened_engine() as engine:
        of = facts_of(engine)
        if at is None:
            known = of.list(_location(repo), scope=scope, closed=every)
            facts = check_facts(engine, known, sources_of(engine, known))
        else:
            known = of.all(_location(repo), scope=scope)
            facts = facts_at(engine, known, sources_of(engine, known), at) if known else []
        _show(facts)
        if not facts and not wants_json():
            held = f" held at {at}" if at is not None else ""
            typer.echo(
                f'No facts{held or " yet"}; add one with `rag facts add "…"`, or confirm what was'
                " proposed: `rag facts proposed`"
            )


@app.command()
def proposed(
    repo: Repository = None,
    rejected: Annotated[bool, typer.Option("--rejected", help="List the rejected ones instead.")] = False,
) -> None:
    """List the proposed facts, oldest first: found in conversations, not confirmed yet.

    rag facts proposed
    """
    from rag.service.checks.facts import facts_of

    with opened_engine() as engine:
        of = facts_of(engine)
        facts = of.list(_location(repo), state="rejected" if rejected else "proposed")
        _show(facts, known=of.list())
        if not facts and not wants_json():
            what = "rejected" if rejected else "proposed"
            typer.echo(f"No facts are {what}; `rag facts propose` looks for some in a conversation")
        elif not rejected and not wants_json():
            say("rag: `rag facts confirm ID` keeps one, `rag facts reject ID` does not")


@options.grouped
def propose(
    which: Annotated[
        str | None, typer.Argument(help="The number or id of a turn. Default: all.", metavar="TURN")
    ] = None,
    conversation: Of = None,
) -> None:
    """Look for facts in a conversation: decisions, conventions, constraints and definitions.

    They are found by their words, and by the model if there is one. Nothing is a fact before you confirm it.

    rag facts propose --conversation login
    """
    from rag.service.checks.facts import facts_of
    from rag.service.checks.propose_facts import propose_facts

    with opened_engine() as engine:
        turns = chosen(engine, which, conversation)
        of = engine.conversation_of(turns[0]) if which else named(engine, conversation)
        found = propose_facts(engine, of, turns)
        every = facts_of(engine)
        _show([every.with_candidates(fact) for fact in found], known=every.list())
        if not wants_json():
            new = counted(len(found), "new proposal")
            say(f"rag: {new} in {counted(len(turns), 'turn')} of {visible(title(of))}")


app.command()(propose)
app.command()(push)
app.command()(pull)


@app.command()
def confirm(
    fact: FactId,
    supersedes: Supersedes = None,
    scope: Scope = None,
) -> None:
    """Confirm a proposed fact: from now on every prompt about its repository shows it.

    rag facts confirm 3f2c

    rag facts confirm 3f2c --supersedes 81aa
    """
    from rag.service.checks.facts import confirm_fact, facts_of

    with opened_engine() as engine:
        kept = confirm_fact(engine, fact, scope=scope, supersedes=supersedes or ())
        _show([kept], one=True, known=facts_of(engine).list())


@app.command()
def reject(fact: FactId) -> None:
    """Reject a proposed fact, so that it is not proposed again.

    rag facts reject 3f2c
    """
    from rag.service.checks.facts import reject_fact

    with opened_engine() as engine:
        gone = reject_fact(engine, fact)
        result(to_json(gone), f"rejected: {visible(gone.text)}")


@app.command()
def add(
    text: Annotated[str, typer.Argument(help="The fact, as a sentence.")],
    turn: Annotated[
        str | None,
        typer.Option("--turn", metavar="TURN", help="The turn that the fact comes from: its number or id."),
    ] = None,
    conversation: Of = None,
    repo: options.Repository = None,
    supersedes: Supersedes = None,
    scope: Scope = None,
) -> None:
    """Store a fact. It depends on the places that it names, and with --turn on the lines that the turn cites.

    rag facts add "Tokens are checked in src/auth.py:4-6 by check_token"

    rag facts add "Sessions end after one hour" --turn 2

    rag facts add "Releases are cut on Mondays" --repo . --supersedes 3f2c
    """
    from rag.service import locate
    from rag.service.checks.facts import add_fact, facts_of

    with opened_engine() as engine:
        stated = chosen(engine, turn, conversation)[0] if turn is not None else None
        fact = add_fact(
            engine,
            text,
            turn=stated,
            source=locate(repo) if repo or stated is None else None,
            scope=scope,
            supersedes=supersedes or (),
        )
        _show([fact], one=True, known=facts_of(engine).list())


@app.command()
def forget(fact: FactId, scope: Scope = None) -> None:
    """Delete a fact. The facts that it superseded are valid again.

    rag facts forget 3f2c
    """
    from rag.service.checks.facts import forget_fact

    with opened_engine() as engine:
        gone = forget_fact(engine, fact, scope=scope)
        result(to_json(gone), f"forgot: {gone.text}")


@app.command()
def check(
    repo: Repository = None,
    as_of: AsOf = None,
    scope: Scope = None,
) -> None:
    """Check which facts are still true: the state of the lines they depend on.

    rag facts check

    rag facts check --repo . --as-of v2.0
    """
    from rag.service.checks.facts import check_facts, facts_of, sources_of

    with opened_engine() as engine:
        facts = facts_of(engine).list(_location(repo), scope=scope)
        if not facts:
            nothing("there are no facts to check")
        found = check_facts(engine, facts, sources_of(engine, facts), as_of=as_of)
        _show(found)


def prefer(
    key: Annotated[str | None, typer.Argument(help="The name of the preference. Default: list all.")] = None,
    value: Annotated[str | None, typer.Argument(help="The value: JSON or text.", metavar="VALUE")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Remove the preference.")] = False,
) -> None:
    """Show or change your preferences, which are part of every prompt. `language` is the language of answers.

    rag prefer language zh-CN

    rag prefer style "short, with an example"

    rag prefer style --forget
    """
    from rag.memory.preferences import Preferences
    from rag.service.checks.recall import USER

    with opened_engine() as engine:
        kept = Preferences(engine.turns, namespace=engine.settings.namespace)
        if forget and (key is None or value is not None):
            raise ConfigError("--forget needs a key and no value: `rag prefer KEY --forget`")
        if key is not None and forget:
            if not kept.delete(USER, key):
                nothing(f"there is no preference {visible(key)}")
        elif key is not None and value is not None:
            kept.save(USER, key, _value(value))
        every = kept.get_all(USER)
        shown = every if key is None or forget else {key: every[key]} if key in every else {}
        if wants_json():
            out_json(shown)
        for name, preferred in shown.items() if not wants_json() else ():
            text = preferred if isinstance(preferred, str) else json_.dumps(preferred, ensure_ascii=False)
            out(f"{visible(name)}: {visible(text)}")
        if key is not None and not shown and not forget:
            nothing(f"there is no preference {visible(key)}")
        if not every and not wants_json() and not forget:
            say("rag: there are no preferences yet; for example `rag prefer language zh-CN`")


def _value(text: str) -> Any:
    try:
        return json_.loads(text, parse_constant=str)
    except ValueError:
        return text


def _source(repo: str | None) -> Source | None:
    from rag.service.repositories.named_sources import locate

    return None if repo is None else locate(repo)


def _location(repo: str | None) -> str | None:
    source = _source(repo)
    return None if source is None else source.location


def _show(facts: Sequence[Fact], *, one: bool = False, known: Sequence[Fact] = ()) -> None:
    """Print facts, or the JSON of the list or of the only one; `known` are those that one may replace."""
    if wants_json():
        out_json(to_json(facts[0]) if one else [to_json(fact) for fact in facts])
        return
    by_id = {fact.id: fact for fact in known}
    for fact in facts:
        _print(fact)
        short = fact.id[:_SHOWN_OF_AN_ID]
        for other in (by_id[old] for old in fact.may_supersede if old in by_id):
            out(f"          on the same subject: {other.id[:_SHOWN_OF_AN_ID]}  {visible(other.text)}")
        if fact.note:
            say(f"rag: {fact.note}")
        if one and fact.may_supersede:
            say(f"rag: if it replaces one of them: `rag facts confirm {short} --supersedes ID`")


def _print(fact: Fact) -> None:
    states: list[str] = [fact.freshness.state] if fact.freshness else []
    states += [f"superseded by {fact.superseded_by[:_SHOWN_OF_AN_ID]}"] if fact.superseded_by else []
    states += [fact.kind] if fact.kind and fact.state == "proposed" else []
    states += [fact.scope] if fact.scope != "user" else []
    shown = f"  [{', '.join(states)}]" if states else ""
    out(f"{fact.id[:_SHOWN_OF_AN_ID]}  {visible(fact.text)}{shown}")
    about = Source(fact.location).name
    first, *more = map(visible, fact.places or [""])
    out(f"          {visible(about)}{': ' if first else ''}{first}")
    for place in more:
        out(f"          {place}")
