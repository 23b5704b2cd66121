// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// A value has one name in `result` of an expression and in `status.result` of a run. The lists below are the
// exceptions, which only one of the two has.
var (
	// Rates and sums that exist in expressions only.
	derived = []string{
		"txPps", "rxPps", "txBps", "rxBps", "streams.*.txPps", "streams.*.rxPps", "streams.*.txBps", "streams.*.rxBps", "receivers.*.pps", "receivers.*.bps",
		"flows.cps", "flows.bps", "flows.bytes", "flows.messages",
		"templates.*.client.cps", "templates.*.client.bps", "templates.*.client.bytes", "templates.*.client.messages",
		"templates.*.server.cps", "templates.*.server.bps", "templates.*.server.bytes", "templates.*.server.messages",
		"groups.*.client.cps", "groups.*.client.bps", "groups.*.client.bytes", "groups.*.client.messages",
		"groups.*.server.cps", "groups.*.server.bps", "groups.*.server.bytes", "groups.*.server.messages",
		// A number of pods, which the status lists.
		"records.filesNotWritten",
		// Every side has them; for all flows together they are empty.
		"flows.counters.*", "flows.connectTime", "flows.roundTrip", "flows.outage",
		// Of templates only, not of groups of them.
		"groups.*.client.outage", "groups.*.server.outage",
		// Of several pods only the mean is known.
		"clients.*.setupRate",
	}
	// For people to read, and references to the rest of a result.
	reported = []string{"clients.*.setupRate.min", "clients.*.setupRate.mean", "clients.*.setupRate.max", "worstLatency", "details", "receivers.*.workers", "records.pods", "clockBound", "streams.*.latency.clockBound", "streams.*.latency.oneWayUnknown", "streams.*.latency.message", "streams.*.outage.at", "templates.*.client.outage.at", "templates.*.server.outage.at"}
	// A Latency has them; times of flows have no jitter, and are of one pod's clock.
	withoutJitter = []string{"jitter", "jitterMean", "jitterMax", "clockBound", "oneWayUnknown", "message"}
)

func TestExpressionsAndStatusHaveTheSameNames(t *testing.T) {
	candidates, status := map[string]reflect.Type{}, map[string]reflect.Type{}
	ofExpressions(t, candidates, "", reflect.TypeFor[Result]())
	ofStatus(status, "", reflect.TypeFor[spatev1.RunResult]())
	onlyStatus := slices.Clone(reported)
	for _, side := range []string{"client", "server"} {
		for _, time := range []string{ConnectTime, RoundTrip} {
			for _, name := range withoutJitter {
				onlyStatus = append(onlyStatus, "templates.*."+side+"."+time+"."+name)
			}
		}
	}
	for _, time := range []string{"setupTime", "offerTime", "ackTime"} {
		for _, name := range withoutJitter {
			onlyStatus = append(onlyStatus, "clients.*."+time+"."+name)
		}
	}
	if got, want := missing(candidates, status), sorted(derived); !slices.Equal(got, want) {
		t.Errorf("only in expressions:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := missing(status, candidates), sorted(onlyStatus); !slices.Equal(got, want) {
		t.Errorf("only in the status:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, kind := range candidates {
		other, common := status[name]
		isTime, wasTime := kind == reflect.TypeFor[time.Duration](), other == reflect.TypeFor[spatev1.MeasuredTime]()
		if common && isTime != wasTime {
			t.Errorf("%s is of type %s in expressions, and %s in the status", name, kind, other)
		}
	}
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

func missing(of, in map[string]reflect.Type) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(of)), func(name string) bool { return in[name] != nil })
}

// timesOf returns the keys of a map of times.
func timesOf(path string) []string {
	switch {
	case strings.HasSuffix(path, ".outage") && !strings.HasPrefix(path, "flows.") && !strings.HasPrefix(path, "groups."):
		return OutageKeys
	case strings.HasSuffix(path, ".outage"):
		return nil
	case strings.HasPrefix(path, "streams."):
		return LatencyKeys
	case strings.HasSuffix(path, ".setupRate"):
		return nil
	case strings.HasPrefix(path, "templates."), strings.HasPrefix(path, "clients."):
		return DelayKeys
	case strings.HasPrefix(path, "flows."):
		return nil
	}
	return MomentKeys
}

// ofExpressions adds the types of the fields of `result`, by path.
func ofExpressions(t *testing.T, all map[string]reflect.Type, path string, kind reflect.Type) {
	switch {
	case kind == reflect.TypeFor[map[string]any]():
		for _, key := range timesOf(path) {
			all[path+"."+key] = reflect.TypeOf(noTimes([]string{key})[key])
		}
		if len(timesOf(path)) == 0 {
			all[path] = kind
		}
	case kind == reflect.TypeFor[map[string]Side](), kind == reflect.TypeFor[Group]():
		for _, side := range []string{Client, Server} {
			ofExpressions(t, all, path+"."+side, kind.Elem())
		}
	case kind.Kind() == reflect.Map:
		ofExpressions(t, all, path+".*", kind.Elem())
	case kind.Kind() == reflect.Struct:
		for i := range kind.NumField() {
			name := kind.Field(i).Tag.Get("cel")
			if name == "" {
				t.Errorf("%s.%s has no name in expressions", kind, kind.Field(i).Name)
			}
			ofExpressions(t, all, strings.TrimPrefix(path+"."+name, "."), kind.Field(i).Type)
		}
	default:
		all[path] = kind
	}
}

// ofStatus adds the types of the fields of a status, by path.
func ofStatus(all map[string]reflect.Type, path string, kind reflect.Type) {
	switch {
	case kind.Kind() == reflect.Pointer:
		ofStatus(all, path, kind.Elem())
	case kind == reflect.TypeFor[spatev1.ResultDetails](), kind == reflect.TypeFor[metav1.MicroTime]():
		all[path] = kind
	case kind.Kind() == reflect.Map:
		ofStatus(all, path+".*", kind.Elem())
	case kind.Kind() == reflect.Struct:
		for i := range kind.NumField() {
			name, options, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if options == "inline" {
				ofStatus(all, path, kind.Field(i).Type)
				continue
			}
			ofStatus(all, strings.TrimPrefix(path+"."+name, "."), kind.Field(i).Type)
		}
	default:
		all[path] = kind
	}
}
