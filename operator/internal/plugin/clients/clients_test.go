// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

var (
	leased = &enginev1.EmulatedClient{
		Group: "subs", Number: 3, Mac: []byte{2, 16, 0, 0, 0, 3}, State: "Bound", SetupNs: 12_400_000, Vlans: []*enginev1.VlanTag{{Id: 100}, {Id: 4}},
		Ipv4: &enginev1.EmulatedIpv4{Address: []byte{10, 98, 0, 13}, PrefixLen: 16, Gateway: []byte{10, 98, 0, 1}, GatewayMac: []byte{2, 0, 0, 0, 0, 1}, Server: []byte{10, 98, 0, 2}, LeaseLeftNs: proto.Uint64(598_000_000_000)},
	}
	failed = &enginev1.EmulatedClient{Group: "subs", Number: 1, Mac: []byte{2, 16, 0, 0, 0, 1}, State: "Failed", Cause: "NoOffer"}
)

func TestClientsAreShownByNumberWithWhatIsKnown(t *testing.T) {
	all := sorted([]listed{listedOf("g-1", leased), listedOf("g-0", failed)}, []spatev1.EntryName{"subs"}, 0)
	var out strings.Builder
	if err := shown(&spatev1.TrafficRun{}, all).Tables(&out, true); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"CLIENTS N MAC VLANS STATE CAUSE IPV4 SERVER LEASE LEFT IPV6 POD GATEWAY DELEGATED SETUP TIME",
		"subs 1 02:10:00:00:00:01 - Failed NoOffer - - - - g-0 - - -",
		"subs 3 02:10:00:00:00:03 100/4 Bound - 10.98.0.13/16 10.98.0.2 9m58s - g-1 10.98.0.1 - 12ms",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestTheLimitIsOfAllPods(t *testing.T) {
	all := sorted([]listed{{Clients: "b", Number: 0}, {Clients: "a", Number: 2}, {Clients: "a", Number: 1}}, []spatev1.EntryName{"a", "b"}, 2)
	if len(all) != 2 || all[0].Number != 1 || all[1].Number != 2 {
		t.Errorf("got %+v", all)
	}
}

func TestWhatCannotBeListedIsRefused(t *testing.T) {
	run := &spatev1.TrafficRun{}
	run.Name = "r"
	o := options{group: "others", states: []string{"bound"}}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "--state bound: must be one of [Idle Discovering") {
		t.Error(err)
	}
	if _, err := o.pods(run); err == nil || !strings.Contains(err.Error(), "it waits for its generator") {
		t.Error(err)
	}
	run.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Pods: []spatev1.PodSnapshot{{Name: "g-0"}, {Name: "g-1"}}}}
	if _, err := o.pods(run); err == nil || !strings.Contains(err.Error(), "run r has no clients; set spec.clients of its profile") {
		t.Error(err)
	}
	run.Status.Resolved.Clients = []spatev1.ClientsSnapshot{{Name: "subs"}}
	if _, err := o.pods(run); err == nil || !strings.Contains(err.Error(), "--clients others: must be one of [subs]") {
		t.Error(err)
	}
	o.group, o.pod = "subs", "g-1"
	if pods, err := o.pods(run); err != nil || len(pods) != 1 || pods[0] != "g-1" {
		t.Error(pods, err)
	}
}
