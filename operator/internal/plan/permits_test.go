// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/limits"
)

func TestARunIsJudgedByNarrowerLimitsAlone(t *testing.T) {
	then := spatev1.Limits{
		AllowedDestinations: []spatev1.CIDR{"16.0.0.0/8", "48.0.0.0/8", "10.0.0.0/24", "198.19.0.0/16"},
		AllowedPorts:        []spatev1.PortRange{"7", "80", "2152"},
	}
	captured := map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: recording(t, 2)}
	reflecting := profile()
	reflecting.Spec.Reflect = []spatev1.ReflectPort{{Port: "west"}}
	runs := map[string]Input{
		"replay":    {Profile: profile(entryOf("a", "east", "", replay())), Data: captured},
		"reflector": {Profile: reflecting},
		"mirrored": {Profile: profile(running("a", "one", "east", "west")), Templates: map[string]*spatev1.ASTFTemplate{
			"one": templateOf(t, webTemplate, tunnelled(", localCount: 2, mirror: true")...)}},
	}
	plans := map[string]*enginev1.Plan{}
	for name, in := range runs {
		in.Generator = generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = &then })
		plans[name] = mustResolve(t, in).Plan(Identity{RunID: "r"})
	}
	for name, c := range map[string]struct {
		change func(*spatev1.Limits)
		want   map[string]string // of the runs that end
	}{
		"a prefix more": {func(l *spatev1.Limits) { l.AllowedDestinations = append(l.AllowedDestinations, "fd00::/8") }, nil},
		"wider prefixes": {func(l *spatev1.Limits) {
			l.AllowedDestinations = []spatev1.CIDR{"0.0.0.0/0"}
		}, nil},
		"a port more":       {func(l *spatev1.Limits) { l.AllowedPorts = append(l.AllowedPorts, "9") }, nil},
		"no list of ports":  {func(l *spatev1.Limits) { l.AllowedPorts = nil }, nil},
		"a rate":            {func(l *spatev1.Limits) { l.MaxRate = "1kpps" }, nil},
		"a rate and a port": {func(l *spatev1.Limits) { l.MaxRate, l.AllowedPorts = "1kpps", append(l.AllowedPorts, "9") }, nil},
		"less around the tunnels": {func(l *spatev1.Limits) { l.AllowedDestinations[2] = "10.0.0.0/30" }, map[string]string{
			"replay":    "spec.traffic: entry a: where the packets of a capture go was not checked against this limit when the run began; generator lab allows only 16.0.0.0/8, 48.0.0.0/8, 10.0.0.0/30, 198.19.0.0/16 (its spec.limits.allowedDestinations)",
			"reflector": "spec.traffic: port west sends back to where it might when the run began; generator lab allows only 16.0.0.0/8, 48.0.0.0/8, 10.0.0.0/30, 198.19.0.0/16 (its spec.limits.allowedDestinations)",
		}},
		"not back to the second gNB": {func(l *spatev1.Limits) {
			l.AllowedDestinations = []spatev1.CIDR{"16.0.0.0/8", "48.0.0.0/8", "10.0.0.1/32", "10.0.0.2/32"}
		}, map[string]string{
			"replay": "allowedDestinations", "reflector": "allowedDestinations",
			"mirrored": "spec.traffic: entry a: mirrored tunnels lead back to 10.0.0.2 and on; generator lab allows only 16.0.0.0/8, 48.0.0.0/8, 10.0.0.1/32, 10.0.0.2/32 (its spec.limits.allowedDestinations)",
		}},
		"not to the UPF": {func(l *spatev1.Limits) { l.AllowedDestinations[2] = "10.0.0.2/31" }, map[string]string{
			"replay": "allowedDestinations", "reflector": "allowedDestinations", "mirrored": "entry a: tunnels lead to 10.0.0.1;",
		}},
		"not to the port of tunnels": {func(l *spatev1.Limits) { l.AllowedPorts = []spatev1.PortRange{"80"} }, map[string]string{
			"replay":    "where the packets of a capture go was not checked against this limit when the run began; generator lab allows only 80 (its spec.limits.allowedPorts)",
			"reflector": "port west sends back to where it might when the run began; generator lab allows only 80 (its spec.limits.allowedPorts)",
			"mirrored":  "spec.traffic: entry a: tunnels are of UDP to port 2152; generator lab allows only 80 (its spec.limits.allowedPorts)",
		}},
		"not to the clients' port": {func(l *spatev1.Limits) { l.AllowedPorts = []spatev1.PortRange{"7", "2152"} }, map[string]string{
			"replay": "allowedPorts", "reflector": "allowedPorts", "mirrored": "entry a: clients connect to port 80;",
		}},
	} {
		for run, p := range plans {
			t.Run(name+", "+run, func(t *testing.T) {
				now := *then.DeepCopy()
				c.change(&now)
				problems := limits.Permits(p, "lab", limits.Narrowed(&now, &then))
				want := c.want[run]
				if (want == "") != (len(problems) == 0) || !strings.Contains(problems.Message(), want) {
					t.Errorf("got %q, want %q", problems.Message(), want)
				}
				if want != "" && problems.Reason() != spatev1.ReasonLimitExceeded {
					t.Errorf("reason %s", problems.Reason())
				}
			})
		}
	}
}

// Tunnels without a mirror lead to a real UPF, at the same port.
func TestTunnelsNeedTheirPortWhileARunIsUnderWay(t *testing.T) {
	then := &spatev1.Limits{AllowedPorts: []spatev1.PortRange{"80", "2152"}}
	for name, c := range map[string]struct {
		changes []string
		want    string
	}{
		"tunnels":    {tunnelled(""), "entry a: tunnels are of UDP to port 2152; generator lab allows only 80"},
		"no tunnels": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := running("a", "one", "east", "")
			p := mustResolve(t, Input{
				Profile: profile(e), Generator: generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = then }),
				Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate, c.changes...)},
			}).Plan(Identity{RunID: "r"})
			problems := limits.Permits(p, "lab", limits.Narrowed(&spatev1.Limits{AllowedPorts: []spatev1.PortRange{"80"}}, then))
			if (c.want == "") != (len(problems) == 0) || !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %q, want %q", problems.Message(), c.want)
			}
		})
	}
}

func TestACaptureOnAVolumeEndsUnderARateWhereThereWasNone(t *testing.T) {
	withVolume := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Volumes = []spatev1.GeneratorVolume{{Name: "captures"}} })
	p := mustResolve(t, Input{Profile: profile(entryOf("a", "east", "", replay(fromVolume("a")))), Generator: withVolume}).Plan(Identity{RunID: "r"})
	problems := limits.Permits(p, "lab", limits.Narrowed(&spatev1.Limits{MaxRate: "1kpps"}, nil))
	if want := "entry a: how fast a capture on a volume is sent cannot be determined; generator lab allows 1kpps"; !strings.Contains(problems.Message(), want) {
		t.Errorf("got %q, want %q", problems.Message(), want)
	}
}
