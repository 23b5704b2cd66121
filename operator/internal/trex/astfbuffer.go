// SPDX-License-Identifier: Apache-2.0

// What do TRex's stateful programs send?

package trex

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/content"
)

// buffer is bytes that programs send.
type buffer struct {
	path   string
	object string
	bytes  []byte
	// configMap holds it if it is long and a template sends it.
	configMap *corev1.ConfigMap
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
		if len(b.bytes) > content.MostInMap {
			a.problems.add(b.path, "has %d bytes; at most %d have room in a ConfigMap. Send several shorter ones, or write `size` into the template", len(b.bytes), content.MostInMap)
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
	if size > content.MostInMap {
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

// content of a command that sends it.
func (b *buffer) content() spatev1.Content {
	written, configMap, err := content.Of(b.bytes, b.object)
	if err != nil {
		panic(err) // its length was told when it was read
	}
	b.configMap = configMap
	return written
}
