// SPDX-License-Identifier: Apache-2.0

// Is a packet what TRex sends?

package conformance

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Profile matches packets that are as TRex sends them.
type Profile struct {
	streams []*stream
	// described as TRex's client sends it.
	described []description
}

// ReadProfile reads a profile as TRex's client sends it.
func ReadProfile(data []byte) (*Profile, error) {
	var all []description
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("is no list of TRex's streams: %w", err)
	}
	streams, err := describe(all)
	if err != nil {
		return nil, err
	}
	return &Profile{streams, all}, nil
}

// compare returns how a packet differs from TRex's own; nil if it does not, but for what is free.
func (p *Profile) compare(want, got []byte) error {
	var first error
	known := false
	for _, s := range p.streams {
		if !s.sends(want) {
			continue
		}
		known = true
		err := exactly(want, got)
		if !s.exact() {
			err = s.compare(want, got)
		}
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	if !known {
		return exactly(want, got)
	}
	return first
}

// sends reports whether a packet of TRex's may be one of the stream.
func (s *stream) sends(frame []byte) bool {
	if len(frame) > len(s.base) || len(frame) < len(s.base) && !s.resized {
		return false
	}
	for i, b := range frame {
		if b != s.base[i] && !s.anyhow[i] {
			return false
		}
	}
	return true
}

// exactly compares every byte.
func exactly(want, got []byte) error {
	if bytes.Equal(want, got) {
		return nil
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Errorf("byte %d: want %s, got %s", i, excerpt(want, i), excerpt(got, i))
		}
	}
	return fmt.Errorf("want %d bytes, got %d", len(want), len(got))
}

// excerpt is some bytes from an offset on.
func excerpt(frame []byte, from int) string {
	const most = 4
	return hex.EncodeToString(frame[from:min(from+most, len(frame))])
}

// compare returns how a packet differs in what is not free, or is out of what is.
func (s *stream) compare(want, got []byte) error {
	length, err := s.length(want, got)
	if err != nil {
		return err
	}
	compared := len(got)
	if s.latency {
		compared = max(len(got)-trailerBytes, 0)
	}
	for i := range compared {
		as := s.base
		if i < len(want) {
			as = want
		} else if s.anyhow[i] {
			continue // beyond TRex's packet, and not known from its description
		}
		if (as[i]^got[i])&^s.free[i] != 0 {
			return fmt.Errorf("byte %d: want %s, got %s", i, excerpt(as, i), excerpt(got, i))
		}
	}
	for _, v := range s.random {
		of := length
		if v != s.resizedBy {
			of = nil
		}
		if err := v.check(got, of); err != nil {
			return err
		}
	}
	for _, sum := range s.sums {
		if err := sum.verify(got); err != nil {
			return err
		}
	}
	return nil
}

// length compares lengths, and gives which values of the variable that cuts packets give this one, if one does.
func (s *stream) length(want, got []byte) (*interval, error) {
	switch {
	case s.resizedBy == nil && len(want) != len(got):
		return nil, fmt.Errorf("want %d bytes, got %d", len(want), len(got))
	case s.resizedBy == nil:
		return nil, nil
	case len(got) > len(s.base) || len(got) < leastFrame:
		return nil, fmt.Errorf("got %d bytes, of a packet of %d", len(got), len(s.base))
	}
	values := interval{uint64(len(got)), uint64(len(got))}
	if len(got) == leastFrame {
		values.min = 0
	}
	if len(got) == len(s.base) {
		values.max = ^uint64(0)
	}
	return &values, nil
}
