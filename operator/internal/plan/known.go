// SPDX-License-Identifier: Apache-2.0

// Are the words of a profile and its generator known ones, and its names told apart? An API server asks the same; files have none.

package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// oneOf tells whether a word is one of those known, or absent.
func oneOf[T ~string](p *Problems, value T, at *field.Path, known ...T) {
	if value != "" && !slices.Contains(known, value) {
		p.add(spatev1.ReasonInvalidSpec, at, "%q: must be %s", value, either(known))
	}
}

// either lists words, the last after "or".
func either[T ~string](words []T) string {
	last := len(words) - 1
	return joined(words[:last]) + " or " + string(words[last])
}

// apart tells whether the items of a list have names of their own.
func apart[T any, N ~string](p *Problems, items []T, at *field.Path, key string, name func(*T) N) {
	first := map[N]int{}
	for i := range items {
		of := name(&items[i])
		if other, taken := first[of]; taken {
			p.add(spatev1.ReasonInvalidSpec, at.Index(i).Child(key), "%q is that of %s too; rename one of them", of, at.Index(other))
			continue
		}
		first[of] = i
	}
}

// known checks a profile's words and names.
func (p *Problems) known(profile *spatev1.TrafficProfileSpec) {
	oneOf(p, profile.SuspendPolicy, spec.Child("suspendPolicy"), spatev1.SuspendKeep, spatev1.SuspendFree)
	oneOf(p, profile.WhenBusy, spec.Child("whenBusy"), spatev1.BusyQueue, spatev1.BusyRefuse)
	traffic := spec.Child("traffic")
	apart(p, profile.Traffic, traffic, "name", func(e *spatev1.TrafficEntry) spatev1.EntryName { return e.Name })
	apart(p, profile.Receive, spec.Child("receive"), "name", func(r *spatev1.ReceivePort) spatev1.EntryName { return r.Name })
	apart(p, profile.Reflect, spec.Child("reflect"), "port", func(r *spatev1.ReflectPort) spatev1.PortName { return r.Port })
	apart(p, profile.Thresholds, spec.Child("thresholds"), "name", func(t *spatev1.Threshold) spatev1.EntryName { return t.Name })
	for i := range profile.Traffic {
		e, at := &profile.Traffic[i], traffic.Index(i)
		if e.Stream != nil {
			oneOf(p, e.Stream.Start, at.Child("stream", "start"), spatev1.StartAuto, spatev1.StartWaiting)
		}
		p.exactlyOne(at, "stream and application", e.Stream != nil, e.Application != nil)
	}
}

// knownGenerator checks a generator's words and names.
func (p *Problems) knownGenerator(g *spatev1.TrafficGeneratorSpec, at *field.Path) {
	oneOf(p, g.CPUPolicy, at.Child("cpuPolicy"), spatev1.CPUExclusive, spatev1.CPUShared)
	oneOf(p, g.ControlCPU, at.Child("controlCPU"), spatev1.ControlDedicated, spatev1.ControlShared)
	oneOf(p, g.PollMode, at.Child("pollMode"), spatev1.PollAuto, spatev1.PollBusy, spatev1.PollAdaptive)
	oneOf(p, g.PacketMemory.Backing, at.Child("packetMemory", "backing"), spatev1.BackingHugepages2Mi, spatev1.BackingHugepages1Gi, spatev1.BackingStandard)
	oneOf(p, g.AllowedNamespaces.From, at.Child("allowedNamespaces", "from"), spatev1.NamespacesSame, spatev1.NamespacesAll, spatev1.NamespacesSelector)
	apart(p, g.Ports, at.Child("ports"), "name", func(port *spatev1.GeneratorPort) spatev1.PortName { return port.Name })
	for i := range g.Ports {
		oneOf(p, g.Ports[i].Offloads, at.Child("ports").Index(i).Child("offloads"), spatev1.OffloadsAuto, spatev1.OffloadsAll, spatev1.OffloadsNone)
	}
}
