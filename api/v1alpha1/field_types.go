// SPDX-License-Identifier: Apache-2.0

// Fields: what varies in a packet, and where it is written.

package v1alpha1

// PacketField is a variable with exactly one way to change, and the places of the packet it is written to.
//
// +kubebuilder:validation:ExactlyOneOf=values;increment;decrement;random;list
// +kubebuilder:validation:XValidation:rule="!has(self.next) || self.next != self.name",fieldPath=".next",message="next names another field"
type PacketField struct {
	// name of the variable.
	Name EntryName `json:"name"`

	// values are taken in turn, then from the start again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=65535
	Values []FieldValue `json:"values,omitempty"`

	// increment counts up from min (or init) and wraps behind max.
	// +optional
	Increment *FieldRange `json:"increment,omitempty"`

	// decrement counts down from max (or init) and wraps below min.
	// +optional
	Decrement *FieldRange `json:"decrement,omitempty"`

	// random takes evenly distributed values.
	// +optional
	Random *FieldRandom `json:"random,omitempty"`

	// list takes listed values in an order.
	// +optional
	List *FieldList `json:"list,omitempty"`

	// next is a variable that advances only when this one wraps: with `limit`, after that many values.
	// +optional
	Next EntryName `json:"next,omitempty"`

	// limit is the number of values after which the sequence starts anew, random ones too; it does not when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Limit *int64 `json:"limit,omitempty"`

	// perWorker gives every worker the whole sequence for itself. Else the workers share one, so that together they send
	// what one worker would.
	// +optional
	PerWorker bool `json:"perWorker,omitempty"`

	// writes are the places the value is written to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Writes []FieldWrite `json:"writes,omitempty"`
}

// FieldRange is a range of values with a step. A range that is no whole number of steps ends with the last whole one.
//
// +kubebuilder:validation:XValidation:rule="type(self.min) != int || type(self.max) != int || self.min <= self.max",message="min must not be greater than max"
// +kubebuilder:validation:XValidation:rule="type(self.min) != string || type(self.max) != string || !self.min.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || !self.max.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || [0, 1, 2, 3].map(i, int(self.min.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum() <= [0, 1, 2, 3].map(i, int(self.max.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum()",message="min must not be greater than max"
type FieldRange struct {
	// min is the lowest value.
	Min FieldValue `json:"min"`

	// max is the highest value.
	Max FieldValue `json:"max"`

	// step from one value to the next.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Step int64 `json:"step,omitempty"`

	// init is the first value.
	// +optional
	Init *FieldValue `json:"init,omitempty"`
}

// FieldRandom is a range of random values, reproducible by its seed.
//
// +kubebuilder:validation:XValidation:rule="type(self.min) != int || type(self.max) != int || self.min <= self.max",message="min must not be greater than max"
// +kubebuilder:validation:XValidation:rule="type(self.min) != string || type(self.max) != string || !self.min.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || !self.max.matches('^[0-9]{1,3}([.][0-9]{1,3}){3}$') || [0, 1, 2, 3].map(i, int(self.min.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum() <= [0, 1, 2, 3].map(i, int(self.max.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum()",message="min must not be greater than max"
type FieldRandom struct {
	// min is the lowest value.
	Min FieldValue `json:"min"`

	// max is the highest value.
	Max FieldValue `json:"max"`

	// seed of the sequence.
	// +optional
	Seed int64 `json:"seed,omitempty"`
}

// FieldListOrder is in which order listed values are taken.
//
// +kubebuilder:validation:Enum=Forward;Backward;Random
type FieldListOrder string

const (
	// ListForward takes values from the first to the last.
	ListForward FieldListOrder = "Forward"
	// ListBackward takes values from the last to the first.
	ListBackward FieldListOrder = "Backward"
	// ListRandom draws values evenly.
	ListRandom FieldListOrder = "Random"
)

// FieldList is a list of values.
type FieldList struct {
	// values of the list.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=65535
	Values []FieldValue `json:"values"`

	// order they are taken in.
	// +optional
	// +kubebuilder:default=Forward
	Order FieldListOrder `json:"order,omitempty"`

	// seed of the random order.
	// +optional
	Seed int64 `json:"seed,omitempty"`
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
	// bytes, FCS included: the packet is cut to it.
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
	Add int64 `json:"add,omitempty"`

	// byteOrder of the value in the packet.
	// +optional
	// +kubebuilder:default=Big
	ByteOrder ByteOrder `json:"byteOrder,omitempty"`
}
