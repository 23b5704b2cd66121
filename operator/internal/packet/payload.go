// SPDX-License-Identifier: Apache-2.0

// Which bytes are behind the headers?

package packet

import (
	"encoding/hex"
	"math/rand/v2"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// content is what a payload consists of.
type content struct {
	bytes []byte
	// fills is true if the payload takes the rest of the packet's size.
	fills bool
	// random bytes instead of a repeated pattern.
	random *rand.Rand
}

// fill writes the content over the bytes behind the headers.
func (c content) fill(payload []byte) {
	switch {
	case c.random != nil:
		for i := range payload {
			payload[i] = byte(c.random.Uint64())
		}
	case c.fills:
		for i := range payload {
			payload[i] = c.bytes[i%len(c.bytes)]
		}
	default:
		copy(payload, c.bytes)
	}
}

func payloadOf(payload *spatev1.Payload, at *field.Path) (content, field.ErrorList) {
	if payload == nil {
		return content{}, nil
	}
	set := 0
	for _, present := range []bool{payload.Text != "", payload.Hex != "", payload.Pattern != "", payload.Random != nil} {
		if present {
			set++
		}
	}
	switch {
	case set != 1:
		return content{}, field.ErrorList{field.Invalid(at, set, "set exactly one of text, hex, pattern and random")}
	case payload.Random != nil:
		return content{fills: true, random: rand.New(rand.NewPCG(seedOf(payload.Random.Seed), 0))}, nil //nolint:gosec // bytes to fill packets with
	case payload.Text != "" && !utf8.ValidString(payload.Text):
		return content{}, field.ErrorList{field.Invalid(at.Child("text"), payload.Text, "must be UTF-8; write other bytes as hex")}
	case payload.Text != "":
		return content{bytes: []byte(payload.Text)}, nil
	case payload.Hex != "":
		return hexContent(payload.Hex, false, at.Child("hex"))
	default:
		return hexContent(payload.Pattern, true, at.Child("pattern"))
	}
}

func hexContent(text string, fills bool, at *field.Path) (content, field.ErrorList) {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		return content{}, field.ErrorList{field.Invalid(at, text, "must be hex digits, two a byte, such as deadbeef")}
	}
	return content{bytes: bytes, fills: fills}, nil
}
