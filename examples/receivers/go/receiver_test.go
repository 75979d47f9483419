package main

import (
	"encoding/json"
	"os"
	"testing"
)

// The published signature vectors of the hub.
func TestSignatureVectors(t *testing.T) {
	file := os.Getenv("HUB_SIGNATURE_VECTORS")
	if file == "" {
		file = "../../../packages/client/conformance/signatures.json"
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Secret  string
		Now     int64
		Vectors []struct {
			Group, Name string
			Header      *string
			Body        []byte `json:"body_base64"`
			Valid       bool
		}
	}
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	for _, vector := range document.Vectors {
		header := ""
		if vector.Header != nil {
			header = *vector.Header
		}
		if isFromHub(vector.Body, header, []string{document.Secret}, document.Now) != vector.Valid {
			t.Errorf("%s, %s: it must be valid: %t", vector.Group, vector.Name, vector.Valid)
		}
	}
	if len(document.Vectors) == 0 {
		t.Fatal("there are no vectors")
	}
}
