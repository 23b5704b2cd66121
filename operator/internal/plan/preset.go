// SPDX-License-Identifier: Apache-2.0

// Which programs do the presets of a template expand to?

package plan

import (
	"encoding/binary"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// Ports that servers listen on by default.
const (
	httpPort = 80
	dnsPort  = 53
)

// roundsLabel and roundsVariable are those of a program that repeats a request.
const (
	roundsLabel    = "next-request"
	roundsVariable = "requests"
)

// Expand gives a template with the programs, and the destination port, that its preset stands for; the template itself if it has none.
func Expand(spec *spatev1.ASTFTemplateSpec) *spatev1.ASTFTemplateSpec {
	expanded := *spec
	port := int32(0)
	switch source := &expanded.Source; {
	case source.HTTP != nil:
		source.Programs, port = httpPrograms(source.HTTP), httpPort
	case source.DNS != nil:
		source.Programs, port = dnsPrograms(source.DNS), dnsPort
	case source.Payload != nil:
		source.Programs = payloadPrograms(source.Payload)
	default:
		return spec
	}
	if expanded.DestinationPort == nil && port > 0 {
		expanded.DestinationPort = ptr.To(port)
	}
	return &expanded
}

// repeated gives the commands of a request in rounds: once, or counted by a variable. Between two rounds it waits for the think time.
func repeated(rounds int32, thinkTime spatev1.Duration, round ...spatev1.Command) []spatev1.Command {
	if rounds <= 1 {
		return round
	}
	if thinkTime != "" && thinkTime != "0s" {
		// Waited before each request but the first, which the jump into the middle leaves out.
		round = append([]spatev1.Command{{Label: roundsLabel, Delay: &spatev1.DelayCommand{Min: thinkTime}}}, round...)
		round[1].Label = "first-request"
		begin := []spatev1.Command{
			{Set: &spatev1.VariableCommand{Variable: roundsVariable, Value: int64(rounds)}},
			{Jump: &spatev1.JumpCommand{To: "first-request", Variable: roundsVariable, Comparison: spatev1.ComparisonNotEqual}},
		}
		return append(append(begin, round...), again()...)
	}
	round[0].Label = roundsLabel
	begin := spatev1.Command{Set: &spatev1.VariableCommand{Variable: roundsVariable, Value: int64(rounds)}}
	return append(append([]spatev1.Command{begin}, round...), again()...)
}

// again goes back for another round, as long as there is one.
func again() []spatev1.Command {
	return []spatev1.Command{
		{Add: &spatev1.VariableCommand{Variable: roundsVariable, Value: -1}},
		{Jump: &spatev1.JumpCommand{To: roundsLabel, Variable: roundsVariable, Comparison: spatev1.ComparisonNotEqual}},
	}
}

func text(content string) spatev1.Content { return spatev1.Content{Text: content} }

func send(content spatev1.Content) spatev1.Command {
	return spatev1.Command{Send: &spatev1.SendCommand{Content: content, WaitForAck: ptr.To(false)}}
}

// httpPrograms of a client that sends GET requests, and a server that answers each by a body (RFC 9112).
func httpPrograms(h *spatev1.HTTPSource) *spatev1.Programs {
	rounds, body := ptr.Deref(h.RequestsPerConnection, 1), ptr.Deref(h.ResponseBytes, 1024)
	request := httpRequest(h)
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", body)
	message := spatev1.Command{ReceiveUntil: &spatev1.ReceiveUntilCommand{HTTPMessage: &spatev1.EmptyCommand{}}}
	return &spatev1.Programs{
		Transport: spatev1.TransportTCP,
		Client:    repeated(rounds, h.ThinkTime, send(text(request)), message),
		Server: append(repeated(rounds, "", message, send(text(response)), send(spatev1.Content{Size: ptr.To(body)})),
			spatev1.Command{WaitForPeerClose: &spatev1.EmptyCommand{}}),
	}
}

// httpRequest is padded to requestBytes by a header field, if it is shorter without.
func httpRequest(h *spatev1.HTTPSource) string {
	path, host := h.Path, h.Host
	if path == "" {
		path = "/"
	}
	if host == "" {
		host = "spate.test"
	}
	begin := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n", path, host)
	const padding, end = "X-Padding: \r\n", "\r\n"
	if missing := int(ptr.Deref(h.RequestBytes, 0)) - len(begin) - len(padding) - len(end); missing > 0 {
		begin += "X-Padding: " + strings.Repeat("x", missing) + "\r\n"
	}
	return begin + end
}

// httpSource tells whether a request can have the size that is set.
func (p *Problems) httpSource(h *spatev1.HTTPSource, at *field.Path) {
	if h.RequestBytes == nil {
		return
	}
	if size := len(httpRequest(h)); size != int(*h.RequestBytes) {
		p.add(spatev1.ReasonInvalidSpec, at.Child("requestBytes"), "%d: the request has %d bytes without padding, and at least %d with it; use one of these, or more", *h.RequestBytes, size, size+len("X-Padding: x\r\n"))
	}
}

// dnsPrograms of a client that queries A records, and a server that answers (RFC 1035 section 4.1).
func dnsPrograms(d *spatev1.DNSSource) *spatev1.Programs {
	rounds, answers, name := ptr.Deref(d.QueriesPerFlow, 1), ptr.Deref(d.Answers, 1), d.Name
	if name == "" {
		name = "www.spate.test"
	}
	received := spatev1.Command{ReceiveMessages: &spatev1.ReceiveMessagesCommand{Messages: 1, Clear: true}}
	return &spatev1.Programs{
		Transport: spatev1.TransportUDP,
		Client:    repeated(rounds, d.ThinkTime, spatev1.Command{SendMessage: &spatev1.Content{Base64: dnsMessage(name, -1)}}, received),
		Server:    repeated(rounds, "", received, spatev1.Command{SendMessage: &spatev1.Content{Base64: dnsMessage(name, int(answers))}}),
	}
}

// dnsMessage is a query if answers is negative, else a response with as many A records, of addresses from 198.18.0.1 on.
func dnsMessage(name string, answers int) []byte {
	const (
		identifier       = 0x5350
		recursionDesired = 0x0100
		response         = 0x8180 // recursion desired and available
		typeA, classIN   = 1, 1
		pointerToName    = 0xc00c // to the question's, behind the header of 12 bytes (RFC 1035 section 4.1.4)
		timeToLive       = 60
	)
	flags := uint16(recursionDesired)
	if answers >= 0 {
		flags = response
	}
	var message []byte
	for _, part := range []uint16{identifier, flags, 1, uint16(max(answers, 0)), 0, 0} {
		message = binary.BigEndian.AppendUint16(message, part)
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		message = append(append(message, byte(len(label))), label...)
	}
	message = append(message, 0, 0, typeA, 0, classIN)
	for i := range max(answers, 0) {
		message = binary.BigEndian.AppendUint16(message, pointerToName)
		message = append(message, 0, typeA, 0, classIN)
		message = binary.BigEndian.AppendUint32(message, timeToLive)
		message = append(message, 0, 4, 198, 18, 0, byte(i+1))
	}
	return message
}

// payloadPrograms of a client and a server that exchange bytes of a pattern.
func payloadPrograms(s *spatev1.PayloadSource) *spatev1.Programs {
	rounds := ptr.Deref(s.RequestsPerFlow, 1)
	made := &spatev1.Programs{Transport: s.Transport}
	request, response := spatev1.Content{Size: ptr.To(s.RequestBytes)}, spatev1.Content{Size: s.ResponseBytes}
	if s.Transport == spatev1.TransportUDP {
		received := spatev1.Command{ReceiveMessages: &spatev1.ReceiveMessagesCommand{Messages: 1, Clear: true}}
		client, server := []spatev1.Command{{SendMessage: &request}}, []spatev1.Command{received}
		if s.ResponseBytes != nil {
			client, server = append(client, received), append(server, spatev1.Command{SendMessage: &response})
		}
		made.Client, made.Server = repeated(rounds, s.ThinkTime, client...), repeated(rounds, "", server...)
		return made
	}
	received := func(bytes int64) spatev1.Command {
		return spatev1.Command{Receive: &spatev1.ReceiveCommand{Bytes: bytes, Clear: true}}
	}
	client, server := []spatev1.Command{send(request)}, []spatev1.Command{received(s.RequestBytes)}
	if s.ResponseBytes != nil {
		client, server = append(client, received(*s.ResponseBytes)), append(server, send(response))
	}
	made.Client = repeated(rounds, s.ThinkTime, client...)
	made.Server = append(repeated(rounds, "", server...), spatev1.Command{WaitForPeerClose: &spatev1.EmptyCommand{}})
	return made
}
