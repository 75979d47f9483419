"""One call of the API: its URL, its deadline, and its retries."""

from __future__ import annotations

import email.utils
import enum
import http.client
import math
import random
import re
import socket
import threading
import time
import uuid
from typing import Any, Callable, Final, Mapping, Optional, Union
from urllib.parse import quote, urlencode, urlsplit

from ._answer import parse_json, read_body, to_json
from ._version import __version__
from .errors import HubConnectionError, HubError, connection_error, error_of_answer, option_error
from .transport import Request, Response, Transport


class _New(enum.Enum):
    KEY = "a new idempotency key"


#: The default of ``idempotency_key``: a new one for each call. ``None``: none.
NEW_KEY: Final = _New.KEY
KeyOption = Union[str, None, _New]

#: Waits for some seconds, or until the event is set.
Wait = Callable[[float, Optional[threading.Event]], None]


def wait_for(seconds: float, stop: Optional[threading.Event]) -> None:
    if stop is None:
        time.sleep(seconds)
    else:
        stop.wait(seconds)


#: Wait before a retry without ``retry_after``: 0.5 s, 1 s, 2 s, …, at most ``LONGEST_WAIT``.
_FIRST_WAIT = 0.5
#: Up to this part is added at random, so that clients that failed together do not come back together.
_JITTER = 0.5
#: Seconds. The client does not wait longer than this within a call: the caller decides.
LONGEST_WAIT = 30.0
#: Doubling the first wait more often changes nothing.
_MOST_DOUBLINGS = 10


def wait_before(tries: int, retry_after: Optional[float]) -> float:
    """
    The wait before the next attempt, in seconds. It is never shorter than ``retry_after``, and longer than
    ``LONGEST_WAIT`` only if ``retry_after`` is. ``tries``: the failed attempts before this one.
    """
    if retry_after is None:
        seconds = min(LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(tries, _MOST_DOUBLINGS))
    else:
        seconds = retry_after
    if seconds > LONGEST_WAIT:
        return seconds
    return min(LONGEST_WAIT, seconds * (1 + _JITTER * random.random()))


def _may_repeat(method: str, failure: HubError) -> bool:
    """Whether a repeat of the same request can succeed. A deletion may have happened."""
    if failure.status == 429:
        return True
    if method == "DELETE":
        return False
    if failure.status is None:
        return isinstance(failure, HubConnectionError)
    return failure.status == 409 or failure.status >= 500


def wait_after(method: str, failure: HubError, tries: int, max_retries: int) -> Optional[float]:
    """
    The wait before the next attempt, in seconds; ``None``: another attempt would fail again, or the caller must
    decide.
    """
    if tries >= max_retries or not _may_repeat(method, failure):
        return None
    seconds = wait_before(tries, failure.retry_after)
    return None if seconds > LONGEST_WAIT else seconds


def check_count(param: str, count: int, least: int = 1) -> int:
    if isinstance(count, int) and not isinstance(count, bool) and count >= least:
        return count
    raise option_error(param, f"{param} must be a whole number from {least}.")


def check_seconds(param: str, seconds: float) -> float:
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < math.inf:
        return seconds
    raise option_error(param, f"{param} must be a number of seconds above 0.")


def _read_base_url(text: str) -> str:
    """Checks the URL of the hub, and returns it without a trailing slash."""

    def refuse(reason: str) -> HubError:
        return option_error("base_url", f"base_url {reason}. Example: https://hub.example.com")

    try:
        url = urlsplit(text)
        port = url.port
        if not url.scheme or not url.hostname or re.search(r"[^\x21-\x7e]", text):
            raise ValueError
    except (ValueError, TypeError, AttributeError):
        raise refuse("must be the URL of the hub") from None
    if url.scheme not in ("https", "http"):
        raise refuse("must begin with https://")
    if url.username is not None or url.password is not None:
        raise refuse("must not contain a user or a password")
    if "?" in text or "#" in text:
        raise refuse("must not contain a query or a fragment")
    path = url.path.rstrip("/")
    if re.search(r"(?:^|/)v\d+$", path):
        raise refuse("must not end with /v1: the client adds it")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return f"{url.scheme}://{host}{'' if port is None else f':{port}'}{path}"


def _read_api_key(key: str) -> str:
    """A line break in a header would make the transport fail with an error that quotes the key."""
    if isinstance(key, str) and re.fullmatch(r"[\x21-\x7e]+", key):
        return key
    raise option_error("api_key", "api_key must be an API key of the hub: hub_live_… or hub_test_…")


def _read_idempotency_key(key: Union[str, _New]) -> str:
    if isinstance(key, _New):
        return str(uuid.uuid4())
    if isinstance(key, str) and re.fullmatch(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?", key):
        return key
    raise option_error("idempotency_key", "idempotency_key must be at most 255 printable ASCII characters.")


def _text_of(value: object) -> str:
    """A value as the API reads it: Python writes True where the API reads true."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _url_of(base_url: str, template: str, path: Mapping[str, str], query: Mapping[str, object]) -> str:
    def fill(match: "re.Match[str]") -> str:
        value = path.get(match[1])
        if not isinstance(value, str) or value == "":
            raise option_error(match[1], f"{match[1]} must be a text that is not empty.")
        return quote(value, safe="")

    pairs = [
        (name, _text_of(one))
        for name, value in query.items()
        for one in (value if isinstance(value, (list, tuple)) else [value])
        if one is not None
    ]
    filled = re.sub(r"\{([^}]+)\}", fill, template)
    # Without the slash, the path would continue the host of the URL, and the key would go to another host.
    if not re.fullmatch(r"/[\x21-\x7e]*", filled):
        raise option_error("path", "path must begin with / and be printable ASCII without spaces: /v1/…")
    return f"{base_url}{filled}{'?' + urlencode(pairs) if pairs else ''}"


def _seconds_of(header: Optional[str]) -> Optional[float]:
    """``Retry-After``: seconds or a date (RFC 9110, 10.2.3). The hub also has it in the body; a proxy does not."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", header.strip()):
        return float(header)
    try:
        moment = email.utils.parsedate_to_datetime(header)
        return max(0.0, moment.timestamp() - time.time())
    except (TypeError, ValueError, IndexError, OverflowError, OSError):
        return None


def _error_of(response: Response) -> HubError:
    try:
        body = parse_json(read_body(response, response.status))
    except (ValueError, HubError, OSError, http.client.HTTPException):
        body = None
    detail = body.get("error") if isinstance(body, dict) else None
    return error_of_answer(
        response.status,
        detail if isinstance(detail, dict) else {},
        response.header("request-id"),
        _seconds_of(response.header("retry-after")),
    )


class Caller:
    """Calls operations of the API by their path."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        max_retries: int,
        timeout: float,
        transport: Transport,
        wait: Wait,
    ) -> None:
        self._base_url = _read_base_url(base_url)
        self._api_key = _read_api_key(api_key)
        self._max_retries = check_count("max_retries", max_retries, 0)
        self._timeout = check_seconds("timeout", timeout)
        self._transport = transport
        self.wait = wait

    def __call__(
        self,
        method: str,
        template: str,
        *,
        path: Optional[Mapping[str, str]] = None,
        query: Optional[Mapping[str, object]] = None,
        body: object = None,
        idempotency_key: KeyOption = NEW_KEY,
        max_retries: Optional[int] = None,
        stop: Optional[threading.Event] = None,
    ) -> Any:
        """``stop``: after it is set, there is no further attempt."""
        headers = {
            "Authorization": f"Bearer {self._api_key}",
            "Accept": "application/json",
            "User-Agent": f"sms-delivery-hub-python/{__version__}",
        }
        # All attempts have the same key, so the hub does nothing twice.
        if method == "POST" and idempotency_key is not None:
            headers["Idempotency-Key"] = _read_idempotency_key(idempotency_key)
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = Request(
            method,
            _url_of(self._base_url, template, path or {}, query or {}),
            headers,
            None if body is None else to_json(body),
            self._timeout,
        )
        most = self._max_retries if max_retries is None else max_retries
        tries = 0
        while True:
            try:
                return self._attempt(request)
            except HubError as failure:
                seconds = wait_after(method, failure, tries, most)
                if seconds is None:
                    raise
                self.wait(seconds, stop)
                if stop is not None and stop.is_set():
                    raise
            tries += 1

    def _attempt(self, request: Request) -> Any:
        try:
            response = self._transport(request)
            try:
                if 200 <= response.status < 300:
                    return parse_json(read_body(response, response.status))
                raise _error_of(response)
            finally:
                response.close()
        except (socket.timeout, TimeoutError) as error:
            raise connection_error("timeout") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A ValueError: what answers is not the hub.
            raise connection_error("connection_failed") from error
