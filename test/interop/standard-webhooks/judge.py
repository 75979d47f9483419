import sys

from standardwebhooks import Webhook, WebhookVerificationError

with open(sys.argv[1], encoding="utf-8") as questions:
    for line in questions.read().split("\n"):
        secret, id, timestamp, signature, body = line.split("\t")
        headers = {"webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature}
        try:
            Webhook(secret).verify(body, headers)
            print("true")
        except WebhookVerificationError:
            print("false")
