"""
Lets as many batches be sent at the same time as the pace allows. One more may wait for its turn, so that it begins
in the moment in which another one is answered.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Deque

from ._pace import Pace, after_accepted, after_refused, first_pace


class Stopped(Exception):
    """The caller wants no further results."""


class Turn:
    """A batch that waits for its turn, or has it. Exactly one of ``accepted``, ``refused`` and ``failed`` ends it."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.has_begun = False
        self.reductions = 0

    def wait(self) -> None:
        """Raises ``Stopped`` if the turns have ended: then the batch is not sent."""
        with self._turns.changed:
            self._turns.changed.wait_for(lambda: self.has_begun or self._turns.is_stopped)
            if self._turns.is_stopped:
                raise Stopped

    def accepted(self) -> None:
        with self._turns.changed:
            self._turns.pace = after_accepted(self._turns.pace)
            self._turns.is_paused = False
            self._turns.end()

    def refused(self) -> None:
        """The batch is sent again after a wait. Until its end, or until another one is accepted, none begins."""
        with self._turns.changed:
            self._turns.pace = after_refused(self._turns.pace, self.reductions)
            self._turns.is_paused = True
            self._turns.end()

    def failed(self) -> None:
        """The batch ends without an answer that says something about the load."""
        with self._turns.changed:
            self._turns.end()


class Turns:
    def __init__(self, most: int) -> None:
        #: Guards everything here, and tells each change.
        self.changed = threading.Condition()
        self.pace: Pace = first_pace(most)
        self.is_paused = False
        self.is_stopped = False
        self._in_progress = 0
        self._waiting: Deque[Turn] = deque()

    def is_empty(self) -> bool:
        """Whether no batch waits for its turn."""
        with self.changed:
            return not self._waiting

    def ask(self, is_repeat: bool = False) -> Turn:
        """``is_repeat``: the wait of a refused batch is over, and it comes before one that was not sent yet."""
        turn = Turn(self)
        with self.changed:
            if is_repeat:
                self.is_paused = False
                self._waiting.appendleft(turn)
            else:
                self._waiting.append(turn)
            self._begin_next()
        return turn

    def stop(self) -> None:
        """No batch begins any more."""
        with self.changed:
            self.is_stopped = True
            self.changed.notify_all()

    def end(self) -> None:
        self._in_progress -= 1
        self._begin_next()

    def _begin_next(self) -> None:
        while (
            self._waiting
            and not self.is_stopped
            and not self.is_paused
            and self._in_progress < self.pace.limit
        ):
            turn = self._waiting.popleft()
            turn.has_begun = True
            turn.reductions = self.pace.reductions
            self._in_progress += 1
        self.changed.notify_all()
