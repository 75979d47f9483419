import sys

from sms_delivery_hub import WebhookSignatureError, read_standard_events

with open(sys.argv[1], encoding="utf-8") as questions:
    for line in questions.read().split("\n"):
        secret, id, timestamp, signature, body = line.split("\t")
        headers = {"webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature}
        try:
            read_standard_events(body, headers, secret)
            print("true")
        except WebhookSignatureError:
            print("false")
