// SPDX-License-Identifier: Apache-2.0

// ASTFTemplate: a client and a server program over TCP or UDP, or a pcap to derive them from.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Transport a template runs over.
//
// +kubebuilder:validation:Enum=TCP;UDP
type Transport string

const (
	// TransportTCP is TCP.
	TransportTCP Transport = "TCP"
	// TransportUDP is UDP.
	TransportUDP Transport = "UDP"
)

// ConnectionRate is connections a second.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?[kMG]?cps$')",message="must be connections a second such as 100cps or 1.5Mcps"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[kMG]?c')",message="a rate must be greater than zero"
type ConnectionRate string

// ASTFTemplateSpec describes emulated applications: what clients and servers say to each other.
//
// +kubebuilder:validation:XValidation:rule="has(self.destinationPort) || (!has(self.source.programs) && !has(self.source.payload))",fieldPath=".destinationPort",message="is required: the port that the servers listen on"
// +kubebuilder:validation:XValidation:rule="!has(self.latency) || !self.latency || has(self.source.pcap) || has(self.source.dns) || (has(self.source.programs) && self.source.programs.transport == 'UDP') || (has(self.source.payload) && self.source.payload.transport == 'UDP')",fieldPath=".latency",message="round trips are measured of UDP messages"
type ASTFTemplateSpec struct {
	// source of the conversation.
	// +required
	Source TemplateSource `json:"source"`

	// destinationPort that the servers listen on. When absent it is that of a pcap, 80 for http, 53 for dns.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	DestinationPort *int32 `json:"destinationPort,omitempty"`

	// connectionRate is the rate of new flows: TCP connections or UDP conversations. Absent where the entry of a profile sets it, or only
	// openConnection opens flows.
	// +optional
	ConnectionRate ConnectionRate `json:"connectionRate,omitempty"`

	// maxFlows is the number of flows after which the template starts no new ones; unlimited when absent. Those of
	// openConnection are not counted.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	MaxFlows *int64 `json:"maxFlows,omitempty"`

	// maxConcurrentFlows is the number of flows that may be open at a time, at least one for each worker of all pods. Flows that are due
	// beyond it are throttled: they start when others have ended. Unlimited when absent. Not for
	// templates that openConnection opens.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	MaxConcurrentFlows *int64 `json:"maxConcurrentFlows,omitempty"`

	// pools are the addresses of clients and servers.
	// +required
	Pools AddressPools `json:"pools"`

	// match are bytes that must all be in the first segment with data, or in the datagram, that a client sends for the servers to
	// serve it. Templates with it come before those without where several listen on one port; any client when absent. What no
	// template knows is refused and counted as unmatched.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Match []PayloadMatch `json:"match,omitempty"`

	// seed of random delays; 0 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Seed *int64 `json:"seed,omitempty"`

	// latency measures the round trip of each message and its reply (UDP).
	// +optional
	Latency bool `json:"latency,omitempty"`

	// tunables of the transport on each side. What is absent is as in the profile's.
	// +optional
	Tunables Tunables `json:"tunables,omitzero"`

	// statisticsGroup counts templates of the same group together, beside each by itself: in `result.groups` of runs, and as the label
	// `group` of metrics, which is the entry's name when absent.
	// +optional
	StatisticsGroup EntryName `json:"statisticsGroup,omitempty"`
}

// TemplateSource is exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=programs;pcap;http;dns;payload
type TemplateSource struct {
	// programs of the two sides.
	// +optional
	Programs *Programs `json:"programs,omitempty"`

	// pcap with one session, from which the programs are derived.
	// +optional
	Pcap *PcapSource `json:"pcap,omitempty"`

	// http is a preset: HTTP/1.1 requests and responses over TCP. `kubectl spate plan` shows the programs that it expands to.
	// +optional
	HTTP *HTTPSource `json:"http,omitempty"`

	// dns is a preset: DNS queries and responses over UDP.
	// +optional
	DNS *DNSSource `json:"dns,omitempty"`

	// payload is a preset: requests and responses of given sizes over TCP or UDP.
	// +optional
	Payload *PayloadSource `json:"payload,omitempty"`
}

// HTTPSource is a client that sends GET requests (RFC 9112) on each connection, one after the other, and a server that answers each by
// 200 with a body. The client closes the connection after the last response. It counts answered requests in the counter `transactions`.
type HTTPSource struct {
	// requestBytes is the size of each request, its header fields included. It is filled up by a header field `X-Padding`. When absent,
	// a request has no padding.
	// +optional
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=65536
	RequestBytes *int32 `json:"requestBytes,omitempty"`

	// responseBytes is the size of each response's body.
	// +optional
	// +default=1024
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1099511627776
	ResponseBytes *int64 `json:"responseBytes,omitempty"`

	// requestsPerConnection is the number of requests on each connection.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	RequestsPerConnection *int32 `json:"requestsPerConnection,omitempty"`

	// path of the requests.
	// +optional
	// +default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[!-~]*$')",message="must start with '/' and have printable ASCII characters without blanks"
	Path string `json:"path,omitempty"`

	// host is the value of the Host header field.
	// +optional
	// +default="spate.test"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be printable ASCII characters without blanks"
	Host string `json:"host,omitempty"`

	// thinkTime is how long the client waits after a response before its next request.
	// +optional
	ThinkTime Duration `json:"thinkTime,omitempty"`
}

// DNSSource is a client that sends queries for addresses (RFC 1035) on each flow, one after the other, and a server that answers them.
type DNSSource struct {
	// name that is queried.
	// +optional
	// +default="www.spate.test"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?([.][A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?)*$')",message="must be a domain name such as www.example.com, each label of at most 63 letters, digits, '-' or '_'"
	Name string `json:"name,omitempty"`

	// answers is the number of A records in each response.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=28
	Answers *int32 `json:"answers,omitempty"`

	// queriesPerFlow is the number of queries from each client port.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	QueriesPerFlow *int32 `json:"queriesPerFlow,omitempty"`

	// thinkTime is how long the client waits after a response before its next query.
	// +optional
	ThinkTime Duration `json:"thinkTime,omitempty"`
}

// PayloadSource is a client that sends requests of one size on each flow, one after the other, and a server that answers each by a
// response of one size. The bytes are a fixed pattern. Over UDP a request and a response are one datagram each.
type PayloadSource struct {
	// transport of the flows.
	// +required
	Transport Transport `json:"transport"`

	// requestBytes is the size of each request.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1099511627776
	RequestBytes int64 `json:"requestBytes"`

	// responseBytes is the size of each response. When absent, the server sends none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1099511627776
	ResponseBytes *int64 `json:"responseBytes,omitempty"`

	// requestsPerFlow is the number of requests on each flow.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	RequestsPerFlow *int32 `json:"requestsPerFlow,omitempty"`

	// thinkTime is how long the client waits after a response before its next request.
	// +optional
	ThinkTime Duration `json:"thinkTime,omitempty"`
}

// PcapSource is a capture of one session. A TCP session starts with its handshake and has no gaps.
//
// +kubebuilder:validation:ExactlyOneOf=from;volume
type PcapSource struct {
	// from names the data, at most 1 MiB.
	// +optional
	From *DataSource `json:"from,omitempty"`

	// volume names a file on a volume of the generator.
	// +optional
	Volume *VolumeFile `json:"volume,omitempty"`
}

// PayloadMatch are bytes at a place within the first 536 that a client sends: exactly one of text and hex.
//
// +kubebuilder:validation:ExactlyOneOf=text;hex
// +kubebuilder:validation:XValidation:rule="(has(self.offset) ? self.offset : 0) + (has(self.text) ? size(bytes(self.text)) : 0) + (has(self.hex) ? size(self.hex) / 2 : 0) <= 536",fieldPath=".offset",message="offset and the bytes must lie within the first 536 that a client sends"
type PayloadMatch struct {
	// offset of the first of them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=535
	Offset int32 `json:"offset,omitempty"`
	// text as UTF-8.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Text string `json:"text,omitempty"`
	// hex digits, two a byte.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Hex string `json:"hex,omitempty"`
}

// Programs of the two sides. A side that is only ever real needs none.
//
// +kubebuilder:validation:XValidation:rule="has(self.client) || has(self.server)",message="write the program of at least one side"
type Programs struct {
	// transport they run over.
	// +required
	Transport Transport `json:"transport"`

	// client is what a client does with each connection; the connection is closed behind the last command. Its variables are at most 4,
	// its counters 256.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	Client []Command `json:"client,omitempty"`

	// server is what a server does with each connection; the connection is closed behind the last command. Its variables are at most 4,
	// its counters 256.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	Server []Command `json:"server,omitempty"`
}

// MaxCommands of a side's program, as the rules of Programs have it.
const MaxCommands = 4096

// Command is one step of a program: exactly one action, with a label if something jumps to it.
//
// +kubebuilder:validation:ExactlyOneOf=connect;accept;send;receive;sendMessage;receiveMessages;delay;close;reset;waitForPeerClose;leaveOpen;keepalive;set;add;jump;loop;setTime;count;receiveUntil;switchTemplate;openConnection;nextTemplate
type Command struct {
	// label that jumps and loops name.
	// +optional
	Label EntryName `json:"label,omitempty"`

	// connect opens the connection (TCP clients; implied before the first other command).
	// +optional
	Connect *EmptyCommand `json:"connect,omitempty"`
	// accept waits for the connection (TCP servers; implied before the first other command).
	// +optional
	Accept *EmptyCommand `json:"accept,omitempty"`
	// send writes bytes to the TCP stream.
	// +optional
	Send *SendCommand `json:"send,omitempty"`
	// receive waits until bytes have arrived on the TCP stream.
	// +optional
	Receive *ReceiveCommand `json:"receive,omitempty"`
	// sendMessage sends one UDP datagram.
	// +optional
	SendMessage *Content `json:"sendMessage,omitempty"`
	// receiveMessages waits until UDP datagrams have arrived.
	// +optional
	ReceiveMessages *ReceiveMessagesCommand `json:"receiveMessages,omitempty"`
	// delay waits.
	// +optional
	Delay *DelayCommand `json:"delay,omitempty"`
	// close ends the connection when all is sent.
	// +optional
	Close *EmptyCommand `json:"close,omitempty"`
	// reset ends the connection at once with RST.
	// +optional
	Reset *EmptyCommand `json:"reset,omitempty"`
	// waitForPeerClose waits until the other side has closed.
	// +optional
	WaitForPeerClose *EmptyCommand `json:"waitForPeerClose,omitempty"`
	// leaveOpen ends the program and keeps the connection.
	// +optional
	LeaveOpen *EmptyCommand `json:"leaveOpen,omitempty"`
	// keepalive sets after which silence a UDP flow ends.
	// +optional
	Keepalive *KeepaliveCommand `json:"keepalive,omitempty"`
	// set gives a variable a value.
	// +optional
	Set *VariableCommand `json:"set,omitempty"`
	// add adds to a variable.
	// +optional
	Add *VariableCommand `json:"add,omitempty"`
	// jump goes on at a label if a comparison holds.
	// +optional
	Jump *JumpCommand `json:"jump,omitempty"`
	// loop goes back to a label until a time has passed since a setTime.
	// +optional
	Loop *LoopCommand `json:"loop,omitempty"`
	// setTime stores the present time in a variable.
	// +optional
	SetTime *SetTimeCommand `json:"setTime,omitempty"`
	// count adds one, or a time, to a counter of the program's own, which results and metrics have by its name.
	// +optional
	Count *CountCommand `json:"count,omitempty"`
	// receiveUntil waits for the end of what is received next on the TCP stream: behind the end of the receiveUntil before it, or from
	// the connection's start. receive counts bytes beside it and moves it not.
	// +optional
	ReceiveUntil *ReceiveUntilCommand `json:"receiveUntil,omitempty"`
	// switchTemplate goes on with the program of the same side of another template.
	// +optional
	SwitchTemplate *SwitchTemplateCommand `json:"switchTemplate,omitempty"`
	// openConnection is for clients. It opens a connection of another template, from the client's own address, and waits until it has
	// ended. If it cannot be opened, the other template counts that, and the program goes on.
	// +optional
	OpenConnection *OpenConnectionCommand `json:"openConnection,omitempty"`
	// nextTemplate is for clients. It names the template of the next openConnection without a template, or several of which one is drawn:
	// of this connection, and when it ends of the one that opened it.
	// +optional
	NextTemplate *NextTemplateCommand `json:"nextTemplate,omitempty"`
}

// EmptyCommand has no options.
type EmptyCommand struct{}

// Content is bytes: exactly one of text, hex, base64, size and from, and what differs in them from connection to connection.
//
// +kubebuilder:validation:ExactlyOneOf=text;hex;base64;size;from
type Content struct {
	// text as UTF-8.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Text string `json:"text,omitempty"`
	// hex digits, two a byte.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	Hex string `json:"hex,omitempty"`
	// base64 of bytes.
	// +optional
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
	// +kubebuilder:validation:Format=""
	Base64 []byte `json:"base64,omitempty"`
	// size in bytes of a fixed pattern: the byte at offset n is n modulo 251.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1099511627776
	Size *int64 `json:"size,omitempty"`
	// from names the data.
	// +optional
	From *DataSource `json:"from,omitempty"`

	// fields are bytes that differ from connection to connection; later ones overwrite earlier ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Fields []PayloadField `json:"fields,omitempty"`
}

// PayloadField is a field of fixed width in a content, with the n-th value for connection n of the template: exactly one of
// list and counter.
//
// +kubebuilder:validation:ExactlyOneOf=list;counter
type PayloadField struct {
	// offset of its first byte in the content.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1099511627775
	Offset int64 `json:"offset,omitempty"`
	// list of values, taken in turn.
	// +optional
	List *PayloadList `json:"list,omitempty"`
	// counter in decimal digits.
	// +optional
	Counter *PayloadCounter `json:"counter,omitempty"`
}

// PayloadList are values of one length: exactly one of text and hex.
//
// +kubebuilder:validation:ExactlyOneOf=text;hex
type PayloadList struct {
	// text of the values as UTF-8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Text []string `json:"text,omitempty"`
	// hex digits of the values, two a byte.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:Pattern=`^([0-9a-fA-F]{2})+$`
	Hex []string `json:"hex,omitempty"`
}

// PayloadCounter writes numbers with leading zeros.
type PayloadCounter struct {
	// start is the value of the first connection.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Start int64 `json:"start,omitempty"`
	// step from one connection to the next.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Step *int64 `json:"step,omitempty"`
	// width in digits; higher ones are omitted.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	Width int32 `json:"width"`
}

// SendCommand writes bytes.
type SendCommand struct {
	// content to send.
	// +required
	Content Content `json:"content"`
	// waitForAck waits until the peer has acknowledged all. Otherwise the program goes on when the content fits into the send buffer.
	// +optional
	// +default=true
	WaitForAck *bool `json:"waitForAck,omitempty"`
}

// ReceiveCommand waits for bytes.
type ReceiveCommand struct {
	// bytes to wait for, counted from the connection's start or the last clear.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Bytes int64 `json:"bytes"`
	// clear resets the count afterwards.
	// +optional
	Clear bool `json:"clear,omitempty"`
}

// ReceiveMessagesCommand waits for datagrams.
type ReceiveMessagesCommand struct {
	// messages to wait for, counted from the flow's start or the last clear.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Messages int64 `json:"messages"`
	// clear resets the count afterwards.
	// +optional
	Clear bool `json:"clear,omitempty"`
}

// DelayCommand waits for a time, or for a random one between two.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || duration(self.min) <= duration(self.max)",message="min must not be greater than max"
type DelayCommand struct {
	// min is the time to wait.
	// +required
	Min Duration `json:"min"`
	// max makes the time random between min and max.
	// +optional
	Max Duration `json:"max,omitempty"`
}

// KeepaliveCommand sets a time-out.
type KeepaliveCommand struct {
	// timeout of silence.
	// +required
	Timeout Duration `json:"timeout"`
}

// VariableCommand changes a variable of the connection.
type VariableCommand struct {
	// variable by name.
	// +required
	Variable EntryName `json:"variable"`
	// value to set or add.
	// +required
	// +kubebuilder:validation:Minimum=-9007199254740991
	// +kubebuilder:validation:Maximum=9007199254740991
	Value int64 `json:"value"`
}

// Comparison of a variable with a value.
//
// +kubebuilder:validation:Enum=Equal;NotEqual;Less;LessOrEqual;Greater;GreaterOrEqual
type Comparison string

const (
	// ComparisonEqual holds for the same value.
	ComparisonEqual Comparison = "Equal"
	// ComparisonNotEqual holds for another value.
	ComparisonNotEqual Comparison = "NotEqual"
	// ComparisonLess holds for lower values.
	ComparisonLess Comparison = "Less"
	// ComparisonLessOrEqual holds for the value and lower ones.
	ComparisonLessOrEqual Comparison = "LessOrEqual"
	// ComparisonGreater holds for higher values.
	ComparisonGreater Comparison = "Greater"
	// ComparisonGreaterOrEqual holds for the value and higher ones.
	ComparisonGreaterOrEqual Comparison = "GreaterOrEqual"
)

// JumpCommand goes on at a label.
type JumpCommand struct {
	// to is the label.
	// +required
	To EntryName `json:"to"`
	// variable that is compared.
	// +required
	Variable EntryName `json:"variable"`
	// comparison that must hold, `variable COMPARISON value`.
	// +optional
	// +default="NotEqual"
	Comparison Comparison `json:"comparison,omitempty"`
	// value to compare with.
	// +optional
	// +kubebuilder:validation:Minimum=-9007199254740991
	// +kubebuilder:validation:Maximum=9007199254740991
	Value int64 `json:"value,omitempty"`
}

// LoopCommand goes back to a label for a time.
type LoopCommand struct {
	// to is the label.
	// +required
	To EntryName `json:"to"`
	// since is the variable of a setTime.
	// +required
	Since EntryName `json:"since"`
	// duration of the loop since that time.
	// +required
	Duration Duration `json:"duration"`
}

// SetTimeCommand stores the present time.
type SetTimeCommand struct {
	// variable that holds it, in ns; add changes it.
	// +required
	Variable EntryName `json:"variable"`
}

// CountCommand counts.
type CountCommand struct {
	// counter by name.
	// +required
	Counter EntryName `json:"counter"`
	// since is the variable of a setTime: the time since then is added in ns, instead of one.
	// +optional
	Since EntryName `json:"since,omitempty"`
}

// ReceiveUntilCommand waits for an end: exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=pattern;patternHex;httpMessage
type ReceiveUntilCommand struct {
	// pattern is text as UTF-8; what is received up to and with it is awaited.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Pattern string `json:"pattern,omitempty"`
	// patternHex is a pattern as hex digits, two a byte.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2})+$`
	PatternHex string `json:"patternHex,omitempty"`
	// httpMessage is one HTTP/1.1 message, request or response: its header, and its body by Content-Length or chunks; a response with
	// neither ends with the connection. A connection whose message has no end that can be known is reset (`http_errors`).
	// +optional
	HTTPMessage *EmptyCommand `json:"httpMessage,omitempty"`
}

// SwitchTemplateCommand goes on with another program.
type SwitchTemplateCommand struct {
	// template is the name of an ASTFTemplate that the same profile runs on the same ports, over the same transport; for a template that is
	// described inline, the name of its entry.
	// +required
	Template ObjectName `json:"template"`
}

// OpenConnectionCommand opens a connection of another template.
type OpenConnectionCommand struct {
	// template is the name of an ASTFTemplate of the same profile, with its clients on the same port; of an inline one, the name of its
	// entry. Its pools.clients are those of this template, or more, and no program that it opens leads back to it. When absent it is the
	// one that nextTemplate named last; nothing is opened before.
	// +optional
	Template ObjectName `json:"template,omitempty"`
}

// NextTemplateCommand names a template, or several.
type NextTemplateCommand struct {
	// template is one as openConnection takes.
	// +required
	Template ObjectName `json:"template"`
	// alternatives are more of these: each connection is of template or of an alternative, drawn for it, all with the same probability.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=511
	Alternatives []ObjectName `json:"alternatives,omitempty"`
}

// AddressPools are the addresses of clients and servers.
//
// +kubebuilder:validation:XValidation:rule="self.servers.all(p, !has(p.startMAC) && !has(p.sourcePorts))",fieldPath=".servers",message="startMAC and sourcePorts go with clients"
// +kubebuilder:validation:XValidation:rule="self.servers.all(p, !has(p.from) && !has(p.gtpu) && !has(p.vxlan) && !has(p.gre) && !has(p.mpls) && !has(p.vlans) && !has(p.gateway))",fieldPath=".servers",message="from, gtpu, vxlan, gre, mpls, vlans and gateway go with clients"
type AddressPools struct {
	// clients take their source addresses from here. Where clients are real, none are needed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Clients []AddressPool `json:"clients,omitempty"`

	// servers listen on these addresses, and clients connect to them.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Servers []AddressPool `json:"servers"`
}

// PoolOrder is the order in which addresses are taken from a pool.
//
// +kubebuilder:validation:Enum=Forward;Random
type PoolOrder string

const (
	// PoolForward takes addresses in turn.
	PoolForward PoolOrder = "Forward"
	// PoolRandom shuffles them: each is taken once before any is taken again.
	PoolRandom PoolOrder = "Random"
)

// AddressPool is a range of IPv4 or IPv6 addresses that hosts can have, or those of emulated clients. Clients' and servers' of a template do not overlap.
//
// +kubebuilder:validation:XValidation:rule="has(self.start) != has(self.from)",message="exactly one of the fields in [start from] must be set"
// +kubebuilder:validation:XValidation:rule="has(self.from) || has(self.end) != has(self.count)",message="exactly one of the fields in [end count] must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.end) || !has(self.start) || !isIP(self.start) || !isIP(self.end) || ip(self.start).family() == ip(self.end).family()",message="start and end must be of the same family"
// +kubebuilder:validation:XValidation:rule="!has(self.seed) || (has(self.order) && self.order == 'Random')",fieldPath=".seed",message="seed goes with order: Random"
// +kubebuilder:validation:XValidation:rule="(has(self.allowMulticast) && self.allowMulticast) || !has(self.start) || !isIP(self.start) || ip(self.start).isGlobalUnicast() || ip(self.start).isLinkLocalUnicast()",fieldPath=".start",message="must be an address that a host can have: not 0.0.0.0, loopback, multicast (without allowMulticast) or broadcast"
// +kubebuilder:validation:XValidation:rule="(has(self.allowMulticast) && self.allowMulticast) || !has(self.end) || !isIP(self.end) || ip(self.end).isGlobalUnicast() || ip(self.end).isLinkLocalUnicast()",fieldPath=".end",message="must be an address that a host can have: not 0.0.0.0, loopback, multicast (without allowMulticast) or broadcast"
// +kubebuilder:validation:XValidation:rule="!has(self.gtpu) || !has(self.allowMulticast) || !self.allowMulticast",message="allowMulticast does not go with gtpu: clients in tunnels have addresses of hosts"
// +kubebuilder:validation:XValidation:rule="!has(self.gtpu) || !has(self.startMAC)",message="startMAC does not go with gtpu: gNBs have the port's MAC"
// +kubebuilder:validation:XValidation:rule="!has(self.gtpu) || !has(self.portPairOffset)",message="portPairOffset does not go with gtpu: write a template with tunnels of its own for the other ports"
// +kubebuilder:validation:XValidation:rule="!has(self.vlans) || has(self.gateway)",message="vlans go with a gateway: the next hop of the clients in these VLANs"
type AddressPool struct {
	// name of the pool.
	// +required
	Name EntryName `json:"name"`

	// start is the first address.
	// +optional
	Start IPAddress `json:"start,omitempty"`

	// from takes the addresses of emulated clients of the profile (`clients`), as long as these have them, instead of a range.
	// +optional
	From *PoolOfClients `json:"from,omitempty"`

	// end is the last address.
	// +optional
	End IPAddress `json:"end,omitempty"`

	// count of addresses, instead of end.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967296
	Count *int64 `json:"count,omitempty"`

	// order in which addresses are taken: `Forward` in turn, or `Random`, each once before any is taken again.
	// +optional
	// +default="Forward"
	Order PoolOrder `json:"order,omitempty"`

	// seed of the random order; 0 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Seed *int64 `json:"seed,omitempty"`

	// weight says how often it is taken among the pools of its side.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`

	// portPairOffset is added to the addresses for each further entry of a profile that runs the template, on another pair of
	// ports, as an address such as `0.1.0.0`.
	// +optional
	PortPairOffset IPAddress `json:"portPairOffset,omitempty"`

	// sourcePorts say with which port each client starts; spread over 1024 to 65535 by the client's number when absent.
	// +optional
	SourcePorts *SourcePorts `json:"sourcePorts,omitempty"`

	// startMAC is the Ethernet address of the first client's frames; that of client n is n higher. The port's own when absent.
	// +optional
	StartMAC MACAddress `json:"startMAC,omitempty"`

	// allowMulticast says that all addresses of the pool are multicast (224.0.0.0/4, ff00::/8), as in TRex's IPv6 profiles; they are refused
	// otherwise. Frames to one have the MAC address of its group. A device that follows the RFCs drops packets from a group address.
	// +optional
	AllowMulticast bool `json:"allowMulticast,omitempty"`

	// gtpu puts each client's packets into a GTP-U tunnel of its own, as a gNB does; they pass as they are when absent.
	// +optional
	GTPU *GTPUTunnels `json:"gtpu,omitempty"`

	// vxlan puts the clients' frames into VXLAN; they pass as they are when absent.
	// +optional
	VXLAN *VXLANTunnels `json:"vxlan,omitempty"`

	// gre puts the clients' packets into GRE; they pass as they are when absent.
	// +optional
	GRE *GRETunnels `json:"gre,omitempty"`

	// mpls puts the clients' packets behind MPLS labels; they pass as they are when absent.
	// +optional
	MPLS *MPLSTunnels `json:"mpls,omitempty"`

	// vlans tag the clients' frames, the outermost first; as the port's when absent. Frames to a client with other tags are foreign.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	VLANs []VLANTag `json:"vlans,omitempty"`

	// gateway is the next hop of the clients' frames, in their vlans; the port's when absent.
	// +optional
	Gateway IPAddress `json:"gateway,omitempty"`

	// mirrorVLANs makes emulated servers on another port use the vlans, too, and their port stand for the gateway: for a path that keeps tags.
	// +optional
	MirrorVLANs bool `json:"mirrorVLANs,omitempty"`
}

// VLANTag is an IEEE 802.1Q tag with priority 0.
type VLANTag struct {
	// id of the VLAN.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	ID int32 `json:"id"`

	// protocol of the tag: `802.1Q` (TPID 0x8100), or `802.1ad` (TPID 0x88a8).
	// +optional
	// +default="802.1Q"
	Protocol VLANProtocol `json:"protocol,omitempty"`
}

// GTPUTunnels lead from gNBs, which the clients' port stands for, to a UPF, one for each client (3GPP TS 29.281). Clients are
// numbered from the first address of their pool on.
//
// +kubebuilder:validation:XValidation:rule="!isIP(self.local) || ip(self.local).isGlobalUnicast() || ip(self.local).isLinkLocalUnicast()",fieldPath=".local",message="must be an address that a host can have: not 0.0.0.0, loopback, multicast or broadcast"
// +kubebuilder:validation:XValidation:rule="!isIP(self.remote) || ip(self.remote).isGlobalUnicast() || ip(self.remote).isLinkLocalUnicast()",fieldPath=".remote",message="must be an address that a host can have: not 0.0.0.0, loopback, multicast or broadcast"
// +kubebuilder:validation:XValidation:rule="!isIP(self.local) || !isIP(self.remote) || ip(self.local).family() == ip(self.remote).family()",message="local and remote must be of the same family"
type GTPUTunnels struct {
	// local is the address of the first gNB.
	// +required
	Local IPAddress `json:"local"`

	// localCount is the number of gNBs, at addresses from local on; client n is behind gNB n modulo localCount. 1 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	LocalCount *int32 `json:"localCount,omitempty"`

	// remote is the address of the UPF.
	// +required
	Remote IPAddress `json:"remote"`

	// teid is the tunnel endpoint identifier of what the first client sends.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	TEID int64 `json:"teid"`

	// teidStep is added for each further client, both ways; 1 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	TEIDStep *int64 `json:"teidStep,omitempty"`

	// downlinkTEID is the identifier of what comes for the first client; teid when absent. What comes in another tunnel is dropped
	// and counted (`gtpu_unknown_tunnel`).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	DownlinkTEID *int64 `json:"downlinkTEID,omitempty"`

	// qfi is the QoS flow identifier in a PDU session container (3GPP TS 38.415); there is none when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	QFI *int32 `json:"qfi,omitempty"`

	// mirror makes the emulated servers' port stand for the UPF: a test of tunnels without one.
	// +optional
	Mirror bool `json:"mirror,omitempty"`
}

// VXLANTunnels lead from local VTEPs, which the clients' port stands for, to a remote one (RFC 7348). Clients are numbered from the first
// address of their pool on.
//
// +kubebuilder:validation:XValidation:rule="has(self.innerGatewayMAC) != (has(self.mirror) && self.mirror)",message="set one of innerGatewayMAC and mirror"
type VXLANTunnels struct {
	// local is the address of the first local VTEP.
	// +required
	Local IPAddress `json:"local"`

	// localCount is the number of local VTEPs, from local on; client n is behind VTEP n modulo localCount. 1 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	LocalCount *int32 `json:"localCount,omitempty"`

	// remote is the address of the remote VTEP.
	// +required
	Remote IPAddress `json:"remote"`

	// vni of the first client, both ways.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`

	// vniStep is added for each further client.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	VNIStep int32 `json:"vniStep,omitempty"`

	// innerGatewayMAC is the destination of the clients' frames in VXLAN: the gateway, or the server, behind the remote VTEP.
	// +optional
	InnerGatewayMAC MACAddress `json:"innerGatewayMAC,omitempty"`

	// mirror makes the loopback port of clients and servers stand for the remote VTEP: a test of tunnels without one.
	// +optional
	Mirror bool `json:"mirror,omitempty"`
}

// GRETunnels lead from local ends, which the clients' port stands for, to a remote one (RFC 2784, RFC 2890). Clients are numbered from the
// first address of their pool on. There are no checksums and no sequence numbers.
type GRETunnels struct {
	// local is the address of the first local end.
	// +required
	Local IPAddress `json:"local"`

	// localCount is the number of local ends, from local on; client n is behind end n modulo localCount. 1 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	LocalCount *int32 `json:"localCount,omitempty"`

	// remote is the address of the remote end.
	// +required
	Remote IPAddress `json:"remote"`

	// key of the first client's packets, both ways; packets have none when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	Key *int64 `json:"key,omitempty"`

	// keyStep is added for each further client.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	KeyStep int64 `json:"keyStep,omitempty"`

	// mirror makes the emulated servers' port stand for the remote end: a test of tunnels without one.
	// +optional
	Mirror bool `json:"mirror,omitempty"`
}

// MPLSTunnels lead from label edge routers, which the clients' port stands for, to a label switching router on their link (RFC 3032).
// Clients are numbered from the first address of their pool on.
type MPLSTunnels struct {
	// local is the address of the first label edge router.
	// +required
	Local IPAddress `json:"local"`

	// localCount is the number of label edge routers, from local on; client n is behind router n modulo localCount. 1 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	LocalCount *int32 `json:"localCount,omitempty"`

	// remote is the address of the label switching router, to the MAC of which packets go.
	// +required
	Remote IPAddress `json:"remote"`

	// labels of what the first client sends, the outermost first.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Labels []MPLSLabel `json:"labels"`

	// labelStep is added to the innermost label, both ways, for each further client.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048575
	LabelStep int32 `json:"labelStep,omitempty"`

	// downlinkLabel is the innermost label of what comes for the first client, with any labels around it; the innermost of labels when
	// absent. 3 (implicit null): it comes without labels.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048575
	DownlinkLabel *int32 `json:"downlinkLabel,omitempty"`

	// mirror makes the emulated servers' port stand for the label switching router: a test of labels without one.
	// +optional
	Mirror bool `json:"mirror,omitempty"`
}

// MPLSLabel is an entry of a label stack.
type MPLSLabel struct {
	// label is its value. 3 is in no label stack.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048575
	Label int32 `json:"label"`

	// trafficClass is the field of RFC 5462.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	TrafficClass int32 `json:"trafficClass,omitempty"`

	// ttl is the time to live; 64 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	TTL *int32 `json:"ttl,omitempty"`
}

// SourcePorts of a pool's clients: the first connection of client n has the port start + n * step modulo 65536, and each further one has
// the next port up to max, then from min on. Ports outside of min and max are moved within them.
//
// +kubebuilder:validation:XValidation:rule="(has(self.min) ? self.min : 1024) <= (has(self.max) ? self.max : 65535)",message="min must not be greater than max"
type SourcePorts struct {
	// start is the first port of the first client. If start and step are 0, first ports are spread by the client's number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Start int32 `json:"start,omitempty"`
	// step from client to client.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Step int32 `json:"step,omitempty"`
	// min is the lowest port, 1024 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Min *int32 `json:"min,omitempty"`
	// max is the highest port, 65535 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Max *int32 `json:"max,omitempty"`
}

// IPAddress is an IPv4 or IPv6 address.
//
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address such as 16.0.0.1 or 2001:db8::1"
type IPAddress string

// Tunables of the transport on each side.
type Tunables struct {
	// client side.
	// +optional
	Client SideTunables `json:"client,omitzero"`
	// server side.
	// +optional
	Server SideTunables `json:"server,omitzero"`
}

// CongestionControl algorithm.
//
// +kubebuilder:validation:Enum=Cubic;NewReno
type CongestionControl string

const (
	// CongestionCubic is CUBIC (RFC 9438).
	CongestionCubic CongestionControl = "Cubic"
	// CongestionNewReno is NewReno (RFC 5681, RFC 6582).
	CongestionNewReno CongestionControl = "NewReno"
)

// SideTunables are the transport's settings; the engine's defaults where absent.
type SideTunables struct {
	// tos is the IPv4 type of service or IPv6 traffic class.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	TOS *int32 `json:"tos,omitempty"`
	// ttl is the IPv4 time to live or IPv6 hop limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	TTL *int32 `json:"ttl,omitempty"`
	// tcp settings.
	// +optional
	TCP *TCPTunables `json:"tcp,omitempty"`
}

// TCPTunables are settings of TCP.
type TCPTunables struct {
	// mss is the maximum segment size in bytes. When absent it is 1460, over IPv6 1440, and as much less as the port's MTU and
	// tunnels ask for.
	// +optional
	// +kubebuilder:validation:Minimum=88
	// +kubebuilder:validation:Maximum=9176
	MSS *int32 `json:"mss,omitempty"`
	// initialWindow in segments.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	InitialWindow *int32 `json:"initialWindow,omitempty"`
	// receiveBuffer in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=1073741824
	ReceiveBuffer *int32 `json:"receiveBuffer,omitempty"`
	// sendBuffer in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=1073741824
	SendBuffer *int32 `json:"sendBuffer,omitempty"`
	// duplicateAckThreshold starts fast retransmission.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	DuplicateAckThreshold *int32 `json:"duplicateAckThreshold,omitempty"`
	// delayedAck is the longest an acknowledgement waits; `0s` acknowledges at once.
	// +optional
	DelayedAck Duration `json:"delayedAck,omitempty"`
	// minRTO is the lowest retransmission time-out, at most 60s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || (duration(self) > duration('0s') && duration(self) <= duration('60s'))",message="must be greater than zero and at most 60s (RFC 6298); leave it out for the engine's default"
	MinRTO Duration `json:"minRTO,omitempty"`
	// connectTimeout of a handshake.
	// +optional
	ConnectTimeout Duration `json:"connectTimeout,omitempty"`
	// keepaliveIdle is the silence before keepalives are sent; `0s` sends none, also where the profile's would.
	// +optional
	KeepaliveIdle Duration `json:"keepaliveIdle,omitempty"`
	// keepaliveInterval between keepalives.
	// +optional
	KeepaliveInterval Duration `json:"keepaliveInterval,omitempty"`
	// noDelay switches Nagle's algorithm off.
	// +optional
	NoDelay *bool `json:"noDelay,omitempty"`
	// congestionControl algorithm.
	// +optional
	CongestionControl CongestionControl `json:"congestionControl,omitempty"`
	// timestamps option (RFC 7323).
	// +optional
	Timestamps *bool `json:"timestamps,omitempty"`
	// sack option (RFC 2018).
	// +optional
	SACK *bool `json:"sack,omitempty"`
	// windowScale option (RFC 7323).
	// +optional
	WindowScale *bool `json:"windowScale,omitempty"`
	// ecn (RFC 3168).
	// +optional
	ECN *bool `json:"ecn,omitempty"`
	// timeWait is how long a port stays in TIME-WAIT.
	// +optional
	TimeWait Duration `json:"timeWait,omitempty"`
	// blackhole drops what comes to closed ports, instead of answering with RST.
	// +optional
	Blackhole *bool `json:"blackhole,omitempty"`
}

// ASTFTemplateStatus says whether the template can be compiled.
type ASTFTemplateStatus struct {
	// conditions are Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status was computed from; -1 until the operator has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ASTFTemplate is an emulated application: a client and a server program, with their addresses and tunables.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=astf,categories=spate
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.destinationPort`
// +kubebuilder:printcolumn:name="Rate",type=string,JSONPath=`.spec.connectionRate`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ASTFTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	// +required
	Spec ASTFTemplateSpec `json:"spec"`

	// status is what was found.
	// +optional
	// +default={"observedGeneration": -1}
	Status ASTFTemplateStatus `json:"status,omitzero"`
}

// ASTFTemplateList is a list of ASTFTemplates.
//
// +kubebuilder:object:root=true
type ASTFTemplateList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []ASTFTemplate `json:"items"`
}
