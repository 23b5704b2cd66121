// SPDX-License-Identifier: Apache-2.0

// What do TRex's stateful programs send?

package trex

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/importer/content"
)

// buffer is bytes that programs send.
type buffer struct {
	path  string
	bytes []byte
}

const (
	// mostBuffer is the maximum length of a buffer.
	mostBuffer = 1 << 26
	// mostPiece is the maximum length of a piece in a ConfigMap. It is a multiple of fillPeriod, so that pieces of
	// filled buffers are equal and are stored once.
	mostPiece = content.MostInMap / fillPeriod * fillPeriod
	// fillPeriod: TRex fills bytes with a count modulo 256.
	fillPeriod = 256
)

func (a *astf) readBuffers(o *object) {
	for i, raw := range o.list("buf_list") {
		b := buffer{path: fmt.Sprintf("$.buf_list[%d]", i)}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			b.bytes = a.base64(b.path, text)
		} else {
			b.bytes = a.filled(a.problems.object(raw, b.path))
		}
		if len(b.bytes) > mostBuffer {
			a.problems.add(b.path, "has %d bytes; at most %d are supported. Send several shorter ones, or write `size` into the template", len(b.bytes), mostBuffer)
		}
		a.buffers = append(a.buffers, b)
	}
}

func (a *astf) base64(path, text string) []byte {
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		a.problems.add(path, "is no base64: %v", err)
	}
	return bytes
}

// filled reads a buffer of a given size: some bytes first, then repeated ones, or the numbers 0 to 255.
func (a *astf) filled(o *object) []byte {
	var base, fill []byte
	if o.has("base") {
		base = a.base64(o.at("base"), o.text("base"))
	}
	if o.has("fill") {
		fill = a.base64(o.at("fill"), o.text("fill"))
	}
	size := o.wholeOr("size", 1, math.MaxUint32, uint64(len(base)))
	o.take("base")
	o.take("fill")
	o.done()
	if size > mostBuffer {
		return make([]byte, size) // its length is reported
	}
	if len(fill) > 0 && fillPeriod%len(fill) != 0 {
		o.wrong("fill", "has %d bytes, which TRex does not repeat evenly; use 1, 2, 4, ... 256", len(fill))
		return nil
	}
	bytes := make([]byte, size)
	for i := copy(bytes, base); i < len(bytes); i++ {
		at := (i - len(base)) % fillPeriod
		bytes[i] = byte(at)
		if len(fill) > 0 {
			bytes[i] = fill[at%len(fill)]
		}
	}
	return bytes
}

// sent returns the contents of the commands that send a buffer: one, or several if it is longer than a ConfigMap.
func (a *astf) sent(b *buffer) (all []spatev1.Content) {
	for left := b.bytes; len(left) > 0; {
		piece := left
		if len(left) > content.MostInMap {
			piece = left[:mostPiece]
		}
		written, err := a.contents.Write(piece)
		if err != nil {
			panic(err) // its length is a piece's
		}
		all, left = append(all, written), left[len(piece):]
	}
	return all
}
