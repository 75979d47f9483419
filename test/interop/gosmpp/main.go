// Reads PDUs and encodes texts with gosmpp.
//
//	gosmpp pdus FILE   one PDU in hexadecimal on each line: prints the octets that gosmpp writes for it
//	gosmpp texts FILE  one JSON string on each line: prints the parts, with packed septets or UCS-2
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/linxGnu/gosmpp/data"
	"github.com/linxGnu/gosmpp/pdu"
)

func repeatPdu(line string) string {
	octets, err := hex.DecodeString(line)
	if err != nil {
		log.Fatal(err)
	}
	read, err := pdu.Parse(bytes.NewReader(octets))
	if err != nil {
		log.Fatalf("%s: %v", line, err)
	}
	written := pdu.NewBuffer(nil)
	read.Marshal(written)
	return hex.EncodeToString(written.Bytes())
}

// The user data of a part after its header, as gosmpp sends it.
func encodeText(line string) string {
	var text string
	if err := json.Unmarshal([]byte(line), &text); err != nil {
		log.Fatal(err)
	}
	encoding := data.Encoding(data.GSM7BITPACKED)
	if _, err := data.GSM7BIT.Encode(text); err != nil {
		encoding = data.UCS2
	}
	submit := pdu.NewSubmitSM().(*pdu.SubmitSM)
	if err := submit.Message.SetLongMessageWithEnc(text, encoding); err != nil {
		log.Fatal(err)
	}
	parts, err := submit.Split()
	if err != nil {
		log.Fatalf("%q: %v", text, err)
	}
	all := make([]string, 0, len(parts))
	for _, part := range parts {
		octets, err := part.Message.GetMessageData()
		if err != nil {
			log.Fatal(err)
		}
		all = append(all, hex.EncodeToString(octets))
	}
	result, err := json.Marshal(map[string]any{"data_coding": encoding.DataCoding(), "parts": all})
	if err != nil {
		log.Fatal(err)
	}
	return string(result)
}

func main() {
	file, err := os.Open(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	answer := map[string]func(string) string{"pdus": repeatPdu, "texts": encodeText}[os.Args[1]]
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	for lines.Scan() {
		fmt.Fprintln(output, answer(lines.Text()))
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
