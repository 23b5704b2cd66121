// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: do clients on some pods reach servers on others, and do both count the same flows?

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/internal/plan"
)

// apart are two generators of two pods each on one link, and a profile for each: clients here, servers there (docs/stateful.md).
const apart = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: here}
spec:
  replicas: 2
  ports: [{name: link, attachment: {kernel: {network: lab}}, addresses: [198.18.0.1/24], lineRate: 1Gbps}]
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: there}
spec:
  replicas: 2
  ports: [{name: link, attachment: {kernel: {network: lab}}, addresses: [198.18.0.11/24], lineRate: 1Gbps}]
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: clients}
spec:
  generatorRef: {name: here}
  duration: 2s
  drain: 6s
  traffic:
  - name: web
    transmitPort: link
    application:
      inline:
        connectionRate: 100cps
        pools:
          clients: [{name: clients, start: 198.18.0.100, count: 40}]
          servers: [{name: servers, start: 198.18.0.200, count: 4}]
        source: {http: {responseBytes: 2048}}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: servers}
spec:
  generatorRef: {name: there}
  duration: 10s
  traffic:
  - name: web
    receivePort: link
    application:
      inline:
        connectionRate: 100cps
        pools:
          servers: [{name: servers, start: 198.18.0.200, count: 4}]
        source: {http: {responseBytes: 2048}}
`

// together is one generator with a group of pods for clients and one for servers, on one link, and one profile (docs/stateful.md); a stream is
// sent by the pods with the servers to the first pod, which counts it.
const together = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: lab}
spec:
  replicas: 4
  podGroups: [{name: clients, replicas: 2}, {name: servers, replicas: 2}]
  ports: [{name: link, attachment: {kernel: {network: lab}}, addresses: [198.18.0.1/24], lineRate: 1Gbps}]
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: both}
spec:
  generatorRef: {name: lab}
  duration: 2s
  drain: 6s
  traffic:
  - name: web
    transmitPort: link
    transmitPodGroup: clients
    receivePort: link
    receivePodGroup: servers
    application:
      inline:
        connectionRate: 100cps
        pools:
          clients: [{name: clients, start: 198.18.0.100, count: 40}]
          servers: [{name: servers, start: 198.18.0.200, count: 4}]
        source: {http: {responseBytes: 2048}}
  - name: probe
    transmitPort: link
    transmitPodGroup: servers
    receivePort: link
    stream:
      inline:
        packet:
          headers:
          - ethernet: {}
          - ipv4: {source: 198.18.0.3, destination: 198.18.0.1}
          - udp: {destinationPort: 7}
          size: 128
        startDelay: 1s
        transmit: {burst: {rate: 500pps, packets: 401}}
        measure: {flow: true}
`

// placed is an engine on a link, with a pod's part of a profile's plan.
type placed struct {
	profile      string
	index, count uint32
	address      string

	plan     []byte
	out, log bytes.Buffer
}

// All engines are on one bridge. Each of the two with clients connects to the servers of both others.
func TestClientsAreOnPodsOfOneGeneratorAndServersOnThoseOfAnother(t *testing.T) {
	t.Parallel()
	needsEngine(t)
	if os.Geteuid() != 0 {
		t.Skip("NO ROOT: links need it")
	}
	flowsBetween(t, apart, []*placed{
		{profile: "servers", index: 0, count: 2, address: "198.18.0.11/24"}, {profile: "servers", index: 1, count: 2, address: "198.18.0.12/24"},
		{profile: "clients", index: 0, count: 2, address: "198.18.0.1/24"}, {profile: "clients", index: 1, count: 2, address: "198.18.0.2/24"},
	})
}

// The engines are those of one run: the first two have clients, the others servers, and these send a stream.
func TestClientsAreOnOneGroupOfPodsAndServersOnAnother(t *testing.T) {
	t.Parallel()
	needsEngine(t)
	if os.Geteuid() != 0 {
		t.Skip("NO ROOT: links need it")
	}
	engines := []*placed{
		{profile: "both", index: 0, count: 4, address: "198.18.0.1/24"}, {profile: "both", index: 1, count: 4, address: "198.18.0.2/24"},
		{profile: "both", index: 2, count: 4, address: "198.18.0.3/24"}, {profile: "both", index: 3, count: 4, address: "198.18.0.4/24"},
	}
	var sent, received []uint64
	for _, stats := range flowsBetween(t, together, engines) {
		of := stats.Streams[0].Measured
		sent, received = append(sent, of.TxPackets), append(received, of.RxPackets)
		if of.Duplicates > 0 || of.OutOfOrder > 0 || of.Misdirected > 0 {
			t.Errorf("%v", of)
		}
	}
	if !slices.Equal(sent, []uint64{0, 0, 201, 200}) || !slices.Equal(received, []uint64{401, 0, 0, 0}) {
		t.Errorf("of 401 packets of the stream to the first engine, the engines sent %v and received %v", sent, received)
	}
}

// flowsBetween runs engines on one bridge, compares what clients and servers counted of 200 flows, and returns what each engine counted.
func flowsBetween(t *testing.T, manifests string, engines []*placed) (all []*enginev1.WatchStatsResponse) {
	t.Helper()
	var reader manifest.Reader
	reader.Read("roles.yaml", []byte(manifests))
	set, problems := reader.Done()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	files := offline.Files{Set: set, LineRate: offline.DefaultLineRate}
	for _, e := range engines {
		definition, err := files.Choose(e.profile, "")
		must(t, err)
		resolved, found := files.Resolve(definition)
		if len(found) > 0 {
			t.Fatal(found)
		}
		whole := definition.Plan(resolved)
		whole.Share = &enginev1.Share{Index: e.index, Count: e.count}
		e.plan, err = plan.Text(whole)
		must(t, err)
	}
	must(t, inOwnNetwork(func() error { return meetOnABridge(engines) }))

	var clients, servers spatev1.FlowCounters
	for _, e := range engines {
		stats := &enginev1.WatchStatsResponse{}
		if err := protojson.Unmarshal(e.out.Bytes(), stats); err != nil {
			t.Fatalf("%s %d: %v: %s", e.profile, e.index, err, e.log.String())
		}
		if len(stats.Templates) != 1 {
			t.Fatalf("%s %d: %d sides of a template", e.profile, e.index, len(stats.Templates))
		}
		all = append(all, stats)
		of, into := map[string]int64{}, &servers
		for _, counter := range stats.Templates[0].Counters {
			of[counter.Name] = int64(counter.Value)
		}
		if stats.Templates[0].Side == enginev1.Side_SIDE_CLIENT {
			into = &clients
		}
		into.Attempted += of["flows_attempted"] + of["flows_accepted"]
		into.Established += of["flows_established"]
		into.Closed += of["flows_closed"]
		into.BytesSent += of["sent_data_bytes"]
		into.BytesReceived += of["received_data_bytes"]
		if of["flows_closed"] == 0 {
			t.Errorf("%s %d took no part: %v: %s", e.profile, e.index, of, e.log.String())
		}
	}
	if clients.Attempted != 200 || clients.Established != 200 || clients.Closed != 200 {
		t.Errorf("of 200 flows, clients have %+v", clients)
	}
	if servers.Established != clients.Established || servers.Closed != clients.Closed || servers.BytesSent != clients.BytesReceived || servers.BytesReceived != clients.BytesSent {
		t.Errorf("clients have %+v, servers %+v", clients, servers)
	}
	return all
}

// meetOnABridge runs the engines at once. Clients whose servers are not there yet repeat their first segment.
func meetOnABridge(engines []*placed) error {
	links := [][]string{{"link", "add", "lab", "type", "bridge"}, {"link", "set", "lab", "up"}}
	for i := range engines {
		near, far := fmt.Sprint("near", i), fmt.Sprint("far", i)
		links = append(links, []string{"link", "add", near, "type", "veth", "peer", "name", far}, []string{"link", "set", far, "master", "lab"},
			[]string{"link", "set", near, "up"}, []string{"link", "set", far, "up"})
	}
	for _, args := range links {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	commands := make([]*exec.Cmd, len(engines))
	for i, e := range engines {
		commands[i] = inOwnProcesses(exec.Command(engineBinary(), "run", "--plan", "-", "--port", fmt.Sprintf("link=kernel:near%d", i), "--address", "link="+e.address,
			"--memory", "64M", "--hugepages", "none", "--poll-mode", "adaptive", "--output", "json"))
		commands[i].Stdin, commands[i].Stdout, commands[i].Stderr = bytes.NewReader(e.plan), &e.out, &e.log
		if err := commands[i].Start(); err != nil {
			return err
		}
	}
	var errs []error
	for i, command := range commands {
		// 1: the machine was too busy to be in time, which changes no count.
		if err := command.Wait(); err != nil && command.ProcessState.ExitCode() != 1 {
			errs = append(errs, fmt.Errorf("%s %d: %w: %s", engines[i].profile, engines[i].index, err, engines[i].log.String()))
		}
	}
	return errors.Join(errs...)
}
