"""
How many batches may be in progress: one fewer after the hub refused one, and one more after it accepted a series
(additive increase and decrease, because the numbers are small). Pure. The client for TypeScript has the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: The hub decodes one batch while it records the other. More only wait, unless the hub is far away.
USUAL = 2
#: Accepted batches before there is one more, up to ``USUAL``.
SERIES = 2
#: The same beyond ``USUAL``. Each refusal there doubles it.
FIRST_LONG_SERIES = 32
LONGEST_SERIES = 512


@dataclass(frozen=True)
class Pace:
    #: The most batches in progress, from 1 to ``most``.
    limit: int
    most: int
    #: Batches that were accepted since the limit changed.
    accepted: int = 0
    #: Accepted batches before the limit rises beyond ``USUAL``.
    long_series: int = FIRST_LONG_SERIES
    #: How often the limit became lower. A batch that began before the last time says nothing about it.
    reductions: int = 0


def first_pace(most: int) -> Pace:
    return Pace(limit=min(USUAL, most), most=most)


def after_accepted(pace: Pace) -> Pace:
    accepted = pace.accepted + 1
    series = SERIES if pace.limit < USUAL else pace.long_series
    if pace.limit < pace.most and accepted >= series:
        return replace(pace, limit=pace.limit + 1, accepted=0)
    return replace(pace, accepted=accepted)


def after_refused(pace: Pace, reductions: int) -> Pace:
    """``reductions``: the number when the refused batch was sent."""
    if reductions != pace.reductions:
        return replace(pace, accepted=0)
    long_series = min(LONGEST_SERIES, 2 * pace.long_series) if pace.limit > USUAL else pace.long_series
    return replace(
        pace,
        limit=max(1, pace.limit - 1),
        accepted=0,
        long_series=long_series,
        reductions=pace.reductions + 1,
    )
