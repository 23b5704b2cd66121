// SPDX-License-Identifier: Apache-2.0

// Invalid input is refused as early as possible, with the field's name.

package suites

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// answerLimit bounds waits for what takes less than a second where the machine is not busy.
const answerLimit = 15 * time.Second

func TestBrokenManifestsAreRefusedByTheAPIServer(t *testing.T) {
	ns := namespace(t)
	for name, c := range map[string]struct {
		manifest string
		words    []string
	}{
		"a rate in apples": {
			strings.Replace(loopbackStream, "1kpps", "10 apples", 1),
			[]string{"spec.transmit.continuous.rate", "1.5Mpps"},
		},
		"two transmit modes": {
			strings.Replace(loopbackStream, "{continuous: {rate: 1kpps}}", "{continuous: {rate: 1kpps}, burst: {packets: 5, rate: 1kpps}}", 1),
			[]string{"spec.transmit", "continuous", "burst"},
		},
		"no transmit mode": {
			strings.Replace(loopbackStream, "{continuous: {rate: 1kpps}}", "{}", 1),
			[]string{"spec.transmit"},
		},
		"a range that starts above its end": {
			loopbackStream + "  fields:\n  - {name: port, range: {start: 2000, end: 1000}, order: Random, writes: [{field: udp.sourcePort}]}\n",
			[]string{"spec.fields[0].range", "start must not be greater than end"},
		},
		"values and a range": {
			loopbackStream + "  fields:\n  - {name: port, values: [1, 2], range: {start: 1, end: 2}, writes: [{field: udp.sourcePort}]}\n",
			[]string{"spec.fields[0]", "values", "range"},
		},
		"a stream by reference and inline": {
			strings.Replace(loopbackProfile("both", ""), "ref: {name: small}", "ref: {name: small}, inline: {packet: {headers: [{ethernet: {}}]}, transmit: {continuous: {rate: 1kpps}}}", 1),
			[]string{"spec.traffic[0].stream", "ref", "inline"},
		},
		"an entry that is a stream and an application": {
			strings.Replace(loopbackProfile("both", ""), "stream: {", "application: {templateRef: {name: small}}, stream: {", 1),
			[]string{"spec.traffic[0]", "stream", "application"},
		},
		"a schedule without its policy": {
			loopbackProfile("unscheduled", "  schedule: {cron: 0 2 * * *}"),
			[]string{"spec.schedule", "runPolicy: Schedule"},
		},
		"a run of a profile and of its own": {
			"apiVersion: spate.dev/v1alpha1\nkind: TrafficRun\nmetadata: {name: both}\nspec:\n  profileRef: {name: small}\n  profile: {receive: [{name: tap, port: loop}]}\n",
			[]string{"spec", "profileRef", "profile"},
		},
		"a size below Ethernet's": {
			strings.Replace(loopbackStream, "size: 128", "size: 60", 1),
			[]string{"spec.packet.size", "64"},
		},
		"a misspelt field": {
			strings.Replace(loopbackStream, "destinationPort", "destPort", 1),
			[]string{"destPort"},
		},
		"an unknown port of the inline generator": {
			`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: wrong-port}
spec:
  generator: {ports: [{name: loop, attachment: {loopback: {}}}]}
  traffic:
  - {name: small, transmitPort: north, stream: {ref: {name: small}}}
`,
			[]string{"spec.traffic", "transmitPort", "spec.generator.ports"},
		},
		"the pod's primary interface as a port": {
			strings.Replace(loopbackGenerator, "name: loop, lineRate", "name: eth0, lineRate", 1),
			[]string{"spec.ports[0].name", "eth0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := applyStrict(t, ns, c.manifest)
			if err == nil {
				t.Fatalf("accepted:\n%s", c.manifest)
			}
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("not a refusal of the object: %v", err)
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the refusal does not name %q: %v", word, err)
				}
			}
		})
	}
}

func TestBrokenProfilesAreAnsweredByACondition(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream)
	condition(t, 30*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	for name, c := range map[string]struct {
		manifest string
		reason   string
		words    []string
	}{
		"unknown-stream": {
			strings.ReplaceAll(loopbackProfile("unknown-stream", ""), "{name: small}", "{name: nowhere}"),
			spate.ReasonReferenceNotFound, []string{"spec.traffic[0].stream.ref", "nowhere"},
		},
		"unknown-port": {
			strings.ReplaceAll(loopbackProfile("unknown-port", ""), "transmitPort: loop", "transmitPort: north"),
			spate.ReasonInvalidSpec, []string{"spec.traffic[0].transmitPort", "north", "loop"},
		},
		"unknown-generator": {
			strings.ReplaceAll(loopbackProfile("unknown-generator", ""), "generatorRef: {name: loop}", "generatorRef: {name: nobody}"),
			spate.ReasonReferenceNotFound, []string{"spec.generatorRef", "nobody"},
		},
		"broken-threshold": {
			loopbackProfile("broken-threshold", "  thresholds: [{name: typo, expression: result.lots == 0}]"),
			spate.ReasonInvalidSpec, []string{"spec.thresholds[0].expression", "lots"},
		},
		"over-the-line": {
			loopbackProfile("over-the-line", "  rate: 20Gbps"),
			spate.ReasonOversubscribed, []string{"loop", "10Gbps"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mustApply(t, ns, c.manifest)
			expect(t, condition(t, answerLimit, profileNamed(ns, name), spate.ConditionReady, metav1.ConditionFalse), c.reason, c.words...)
		})
	}
}

// A profile recovers by itself when the objects it refers to are created.
func TestObjectsMayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackProfile("early", "  duration: 1s"))
	early := profileNamed(ns, "early")
	expect(t, condition(t, answerLimit, early, spate.ConditionReady, metav1.ConditionFalse), spate.ReasonReferenceNotFound)
	mustApply(t, ns, loopbackStream)
	mustApply(t, ns, loopbackGenerator)
	run := complete(t, 45*time.Second, early)
	if r := run.Status.Result; r.Tx+r.TxDropped != 1000 || r.Rx != r.Tx || r.Lost != 0 {
		t.Errorf("tx %d, rx %d, lost %d; want 1000 sent and received", r.Tx, r.Rx, r.Lost)
	}
}

// The template's addresses are multicast, as in a TRex profile with the default IPv6 prefix.
func TestAProfileAwaitsItsTemplateOfGroups(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator)
	mustApply(t, ns, `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: stateful}
spec:
  generatorRef: {name: loop}
  traffic:
  - {name: http, transmitPort: loop, receivePort: loop, application: {templateRef: {name: http}}}
  duration: 1s
  drain: 3s
  generatorTolerance: {late: 100%}
`)
	p := profileNamed(ns, "stateful")
	expect(t, condition(t, answerLimit, p, spate.ConditionReady, metav1.ConditionFalse), spate.ReasonReferenceNotFound, "spec.traffic[0].application.templateRef")

	template := sampleText(t, "astftemplate.yaml", "connectionRate: 1kcps", "connectionRate: 100cps",
		"start: 198.18.0.1, end: 198.18.3.254}", "start: 'ff02::1000:1', end: 'ff02::1000:ff'}",
		"start: 198.19.0.1, end: 198.19.0.254}", "start: 'ff02::3000:1', end: 'ff02::3000:ff'}")
	err := applyStrict(t, ns, template)
	if err == nil || !strings.Contains(err.Error(), "allowMulticast") {
		t.Errorf("groups are taken without being allowed: %v", err)
	}
	mustApply(t, ns, strings.NewReplacer("'ff02::1000:1'", "'ff02::1000:1', allowMulticast: true", "'ff02::3000:1'", "'ff02::3000:1', allowMulticast: true").Replace(template))
	side := templateOf(t, complete(t, 45*time.Second, p), "http")
	settled(t, "clients in groups", side.Client, 100)
	settled(t, "servers in groups", side.Server, 100)
}

func TestAGeneratorServesOtherNamespacesOnlyByGrant(t *testing.T) {
	t.Parallel()
	owner, guest := namespace(t), namespace(t)
	mustApply(t, owner, loopbackGenerator)
	mustApply(t, guest, loopbackStream)
	mustApply(t, guest, strings.Replace(loopbackProfile("guest", "  duration: 1s"), "generatorRef: {name: loop}", "generatorRef: {name: loop, namespace: "+owner+"}", 1))
	visitor := profileNamed(guest, "guest")
	expect(t, condition(t, answerLimit, visitor, spate.ConditionReady, metav1.ConditionFalse), spate.ReasonReferenceNotAllowed, owner)

	mustApply(t, owner, loopbackGenerator+"  allowedNamespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: "+guest+"}}}\n")
	complete(t, 45*time.Second, visitor)
}

func TestLimitsOfAGeneratorHold(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"  limits: {maxRate: 5kpps, allowedDestinations: [198.19.0.0/24], allowedPorts: [\"2000\"]}\n---"+loopbackStream)
	for name, c := range map[string]struct{ manifest, word string }{
		"too-fast":      {loopbackProfile("too-fast", "  rate: 6kpps"), "maxRate"},
		"too-far":       {strings.NewReplacer("name: small", "name: far", "198.19.0.1", "198.19.1.1").Replace(loopbackStream) + "---" + loopbackProfile("too-far", ""), "allowedDestinations"},
		"another-port":  {strings.NewReplacer("name: small", "name: far", "2000", "2001").Replace(loopbackStream) + "---" + loopbackProfile("another-port", ""), "allowedPorts"},
		"within-limits": {loopbackProfile("within-limits", "  duration: 1s"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(c.manifest, "name: far") {
				c.manifest = strings.NewReplacer("ref: {name: small}", "ref: {name: "+name+"}", "metadata: {name: far}", "metadata: {name: "+name+"}").Replace(c.manifest)
			}
			mustApply(t, ns, c.manifest)
			p := profileNamed(ns, name)
			if c.word == "" {
				complete(t, 45*time.Second, p)
				return
			}
			expect(t, condition(t, answerLimit, p, spate.ConditionReady, metav1.ConditionFalse), spate.ReasonLimitExceeded, c.word)
		})
	}
}
