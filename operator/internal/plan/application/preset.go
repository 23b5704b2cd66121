// SPDX-License-Identifier: Apache-2.0

// Which programs do the presets of a template expand to?

package application

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/load"
)

// Ports that servers listen on by default.
const (
	httpPort = 80
	dnsPort  = 53
)

// counted counts a transaction: a request that was answered.
func counted() spatev1.Command {
	return spatev1.Command{Count: &spatev1.CountCommand{Counter: load.TransactionCounter}}
}

// Names of the label and the variable of a program that repeats a request.
const (
	roundsLabel    = "next-request"
	roundsVariable = "requests"
)

// Preset reports whether a template's programs are those of a preset.
func Preset(source *spatev1.TemplateSource) bool {
	return source.HTTP != nil || source.DNS != nil || source.Payload != nil
}

// Expand returns a template with the programs and the destination port of its preset; the template itself if it has no
// preset. A template with a preset and programs of its own gets no source, which is reported as a problem.
func Expand(spec *spatev1.ASTFTemplateSpec) *spatev1.ASTFTemplateSpec {
	expanded := *spec
	port := int32(0)
	switch source := &expanded.Source; {
	case source.Programs != nil && Preset(source):
		*source = spatev1.TemplateSource{}
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

// WrittenOut returns a template with programs in place of its preset; nil if it has none.
func WrittenOut(spec *spatev1.ASTFTemplateSpec) *spatev1.ASTFTemplateSpec {
	if !Preset(&spec.Source) {
		return nil
	}
	written := *Expand(spec)
	written.Source = spatev1.TemplateSource{Programs: written.Source.Programs}
	return &written
}

// repeated returns the commands of a request in rounds: one, or counted by a variable. With a think time between two
// rounds, the first round precedes the loop, so that nothing is jumped over, and the minimum that each flow sends is
// known (load.OfFlows).
func repeated(rounds int32, thinkTime spatev1.Duration, round ...spatev1.Command) []spatev1.Command {
	if rounds <= 1 {
		return round
	}
	var all []spatev1.Command
	if thinkTime != "" && thinkTime != "0s" {
		all = append(all, round...)
		round = append([]spatev1.Command{{Delay: &spatev1.DelayCommand{Min: thinkTime}}}, round...)
		rounds--
	}
	all = append(all, spatev1.Command{Set: &spatev1.VariableCommand{Variable: roundsVariable, Value: int64(rounds)}})
	round[0].Label = roundsLabel
	return append(append(all, round...),
		spatev1.Command{Add: &spatev1.VariableCommand{Variable: roundsVariable, Value: -1}},
		spatev1.Command{Jump: &spatev1.JumpCommand{To: roundsLabel, Variable: roundsVariable, Comparison: spatev1.ComparisonNotEqual}},
	)
}

func text(content string) spatev1.Content { return spatev1.Content{Text: content} }

func send(content spatev1.Content) spatev1.Command {
	return spatev1.Command{Send: &spatev1.SendCommand{Content: content, WaitForAck: ptr.To(false)}}
}

// httpPrograms returns a client that sends GET requests, and a server that responds to each with a body (RFC 9112).
func httpPrograms(h *spatev1.HTTPSource) *spatev1.Programs {
	rounds, body := ptr.Deref(h.RequestsPerConnection, 1), ptr.Deref(h.ResponseBytes, 1024)
	request := httpRequest(h)
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", body)
	message := spatev1.Command{ReceiveUntil: &spatev1.ReceiveUntilCommand{HTTPMessage: &spatev1.EmptyCommand{}}}
	return &spatev1.Programs{
		Transport: spatev1.TransportTCP,
		Client:    repeated(rounds, h.ThinkTime, send(text(request)), message, counted()),
		Server: append(repeated(rounds, "", message, send(text(response)), send(spatev1.Content{Size: ptr.To(body)})),
			spatev1.Command{WaitForPeerClose: &spatev1.EmptyCommand{}}),
	}
}

// httpRequest returns a request that a header field pads to requestBytes.
func httpRequest(h *spatev1.HTTPSource) string {
	begin := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n", cmp.Or(h.Path, "/"), cmp.Or(h.Host, "spate.test"))
	const padding, end = "X-Padding: \r\n", "\r\n"
	if missing := int(ptr.Deref(h.RequestBytes, 0)) - len(begin) - len(padding) - len(end); missing > 0 {
		begin += "X-Padding: " + strings.Repeat("x", missing) + "\r\n"
	}
	return begin + end
}

// preset reports a preset that cannot be expanded as specified.
func (p checker) preset(source *spatev1.TemplateSource, at *field.Path) {
	switch {
	case source.HTTP != nil:
		p.httpSource(source.HTTP, at.Child("http"))
	case source.DNS != nil:
		p.dnsSource(source.DNS, at.Child("dns"))
	case source.Payload != nil:
		p.payloadSource(source.Payload, at.Child("payload"))
	}
}

// httpSource reports a request that cannot have the size that is set.
func (p checker) httpSource(h *spatev1.HTTPSource, at *field.Path) {
	p.Duration(h.ThinkTime, at.Child("thinkTime"))
	p.AtLeastOne(ptr.Deref(h.ResponseBytes, 1), at.Child("responseBytes"))
	p.AtLeastOne(int64(ptr.Deref(h.RequestsPerConnection, 1)), at.Child("requestsPerConnection"))
	if h.RequestBytes == nil {
		return
	}
	if size := len(httpRequest(h)); size != int(*h.RequestBytes) {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("requestBytes"), "%d: the request has %d bytes without padding, and at least %d with it; use one of these, or more", *h.RequestBytes, size, size+len("X-Padding: x\r\n"))
	}
}

// dnsPrograms returns a client that queries A records, and a server that responds (RFC 1035 section 4.1).
func dnsPrograms(d *spatev1.DNSSource) *spatev1.Programs {
	rounds, answers, name := ptr.Deref(d.QueriesPerFlow, 1), ptr.Deref(d.Answers, 1), dnsName(d)
	received := spatev1.Command{ReceiveMessages: &spatev1.ReceiveMessagesCommand{Messages: 1, Clear: true}}
	return &spatev1.Programs{
		Transport: spatev1.TransportUDP,
		Client:    repeated(rounds, d.ThinkTime, spatev1.Command{SendMessage: &spatev1.Content{Base64: dnsMessage(name, -1)}}, received, counted()),
		Server:    repeated(rounds, "", received, spatev1.Command{SendMessage: &spatev1.Content{Base64: dnsMessage(name, int(answers))}}),
	}
}

// dnsName returns the name that is queried.
func dnsName(d *spatev1.DNSSource) string { return cmp.Or(d.Name, "www.spate.test") }

// dnsMessage returns a query if answers is negative, else a response with that number of A records, of addresses from
// 198.18.0.1 on.
func dnsMessage(name string, answers int) []byte {
	const (
		identifier       = 0x5350
		recursionDesired = 0x0100
		response         = 0x8180 // recursion desired and available
		typeA, classIN   = 1, 1
		pointerToName    = 0xc00c // the question's name, after the header of 12 bytes (RFC 1035 section 4.1.4)
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

// longestDNS is the maximum length of a message over UDP (RFC 1035 section 4.2.1).
const longestDNS = 512

// dnsSource reports a response that does not fit into a message.
func (p checker) dnsSource(d *spatev1.DNSSource, at *field.Path) {
	p.Duration(d.ThinkTime, at.Child("thinkTime"))
	p.AtLeastOne(int64(ptr.Deref(d.QueriesPerFlow, 1)), at.Child("queriesPerFlow"))
	answers := int(ptr.Deref(d.Answers, 1))
	if size := len(dnsMessage(dnsName(d), answers)); size > longestDNS {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("answers"), "%d: the response has %d bytes, and DNS over UDP at most %d (RFC 1035): use fewer, or a shorter name", answers, size, longestDNS)
	}
}

// longestDatagram is the maximum payload of UDP over IPv4.
const longestDatagram = 65535 - 20 - 8

// payloadSource reports messages of impossible sizes: over UDP each is one datagram.
func (p checker) payloadSource(s *spatev1.PayloadSource, at *field.Path) {
	p.Duration(s.ThinkTime, at.Child("thinkTime"))
	p.AtLeastOne(int64(ptr.Deref(s.RequestsPerFlow, 1)), at.Child("requestsPerFlow"))
	if s.Transport != spatev1.TransportTCP && s.Transport != spatev1.TransportUDP {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("transport"), "%q: must be TCP or UDP", s.Transport)
	}
	for _, message := range []struct {
		name  string
		bytes int64
	}{{"requestBytes", s.RequestBytes}, {"responseBytes", ptr.Deref(s.ResponseBytes, 1)}} {
		p.AtLeastOne(message.bytes, at.Child(message.name))
		if s.Transport == spatev1.TransportUDP && message.bytes > longestDatagram {
			p.Add(spatev1.ReasonInvalidSpec, at.Child(message.name), "%d: a datagram has at most %d bytes", message.bytes, longestDatagram)
		}
	}
}

// payloadPrograms returns a client and a server that exchange bytes of a pattern.
func payloadPrograms(s *spatev1.PayloadSource) *spatev1.Programs {
	rounds := ptr.Deref(s.RequestsPerFlow, 1)
	made := &spatev1.Programs{Transport: s.Transport}
	request, response := spatev1.Content{Size: ptr.To(s.RequestBytes)}, spatev1.Content{Size: s.ResponseBytes}
	if s.Transport == spatev1.TransportUDP {
		received := spatev1.Command{ReceiveMessages: &spatev1.ReceiveMessagesCommand{Messages: 1, Clear: true}}
		client, server := []spatev1.Command{{SendMessage: &request}}, []spatev1.Command{received}
		if s.ResponseBytes != nil {
			client, server = append(client, received, counted()), append(server, spatev1.Command{SendMessage: &response})
		}
		made.Client, made.Server = repeated(rounds, s.ThinkTime, client...), repeated(rounds, "", server...)
		return made
	}
	received := func(bytes int64) spatev1.Command {
		return spatev1.Command{Receive: &spatev1.ReceiveCommand{Bytes: bytes, Clear: true}}
	}
	client, server := []spatev1.Command{send(request)}, []spatev1.Command{received(s.RequestBytes)}
	if s.ResponseBytes != nil {
		client, server = append(client, received(*s.ResponseBytes), counted()), append(server, send(response))
	}
	made.Client = repeated(rounds, s.ThinkTime, client...)
	made.Server = append(repeated(rounds, "", server...), spatev1.Command{WaitForPeerClose: &spatev1.EmptyCommand{}})
	return made
}
