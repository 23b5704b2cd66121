// SPDX-License-Identifier: Apache-2.0

package test

// What is reported of a profile before anything runs. No engine is needed.

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestBrokenProfilesAreAnsweredByACondition(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator+"  limits: {maxRate: 1Mpps}\n---"+loopbackStream)
	for name, c := range map[string]struct {
		manifest, reason string
		stalled          bool
		words            []string
	}{
		"unknown-stream":    {strings.ReplaceAll(loopbackProfile("unknown-stream", ""), "{name: small}", "{name: nowhere}"), spatev1.ReasonReferenceNotFound, false, []string{"spec.traffic[0].stream.ref", "nowhere"}},
		"unknown-port":      {strings.ReplaceAll(loopbackProfile("unknown-port", ""), "transmitPort: loop", "transmitPort: north"), spatev1.ReasonInvalidSpec, true, []string{"spec.traffic[0].transmitPort", "north"}},
		"unknown-generator": {strings.ReplaceAll(loopbackProfile("unknown-generator", ""), "generatorRef: {name: loop}", "generatorRef: {name: nobody}"), spatev1.ReasonReferenceNotFound, false, []string{"spec.generatorRef", "nobody"}},
		"broken-threshold":  {loopbackProfile("broken-threshold", "  thresholds: [{name: fine, expression: result.lost == 0}, {name: typo, expression: result.lots == 0}]"), spatev1.ReasonInvalidSpec, true, []string{"spec.thresholds[1].expression", "lots"}},
		"foreign-threshold": {loopbackProfile("foreign-threshold", "  thresholds: [{name: typo, expression: 'result.streams[\"big\"].rx > 0'}]"), spatev1.ReasonInvalidSpec, true, []string{"spec.thresholds[0].expression", "big", "small"}},
		"too-fast":          {loopbackProfile("too-fast", "  rate: 2Mpps"), spatev1.ReasonLimitExceeded, true, []string{"maxRate"}},
	} {
		t.Run(name, func(t *testing.T) {
			mustApply(t, ns, c.manifest)
			p := profileNamed(ns, name)
			expect(t, startLimit, p, spatev1.ConditionReady, metav1.ConditionFalse, c.reason, c.words...)
			kind := spatev1.ConditionReconciling
			if c.stalled {
				kind = spatev1.ConditionStalled
			}
			expect(t, answerLimit, p, kind, metav1.ConditionTrue, c.reason)
		})
	}
}

func TestAMissingReferenceIsPickedUpWhenItComes(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackProfile("early", ""))
	early := profileNamed(ns, "early")
	expect(t, answerLimit, early, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound)
	mustApply(t, ns, loopbackStream+"---"+loopbackGenerator)
	expect(t, answerLimit, early, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorNotReady, "loop")
}

// Nothing wakes a profile when a ConfigMap changes: it looks again.
func TestDataThatWasWrongIsReadAnew(t *testing.T) {
	t.Parallel()
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator+`---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: again}
spec:
  generatorRef: {name: loop}
  traffic:
  - {name: call, transmitPort: loop, stream: {inline: {transmit: {replay: {pcap: {from: {configMapKeyRef: {name: captures, key: call.pcap}}}, loops: 1}}}}}
`)
	again := profileNamed(ns, "again")
	expect(t, startLimit, again, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound, `key "call.pcap" of ConfigMap "captures" does not exist`)
	captures := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "captures"}, Data: map[string]string{"call.pcap": "no capture"}}
	if err := cluster.kube.Create(t.Context(), captures); err != nil {
		t.Fatal(err)
	}
	expect(t, 2*answerLimit, again, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec, "is neither a pcap nor a pcapng file")
	var capture bytes.Buffer
	w := pcapgo.NewWriter(&capture)
	if err := errors.Join(w.WriteFileHeader(1500, layers.LinkTypeEthernet), w.WritePacket(gopacket.CaptureInfo{CaptureLength: 60, Length: 60}, make([]byte, 60))); err != nil {
		t.Fatal(err)
	}
	captures.Data, captures.BinaryData = nil, map[string][]byte{"call.pcap": capture.Bytes()}
	if err := cluster.kube.Update(t.Context(), captures); err != nil {
		t.Fatal(err)
	}
	expect(t, 2*answerLimit, again, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorNotReady)
}

func TestUseFromOtherNamespacesNeedsAGrant(t *testing.T) {
	owner, guest := bareNamespace(t), bareNamespace(t)
	mustApply(t, owner, loopbackGenerator)
	mustApply(t, guest, loopbackStream)
	mustApply(t, guest, strings.Replace(loopbackProfile("guest", ""), "{name: loop}", "{name: loop, namespace: "+owner+"}", 1))
	p := profileNamed(guest, "guest")
	expect(t, answerLimit, p, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotAllowed, owner)
	mustApply(t, owner, loopbackGenerator+"  allowedNamespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: "+guest+"}}}\n")
	expect(t, 2*answerLimit, p, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorNotReady)
}

func TestAMissingTemplateIsAwaited(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: stateful}
spec:
  generatorRef: {name: loop}
  traffic:
  - {name: http, application: {templateRef: {name: http}}, transmitPort: loop, receivePort: loop}
`)
	expect(t, answerLimit, profileNamed(ns, "stateful"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound, "spec.traffic[0].application.templateRef")
}

func TestAStreamIsJudgedByItself(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackStream)
	s := &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "small"}}
	expect(t, answerLimit, s, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	if s.Status.FrameSize != 128 || s.Status.Summary == "" {
		t.Errorf("frame size %d, summary %q", s.Status.FrameSize, s.Status.Summary)
	}
	mustApply(t, ns, strings.Replace(loopbackStream, "{continuous: {rate: 1kpps}}", "{burst: {packets: 5, rate: 1kpps}}", 1)+"\n---"+
		strings.NewReplacer("name: small", "name: bursty", "{continuous: {rate: 1kpps}}", "{burst: {packets: 5, rate: 1kpps}}").Replace(loopbackStream))
	bursty := &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "bursty"}}
	expect(t, answerLimit, bursty, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	fields := "{continuous: {rate: 1kpps}}\n  fields: [{name: x, values: [1], writes: [{field: tcp.sourcePort}]}]"
	mustApply(t, ns, strings.NewReplacer("name: small", "name: wrong", "{continuous: {rate: 1kpps}}", fields).Replace(loopbackStream))
	wrong := &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "wrong"}}
	expect(t, answerLimit, wrong, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec, "spec.fields[0].writes[0].field", "the packet has 0 tcp headers")
}

func TestAnInlineGeneratorBelongsToItsProfile(t *testing.T) {
	ns := bareNamespace(t)
	manifest := loopbackStream + `---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: inline}
spec:
  generator:
    cpuPolicy: Shared
    packetMemory: {size: 64Mi, backing: Standard}
    ports: [{name: loop, attachment: {loopback: {}}}]
  traffic:
  - {name: small, stream: {ref: {name: small}}, transmitPort: loop, receivePort: loop}
`
	mustApply(t, ns, manifest)
	podNamed(t, ns, "inline-0")
	g := generatorNamed(ns, "inline")
	must(t, get(g))
	if len(g.OwnerReferences) != 1 || g.OwnerReferences[0].Kind != "TrafficProfile" {
		t.Errorf("owners %v", g.OwnerReferences)
	}
	mustApply(t, ns, manifest+"  suspend: true\n  suspendPolicy: Free\n")
	until(t, answerLimit, "the pods are freed", func() (bool, string) { n := len(enginePods(t, ns)); return n == 0, strconv.Itoa(n) })
	must(t, cluster.kube.Delete(t.Context(), profileNamed(ns, "inline"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	until(t, 4*answerLimit, "the generator is gone", func() (bool, string) { return get(g) != nil, "still there" })
}
