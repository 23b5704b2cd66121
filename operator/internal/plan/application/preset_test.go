// SPDX-License-Identifier: Apache-2.0

package application

import (
	"bufio"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// oneOfEach are pools of clients and servers.
const oneOfEach = `pools:
  clients: [{name: c, start: 16.0.0.1, end: 16.0.0.254, portPairOffset: 1.0.0.0, sourcePorts: {start: 41668, step: 17405, min: 2000, max: 63999}, startMAC: "02:00:00:00:00:01"}]
  servers: [{name: s, start: 48.0.0.1, end: 48.0.0.254, order: Random, seed: 7, weight: 3}]
`

// ofSource returns a template with a source and no port.
func ofSource(t *testing.T, source string) *spatev1.ASTFTemplate {
	t.Helper()
	template := &spatev1.ASTFTemplate{}
	if err := yaml.UnmarshalStrict([]byte("source: "+source+"\nconnectionRate: 1cps\n"+oneOfEach), &template.Spec); err != nil {
		t.Fatal(err)
	}
	return template
}

const (
	plainRequest  = "GET / HTTP/1.1\r\nHost: spate.test\r\n\r\n"
	responseTo    = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
	plainQuery    = "U1ABAAABAAAAAAAAA3d3dwVzcGF0ZQR0ZXN0AAABAAE="
	plainResponse = "U1CBgAABAAEAAAAAA3d3dwVzcGF0ZQR0ZXN0AAABAAHADAABAAEAAAA8AATGEgAB"
)

func TestPresetsExpandToPrograms(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"http": {"{http: {}}", `
transport: TCP
client:
- send: {content: {text: "` + escaped(plainRequest) + `"}, waitForAck: false}
- receiveUntil: {httpMessage: {}}
- count: {counter: transactions}
server:
- receiveUntil: {httpMessage: {}}
- send: {content: {text: "` + escaped(fmt.Sprintf(responseTo, 1024)) + `"}, waitForAck: false}
- send: {content: {size: 1024}, waitForAck: false}
- waitForPeerClose: {}
`},
		"http, requests one after the other": {`{http: {requestsPerConnection: 3, responseBytes: 5, path: "/a?b=c", host: example.org}}`, `
transport: TCP
client:
- set: {variable: requests, value: 3}
- {label: next-request, send: {content: {text: "` + escaped("GET /a?b=c HTTP/1.1\r\nHost: example.org\r\n\r\n") + `"}, waitForAck: false}}
- receiveUntil: {httpMessage: {}}
- count: {counter: transactions}
- add: {variable: requests, value: -1}
- jump: {to: next-request, variable: requests, comparison: NotEqual}
server:
- set: {variable: requests, value: 3}
- {label: next-request, receiveUntil: {httpMessage: {}}}
- send: {content: {text: "` + escaped(fmt.Sprintf(responseTo, 5)) + `"}, waitForAck: false}
- send: {content: {size: 5}, waitForAck: false}
- add: {variable: requests, value: -1}
- jump: {to: next-request, variable: requests, comparison: NotEqual}
- waitForPeerClose: {}
`},
		"http, with time to think": {"{http: {requestsPerConnection: 2, thinkTime: 1s}}", `
transport: TCP
client:
- send: {content: {text: "` + escaped(plainRequest) + `"}, waitForAck: false}
- receiveUntil: {httpMessage: {}}
- count: {counter: transactions}
- set: {variable: requests, value: 1}
- {label: next-request, delay: {min: 1s}}
- send: {content: {text: "` + escaped(plainRequest) + `"}, waitForAck: false}
- receiveUntil: {httpMessage: {}}
- count: {counter: transactions}
- add: {variable: requests, value: -1}
- jump: {to: next-request, variable: requests, comparison: NotEqual}
server:
- set: {variable: requests, value: 2}
- {label: next-request, receiveUntil: {httpMessage: {}}}
- send: {content: {text: "` + escaped(fmt.Sprintf(responseTo, 1024)) + `"}, waitForAck: false}
- send: {content: {size: 1024}, waitForAck: false}
- add: {variable: requests, value: -1}
- jump: {to: next-request, variable: requests, comparison: NotEqual}
- waitForPeerClose: {}
`},
		"http, one request has no time to think": {"{http: {thinkTime: 1s, responseBytes: 1}}", `
transport: TCP
client:
- send: {content: {text: "` + escaped(plainRequest) + `"}, waitForAck: false}
- receiveUntil: {httpMessage: {}}
- count: {counter: transactions}
server:
- receiveUntil: {httpMessage: {}}
- send: {content: {text: "` + escaped(fmt.Sprintf(responseTo, 1)) + `"}, waitForAck: false}
- send: {content: {size: 1}, waitForAck: false}
- waitForPeerClose: {}
`},
		"dns": {"{dns: {}}", `
transport: UDP
client:
- sendMessage: {base64: ` + plainQuery + `}
- receiveMessages: {messages: 1, clear: true}
- count: {counter: transactions}
server:
- receiveMessages: {messages: 1, clear: true}
- sendMessage: {base64: ` + plainResponse + `}
`},
		"dns, queries one after the other": {"{dns: {queriesPerFlow: 2, thinkTime: 5ms}}", `
transport: UDP
client:
- sendMessage: {base64: ` + plainQuery + `}
- receiveMessages: {messages: 1, clear: true}
- count: {counter: transactions}
- set: {variable: requests, value: 1}
- {label: next-request, delay: {min: 5ms}}
- sendMessage: {base64: ` + plainQuery + `}
- receiveMessages: {messages: 1, clear: true}
- count: {counter: transactions}
- add: {variable: requests, value: -1}
- jump: {to: next-request, variable: requests, comparison: NotEqual}
server:
- set: {variable: requests, value: 2}
- {label: next-request, receiveMessages: {messages: 1, clear: true}}
- sendMessage: {base64: ` + plainResponse + `}
- add: {variable: requests, value: -1}
- jump: {to: next-request, variable: requests, comparison: NotEqual}
`},
		"payload over TCP": {"{payload: {transport: TCP, requestBytes: 100, responseBytes: 2000}}", `
transport: TCP
client:
- send: {content: {size: 100}, waitForAck: false}
- receive: {bytes: 2000, clear: true}
- count: {counter: transactions}
server:
- receive: {bytes: 100, clear: true}
- send: {content: {size: 2000}, waitForAck: false}
- waitForPeerClose: {}
`},
		"payload over TCP without responses": {"{payload: {transport: TCP, requestBytes: 100, requestsPerFlow: 2}}", `
transport: TCP
client:
- set: {variable: requests, value: 2}
- {label: next-request, send: {content: {size: 100}, waitForAck: false}}
- add: {variable: requests, value: -1}
- jump: {to: next-request, variable: requests, comparison: NotEqual}
server:
- set: {variable: requests, value: 2}
- {label: next-request, receive: {bytes: 100, clear: true}}
- add: {variable: requests, value: -1}
- jump: {to: next-request, variable: requests, comparison: NotEqual}
- waitForPeerClose: {}
`},
		"payload over UDP": {"{payload: {transport: UDP, requestBytes: 100, responseBytes: 200}}", `
transport: UDP
client:
- sendMessage: {size: 100}
- receiveMessages: {messages: 1, clear: true}
- count: {counter: transactions}
server:
- receiveMessages: {messages: 1, clear: true}
- sendMessage: {size: 200}
`},
		"payload over UDP without responses": {"{payload: {transport: UDP, requestBytes: 100}}", `
transport: UDP
client:
- sendMessage: {size: 100}
server:
- receiveMessages: {messages: 1, clear: true}
`},
	} {
		t.Run(name, func(t *testing.T) {
			written := ofSource(t, c.source)
			before := written.DeepCopy()
			var want spatev1.Programs
			if err := yaml.UnmarshalStrict([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if got, want := yamlOf(t, Expand(&written.Spec).Source.Programs), yamlOf(t, &want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if yamlOf(t, written) != yamlOf(t, before) {
				t.Error("the template was changed")
			}
		})
	}
}

func escaped(text string) string { return strings.ReplaceAll(text, "\r\n", `\r\n`) }

func yamlOf(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestATemplateWithoutAPresetIsItself(t *testing.T) {
	if written := &ofSource(t, "{programs: {transport: TCP, client: [{send: {content: {text: GET /}}}]}}").Spec; Expand(written) != written {
		t.Error("it was copied")
	}
}

// The total that programs send is that of one round times the number of rounds.
func TestPresetsSendTheirBytesAsOftenAsTheySay(t *testing.T) {
	request, response := int64(len(plainRequest)), func(body int64) int64 { return int64(len(fmt.Sprintf(responseTo, body))) + body }
	for source, want := range map[string]struct{ client, server, delays int64 }{
		"{http: {}}":                         {request, response(1024), 0},
		"{http: {requestBytes: 500}}":        {500, response(1024), 0},
		"{http: {responseBytes: 1000000}}":   {request, response(1000000), 0},
		"{http: {requestsPerConnection: 7}}": {7 * request, 7 * response(1024), 0},
		"{http: {requestsPerConnection: 7, requestBytes: 64, responseBytes: 1, thinkTime: 1ms}}": {7 * 64, 7 * response(1), 6},
		"{http: {requestsPerConnection: 7, thinkTime: 0s}}":                                      {7 * request, 7 * response(1024), 0},
		"{dns: {}}":           {32, 48, 0},
		"{dns: {answers: 0}}": {32, 32, 0},
		"{dns: {answers: 28, queriesPerFlow: 3, thinkTime: 1s}}": {3 * 32, 3 * (32 + 28*16), 2},
		"{dns: {name: a.b}}": {21, 37, 0},
		"{payload: {transport: TCP, requestBytes: 1, responseBytes: 1099511627776}}":                        {1, 1 << 40, 0},
		"{payload: {transport: TCP, requestBytes: 10, requestsPerFlow: 1000, thinkTime: 1s}}":               {10000, 0, 999},
		"{payload: {transport: UDP, requestBytes: 65507, responseBytes: 65507, requestsPerFlow: 2}}":        {2 * 65507, 2 * 65507, 0},
		"{payload: {transport: UDP, requestBytes: 9, responseBytes: 8, requestsPerFlow: 5, thinkTime: 1s}}": {45, 40, 4},
	} {
		written := &ofSource(t, source).Spec
		written.DestinationPort = ptr.To[int32](9)
		made, problems := Resolve(Expand(written), field.NewPath("spec"), Surroundings{})
		if len(problems) > 0 {
			t.Errorf("%s: %v", source, problems)
			continue
		}
		for side, c := range map[string]struct {
			program *Program
			want    int64
		}{"client": {made.Client, want.client}, "server": {made.Server, want.server}} {
			if got, err := c.program.Sent(); err != nil || got.Cmp(big.NewInt(c.want)) != 0 {
				t.Errorf("%s: the %s sends %v bytes (%v), want %d", source, side, got, err, c.want)
			}
		}
		if got := executed(made.Client.Program, func(i *enginev1.Instruction) bool { return i.GetDelay() != nil }); got != want.delays {
			t.Errorf("%s: the client waits %d times, want %d", source, got, want.delays)
		}
		if got := executed(made.Server.Program, func(i *enginev1.Instruction) bool { return i.GetDelay() != nil }); got != 0 {
			t.Errorf("%s: the server waits %d times", source, got)
		}
	}
}

// executed counts the instructions of a kind that a program executes, whose only variable counts down.
func executed(p *enginev1.Program, kind func(*enginev1.Instruction) bool) (count int64) {
	value := int64(0)
	for at := 0; at < len(p.Instructions); at++ {
		i := p.Instructions[at]
		switch {
		case kind(i):
			count++
		case i.GetSet() != nil:
			value = i.GetSet().Value
		case i.GetAdd() != nil:
			value += i.GetAdd().Value
		case i.GetJump() != nil && value != 0:
			at = int(i.GetJump().To) - 1
		}
	}
	return count
}

// requestOf returns the request of an http preset.
func requestOf(t *testing.T, source string) string {
	t.Helper()
	programs := Expand(&ofSource(t, source).Spec).Source.Programs
	return programs.Client[0].Send.Content.Text
}

func TestHTTPRequestsAreFilledUpToTheirSize(t *testing.T) {
	for bytes, valid := range map[int]bool{
		len(plainRequest) - 1: false, len(plainRequest): true, len(plainRequest) + 1: false, // nothing to pad with
		len(plainRequest) + 13: false, len(plainRequest) + 14: true, // X-Padding: x
		len(plainRequest) + 15: true, 64: true, 1500: true, 65536: true,
	} {
		source := fmt.Sprintf("{http: {requestBytes: %d}}", bytes)
		problems := Check(&ofSource(t, source).Spec)
		if !valid {
			want := fmt.Sprintf("spec.source.http.requestBytes: %d: the request has 36 bytes without padding, and at least 50 with it; use one of these, or more", bytes)
			if problems.Message() != want {
				t.Errorf("got %s, want %s", problems.Message(), want)
			}
			continue
		}
		text := requestOf(t, source)
		if len(text) != bytes || len(problems) > 0 {
			t.Errorf("%d bytes: the request has %d (%v)", bytes, len(text), problems)
		}
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil || request.Method != http.MethodGet || request.URL.Path != "/" || request.Host != "spate.test" {
			t.Errorf("%d bytes: %v %v", bytes, request, err)
		}
		if padding := request.Header.Get("X-Padding"); strings.Trim(padding, "x") != "" || (padding == "") != (bytes == len(plainRequest)) {
			t.Errorf("%d bytes: padding %q", bytes, padding)
		}
	}
}

func TestHTTPResponsesAreThoseOfTheirBody(t *testing.T) {
	programs := Expand(&ofSource(t, "{http: {responseBytes: 1234}}").Spec).Source.Programs
	head, body := programs.Server[1].Send.Content.Text, *programs.Server[2].Send.Content.Size
	response, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(head), strings.NewReader(strings.Repeat("x", int(body))))), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if read, err := io.ReadAll(response.Body); err != nil || len(read) != 1234 || response.StatusCode != http.StatusOK {
		t.Errorf("%d bytes of %s: %v", len(read), response.Status, err)
	}
}

func TestDNSMessagesAreRead(t *testing.T) {
	programs := Expand(&ofSource(t, "{dns: {name: mail.example.com, answers: 3}}").Spec).Source.Programs
	decode := func(message []byte) *layers.DNS {
		dns := &layers.DNS{}
		if err := dns.DecodeFromBytes(message, gopacket.NilDecodeFeedback); err != nil {
			t.Fatal(err)
		}
		return dns
	}
	query, response := decode(programs.Client[0].SendMessage.Base64), decode(programs.Server[1].SendMessage.Base64)
	for _, dns := range []*layers.DNS{query, response} {
		if dns.ID != query.ID || len(dns.Questions) != 1 || string(dns.Questions[0].Name) != "mail.example.com" || dns.Questions[0].Type != layers.DNSTypeA || !dns.RD {
			t.Errorf("got %+v", dns)
		}
	}
	if query.QR || !response.QR || response.ResponseCode != layers.DNSResponseCodeNoErr || len(query.Answers) != 0 || len(response.Answers) != 3 {
		t.Errorf("got %+v, %+v", query, response)
	}
	for i, answer := range response.Answers {
		if want := fmt.Sprintf("198.18.0.%d", i+1); answer.IP.String() != want || string(answer.Name) != "mail.example.com" || answer.TTL != 60 {
			t.Errorf("answer %d: %+v, want %s", i, answer, want)
		}
	}
}

func TestPresetsThatCannotBeExpanded(t *testing.T) {
	long := strings.Repeat("a234567.", 31) + "a2345" // 253 characters
	for source, want := range map[string]string{
		"{http: {thinkTime: soon}}":                                                      `spec.source.http.thinkTime: "soon" must be a duration`,
		"{dns: {thinkTime: -1s}}":                                                        `spec.source.dns.thinkTime: "-1s" must be a duration`,
		"{payload: {transport: TCP, requestBytes: 1, thinkTime: soon}}":                  `spec.source.payload.thinkTime: "soon" must be a duration`,
		"{payload: {transport: SCTP, requestBytes: 1}}":                                  `spec.source.payload.transport: "SCTP": must be TCP or UDP`,
		"{payload: {transport: TCP, requestBytes: 1}}":                                   "spec.destinationPort: is required: the port that the servers listen on",
		"{payload: {transport: UDP, requestBytes: 65508}}":                               "spec.source.payload.requestBytes: 65508: a datagram has at most 65507 bytes",
		"{payload: {transport: UDP, requestBytes: 1, responseBytes: 65508}}":             "spec.source.payload.responseBytes: 65508: a datagram has at most 65507 bytes",
		"{payload: {transport: TCP, requestBytes: 0}}":                                   "spec.source.payload.requestBytes: 0: must be at least 1",
		"{payload: {transport: TCP, requestBytes: 1, responseBytes: 0}}":                 "spec.source.payload.responseBytes: 0: must be at least 1",
		"{http: {requestsPerConnection: 0}}":                                             "spec.source.http.requestsPerConnection: 0: must be at least 1",
		"{dns: {queriesPerFlow: 0}}":                                                     "spec.source.dns.queriesPerFlow: 0: must be at least 1",
		"{payload: {transport: TCP, requestBytes: 1, requestsPerFlow: 0}}":               "spec.source.payload.requestsPerFlow: 0: must be at least 1",
		"{http: {responseBytes: 0}}":                                                     "spec.source.http.responseBytes: 0: must be at least 1",
		"{dns: {name: " + long + ", answers: 16}}":                                       "spec.source.dns.answers: 16: the response has 527 bytes, and DNS over UDP at most 512 (RFC 1035): use fewer, or a shorter name",
		"{dns: {}, http: {}}":                                                            "spec.source: set exactly one of programs, pcap, http, dns and payload",
		"{http: {}, pcap: {volume: {name: a, path: b}}}":                                 "spec.source: set exactly one of programs, pcap, http, dns and payload",
		"{http: {}, programs: {transport: TCP, client: [{send: {content: {text: x}}}]}}": "spec.source: set exactly one of programs, pcap, http, dns and payload",
	} {
		problems := Check(&ofSource(t, source).Spec)
		if !strings.Contains(problems.Message(), want) || strings.Contains(problems.Message(), "programs.client") {
			t.Errorf("%s: got %s\nwant %s", source, problems.Message(), want)
		}
	}
	for _, source := range []string{"{dns: {name: " + long + ", answers: 15}}", "{dns: {answers: 28}}"} {
		if problems := Check(&ofSource(t, source).Spec); len(problems) > 0 {
			t.Errorf("%s: %v", source, problems)
		}
	}
}
