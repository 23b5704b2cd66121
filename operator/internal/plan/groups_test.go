// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/api/v1alpha1"
)

// grouped gives ports two worker groups: east and west are in different ones.
func grouped(g *spatev1.TrafficGenerator) {
	g.Spec.Workers = 3
	g.Spec.WorkerGroups = []spatev1.WorkerGroup{
		{Name: "a", Ports: []spatev1.PortName{"east", "loop", "void"}, Workers: 1},
		{Name: "b", Ports: []spatev1.PortName{"west"}, Workers: 2},
	}
}

func TestClientsOfTwoWorkerGroupsDoNotShareAddresses(t *testing.T) {
	const refused = "spec.traffic[1].application.templateRef: its clients at west (worker group b) have addresses of those of spec.traffic[0] at east (worker group a), and could open the same connections: give the clients of each worker group pools of their own, or set portPairOffset"
	offset := []string{"portPairOffset: 1.0.0.0, ", ""}
	both := []spatev1.TrafficEntry{running("a", "one", "east", "west"), running("b", "one", "west", "east")}
	for name, c := range map[string]struct {
		entries   []spatev1.TrafficEntry
		one, two  []string
		ungrouped bool
		want      string
	}{
		"the same addresses":                     {entries: both, one: offset, want: refused},
		"without groups":                         {entries: both, one: offset, ungrouped: true},
		"with an offset for each pair of ports":  {entries: both},
		"an offset that is too small":            {entries: both, one: []string{"portPairOffset: 1.0.0.0", "portPairOffset: 0.0.0.253"}, want: refused},
		"servers with an offset":                 {entries: both, one: append([]string{"seed: 7", "seed: 7, portPairOffset: 1.0.0.0"}, offset...)},
		"to another port":                        {entries: []spatev1.TrafficEntry{both[0], running("b", "two", "west", "east")}, one: offset, two: append([]string{"destinationPort: 80", "destinationPort: 81"}, offset...)},
		"by two templates":                       {entries: []spatev1.TrafficEntry{both[0], running("b", "two", "west", "east")}, one: offset, two: offset, want: refused},
		"on ports of one group":                  {entries: []spatev1.TrafficEntry{both[0], running("b", "one", "loop", "loop")}, one: offset},
		"clients of one, and servers of another": {entries: both[:1], one: offset},
	} {
		t.Run(name, func(t *testing.T) {
			g := generator(grouped)
			if c.ungrouped {
				g = generator()
			}
			_, problems := Resolve(Input{Profile: profile(c.entries...), Generator: g, Templates: map[string]*spatev1.ASTFTemplate{
				"one": templateOf(t, webTemplate, c.one...), "two": templateOf(t, webTemplate, c.two...),
			}})
			switch {
			case c.want == "" && len(problems) > 0:
				t.Errorf("refused: %v", problems)
			case c.want != "" && (len(problems) != 1 || !strings.HasPrefix(problems.Message(), c.want)):
				t.Errorf("got %v, want %s", problems, c.want)
			}
		})
	}
}

// TestPlansAreTheSameWithWorkerGroups checks that groups are the engine's concern: which packets are sent does not depend on them.
func TestPlansAreTheSameWithWorkerGroups(t *testing.T) {
	in := Input{Profile: profile(entryOf("s", "east", "west", streamOf("1kpps", 64))), Generator: generator()}
	without := mustResolve(t, in).Plan(Identity{RunID: "r"})
	in.Generator = generator(grouped)
	if got := mustResolve(t, in).Plan(Identity{RunID: "r"}); !proto.Equal(got, without) {
		t.Errorf("got\n%v\nwant\n%v", got, without)
	}
}
