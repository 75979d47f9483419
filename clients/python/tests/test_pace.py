"""The pace of batches. The cases are those of the client for TypeScript."""

import random
import unittest

from sms_delivery_hub._pace import FIRST_LONG_SERIES, LONGEST_SERIES, SERIES, Pace, after_accepted, after_refused, first_pace


def accept(pace: Pace, times: int) -> Pace:
    for _ in range(times):
        pace = after_accepted(pace)
    return pace


def refuse(pace: Pace) -> Pace:
    return after_refused(pace, pace.reductions)


class PaceOfBatches(unittest.TestCase):
    def test_begins_with_two_and_has_one_more_after_a_long_series(self) -> None:
        self.assertEqual(first_pace(4).limit, 2)
        self.assertEqual(accept(first_pace(4), FIRST_LONG_SERIES - 1).limit, 2)
        self.assertEqual(accept(first_pace(4), FIRST_LONG_SERIES).limit, 3)
        self.assertEqual(accept(first_pace(4), 2 * FIRST_LONG_SERIES).limit, 4)
        self.assertEqual(first_pace(1).limit, 1)

    def test_has_one_fewer_after_a_refusal_and_two_again_after_a_short_series(self) -> None:
        pace = refuse(accept(first_pace(4), SERIES))
        self.assertEqual((pace.limit, refuse(pace).limit), (1, 1))
        self.assertEqual(accept(pace, SERIES - 1).limit, 1)
        self.assertEqual(accept(pace, SERIES).limit, 2)

    def test_asks_less_often_for_a_third_one_each_time_that_the_hub_refuses_it(self) -> None:
        pace, series = first_pace(4), FIRST_LONG_SERIES
        while series <= LONGEST_SERIES:
            self.assertEqual(accept(pace, series - 1).limit, 2)
            pace = refuse(accept(pace, series))
            self.assertEqual(pace.limit, 2)
            series *= 2
        self.assertEqual(accept(pace, LONGEST_SERIES).limit, 3)

    def test_has_one_fewer_once_for_batches_that_were_sent_together(self) -> None:
        pace = accept(first_pace(4), 2 * FIRST_LONG_SERIES)
        self.assertEqual(after_refused(refuse(pace), pace.reductions).limit, 3)

    def test_is_from_one_to_the_most_and_changes_by_one_whatever_the_hub_answers(self) -> None:
        source = random.Random(1)
        for _ in range(20):
            most = source.randint(1, 9)
            pace = first_pace(most)
            for _ in range(300):
                is_accepted = source.random() < 0.9
                ago = source.randint(0, 3)
                after = after_accepted(pace) if is_accepted else after_refused(pace, max(0, pace.reductions - ago))
                self.assertTrue(1 <= after.limit <= most and abs(after.limit - pace.limit) <= 1)
                self.assertTrue(after.limit >= pace.limit if is_accepted else after.limit <= pace.limit)
                pace = after
            # Without refusals, it always comes back to the most.
            self.assertEqual(accept(pace, LONGEST_SERIES * most).limit, most)
