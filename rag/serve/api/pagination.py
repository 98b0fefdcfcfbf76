"""Lists in pages: `limit` and `offset` in the request, and in the answer whether more follows.

Every route that gives a list of all there is does it in this way. `X-Total-Count` says how many there are,
and `Link: <…>; rel="next"` (RFC 8288) leads to the next page; without it this page is the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Query, Request, Response

MOST = 200
HEADERS = ("Link", "X-Total-Count")
"""What a page in a browser may read, if it is of another origin."""

Limit = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]
Offset = Annotated[int, Query(ge=0, le=2**53, description="How many are left out before them.")]
T = TypeVar("T")


def page(request: Request, response: Response, items: Sequence[T], *, limit: int, offset: int) -> Sequence[T]:
    """The items that are asked for; the response is told how many there are, and where the next are."""
    response.headers["X-Total-Count"] = str(len(items))
    if offset + limit < len(items):
        following = request.url.include_query_params(limit=limit, offset=offset + limit)
        # Only path and query: behind a proxy the server does not know what it is called.
        response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    return items[offset : offset + limit]
