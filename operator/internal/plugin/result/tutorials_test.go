// SPDX-License-Identifier: Apache-2.0

package result

// This file answers: do the tutorials show what the plugin prints? Their runs are composed.

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
)

// tutorials are the runs of docs/tutorials by the name of the page: their profile is of the same name.
var tutorials = map[string]string{
	"imix": `
phase: Complete
verdict:
  outcome: Failed
  reasons: [{reason: ThresholdMissed, message: "the device under test lost packets (threshold no-loss: result.lost == 0 does not hold: result.lost is 4000)"}]
  thresholds:
  - {name: no-loss, met: false, message: "result.lost == 0 does not hold: result.lost is 4000"}
  - {name: in-order, met: true, message: "result.outOfOrder == 0 && result.duplicates == 0 holds: result.outOfOrder is 0, result.duplicates is 0"}
result:
  duration: 10s
  tx: 120000
  streams:
    imix: {tx: 120000, rx: 116000, lost: 4000, lossRatio: "0.033333333", outage: {longest: 418us, at: "2026-11-27T12:00:07.120000Z"}}
`,
	"http": `
phase: Complete
verdict:
  outcome: Passed
  reasons: [{reason: ThresholdsMet, message: "3000 flows attempted, 3000 established, 0 failed; 3 thresholds hold"}]
  thresholds:
  - {name: none-failed, met: true, message: "result.flows.failed == 0 holds: result.flows.failed is 0"}
  - {name: rate, met: true, message: 'result.templates["web"].client.cps > 99.0 holds: result.templates["web"].client.cps is 100'}
  - {name: connect-time, met: true, message: 'result.templates["web"].client.connectTime.p99 < duration("50ms") holds: result.templates["web"].client.connectTime.p99 is 1.212ms'}
result:
  duration: 30s
  flows: {attempted: 3000, established: 3000, closed: 3000, bytesSent: 108000, bytesReceived: 49398000}
  templates:
    web:
      client:
        {attempted: 3000, established: 3000, closed: 3000, bytesSent: 108000, bytesReceived: 49398000, counters: {transactions: 3000}, connectTime: {count: 3000, p50: 301us, p99: 1.212ms, max: 6.04ms}, roundTrip: {count: 6000, p50: 288us, p99: 1.104ms, max: 5.81ms}}
      server:
        {attempted: 3000, established: 3000, closed: 3000, bytesSent: 49398000, bytesReceived: 108000, connectTime: {count: 3000, p50: 295us, p99: 1.19ms, max: 5.97ms}, roundTrip: {count: 36000, p50: 310us, p99: 1.31ms, max: 6.22ms}}
`,
	"syn-flood": `
phase: Complete
verdict:
  outcome: Failed
  reasons: [{reason: ThresholdMissed, message: 'threshold arrived: result.receivers["victim"].packets >= result.tx does not hold: result.receivers["victim"].packets is 50212, result.tx is 100000'}]
  thresholds:
  - {name: arrived, met: false, message: 'result.receivers["victim"].packets >= result.tx does not hold: result.receivers["victim"].packets is 50212, result.tx is 100000'}
result:
  duration: 5s
  tx: 100000
  streams:
    syn-flood: {tx: 100000, rx: 0, lost: 0, lossRatio: "0"}
  receivers:
    victim: {packets: 50212, bytes: 3514840}
`,
	"latency": `
phase: Complete
verdict:
  outcome: Passed
  reasons: [{reason: ThresholdsMet, message: "30000 packets sent, 30000 received, 0 lost; 2 thresholds hold"}]
  thresholds:
  - {name: fast-enough, met: true, message: 'result.streams["voice"].latency.p99 < duration(''10ms'') holds: result.streams["voice"].latency.p99 is 203.775us'}
  - {name: no-outage, met: true, message: 'result.streams["voice"].outage.longest < duration(''50ms'') holds: result.streams["voice"].outage.longest is 1.84ms'}
result:
  duration: 5s
  tx: 30000
  rx: 30000
  lossRatio: "0"
  streams:
    load: {tx: 25000, rx: 25000, lossRatio: "0", outage: {longest: 1.07ms, at: "2026-11-27T12:00:04.310000Z"}}
    voice:
      {tx: 5000, rx: 5000, lossRatio: "0", latency: {count: 5000, p50: 47.103us, p99: 203.775us, max: 901.5us}, outage: {longest: 1.84ms, at: "2026-11-27T12:00:04.310000Z"}}
`,
	"nat": `
phase: Complete
verdict:
  outcome: Failed
  reasons: [{reason: ThresholdMissed, message: "threshold none-failed: result.flows.failed == 0 does not hold: result.flows.failed is 25488"}]
  thresholds:
  - {name: none-failed, met: false, message: "result.flows.failed == 0 does not hold: result.flows.failed is 25488"}
  - {name: voice-loss, met: true, message: 'result.streams["voice"].lost == 0 holds: result.streams["voice"].lost is 0'}
result:
  duration: 60s
  tx: 60000
  flows: {attempted: 90000, established: 64512, closed: 64512, failed: 25488, timedOut: 25488, bytesSent: 2322432, bytesReceived: 71285760}
  streams:
    voice: {tx: 60000, rx: 60000, lossRatio: "0", latency: {count: 60000, p50: 52.223us, p99: 221.183us, max: 1.412ms}, outage: {longest: 2.11ms, at: "2026-11-27T12:00:31.870000Z"}}
  templates:
    web:
      client:
        {attempted: 90000, established: 64512, closed: 64512, failed: 25488, timedOut: 25488, bytesSent: 2322432, bytesReceived: 71285760, counters: {transactions: 64512}, connectTime: {count: 64512, p50: 311us, p99: 1.301ms, max: 7.9ms}}
      server:
        {attempted: 64512, established: 64512, closed: 64512, bytesSent: 71285760, bytesReceived: 2322432}
`,
	"gtp-u": `
phase: Complete
verdict:
  outcome: Passed
  reasons: [{reason: ThresholdsMet, message: "1000 flows attempted, 1000 established, 0 failed; the threshold holds"}]
  thresholds:
  - {name: none-failed, met: true, message: "result.flows.failed == 0 holds: result.flows.failed is 0"}
result:
  duration: 5s
  flows: {attempted: 1000, established: 1000, closed: 1000, bytesSent: 27000, bytesReceived: 12000000}
  templates:
    pages:
      client:
        {attempted: 1000, established: 1000, closed: 1000, bytesSent: 27000, bytesReceived: 12000000, connectTime: {count: 1000, p50: 18us, p99: 44us, max: 210us}}
      server:
        {attempted: 1000, established: 1000, closed: 1000, bytesSent: 12000000, bytesReceived: 27000}
`,
}

// SPATE_GOLDEN=renew writes the output into the pages.
func TestTutorialsShowThisOutput(t *testing.T) {
	for name, status := range tutorials {
		run := &spatev1.TrafficRun{}
		run.Name, run.Spec.ProfileRef = name+"-1a2b3-1", &spatev1.LocalReference{Name: spatev1.ObjectName(name)}
		if err := yaml.UnmarshalStrict([]byte(status), &run.Status); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var out bytes.Buffer
		if err := writeResult(&out, run, false); err != nil {
			t.Fatal(err)
		}
		file, shown := "../../../../docs/tutorials/"+name+".md", regexp.MustCompile("(?ms)^```console\nRun "+name+"-.*?^```$")
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := "```console\n" + out.String() + "```"
		if os.Getenv("SPATE_GOLDEN") == "renew" {
			page = shown.ReplaceAllLiteral(page, []byte(want))
			if err := os.WriteFile(file, page, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := shown.Find(page); string(got) != want {
			t.Errorf("%s shows another output; SPATE_GOLDEN=renew writes it\n got %s\nwant %s", file, got, want)
		}
	}
}
