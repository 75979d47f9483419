"""The generated types, at run time."""

import typing
import unittest

from sms_delivery_hub import contract


class Types(unittest.TestCase):
    def test_can_be_resolved_at_run_time(self) -> None:
        classes = [one for one in vars(contract).values() if isinstance(one, type) and one.__module__ == contract.__name__]
        self.assertGreater(len(classes), 50)
        for one in classes:
            typing.get_type_hints(one)

    def test_know_which_keys_are_required_also_if_they_are_keywords(self) -> None:
        self.assertEqual(contract.SendRequest.__required_keys__, {"to", "class", "template"})
        self.assertEqual(contract.SendRequest.__optional_keys__, {"variables", "client_ref", "ttl_seconds"})
        self.assertEqual(contract.BatchMessage.__optional_keys__, {"variables", "ttl_seconds"})
