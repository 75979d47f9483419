// A webhook receiver: verifies the signature, answers, and prints the events. Only the standard library.
//
//	HUB_WEBHOOK_SECRET=whsec_... go run .
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const toleranceSeconds = 300

var timePattern = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})$`)
var signaturePattern = regexp.MustCompile(`^v1=[0-9a-f]{64}$`)

// isFromHub tells whether a signature of the header matches the raw body and one of the secrets (two in a
// rotation).
func isFromHub(body []byte, header string, secrets []string, now int64) bool {
	times, given := []string{}, [][]byte{}
	for _, element := range strings.Split(header, ",") {
		element = strings.TrimSpace(element)
		if strings.HasPrefix(element, "t=") {
			times = append(times, element[2:])
		} else if signaturePattern.MatchString(element) {
			signature, _ := hex.DecodeString(element[3:])
			given = append(given, signature)
		}
	}
	if len(times) != 1 || !timePattern.MatchString(times[0]) {
		return false
	}
	matches := false
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(times[0] + "."))
		mac.Write(body)
		expected := mac.Sum(nil)
		for _, signature := range given {
			matches = secret != "" && hmac.Equal(signature, expected) || matches
		}
	}
	signedAt, _ := strconv.ParseInt(times[0], 10, 64)
	return matches && max(now-signedAt, signedAt-now) <= toleranceSeconds
}

func receive(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	secrets := strings.Split(os.Getenv("HUB_WEBHOOK_SECRET"), ",")
	if err != nil || !isFromHub(body, request.Header.Get("Hub-Signature"), secrets, time.Now().Unix()) {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	// Answer within ten seconds: process slow work elsewhere, and drop known ids.
	response.WriteHeader(http.StatusNoContent)
	var events []struct{ Type, ID string }
	json.Unmarshal(body, &events)
	for _, event := range events {
		fmt.Println(event.Type, event.ID)
	}
}

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "3000"
	}
	http.HandleFunc("POST /", receive)
	panic(http.ListenAndServe("127.0.0.1:"+port, nil))
}
