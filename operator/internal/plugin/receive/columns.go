// SPDX-License-Identifier: Apache-2.0

package receive

// This file answers: which columns does a row have, on a screen and in files?

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"spate.dev/operator/internal/plugin/figures"
)

// column of a table. Those with the greatest rank are omitted first where there is too little room; those from wideRank on are shown by -o wide only.
type column struct {
	title  string
	rank   int
	text   func(*row) string  // nil for a number
	number func(*row) float64 // nil for a text
	format func(float64) string
}

const wideRank = 4

// cell is the text of a row in the column.
func (c *column) cell(r *row) string {
	if c.text != nil {
		return c.text(r)
	}
	return c.format(c.number(r))
}

var columns = []column{
	{title: "PORT", text: func(r *row) string { return r.pod + "/" + orDash(r.port) }},
	{title: "RECEIVER", text: func(r *row) string { return orDash(r.name) }},
	workerColumn,
	{title: "PPS", number: func(r *row) float64 { return r.packetRate }, format: figures.Number},
	{title: "L1 BPS", rank: 1, number: (*row).l1BitRate, format: figures.Number},
	{title: "L2 BPS", rank: 3, number: func(r *row) float64 { return r.bitRate }, format: figures.Number},
	{title: "PACKETS", number: func(r *row) float64 { return r.packets }, format: figures.Count},
	{title: "BYTES", rank: 5, number: func(r *row) float64 { return r.bytes }, format: figures.Count},
	{title: "IAT", number: func(r *row) float64 { return r.interArrival.mean }, format: figures.Nanoseconds},
	{title: "IAT DEV", rank: 4, number: func(r *row) float64 { return r.interArrival.deviation }, format: figures.Nanoseconds},
	{title: "IAT MIN", rank: 1, number: func(r *row) float64 { return r.interArrival.least }, format: figures.Nanoseconds},
	{title: "IAT MAX", rank: 1, number: func(r *row) float64 { return r.interArrival.greatest }, format: figures.Nanoseconds},
	{title: "JITTER", number: func(r *row) float64 { return r.jitter.mean }, format: figures.Nanoseconds},
	{title: "JIT MAX", rank: 4, number: func(r *row) float64 { return r.jitter.greatest }, format: figures.Nanoseconds},
	{title: "LATENCY", rank: 4, number: func(r *row) float64 { return r.latency.mean }, format: figures.Nanoseconds},
	{title: "LAT MAX", rank: 5, number: func(r *row) float64 { return r.latency.greatest }, format: figures.Nanoseconds},
	{title: "OTHER MAC", rank: 6, number: func(r *row) float64 { return r.otherMAC }, format: figures.Count},
	{title: "SEEN", rank: 2, number: (*row).age, format: figures.Nanoseconds},
	{title: "SINCE", rank: 6, text: func(r *row) string { return orDash(clock(r.began)) }},
}

// workerColumn is shown by --by worker only.
var workerColumn = column{title: "WORKER", text: func(r *row) string { return orDash(r.worker) }}

// timeColumn is the first of lines that are printed one after another.
var timeColumn = column{title: "TIME", text: func(r *row) string { return clock(r.read) }}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// clock is a time of day in the zone of the terminal; empty if the time is not known.
func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format(time.TimeOnly)
}

// columnsOf are those up to a rank.
func columnsOf(byWorker bool, most int) (chosen []column) {
	for _, c := range columns {
		if c.rank <= most && (byWorker || c.title != workerColumn.title) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// field of a row in files. Exactly one of text, at and number is set.
type field struct {
	name   string
	text   func(*row) string
	at     func(*row) time.Time
	number func(*row) float64
}

// fields in files: times are in nanoseconds, instants as in RFC 3339. What is not known is null in JSON, and empty in CSV.
var fields = func() []field {
	all := []field{
		{name: "time", at: func(r *row) time.Time { return r.read }}, {name: "pod", text: func(r *row) string { return r.pod }}, {name: "port", text: func(r *row) string { return r.port }},
		{name: "run", text: func(r *row) string { return r.run }}, {name: "receiver", text: func(r *row) string { return r.receiver }}, {name: "worker", text: func(r *row) string { return r.worker }},
		{name: "since", at: func(r *row) time.Time { return r.began }}, {name: "lastSeen", at: func(r *row) time.Time { return r.seen }},
		{name: "packetsPerSecond", number: func(r *row) float64 { return r.packetRate }}, {name: "l1BitsPerSecond", number: (*row).l1BitRate},
		{name: "l2BitsPerSecond", number: func(r *row) float64 { return r.bitRate }}, {name: "packets", number: func(r *row) float64 { return r.packets }},
		{name: "bytes", number: func(r *row) float64 { return r.bytes }}, {name: "otherMACPackets", number: func(r *row) float64 { return r.otherMAC }},
	}
	for _, t := range []struct {
		name string
		of   func(*row) times
	}{
		{"interArrival", func(r *row) times { return r.interArrival }}, {"jitter", func(r *row) times { return r.jitter }}, {"latency", func(r *row) times { return r.latency }},
	} {
		all = append(all,
			field{name: t.name + "Count", number: func(r *row) float64 { return t.of(r).count }}, field{name: t.name + "MeanNs", number: func(r *row) float64 { return t.of(r).mean }},
			field{name: t.name + "DeviationNs", number: func(r *row) float64 { return t.of(r).deviation }}, field{name: t.name + "MinNs", number: func(r *row) float64 { return t.of(r).least }},
			field{name: t.name + "MaxNs", number: func(r *row) float64 { return t.of(r).greatest }},
		)
	}
	return all
}()

// value for JSON; nil if it is not known.
func (f *field) value(r *row) any {
	switch {
	case f.text != nil && f.text(r) != "":
		return f.text(r)
	case f.at != nil && !f.at(r).IsZero():
		return f.at(r).UTC()
	case f.number != nil && !math.IsNaN(f.number(r)):
		return number(f.number(r))
	}
	return nil
}

// number is written without an exponent.
func number(value float64) json.Number {
	return json.Number(strconv.FormatFloat(value, 'f', -1, 64))
}
