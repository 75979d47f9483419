"""Calls, retries, errors and lists, as in the tests of the client for TypeScript."""

import json
import pickle
import threading
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional
from unittest import mock
from urllib.parse import urlsplit

import sms_delivery_hub as hub_package
from sms_delivery_hub import (
    HubAuthenticationError,
    HubClient,
    HubConflictError,
    HubConnectionError,
    HubError,
    HubInvalidRequestError,
    HubNotFoundError,
    HubOptionError,
    HubRateLimitError,
    HubUnavailableError,
)
from sms_delivery_hub.contract import SendRequest

from .fake_hub import Answer, Given, Hub, answer, broken, failing, hub_of

REPOSITORY = Path(__file__).resolve().parents[3]
DESCRIPTION = REPOSITORY / "packages/contract/openapi.json"

SEND: SendRequest = {"to": "+79000000001", "class": "otp", "template": "otp_code", "variables": {"code": "1"}}
EMPTY = {"object": "list", "data": [], "has_more": False, "next_cursor": None}


def without_random(test: Callable[[Any], None]) -> Callable[[Any], None]:
    """Waits are the shortest ones."""
    patched: Callable[[Any], None] = mock.patch("random.random", lambda: 0.0)(test)
    return patched


class Calls(unittest.TestCase):
    def test_sends_the_key_path_query_and_body(self) -> None:
        hub = hub_of([answer(200, EMPTY)])
        client = hub.client
        client.get("/v1/webhook_endpoints/{id}/deliveries", params={"id": "we_/?"}, query={"limit": 5})
        client.get("/v1/events", query={"type": ["message.sent", "message.seen"], "limit": None})
        client.post("/v1/messages", dict(SEND), idempotency_key="k")
        client.delete("/v1/webhook_endpoints/{id}", params={"id": "we_1"})
        client.patch("/v1/webhook_endpoints/{id}", {"description": None}, params={"id": "we_1"})
        self.assertEqual(
            [f"{request.method} {request.url}" for request in hub.seen],
            [
                "GET https://hub.example.com/v1/webhook_endpoints/we_%2F%3F/deliveries?limit=5",
                "GET https://hub.example.com/v1/events?type=message.sent&type=message.seen",
                "POST https://hub.example.com/v1/messages",
                "DELETE https://hub.example.com/v1/webhook_endpoints/we_1",
                "PATCH https://hub.example.com/v1/webhook_endpoints/we_1",
            ],
        )
        self.assertEqual({request.headers["Authorization"] for request in hub.seen}, {"Bearer hub_test_x"})
        self.assertEqual(hub.seen[2].headers["Idempotency-Key"], "k")
        self.assertEqual(hub.seen[2].headers["Content-Type"], "application/json")
        self.assertEqual(hub.bodies(), [SEND, {"description": None}])
        for place in (0, 3, 4):
            self.assertNotIn("Idempotency-Key", hub.seen[place].headers)

    def test_sends_utf_8_and_escapes_half_of_a_surrogate_pair(self) -> None:
        hub = hub_of([answer(200, {})])
        hub.client.post("/v1/x", {"text": "заказ 😀"})
        hub.client.post("/v1/x", {"text": "\ud83d"})
        self.assertEqual(hub.seen[0].body, '{"text":"заказ 😀"}'.encode())
        self.assertEqual(hub.seen[1].body, b'{"text":"\\ud83d"}')

    def test_names_the_client_and_its_version(self) -> None:
        hub = hub_of([answer(200, {})])
        hub.client.account.get()
        self.assertEqual(hub.seen[0].headers["User-Agent"], f"sms-delivery-hub-python/{hub_package.__version__}")
        self.assertEqual(hub.seen[0].headers["Accept"], "application/json")

    @unittest.skipUnless(DESCRIPTION.exists(), "outside of the repository")
    def test_has_the_version_of_the_hub(self) -> None:
        self.assertEqual(hub_package.__version__, json.loads(DESCRIPTION.read_text("utf-8"))["info"]["version"])

    def test_a_refusal_is_the_error_of_the_hub(self) -> None:
        detail = {
            "code": "recipient_invalid",
            "message": "words",
            "param": "to",
            "request_id": "req_1",
            "doc_url": "https://d",
        }
        hub = hub_of([answer(422, {"error": detail})])
        with self.assertRaises(HubInvalidRequestError) as caught:
            hub.client.messages.send(SEND)
        error = caught.exception
        self.assertEqual(
            (error.status, error.code, error.param, error.request_id, error.doc_url, error.message),
            (422, "recipient_invalid", "to", "req_1", "https://d", "words"),
        )
        self.assertIsNone(error.retry_after)
        self.assertFalse(error.is_outcome_unknown)
        self.assertEqual(len(hub.seen), 1)
        copied = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copied), copied.__dict__), (HubInvalidRequestError, error.__dict__))

    def test_an_unknown_outcome_is_told(self) -> None:
        hub = hub_of([answer(503, {"error": {"code": "provider_unavailable", "outcome": "unknown"}})], max_retries=0)
        with self.assertRaises(HubUnavailableError) as caught:
            hub.client.messages.send(SEND)
        self.assertTrue(caught.exception.is_outcome_unknown)

    def test_what_another_server_answers_is_an_error_with_the_status(self) -> None:
        for body in (b"<html>", b"[1]", b'{"error": "text"}', b'{"error": {"code": 7}}', b"[" * 200_000, b"\xff"):
            hub = Hub(lambda _, __, body=body: Answer(404, body, {"Request-Id": "req_2"}))  # type: ignore[misc]
            with self.assertRaises(HubNotFoundError) as caught:
                hub.client.account.get()
            self.assertEqual((caught.exception.code, caught.exception.request_id), ("unknown", "req_2"))

    def test_a_redirect_is_not_followed(self) -> None:
        hub = hub_of([answer(302, {}, {"Location": "https://elsewhere.example/"})])
        with self.assertRaises(HubError) as caught:
            hub.client.account.get()
        self.assertEqual((caught.exception.status, len(hub.seen)), (302, 1))

    def test_a_success_that_is_not_json_is_no_answer(self) -> None:
        for body in (b"", b"<html>", b"NaN", b"[" * 200_000):
            hub = Hub(lambda _, __, body=body: Answer(200, body), max_retries=0)  # type: ignore[misc]
            with self.assertRaises(HubConnectionError) as caught:
                hub.client.account.get()
            self.assertEqual(caught.exception.code, "connection_failed")


class Retries(unittest.TestCase):
    @without_random
    def test_have_the_same_idempotency_key_after_every_kind_of_failure(self) -> None:
        for trouble, waited in (
            (failing(409, "idempotency_conflict", 1), [1, 1]),
            (failing(429, "rate_limited", 1), [1, 1]),
            (failing(503, "provider_unavailable", 2), [2, 2]),
            (failing(500, "internal_error"), [0.5, 1]),
            (broken(ConnectionResetError()), [0.5, 1]),
        ):
            hub = hub_of([trouble, trouble, answer(202, {"id": "msg_1"})])
            self.assertEqual(hub.client.messages.send(SEND), {"id": "msg_1"})
            self.assertEqual((len(hub.seen), hub.waits), (3, waited))
            keys = {request.headers["Idempotency-Key"] for request in hub.seen}
            self.assertEqual(len(keys), 1)
            self.assertRegex(keys.pop(), r"^[0-9a-f-]{36}$")

    def test_wait_up_to_half_as_long_again_and_never_longer_than_30_seconds(self) -> None:
        def waits_at(part: float, given: Callable[[], Given]) -> List[float]:
            with mock.patch("random.random", lambda: part):
                hub = hub_of([given], max_retries=8)
                with self.assertRaises(HubError):
                    hub.client.account.get()
                return hub.waits

        error = failing(500, "internal_error")
        self.assertEqual(waits_at(0, error), [0.5, 1, 2, 4, 8, 16, 30, 30])
        self.assertEqual(waits_at(0.5, error), [0.625, 1.25, 2.5, 5, 10, 20, 30, 30])
        # Never earlier than the hub asks for.
        self.assertEqual(set(waits_at(0.5, failing(503, "overloaded", 8))), {10})
        self.assertEqual(set(waits_at(0.5, failing(503, "overloaded", 29))), {30})

    @without_random
    def test_wait_as_long_as_the_header_of_a_proxy_says(self) -> None:
        for value, waited in (("7", [7.0]), ("Wed, 21 Oct 2015 07:28:00 GMT", [0.0]), ("soon", [0.5]), ("-1", [0.5])):
            # RFC 9110, 10.2.3: seconds or a date.
            hub = Hub(lambda _, __, value=value: Answer(503, b"", {"Retry-After": value}), max_retries=1)  # type: ignore[misc]
            with self.assertRaises(HubUnavailableError):
                hub.client.account.get()
            self.assertEqual(hub.waits, waited, value)

    def test_are_limited(self) -> None:
        hub = hub_of([failing(503, "internal_error", 1)], max_retries=1)
        with self.assertRaises(HubUnavailableError) as caught:
            hub.client.account.get()
        self.assertEqual((caught.exception.retry_after, len(hub.seen)), (1, 2))

    def test_are_not_made_after_a_long_retry_after_nor_for_a_deletion_that_may_have_happened(self) -> None:
        long = hub_of([failing(429, "hub_daily_limit_reached", 3600)])
        with self.assertRaises(HubRateLimitError):
            long.client.messages.send(SEND)
        cause = ConnectionResetError("reset")
        reset = hub_of([broken(cause)])
        with self.assertRaises(HubConnectionError) as caught:
            reset.client.webhook_endpoints.delete("we_1")
        self.assertIs(caught.exception.__cause__, cause)
        self.assertTrue(caught.exception.is_outcome_unknown)
        failed = hub_of([failing(500, "internal_error")])
        with self.assertRaises(HubUnavailableError):
            failed.client.webhook_endpoints.delete("we_1")
        self.assertEqual([len(hub.seen) for hub in (long, reset, failed)], [1, 1, 1])
        limited = hub_of([failing(429, "rate_limited", 1), answer(200, {})])
        limited.client.webhook_endpoints.delete("we_1")
        self.assertEqual(len(limited.seen), 2)

    def test_an_error_of_the_program_is_not_repeated(self) -> None:
        hub = hub_of([broken(ZeroDivisionError())])
        with self.assertRaises(ZeroDivisionError):
            hub.client.account.get()
        self.assertEqual(len(hub.seen), 1)


class Errors(unittest.TestCase):
    def test_have_a_class_for_each_status(self) -> None:
        for status, code, expected in (
            (401, "invalid_api_key", HubAuthenticationError),
            (404, "not_found", HubNotFoundError),
            (409, "idempotency_conflict", HubConflictError),
            (413, "payload_too_large", HubInvalidRequestError),
            (422, "recipient_invalid", HubInvalidRequestError),
            (429, "rate_limited", HubRateLimitError),
            (500, "internal_error", HubUnavailableError),
            (503, "overloaded", HubUnavailableError),
        ):
            with self.assertRaises(HubError) as caught:
                hub_of([failing(status, code)], max_retries=0).client.account.get()
            self.assertIs(type(caught.exception), expected)
            self.assertEqual((caught.exception.status, caught.exception.code), (status, code))

    def test_name_an_invalid_base_url(self) -> None:
        for base_url, reason in (
            ("", "must be the URL of the hub"),
            ("hub.example.com", "must be the URL of the hub"),
            ("https://hub.example.com:port", "must be the URL of the hub"),
            ("https://hub example.com", "must be the URL of the hub"),
            ("https:///path", "must be the URL of the hub"),
            ("ftp://hub.example.com", "must begin with https://"),
            ("https://user:word@hub.example.com", "must not contain a user"),
            ("https://hub.example.com/?a=b", "must not contain a query"),
            ("https://hub.example.com/#a", "must not contain a query"),
            ("https://hub.example.com/v1", "must not end with /v1"),
            ("https://hub.example.com/sms/v1/", "must not end with /v1"),
        ):
            with self.assertRaises(HubOptionError) as caught:
                HubClient(base_url, "hub_test_x")
            self.assertIn(reason, caught.exception.message, base_url)
            self.assertEqual((caught.exception.code, caught.exception.param), ("invalid_option", "base_url"))

    def test_do_not_repeat_an_invalid_key(self) -> None:
        for key in ("", "hub_test_x\n", "hub test", "ключ"):
            with self.assertRaises(HubOptionError) as caught:
                HubClient("https://hub.example.com", key)
            self.assertEqual(caught.exception.param, "api_key")
            self.assertNotIn(key or "hub test", str(caught.exception))
        self.assertNotIn("hub_test_x", repr(HubClient("https://hub.example.com", "hub_test_x")))

    def test_name_other_invalid_options(self) -> None:
        options: List[Dict[str, Any]] = [{"timeout": 0}, {"timeout": float("nan")}, {"max_retries": -1}]
        for option in options:
            with self.assertRaises(HubOptionError) as caught:
                HubClient("https://hub.example.com", "hub_test_x", **option)
            self.assertEqual([caught.exception.param], list(option))
        client = hub_of([answer(200, {})]).client
        for key in ("", "a\nb", "x" * 256, " a"):
            with self.assertRaises(HubOptionError) as caught:
                client.messages.send(SEND, idempotency_key=key)
            self.assertEqual(caught.exception.param, "idempotency_key")
        with self.assertRaises(HubOptionError) as caught:
            client.messages.get("")
        self.assertEqual(caught.exception.param, "id")

    def test_name_a_path_that_is_none_and_send_nothing(self) -> None:
        hub = hub_of([answer(200, EMPTY)])
        client = hub.client
        calls: List[Callable[[str], Any]] = [
            client.get,
            client.post,
            lambda path: client.patch(path, {}),
            client.delete,
            lambda path: next(client.list(path)),
        ]
        # Behind the host of the hub, they would be another host, or no URL.
        for path in ("", "v1/messages", "@other.example/x", ".other.example", ":81/x", "/v1/a b", "/v1/я", "/v1\n"):
            for call in calls:
                with self.assertRaises(HubOptionError, msg=path) as caught:
                    call(path)
                self.assertEqual((caught.exception.code, caught.exception.param), ("invalid_option", "path"))
        with self.assertRaises(HubOptionError):
            client.get("{id}", params={"id": ".other.example"})
        self.assertEqual(hub.seen, [])
        client.get("/v1/messages?limit=1")
        self.assertEqual(hub.seen[0].url, "https://hub.example.com/v1/messages?limit=1")


class NamedMethods(unittest.TestCase):
    @unittest.skipUnless(DESCRIPTION.exists(), "outside of the repository")
    def test_exist_for_each_operation_and_call_its_path(self) -> None:
        hub = hub_of([answer(200, EMPTY)])
        client, one = hub.client, "id_1"
        client.messages.send(SEND)
        client.messages.send_batch([{**SEND, "client_ref": "a"}])
        client.messages.estimate(SEND)
        client.messages.estimate_batch([SEND])
        client.messages.get(one)
        list(client.messages.list({"status": "sent", "class": "otp"}))
        client.batches.get(one)
        client.templates.create({"name": "a", "class": "otp", "sender": "HUB", "body": "b"})
        client.templates.get(one)
        list(client.templates.list())
        client.templates.delete(one)
        client.templates.render(one, {"variables": {}})
        client.senders.create({"name": "HUB"})
        client.senders.get(one)
        list(client.senders.list())
        client.senders.delete(one)
        client.webhook_endpoints.create({"url": "https://example.com/"})
        client.webhook_endpoints.get(one)
        list(client.webhook_endpoints.list())
        client.webhook_endpoints.update(one, {"description": None})
        client.webhook_endpoints.delete(one)
        client.webhook_endpoints.rotate_secret(one, {"expire_previous": True})
        client.webhook_endpoints.test(one)
        client.webhook_endpoints.enable(one)
        list(client.webhook_endpoints.deliveries(one))
        client.webhook_endpoints.resend(one, "whd_1")
        list(client.events.list({"type": ["message.sent"]}))
        client.account.get()
        client.stats.get({"group_by": "hour"})
        called = [
            (request.method, urlsplit(request.url).path.replace("whd_1", "{delivery}").replace(one, "{id}"))
            for request in hub.seen
        ]
        paths = json.loads(DESCRIPTION.read_text("utf-8"))["paths"]
        operations = {(method.upper(), path) for path, methods in paths.items() for method in methods}
        self.assertEqual(operations - set(called), {("GET", "/v1/openapi.json")})
        self.assertEqual(set(called) - operations, set())
        self.assertEqual(urlsplit(hub.seen[5].url).query, "status=sent&class=otp")
        without_key = [
            path
            for (method, path), request in zip(called, hub.seen)
            if method == "POST" and "Idempotency-Key" not in request.headers
        ]
        estimate = "/v1/messages/estimate"
        self.assertEqual(without_key, [estimate, estimate, "/v1/templates/{id}/render"])


def page(ids: List[str], more: bool) -> Callable[[], Given]:
    data = [{"id": one, "type": "message.sent"} for one in ids]
    return answer(200, {"object": "list", "data": data, "has_more": more, "next_cursor": ids[-1] if ids else "evt_4"})


class Lists(unittest.TestCase):
    def test_read_all_pages_with_the_cursor_instead_of_created_after(self) -> None:
        hub = hub_of([page(["evt_1", "evt_2"], True), page(["evt_3"], False)])
        moment = "2026-11-21T09:30:00.000Z"
        events = hub.client.events.list({"created_after": moment, "limit": 2})
        self.assertEqual([event["id"] for event in events], ["evt_1", "evt_2", "evt_3"])
        self.assertEqual(hub.queries("created_after"), [moment, None])
        self.assertEqual(hub.queries("starting_after"), [None, "evt_2"])
        self.assertEqual(hub.queries("limit"), ["2", "2"])

    def test_keep_created_after_where_it_is_a_filter(self) -> None:
        # Rules: MSG-37, SUB-31
        moment = "2026-11-21T09:30:00.000Z"
        answers = [page(["id_1"], True), page(["id_2"], False)]
        hub = hub_of([*answers, *answers])
        list(hub.client.messages.list({"created_after": moment}))
        list(hub.client.webhook_endpoints.deliveries("we_1", {"created_after": moment}))
        self.assertEqual(hub.queries("created_after"), [moment] * 4)
        self.assertEqual(hub.queries("starting_after"), [None, "id_1", None, "id_1"])

    def test_read_a_page_only_when_it_is_needed(self) -> None:
        hub = hub_of([page(["evt_1", "evt_2"], True)])
        events = hub.client.events.list()
        self.assertEqual(len(hub.seen), 0)
        next(events)
        next(events)
        self.assertEqual(len(hub.seen), 1)

    def test_whose_cursors_go_round_in_a_circle_are_one_error(self) -> None:
        for length in (1, 2, 7):
            for method in ("list", "follow"):
                hub = Hub(lambda _, number, length=length: page([f"evt_{number % length}"], True)())  # type: ignore[misc]
                with self.assertRaises(HubError) as caught:
                    for _ in getattr(hub.client.events, method)():
                        self.assertLess(len(hub.seen), 100)
                self.assertEqual(caught.exception.code, "cursor_repeated")


class Follow(unittest.TestCase):
    def test_yields_the_events_after_the_cursor_waits_for_new_ones_and_ends(self) -> None:
        hub = hub_of([page(["evt_2", "evt_3"], True), page(["evt_4"], False), page([], False), page(["evt_5"], False)])
        stop = threading.Event()
        ids = []
        for event in hub.client.events.follow("evt_1", stop=stop, poll_seconds=0.07):
            ids.append(event["id"])
            if event["id"] == "evt_5":
                stop.set()
        self.assertEqual(ids, ["evt_2", "evt_3", "evt_4", "evt_5"])
        self.assertEqual(hub.queries("starting_after"), ["evt_1", "evt_3", "evt_4", "evt_4"])
        self.assertEqual(hub.waits[:2], [0.07, 0.07])

    def test_a_wait_ends_when_stop_is_set(self) -> None:
        stop = threading.Event()

        def respond(_: object, number: int) -> Given:
            threading.Thread(target=stop.set).start()
            return page([], False)()

        from sms_delivery_hub._http import wait_for

        hub = Hub(respond, wait=wait_for)
        self.assertEqual(list(hub.client.events.follow("evt_1", stop=stop, poll_seconds=600)), [])

    def test_there_is_no_further_attempt_after_stop_was_set_in_the_wait_before_it(self) -> None:
        stop = threading.Event()

        def wait(_: float, waiting_for: Optional[threading.Event]) -> None:
            self.assertIs(waiting_for, stop)
            stop.set()

        hub = hub_of([failing(503, "overloaded", 1)], wait=wait)
        self.assertEqual(list(hub.client.events.follow("evt_1", stop=stop)), [])
        self.assertEqual(len(hub.seen), 1)

    def test_without_a_cursor_begins_at_the_first_event_or_after_a_time(self) -> None:
        hub = hub_of([page(["evt_1"], True)])
        next(hub.client.events.follow(created_after="2026-11-21T09:30:00.000Z"))
        next(hub.client.events.follow(type=["message.sent"]))
        self.assertEqual(
            [urlsplit(request.url).query for request in hub.seen],
            ["limit=100&created_after=2026-11-21T09%3A30%3A00.000Z", "limit=100&type=message.sent"],
        )

    def test_waits_while_the_hub_cannot_be_reached_and_yields_each_event_once(self) -> None:
        down = [failing(503, "overloaded", 1), broken(ConnectionResetError()), failing(429, "rate_limited", 2)]
        hub = hub_of([page(["evt_1"], True), *down, *down, *down, page(["evt_2"], True)])
        ids = []
        for event in hub.client.events.follow():
            ids.append(event["id"])
            if event["id"] == "evt_2":
                break
        self.assertEqual(ids, ["evt_1", "evt_2"])

    def test_fails_if_a_repeat_would_fail_again(self) -> None:
        with self.assertRaises(HubAuthenticationError):
            next(hub_of([failing(401, "invalid_api_key")]).client.events.follow())

    def test_the_same_cursor_without_new_events_is_no_mistake(self) -> None:
        stop = threading.Event()

        def respond(_: object, number: int) -> Given:
            if number <= 50:
                return page([f"evt_{number + 10}"], True)()
            if number == 55:
                stop.set()
            return page([], False)()

        self.assertEqual(len(list(Hub(respond).client.events.follow(stop=stop))), 50)


if __name__ == "__main__":
    unittest.main()
