// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

const clientSide, serverSide = enginev1.Side_SIDE_CLIENT, enginev1.Side_SIDE_SERVER

func side(template string, side enginev1.Side, open uint64, counters map[string]uint64) *enginev1.TemplateStats {
	t := &enginev1.TemplateStats{Template: template, Group: template, Side: side, OpenFlows: open}
	for name, value := range counters {
		t.Counters = append(t.Counters, &enginev1.NamedCounter{Name: name, Value: value})
	}
	return t
}

// twoEngines execute a template with both sides, and one with real clients on the second of them.
func twoEngines() []*enginev1.WatchStatsResponse {
	first := side("http", clientSide, 2, map[string]uint64{
		"flows_attempted": 100, "flows_established": 97, "flows_closed": 98, "sent_data_bytes": 1000, "received_data_bytes": 9000, "sent_packets": 500,
		"received_packets": 400, "retransmitted_packets": 3, "syn_timeouts": 2, "resets_received": 1, "connect_drops": 2, "flows_aborted": 1, "flows_late": 4,
	})
	first.ConnectTime = &enginev1.LatencyStats{Count: 97, SumNs: 97 * 1000, MinNs: 900, MaxNs: 5000, Quantiles: []*enginev1.Quantile{{PartsPerMillion: 990000, Ns: 4000}}}
	second := side("http", clientSide, 1, map[string]uint64{"flows_attempted": 50, "flows_established": 50, "flows_closed": 49, "flows_closed_early": 1, "flows_not_started": 6, "flows_throttled": 1000, "icmp_errors": 2})
	first.ProgramCounters = []*enginev1.ProgramCounter{{Name: "pages", Value: 90, Warmup: 10}, {Name: "errors"}}
	second.ProgramCounters = []*enginev1.ProgramCounter{{Name: "pages", Value: 45, Warmup: 5}, {Name: "errors", Value: 1}}
	second.ConnectTime = &enginev1.LatencyStats{Count: 50, SumNs: 50 * 1000, MinNs: 800, MaxNs: 3000, Quantiles: []*enginev1.Quantile{{PartsPerMillion: 990000, Ns: 4500}}}
	return []*enginev1.WatchStatsResponse{
		{Templates: []*enginev1.TemplateStats{first, side("http", serverSide, 3, map[string]uint64{"flows_accepted": 99, "flows_established": 98, "sent_packets": 300, "flows_exhausted": 7})}},
		{Templates: []*enginev1.TemplateStats{second, side("dns", serverSide, 0, map[string]uint64{"flows_accepted": 20, "flows_established": 20, "flows_closed": 20, "messages_received": 20, "messages_sent": 19, "message_bytes_sent": 190, "flows_idle_timeouts": 1})}},
	}
}

func TestTemplatesOfSeveralEngines(t *testing.T) {
	all := templates(twoEngines())
	if len(all) != 2 || all["dns"].Server == nil || all["dns"].Client != nil || all["http"].Client == nil || all["http"].Server == nil {
		t.Fatalf("got %+v", all)
	}
	http := all["http"].Client
	want := spatev1.FlowCounters{
		Attempted: 150, Established: 147, Closed: 147, Open: 3, BytesSent: 1000, BytesReceived: 9000, PacketsSent: 500, PacketsReceived: 400,
		Retransmitted: 5, Reset: 1, TimedOut: 2, ClosedEarly: 1, Aborted: 1, Failed: 5, Errors: 2, Late: 4, NotStarted: 6, Throttled: 1000,
	}
	if http.FlowCounters != want {
		t.Errorf("got  %+v\nwant %+v", http.FlowCounters, want)
	}
	if c := http.ConnectTime; c == nil || c.Count != 147 || c.Mean != 1000 || c.Min != 800 || c.Max != 5000 || c.P99 != 4500 || http.RoundTrip != nil {
		t.Errorf("connect time %+v, round trip %+v", c, http.RoundTrip)
	}
	if got := http.Counters; len(got) != 2 || got["pages"] != 120 || got["errors"] != 1 || all["http"].Server.Counters != nil {
		t.Errorf("counters of programs: clients %v, servers %v", got, all["http"].Server.Counters)
	}
	if dns := all["dns"].Server; dns.IdleTimeouts != 1 || dns.Failed != 0 || dns.MessagesReceived != 20 || dns.BytesSent != 190 {
		t.Errorf("a server's flow that ends by silence has not failed: %+v", dns.FlowCounters)
	}
	if flows := flowsOf(all); flows.Attempted != 170 || flows.Established != 167 || flows.Failed != 5 || flows.Exhausted != 7 || flows.Throttled != 1000 || flows.Open != 3 {
		t.Errorf("each flow is there once: %+v", *flows)
	}
	if flowsOf(nil) != nil {
		t.Error("there are no flows without templates")
	}
	if lost := templates([]*enginev1.WatchStatsResponse{{Templates: []*enginev1.TemplateStats{side("dns", clientSide, 0, map[string]uint64{"flows_idle_timeouts": 3})}}}); lost["dns"].Client.Failed != 3 {
		t.Errorf("a client without an answer has failed: %+v", *lost["dns"].Client)
	}
}

// http is on both engines with both sides, dns on the second with servers.
func TestGroupsSumTheirTemplatesAndHaveNoPercentiles(t *testing.T) {
	stats := twoEngines()
	all := groups(stats, map[string]string{"http": "web", "dns": "web"})
	web := all["web"]
	if len(all) != 1 || web.Client == nil || web.Server == nil {
		t.Fatalf("got %+v", all)
	}
	byTemplate := templates(stats)
	dns, http := byTemplate["dns"], byTemplate["http"]
	if web.Client.FlowCounters != http.Client.FlowCounters {
		t.Errorf("only http has clients: %+v", web.Client.FlowCounters)
	}
	server := web.Server
	if server.Attempted != 99+20 || server.Established != dns.Server.Established+http.Server.Established || server.IdleTimeouts != 1 || server.Failed != 0 || server.Exhausted != 7 || server.Open != 3 || server.MessagesReceived != 20 {
		t.Errorf("servers %+v", server.FlowCounters)
	}
	want := spatev1.Moments{Count: 147, Mean: 1000, Min: 800, Max: 5000}
	if c := web.Client.ConnectTime; c == nil || *c != want || server.ConnectTime != nil || web.Client.RoundTrip != nil {
		t.Errorf("got %+v, want %+v, and nothing that was not measured", c, want)
	}
	if one := groups(stats, map[string]string{"dns": "names"}); len(one) != 1 || one["names"].Client != nil || one["names"].Server.FlowCounters != dns.Server.FlowCounters {
		t.Errorf("http names no group, and is in none: %+v", one)
	}
}

// The mean is of all flows, not of templates.
func TestTimesOfAGroupAreThoseOfAllItsFlows(t *testing.T) {
	of := func(template string, each ...uint64) *enginev1.TemplateStats {
		times := &enginev1.LatencyStats{MinNs: slices.Min(each), MaxNs: slices.Max(each)}
		for _, ns := range each {
			times.Count, times.SumNs, times.SumSquaresLow = times.Count+1, times.SumNs+ns, times.SumSquaresLow+ns*ns
		}
		t := side(template, clientSide, 0, nil)
		t.RoundTrip = times
		return t
	}
	all := groups([]*enginev1.WatchStatsResponse{
		{Templates: []*enginev1.TemplateStats{of("a", 100, 100, 100), of("b", 500)}},
	}, map[string]string{"a": "g", "b": "g"})
	if got, want := *all["g"].Client.RoundTrip, (spatev1.Moments{Count: 4, Mean: 200, Deviation: 173, Min: 100, Max: 500}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The side that waited for the message resets the connection and counts it so; its peer is reset.
func TestABrokenMessageFailsItsFlowOnce(t *testing.T) {
	for name, c := range map[string]struct{ client, server string }{
		"at the client": {"http_errors", "resets_received"},
		"at the server": {"resets_received", "http_errors"},
	} {
		t.Run(name, func(t *testing.T) {
			result := resultOf([]*enginev1.WatchStatsResponse{{Templates: []*enginev1.TemplateStats{
				side("web", clientSide, 0, map[string]uint64{"flows_attempted": 10, "flows_established": 10, "flows_closed": 10, "resets_sent": 4, c.client: 4}),
				side("web", serverSide, 0, map[string]uint64{"flows_accepted": 10, "flows_established": 10, "flows_closed": 10, "resets_sent": 4, c.server: 4}),
			}}}, &storage.Facts{}, admitted("g-0"))
			client, server := result.Templates["web"].Client, result.Templates["web"].Server
			if client.Failed != 4 || server.Failed != 4 || result.Flows.Failed != 4 {
				t.Errorf("%d failed at clients, %d at servers, %d in all", client.Failed, server.Failed, result.Flows.Failed)
			}
			if client.HTTPErrors+server.HTTPErrors != 4 || client.Errors != client.HTTPErrors || server.Errors != server.HTTPErrors {
				t.Errorf("client %+v, server %+v", client.FlowCounters, server.FlowCounters)
			}
			r := admitted()
			r.Status.Resolved.Thresholds = []spatev1.Threshold{{Name: "none-failed", Expression: "result.flows.failed == 0"}}
			if v := judge(r, result, compared{}, nil, nil, ""); v.Outcome != spatev1.VerdictFailed {
				t.Errorf("%+v", v)
			}
		})
	}
}

// An engine after its warm-up, and one in its warm-up.
func TestWhatTemplatesDoInTheWarmupIsNoResult(t *testing.T) {
	over := side("http", clientSide, 3, map[string]uint64{"flows_attempted": 100, "flows_established": 90, "flows_closed": 97, "connect_drops": 7, "flows_late": 5, "sent_packets": 900})
	over.Warmup = side("", clientSide, 0, map[string]uint64{"flows_attempted": 40, "flows_established": 31, "flows_closed": 35, "connect_drops": 7, "flows_late": 5, "sent_packets": 300}).Counters
	in := side("http", clientSide, 2, map[string]uint64{"flows_attempted": 9, "flows_established": 9, "flows_closed": 7, "resets_received": 2, "sent_packets": 80})
	in.Warmup = in.Counters
	stats := []*enginev1.WatchStatsResponse{{Templates: []*enginev1.TemplateStats{over}}, {Templates: []*enginev1.TemplateStats{in}}}
	result := resultOf(stats, &storage.Facts{}, admitted("g-0", "g-1"))
	if want := (spatev1.FlowCounters{Attempted: 60, Established: 59, Closed: 62, Open: 5, PacketsSent: 600}); *result.Flows != want {
		t.Errorf("got  %+v\nwant %+v", *result.Flows, want)
	}
	// Current rates continue across the end of the warm-up.
	if now := sampleOf(stats); now.flows != 99 || now.tx != 980 {
		t.Errorf("got %+v", now)
	}
}

func TestVerdictOnTemplates(t *testing.T) {
	stats := twoEngines()
	for name, c := range map[string]struct {
		tolerance  spatev1.GeneratorTolerance
		thresholds []string
		outcome    spatev1.VerdictOutcome
		words      []string
	}{
		"without thresholds failed flows are no fault": {
			spatev1.GeneratorTolerance{Late: "100%", TxDropped: "10%", RxMissed: "0"}, nil,
			spatev1.VerdictPassed, []string{"170 flows attempted, 167 established, 5 failed, 1000 throttled by maxConcurrentFlows; there are no thresholds"},
		},
		"failed": {
			spatev1.GeneratorTolerance{Late: "100%", TxDropped: "10%", RxMissed: "0"}, []string{`result.flows.failed == 0`},
			spatev1.VerdictFailed, []string{"result.flows.failed is 5"},
		},
		"by template and side": {
			spatev1.GeneratorTolerance{Late: "100%", TxDropped: "10%", RxMissed: "0"},
			[]string{`result.templates["http"].client.connectTime.p99 < duration('5us')`, `result.templates["http"].client.cps == 49.0`, `result.templates.all(n, t, t.all(s, side, side.exhausted < 8))`, `result.templates["dns"].server.messages == 39`, `result.flows.throttled == result.templates["http"].client.throttled`},
			spatev1.VerdictPassed, []string{"5 thresholds hold"},
		},
		"by group": {
			spatev1.GeneratorTolerance{Late: "100%", TxDropped: "10%", RxMissed: "0"},
			[]string{`result.groups["web"].client.connectTime.mean == duration('1us')`, `result.groups["web"].server.attempted == 119`, `result.groups["web"].client.cps == 49.0`, `result.groups.all(n, g, g.server.failed == 0)`},
			spatev1.VerdictPassed, []string{"4 thresholds hold"},
		},
		"not measured": {
			spatev1.GeneratorTolerance{Late: "100%", TxDropped: "10%", RxMissed: "0"}, []string{`result.templates["http"].client.roundTrip.p99 < duration('5us')`},
			spatev1.VerdictFailed, []string{"no such time was measured"},
		},
		"the generator was the limit": {
			spatev1.GeneratorTolerance{Late: "2%", TxDropped: "6", RxMissed: "0"}, nil,
			spatev1.VerdictInvalid, []string{"7 flows found no room in the flow table, or no free port", "generatorTolerance.txDropped of 6 allows 6 of 183 due", "4 flows started late", "2% allows 3 of 183 due"},
		},
		"flows that did not begin": {
			spatev1.GeneratorTolerance{Late: "3%", TxDropped: "5", RxMissed: "0"}, nil,
			spatev1.VerdictInvalid, []string{"6 flows did not start before the end", "7 flows found"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := admitted("g-0", "g-1")
			r.Status.Resolved.GeneratorTolerance = c.tolerance
			for _, e := range c.thresholds {
				r.Status.Resolved.Thresholds = append(r.Status.Resolved.Thresholds, spatev1.Threshold{Name: "t", Expression: e})
			}
			result := resultOf(stats, &storage.Facts{Groups: map[string]string{"http": "web", "dns": "web"}}, r)
			result.Duration = spatev1.MeasuredTime(3 * time.Second)
			v := judge(r, result, compared{}, nil, nil, "")
			_, message := primary(&v)
			if v.Outcome != c.outcome {
				t.Errorf("%s: %s", v.Outcome, message)
			}
			for _, w := range c.words {
				if !strings.Contains(message, w) {
					t.Errorf("no %q in %q", w, message)
				}
			}
		})
	}
}

// The engine omits counters that are 0, so a wrong name would go unnoticed.
func TestTheEngineCountsByTheseNames(t *testing.T) {
	source, err := os.ReadFile("../../../../engine/stateful/src/counters.rs")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, found := range regexp.MustCompile(`(?m)^    [A-Z][A-Za-z]+ "([a-z_]+)" "`).FindAllStringSubmatch(string(source), -1) {
		known = append(known, found[1])
	}
	requested := []string{attempted[clientSide], attempted[serverSide], recordsDropped}
	for _, sum := range counted {
		requested = append(requested, sum.names...)
	}
	for _, name := range requested {
		if !slices.Contains(known, name) {
			t.Errorf("the engine has no counter %s among its %d", name, len(known))
		}
	}
}

// Every counter of the API is summed up, each into its own field.
func TestAllCountersAreSummed(t *testing.T) {
	c := &spatev1.FlowCounters{}
	fields := map[*int64]bool{&c.Attempted: true, &c.Open: true, &c.Failed: true}
	for _, sum := range counted {
		fields[sum.into(c)] = true
	}
	if want := reflect.TypeFor[spatev1.FlowCounters]().NumField(); len(fields) != want || len(counted)+3 != want {
		t.Errorf("%d fields are summed by %d sums, want %d", len(fields), len(counted)+3, want)
	}
}

// The dashboard's panel of failed flows has what `failed` sums up; idle timeouts of servers are not failures.
func TestTheDashboardShowsEveryWayToFail(t *testing.T) {
	text, err := os.ReadFile("../../../../dashboards/applications.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, panel := range dashboard.Panels {
		if panel.Title == "Flows that failed" {
			for _, target := range panel.Targets {
				metric := regexp.MustCompile(`spate_template_(\w+)_total\{`).FindStringSubmatch(target.Expr)
				shown = append(shown, metric[1])
				if ofClients := strings.Contains(target.Expr, `role="client"`); ofClients != (metric[1] == "flows_idle_timeouts") {
					t.Errorf("%s: of clients only: %v", metric[1], ofClients)
				}
			}
		}
	}
	for _, counter := range counted {
		for _, name := range counter.names {
			one := templates([]*enginev1.WatchStatsResponse{{Templates: []*enginev1.TemplateStats{side("t", clientSide, 0, map[string]uint64{name: 1})}}})
			if failed := one["t"].Client.Failed == 1; failed != slices.Contains(shown, name) {
				t.Errorf("%s: failed %v, in the panel %v", name, failed, !failed)
			}
		}
	}
}
