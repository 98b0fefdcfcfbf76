"""`rag explore`: the places in the code for a question, within a budget of tokens, for agents."""

from __future__ import annotations

from typing import Annotated

import typer

from rag.cli import options
from rag.cli.ask import split_words
from rag.cli.settings_options import settings_from
from rag.cli.terminal import nothing, opened_engine, out, out_json, wants_json
from rag.errors import ConfigError
from rag.schema import to_json
from rag.service.tools.explore import explore_page
from rag.settings import EXPLORE_TOKENS, MAX_EXPLORE_TOKENS, MIN_EXPLORE_TOKENS

_MAX_PAGE = 50


@options.grouped
def explore(
    words: options.SearchWords,
    *,
    repo: options.Repositories = None,
    code_words: options.CodeWords = None,
    budget: Annotated[
        int,
        typer.Option(
            "--budget", min=MIN_EXPLORE_TOKENS, max=MAX_EXPLORE_TOKENS, help="The tokens of the output."
        ),
    ] = EXPLORE_TOKENS,
    page: Annotated[
        int, typer.Option("--page", min=1, max=_MAX_PAGE, help="2 for the next places, and so on.")
    ] = 1,
    index: options.IndexOptions,
    no_refresh: options.NoRefresh = False,
) -> None:
    """Find the code for a question: the best definition with its callers and tests, then further places.

    It combines exact search, the code graph and ranked search, and uses no model. Give `--words` for a
    question in everyday words: an agent knows how the code may say it.

    rag explore . "Who calls check_token?"

    rag explore . "What stops people from asking too often?" --words "RateLimiter allow" --words "429 retry"

    rag explore . "Who calls check_token?" --page 2
    """
    sources, question = split_words(words, repo or [])
    if len(sources) > 1:
        raise ConfigError("`rag explore` explores one repository; name one")
    with opened_engine(settings_from()) as engine:
        from rag.service import locate

        source = locate(sources[0] if sources else None, index.ref, index.filters)
        repository = engine.repository(source, refreshing=not no_refresh, else_old=True)
        found = explore_page(
            repository,
            question,
            page,
            counter=engine.counter,
            budget_tokens=budget,
            in_code_words=code_words or (),
            next_places=f"repeat the command with --page {page + 1} for them",
        )
    if wants_json():
        places = [{"path": one.path, "label": one.label, "lines": list(one.lines)} for one in found.places]
        covered = [to_json(repository.coverage)]
        out_json({"text": found.text, "places": places, "more": len(found.more), "coverage": covered})
    else:
        out(found.text)
    if not found.places:
        nothing("nothing found" if page == 1 else "rag: no more places")
