// SPDX-License-Identifier: Apache-2.0

// TrafficCapture, TrafficPing, TrafficRecordsReader and TrafficStatsReader: readers of packets of ports, of replies to echo requests, of records of
// connections, and of counters.
// The right to create such an object authorises a reader; the object names the key of its reader, and the operator serves the holder of that key.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReaderKey is the SHA-256 of the public key (SubjectPublicKeyInfo in DER, RFC 5280) of the certificate that the reader shows to the
// operator, in hexadecimal. The key is made for this object alone: `kubectl spate` makes one for each command.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
type ReaderKey string

// CaptureDirection says which packets of a port are copied.
//
// +kubebuilder:validation:Enum=RX;TX;Both
type CaptureDirection string

// Directions of a capture.
const (
	// CaptureReceived copies packets that the port receives.
	CaptureReceived CaptureDirection = "RX"
	// CaptureTransmitted copies packets that the port sends.
	CaptureTransmitted CaptureDirection = "TX"
	// CaptureBoth copies both.
	CaptureBoth CaptureDirection = "Both"
)

// TrafficCaptureSpec says which packets are copied, and who reads them. It cannot be changed.
type TrafficCaptureSpec struct {
	// generatorRef names the TrafficGenerator, in the same namespace.
	// +required
	GeneratorRef LocalReference `json:"generatorRef"`

	// pods of the generator; all of them when absent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Pods []string `json:"pods,omitempty"`

	// ports of the generator, on each of the pods.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Ports []PortName `json:"ports"`

	// filter is an expression of pcap-filter(7); every packet when absent.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Filter string `json:"filter,omitempty"`

	// direction of the packets: RX those received, TX those sent, Both when absent.
	// +optional
	Direction CaptureDirection `json:"direction,omitempty"`

	// snapLength is how many bytes of each packet are copied; all when absent or 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	SnapLength int32 `json:"snapLength,omitempty"`

	// maxPackets ends the capture of a pod's port after that many packets; until the reader ends it when absent or 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxPackets int64 `json:"maxPackets,omitempty"`

	// readerKey is the key of who may read.
	// +required
	ReaderKey ReaderKey `json:"readerKey"`
}

// TrafficPingSpec says what is pinged, from where, and who reads the replies. It cannot be changed.
type TrafficPingSpec struct {
	// generatorRef names the TrafficGenerator, in the same namespace. Its limits apply: `allowedDestinations` must have the destination.
	// +required
	GeneratorRef LocalReference `json:"generatorRef"`

	// pods of the generator; all of them when absent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Pods []string `json:"pods,omitempty"`

	// port of the generator that sends the echo requests. It needs an address.
	// +required
	Port PortName `json:"port"`

	// destination is the address of the station that is pinged.
	// +required
	Destination IPAddress `json:"destination"`

	// source is one of the port's addresses; that of the destination's subnet, else any, when absent.
	// +optional
	Source IPAddress `json:"source,omitempty"`

	// count of echo requests of each pod; until the reader ends it when absent or 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int64 `json:"count,omitempty"`

	// interval from one echo request to the next, from 10ms to 1h.
	// +optional
	// +default="1s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('1h')",message="must be 10ms to 1h"
	Interval Duration `json:"interval,omitempty"`

	// timeout is how long a reply is waited for, from 1ms to 60s.
	// +optional
	// +default="1s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('60s')",message="must be 1ms to 60s"
	Timeout Duration `json:"timeout,omitempty"`

	// size is the number of bytes of data in an echo request, behind the header of ICMP.
	// +optional
	// +default=56
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=1232
	Size int32 `json:"size,omitempty"`

	// hopLimit is the time to live, or hop limit, of an echo request.
	// +optional
	// +default=64
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	HopLimit int32 `json:"hopLimit,omitempty"`

	// readerKey is the key of who may read.
	// +required
	ReaderKey ReaderKey `json:"readerKey"`
}

// TrafficRecordsReaderSpec says of which run records are read, and by whom. It cannot be changed.
type TrafficRecordsReaderSpec struct {
	// runRef names the TrafficRun, in the same namespace.
	// +required
	RunRef LocalReference `json:"runRef"`

	// readerKey is the key of who may read.
	// +required
	ReaderKey ReaderKey `json:"readerKey"`
}

// TrafficStatsReaderSpec says of which run counters are read, and by whom. It cannot be changed.
type TrafficStatsReaderSpec struct {
	// runRef names the TrafficRun, in the same namespace.
	// +required
	RunRef LocalReference `json:"runRef"`

	// readerKey is the key of who may read.
	// +required
	ReaderKey ReaderKey `json:"readerKey"`
}

// LiveEndpoint is where the operator serves readers: a TLS connection in a WebSocket, through the API server's proxy of a Service.
type LiveEndpoint struct {
	// namespace of the Service.
	// +required
	Namespace string `json:"namespace"`

	// service is the Service's name.
	// +required
	Service string `json:"service"`

	// port is the name of the Service's port.
	// +required
	Port string `json:"port"`

	// serverName is the name in the operator's certificate.
	// +required
	ServerName string `json:"serverName"`

	// trustBundle has the certificates (PEM) of the authority that signs the operator's.
	// +required
	TrustBundle string `json:"trustBundle"`
}

// LiveStatus says where a reader reads.
type LiveStatus struct {
	// conditions are Ready, Stalled. Ready says that the reader may connect.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// endpoint to connect to.
	// +optional
	Endpoint *LiveEndpoint `json:"endpoint,omitempty"`

	// pods to read from.
	// +optional
	// +listType=atomic
	Pods []string `json:"pods,omitempty"`

	// lastReadTime is when a reader was last connected, to the minute. The object is deleted some minutes after it.
	// +optional
	LastReadTime *metav1.Time `json:"lastReadTime,omitempty"`
}

// TrafficCapture copies packets of a generator's ports to one reader, live. It is made by `kubectl spate capture`, and deleted when that
// ends; deleting it ends the capture.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=spate
// +kubebuilder:printcolumn:name="Generator",type=string,JSONPath=`.spec.generatorRef.name`
// +kubebuilder:printcolumn:name="Ports",type=string,JSONPath=`.spec.ports`
// +kubebuilder:printcolumn:name="Filter",type=string,JSONPath=`.spec.filter`
// +kubebuilder:printcolumn:name="Read",type=date,JSONPath=`.status.lastReadTime`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TrafficCapture struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another"
	Spec TrafficCaptureSpec `json:"spec"`

	// status is what was found.
	// +optional
	Status LiveStatus `json:"status,omitzero"`
}

// TrafficCaptureList is a list of TrafficCaptures.
//
// +kubebuilder:object:root=true
type TrafficCaptureList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []TrafficCapture `json:"items"`
}

// TrafficPing sends echo requests (ICMP, ICMPv6) from a generator's port and gives what becomes of them to one reader, live. It is made by
// `kubectl spate ping`, and deleted when that ends; deleting it ends the ping.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=spate
// +kubebuilder:printcolumn:name="Generator",type=string,JSONPath=`.spec.generatorRef.name`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.spec.port`
// +kubebuilder:printcolumn:name="Destination",type=string,JSONPath=`.spec.destination`
// +kubebuilder:printcolumn:name="Read",type=date,JSONPath=`.status.lastReadTime`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TrafficPing struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another"
	Spec TrafficPingSpec `json:"spec"`

	// status is what was found.
	// +optional
	Status LiveStatus `json:"status,omitzero"`
}

// TrafficPingList is a list of TrafficPings.
//
// +kubebuilder:object:root=true
type TrafficPingList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []TrafficPing `json:"items"`
}

// TrafficRecordsReader reads records of a run's connections as they end. It is made by `kubectl spate records`, and deleted when that
// ends; deleting it ends the reading.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=spate
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.spec.runRef.name`
// +kubebuilder:printcolumn:name="Read",type=date,JSONPath=`.status.lastReadTime`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TrafficRecordsReader struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another"
	Spec TrafficRecordsReaderSpec `json:"spec"`

	// status is what was found.
	// +optional
	Status LiveStatus `json:"status,omitzero"`
}

// TrafficRecordsReaderList is a list of TrafficRecordsReaders.
//
// +kubebuilder:object:root=true
type TrafficRecordsReaderList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []TrafficRecordsReader `json:"items"`
}

// TrafficStatsReader reads counters of a run's engines while it is active: ports, streams, templates, receivers and workers. `kubectl spate top`
// and `receive` make it, and delete it when they end; deleting it ends the reading.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=spate
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.spec.runRef.name`
// +kubebuilder:printcolumn:name="Read",type=date,JSONPath=`.status.lastReadTime`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TrafficStatsReader struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another"
	Spec TrafficStatsReaderSpec `json:"spec"`

	// status is what was found.
	// +optional
	Status LiveStatus `json:"status,omitzero"`
}

// TrafficStatsReaderList is a list of TrafficStatsReaders.
//
// +kubebuilder:object:root=true
type TrafficStatsReaderList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []TrafficStatsReader `json:"items"`
}

// LiveReader is what TrafficCapture, TrafficPing, TrafficRecordsReader and TrafficStatsReader have in common.
//
// +kubebuilder:object:generate=false
type LiveReader interface {
	metav1.Object
	runtime.Object

	// Key of who may read.
	Key() *ReaderKey
	// Live is where to read.
	Live() *LiveStatus
}

// Key returns the key of the reader of the packets.
func (c *TrafficCapture) Key() *ReaderKey { return &c.Spec.ReaderKey }

// Live returns the status with the endpoint for the packets.
func (c *TrafficCapture) Live() *LiveStatus { return &c.Status }

// Key returns the key of the reader of the replies.
func (p *TrafficPing) Key() *ReaderKey { return &p.Spec.ReaderKey }

// Live returns the status with the endpoint for the replies.
func (p *TrafficPing) Live() *LiveStatus { return &p.Status }

// Key returns the key of the reader of the records.
func (r *TrafficRecordsReader) Key() *ReaderKey { return &r.Spec.ReaderKey }

// Live returns the status with the endpoint for the records.
func (r *TrafficRecordsReader) Live() *LiveStatus { return &r.Status }

// Key returns the key of the reader of the counters.
func (r *TrafficStatsReader) Key() *ReaderKey { return &r.Spec.ReaderKey }

// Live returns the status with the endpoint for the counters.
func (r *TrafficStatsReader) Live() *LiveStatus { return &r.Status }
