// SPDX-License-Identifier: Apache-2.0

// Which stream or template does an entry of a profile run, and on which ports?

package plan

import (
	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/stream"
)

// withDefaults returns the input with a profile's defaults and presets applied: entries without ports have those of a
// generator with two, templates have the programs of their presets, and senders are paused in a paused profile. The
// original is not changed.
func withDefaults(in Input, generator *spatev1.TrafficGenerator) Input {
	in.Profile = entryDefaults(in.Profile, in.Streams, generator)
	templates := make(map[string]*spatev1.ASTFTemplate, len(in.Templates))
	for name, template := range in.Templates {
		expanded := *template
		expanded.Spec = *application.Expand(&template.Spec)
		templates[name] = &expanded
	}
	in.Templates = templates
	return in
}

// entryDefaults returns a copy of the profile with the defaults of its entries.
func entryDefaults(profile *spatev1.TrafficProfile, streams map[string]*spatev1.StatelessStream, generator *spatev1.TrafficGenerator) *spatev1.TrafficProfile {
	profile = profile.DeepCopy()
	for i := range profile.Spec.Traffic {
		e := &profile.Spec.Traffic[i]
		e.Paused = pausedIn(e, profile)
		if e.TransmitPort == "" && e.ReceivePort == "" && generator != nil && len(generator.Spec.Ports) == 2 {
			e.TransmitPort, e.ReceivePort = generator.Spec.Ports[0].Name, generator.Spec.Ports[1].Name
			if source, _ := stream.Source(e, streams); source != nil && !stream.MeasuresArrival(source) && !stream.Directed(source) {
				e.ReceivePort = ""
			}
		}
	}
	return profile
}

// pausedIn reports whether an entry is paused by itself or with its profile, which pauses what engines send: real
// clients are not paused.
func pausedIn(e *spatev1.TrafficEntry, profile *spatev1.TrafficProfile) bool {
	realClients := e.Application != nil && e.TransmitPort == "" && e.ReceivePort != ""
	return e.Paused || profile.Spec.Paused && !realClients
}
