// SPDX-License-Identifier: Apache-2.0

// Is a field program right, even though the engine does not run one yet? What is wrong in it is told before that.

package plan

import (
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/packet"
)

// checkFields checks variables against the packet they are written into (nil if it could not be built).
func checkFields(fields []spatev1.PacketField, at *field.Path, built *packet.Packet) Problems {
	var problems Problems
	names := map[spatev1.EntryName]bool{}
	for i := range fields {
		names[fields[i].Name] = true
	}
	for i := range fields {
		f, at := &fields[i], at.Index(i)
		switch {
		case f.Increment != nil:
			problems.checkRange(f.Increment.Min, f.Increment.Max, f.Increment.Init, at.Child("increment"))
		case f.Decrement != nil:
			problems.checkRange(f.Decrement.Min, f.Decrement.Max, f.Decrement.Init, at.Child("decrement"))
		case f.Random != nil:
			problems.checkRange(f.Random.Min, f.Random.Max, nil, at.Child("random"))
		}
		for j, value := range f.Values {
			if _, err := parseValue(value); err != nil {
				problems.add(spatev1.ReasonInvalidSpec, at.Child("values").Index(j), "%v", err)
			}
		}
		if f.Next != "" && (!names[f.Next] || f.Next == f.Name) {
			problems.add(spatev1.ReasonInvalidSpec, at.Child("next"), "%q names no other field of the stream", f.Next)
		}
		for j, write := range f.Writes {
			problems.checkWrite(write, at.Child("writes").Index(j), built)
		}
	}
	if len(fields) > 0 {
		problems.add(spatev1.ReasonNotSupported, at, "the engine does not vary packets yet; leave fields out")
	}
	return problems
}

func (p *Problems) checkRange(low, high spatev1.FieldValue, first *spatev1.FieldValue, at *field.Path) {
	least, err := parseValue(low)
	if err != nil {
		p.add(spatev1.ReasonInvalidSpec, at.Child("min"), "%v", err)
		return
	}
	most, err := parseValue(high)
	if err != nil {
		p.add(spatev1.ReasonInvalidSpec, at.Child("max"), "%v", err)
		return
	}
	if least.Cmp(most) > 0 {
		p.add(spatev1.ReasonInvalidSpec, at.Child("min"), "%s is greater than max, which is %s", low, high)
		return
	}
	if first == nil {
		return
	}
	value, err := parseValue(*first)
	if err != nil {
		p.add(spatev1.ReasonInvalidSpec, at.Child("init"), "%v", err)
	} else if value.Cmp(least) < 0 || value.Cmp(most) > 0 {
		p.add(spatev1.ReasonInvalidSpec, at.Child("init"), "%s is not between min and max, which are %s and %s", *first, low, high)
	}
}

func (p *Problems) checkWrite(write spatev1.FieldWrite, at *field.Path, built *packet.Packet) {
	if built == nil {
		return
	}
	if write.Field != "" {
		if _, err := built.Locate(write.Field); err != nil {
			p.add(spatev1.ReasonInvalidSpec, at.Child("field"), "%q: %v", write.Field, err)
		}
		return
	}
	if write.Offset != nil && write.Size != nil && int(*write.Offset+*write.Size) > len(built.Frame) {
		p.add(spatev1.ReasonInvalidSpec, at.Child("offset"), "%d with %d bytes is behind the packet's end at %d",
			*write.Offset, *write.Size, len(built.Frame))
	}
}

// parseValue reads a number, an IP address or a MAC address as the number its bytes are.
func parseValue(value spatev1.FieldValue) (*big.Int, error) {
	text := string(value)
	if number, ok := new(big.Int).SetString(text, 0); ok && number.Sign() >= 0 && !strings.Contains(text, "_") {
		return number, nil
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return new(big.Int).SetBytes(address.AsSlice()), nil
	}
	if address, err := net.ParseMAC(text); err == nil {
		return new(big.Int).SetBytes(address), nil
	}
	return nil, fmt.Errorf("%q must be a whole number, an IP address or a MAC address", text)
}
