"""A transport that answers as a hub would, and records the requests."""

import json
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union
from urllib.parse import parse_qs, urlsplit

from sms_delivery_hub import HubClient
from sms_delivery_hub.transport import Request


class Answer:
    """An answer with a body that is read in parts."""

    def __init__(self, status: int, body: bytes, headers: Optional[Mapping[str, str]] = None) -> None:
        self.status = status
        self._body = body
        self._headers = {name.lower(): value for name, value in (headers or {}).items()}

    def header(self, name: str) -> Optional[str]:
        return self._headers.get(name.lower())

    def read(self, size: int) -> bytes:
        part, self._body = self._body[:size], self._body[size:]
        return part

    def close(self) -> None:
        pass


Given = Union[Answer, Exception]


def answer(status: int, body: object, headers: Optional[Mapping[str, str]] = None) -> Callable[[], Given]:
    return lambda: Answer(status, json.dumps(body).encode(), headers)


def failing(status: int, code: str, retry_after: Optional[int] = None) -> Callable[[], Given]:
    error: Dict[str, Any] = {"code": code, "message": "words", "request_id": "req_1", "doc_url": "https://d"}
    if retry_after is not None:
        error["retry_after"] = retry_after
    return answer(status, {"error": error})


def broken(error: Exception) -> Callable[[], Given]:
    return lambda: error


class Hub:
    """``respond`` gets each request and its number, from 1."""

    def __init__(self, respond: Callable[[Request, int], Given], **options: Any) -> None:
        self.seen: List[Request] = []
        self.waits: List[float] = []
        self._lock = threading.Lock()
        self._respond = respond
        options.setdefault("wait", self._wait)
        self.client = HubClient("https://hub.example.com/", "hub_test_x", transport=self._send, **options)

    def _send(self, request: Request) -> Answer:
        with self._lock:
            self.seen.append(request)
            number = len(self.seen)
        given = self._respond(request, number)
        if isinstance(given, Exception):
            raise given
        return given

    def _wait(self, seconds: float, stop: Optional[threading.Event]) -> None:
        with self._lock:
            self.waits.append(seconds)

    def bodies(self) -> List[Any]:
        return [json.loads(request.body) for request in self.seen if request.body is not None]

    def queries(self, name: str) -> List[Optional[str]]:
        return [parse_qs(urlsplit(request.url).query).get(name, [None])[0] for request in self.seen]


def hub_of(answers: Sequence[Callable[[], Given]], **options: Any) -> Hub:
    """A hub that returns the answers in order, and then repeats the last one."""
    return Hub(lambda _, number: answers[min(number, len(answers)) - 1](), **options)
