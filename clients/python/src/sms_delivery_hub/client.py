"""A typed client of the hub's API: a method for each operation, and methods for paths."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Dict, Generator, Iterable, Iterator, Mapping, Optional, Sequence, Type, cast

from . import contract as c
from ._answer import make_cursor_check
from ._follow import follow, follow_pages
from ._http import NEW_KEY, Caller, KeyOption, Wait, wait_for
from ._send_all import send_all
from .transport import HttpTransport, Transport

_Path = Optional[Mapping[str, str]]
_Query = Optional[Mapping[str, Any]]


def _pages(call: Caller, template: str, path: _Path = None, query: _Query = None) -> Iterator[Any]:
    """All elements of a list, page by page."""
    parameters: Dict[str, Any] = dict(query or {})
    check_cursor = make_cursor_check()
    while True:
        page = call("GET", template, path=path, query=parameters)
        yield from page["data"]
        cursor = page["next_cursor"]
        if not page["has_more"] or cursor is None:
            return
        check_cursor(cursor)
        parameters["starting_after"] = cursor
        # The events go on from a moment or from a cursor. In other lists, created_after is a filter.
        if template == "/v1/events":
            parameters.pop("created_after", None)


class _Resource:
    def __init__(self, call: Caller) -> None:
        self._call = call

    def _get(self, template: str, id: str) -> Any:
        return self._call("GET", template, path={"id": id})

    def _delete(self, template: str, id: str) -> Any:
        return self._call("DELETE", template, path={"id": id})


class Messages(_Resource):
    def send(self, message: c.SendRequest, *, idempotency_key: KeyOption = NEW_KEY) -> c.AcceptedMessage:
        """Sends one message. An answer is a promise: the hub has stored the message durably."""
        answer = self._call("POST", "/v1/messages", body=message, idempotency_key=idempotency_key)
        return cast(c.AcceptedMessage, answer)

    def send_batch(
        self, messages: Sequence[c.BatchMessage], *, idempotency_key: KeyOption = NEW_KEY
    ) -> c.AcceptedBatch:
        """Sends up to ``limits.batch_max`` messages in one request."""
        body = {"messages": list(messages)}
        answer = self._call("POST", "/v1/messages/batch", body=body, idempotency_key=idempotency_key)
        return cast(c.AcceptedBatch, answer)

    def send_all(
        self,
        messages: Iterable[c.BatchMessage],
        *,
        batch_size: Optional[int] = None,
        concurrency: Optional[int] = None,
        max_retries: Optional[int] = None,
    ) -> Generator[c.BatchResult, None, None]:
        """
        Sends any number of messages in batches, and yields a result for each of them, in order. Each message needs a
        ``client_ref`` of its own, so a repeat after a failure creates nothing twice: a message that the hub had
        accepted is a ``duplicate`` then. If a batch fails after all retries, the error is raised after the results
        of the earlier batches.

        ``batch_size``: default ``limits.batch_max`` of the account. ``concurrency``: the most batches in progress
        at the same time, default 4; it begins with two, and there is one fewer after the hub refused a batch.
        ``max_retries``: of a batch, or of its rejected messages that may be repeated; default 8.

        To stop, leave the loop: the batches in progress end, and no other one begins.
        """
        return send_all(self._call, messages, batch_size, concurrency, max_retries)

    def estimate(self, message: c.SendRequest) -> c.Estimate:
        """Parts and price of one message."""
        # It changes nothing: a repeat needs no stored answer.
        answer = self._call("POST", "/v1/messages/estimate", body=message, idempotency_key=None)
        return cast(c.Estimate, answer)

    def estimate_batch(self, messages: Sequence[c.SendRequest]) -> c.EstimateBatch:
        """Parts and price of several messages."""
        body = {"messages": list(messages)}
        answer = self._call("POST", "/v1/messages/estimate", body=body, idempotency_key=None)
        return cast(c.EstimateBatch, answer)

    def get(self, id: str) -> c.Message:
        return cast(c.Message, self._get("/v1/messages/{id}", id))

    def list(self, query: Optional[c.MessagesListQuery] = None) -> Iterator[c.Message]:
        """Newest first; the messages of a ``batch`` in the order of acceptance."""
        return _pages(self._call, "/v1/messages", query=cast(_Query, query))


class Batches(_Resource):
    def get(self, id: str) -> c.Batch:
        return cast(c.Batch, self._get("/v1/batches/{id}", id))


class Templates(_Resource):
    def create(self, template: c.TemplateCreate, *, idempotency_key: KeyOption = NEW_KEY) -> c.Template:
        answer = self._call("POST", "/v1/templates", body=template, idempotency_key=idempotency_key)
        return cast(c.Template, answer)

    def get(self, id: str) -> c.Template:
        return cast(c.Template, self._get("/v1/templates/{id}", id))

    def list(self, query: Optional[c.TemplatesListQuery] = None) -> Iterator[c.Template]:
        return _pages(self._call, "/v1/templates", query=cast(_Query, query))

    def delete(self, id: str) -> c.DeletedTemplate:
        return cast(c.DeletedTemplate, self._delete("/v1/templates/{id}", id))

    def render(self, id: str, body: c.RenderRequest) -> c.RenderedText:
        """The text of the template with values, without sending it."""
        answer = self._call("POST", "/v1/templates/{id}/render", path={"id": id}, body=body, idempotency_key=None)
        return cast(c.RenderedText, answer)


class Senders(_Resource):
    def create(self, sender: c.SenderCreate, *, idempotency_key: KeyOption = NEW_KEY) -> c.Sender:
        return cast(c.Sender, self._call("POST", "/v1/senders", body=sender, idempotency_key=idempotency_key))

    def get(self, id: str) -> c.Sender:
        return cast(c.Sender, self._get("/v1/senders/{id}", id))

    def list(self, query: Optional[c.SendersListQuery] = None) -> Iterator[c.Sender]:
        return _pages(self._call, "/v1/senders", query=cast(_Query, query))

    def delete(self, id: str) -> c.DeletedSender:
        return cast(c.DeletedSender, self._delete("/v1/senders/{id}", id))


_ENDPOINTS = "/v1/webhook_endpoints"
_ENDPOINT = "/v1/webhook_endpoints/{id}"


class WebhookEndpoints(_Resource):
    def create(
        self, endpoint: c.WebhookEndpointCreate, *, idempotency_key: KeyOption = NEW_KEY
    ) -> c.WebhookEndpointWithSecret:
        """Only this answer shows the secret."""
        answer = self._call("POST", _ENDPOINTS, body=endpoint, idempotency_key=idempotency_key)
        return cast(c.WebhookEndpointWithSecret, answer)

    def get(self, id: str) -> c.WebhookEndpoint:
        return cast(c.WebhookEndpoint, self._get(_ENDPOINT, id))

    def list(self, query: Optional[c.WebhookEndpointsListQuery] = None) -> Iterator[c.WebhookEndpoint]:
        return _pages(self._call, _ENDPOINTS, query=cast(_Query, query))

    def update(self, id: str, changes: c.WebhookEndpointUpdate) -> c.WebhookEndpoint:
        answer = self._call("PATCH", _ENDPOINT, path={"id": id}, body=changes)
        return cast(c.WebhookEndpoint, answer)

    def delete(self, id: str) -> c.DeletedWebhookEndpoint:
        return cast(c.DeletedWebhookEndpoint, self._delete(_ENDPOINT, id))

    def rotate_secret(
        self, id: str, rotation: Optional[c.SecretRotation] = None, *, idempotency_key: KeyOption = NEW_KEY
    ) -> c.WebhookEndpointWithSecret:
        """Returns a new secret. For a day, the hub signs with the previous one too."""
        template = f"{_ENDPOINT}/rotate_secret"
        body = rotation or {}
        answer = self._call("POST", template, path={"id": id}, body=body, idempotency_key=idempotency_key)
        return cast(c.WebhookEndpointWithSecret, answer)

    def test(self, id: str, *, idempotency_key: KeyOption = NEW_KEY) -> c.WebhookDelivery:
        """Delivers one event at once, and returns the attempt."""
        answer = self._call("POST", f"{_ENDPOINT}/test", path={"id": id}, idempotency_key=idempotency_key)
        return cast(c.WebhookDelivery, answer)

    def enable(self, id: str, *, idempotency_key: KeyOption = NEW_KEY) -> c.WebhookEndpoint:
        answer = self._call("POST", f"{_ENDPOINT}/enable", path={"id": id}, idempotency_key=idempotency_key)
        return cast(c.WebhookEndpoint, answer)

    def deliveries(
        self, id: str, query: Optional[c.WebhookEndpointsDeliveriesQuery] = None
    ) -> Iterator[c.WebhookDelivery]:
        """The attempts to deliver to a subscription, newest first."""
        return _pages(self._call, f"{_ENDPOINT}/deliveries", {"id": id}, cast(_Query, query))

    def resend(self, id: str, delivery: str, *, idempotency_key: KeyOption = NEW_KEY) -> c.WebhookDelivery:
        """Sends the batch of an attempt again at once, and returns the new attempt."""
        path = {"id": id, "delivery": delivery}
        template = f"{_ENDPOINT}/deliveries/{{delivery}}/resend"
        answer = self._call("POST", template, path=path, idempotency_key=idempotency_key)
        return cast(c.WebhookDelivery, answer)


class Events(_Resource):
    def list(self, query: Optional[c.EventsListQuery] = None) -> Iterator[c.Event]:
        """The recorded events, oldest first. It ends; ``follow`` waits for new ones."""
        return _pages(self._call, "/v1/events", query=cast(_Query, query))

    def follow(
        self,
        cursor: Optional[str] = None,
        *,
        type: Optional[Sequence[str]] = None,
        created_after: Optional[str] = None,
        poll_seconds: float = 1.0,
        stop: Optional[threading.Event] = None,
    ) -> Iterator[c.Event]:
        """
        Yields all events after ``cursor``, the id of an event, and waits for new ones. ``None``: from the first
        event that the hub stores. Store the id of each processed event: it is the cursor of the next start. It also
        waits while the hub cannot be reached. It ends after ``stop`` was set.

        ``type``: only these types. ``created_after``: without a cursor, only events that were recorded after this
        time (ISO 8601). ``poll_seconds``: between two requests when there is no new event.
        """
        return follow(follow_pages(self._call, cursor, type, created_after, poll_seconds, stop), stop)

    def follow_pages(
        self,
        cursor: Optional[str] = None,
        *,
        type: Optional[Sequence[str]] = None,
        created_after: Optional[str] = None,
        poll_seconds: float = 1.0,
        stop: Optional[threading.Event] = None,
    ) -> Iterator[Sequence[c.Event]]:
        """Like ``follow``, in pages of at most 100 events, as a webhook has them."""
        return follow_pages(self._call, cursor, type, created_after, poll_seconds, stop)


class AccountResource(_Resource):
    def get(self) -> c.Account:
        return cast(c.Account, self._call("GET", "/v1/account"))


class StatsResource(_Resource):
    def get(self, query: Optional[c.StatsReadQuery] = None) -> c.Stats:
        return cast(c.Stats, self._call("GET", "/v1/stats", query=cast(_Query, query)))


class HubClient:
    """
    A client for one API key. It can be used by several threads at the same time. Raises a ``HubOptionError`` if an
    option is invalid.

    ``base_url``: the URL of the hub without ``/v1``, such as ``https://hub.example.com``. ``api_key``:
    ``hub_live_…`` or ``hub_test_…``. ``max_retries``: after a connection failure, 409, 429 or 5xx. ``timeout``: of
    one attempt, in seconds. ``transport``: sends requests in another way, for example through a proxy.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        max_retries: int = 2,
        timeout: float = 30.0,
        transport: Optional[Transport] = None,
        wait: Wait = wait_for,
    ) -> None:
        used = HttpTransport() if transport is None else transport
        self._close = used.close if isinstance(used, HttpTransport) else None
        self._call = Caller(base_url, api_key, max_retries, timeout, used, wait)
        self.messages = Messages(self._call)
        self.batches = Batches(self._call)
        self.templates = Templates(self._call)
        self.senders = Senders(self._call)
        self.webhook_endpoints = WebhookEndpoints(self._call)
        self.events = Events(self._call)
        self.account = AccountResource(self._call)
        self.stats = StatsResource(self._call)

    def get(self, path: str, *, params: _Path = None, query: _Query = None) -> Any:
        """
        A read by path, also of an operation that this version has no method for:
        ``hub.get("/v1/messages/{id}", params={"id": id})``.
        """
        return self._call("GET", path, path=params, query=query)

    def post(
        self,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        params: _Path = None,
        query: _Query = None,
        idempotency_key: KeyOption = NEW_KEY,
    ) -> Any:
        """Retries use the same idempotency key, so the hub does nothing twice."""
        return self._call("POST", path, path=params, query=query, body=body, idempotency_key=idempotency_key)

    def patch(self, path: str, body: Mapping[str, Any], *, params: _Path = None, query: _Query = None) -> Any:
        return self._call("PATCH", path, path=params, query=query, body=body)

    def delete(self, path: str, *, params: _Path = None, query: _Query = None) -> Any:
        return self._call("DELETE", path, path=params, query=query)

    def list(self, path: str, *, params: _Path = None, query: _Query = None) -> Iterator[Any]:
        """All elements of a list, page by page, from the start or from ``starting_after`` of the query."""
        return _pages(self._call, path, params, query)

    def close(self) -> None:
        """Closes idle connections. The client can be used afterwards."""
        if self._close is not None:
            self._close()

    def __enter__(self) -> HubClient:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        # Without the key.
        return "HubClient(…)"
