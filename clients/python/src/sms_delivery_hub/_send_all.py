"""Sends any number of messages in batches, and yields a result for each of them, in order."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Deque, Dict, Generator, Iterable, Iterator, List, Optional, Tuple, cast

from ._answer import to_json
from ._http import LONGEST_WAIT, Caller, check_count, wait_after, wait_before
from ._turns import Turn, Turns
from .contract import AcceptedBatch, Account, BatchMessage, BatchResult
from .errors import HubError

#: The hub reads a body of 4 MiB. The rest is for the frame of the batch.
_MAX_BATCH_BYTES = 4 * 1024 * 1024 - 4096
_DEFAULT_CONCURRENCY = 4
#: With the waits of ``wait_before``: about a minute, as long as a restart of the hub can take.
_DEFAULT_RETRIES = 8
#: Codes of rejected messages that the hub accepts later, without a change of the message.
_REPEATABLE = frozenset(["overloaded", "provider_unavailable", "internal_error"])
#: A slow batch must not stop the others: their results wait for it, up to this multiple of the batches in progress.
_WINDOW = 8

_Element = Tuple[int, BatchMessage]
_Results = List[BatchResult]


def _in_batches(messages: Iterable[BatchMessage], batch_size: int) -> Iterator[List[_Element]]:
    """Splits the messages by number and by size of the body."""
    batch: List[_Element] = []
    size = 0
    for index, message in enumerate(messages):
        # With the comma.
        more = len(to_json(message)) + 1
        if batch and (len(batch) == batch_size or size + more > _MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((index, message))
        size += more
    if batch:
        yield batch


def _is_repeatable(error: Dict[str, Any]) -> bool:
    code = error.get("code")
    # Without a window, the hub could not check how many messages the recipient was sent.
    is_unchecked = code == "recipient_flood_limited" and error.get("window") is None
    return (code in _REPEATABLE or is_unchecked) and (error.get("retry_after") or 0) <= LONGEST_WAIT


class _Sending:
    def __init__(self, call: Caller, concurrency: int, max_retries: int) -> None:
        self._call = call
        self._max_retries = max_retries
        self._ended = threading.Event()
        self.turns = Turns(concurrency)

    def stop(self) -> None:
        self.turns.stop()
        # A batch whose wait ends now asks for a turn, and gets none.
        self._ended.set()

    def _request(
        self, elements: List[_Element], results: Dict[int, BatchResult]
    ) -> Tuple[List[_Element], Optional[float]]:
        """
        Sends the elements as one request. Adds their results, and returns those that must be repeated, with the
        seconds to wait.
        """
        answer = cast(
            AcceptedBatch,
            self._call(
                "POST",
                "/v1/messages/batch",
                body={"messages": [message for _, message in elements]},
                # Each client_ref protects its message for longer, and the hub stores no answer of half a megabyte.
                idempotency_key=None,
                # A batch that waits for its repeat gives its turn to another one.
                max_retries=0,
            ),
        )
        if len(answer["results"]) < len(elements):
            raise HubError("The hub answered fewer results than messages.", code="answer_incomplete")
        repeated: List[_Element] = []
        retry_after: Optional[float] = None
        for element, result in zip(elements, answer["results"]):
            results[element[0]] = cast(BatchResult, {**result, "index": element[0]})
            if result["result"] != "rejected":
                continue
            error = cast(Dict[str, Any], result["error"])
            if _is_repeatable(error):
                repeated.append(element)
                retry_after = max(retry_after or 0, error.get("retry_after") or 0) or None
        return repeated, retry_after

    def batch(self, elements: List[_Element], turn: Turn) -> _Results:
        """Runs in a thread of its own: it waits for its turn, and before each repeat. ``turn``: its first one."""
        batch = elements
        results: Dict[int, BatchResult] = {}
        tries = 0
        while True:
            turn.wait()
            try:
                repeated, retry_after = self._request(elements, results)
            except HubError as error:
                seconds = wait_after("POST", error, tries, self._max_retries)
                if seconds is None:
                    turn.failed()
                    raise
            except BaseException:
                turn.failed()
                raise
            else:
                if not repeated or tries >= self._max_retries:
                    turn.accepted()
                    return [results[index] for index, _ in batch]
                seconds = wait_before(tries, retry_after)
                elements = repeated
            turn.refused()
            self._call.wait(seconds, self._ended)
            tries += 1
            turn = self.turns.ask(is_repeat=True)


def send_all(
    call: Caller,
    messages: Iterable[BatchMessage],
    batch_size: Optional[int],
    concurrency: Optional[int],
    max_retries: Optional[int],
) -> Generator[BatchResult, None, None]:
    most = check_count("concurrency", _DEFAULT_CONCURRENCY if concurrency is None else concurrency)
    retries = check_count("max_retries", _DEFAULT_RETRIES if max_retries is None else max_retries, 0)
    if batch_size is None:
        batch_size = cast(Account, call("GET", "/v1/account"))["limits"]["batch_max"]
    batches = _in_batches(messages, check_count("batch_size", batch_size))
    sending = _Sending(call, most, retries)
    turns = sending.turns
    window = most * _WINDOW
    #: Batches whose results were not yielded yet, in order.
    futures: Deque[Future[_Results]] = deque()
    is_at_end = False

    def may_open() -> bool:
        return not is_at_end and len(futures) < window and turns.is_empty()

    def tell(_: Future[_Results]) -> None:
        with turns.changed:
            turns.changed.notify_all()

    # A thread begins when it is needed: mostly there are as many as batches in progress, and one that waits.
    pool = ThreadPoolExecutor(max_workers=window, thread_name_prefix="sms-delivery-hub")
    try:
        while True:
            # The input is only read here, in the thread of the caller.
            while may_open():
                elements = next(batches, None)
                if elements is None:
                    is_at_end = True
                else:
                    future = pool.submit(sending.batch, elements, turns.ask())
                    futures.append(future)
                    future.add_done_callback(tell)
            if not futures:
                return
            with turns.changed:
                turns.changed.wait_for(lambda: futures[0].done() or may_open())
            if futures[0].done():
                yield from futures.popleft().result()
    finally:
        # An attempt that is in progress ends within the timeout of the client.
        sending.stop()
        pool.shutdown(wait=True)
