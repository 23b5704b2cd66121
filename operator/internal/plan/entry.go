// SPDX-License-Identifier: Apache-2.0

// Which stream or template does an entry of a profile run, and on which ports?

package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// withDefaults returns the input with a profile's defaults and presets applied: entries without ports have those of a
// generator with two, templates have the programs of their presets, and senders are paused in a paused profile. The
// original is not changed.
func withDefaults(in Input, generator *spatev1.TrafficGenerator) Input {
	in.Profile = in.Profile.DeepCopy()
	for i := range in.Profile.Spec.Traffic {
		e := &in.Profile.Spec.Traffic[i]
		e.Paused = pausedIn(e, in.Profile)
		if e.TransmitPort == "" && e.ReceivePort == "" && generator != nil && len(generator.Spec.Ports) == 2 {
			e.TransmitPort, e.ReceivePort = generator.Spec.Ports[0].Name, generator.Spec.Ports[1].Name
			if source, _ := streamSource(e, in.Streams); source != nil && !measuresArrival(source) {
				e.ReceivePort = ""
			}
		}
	}
	templates := make(map[string]*spatev1.ASTFTemplate, len(in.Templates))
	for name, template := range in.Templates {
		expanded := *template
		expanded.Spec = *Expand(&template.Spec)
		templates[name] = &expanded
	}
	in.Templates = templates
	return in
}

// pausedIn reports whether an entry is paused by itself or with its profile, which pauses what engines send: real
// clients are not paused.
func pausedIn(e *spatev1.TrafficEntry, profile *spatev1.TrafficProfile) bool {
	realClients := e.Application != nil && e.TransmitPort == "" && e.ReceivePort != ""
	return e.Paused || profile.Spec.Paused && !realClients
}

// measuresArrival reports whether a stream's packets are measured on arrival.
func measuresArrival(source *spatev1.StatelessStreamSpec) bool {
	return source.Measure.Flow || source.Measure.Mark != nil
}

// StreamRef returns the reference to the StatelessStream that an entry sends; nil if it sends none, or has it inline.
func StreamRef(e *spatev1.TrafficEntry) *spatev1.LocalReference {
	if e.Stream == nil {
		return nil
	}
	return e.Stream.Ref
}

// TemplateRef returns the reference to the ASTFTemplate that an entry runs; nil if it runs none, or has it inline.
func TemplateRef(e *spatev1.TrafficEntry) *spatev1.LocalReference {
	if e.Application == nil {
		return nil
	}
	return e.Application.TemplateRef
}

// streamSource returns the stream that an entry sends, and the name of the StatelessStream; nil if there is none.
func streamSource(e *spatev1.TrafficEntry, streams map[string]*spatev1.StatelessStream) (source *spatev1.StatelessStreamSpec, name string) {
	if e.Stream == nil {
		return nil, ""
	}
	if ref := e.Stream.Ref; ref != nil {
		if found := streams[string(ref.Name)]; found != nil {
			return &found.Spec, string(ref.Name)
		}
		return nil, string(ref.Name)
	}
	return e.Stream.Inline, ""
}

// templateSource returns the template that an entry runs, and the name of the ASTFTemplate; nil if there is none.
func templateSource(e *spatev1.TrafficEntry, templates map[string]*spatev1.ASTFTemplate) (source *spatev1.ASTFTemplateSpec, name string) {
	if e.Application == nil {
		return nil, ""
	}
	if ref := e.Application.TemplateRef; ref != nil {
		if found := templates[string(ref.Name)]; found != nil {
			return &found.Spec, string(ref.Name)
		}
		return nil, string(ref.Name)
	}
	if inline := e.Application.Inline; inline != nil {
		return Expand(inline), ""
	}
	return nil, ""
}

// portsMissing reports an entry without a port, on a generator that does not have two.
func (p *Problems) portsMissing(generator *spatev1.TrafficGenerator, at *field.Path) {
	if generator == nil {
		return // the missing generator is reported
	}
	p.add(spatev1.ReasonInvalidSpec, at.Child("transmitPort"), "is required: generator %s has %s, and only those of a generator with two ports are known by default",
		generator.Name, plural(len(generator.Spec.Ports), "port"))
}

func plural(count int, noun string) string {
	if count == 1 {
		return fmt.Sprintf("%d %s", count, noun)
	}
	return fmt.Sprintf("%d %ss", count, noun)
}
