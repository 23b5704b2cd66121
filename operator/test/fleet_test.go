// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: do several engines with several workers put the same packets on their links as one with one?

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/podspec"
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
  transmit: {burst: {packets: %d, rate: 400pps}}
  measure: {flow: %t}
`, name, fleetPackets, flow)
}

// What three pods with two workers each send in a run is what one engine with one worker sends of the run's plan, packet for packet: captured
// by the pods' engines where they hand packets to the device, on a loopback port, which has a queue for each worker; and by the kernel at
// the other end of a link of each of three engines that have the parts of the plan that the operator gives three pods, where each sends
// from one worker, since a kernel interface has one queue.
//
// Packets without a trailer are compared byte for byte. Of those with one, the sending worker, its sequence number, the time and the
// trailer's check differ by design, and so does UDP's checksum, which must be right.
func TestThreeEnginesWithTwoWorkersSendThePacketsOfOne(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("NO ROOT: links need it")
	}
	ns := ready(t, "  replicas: 3\n  workers: 2\n")
	mustApply(t, ns, fleetStream("bare", false)+"---"+fleetStream("counted", true))
	captured := captureSent(t, ns)
	mustApply(t, ns, `
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
	pods := captured()
	one := []*linkedEngine{{plan: shareOf(t, r, 0, 1)}}
	three := []*linkedEngine{{plan: shareOf(t, r, 0, 3)}, {plan: shareOf(t, r, 1, 3)}, {plan: shareOf(t, r, 2, 3)}}
	must(t, inOwnNetwork(func() error { return sendOnLinks(slices.Concat(one, three)) }))

	alone := sentBy(t, "one engine", 1, one[0].frames)
	if len(alone) != 2*fleetPackets {
		t.Fatalf("one engine sent %d packets, want %d: %s", len(alone), 2*fleetPackets, one[0].log.String())
	}
	if distinct := len(slices.Compact(slices.Clone(alone))); distinct < len(alone)-10 {
		t.Errorf("of %d packets %d differ: the comparison shows little", len(alone), distinct)
	}
	samePackets(t, alone, "three engines, on links", sentBy(t, "three engines, on links", 3, three[0].frames, three[1].frames, three[2].frames))
	samePackets(t, alone, "three pods with two workers", sentBy(t, "three pods with two workers", 6, pods...))
}

// samePackets fails unless both have the same packets.
func samePackets(t *testing.T, want []string, who string, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Errorf("%s: packet %d of %d, of %d of one engine, differs:\n%s, of one engine\n%s", who, i, len(got), len(want),
				append(want, "none")[min(i, len(want))], append(got, "none")[min(i, len(got))])
			return
		}
	}
}

// captureSent captures what the engines of all pods send; the function that it returns ends that and returns the frames by pod.
func captureSent(t *testing.T, ns string) (end func() [][][]byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var readers sync.WaitGroup
	pods := enginePods(t, ns)
	frames, missed := make([][][]byte, len(pods)), make([]uint64, len(pods))
	for i := range pods {
		live, err := engine.OpenLive(ctx, operatorStore(), pastTheLink(&pods[i]))
		must(t, err)
		t.Cleanup(live.Close)
		packets, err := live.Capture(ctx, &enginev1.CaptureRequest{Port: "loop", Direction: enginev1.Direction_DIRECTION_TX})
		must(t, err)
		_, err = packets.Header() // from now on it captures
		must(t, err)
		readers.Go(func() {
			for {
				answer, err := packets.Recv()
				if err != nil {
					return
				}
				missed[i] = answer.Missed
				for _, packet := range answer.Packets {
					frames[i] = append(frames[i], packet.Data)
				}
			}
		})
	}
	return func() [][][]byte {
		time.Sleep(200 * time.Millisecond) // for what the readers have not taken yet
		cancel()
		readers.Wait()
		if slices.Max(missed) > 0 {
			t.Fatalf("captures missed %d packets", missed)
		}
		return frames
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

// linkedEngine is an engine with two workers on a link of its own.
type linkedEngine struct {
	plan   []byte
	log    bytes.Buffer
	frames [][]byte // that arrived at the other end of the link
}

// inOwnNetwork calls run on a thread with a network namespace of its own, and with a mount of sysfs that shows it. It, with its links, is gone
// when the thread and all processes that it started have ended.
func inOwnNetwork(run func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if err := syscall.Unshare(syscall.CLONE_NEWNET | syscall.CLONE_NEWNS); err != nil {
			result <- fmt.Errorf("unshare the network and mounts: %w", err)
			return
		}
		private := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		if err := errors.Join(private, syscall.Mount("sysfs", "/sys", "sysfs", 0, "")); err != nil {
			result <- fmt.Errorf("mount sysfs: %w", err)
			return
		}
		result <- run()
	}()
	return <-result
}

// sendOnLinks runs the engines at once, each on one end of a veth link, and captures the other end.
func sendOnLinks(engines []*linkedEngine) error {
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
		commands[i] = inOwnProcesses(exec.Command(engineBinary(), "run", "--plan", "-", "--port", fmt.Sprintf("loop=kernel:near%d", i),
			"--workers", "2", "--memory", "64M", "--hugepages", "none", "--poll-mode", "adaptive"))
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
func (e *linkedEngine) capture(handle *pcapgo.EthernetHandle) {
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

// The bytes of the tests' packets and of the trailer at their end (engine/net/src/trailer.rs).
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

// sentBy returns what several engines sent as sorted text, without what differs from worker to worker by design. It fails unless each engine
// has sent something, and `workers` workers in all have sent, each a whole sequence of packets.
func sentBy(t *testing.T, who string, workers int, engines ...[][]byte) (all []string) {
	t.Helper()
	numbers := map[byte][]uint32{}
	for i, frames := range engines {
		if len(frames) == 0 {
			t.Errorf("%s: engine %d sent nothing", who, i)
		}
		for _, frame := range frames {
			if len(frame) != 128-4 || checksumOf(frame) != 0xffff { // without FCS
				t.Fatalf("%s: a packet has another length or a wrong UDP checksum: %x", who, frame)
			}
			if trailer := trailerOf(frame); trailer != nil {
				numbers[trailer[senderAt]] = append(numbers[trailer[senderAt]], binary.BigEndian.Uint32(trailer[sequenceAt:]))
				trailer[senderAt] = 0
				trailer[checkAt] &= 0x80 // the phase
				clear(trailer[sequenceAt:])
				clear(frame[udpChecksumAt : udpChecksumAt+2])
			}
			all = append(all, hex.EncodeToString(frame))
		}
	}
	if len(numbers) != workers {
		t.Errorf("%s: %d workers have sent, want %d", who, len(numbers), workers)
	}
	for worker, sequence := range numbers {
		slices.Sort(sequence)
		for i, number := range sequence {
			if number != uint32(i) || len(sequence) != fleetPackets/workers {
				t.Errorf("%s: of worker %d, packet %d of %d, which is to be %d, has number %d", who, worker, i, len(sequence), fleetPackets/workers, number)
				break
			}
		}
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

// A pod's share is that of its index, not of its name: loop-10 comes before loop-2 in the order of names.
func TestSharesOfTwelvePodsAreThoseOfTheirIndexes(t *testing.T) {
	t.Parallel()
	node := startSimulatedNode(t)
	ns := namespace(t)
	node.take(ns)
	g := generatorNamed(ns, "loop")
	mustApply(t, ns, loopbackGenerator+"  replicas: 12\n---"+loopbackStream)
	expect(t, 2*readyLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	for i, pod := range g.Status.Pods {
		if pod.Name != fmt.Sprint("loop-", i) {
			t.Errorf("pod %d of the status is %s", i, pod.Name)
		}
	}
	mustApply(t, ns, loopbackProfile("twelve", tolerant+"  duration: 1s"))
	r := complete(t, runLimit, profileNamed(ns, "twelve"))
	for _, pod := range enginePods(t, ns) {
		if share := node.shareOf(pod.UID, r.Status.Resolved.RunID); share.GetCount() != 12 || int(share.GetIndex()) != podspec.Index(&pod) {
			t.Errorf("pod %s has the share %v", pod.Name, share)
		}
	}
	if res := r.Status.Result; res.Tx != 1000 || res.Rx != 1000 {
		t.Errorf("the shares are not the whole of 1000 packets: %+v", res)
	}
}
