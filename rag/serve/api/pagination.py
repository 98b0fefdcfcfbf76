"""Pagination with `limit` and `offset`.

Every route that lists all items uses it. `X-Total-Count` is the total, and `Link: <…>; rel="next"` (RFC 8288)
is the next page; without it this page is the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Query, Request, Response

MAX_LIMIT = 200
HEADERS = ("Link", "X-Total-Count")
"""The response headers that scripts of other origins may read."""

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="The largest number of items.")]
Offset = Annotated[int, Query(ge=0, le=2**53, description="The number of items to skip.")]
T = TypeVar("T")


def page(request: Request, response: Response, items: Sequence[T], *, limit: int, offset: int) -> Sequence[T]:
    """Return the requested items; set the total and the link to the next page in the response."""
    response.headers["X-Total-Count"] = str(len(items))
    if offset + limit < len(items):
        following = request.url.include_query_params(limit=limit, offset=offset + limit)
        # Only path and query: behind a proxy the server does not know its public address.
        path = f"{request.scope.get('root_path', '')}{following.path}"
        response.headers["Link"] = f'<{path}?{following.query}>; rel="next"'
    return items[offset : offset + limit]
