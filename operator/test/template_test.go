// SPDX-License-Identifier: Apache-2.0

package test

// Templates with real engines: results are sums over pods, live ones and last ones, and thresholds know what there is.

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

const loopbackTemplate = `
apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: greeting}
spec:
  destinationPort: 80
  connectionRate: 100cps
  pools:
    clients: [{name: clients, start: 198.18.0.1, end: 198.18.0.100}]
    servers: [{name: servers, start: 198.19.0.1, end: 198.19.0.10}]
  source:
    programs:
      transport: TCP
      client: [{send: {content: {text: hello}}}, {receive: {bytes: 1000}}]
      server: [{receive: {bytes: 5}}, {send: {content: {size: 1000}}}, {waitForPeerClose: {}}]
`

// greetingProfile runs both sides of the template on port loop.
func greetingProfile(name, spec string) string {
	return `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: ` + name + `}
spec:
  generatorRef: {name: loop}
  traffic:
  - {name: hello, application: {templateRef: {name: greeting}}, transmitPort: loop, receivePort: loop}
  drain: 3s
  generatorTolerance: {late: 100%, txDropped: 50%}
` + spec
}

func TestTemplatesOfTwoEnginesHaveOneResultAndVerdict(t *testing.T) {
	ns := ready(t, "  replicas: 2\n")
	mustApply(t, ns, loopbackTemplate)
	mustApply(t, ns, greetingProfile("hello", `  duration: 2s
  thresholds:
  - {name: none-failed, expression: result.flows.failed == 0}
  - {name: answered, expression: 'result.templates["hello"].client.bytesReceived == 1000 * result.templates["hello"].server.established'}
`))
	p := profileNamed(ns, "hello")
	r := complete(t, runLimit, p)
	res := r.Status.Result
	if len(r.Status.Resolved.Generator.Pods) != 2 || len(res.Templates) != 1 || len(res.Streams) != 0 || res.Flows == nil {
		t.Fatalf("%d pods, %+v", len(r.Status.Resolved.Generator.Pods), res)
	}
	flows, hello := *res.Flows, res.Templates["hello"]
	if flows.Attempted+flows.NotStarted != 200 || flows.Established != flows.Attempted || flows.Failed != 0 || flows.Open != 0 || flows.BytesReceived != 1000*flows.Established {
		t.Errorf("flows %+v", flows)
	}
	if hello.Client.Established != flows.Established || hello.Server.Established != flows.Established || hello.Server.BytesReceived != 5*flows.Established {
		t.Errorf("client %+v, server %+v", hello.Client.FlowCounters, hello.Server.FlowCounters)
	}
	// Percentiles of both engines together, which their histograms have to 1/128.
	if c := hello.Client.ConnectTime; c == nil || c.Count != flows.Established || c.Min > c.P50 || c.P50 > c.P90 || c.P90 > c.P95 || c.P95 > c.P99 ||
		c.P99 > c.P999 || c.P999 > c.P9999 || c.P9999 != c.Max {
		t.Errorf("of %d connections: %+v", flows.Established, c)
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet, "established, 0 failed", "2 thresholds hold")
	if p.Status.Flows == nil || *p.Status.Flows != flows {
		t.Errorf("the profile has %+v, its run %+v", p.Status.Flows, flows)
	}
}

// A loopback port gives frames back with their tags; it is every gateway.
func TestClientsInVLANsBehindGatewaysOfTheirOwnAreServed(t *testing.T) {
	ns := ready(t, "  replicas: 2\n")
	mustApply(t, ns, strings.Replace(loopbackTemplate, "clients: [{name: clients, start: 198.18.0.1, end: 198.18.0.100}]", `clients:
    - {name: plain, start: 198.18.0.1, end: 198.18.0.100}
    - {name: tagged, start: 10.1.0.10, end: 10.1.0.99, vlans: [{id: 101}], gateway: 10.1.0.1}
    - {name: qinq, start: 10.2.0.10, end: 10.2.0.99, startMAC: "02:00:00:00:01:00", vlans: [{id: 200, protocol: 802.1ad}, {id: 7}], gateway: 10.2.0.1}`, 1))
	mustApply(t, ns, greetingProfile("tagged", `  duration: 2s
  thresholds:
  - {name: none-failed, expression: result.flows.failed == 0}
`))
	p := profileNamed(ns, "tagged")
	res := complete(t, runLimit, p).Status.Result
	if flows := *res.Flows; flows.Attempted+flows.NotStarted != 200 || flows.Attempted < 150 || flows.Established != flows.Attempted || flows.BytesReceived != 1000*flows.Established {
		t.Errorf("flows %+v", flows)
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet, "established, 0 failed", "the threshold holds")
}

// A loopback port gives packets back in their tunnels: it stands for the remote ends.
func TestClientsInGREAndBehindMPLSLabelsAreServed(t *testing.T) {
	ns := ready(t, "  replicas: 2\n")
	mustApply(t, ns, strings.Replace(loopbackTemplate, "clients: [{name: clients, start: 198.18.0.1, end: 198.18.0.100}]", `clients:
    - {name: plain, start: 198.18.0.1, end: 198.18.0.100}
    - {name: gre, start: 10.1.0.10, end: 10.1.0.99, gre: {local: 172.16.0.2, localCount: 2, remote: 172.16.0.1, key: 7, keyStep: 1, mirror: true}}
    - {name: mpls, start: 10.2.0.10, end: 10.2.0.99, vlans: [{id: 101}], gateway: 172.16.1.9,
       mpls: {local: 172.16.1.2, localCount: 2, remote: 172.16.1.1, labels: [{label: 100, trafficClass: 5}, {label: 1000}], labelStep: 1, downlinkLabel: 3, mirror: true}}`, 1))
	mustApply(t, ns, greetingProfile("labelled", `  duration: 2s
  thresholds:
  - {name: none-failed, expression: result.flows.failed == 0}
`))
	p := profileNamed(ns, "labelled")
	res := complete(t, runLimit, p).Status.Result
	if flows := *res.Flows; flows.Attempted+flows.NotStarted != 200 || flows.Attempted < 150 || flows.Established != flows.Attempted || flows.BytesReceived != 1000*flows.Established {
		t.Errorf("flows %+v", flows)
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet, "established, 0 failed", "the threshold holds")
}

// One at a time, of 300 ms: of 200 that are due seven or so begin before the end, and a few more in the first half of the drain.
func TestFlowsThatWaitForOthersAreReportedAndDoNotMakeTheRunInvalid(t *testing.T) {
	ns := ready(t, "")
	mustApply(t, ns, strings.NewReplacer("  connectionRate: 100cps\n", "  connectionRate: 100cps\n  maxConcurrentFlows: 1\n", "{receive: {bytes: 5}}, ", "{receive: {bytes: 5}}, {delay: {min: 300ms}}, ").Replace(loopbackTemplate))
	mustApply(t, ns, greetingProfile("waiting", `  duration: 2s
  thresholds:
  - {name: held, expression: 'result.flows.throttled > 100 && result.templates["hello"].client.throttled == result.flows.throttled'}
`))
	p := profileNamed(ns, "waiting")
	flows := *complete(t, runLimit, p).Status.Result.Flows
	if flows.Attempted+flows.NotStarted+flows.Throttled != 200 || flows.Attempted > 20 || flows.Failed != 0 {
		t.Errorf("%+v", flows)
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet, fmt.Sprintf("%d throttled by maxConcurrentFlows", flows.Throttled))
}

// A connection brings 1,005 bytes: 100,500 bytes a second are 100 connections, by three to one.
func TestAMixOfTwoEnginesIsSharedByBytesAndMeasuredAfterTheWarmup(t *testing.T) {
	ns := ready(t, "  replicas: 2\n")
	mustApply(t, ns, strings.Replace(loopbackTemplate, "spec:\n", "spec:\n  statisticsGroup: greetings\n", 1))
	entry := func(name string) string {
		return "  - {name: " + name + ", transmitPort: loop, receivePort: loop, application: {templateRef: {name: greeting}, share: "
	}
	shares := strings.NewReplacer("  - {name: hello, application: {templateRef: {name: greeting}}, transmitPort: loop, receivePort: loop}\n", entry("much")+"3}}\n"+entry("little")+"1}}\n")
	mustApply(t, ns, shares.Replace(greetingProfile("mix", `  mix: {rate: 804kbps, shareBy: Bytes}
  warmup: 2s
  duration: 2s
  thresholds:
  - {name: none-failed, expression: 'result.flows.failed == 0 && result.groups["greetings"].client.failed == 0'}
  - {name: timed, expression: 'result.groups["greetings"].client.connectTime.mean > duration("0s")'}
`)))
	r := complete(t, runLimit, profileNamed(ns, "mix"))
	if entries := r.Status.Resolved.Entries; len(entries) != 2 || entries[0].ConnectionRate != "75cps" || entries[1].ConnectionRate != "25cps" {
		t.Errorf("entries %+v", entries)
	}
	for name, flows := range map[string]int64{"little": 50, "much": 150} {
		result := r.Status.Result.Templates[name]
		// Some that were due in the warm-up may have started after it.
		if due := result.Client.Attempted + result.Client.NotStarted; due < flows-2 || due > flows*3/2 {
			t.Errorf("%s: %d flows were due after the warm-up, want about %d of %s", name, due, flows, name)
		}
	}
	little, much := r.Status.Result.Templates["little"], r.Status.Result.Templates["much"]
	if groups := r.Status.Result.Groups; len(groups) != 1 || groups["greetings"].Client.FlowCounters != *r.Status.Result.Flows ||
		groups["greetings"].Server.Established != little.Server.Established+much.Server.Established || groups["greetings"].Client.ConnectTime.Count != little.Client.ConnectTime.Count+much.Client.ConnectTime.Count {
		t.Errorf("%+v", groups)
	}
	if v := r.Status.Verdict; v == nil || v.Outcome != spatev1.VerdictPassed {
		t.Errorf("verdict %+v", v)
	}
}

func TestPodsWithoutClientsOfTheirOwnAreReportedBeforeTheRun(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"  replicas: 2\n---"+strings.Replace(loopbackTemplate, "end: 198.18.0.100", "end: 198.18.0.1", 1))
	mustApply(t, ns, greetingProfile("alone", "  duration: 1s\n"))
	expect(t, answerLimit, profileNamed(ns, "alone"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec,
		`spec.traffic[0].application.templateRef: ASTFTemplate "greeting": spec.pools.clients[0] has 1 addresses for the 2 pods of generator loop`)
}

func TestThresholdsOnTemplatesAreCheckedBeforeTheRun(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+strings.Replace(loopbackTemplate, "spec:\n", "spec:\n  statisticsGroup: greetings\n", 1))
	mustApply(t, ns, greetingProfile("wrong", `  duration: 1s
  thresholds:
  - {name: typo, expression: 'result.templates["greeting"].client.failed == 0'}
  - {name: side, expression: 'result.templates["hello"].servers.failed == 0'}
  - {name: stream, expression: 'result.streams["hello"].lost == 0'}
  - {name: group, expression: 'result.groups["greetings"].client.connectTime.p99 < duration("5s")'}
  - {name: grouped, expression: 'result.groups["greetings"].server.failed == 0'}
`))
	expect(t, answerLimit, profileNamed(ns, "wrong"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec,
		"spec.thresholds[0].expression", "no such key: greeting", "templates are hello (client, server)",
		"spec.thresholds[1].expression", "no such key: servers", "spec.thresholds[2].expression", "no such key: hello",
		"spec.thresholds[3].expression", "no such key: p99", "groups are greetings (client, server)", "of groups and receivers count, mean, deviation, min, max")
}

// Whether byte counts meet is for the engine to say: the operator asks it of a template by itself, and of a profile.
func TestWhatEnginesRefuseIsReportedByTheFieldsOfTheTemplate(t *testing.T) {
	needsEngine(t)
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+strings.Replace(loopbackTemplate, "{receive: {bytes: 1000}}", "{receive: {bytes: 1001}}", 1))
	mustApply(t, ns, greetingProfile("unmet", "  duration: 1s\n"))
	const field = "spec.source.programs.client[1].receive.bytes: the engine would refuse it: waits for 1001 bytes"
	template := &spatev1.ASTFTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "greeting"}}
	expect(t, answerLimit, template, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec, field)
	expect(t, answerLimit, profileNamed(ns, "unmet"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec,
		`spec.traffic[0].application.templateRef: ASTFTemplate "greeting": `+field)
}
