// SPDX-License-Identifier: Apache-2.0

// Package nic runs the engine's image with drivers of real NICs, in an emulated machine: offloads, receive-side
// scaling, and virtual functions.
package nic

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// result of one run of the engine's program.
type result struct {
	// stats is the last response of WatchStats.
	stats struct {
		Ports []struct {
			Port string
			// TxSegmentedFrames counts frames that the device segmented.
			TxSegmentedFrames uint64 `json:",string"`
			// OtherMACPackets were for another station.
			OtherMACPackets uint64 `json:",string"`
		}
		Workers []struct {
			// Flows counts packets by how they reached the worker that has their flow.
			Flows struct {
				RSS       uint64 `json:",string"`
				Placed    uint64 `json:",string"`
				HandedOff uint64 `json:",string"`
				Lost      uint64 `json:",string"`
			}
		}
		Templates []struct {
			Template string
			Side     string
			Counters []struct {
				Name  string
				Value uint64 `json:",string"`
			}
		}
		Streams []struct {
			Name     string
			Measured struct {
				TxPackets uint64 `json:",string"`
				RxPackets uint64 `json:",string"`
			}
		}
	}
	// opened is what the log says about each port.
	opened map[string]opened
	log    string
	// unread is why there are no stats.
	unread error
}

type opened struct{ Driver, Offloads, Steering string }

// counter returns a counter of a template's side.
func (r *result) counter(template, side, name string) uint64 {
	for _, t := range r.stats.Templates {
		if t.Template != template || t.Side != side {
			continue
		}
		for _, c := range t.Counters {
			if c.Name == name {
				return c.Value
			}
		}
	}
	return 0
}

const (
	client = "SIDE_CLIENT"
	server = "SIDE_SERVER"
)

func TestNIC(t *testing.T) {
	results := boot(t)
	all, v4 := allFlows("pages", "pages6", "questions"), allFlows("pages", "questions")
	for _, c := range []struct {
		name  string
		want  opened
		check []func(*testing.T, *result)
	}{
		{
			"shared-out",
			opened{"net_e1000_igb", "tcp-segmentation, rx-checksum", "as computed"},
			[]func(*testing.T, *result){all, isCut, isSpreadByRSS},
		},
		{
			"all-offloads",
			opened{"net_e1000_igb", "tx-checksum, tcp-segmentation, rx-checksum", "one queue"},
			[]func(*testing.T, *result){all, isCut},
		},
		{"no-offloads", opened{"net_e1000_igb", "none", "one queue"}, []func(*testing.T, *result){all, isNotCut}},
		{
			"functions",
			opened{"net_e1000_igb_vf", "tcp-segmentation, rx-checksum", "one queue"},
			[]func(*testing.T, *result){v4},
		},
		{
			"own-mac",
			opened{"net_e1000_igb", "tcp-segmentation, rx-checksum", "one queue"},
			[]func(*testing.T, *result){all, isGivenItsMAC},
		},
		{
			"function-own-mac",
			opened{"net_e1000_igb_vf", "tcp-segmentation, rx-checksum", "one queue"},
			[]func(*testing.T, *result){v4, isGivenItsMAC},
		},
		{"virtio", opened{"net_virtio", "none", "one queue"}, []func(*testing.T, *result){all}},
		{"vmxnet3", opened{"net_vmxnet3", "none", "one queue"}, []func(*testing.T, *result){all}},
		{"e1000e", opened{"net_e1000_em", "rx-checksum", "one queue"}, []func(*testing.T, *result){all}},
		{"streams", opened{"net_e1000_igb_vf", "tcp-segmentation, rx-checksum", "one queue"}, []func(*testing.T, *result){allPackets, isGivenBack}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := results[c.name]
			if r == nil {
				t.Fatalf("it was not run: the job ended before")
			}
			if r.unread != nil {
				t.Fatalf("no result (%v); the engine said:\n%s", r.unread, r.log)
			}
			for _, port := range []string{"east", "west"} {
				if got := r.opened[port]; got != c.want {
					t.Errorf("port %s was opened as %+v, want %+v", port, got, c.want)
				}
			}
			for _, check := range c.check {
				check(t, r)
			}
			if t.Failed() {
				t.Logf("the engine said:\n%s", r.log)
			}
		})
	}
	// The host has set the function's MAC, and refuses another one: packets to the port's MAC are not received, and the
	// run is refused.
	t.Run("function-untrusted", func(t *testing.T) {
		if r := results["function-untrusted"]; r == nil || r.unread == nil || !strings.Contains(r.log, "port east: next hop 198.19.128.1 did not answer") {
			t.Errorf("with a MAC that the device does not take: %+v", r)
		}
	})
}

// killed is the last line of a run of the engine that did not end by itself in time (guest/init).
const killed = "--- ended with 137"

// boot runs the job in the machine and reads its results. It repeats once if the machine does not boot, or a run does
// not end, which happens occasionally with emulated devices.
func boot(t *testing.T) map[string]*result {
	archive, plugin, folder := os.Getenv("ENGINE_ARCHIVE"), os.Getenv("KUBECTL_SPATE"), os.Getenv("NIC_FOLDER")
	if archive == "" || plugin == "" || folder == "" {
		t.Fatal("ENGINE_ARCHIVE, KUBECTL_SPATE or NIC_FOLDER is not set: see make nic")
	}
	job, err := os.ReadFile("job")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "job"), job)
	for _, profile := range []string{"flows", "flows-v4", "streams"} {
		out, err := exec.Command(plugin, "plan", "--profile", profile, "plans/flows.yaml", "plans/streams.yaml").Output()
		if err != nil {
			t.Fatalf("%s cannot be planned: %v", profile, err)
		}
		write(t, filepath.Join(folder, profile+".plan"), out)
	}
	for try := 1; ; try++ {
		machine := exec.Command("./machine", archive, folder)
		machine.Stdout, machine.Stderr = os.Stdout, os.Stderr
		err := machine.Run()
		printed, unread := os.ReadFile(filepath.Join(folder, "results"))
		ended := err == nil && unread == nil && strings.HasSuffix(string(printed), "=== end\n")
		if ended && (try == 2 || !strings.Contains(string(printed), killed)) {
			return parse(string(printed))
		}
		if try == 2 {
			t.Fatalf("the machine did not come to the job's end (%v); its console and results are in %s; the results end with:\n%s",
				err, folder, printed[max(0, len(printed)-4000):])
		}
		t.Logf("what it printed ends with:\n%s", printed[max(0, len(printed)-4000):])
		t.Logf("the machine did not come to the job's end (%v): once more", err)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func parse(printed string) map[string]*result {
	all := map[string]*result{}
	for part := range strings.SplitSeq(printed, "=== ") {
		name, rest, _ := strings.Cut(part, "\n")
		stats, log, ended := strings.Cut(rest, "--- ended with ")
		if !ended {
			continue
		}
		r := &result{log: log, opened: map[string]opened{}}
		r.unread = json.Unmarshal([]byte(stats), &r.stats)
		for line := range strings.Lines(log) {
			var event struct {
				opened
				Message, Port string
			}
			if json.Unmarshal([]byte(line), &event) == nil && event.Message == "opened" {
				r.opened[event.Port] = event.opened
			}
		}
		all[name] = r
	}
	return all
}

// exchanges are the bytes of a flow's request and response by template, and the counter of those received.
var exchanges = map[string]struct {
	asked, got uint64
	came       string
}{
	"pages":     {100, 100_000, "received_data_bytes"},
	"pages6":    {100, 100_000, "received_data_bytes"},
	"questions": {40, 300, "message_bytes_received"},
}

// allFlows checks that every flow of these templates ended with every byte, and that what one side sent the other
// received.
func allFlows(templates ...string) func(*testing.T, *result) {
	return func(t *testing.T, r *result) {
		for _, template := range templates {
			exchange := exchanges[template]
			flows := r.counter(template, client, "flows_attempted")
			if flows == 0 {
				t.Errorf("%s: no flow began", template)
			}
			for _, want := range []struct {
				side, counter string
				value         uint64
			}{
				{client, "flows_closed", flows},
				{server, "flows_closed", flows},
				{client, exchange.came, flows * exchange.got},
				{server, exchange.came, flows * exchange.asked},
				{client, "bad_checksums", 0},
				{server, "bad_checksums", 0},
			} {
				if got := r.counter(template, want.side, want.counter); got != want.value {
					t.Errorf("%s: %s of %s is %d, want %d", template, want.counter, want.side, got, want.value)
				}
			}
			// Includes segments of frames that the device segmented. Emulated NICs silently drop packets when they are
			// overloaded; these were retransmitted.
			for from, to := range map[string]string{client: server, server: client} {
				sent, again := r.counter(template, from, "sent_packets"), r.counter(template, from, "retransmitted_packets")
				if got := r.counter(template, to, "received_packets"); got > sent || got+again < sent {
					t.Errorf("%s: %s sent %d packets, %d of them again, and %d arrived", template, from, sent, again, got)
				}
			}
		}
	}
}

func isCut(t *testing.T, r *result) {
	if cut := r.stats.Ports[1].TxSegmentedFrames; cut == 0 {
		t.Error("the servers' device cut no frame into segments")
	}
}

func isNotCut(t *testing.T, r *result) {
	if cut := r.stats.Ports[1].TxSegmentedFrames; cut != 0 {
		t.Errorf("the servers' device cut %d frames into segments", cut)
	}
}

// isSpreadByRSS checks that the device's hash is the computed one: every TCP packet is received by the worker of its flow.
func isSpreadByRSS(t *testing.T, r *result) {
	for i, worker := range r.stats.Workers {
		flows := worker.Flows
		if flows.RSS == 0 || flows.HandedOff != 0 || flows.Lost != 0 {
			t.Errorf("worker %d got %d packets by RSS, %d handed off, lost %d", i, flows.RSS, flows.HandedOff, flows.Lost)
		}
	}
}

// isGivenItsMAC checks that the device accepted the port's MAC, and that all frames for the port were received with it.
func isGivenItsMAC(t *testing.T, r *result) {
	if strings.Contains(r.log, "it keeps its own address") {
		t.Error("the device keeps its own address")
	}
	for _, port := range r.stats.Ports {
		if port.OtherMACPackets != 0 {
			t.Errorf("port %s: %d packets were for another MAC", port.Port, port.OtherMACPackets)
		}
	}
}

// isGivenBack checks that the memory of prebuilt packets was free when their run was over: the device releases what it
// has sent.
func isGivenBack(t *testing.T, r *result) {
	if strings.Contains(r.log, `"memory":"prebuilt"`) {
		t.Error("the device held packets when the run was over")
	}
}

func allPackets(t *testing.T, r *result) {
	if len(r.stats.Streams) != 3 {
		t.Fatalf("%d streams, want 3", len(r.stats.Streams))
	}
	for _, stream := range r.stats.Streams {
		sent, got := stream.Measured.TxPackets, stream.Measured.RxPackets
		if measured := stream.Name != "beside"; sent < 900 || measured && got != sent {
			t.Errorf("%s: %d packets were sent, %d arrived", stream.Name, sent, got)
		}
	}
}
