// SPDX-License-Identifier: Apache-2.0

// What does a record look like as a line of JSON?

package records

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/live"
)

// recordLine has the columns of docs/reference/records.md, by name and in order, after the pod.
type recordLine struct {
	Pod                  string     `json:"pod"`
	Run                  string     `json:"run"`
	Template             string     `json:"template"`
	Side                 string     `json:"side"`
	Protocol             string     `json:"protocol"`
	EndReason            string     `json:"end_reason"`
	Flow                 uint64     `json:"flow"`
	LocalAddress         netip.Addr `json:"local_address"`
	LocalPort            uint32     `json:"local_port"`
	RemoteAddress        netip.Addr `json:"remote_address"`
	RemotePort           uint32     `json:"remote_port"`
	Start                int64      `json:"start"`
	Established          *int64     `json:"established"`
	FirstByte            *int64     `json:"first_byte"`
	End                  int64      `json:"end"`
	SentBytes            uint64     `json:"sent_bytes"`
	ReceivedBytes        uint64     `json:"received_bytes"`
	SentPackets          uint64     `json:"sent_packets"`
	ReceivedPackets      uint64     `json:"received_packets"`
	RetransmittedPackets uint64     `json:"retransmitted_packets"`
	RoundTripNs          *uint64    `json:"round_trip_ns"`
}

// known returns nil for 0, which stands for an unknown value.
func known[N int64 | uint64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}

func newRecordLine(pod, run string, r *enginev1.ConnectionRecord) (recordLine, error) {
	local, here := netip.AddrFromSlice(r.LocalAddress)
	remote, there := netip.AddrFromSlice(r.RemoteAddress)
	if !here || !there {
		return recordLine{}, fmt.Errorf("pod %s: the engine gives addresses of %d and %d bytes, which must be 4 or 16: use a plugin of its release", pod, len(r.LocalAddress), len(r.RemoteAddress))
	}
	line := recordLine{
		Pod: pod, Run: run, Template: r.Template, Side: "server", Protocol: "tcp", EndReason: r.EndReason, Flow: r.Flow,
		LocalAddress: local, LocalPort: r.LocalPort, RemoteAddress: remote, RemotePort: r.RemotePort,
		Start: r.StartNs, Established: known(r.EstablishedNs), FirstByte: known(r.FirstByteNs), End: r.EndNs,
		SentBytes: r.SentBytes, ReceivedBytes: r.ReceivedBytes, SentPackets: r.SentPackets, ReceivedPackets: r.ReceivedPackets,
		RetransmittedPackets: r.RetransmittedPackets, RoundTripNs: known(r.RoundTripNs),
	}
	if r.Side == enginev1.Side_SIDE_CLIENT {
		line.Side = "client"
	}
	if r.Udp {
		line.Protocol = "udp"
	}
	return line, nil
}

// recordsPrinter prints the records of a pod, each as a whole line, also when several pods print.
type recordsPrinter struct {
	pod          string
	lock         *sync.Mutex
	to, progress io.Writer

	records int
	missed  live.Missed
}

func (p *recordsPrinter) print(answer *enginev1.WatchRecordsResponse) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, record := range answer.Records {
		line, err := newRecordLine(p.pod, answer.Run, record)
		if err != nil {
			return err
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.missed.All == 0 && answer.Missed > 0 {
		fmt.Fprintf(p.progress, "%s: records come faster than they are read: some are missed\n", p.pod)
	}
	p.missed.Report(answer.Missed)
	if _, err := p.to.Write(lines.Bytes()); err != nil {
		return err
	}
	p.records += len(answer.Records)
	return nil
}
