"""Follows the event list by its cursor."""

from __future__ import annotations

import threading
from typing import Any, Dict, Iterator, Optional, Sequence, cast

from ._answer import make_cursor_check
from ._http import LONGEST_WAIT, Caller, check_seconds, wait_before
from .contract import Event, EventList
from .errors import HubConnectionError, HubRateLimitError, HubUnavailableError

#: A page costs one request of the rate limit, whatever its size.
_PAGE = 100


def follow_pages(
    call: Caller,
    cursor: Optional[str],
    type: Optional[Sequence[str]],
    created_after: Optional[str],
    poll_seconds: float,
    stop: Optional[threading.Event],
) -> Iterator[Sequence[Event]]:
    check_seconds("poll_seconds", poll_seconds)
    failures = 0
    check_cursor = make_cursor_check()
    while stop is None or not stop.is_set():
        query: Dict[str, Any] = {"limit": _PAGE, "type": type}
        # The API refuses a cursor together with created_after.
        if cursor is None:
            query["created_after"] = created_after
        else:
            query["starting_after"] = cursor
        try:
            page = cast(EventList, call("GET", "/v1/events", query=query, stop=stop))
        except (HubConnectionError, HubRateLimitError, HubUnavailableError) as error:
            seconds = min(LONGEST_WAIT, wait_before(failures, error.retry_after))
            failures += 1
        else:
            failures = 0
            if page["data"]:
                yield page["data"]
            cursor = page["next_cursor"] or cursor
            if page["has_more"]:
                check_cursor(cursor)
                continue
            # Without new events, the cursor stays the same.
            check_cursor = make_cursor_check()
            seconds = poll_seconds
        call.wait(seconds, stop)


def follow(pages: Iterator[Sequence[Event]], stop: Optional[threading.Event]) -> Iterator[Event]:
    for page in pages:
        for event in page:
            if stop is not None and stop.is_set():
                return
            yield event
