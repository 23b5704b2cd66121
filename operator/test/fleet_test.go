// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: do several engines with several workers put the same packets on their links as one with one?

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/runs/storage"
)

// fleetPackets is how many packets each stream has.
const fleetPackets = 660

// fleetSource is the source MAC address of the streams' packets: the kernel's own on a link have another.
var fleetSource = []byte{0x02, 0, 0, 0, 0, 0x17}

// fleetStream varies a port in order, an address at random by a seed, and a DSCP by a list that carries to another list.
func fleetStream(name string, flow bool) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: %s}
spec:
  packet:
    headers:
    - ethernet: {source: "02:00:00:00:00:17", destination: "02:00:00:00:00:18"}
    - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
    - udp: {sourcePort: 1000, destinationPort: 2000}
    size: 128
  fields:
  - {name: port, range: {start: 1000, end: 1500}, writes: [{field: udp.sourcePort}]}
  - {name: client, range: {start: 198.19.0.0, end: 198.19.255.255}, order: Random, seed: 17, writes: [{field: ipv4.destination}]}
  - {name: class, values: [0, 46, 10, 34, 18], carryTo: server, writes: [{field: ipv4.dscp}]}
  - {name: server, values: [53, 80, 443], writes: [{field: udp.destinationPort}]}
  transmit: {burst: {packets: %d, rate: 1kpps}}
  measure: {flow: %t}
`, name, fleetPackets, flow)
}

// Both streams on one worker of one engine, and on two workers of each of three: the operator's own plan of a run of three pods, with the
// part that each pod gets. Packets without a trailer are compared byte for byte. Of those with one, the sending worker, its sequence
// number, the time and the trailer's check differ by design, and so does UDP's checksum, which must be right.
func TestThreeEnginesWithTwoWorkersSendThePacketsOfOne(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("NO ROOT: links need it")
	}
	ns := ready(t, "  replicas: 3\n  workers: 2\n")
	mustApply(t, ns, fleetStream("bare", false)+"---"+fleetStream("counted", true)+`---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: fleet}
spec:
  generatorRef: {name: loop}
  traffic:
  - {name: bare, stream: {ref: {name: bare}}, transmitPort: loop}
  - {name: counted, stream: {ref: {name: counted}}, transmitPort: loop, receivePort: loop}
  duration: 2s
`+lenient)
	r := complete(t, runLimit, profileNamed(ns, "fleet"))
	if pods := r.Status.Resolved.Generator.Pods; len(pods) != 3 || r.Status.Result.Tx != 2*fleetPackets || r.Status.Result.Streams["counted"].Rx != fleetPackets {
		t.Fatalf("%d pods, %+v", len(pods), r.Status.Result)
	}
	engines := []*fleetEngine{
		{plan: shareOf(t, r, 0, 1), workers: 1},
		{plan: shareOf(t, r, 0, 3), workers: 2}, {plan: shareOf(t, r, 1, 3), workers: 2}, {plan: shareOf(t, r, 2, 3), workers: 2},
	}
	must(t, inOwnNetwork(func() error { return sendOnLinks(engines) }))
	alone, fleet := engines[0].frames, slices.Concat(engines[1].frames, engines[2].frames, engines[3].frames)
	for i, e := range engines {
		if len(e.frames) == 0 {
			t.Fatalf("engine %d sent nothing: %s", i, e.log.String())
		}
	}
	for workers, frames := range map[int][][]byte{1: alone, 6: fleet} {
		sequencesAreWhole(t, frames, workers)
	}
	want, got := comparable(t, alone), comparable(t, fleet)
	if len(want) != 2*fleetPackets {
		t.Fatalf("one engine sent %d packets, want %d: %s", len(want), 2*fleetPackets, engines[0].log.String())
	}
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("packet %d of %d (three engines: %d) differs:\n%s, of one engine\n%s, of three", i, len(want), len(got),
				append(want, "none")[min(i, len(want))], append(got, "none")[min(i, len(got))])
		}
	}
	if distinct := len(slices.Compact(slices.Clone(want))); distinct < len(want)-10 {
		t.Errorf("of %d packets %d differ: the comparison shows little", len(want), distinct)
	}
}

// shareOf returns the plan of a run for engine `index` of `count`, as the operator sends it.
func shareOf(t *testing.T, r *spatev1.TrafficRun, index, count uint32) []byte {
	t.Helper()
	encoded, err := storage.Load(t.Context(), cluster.kube, r)
	must(t, err)
	share, err := plan.ForEngine(r.Status.Resolved.RunID, "", index, count)
	must(t, err)
	own, err := plan.Decode(append(encoded, share...))
	must(t, err)
	text, err := plan.Text(own)
	must(t, err)
	return text
}

// fleetEngine is an engine on a link of its own.
type fleetEngine struct {
	plan    []byte
	workers int

	log    bytes.Buffer
	frames [][]byte // that arrived at the other end of the link
}

// inOwnNetwork calls run on a thread with a network namespace of its own. It, with its links, is gone when the thread and all processes that it
// started have ended.
func inOwnNetwork(run func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("unshare the network: %w", err)
			return
		}
		result <- run()
	}()
	return <-result
}

// sendOnLinks runs the engines at once, each on one end of a veth link, and captures the other end.
func sendOnLinks(engines []*fleetEngine) error {
	var captures sync.WaitGroup
	var handles []*pcapgo.EthernetHandle
	defer func() {
		for _, handle := range handles {
			_ = handle.Close() // ends its reader
		}
		captures.Wait()
	}()
	for i := range engines {
		near, far := fmt.Sprint("near", i), fmt.Sprint("far", i)
		for _, args := range [][]string{
			{"link", "add", near, "type", "veth", "peer", "name", far}, {"link", "set", near, "up"}, {"link", "set", far, "up"},
		} {
			if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
				return fmt.Errorf("ip %v: %w: %s", args, err, out)
			}
		}
		handle, err := pcapgo.NewEthernetHandle(far)
		if err != nil {
			return err
		}
		handles = append(handles, handle)
		captures.Go(func() { engines[i].capture(handle) })
	}
	commands := make([]*exec.Cmd, len(engines))
	for i, e := range engines {
		commands[i] = exec.Command(engineBinary(), "run", "--plan", "-", "--port", fmt.Sprintf("loop=kernel:near%d", i), "--workers", strconv.Itoa(e.workers),
			"--memory", "64M", "--hugepages", "none", "--poll-mode", "adaptive")
		commands[i].Stdin, commands[i].Stdout, commands[i].Stderr = bytes.NewReader(e.plan), &e.log, &e.log
		if err := commands[i].Start(); err != nil {
			return err
		}
	}
	var errs []error
	for i, command := range commands {
		// 1: the machine was too busy to send in time, which changes no packet.
		if err := command.Wait(); err != nil && command.ProcessState.ExitCode() != 1 {
			errs = append(errs, fmt.Errorf("engine %d: %w: %s", i, err, engines[i].log.String()))
		}
	}
	time.Sleep(200 * time.Millisecond) // for what the readers have not taken yet
	return errors.Join(errs...)
}

// capture keeps the streams' frames until the handle is closed.
func (e *fleetEngine) capture(handle *pcapgo.EthernetHandle) {
	for {
		frame, _, err := handle.ReadPacketData()
		if err != nil {
			return
		}
		if len(frame) >= 14 && bytes.Equal(frame[6:12], fleetSource) {
			e.frames = append(e.frames, frame)
		}
	}
}

// The bytes of the tests' packets and of the trailer at their end (engine/wire/src/trailer.rs).
const (
	udpAt         = 14 + 20
	udpChecksumAt = udpAt + 6
	trailerLength = 16
	senderAt      = 4
	checkAt       = 5
	sequenceAt    = 6
)

// trailerOf returns the trailer of a packet of stream `counted`, which has number 1; nil if it has none.
func trailerOf(frame []byte) []byte {
	trailer := frame[len(frame)-trailerLength:]
	if binary.BigEndian.Uint16(trailer) == 0 || binary.BigEndian.Uint16(trailer[2:]) != 1 {
		return nil
	}
	return trailer
}

// sequencesAreWhole fails unless so many workers have sent, each a whole sequence of packets.
func sequencesAreWhole(t *testing.T, frames [][]byte, workers int) {
	t.Helper()
	numbers := map[byte][]uint32{}
	for _, frame := range frames {
		if trailer := trailerOf(frame); trailer != nil {
			numbers[trailer[senderAt]] = append(numbers[trailer[senderAt]], binary.BigEndian.Uint32(trailer[sequenceAt:]))
		}
	}
	if len(numbers) != workers {
		t.Errorf("%d workers have sent, want %d", len(numbers), workers)
	}
	for worker, sequence := range numbers {
		slices.Sort(sequence)
		for i, number := range sequence {
			if number != uint32(i) {
				t.Errorf("worker %d of %d: packet %d is missing or was sent twice", worker, workers, i)
				break
			}
		}
		if len(sequence) != fleetPackets/workers {
			t.Errorf("worker %d of %d sent %d packets, want %d", worker, workers, len(sequence), fleetPackets/workers)
		}
	}
}

// comparable returns frames as sorted text, without what differs from worker to worker by design.
func comparable(t *testing.T, frames [][]byte) []string {
	t.Helper()
	var all []string
	for _, frame := range frames {
		if len(frame) != 128-4 { // without FCS
			t.Fatalf("a packet of %d bytes: %x", len(frame), frame)
		}
		if sum := checksumOf(frame); sum != 0xffff {
			t.Fatalf("UDP's checksum is wrong: %x", frame)
		}
		if trailer := trailerOf(frame); trailer != nil {
			trailer[senderAt] = 0
			trailer[checkAt] &= 0x80 // the phase
			clear(trailer[sequenceAt:])
			clear(frame[udpChecksumAt : udpChecksumAt+2])
		}
		all = append(all, fmt.Sprintf("%x", frame))
	}
	slices.Sort(all)
	return all
}

// checksumOf is the ones' complement sum of the UDP packet in a frame and its pseudo header: 0xffff if its checksum is right.
func checksumOf(frame []byte) uint32 {
	segment := frame[udpAt:]
	sum := uint32(syscall.IPPROTO_UDP) + uint32(len(segment))
	for _, part := range [][]byte{frame[26:udpAt], segment} { // IPv4 addresses; the length of both parts is even
		for at := 0; at < len(part); at += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[at:]))
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return sum
}
