// SPDX-License-Identifier: Apache-2.0

package samples

// This file answers: how are samples stored? As JSON, compressed by gzip: each number is the difference from the one before, since most
// differences are equal.

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// MostBytes is the maximum size of stored samples, which are one object of at most 1 MiB.
const MostBytes = 768 << 10

// mostUnpacked bounds what is read of stored samples; the largest series has a tenth of it.
const mostUnpacked = 32 << 20

// document is a series as it is stored.
type document struct {
	Version             int              `json:"version"`
	IntervalNs          int64            `json:"intervalNs"`
	Times               []int64          `json:"timesNs"`
	Total               Table            `json:"total,omitempty"`
	Flows               Table            `json:"flows,omitempty"`
	Streams             map[string]Table `json:"streams,omitempty"`
	Templates           map[string]Table `json:"templates,omitempty"`
	StreamsNotSampled   int              `json:"streamsNotSampled,omitempty"`
	TemplatesNotSampled int              `json:"templatesNotSampled,omitempty"`
}

const version = 1

// Encode returns the series for storage. Samples are dropped, as by Halve, until it has at most MostBytes.
func (s *Series) Encode() ([]byte, error) {
	for {
		packed, err := s.pack()
		if err != nil || len(packed) <= MostBytes || len(s.Times) < 2 {
			return packed, err
		}
		s.Halve()
	}
}

func (s *Series) pack() ([]byte, error) {
	d := document{
		Version: version, IntervalNs: int64(s.Interval), Times: differences(s.Times), Total: differencesOf(s.Total), Flows: differencesOf(s.Flows),
		Streams: map[string]Table{}, Templates: map[string]Table{}, StreamsNotSampled: s.StreamsNotSampled, TemplatesNotSampled: s.TemplatesNotSampled,
	}
	for name, t := range s.Streams {
		d.Streams[name] = differencesOf(t)
	}
	for name, t := range s.Templates {
		d.Templates[name] = differencesOf(t)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if err := json.NewEncoder(w).Encode(d); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// Decode reads a stored series. gzip's checksum shows damage.
func Decode(packed []byte) (*Series, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(unpacked, mostUnpacked+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostUnpacked {
		return nil, fmt.Errorf("more than %d MiB", mostUnpacked>>20)
	}
	d := document{}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	if d.Version != version {
		return nil, fmt.Errorf("version %d, and version %d is known: use the plugin of the operator's release", d.Version, version)
	}
	s := New()
	s.Times, s.StreamsNotSampled, s.TemplatesNotSampled = sums(d.Times), d.StreamsNotSampled, d.TemplatesNotSampled
	if s.Interval = time.Duration(d.IntervalNs); s.Interval <= 0 {
		return nil, fmt.Errorf("intervalNs is %d", d.IntervalNs)
	}
	for i, at := range s.Times {
		if i > 0 && at <= s.Times[i-1] {
			return nil, fmt.Errorf("sample %d is not later than the one before", i)
		}
	}
	for of, t := range map[string]Table{"total": d.Total, "flows": d.Flows} {
		if err := sumsOf(t, len(s.Times)); err != nil {
			return nil, fmt.Errorf("%s: %w", of, err)
		}
	}
	for into, tables := range map[*map[string]Table]map[string]Table{&s.Streams: d.Streams, &s.Templates: d.Templates} {
		for name, t := range tables {
			if err := sumsOf(t, len(s.Times)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if t == nil {
				t = Table{}
			}
			(*into)[name] = t
		}
	}
	if d.Total != nil {
		s.Total = d.Total
	}
	if d.Flows != nil {
		s.Flows = d.Flows
	}
	return s, nil
}

func differencesOf(t Table) Table {
	out := make(Table, len(t))
	for name, column := range t {
		out[name] = differences(column)
	}
	return out
}

// differences are the first value, and of each other the difference from the one before. They wrap around, as sums do.
func differences(column []int64) []int64 {
	out, before := make([]int64, len(column)), int64(0)
	for i, value := range column {
		out[i], before = value-before, value
	}
	return out
}

// sums reverses differences, in place.
func sums(column []int64) []int64 {
	for i := 1; i < len(column); i++ {
		column[i] += column[i-1]
	}
	return column
}

// sumsOf reverses differencesOf, in place. Each column must have n values.
func sumsOf(t Table, n int) error {
	for name, column := range t {
		if len(column) != n {
			return fmt.Errorf("%s has %d values of %d samples", name, len(column), n)
		}
		sums(column)
	}
	return nil
}
