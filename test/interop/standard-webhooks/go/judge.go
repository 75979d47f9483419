package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	questions, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(questions), "\n") {
		fields := strings.Split(line, "\t")
		webhook, err := standardwebhooks.NewWebhook(fields[0])
		if err != nil {
			panic(err)
		}
		headers := http.Header{}
		headers.Set("webhook-id", fields[1])
		headers.Set("webhook-timestamp", fields[2])
		headers.Set("webhook-signature", fields[3])
		fmt.Println(webhook.Verify([]byte(fields[4]), headers) == nil)
	}
}
