// SPDX-License-Identifier: Apache-2.0

// Package trex converts TRex's stateless streams and stateful profiles, as its client sends them, to Spate's resources.
//
// Packets and times are preserved exactly; what cannot be preserved is refused, with the stream's number and the JSON
// path. Differences in meaning are reported in notes.
package trex

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// DefaultPort sends the streams where no other is named.
	DefaultPort = "port0"
	// DefaultGenerator runs the profile where no other is named.
	DefaultGenerator = "trex"
	// mostName leaves room for the streams' own names after the profile's.
	mostName = 48
)

// Options are settings that TRex's JSON does not have. The zero value is usable.
type Options struct {
	// Port sends the streams, or is the port of a stateful profile's clients; DefaultPort when empty.
	Port string
	// ReceivePort is where measured streams are received, the port itself when empty; or the port of a stateful
	// profile's servers, DefaultServerPort when empty.
	ReceivePort string
	// Generator the profile refers to; DefaultGenerator when empty.
	Generator string
	// SourceMAC and DestinationMAC are written into the packets whose addresses TRex takes from its port's
	// configuration. Where they are nil, the engine writes the port's own address and that of its next hop.
	SourceMAC, DestinationMAC net.HardwareAddr
	// Tags by which streams of tagged packet groups are counted; VLANs 1 to 4094 when nil.
	Tags *spatev1.MeasuredTags
}

// Imported is a converted profile.
type Imported struct {
	// Streams, one for each of TRex's, in its order.
	Streams []*spatev1.StatelessStream
	// Templates, one for each of TRex's, in its order.
	Templates []*spatev1.ASTFTemplate
	// ConfigMaps have the contents that are too long for the templates.
	ConfigMaps []*corev1.ConfigMap
	// Profile refers to all streams or templates.
	Profile *spatev1.TrafficProfile
	// Notes report differences in meaning, for people.
	Notes []string
}

// Import converts a list of streams, or a stateful profile. Its error lists everything that cannot be imported, one per
// line.
func Import(name string, data []byte, o Options) (*Imported, error) {
	if len(name) > mostName || !validLabel.MatchString(name) {
		return nil, fmt.Errorf("the name %q must be 1 to %d lower-case letters, digits or '-', and start and end with a letter or digit", name, mostName)
	}
	o.Port, o.Generator = or(o.Port, DefaultPort), or(o.Generator, DefaultGenerator)
	if isASTF(data) && o.Tags != nil {
		return nil, errors.New("tags of tagged packet groups go with stateless profiles; leave --tags out")
	}
	if isASTF(data) {
		o.ReceivePort = or(o.ReceivePort, DefaultServerPort)
		return (&importer{name: name, options: o, problems: &problems{}, notes: &notes{}}).importASTF(data)
	}
	o.ReceivePort = or(o.ReceivePort, o.Port)
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("this is no list of TRex streams in JSON, nor a stateful profile: %w", err)
	}
	if len(raw) == 0 || len(raw) > mostStreams {
		return nil, fmt.Errorf("there are %d streams; 1 to %d can be imported at once", len(raw), mostStreams)
	}
	in := &importer{name: name, options: o, problems: &problems{}, notes: &notes{}}
	for i, one := range raw {
		in.stream(i, one)
	}
	in.link()
	in.noteTags()
	profile := in.profile()
	if len(in.problems.errs) > 0 {
		return nil, errors.Join(in.problems.errs...)
	}
	return in.imported(profile), nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// importer is the state of an import.
type importer struct {
	name     string
	options  Options
	problems *problems
	notes    *notes
	streams  []*importedStream
	entries  labels
	objects  labels
	// groups are the packet groups whose packets are counted, in TRex's order.
	groups []uint64
	// tpgids are the tagged packet groups, and tagged is the number of streams that can be counted by tag.
	tpgids []uint64
	tagged int
}

// imported returns the streams and their profile.
func (in *importer) imported(profile *spatev1.TrafficProfile) *Imported {
	made := &Imported{Profile: profile}
	for _, s := range in.streams {
		one := &spatev1.StatelessStream{
			TypeMeta:   metav1.TypeMeta{APIVersion: spatev1.GroupVersion.String(), Kind: "StatelessStream"},
			ObjectMeta: metav1.ObjectMeta{Name: s.object},
			Spec:       s.spec,
		}
		if s.selectedBy != "" {
			one.Labels = map[string]string{labelImport: in.name, labelEntry: string(s.selectedBy)}
		}
		made.Streams = append(made.Streams, one)
	}
	in.fromPort()
	made.Notes = in.notes.all
	return made
}

// fromPort adds a note on how destinations are resolved.
func (in *importer) fromPort() {
	count := 0
	for _, s := range in.streams {
		if slices.Contains(s.spec.Packet.FromPort, spatev1.PortDestination) {
			count++
		}
	}
	if count > 0 {
		in.notes.add("%d of %d streams go to the MAC address that TRex's configuration names for the port; here it is that of the port's next hop, "+
			"for which port %s needs addresses and a gateway, or name the destination MAC address for the import", count, len(in.streams), in.options.Port)
	}
}

// notes are differences in meaning.
type notes struct {
	stream string
	all    []string
}

// addAt adds a note about a path in the stream being read.
func (n *notes) addAt(path, format string, args ...any) {
	n.add("%s: %s: %s", n.stream, path, fmt.Sprintf(format, args...))
}

func (n *notes) add(format string, args ...any) { n.all = append(n.all, fmt.Sprintf(format, args...)) }
