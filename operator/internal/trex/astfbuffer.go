// SPDX-License-Identifier: Apache-2.0

// What do TRex's stateful programs send?

package trex

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"

	spatev1 "spate.dev/operator/api/v1alpha1"
)

const (
	// mostInline is how long what is written into a template may be.
	mostInline = 16 * 1024
	// mostInMap is how long what is in a ConfigMap may be: 1 MiB with all around it.
	mostInMap = 1_000_000
	// payloadKey of the ConfigMaps.
	payloadKey = "payload"
)

// buffer is bytes that programs send.
type buffer struct {
	path   string
	object string
	bytes  []byte
	used   bool
}

func (a *astf) readBuffers(o *object) {
	for i, raw := range o.list("buf_list") {
		b := buffer{path: fmt.Sprintf("$.buf_list[%d]", i), object: a.name + "-buffer-" + strconv.Itoa(i+1)}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			b.bytes = a.base64(b.path, text)
		} else {
			b.bytes = a.filled(a.problems.object(raw, b.path))
		}
		if len(b.bytes) > mostInMap {
			a.problems.add(b.path, "has %d bytes; at most %d have room in a ConfigMap. Send several shorter ones, or write `size` into the template", len(b.bytes), mostInMap)
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

// filled is a buffer of a size: first some bytes, then others again and again, or the numbers 0 to 255.
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
	if size > mostInMap {
		return make([]byte, size) // told by its length
	}
	const counter = 256 // TRex counts the bytes it fills modulo 256
	if len(fill) > 0 && counter%len(fill) != 0 {
		o.wrong("fill", "has %d bytes, which TRex does not repeat evenly; use 1, 2, 4, ... 256", len(fill))
		return nil
	}
	bytes := make([]byte, size)
	for i := copy(bytes, base); i < len(bytes); i++ {
		at := (i - len(base)) % counter
		bytes[i] = byte(at)
		if len(fill) > 0 {
			bytes[i] = fill[at%len(fill)]
		}
	}
	return bytes
}

// inMap tells whether it is too long to be written into a template.
func (b *buffer) inMap() bool { return len(b.bytes) > mostInline }

// content of a command that sends it.
func (b *buffer) content() spatev1.Content {
	b.used = true
	switch {
	case b.inMap():
		return spatev1.Content{From: &spatev1.DataReference{ConfigMapName: spatev1.ObjectName(b.object), Key: payloadKey}}
	case readable(b.bytes):
		return spatev1.Content{Text: string(b.bytes)}
	}
	return spatev1.Content{Base64: b.bytes}
}

// readable tells whether bytes are text that people can read.
func readable(bytes []byte) bool {
	if !utf8.Valid(bytes) {
		return false
	}
	for _, r := range string(bytes) {
		if !unicode.IsPrint(r) && r != '\r' && r != '\n' && r != '\t' {
			return false
		}
	}
	return true
}
