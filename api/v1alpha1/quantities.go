// SPDX-License-Identifier: Apache-2.0

// How quantities, addresses and times are written. They are strings; `internal/plan` parses them
// exactly (no floating point), and with the rules here the API server validates them.

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is how fast a stream transmits: a decimal number, an optional k, M or G (powers of 1000), and a unit.
//
//   - `pps`: packets a second.
//   - `bps`, `bpsL2`: bits a second of frames, the 4-byte FCS included.
//   - `bpsL1`: bits a second on the medium: the frame with FCS and 20 bytes of preamble and inter-frame gap.
//   - `%`: percent of the transmitting port's line rate, on layer 1.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?([kMG]?(pps|bps|bpsL1|bpsL2)|%)$')",message="must be a rate such as 1.5Mpps, 10Gbps (layer 2, FCS included), 10GbpsL1 or 80%"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[kMG]?[pb%]')",message="a rate must be greater than zero"
type Rate string

// AbsoluteRate is a Rate that does not depend on a port: packets (`pps`) or bits (`bps`, `bpsL2`, `bpsL1`) a second.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?[kMG]?(pps|bps|bpsL1|bpsL2)$')",message="must be a rate such as 1.5Mpps, 10Gbps (layer 2, FCS included) or 10GbpsL1"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[kMG]?[pb]')",message="a rate must be greater than zero"
type AbsoluteRate string

// ScaledRate is the rate of a whole profile. It scales the rates of all entries in proportion, and is one of
//
//   - a factor on the entries' own rates: `2x`, `0.5x`;
//   - the total of all ports: `1Mpps`, `10Gbps`, `10GbpsL1`, or `80%` of the line rates of the ports that transmit, on layer 1;
//   - the total of each port that transmits: `1Mpps/port`, `10Gbps/port`, `80%/port`.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?(x|([kMG]?(pps|bps|bpsL1|bpsL2)|%)(/port)?)$')",message="must be a factor such as 2x, a total such as 1Mpps, 10Gbps (layer 2, FCS included), 10GbpsL1 or 80%, or the total of each port such as 1Mpps/port"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[kMG]?[xpb%]')",message="a rate must be greater than zero; to send nothing set spec.suspend"
type ScaledRate string

// BitRate is a bandwidth in bits a second: a decimal number, an optional k, M, G or T (powers of 1000), and `bps`.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?[kMGT]?bps$')",message="must be a bandwidth such as 10Gbps"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[kMGT]?b')",message="a bandwidth must be greater than zero"
type BitRate string

// Tolerance is how much of something is accepted: a number of packets (`100`), or a share of the transmitted packets
// (`0.1%`).
//
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,18}|(100([.]0+)?|[0-9]{1,2}([.][0-9]+)?)%)$')",message="must be a number of packets such as 100, or a share such as 0.1%"
type Tolerance string

// Duration is a time written as numbers with units (`ns`, `us`, `ms`, `s`, `m`, `h`), such as `500ms` or `1m30s`.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$')",message="must be a duration such as 500ms, 10s or 1m30s"
type Duration string

// Parse returns the duration's value; the API server admits no value that does not parse.
func (d Duration) Parse() (time.Duration, error) {
	return time.ParseDuration(string(d))
}

// MemorySize is an amount of memory in bytes, a Kubernetes quantity such as `128Mi` or `1Gi`. It is a string, so that its rules can be
// bounded: CEL takes a number for an amount of any length.
//
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isInteger() && quantity(self).isGreaterThan(quantity('0'))",message="must be a size greater than zero such as 128Mi"
type MemorySize string

// MeasuredTime is a time that was measured, in nanoseconds. It is written as a duration such as `31.543us`, exactly.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
type MeasuredTime int64

// String writes the time with its unit, such as `31.543us`.
func (t MeasuredTime) String() string {
	return strings.Replace(time.Duration(t).String(), "µs", "us", 1)
}

// MarshalJSON writes the time as a duration.
func (t MeasuredTime) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// UnmarshalJSON reads a duration.
func (t *MeasuredTime) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	value, err := time.ParseDuration(text)
	*t = MeasuredTime(value)
	return err
}

// MACAddress is an Ethernet address such as `02:00:00:00:00:01`.
//
// +kubebuilder:validation:MaxLength=17
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$')",message="must be a MAC address such as 02:00:00:00:00:01"
type MACAddress string

// IPv4Address is an address such as `198.18.0.1`.
//
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 198.18.0.1"
type IPv4Address string

// IPv6Address is an address such as `2001:db8::1`.
//
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8::1"
type IPv6Address string

// CIDR is an IPv4 or IPv6 prefix such as `198.18.0.0/15`.
//
// +kubebuilder:validation:MaxLength=49
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be a prefix such as 198.18.0.0/15 or 2001:db8::/32"
type CIDR string

// AddressOrCIDR is an IPv4 or IPv6 address, or a prefix.
//
// +kubebuilder:validation:MaxLength=49
// +kubebuilder:validation:XValidation:rule="isIP(self) || isCIDR(self)",message="must be an address or a prefix such as 198.18.0.1 or 2001:db8::/32"
type AddressOrCIDR string

// InterfaceAddress is an IPv4 or IPv6 address with the length of its subnet's prefix, such as `198.18.0.1/24`.
//
// +kubebuilder:validation:MaxLength=49
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be an address with its prefix such as 198.18.0.1/24 or 2001:db8::1/64"
type InterfaceAddress string

// PortRange is a TCP or UDP port, or a range of them, such as `80` or `1024-65535`.
//
// +kubebuilder:validation:MaxLength=11
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,5}(-[0-9]{1,5})?$') && self.split('-').all(p, int(p) <= 65535)",message="must be a port or a range of ports such as 80 or 1024-65535"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9]{1,5}-[0-9]{1,5}$') || int(self.split('-')[0]) <= int(self.split('-')[1])",message="the first port of a range must not be greater than the last"
type PortRange string

// PortName names a port of a generator. It becomes an interface's name in the engine pod.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9-]{0,13}[a-z0-9])?$')",message="must be 1 to 15 lower-case letters, digits or '-', start with a letter and end with a letter or digit"
type PortName string

// EntryName names an item of a list; it appears in results and as a label of metrics.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits or '-', start and end with a letter or digit"
type EntryName string

// ObjectName is the name of another object.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type ObjectName string

// FieldValue is a value of a packet field: a whole number (`1025`, or `0x400` as a string), an IPv4 or IPv6 address, or
// a MAC address.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:MaxLength=45
type FieldValue string

// UnmarshalJSON takes a number or a string.
func (v *FieldValue) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*v = FieldValue(text)
		return nil
	}
	if _, err := strconv.ParseInt(string(data), 10, 64); err != nil {
		return fmt.Errorf("a field value must be a whole number or a string, not %s", data)
	}
	*v = FieldValue(data)
	return nil
}
