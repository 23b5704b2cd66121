// SPDX-License-Identifier: Apache-2.0

// Fields: the values that vary in a packet, and the places they are written to.

package v1alpha1

// PacketField is a variable, and the places of the packet that its values are written to. Its values are listed (`values`) or those of a
// range (`range`).
//
// +kubebuilder:validation:ExactlyOneOf=values;range
// +kubebuilder:validation:XValidation:rule="!has(self.carryTo) || self.carryTo != self.name",fieldPath=".carryTo",message="must name another field"
// +kubebuilder:validation:XValidation:rule="!has(self.seed) || (has(self.order) && self.order == 'Random')",fieldPath=".seed",message="seed goes with order: Random"
// +kubebuilder:validation:XValidation:rule="!has(self.range) || !has(self.order) || self.order != 'Random' || (!has(self.range.first) && (!has(self.range.step) || self.range.step == 1))",fieldPath=".range",message="first and step do not go with order: Random"
type PacketField struct {
	// name of the variable.
	// +required
	Name EntryName `json:"name"`

	// values of the variable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=65535
	Values []FieldValue `json:"values,omitempty"`

	// range of values.
	// +optional
	Range *FieldRange `json:"range,omitempty"`

	// order in which the values are taken, from packet to packet: `Forward` from the first to the last, `Reverse` from the last to the
	// first, and again from there; `Random` draws them evenly.
	// +optional
	// +default="Forward"
	Order ValueOrder `json:"order,omitempty"`

	// seed of the random order, which is reproducible by it; 0 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Seed *int64 `json:"seed,omitempty"`

	// carryTo names a variable that advances only when this one has taken its last value and starts again.
	// +optional
	CarryTo EntryName `json:"carryTo,omitempty"`

	// repeatAfter is the number of values after which the sequence starts again, in random order too. When absent, a random sequence
	// does not start again, and others do after their last value.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	RepeatAfter *int64 `json:"repeatAfter,omitempty"`

	// scope of the sequence: `Stream` has one sequence, which the workers share so that together they send what one worker would;
	// `Worker` has the whole sequence in each worker.
	// +optional
	// +default="Stream"
	Scope FieldScope `json:"scope,omitempty"`

	// writes are the places the value is written to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Writes []FieldWrite `json:"writes,omitempty"`
}

// ValueOrder is the order in which values are taken.
//
// +kubebuilder:validation:Enum=Forward;Reverse;Random
type ValueOrder string

const (
	// OrderForward takes values from the first to the last.
	OrderForward ValueOrder = "Forward"
	// OrderReverse takes values from the last to the first.
	OrderReverse ValueOrder = "Reverse"
	// OrderRandom draws values evenly.
	OrderRandom ValueOrder = "Random"
)

// FieldScope is what has a sequence of values of its own.
//
// +kubebuilder:validation:Enum=Stream;Worker
type FieldScope string

const (
	// ScopeStream: the workers share the stream's sequence.
	ScopeStream FieldScope = "Stream"
	// ScopeWorker: each worker has the whole sequence.
	ScopeWorker FieldScope = "Worker"
)

// FieldRange is a range of values from start to end, or of a number of values. In order they are start, start + step and so on up to
// end; in reverse order end, end - step and so on down to start.
//
// +kubebuilder:validation:ExactlyOneOf=end;count
// +kubebuilder:validation:XValidation:rule="!has(self.end) || type(self.start) != int || type(self.end) != int || self.start <= self.end",message="start must not be greater than end; use order: Reverse to count down"
type FieldRange struct {
	// start is the lowest value.
	// +required
	Start FieldValue `json:"start"`

	// end is the highest value.
	// +optional
	End *FieldValue `json:"end,omitempty"`

	// count of values, instead of end.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Count *int64 `json:"count,omitempty"`

	// step from one value to the next.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Step *int64 `json:"step,omitempty"`

	// first value that is taken, within the range; by default start, in reverse order end.
	// +optional
	First *FieldValue `json:"first,omitempty"`
}

// ByteOrder of a value in a packet.
//
// +kubebuilder:validation:Enum=Big;Little
type ByteOrder string

const (
	// BigEndian is network byte order.
	BigEndian ByteOrder = "Big"
	// LittleEndian has the lowest byte first.
	LittleEndian ByteOrder = "Little"
)

// FieldWrite is a place of the packet: a named field, or an offset with a size.
//
// +kubebuilder:validation:ExactlyOneOf=field;offset
// +kubebuilder:validation:XValidation:rule="has(self.offset) == has(self.size)",message="size goes with offset, and only with it"
type FieldWrite struct {
	// field by header and name, such as `ipv4.source`, `tcp.destinationPort` or, for the second header of its kind,
	// `vlan[1].id`. Of IPv6 addresses the lower 64 bits are written. `packet.size` sets the packet's size on the wire in
	// bytes, FCS included: the packet is truncated to it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*(\[[0-9]{1,2}\])?\.[a-zA-Z0-9]+$`
	Field string `json:"field,omitempty"`

	// offset of the first byte from the start of the packet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9211
	Offset *int32 `json:"offset,omitempty"`

	// size in bytes.
	// +optional
	// +kubebuilder:validation:Enum=1;2;3;4;6;8
	Size *int32 `json:"size,omitempty"`

	// mask of the bits that are written, as hex digits such as `0xfff0`; all when absent.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{1,16}$')",message="must be hex digits such as 0xfff0"
	Mask string `json:"mask,omitempty"`

	// shift of the value before it is written, in bits to the left (negative: to the right).
	// +optional
	// +kubebuilder:validation:Minimum=-63
	// +kubebuilder:validation:Maximum=63
	Shift int32 `json:"shift,omitempty"`

	// add is added to the value before it is shifted.
	// +optional
	// +kubebuilder:validation:Minimum=-9007199254740991
	// +kubebuilder:validation:Maximum=9007199254740991
	Add int64 `json:"add,omitempty"`

	// byteOrder of the value in the packet.
	// +optional
	// +default="Big"
	ByteOrder ByteOrder `json:"byteOrder,omitempty"`
}
