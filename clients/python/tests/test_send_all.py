"""``send_all``: the cases of the client for TypeScript, with threads. Barriers and events take the place of turns."""

import json
import threading
import unittest
from typing import Any, Callable, Dict, Iterator, List, Optional

from sms_delivery_hub import HubAuthenticationError, HubInvalidRequestError, HubOptionError
from sms_delivery_hub._turns import Stopped, Turns
from sms_delivery_hub.contract import BatchMessage
from sms_delivery_hub.transport import Request

from .fake_hub import Given, Hub, answer, failing

#: Only ends a test that hangs.
HANGS_AFTER = 60


def messages_of(count: int) -> List[BatchMessage]:
    return [
        {"to": "+79000000001", "class": "otp", "template": "otp_code", "variables": {"code": "1"}, "client_ref": f"ref-{i}"}
        for i in range(count)
    ]


def refs(request: Request) -> List[str]:
    return [message["client_ref"] for message in json.loads(request.body or b"{}")["messages"]]


def accepted(request: Request) -> Given:
    results = [{"index": i, "client_ref": ref, "result": "accepted"} for i, ref in enumerate(refs(request))]
    return answer(202, {"results": results})()


class SendAll(unittest.TestCase):
    def test_sends_batches_of_the_size_that_the_account_allows_and_yields_the_results_in_order(self) -> None:
        second = threading.Event()

        def respond(request: Request, number: int) -> Given:
            if request.url.endswith("/v1/account"):
                return answer(200, {"limits": {"batch_max": 3}})()
            # A later batch is answered before an earlier one.
            if refs(request)[0] == "ref-0":
                self.assertTrue(second.wait(HANGS_AFTER))
            elif refs(request)[0] == "ref-3":
                second.set()
            return accepted(request)

        hub = Hub(respond)
        results = list(hub.client.messages.send_all(iter(messages_of(7))))
        self.assertEqual(
            [(one["index"], one["client_ref"], one["result"]) for one in results],
            [(i, f"ref-{i}", "accepted") for i in range(7)],
        )
        self.assertEqual(sorted(len(body["messages"]) for body in hub.bodies()), [1, 3, 3])
        self.assertTrue(all("Idempotency-Key" not in request.headers for request in hub.seen))

    def test_reads_a_generator_only_as_far_as_batches_are_in_progress_and_stops_with_it(self) -> None:
        read = 0

        def source() -> Iterator[BatchMessage]:
            nonlocal read
            for message in messages_of(1000):
                read += 1
                yield message

        hub = Hub(lambda request, _: accepted(request))
        results = hub.client.messages.send_all(source(), batch_size=5, concurrency=2)
        self.assertEqual(read, 0)
        next(results)
        # The results of at most sixteen batches wait, and one message begins the next batch.
        most = read
        self.assertLessEqual(most, 81)
        results.close()
        sent = len(hub.seen)
        self.assertEqual((read, len(hub.seen)), (most, sent))

    def test_continues_behind_a_slow_batch_and_yields_its_results_first(self) -> None:
        ninth = threading.Event()

        def respond(request: Request, number: int) -> Given:
            if number == 9:
                ninth.set()
            if refs(request) == ["ref-0"]:
                self.assertTrue(ninth.wait(HANGS_AFTER))
            return accepted(request)

        hub = Hub(respond)
        results = list(hub.client.messages.send_all(messages_of(20), batch_size=1, concurrency=4))
        self.assertEqual([one["index"] for one in results], list(range(20)))
        self.assertEqual(len(hub.seen), 20)

    def test_splits_batches_that_are_too_large_for_one_request(self) -> None:
        big: List[BatchMessage] = [{**one, "variables": {"code": "я" * 500_000}} for one in messages_of(5)]
        hub = Hub(lambda request, _: accepted(request))
        self.assertEqual(len(list(hub.client.messages.send_all(big, batch_size=1000))), 5)
        self.assertEqual(sorted(len(body["messages"]) for body in hub.bodies()), [1, 4])
        self.assertLess(max(len(request.body or b"") for request in hub.seen), 4 * 1024 * 1024)

    def test_retries_a_batch_after_retry_after(self) -> None:
        def respond(request: Request, number: int) -> Given:
            return failing(503, "overloaded", 20)() if number < 4 else accepted(request)

        hub = Hub(respond)
        self.assertEqual(len(list(hub.client.messages.send_all(messages_of(2), batch_size=2))), 2)
        self.assertEqual(len(hub.waits), 3)
        self.assertTrue(all(20 <= seconds <= 30 for seconds in hub.waits))

    def test_sends_other_batches_while_a_refused_one_waits_for_its_retry_after(self) -> None:
        order: List[str] = []
        lock = threading.Lock()
        waiting = threading.Event()
        fifth = threading.Event()

        def respond(request: Request, number: int) -> Given:
            (ref,) = refs(request)
            with lock:
                is_first = ref not in order
                order.append(ref)
            if ref == "ref-1" and is_first:
                return failing(503, "overloaded", 9)()
            if ref == "ref-0":
                # An accepted batch after the refusal lets others begin.
                self.assertTrue(waiting.wait(HANGS_AFTER))
            if ref == "ref-5":
                fifth.set()
            return accepted(request)

        def wait(seconds: float, stop: Optional[threading.Event]) -> None:
            waiting.set()
            self.assertTrue(fifth.wait(HANGS_AFTER))

        results = list(Hub(respond, wait=wait).client.messages.send_all(messages_of(8), batch_size=1))
        self.assertEqual([one["index"] for one in results], list(range(8)))
        self.assertEqual(order.count("ref-1"), 2)
        first = order.index("ref-1")
        # Requests of several threads arrive in any order, but the repeat comes after the fifth.
        self.assertLess(order.index("ref-5"), order.index("ref-1", first + 1))

    def test_repeats_a_refused_batch_before_it_sends_the_next_one(self) -> None:
        order: List[str] = []

        def respond(request: Request, number: int) -> Given:
            order.extend(refs(request))
            return failing(503, "overloaded", 9)() if number == 2 else accepted(request)

        list(Hub(respond).client.messages.send_all(messages_of(4), batch_size=1, concurrency=1))
        self.assertEqual(order, ["ref-0", "ref-1", "ref-1", "ref-2", "ref-3"])

    def test_has_as_many_batches_in_progress_as_the_hub_accepts_and_four_at_most(self) -> None:
        for room, most in ((1, 1), (9, 4)):
            lock = threading.Lock()
            in_progress = 0
            highest = 0

            def respond(request: Request, number: int, room: int = room) -> Given:
                nonlocal in_progress, highest
                with lock:
                    if in_progress >= room:
                        return failing(503, "overloaded", 1)()
                    in_progress += 1
                    highest = max(highest, in_progress)
                given = accepted(request)
                with lock:
                    in_progress -= 1
                return given

            hub = Hub(respond)
            results = list(hub.client.messages.send_all(messages_of(300), batch_size=1, max_retries=1000))
            self.assertEqual([one["index"] for one in results], list(range(300)))
            self.assertLessEqual(highest, most)

    def test_has_more_than_one_batch_in_progress(self) -> None:
        both = threading.Barrier(2, timeout=HANGS_AFTER)

        def respond(request: Request, number: int) -> Given:
            both.wait()
            return accepted(request)

        self.assertEqual(len(list(Hub(respond).client.messages.send_all(messages_of(8), batch_size=1, concurrency=2))), 8)

    def test_repeats_only_the_rejected_messages_that_the_hub_may_accept_later(self) -> None:
        def respond(request: Request, number: int) -> Given:
            results: List[Dict[str, Any]] = []
            for index, ref in enumerate(refs(request)):
                code = {"ref-1": "provider_unavailable", "ref-2": "recipient_invalid"}.get(ref)
                if code is None or (number > 1 and code == "provider_unavailable"):
                    results.append({"index": index, "client_ref": ref, "result": "accepted"})
                else:
                    error = {"code": code, "retry_after": 3}
                    results.append({"index": index, "client_ref": ref, "result": "rejected", "error": error})
            return answer(202, {"results": results})()

        hub = Hub(respond)
        results = list(hub.client.messages.send_all(messages_of(4), batch_size=4))
        self.assertEqual([one["result"] for one in results], ["accepted", "accepted", "rejected", "accepted"])
        self.assertEqual([one["index"] for one in results], [0, 1, 2, 3])
        self.assertEqual(refs(hub.seen[1]), ["ref-1"])
        self.assertTrue(3 <= hub.waits[0] <= 4.5)

    def test_repeats_a_message_whose_flood_windows_were_not_checked_and_none_that_a_window_refuses(self) -> None:
        def respond(request: Request, number: int) -> Given:
            results: List[Dict[str, Any]] = []
            for index, ref in enumerate(refs(request)):
                error: Dict[str, Any] = {"code": "recipient_flood_limited"}
                if ref == "ref-0":
                    error.update(window="pause", retry_after=1)
                elif number > 2:
                    results.append({"index": index, "client_ref": ref, "result": "accepted"})
                    continue
                results.append({"index": index, "client_ref": ref, "result": "rejected", "error": error})
            return answer(202, {"results": results})()

        hub = Hub(respond)
        results = list(hub.client.messages.send_all(messages_of(2), batch_size=2))
        self.assertEqual([one["result"] for one in results], ["rejected", "accepted"])
        self.assertEqual(len(hub.seen), 3)

    def test_raises_the_error_of_a_batch_after_the_results_of_the_earlier_ones(self) -> None:
        def respond(request: Request, number: int) -> Given:
            return failing(401, "invalid_api_key")() if "ref-2" in refs(request) else accepted(request)

        given: List[int] = []
        with self.assertRaises(HubAuthenticationError):
            for result in Hub(respond).client.messages.send_all(messages_of(6), batch_size=2):
                given.append(result["index"])
        self.assertEqual(given, [0, 1])

    def test_yields_the_results_of_earlier_batches_that_were_refused_before_it_raises(self) -> None:
        lock = threading.Lock()
        refused: List[str] = []

        def respond(request: Request, number: int) -> Given:
            (ref,) = refs(request)
            if ref == "ref-1":
                return failing(422, "invalid_request")()
            with lock:
                if ref in refused:
                    return accepted(request)
                refused.append(ref)
            return failing(503, "overloaded", 1)()

        given: List[int] = []
        with self.assertRaises(HubInvalidRequestError):
            for result in Hub(respond).client.messages.send_all(messages_of(3), batch_size=1):
                given.append(result["index"])
        self.assertEqual(given, [0])

    def test_gives_up_a_batch_after_its_retries(self) -> None:
        hub = Hub(lambda _, __: failing(503, "overloaded", 1)())
        with self.assertRaises(Exception) as caught:
            list(hub.client.messages.send_all(messages_of(1), batch_size=1, max_retries=3))
        self.assertEqual(getattr(caught.exception, "code", None), "overloaded")
        self.assertEqual(len(hub.seen), 4)

    def test_passes_on_an_error_of_the_input_and_leaves_no_thread(self) -> None:
        def source() -> Iterator[BatchMessage]:
            yield from messages_of(3)
            raise LookupError("the input has ended early")

        with self.assertRaises(LookupError):
            list(Hub(lambda request, _: accepted(request)).client.messages.send_all(source(), batch_size=1))
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("sms-delivery-hub")]
        self.assertEqual(names, [])

    def test_leaving_the_loop_ends_the_wait_of_a_refused_batch(self) -> None:
        refused = threading.Event()
        ended: List[bool] = []

        def respond(request: Request, number: int) -> Given:
            if refs(request) == ["ref-1"]:
                refused.set()
                return failing(503, "overloaded", 30)()
            self.assertTrue(refused.wait(HANGS_AFTER))
            return accepted(request)

        def wait(seconds: float, stop: Optional[threading.Event]) -> None:
            ended.append(stop is not None and stop.wait(HANGS_AFTER))

        hub = Hub(respond, wait=wait)
        results = hub.client.messages.send_all(messages_of(9), batch_size=1)
        next(results)
        results.close()
        self.assertEqual(ended, [True])
        self.assertEqual(sum("ref-1" in refs(request) for request in hub.seen), 1)

    def test_a_batch_whose_turn_has_begun_is_not_sent_after_the_loop_was_left(self) -> None:
        turns = Turns(1)
        turn = turns.ask()
        self.assertTrue(turn.has_begun)
        turns.stop()
        with self.assertRaises(Stopped):
            turn.wait()

    def test_refuses_options_that_are_no_count(self) -> None:
        client = Hub(lambda request, _: accepted(request)).client
        calls: List[Callable[[], Any]] = [
            lambda: next(client.messages.send_all([], batch_size=0)),
            lambda: next(client.messages.send_all([], concurrency=1.5)),  # type: ignore[arg-type]
        ]
        for call in calls:
            with self.assertRaises(HubOptionError):
                call()
