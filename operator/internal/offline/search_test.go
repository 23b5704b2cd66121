// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"strings"
	"testing"
)

func TestExpressionsOfSearchesAreChecked(t *testing.T) {
	search := func(require, threshold string) string {
		return `apiVersion: spate.dev/v1alpha1
kind: TrafficSearch
metadata: {name: s}
spec:
  environment: Isolated
  profileRef: {name: smoke}
  load: {min: 1kpps}
  throughput: {goals: [{name: ndr, standard: RFC2544, require: ['` + require + `']}]}
  budget: {time: 1h}
  thresholds: [{name: t, expression: '` + threshold + `'}]
`
	}
	const holds = `search.variants["all"].goals["ndr"].regular`
	for _, c := range []struct{ require, threshold, want string }{
		{`trial.tx > 0`, holds, ""},
		{`trial.tx > `, holds, "spec.throughput.goals[0].require[0]: "},
		{`trial.streams["two"].tx > 0`, holds, "streams of the profile are one"},
		{`trial.streams["one"].latency.p99 < duration("1s")`, holds, "latency is not measured of stream one: set measure.latency"},
		{`trial.tx > 0`, `search.variants["64"].goals["ndr"].regular`, "spec.thresholds[0].expression: "},
	} {
		problems := files(t, profile, streamText, lab, search(c.require, c.threshold)).Check()
		if c.want == "" && len(problems) > 0 || c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want) || problems[0].Object != "TrafficSearch s") {
			t.Errorf("%s, %s: %v, want %q", c.require, c.threshold, problems, c.want)
		}
	}
}
