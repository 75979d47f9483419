"""Bounds on what a server can make the client do: the length of an answer, and the number of pages."""

from __future__ import annotations

import json
from typing import Any, Callable, Optional, Protocol

from .errors import HubError

#: The longest answers are lists with a hundred objects and batches with a thousand results: some MiB.
MAX_MEBIBYTES = 32
_MAX_BYTES = MAX_MEBIBYTES * 1024 * 1024
_PART = 64 * 1024


class Readable(Protocol):
    """A body, read from its start to its end."""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        ...


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def parse_json(data: bytes) -> Any:
    """Raises a ValueError if the bytes are not JSON."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("JSON with too many levels") from None


def to_json(value: object) -> bytes:
    """JSON in UTF-8. Half of a surrogate pair has no UTF-8, so it is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def read_body(body: Readable, status: int) -> bytes:
    """Stops reading, and raises an error, if the body is too long."""
    data = bytearray()
    while True:
        part = body.read(_PART)
        if not part:
            return bytes(data)
        data += part
        if len(data) > _MAX_BYTES:
            raise HubError(
                f"The answer is longer than {MAX_MEBIBYTES} MiB.",
                status=status,
                code="answer_too_long",
                is_outcome_unknown=True,
            )


def make_cursor_check() -> Callable[[Optional[str]], None]:
    """
    Returns a check of the cursors of pages that follow each other. It raises an error within a few rounds if they
    go round in a circle, with one cursor in memory (Brent's algorithm).
    """
    remembered: Optional[str] = ""
    pages = 0
    kept = 1

    def check(cursor: Optional[str]) -> None:
        nonlocal remembered, pages, kept
        if cursor == remembered:
            raise HubError(
                "The hub answers with the same cursor again, so the list has no end.", code="cursor_repeated"
            )
        pages += 1
        if pages >= kept:
            remembered, pages, kept = cursor, 0, kept * 2

    return check
