"""A webhook receiver: verifies the signature, answers, and prints the events. Python 3.9, no packages.

    HUB_WEBHOOK_SECRET=whsec_... python3 receiver.py
"""
import hashlib, hmac, json, os, re, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 300


def is_from_hub(body, header, secrets, now):
    """Whether a signature of the header matches the raw body and one of the secrets (two in a rotation)."""
    elements = [element.strip() for element in (header or "").split(",")]
    times = [element[2:] for element in elements if element.startswith("t=")]
    if len(times) != 1 or not re.fullmatch(r"0|[1-9][0-9]{0,11}", times[0]):
        return False
    given = [element[3:] for element in elements if re.fullmatch(r"v1=[0-9a-f]{64}", element)]
    signed = times[0].encode() + b"." + body
    matches = False
    for secret in filter(None, secrets):
        expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        matches = any([hmac.compare_digest(signature, expected) for signature in given]) or matches
    return matches and abs(now - int(times[0])) <= TOLERANCE_SECONDS


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        secrets = os.environ.get("HUB_WEBHOOK_SECRET", "").split(",")
        valid = is_from_hub(body, self.headers["hub-signature"], secrets, int(time.time()))
        # Answer first, within ten seconds. Process the events afterwards, and drop known ids.
        self.send_response(204 if valid else 400)
        self.end_headers()
        for event in json.loads(body) if valid else []:
            print(event["type"], event["id"], flush=True)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "3000"))), Receiver).serve_forever()
