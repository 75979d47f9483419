"""
Reads PDUs and texts with SMPP libraries of Python: smpp.pdu3, smpplib and gsm0338.

    read_pdus.py pdus FILE   one PDU in hexadecimal on each line: prints what each library reads
    read_pdus.py texts FILE  one JSON string on each line: prints how smpplib and gsm0338 encode it
"""

import json
import sys
from io import BytesIO

import gsm0338
import smpplib.gsm
import smpplib.smpp
from smpp.pdu.pdu_encoding import PDUEncoder

TEXT_FIELDS = ("system_id", "password", "system_type", "source_addr", "destination_addr", "short_message")
INTEGER_FIELDS = ("esm_class", "data_coding", "registered_delivery", "interface_version")


class Client:
    """smpplib asks the client for the number of a new PDU, and keeps the number of a parsed one."""

    sequence = 0

    def next_sequence(self):
        return 0


def as_text(value):
    return value if isinstance(value, str) else value.decode("latin1")


def read_with_smpplib(octets):
    pdu = smpplib.smpp.parse_pdu(octets, client=Client(), allow_unknown_opt_params=False)
    fields = {name: getattr(pdu, name, None) for name in TEXT_FIELDS + INTEGER_FIELDS}
    return {
        "command": pdu.command,
        "sequence": pdu.sequence,
        "status": pdu.status,
        "fields": {
            name: as_text(value) if name in TEXT_FIELDS else value
            for name, value in fields.items()
            if value is not None
        },
    }


def repeat_with_smpp_pdu(octets):
    encoder = PDUEncoder()
    pdu = encoder.decode(BytesIO(octets))
    return {"command": pdu.id.name, "octets": encoder.encode(pdu).hex()}


def encode_text(text):
    parts, coding, esm_class = smpplib.gsm.make_parts(text)
    try:
        septets = text.encode("gsm03.38").hex()
    except UnicodeError:
        septets = None
    return {
        "parts": [part.hex() for part in parts],
        "data_coding": coding,
        "esm_class": esm_class,
        "septets": septets,
    }


if __name__ == "__main__":
    kind, file = sys.argv[1:]
    # smpp.pdu prints while it decodes a time.
    output, sys.stdout = sys.stdout, sys.stderr
    for line in open(file, encoding="utf-8"):
        if kind == "pdus":
            octets = bytes.fromhex(line)
            result = {"smpplib": read_with_smpplib(octets), "smpp.pdu": repeat_with_smpp_pdu(octets)}
        else:
            result = encode_text(json.loads(line))
        print(json.dumps(result), file=output)
