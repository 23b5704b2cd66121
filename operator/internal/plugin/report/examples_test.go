// SPDX-License-Identifier: Apache-2.0

package report

// This file answers: what do reports of whole tests look like? Their runs are composed, of a model of a device under test, as long and as
// large as users' are. docs/reports has their reports, which the documents show and make test-report opens in a browser.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/figures"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/runs/samples"
)

// exampleLength is for how many seconds examples are measured.
const exampleLength = 60

// offered is a stream of an example.
type offered struct {
	name string
	pps  int64         // packets a second at rate 1x
	size int64         // mean size in bytes, FCS included
	base time.Duration // delay of the empty device; 0 where delays are not measured
}

// device is the model: by how much the offered rate is multiplied in a second, which share of the packets it loses, by which factor its queues make delays longer.
type device struct {
	rate, loss, queue func(second int64) float64
	warmup            int64 // seconds, in which nothing is counted
}

// distribution is a histogram of times in nanoseconds.
type distribution struct {
	counts map[int64]int64
	last   int64 // the mean of the second before
	change int64 // smoothed difference from second to second, which stands for jitter
}

// spread has the delays of a second around their mean: each a multiple of it, and the share of packets that have it.
var spread = []struct{ factor, share float64 }{{0.82, 0.1}, {0.93, 0.4}, {1.04, 0.4}, {1.2, 0.05}, {1.5, 0.04}, {2.1, 0.009}, {3.4, 0.0009}, {6.3, 0.0001}}

func (d *distribution) add(mean float64, count int64) (sum int64) {
	if d.counts == nil {
		d.counts = map[int64]int64{}
	}
	for _, s := range spread {
		value, n := int64(mean*s.factor), int64(math.Round(float64(count)*s.share))
		d.counts[value] += n
		sum += value * n
	}
	if d.last > 0 {
		d.change = (15*d.change + max(int64(mean)-d.last, d.last-int64(mean)) + int64(mean)/12) / 16
	}
	d.last = int64(mean)
	return sum
}

// latency is nil while there is nothing in it.
func (d *distribution) latency() *spatev1.Latency {
	var values []int64
	var count, sum, squares float64
	for value, n := range d.counts {
		if n > 0 {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values) // sums of floating point numbers depend on their order
	for _, value := range values {
		n := float64(d.counts[value])
		count, sum, squares = count+n, sum+n*float64(value), squares+n*float64(value)*float64(value)
	}
	at := func(share float64) spatev1.MeasuredTime {
		below := int64(0)
		for _, value := range values {
			if below += d.counts[value]; float64(below) >= share*count {
				return spatev1.MeasuredTime(value)
			}
		}
		return spatev1.MeasuredTime(values[len(values)-1])
	}
	mean := sum / count
	return &spatev1.Latency{
		Count: int64(count), Min: spatev1.MeasuredTime(values[0]), Mean: spatev1.MeasuredTime(mean), Max: spatev1.MeasuredTime(values[len(values)-1]),
		Deviation: spatev1.MeasuredTime(math.Sqrt(max(squares/count-mean*mean, 0))), P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), P999: at(0.999), P9999: at(0.9999),
		Jitter: spatev1.MeasuredTime(d.change), JitterMean: spatev1.MeasuredTime(d.change), JitterMax: spatev1.MeasuredTime(4 * d.change),
	}
}

// noise is between -1 and 1, and the same in each test.
func noise(second int64, of string) float64 {
	seed := 0.0
	for i, letter := range of {
		seed += float64(letter) * float64(i+1)
	}
	return math.Sin(seed+1.7*float64(second)) * math.Cos(2.3*seed-0.9*float64(second))
}

// ratioOf is as the operator has it: at most nine decimal places.
func ratioOf(part, whole int64) string {
	if whole == 0 || part == 0 {
		return "0"
	}
	return strings.TrimRight(strconv.FormatFloat(float64(part)/float64(whole), 'f', 9, 64), "0")
}

// through sends streams through a device, and counts as the operator does.
func through(d device, streams []offered) (*spatev1.RunResult, *samples.Series, []*spatev1.RunResult) {
	series, counters, delays, sums := samples.New(), map[string]spatev1.StreamCounters{}, map[string]*distribution{}, map[string]samples.Times{}
	var all []*spatev1.RunResult
	for at := range d.warmup + exampleLength + 1 {
		second := max(at-d.warmup, 0)
		r := &spatev1.RunResult{Duration: spatev1.MeasuredTime(second * 1e9), Streams: map[string]spatev1.StreamResult{}}
		for _, o := range streams {
			c := counters[o.name]
			if second > 0 {
				sent := int64(float64(o.pps) * d.rate(second))
				lost := int64(float64(sent) * d.loss(second) * (1 + 0.3*noise(second, o.name)))
				c.Tx, c.Rx, c.Lost = c.Tx+sent, c.Rx+sent-lost, c.Lost+lost
				c.TxBytes, c.RxBytes = c.Tx*o.size, c.Rx*o.size
				if o.base > 0 {
					if delays[o.name] == nil {
						delays[o.name] = &distribution{}
					}
					sum := delays[o.name].add(float64(o.base)*d.queue(second)*(1+0.06*noise(second, o.name)), sent-lost)
					sums[o.name] = samples.Times{Count: c.Rx, Sum: sums[o.name].Sum + sum}
				}
			}
			c.LossRatio = ratioOf(c.Lost, c.Tx)
			counters[o.name] = c
			result := spatev1.StreamResult{StreamCounters: c}
			if own := delays[o.name]; own != nil {
				result.Latency = own.latency()
			}
			r.Streams[o.name] = result
			r.Tx, r.Rx, r.Lost, r.TxBytes, r.RxBytes = r.Tx+c.Tx, r.Rx+c.Rx, r.Lost+c.Lost, r.TxBytes+c.TxBytes, r.RxBytes+c.RxBytes
		}
		r.LossRatio = ratioOf(r.Lost, r.Tx)
		series.Add(samples.Reading{At: time.Duration(at) * time.Second, Result: r, Delays: sums}, samples.Most)
		all = append(all, r)
	}
	return all[len(all)-1], series, all
}

// example is a run with its objects. The profile is YAML.
func example(name, profile string, outcome spatev1.VerdictOutcome, tolerance spatev1.GeneratorTolerance) *subject {
	p := &spatev1.TrafficProfile{}
	if err := yaml.UnmarshalStrict([]byte(profile), p); err != nil {
		panic(err)
	}
	p.UID, p.Generation, p.Namespace = "5d1c", 3, "lab"
	created := time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)
	started := metav1.NewMicroTime(created.Add(4 * time.Second))
	run := plugintest.RunNamed(name, p.Name, created)
	run.Namespace = "lab"
	run.Status.Phase, run.Status.TrafficStartTime, run.Status.Verdict = spatev1.RunComplete, &started, &spatev1.Verdict{Outcome: outcome}
	run.Status.Resolved = &spatev1.ResolvedRun{
		Timing:  spatev1.RunTiming{Warmup: p.Spec.Warmup, Duration: p.Spec.Duration},
		Profile: spatev1.ProfileSnapshot{Name: spatev1.ObjectName(p.Name), UID: p.UID, Generation: p.Generation}, GeneratorTolerance: tolerance, Thresholds: p.Spec.Thresholds,
		Generator: spatev1.GeneratorSnapshot{Name: "lab", Namespace: "lab", Pods: []spatev1.PodSnapshot{{Name: "lab-0", UID: "0b1f6f7e-3f0a-4d43-9f5e-6f2b1c9e7a10"}}},
	}
	g := &spatev1.TrafficGenerator{}
	g.Status.EngineVersion = "0.1.0"
	port := func(name, device, mac string) spatev1.GeneratorPortStatus {
		return spatev1.GeneratorPortStatus{
			Name: name, Kind: spatev1.PortPCI, Device: device, Driver: "net_iavf", LinkUp: true, LineRate: "25Gbps", MTU: 1500, MAC: mac, Offloads: []string{"ipv4Checksum", "udpChecksum", "tcpChecksum"}, ReceiveTimestamps: spatev1.TimestampsCPU,
		}
	}
	g.Status.Pods = []spatev1.GeneratorPodStatus{{
		Name: "lab-0", Node: "worker-1", Ready: true, DPDKVersion: "22.11.11", TimeSource: "TSC", Ports: []spatev1.GeneratorPortStatus{port("east", "0000:3b:02.1", "02:00:00:00:00:01"), port("west", "0000:3b:0a.1", "02:00:00:00:00:02")},
		Preflight: []spatev1.PreflightCheck{
			{Check: "DeviceOnOtherNUMANode", Subject: "east", State: spatev1.PreflightOk, Observed: "device 0000:3b:02.1 and CPUs 6-7 on node 1"},
			{Check: "LinkDown", Subject: "east", State: spatev1.PreflightOk, Observed: "the link is up"},
			{Check: "LinkDown", Subject: "west", State: spatev1.PreflightOk, Observed: "the link is up"},
			{Check: "MTUBelow1500", Subject: "east", State: spatev1.PreflightOk, Observed: "the MTU is 1500"},
			{Check: "PagesOnOtherNUMANode", Subject: "packet memory", State: spatev1.PreflightOk, Observed: "pages on node 1, CPUs 6-7 on node 1"},
			{Check: "CPUSharedWithSibling", Subject: "CPU 6", State: spatev1.PreflightOk, Observed: "nothing uses the other thread of the core"},
			{Check: "CPUNotIsolated", Subject: "CPUs 6-7", State: spatev1.PreflightOk, Observed: "isolated: isolcpus, nohz_full"},
			{Check: "GovernorNotPerformance", Subject: "CPUs 6-7", State: spatev1.PreflightOk, Observed: "governor performance"},
			{Check: "ClockSourceNotTSC", Subject: "node", State: spatev1.PreflightOk, Observed: "clock source tsc"},
		},
	}}
	return &subject{run: run, generator: g, profile: p, at: created.Add(2 * time.Minute)}
}

// judged adds a threshold of the profile and what became of it.
func (s *subject) judged(met bool, values string) {
	v := s.run.Status.Verdict
	t := s.profile.Spec.Thresholds[len(v.Thresholds)]
	verb := map[bool]string{true: "holds", false: "does not hold"}[met]
	message := fmt.Sprintf("%s %s: %s", t.Expression, verb, values)
	v.Thresholds = append(v.Thresholds, spatev1.ThresholdResult{Name: string(t.Name), Met: met, Message: message})
	if !met {
		v.Reasons = append(v.Reasons, spatev1.VerdictReason{Reason: spatev1.ReasonThresholdMissed, Message: fmt.Sprintf("threshold %s: %s", t.Name, message)})
	}
}

// worst is the summary of delays, as the operator has it.
func worst(r *spatev1.RunResult, name string) string {
	l := r.Streams[name].Latency
	text := func(t spatev1.MeasuredTime) string { return figures.WithUnit(float64(t)/1e9, "s") }
	return fmt.Sprintf("%s: p50 %s, p99 %s, max %s", name, text(l.P50), text(l.P99), text(l.Max))
}

// passedExample is IMIX with a voice stream through a router that forwards all of it.
func passedExample() *subject {
	s := example("router-imix-5d1c-14", `
metadata: {name: router-imix}
spec:
  generatorRef: {name: lab}
  traffic:
    - {name: imix, transmitPort: east, receivePort: west, stream: {ref: {name: imix}}}
    - name: voice
      transmitPort: east
      receivePort: west
      stream:
        inline:
          packet:
            headers:
              - ethernet: {}
              - ipv4: {source: 198.18.0.2, destination: 198.19.0.2, dscp: 46}
              - udp: {destinationPort: 7}
            size: 128
          transmit: {continuous: {rate: 10kpps}}
          measure: {flow: true, latency: true}
  warmup: 2s
  duration: 60s
  thresholds:
    - {name: no-loss, expression: result.lost == 0}
    - {name: voice-delay, expression: 'result.streams["voice"].latency.p99 < duration("100us")'}
`, spatev1.VerdictPassed, spatev1.GeneratorTolerance{Late: "0.1%", TxDropped: "0", RxMissed: "0"})
	steady := func(int64) float64 { return 1 }
	r, series, _ := through(device{rate: steady, loss: func(int64) float64 { return 0 }, queue: steady, warmup: 2}, []offered{{"imix", 3_000_000, 362, 0}, {"voice", 10_000, 128, 17 * time.Microsecond}})
	r.WorstLatency = worst(r, "voice")
	s.samples, s.run.Status.Result = series, r
	s.judged(true, "result.lost is 0")
	s.judged(true, fmt.Sprintf(`result.streams["voice"].latency.p99 is %s`, time.Duration(r.Streams["voice"].Latency.P99)))
	s.run.Status.Verdict.Reasons = []spatev1.VerdictReason{{Reason: spatev1.ReasonThresholdsMet, Message: fmt.Sprintf("%d packets sent, %d received, 0 lost; 2 thresholds hold", r.Tx, r.Rx)}}
	return s
}

// failedExample is a firewall of which a spike asks more than it forwards: it queues, then drops.
func failedExample() *subject {
	s := example("branch-firewall-9c1d-3", `
metadata: {name: branch-firewall}
spec:
  generatorRef: {name: lab}
  traffic:
    - {name: branch, transmitPort: east, receivePort: west, stream: {selector: {matchLabels: {site: branch}}}}
  stages:
    - {name: ramp, duration: 15s, ramp: 15s, rate: 1x}
    - {name: soak, duration: 25s, rate: 1x}
    - {name: spike, duration: 8s, rate: 1.6x}
    - {name: recovery, duration: 12s, rate: 1x}
  thresholds:
    - {name: loss, expression: result.lossRatio < 0.0001}
    - {name: voice-delay, expression: 'result.streams["branch-voice-ef"].latency.p99 < duration("200us")'}
    - {name: in-order, expression: result.outOfOrder == 0 && result.duplicates == 0}
`, spatev1.VerdictFailed, spatev1.GeneratorTolerance{Late: "0.1%", TxDropped: "0", RxMissed: "0"})
	spike := func(second int64) bool { return second > 40 && second <= 48 }
	firewall := device{
		rate: func(second int64) float64 {
			switch {
			case spike(second):
				return 1.6
			case second < 15:
				return float64(second) / 15
			}
			return 1
		},
		loss: func(second int64) float64 {
			if spike(second) && second > 41 {
				return 0.031
			}
			return 0
		},
		queue: func(second int64) float64 {
			switch {
			case spike(second):
				return 38
			case second == 49: // the queues drain
				return 6
			}
			return 1 + 0.3*min(float64(second)/15, 1)
		},
	}
	r, series, all := through(firewall, []offered{
		{"branch-backup-le", 40_000, 1518, 0},
		{"branch-frankfurt-to-datacenter-amsterdam-replication", 25_000, 1420, 0},
		{"branch-business-mail", 6_000, 700, 0},
		{"branch-business-web", 30_000, 820, 26 * time.Microsecond},
		{"branch-dns", 2_000, 96, 21 * time.Microsecond},
		{"branch-guest-wifi", 12_000, 640, 0},
		{"branch-iot-telemetry", 8_000, 150, 0},
		{"branch-routing-cs6", 100, 110, 20 * time.Microsecond},
		{"branch-video-af41", 18_000, 1370, 24 * time.Microsecond},
		{"branch-voice-ef", 10_000, 214, 22 * time.Microsecond},
	})
	r.WorstLatency = worst(r, "branch-business-web")
	s.samples, s.run.Status.Result = series, r
	from := int64(0)
	for _, stage := range []struct {
		name  string
		until int64
	}{{"ramp", 15}, {"soak", 40}, {"spike", 48}, {"recovery", exampleLength}} {
		a, b := all[from], all[stage.until]
		s.run.Status.Stages = append(s.run.Status.Stages, spatev1.StageStatus{Name: stage.name, Phase: spatev1.StagePassed, Result: &spatev1.StageResult{
			Duration: b.Duration - a.Duration, Tx: b.Tx - a.Tx, Rx: b.Rx - a.Rx, Lost: b.Lost - a.Lost, LossRatio: ratioOf(b.Lost-a.Lost, b.Tx-a.Tx),
		}})
		from = stage.until
	}
	s.judged(false, "result.lossRatio is "+r.LossRatio)
	s.judged(false, fmt.Sprintf(`result.streams["branch-voice-ef"].latency.p99 is %s`, time.Duration(r.Streams["branch-voice-ef"].Latency.P99)))
	s.judged(true, "result.outOfOrder is 0, result.duplicates is 0")
	return s
}

// invalidExample is a web site whose connections the generator could not start in time: its CPUs are not its own.
func invalidExample() *subject {
	s := example("web-100k-2e77-1", `
metadata: {name: web-100k}
spec:
  generatorRef: {name: lab}
  traffic:
    - name: web
      application:
        inline:
          source: {http: {responseBytes: 1024}}
          connectionRate: 100kcps
          pools:
            clients: [{name: clients, start: 198.18.128.1, count: 10000}]
            servers: [{name: servers, start: 198.19.128.1, count: 100}]
  rampUp: 10s
  warmup: 10s
  duration: 60s
  thresholds:
    - {name: none-failed, expression: result.flows.failed == 0}
    - {name: rate, expression: 'result.templates["web"].client.cps > 99900.0'}
`, spatev1.VerdictInvalid, spatev1.GeneratorTolerance{Late: "0.1%", TxDropped: "0", RxMissed: "0"})
	s.run.Spec.Overrides.Duration = "60s"
	series, connect, roundTrip, sum, c := samples.New(), &distribution{}, &distribution{}, int64(0), spatev1.FlowCounters{}
	const warmup = 10
	for at := range int64(warmup + exampleLength + 1) {
		second := at - warmup
		if second > 0 {
			stolen := max(0, noise(second, "steal")-0.35) // another program has the CPU for a time
			attempted := int64(100_000 - 9_000*stolen + 40*noise(second, "web"))
			c.Attempted += attempted
			c.Late += int64(60_000 * stolen)
			c.Open = int64(41 + 30*stolen*100)
			c.Established, c.Closed = c.Attempted-c.Open/2, c.Attempted-c.Open
			c.BytesSent, c.BytesReceived = c.Established*142, c.Established*1190
			c.PacketsSent, c.PacketsReceived, c.Retransmitted = c.Attempted*5, c.Attempted*5, c.Retransmitted+int64(220*stolen)
			sum += connect.add(float64(190*time.Microsecond)*(1+9*stolen), attempted)
			roundTrip.add(float64(240*time.Microsecond)*(1+9*stolen), attempted)
		}
		client, server := &spatev1.TemplateSide{FlowCounters: c, ConnectTime: connect.latency(), RoundTrip: roundTrip.latency()}, &spatev1.TemplateSide{FlowCounters: c}
		server.BytesSent, server.BytesReceived, server.Late = c.BytesReceived, c.BytesSent, 0
		total := c
		r := &spatev1.RunResult{
			StreamCounters: spatev1.StreamCounters{LossRatio: "0"}, Duration: spatev1.MeasuredTime(max(second, 0) * 1e9), Flows: &total, Templates: map[string]spatev1.TemplateResult{"web": {Client: client, Server: server}},
		}
		series.Add(samples.Reading{At: time.Duration(at) * time.Second, Result: r, ConnectTimes: map[string]samples.Times{"web": {Count: c.Established, Sum: sum}}}, samples.Most)
		s.run.Status.Result = r
	}
	s.samples = series
	r := s.run.Status.Result
	s.judged(true, "result.flows.failed is 0")
	s.judged(false, fmt.Sprintf(`result.templates["web"].client.cps is %.1f`, float64(c.Established)/exampleLength))
	v := s.run.Status.Verdict
	v.Reasons = slices.Insert(v.Reasons, 0, spatev1.VerdictReason{
		Reason: spatev1.ReasonGeneratorLimited, Message: fmt.Sprintf("%d flows started late (status.result.flows.late); generatorTolerance.late of 0.1%% allows %d of %d due", r.Flows.Late, r.Flows.Attempted/1000, r.Flows.Attempted),
	})
	checks := s.generator.Status.Pods[0].Preflight
	for i := range checks {
		switch checks[i].Check {
		case "CPUNotIsolated":
			checks[i].State, checks[i].Observed = spatev1.PreflightWarning, "neither isolcpus nor nohz_full has them"
			checks[i].Remedy = "boot the node with isolcpus=managed_irq,domain,LIST nohz_full=LIST rcu_nocbs=LIST, of the CPUs that the kubelet gives to pods exclusively (all but its reservedSystemCPUs)"
		case "CPUSharedWithSibling":
			checks[i].State, checks[i].Observed = spatev1.PreflightWarning, "the other thread of the core is for other containers"
			checks[i].Remedy = "let the kubelet give whole cores to pods (cpuManagerPolicyOptions: full-pcpus-only) and set spec.threadsPerCore of the generator to 1, or turn SMT off on the node (kernel argument nosmt)"
		}
	}
	slices.SortStableFunc(checks, func(a, b spatev1.PreflightCheck) int { // findings are first
		finding := map[spatev1.PreflightState]int{spatev1.PreflightOk: 1}
		return finding[a.State] - finding[b.State]
	})
	return s
}
