// SPDX-License-Identifier: Apache-2.0

// Package pcap converts a capture of one session to a template. The engine derives the programs; this package writes
// them as resources.
package pcap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/importer/content"
	"spate.dev/operator/internal/plan/application"
)

// Defaults of Options.
const (
	DefaultRate    = "1cps"
	DefaultClients = "16.0.0.1-16.0.0.254"
	DefaultServers = "48.0.0.1-48.0.0.254"
)

// Options are settings that a capture does not have. The zero value is usable.
type Options struct {
	// Rate of new connections; DefaultRate when empty.
	Rate string
	// Clients and Servers are ranges of addresses, such as 16.0.0.1-16.0.0.254; the defaults when empty.
	Clients, Servers string
	// Port that servers listen on; the captured one when 0.
	Port uint16
}

// Imported is a converted capture.
type Imported struct {
	// Template with both sides' programs.
	Template *spatev1.ASTFTemplate
	// ConfigMaps have the contents that are too long for the template.
	ConfigMaps []*corev1.ConfigMap
	// Note says what of the capture the template omits; empty if nothing.
	Note string
}

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?$`)

// errNoProgram says that the engine's program is not known.
var errNoProgram = errors.New("the engine's program, which reads captures, is not named")

// Import converts a pcap or pcapng file. An error has the number of the packet that cannot be converted.
func Import(ctx context.Context, compiler engine.Compiler, name string, pcap []byte, o Options) (*Imported, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("the name %q must be 1 to 48 lower-case letters, digits or '-', and start and end with a letter or digit", name)
	}
	if compiler.Binary == "" {
		return nil, errNoProgram
	}
	spec := spatev1.ASTFTemplateSpec{ConnectionRate: spatev1.ConnectionRate(or(o.Rate, DefaultRate))}
	var err error
	if spec.Pools.Clients, err = pool("clients", or(o.Clients, DefaultClients)); err != nil {
		return nil, err
	}
	if spec.Pools.Servers, err = pool("servers", or(o.Servers, DefaultServers)); err != nil {
		return nil, err
	}
	if six := isSix(spec.Pools.Clients); six != isSix(spec.Pools.Servers) {
		given, needed := "clients", "servers"
		if !six {
			given, needed = needed, given
		}
		return nil, fmt.Errorf("%s are IPv6, so %s are needed as IPv6 too: give both --clients and --servers, such as %s", given, needed, ranges)
	}
	resolved, refused, err := compiler.Resolve(ctx, asked(name, pcap, o.Port))
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		var messages []string
		for _, violation := range refused { // all are about the one capture
			messages = append(messages, violation.Description)
		}
		return nil, errors.New(strings.Join(messages, "\n"))
	}
	imported, err := written(name, spec, resolved)
	if err == nil && !isSix(spec.Pools.Clients) && sessionIsSix(pcap) {
		imported.Note = "the session is IPv6, and the pools written are IPv4, which its programs do not depend on: give --clients and --servers as IPv6, such as " + ranges
	}
	return imported, err
}

// ranges are examples of ranges of clients and servers, for messages.
const ranges = "2001:db8:1::1-2001:db8:1::fe and 2001:db8:2::1-2001:db8:2::fe"

func isSix(pools []spatev1.AddressPool) bool {
	address, err := netip.ParseAddr(string(pools[0].Start))
	return err == nil && address.Unmap().Is6()
}

// captured reads packets of a pcap or pcapng file.
type captured interface {
	gopacket.PacketDataSource
	LinkType() layers.LinkType
}

// sessionIsSix reports whether the first IP packet of a capture is IPv6.
func sessionIsSix(pcap []byte) bool {
	var source captured
	source, err := pcapgo.NewReader(bytes.NewReader(pcap))
	if err != nil {
		if source, err = pcapgo.NewNgReader(bytes.NewReader(pcap), pcapgo.DefaultNgReaderOptions); err != nil {
			return false
		}
	}
	for {
		frame, _, err := source.ReadPacketData()
		if err != nil {
			return false
		}
		if network := gopacket.NewPacket(frame, source.LinkType(), gopacket.Lazy).NetworkLayer(); network != nil {
			return network.LayerType() == layers.LayerTypeIPv6
		}
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// pool returns an address pool of a range of addresses.
func pool(name spatev1.EntryName, text string) ([]spatev1.AddressPool, error) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	for _, one := range []string{first, last} {
		if address, err := netip.ParseAddr(one); err != nil || address.Zone() != "" {
			return nil, fmt.Errorf("%s %q: must be an address, or a range of them such as 16.0.0.1-16.0.0.254", name, text)
		}
	}
	return []spatev1.AddressPool{{Name: name, Start: spatev1.IPAddress(first), End: spatev1.IPAddress(last)}}, nil
}

// asked returns a plan whose only template is the capture. Its addresses are not those of the template: programs do not
// depend on them.
func asked(name string, pcap []byte, port uint16) *enginev1.Plan {
	address := func(of byte) *enginev1.Pool {
		bytes := []byte{198, of, 0, 1}
		return &enginev1.Pool{Name: strconv.Itoa(int(of)), First: bytes, Last: bytes}
	}
	return &enginev1.Plan{
		RunId: name, RunTag: 1, Timing: &enginev1.Timing{DurationNs: 1e9},
		Stateful: &enginev1.Stateful{
			Pools: []*enginev1.Pool{address(18), address(19)},
			Templates: []*enginev1.Template{{
				Name: name, ClientPort: "clients", ServerPort: "servers", DestinationPort: uint32(port),
				FlowsPerSecond: &enginev1.Ratio{Numerator: 1, Denominator: 1},
				Clients:        []*enginev1.WeightedPool{{Pool: 0, Weight: 1}}, Servers: []*enginev1.WeightedPool{{Pool: 1, Weight: 1}},
				Capture: &enginev1.Capture{Source: &enginev1.Capture_Pcap{Pcap: pcap}},
			}},
		},
	}
}

// written returns a template with the programs that the engine derived.
func written(name string, spec spatev1.ASTFTemplateSpec, resolved *enginev1.Plan) (*Imported, error) {
	templates := resolved.GetStateful().GetTemplates()
	if len(templates) != 1 || templates[0].Capture != nil || templates[0].Client == nil || templates[0].Server == nil {
		return nil, errors.New("the engine did not derive programs from the capture; is it as old as this program?")
	}
	from := templates[0]
	programs := &spatev1.Programs{Transport: spatev1.TransportTCP}
	if from.Protocol == enginev1.TransportProtocol_TRANSPORT_PROTOCOL_UDP {
		programs.Transport = spatev1.TransportUDP
	}
	w := writer{contents: content.Writer{Name: name}, payloads: resolved.Stateful.Payloads}
	programs.Client, programs.Server = w.commands(from.Client), w.commands(from.Server)
	if len(w.wrong) > 0 {
		return nil, errors.Join(w.wrong...)
	}
	spec.Source.Programs, spec.DestinationPort = programs, ptr.To(int32(from.DestinationPort))
	if problems := application.Check(&spec); len(problems) > 0 {
		return nil, fmt.Errorf("the template cannot be run: %w", problems)
	}
	return &Imported{ConfigMaps: w.contents.ConfigMaps, Template: &spatev1.ASTFTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: spatev1.GroupVersion.String(), Kind: "ASTFTemplate"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}}, nil
}

// writer converts instructions to commands.
type writer struct {
	contents content.Writer
	payloads []*enginev1.Payload
	wrong    []error
}

func (w *writer) commands(program *enginev1.Program) []spatev1.Command {
	var all []spatev1.Command
	for i, instruction := range program.GetInstructions() {
		command, known := w.command(instruction)
		if !known {
			w.wrong = append(w.wrong, fmt.Errorf("instruction %d, %T, is not known of captures", i, instruction.Kind))
		}
		all = append(all, command)
	}
	if len(all) == 0 {
		all = []spatev1.Command{{Close: &spatev1.EmptyCommand{}}}
	}
	return all
}

func (w *writer) command(instruction *enginev1.Instruction) (c spatev1.Command, known bool) {
	nothing := &spatev1.EmptyCommand{}
	switch kind := instruction.GetKind().(type) {
	case *enginev1.Instruction_Connect:
		c.Connect = nothing
	case *enginev1.Instruction_Accept:
		c.Accept = nothing
	case *enginev1.Instruction_Send:
		c.Send = &spatev1.SendCommand{Content: w.content(kind.Send.Payload)}
		if !kind.Send.Wait {
			c.Send.WaitForAck = ptr.To(false)
		}
	case *enginev1.Instruction_Receive:
		c.Receive = &spatev1.ReceiveCommand{Bytes: int64(kind.Receive.Bytes), Clear: kind.Receive.Clear}
	case *enginev1.Instruction_SendMessage:
		c.SendMessage = ptr.To(w.content(kind.SendMessage.Payload))
	case *enginev1.Instruction_ReceiveMessages:
		c.ReceiveMessages = &spatev1.ReceiveMessagesCommand{Messages: int64(kind.ReceiveMessages.Messages), Clear: kind.ReceiveMessages.Clear}
	case *enginev1.Instruction_Delay:
		c.Delay = &spatev1.DelayCommand{Min: span(kind.Delay.MinNs)}
		if kind.Delay.MaxNs != kind.Delay.MinNs {
			c.Delay.Max = span(kind.Delay.MaxNs)
		}
	case *enginev1.Instruction_KeepaliveNs:
		c.Keepalive = &spatev1.KeepaliveCommand{Timeout: span(kind.KeepaliveNs)}
	case *enginev1.Instruction_Close:
		c.Close = nothing
	case *enginev1.Instruction_Reset_:
		c.Reset = nothing
	case *enginev1.Instruction_WaitForPeerClose:
		c.WaitForPeerClose = nothing
	case *enginev1.Instruction_LeaveOpen:
		c.LeaveOpen = nothing
	default:
		return c, false
	}
	return c, true
}

// span formats a time in the largest unit that needs no fraction.
func span(ns uint64) spatev1.Duration {
	for _, unit := range []struct {
		ns   uint64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns%unit.ns == 0 {
			return spatev1.Duration(strconv.FormatUint(ns/unit.ns, 10) + unit.name)
		}
	}
	return spatev1.Duration(strconv.FormatUint(ns, 10) + "ns")
}

// content returns a payload's content.
func (w *writer) content(payload uint32) spatev1.Content {
	if int(payload) >= len(w.payloads) {
		w.wrong = append(w.wrong, fmt.Errorf("payload %d is none of the %d", payload, len(w.payloads)))
		return spatev1.Content{}
	}
	made, err := w.contents.Write(w.payloads[payload].GetBytes())
	if err != nil {
		w.wrong = append(w.wrong, fmt.Errorf("what is sent in one go %w", err))
	}
	return made
}
