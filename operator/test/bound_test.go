// SPDX-License-Identifier: Apache-2.0

package test

// A plan larger than the operator's memory allows is refused by field, and others are served meanwhile.

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/peak"
)

// peakMemory of the operator in KiB; 0 if its process has ended.
func (o *operator) peakMemory() (kib int) {
	bytes, _ := peak.Memory(o.command.Process.Pid)
	return bytes >> 10
}

func TestAPlanBeyondTheOperatorsMemoryIsRefusedByField(t *testing.T) {
	restartOperator(t, "--memory-limit=256Mi")
	t.Cleanup(func() { restartOperator(t) })
	ns := bareNamespace(t)
	before := cluster.operator.peakMemory()
	large := strings.NewReplacer("name: small", "name: large", "size: 128", "size: 9000", "measure: {flow: true}", "measure: {flow: true}\n  copies: {count: 20000, vary: [{field: ipv4.source}]}", "1kpps", "1pps").Replace(loopbackStream)
	mustApply(t, ns, loopbackGenerator+"---"+large+"---"+strings.Replace(loopbackProfile("large", ""), "stream: {ref: {name: small}}", "stream: {ref: {name: large}}", 1))
	expect(t, answerLimit, profileNamed(ns, "large"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonNotAllowed,
		"spec.traffic[0]", "176 MiB", "makes plans of at most 32 MiB", "fewer copies")
	// Short packets with long lists of values are as large.
	var values strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&values, "%d, ", i)
	}
	listed := strings.NewReplacer("name: small", "name: listed", "measure: {flow: true}", "copies: {count: 20000, vary: [{field: ipv4.source}]}\n  fields: [{name: port, values: ["+values.String()+"], writes: [{field: udp.sourcePort}]}]", "1kpps", "1pps").Replace(loopbackStream)
	mustApply(t, ns, listed+"---"+strings.NewReplacer("stream: {ref: {name: small}}", "stream: {ref: {name: listed}}", "receivePort: loop", "").Replace(loopbackProfile("listed", "")))
	expect(t, answerLimit, profileNamed(ns, "listed"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonNotAllowed, "spec.traffic[0]", "makes plans of at most 32 MiB")
	mustApply(t, ns, loopbackStream+"---"+loopbackProfile("small", ""))
	expect(t, answerLimit, profileNamed(ns, "small"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorNotReady)
	after := cluster.operator.peakMemory()
	t.Logf("the operator took %d MiB before, and %d MiB at most", before>>10, after>>10)
	if after > 128<<10 {
		t.Errorf("more than 128 MiB")
	}
}
