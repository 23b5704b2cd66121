// SPDX-License-Identifier: Apache-2.0

// TrafficProfile: what to send, on which generator, at what rate, for how long, and with which thresholds.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SuspendPolicy says what becomes of an inline generator's pods while a profile is suspended.
//
// +kubebuilder:validation:Enum=Keep;Free
type SuspendPolicy string

const (
	// SuspendKeep keeps the pods with their devices, CPUs and hugepages.
	SuspendKeep SuspendPolicy = "Keep"
	// SuspendFree deletes the pods.
	SuspendFree SuspendPolicy = "Free"
)

// BusyPolicy says what happens while the generator cannot take the run.
//
// +kubebuilder:validation:Enum=Queue;Refuse
type BusyPolicy string

const (
	// BusyQueue queues the run: runs are admitted in the order of their creation, and a younger one that would fit does not overtake an
	// older one that waits for the same generator.
	BusyQueue BusyPolicy = "Queue"
	// BusyRefuse ends the run: it is not valid, with reason GeneratorBusy.
	BusyRefuse BusyPolicy = "Refuse"
)

// PodLossPolicy says what happens to a run that loses an engine pod while it sends.
//
// +kubebuilder:validation:Enum=Abort;Continue
type PodLossPolicy string

const (
	// PodLossAbort ends the run: it is not valid, with reason PodLost.
	PodLossAbort PodLossPolicy = "Abort"
	// PodLossContinue goes on with the other pods, each with its own share of the traffic.
	PodLossContinue PodLossPolicy = "Continue"
)

// TrafficDefinition is what a run sends and measures, and what its result must be.
//
// +kubebuilder:validation:XValidation:rule="(has(self.traffic) && size(self.traffic) > 0) || (has(self.reflect) && size(self.reflect) > 0) || (has(self.receive) && size(self.receive) > 0) || (has(self.clients) && size(self.clients) > 0)",message="there is nothing to do: set traffic, reflect, receive or clients"
// +kubebuilder:validation:XValidation:rule="has(self.mix) == (has(self.traffic) && self.traffic.exists(t, has(t.application) && has(t.application.share)))",fieldPath=".mix",message="mix goes with applications that have a share: set both or neither"
// +kubebuilder:validation:XValidation:rule="!has(self.stages) || size(self.stages) == 0 || (!has(self.rate) && !has(self.duration) && !has(self.rampUp))",fieldPath=".stages",message="stages have rates and durations of their own: remove rate, duration and rampUp"
type TrafficDefinition struct {
	// generatorRef names the generator to run on. When absent, a run uses the generator that its profile describes (`generator`), or the only
	// generator of its namespace.
	// +optional
	GeneratorRef *GeneratorReference `json:"generatorRef,omitempty"`

	// traffic is what is sent at the same time, up to 512 entries and 65536 streams. An entry can be many equal streams (`copies` of a
	// stream), or many different ones (`stream.selector`).
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Traffic []TrafficEntry `json:"traffic,omitempty"`

	// reflect are ports that send back what they receive while the run sends.
	// +optional
	// +listType=map
	// +listMapKey=port
	// +kubebuilder:validation:MaxItems=16
	Reflect []ReflectPort `json:"reflect,omitempty"`

	// receive names ports that measure foreign traffic (packets of no run) while the run is active.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Receive []ReceivePort `json:"receive,omitempty"`

	// routing has the routes that the run advertises by the sessions of its ports.
	// +optional
	Routing *RunRouting `json:"routing,omitempty"`

	// clients are emulated hosts of an access network on ports of the generator. They start when the run is prepared, and leave when it has
	// ended; the run sends when as many are bound as each entry's `ready` says. Pools of ASTFTemplates can have their addresses.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Clients []ClientsEntry `json:"clients,omitempty"`

	// rate scales all entries in proportion: by a factor (`2x`), to a total (`1Mpps`, `10Gbps`, or `80%` of the line rate), or to a total
	// of each port (`10Gbps/port`). Applications are scaled by factors only. A change applies to the active run.
	// +optional
	Rate ScaledRate `json:"rate,omitempty"`

	// paused stops all entries from sending while it is true: applications open no connections, and those that are open go on. The time of
	// the run goes on. A change applies to the active run.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// mix is the total rate of all applications that have a share. Others have their own rates.
	// +optional
	Mix *ConnectionMix `json:"mix,omitempty"`

	// rampUp is the time over which the connection rate of applications rises from 0, evenly.
	// +optional
	RampUp Duration `json:"rampUp,omitempty"`

	// rampUpStep makes the connection rate rise in steps of this time. rampUp is a whole number n of them: in step k the rate is k/n of the
	// whole, and no gap between connections is longer than a quarter of rampUp.
	// +optional
	RampUpStep Duration `json:"rampUpStep,omitempty"`

	// tunables of the transport on each side, for all applications. Those of a template override them.
	// +optional
	Tunables Tunables `json:"tunables,omitzero"`

	// ignoredSources lists hosts. Applications do not answer their packets that belong to no open flow, and do not count them as errors.
	// +optional
	IgnoredSources *IgnoredSources `json:"ignoredSources,omitempty"`

	// randomOrderSeed makes applications open connections in random order, in proportion to their rates, reproducible by this seed. When
	// absent they take turns, as evenly as their rates allow.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	RandomOrderSeed *int64 `json:"randomOrderSeed,omitempty"`

	// maxFlowsPerEngine is the number of flows that each engine can hold at a time, those in TIME-WAIT included. A flow between a client
	// and a server of the same engine counts twice. 65536 for each worker when absent. Memory for all of them is allocated before the
	// run, from the generator's `memory`.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	MaxFlowsPerEngine *int64 `json:"maxFlowsPerEngine,omitempty"`

	// records of flows, each written when the flow ends: live to readers (`kubectl spate records`), and to files if a volume is named. None
	// when absent.
	// +optional
	Records *ConnectionRecords `json:"records,omitempty"`

	// duration of the measured phase. When absent, the run lasts until it is stopped: it is deleted, or its profile is suspended.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || duration(self) > duration('0s')",message="must be greater than zero; leave it out to run until stopped"
	Duration Duration `json:"duration,omitempty"`

	// setupTimeout is the longest time that the run waits for the sessions of its ports (`routing` of a generator's port) to be up, for its
	// routes to be sent, and for its clients without a `ready.timeout` to be bound, before it sends. Later the run is invalid
	// (SetupTimedOut).
	// +optional
	// +default="60s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || duration(self) > duration('0s')",message="must be greater than zero; leave it out for 60s"
	SetupTimeout Duration `json:"setupTimeout,omitempty"`

	// warmup is sent before the measured phase and counted apart.
	// +optional
	// +default="0s"
	Warmup Duration `json:"warmup,omitempty"`

	// drain is how long the run waits for packets in flight after the last was sent.
	// +optional
	// +default="500ms"
	Drain Duration `json:"drain,omitempty"`

	// stages are parts of the measured phase with a rate each, one after the other without a pause, such as a ramp, a soak, a spike and a
	// recovery. They replace rate, duration and rampUp. Each is evaluated by itself, and the run by thresholds too.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Stages []Stage `json:"stages,omitempty"`

	// thresholds the result must meet for the run to pass. Without any, a valid run passes. When those of a profile change, the latest run
	// is evaluated by the new ones; nothing is sent.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Thresholds []Threshold `json:"thresholds,omitempty"`

	// generatorTolerance is how many late, dropped or missed packets of the generator itself are accepted. Beyond it the run is invalid
	// with reason GeneratorLimited.
	// +optional
	// +default={}
	GeneratorTolerance GeneratorTolerance `json:"generatorTolerance,omitzero"`

	// whenBusy says what to do while the generator cannot take the run.
	// +optional
	// +default="Queue"
	WhenBusy BusyPolicy `json:"whenBusy,omitempty"`

	// whenPodLost says what to do when a pod of the generator is lost while the run sends: its engine ends, is deleted, or does not answer
	// for a minute. `Abort` ends the run. `Continue` goes on with the other pods: the result is theirs, the run's status.lostPods says what
	// is missing, and a threshold on packets received or lost is not met, since the lost pod may have sent or received some of them. A run
	// that has lost all its pods ends. It holds for runs that are admitted after a change.
	// +optional
	// +default="Abort"
	WhenPodLost PodLossPolicy `json:"whenPodLost,omitempty"`
}

// IgnoredSources are hosts, such as a probe on the link. A packet is from one of them if its source MAC or its source address is in the
// lists.
//
// +kubebuilder:validation:MinProperties=1
type IgnoredSources struct {
	// macs of stations.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	MACs []MACAddress `json:"macs,omitempty"`

	// addresses or prefixes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Addresses []AddressOrCIDR `json:"addresses,omitempty"`
}

// RunPolicy says when a profile starts a run by itself.
//
// +kubebuilder:validation:Enum=OnChange;Manual;Schedule
type RunPolicy string

const (
	// RunOnChange starts a run when the profile is created, and when what it sends changes.
	RunOnChange RunPolicy = "OnChange"
	// RunManual starts none: runs are created by people and pipelines.
	RunManual RunPolicy = "Manual"
	// RunOnSchedule starts runs at the times of `schedule`.
	RunOnSchedule RunPolicy = "Schedule"
)

// ConcurrencyPolicy says what happens when a run is due while another of the profile has not ended.
//
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// ConcurrencyAllow starts it beside the other, as far as the generator has room.
	ConcurrencyAllow ConcurrencyPolicy = "Allow"
	// ConcurrencyForbid skips it.
	ConcurrencyForbid ConcurrencyPolicy = "Forbid"
	// ConcurrencyReplace stops the other first.
	ConcurrencyReplace ConcurrencyPolicy = "Replace"
)

// RunSchedule says at which times a profile starts runs. Its fields mean what they mean in a CronJob.
type RunSchedule struct {
	// cron is a time in Cron format (minute, hour, day of the month, month and day of the week) such as `0 2 * * *`, or `@hourly`, `@daily`, `@weekly`,
	// `@monthly`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=')",message="has no time zone: set timeZone"
	Cron string `json:"cron"`

	// timeZone of cron, a name of the IANA database such as `Europe/Berlin`. UTC when absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone *string `json:"timeZone,omitempty"`

	// concurrencyPolicy says what to do when the run before has not ended.
	// +optional
	// +default="Forbid"
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// startingDeadlineSeconds is the deadline in seconds to start a run that missed its scheduled time, for example because the operator
	// was down. When absent, the last missed run has no deadline.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
}

// TrafficProfileSpec describes what is run, and when.
//
// +kubebuilder:validation:AtMostOneOf=generatorRef;generator
// +kubebuilder:validation:XValidation:rule="!has(self.generator) || !has(self.traffic) || self.traffic.all(t, !has(t.transmitPort) || self.generator.ports.exists(p, p.name == t.transmitPort))",fieldPath=".traffic",message="the transmitPort of each entry must name a port of spec.generator.ports"
// +kubebuilder:validation:XValidation:rule="!has(self.generator) || !has(self.traffic) || self.traffic.all(t, !has(t.receivePort) || self.generator.ports.exists(p, p.name == t.receivePort))",fieldPath=".traffic",message="the receivePort of each entry must name a port of spec.generator.ports"
// +kubebuilder:validation:XValidation:rule="!has(self.generator) || !has(self.traffic) || self.traffic.all(t, (!has(t.transmitPodGroup) || (has(self.generator.podGroups) && self.generator.podGroups.exists(g, g.name == t.transmitPodGroup))) && (!has(t.receivePodGroup) || (has(self.generator.podGroups) && self.generator.podGroups.exists(g, g.name == t.receivePodGroup))))",fieldPath=".traffic",message="the transmitPodGroup and receivePodGroup of each entry must name one of spec.generator.podGroups"
// +kubebuilder:validation:XValidation:rule="!has(self.generator) || !has(self.reflect) || self.reflect.all(r, self.generator.ports.exists(p, p.name == r.port))",fieldPath=".reflect",message="the port of each item must name a port of spec.generator.ports"
// +kubebuilder:validation:XValidation:rule="!has(self.generator) || !has(self.clients) || self.clients.all(c, self.generator.ports.exists(p, p.name == c.port))",fieldPath=".clients",message="the port of each item must name a port of spec.generator.ports"
// +kubebuilder:validation:XValidation:rule="!has(self.generator) || !has(self.receive) || self.receive.all(r, self.generator.ports.exists(p, p.name == r.port))",fieldPath=".receive",message="the port of each item must name a port of spec.generator.ports"
// +kubebuilder:validation:XValidation:rule="!has(self.suspendPolicy) || self.suspendPolicy == 'Keep' || has(self.generator)",fieldPath=".suspendPolicy",message="Free needs an inline generator: a referenced one is suspended by its own spec.suspend"
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == (has(self.runPolicy) && self.runPolicy == 'Schedule')",fieldPath=".schedule",message="goes with runPolicy: Schedule: set both or neither"
type TrafficProfileSpec struct {
	TrafficDefinition `json:",inline"`

	// generator describes one that belongs to this profile and goes with it.
	// +optional
	Generator *TrafficGeneratorSpec `json:"generator,omitempty"`

	// runPolicy says when the profile starts a run by itself: `OnChange` when it is created and when what it sends changes, `Manual` never,
	// `Schedule` at the times of schedule. TrafficRuns that name the profile can be created with each of them.
	// +optional
	// +default="OnChange"
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// schedule of runs, with runPolicy Schedule.
	// +optional
	Schedule *RunSchedule `json:"schedule,omitempty"`

	// runID starts one more run when it changes, with any runPolicy: the way to ask for a run from a Git repository.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be letters, digits, '-', '_' or '.', start and end with a letter or digit"
	RunID string `json:"runID,omitempty"`

	// suspend ends the runs that this profile started, and starts none while it is true. With runPolicy OnChange, false starts a new run if
	// the one before was ended so. Runs that others created are not affected.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// suspendPolicy says whether an inline generator's pods are kept or freed while suspended.
	// +optional
	// +default="Keep"
	SuspendPolicy SuspendPolicy `json:"suspendPolicy,omitempty"`

	// runHistoryLimit is the number of ended runs of those this profile started that are kept.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RunHistoryLimit *int32 `json:"runHistoryLimit,omitempty"`

	// ttlSecondsAfterFinished deletes each run that this profile started this long after it has ended; never when absent. The profile stays.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ShareUnit is what shares of a mix are of.
//
// +kubebuilder:validation:Enum=Connections;Bytes
type ShareUnit string

const (
	// ShareConnections is of the connections that begin.
	ShareConnections ShareUnit = "Connections"
	// ShareBytes is of the bytes that applications send.
	ShareBytes ShareUnit = "Bytes"
)

// MixRate is connections a second, or bits a second of what applications send.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?[kMG]?(cps|bps)$')",message="must be connections a second such as 100kcps, or bits a second of what applications send such as 10Gbps"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[kMG]?[cb]')",message="a rate must be greater than zero"
type MixRate string

// ConnectionMix divides a rate over the applications that have a share. The bytes of a connection are those that both programs of its
// template send, each running to its end, without headers and retransmissions.
type ConnectionMix struct {
	// rate of all of them together: connections a second such as `100kcps`, or bits a second of what applications send, both ways,
	// such as `10Gbps`.
	// +required
	Rate MixRate `json:"rate"`

	// shareBy says what shares are of: `Connections`, or `Bytes`.
	// +required
	ShareBy ShareUnit `json:"shareBy"`
}

// ConnectionRecords says which flows of applications are recorded when they end, at each emulated end, and where. `{}` records all of
// them, live only. The run's result counts them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxRecords) || has(self.volume)",fieldPath=".maxRecords",message="applies to files, and none are written without a volume: set volume, or leave maxRecords out"
type ConnectionRecords struct {
	// oneIn is N to record one connection in N, at both of its ends; 1 records all.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	OneIn int64 `json:"oneIn,omitempty"`

	// volume of the generator's spec.volumes, a writable one. Each engine writes a Parquet file of its own there: the run's name, a dash,
	// and the engine's number from 0. When absent no file is written: records are streamed live to readers while the run lasts
	// (`kubectl spate records`), and none are kept.
	// +optional
	Volume EntryName `json:"volume,omitempty"`

	// maxRecords is the number of records in each file, 10 million when absent. Later ones are omitted and counted.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	MaxRecords *int64 `json:"maxRecords,omitempty"`
}

// TrafficEntry is what is sent on a pair of ports: a stream of packets, or an application with its clients and servers.
//
// +kubebuilder:validation:ExactlyOneOf=stream;application
// +kubebuilder:validation:XValidation:rule="!has(self.stream) || has(self.transmitPort) || !has(self.receivePort)",fieldPath=".transmitPort",message="is required beside receivePort: a stream is sent from a port"
// +kubebuilder:validation:XValidation:rule="!has(self.application) || has(self.transmitPort) || !has(self.receivePort) || (!has(self.application.connectionRate) && !has(self.application.share))",fieldPath=".application",message="connectionRate and share are those of emulated clients: set transmitPort"
// +kubebuilder:validation:XValidation:rule="!has(self.transmitPodGroup) || has(self.transmitPort) || !has(self.receivePort)",fieldPath=".transmitPodGroup",message="is of what transmitPort sends, and only receivePort is set: set transmitPort, or leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.receivePodGroup) || has(self.receivePort) || !has(self.transmitPort)",fieldPath=".receivePodGroup",message="is of servers at receivePort, and only transmitPort is set: set receivePort, or leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.receivePodGroup) || !has(self.stream)",fieldPath=".receivePodGroup",message="is of an application's servers: packets of a stream are counted in whichever pod they arrive; leave it out"
type TrafficEntry struct {
	// name of the entry: the stream's or application's name in results and metrics.
	// +required
	Name EntryName `json:"name"`

	// transmitPort is the port that sends a stream, or that has an application's clients; they are real ones when only receivePort is set.
	// When neither is set, the generator must have two ports: the first is transmitPort, the second receivePort.
	// +optional
	TransmitPort PortName `json:"transmitPort,omitempty"`

	// receivePort is the port where a stream's packets are expected, which `measure.flow` requires, or that has an application's servers;
	// they are real ones when only transmitPort is set.
	// +optional
	ReceivePort PortName `json:"receivePort,omitempty"`

	// transmitPodGroup is the group of the generator's `spec.podGroups` whose pods send a stream, or have an application's clients; all pods
	// when absent. What is split over pods, such as rates and addresses of clients, is split over the pods of the group. The entries with clients
	// name a group all or none, and so do the streams.
	// +optional
	TransmitPodGroup EntryName `json:"transmitPodGroup,omitempty"`

	// receivePodGroup is the group of the generator's `spec.podGroups` whose pods have an application's servers, over which the servers' addresses are
	// split; all pods when absent. With the group of transmitPodGroup each of its pods has both sides; with another one clients and servers
	// may be at the same port.
	// +optional
	ReceivePodGroup EntryName `json:"receivePodGroup,omitempty"`

	// paused stops the entry from sending while it is true: an application opens no connections, and those that are open go on. A change
	// applies to the active run.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// stream of packets.
	// +optional
	Stream *StreamEntry `json:"stream,omitempty"`

	// application with emulated clients, servers or both.
	// +optional
	Application *ApplicationEntry `json:"application,omitempty"`
}

// StreamEntry is a stream of an entry, by reference or inline, or many of them by their labels.
//
// +kubebuilder:validation:ExactlyOneOf=ref;inline;selector
// +kubebuilder:validation:AtMostOneOf=size;imix
type StreamEntry struct {
	// ref names a StatelessStream in the profile's namespace.
	// +optional
	Ref *LocalReference `json:"ref,omitempty"`

	// inline describes the stream here.
	// +optional
	Inline *StatelessStreamSpec `json:"inline,omitempty"`

	// selector selects StatelessStreams in the profile's namespace by their labels. Each is sent as by an entry of its own: results,
	// metrics and thresholds have it under its own name, which must be that of no other entry and have the form of one, and the other fields of the
	// entry apply to each. start and next are not for them.
	// +optional
	Selector *StreamSelector `json:"selector,omitempty"`

	// rate overrides the stream's own; that of each selected stream. A change applies to the active run; with a selector, adding or removing
	// it starts another run.
	// +optional
	Rate Rate `json:"rate,omitempty"`

	// size overrides the sizes of the stream's packets: bytes on the wire, the 4-byte FCS included.
	// +optional
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=9234
	Size *int32 `json:"size,omitempty"`

	// imix overrides the sizes of the stream's packets by those of a published Internet mix.
	// +optional
	IMIX IMIX `json:"imix,omitempty"`

	// start is `Auto` for a stream that starts with the run, and `Waiting` for one that the `next` of another entry starts.
	// +optional
	// +default="Auto"
	Start EntryStart `json:"start,omitempty"`

	// next is the entry that starts when this one has sent its last packet. Not for streams without an end: continuous, and multiBurst and
	// replay without their number. In a chain with a replay one entry starts by itself, and one worker sends all of them: the first of the
	// port, on the first pod.
	// +optional
	Next *NextEntry `json:"next,omitempty"`
}

// StreamSelector selects StatelessStreams by their labels, in the order of their names.
type StreamSelector struct {
	// matchLabels are labels, and the value of each, that the streams have.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// count is the number of streams that are selected. A run waits while there are fewer or more, such as while they are applied. When
	// absent, any number except 0 is accepted.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	Count *int32 `json:"count,omitempty"`
}

// ApplicationEntry is the template of an entry, by reference or inline.
//
// +kubebuilder:validation:ExactlyOneOf=templateRef;inline
// +kubebuilder:validation:AtMostOneOf=connectionRate;share
type ApplicationEntry struct {
	// templateRef names an ASTFTemplate in the profile's namespace.
	// +optional
	TemplateRef *LocalReference `json:"templateRef,omitempty"`

	// inline describes the template here. Of its `source.programs` the API server checks types, enums, lengths and ranges. The rest of their
	// rules would exceed its budget for the rules of a kind: `kubectl spate validate` and the operator check them. Where one is broken, the
	// profile is Stalled and a run is not Valid, with reason InvalidSpec.
	// +optional
	Inline *ASTFTemplateSpec `json:"inline,omitempty"`

	// connectionRate overrides the template's own. A change applies to the active run.
	// +optional
	ConnectionRate ConnectionRate `json:"connectionRate,omitempty"`

	// share of the profile's mix that the clients have instead of a rate of their own: this number divided by the sum of all shares.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Share *int32 `json:"share,omitempty"`
}

// EntryStart says what starts an entry.
//
// +kubebuilder:validation:Enum=Auto;Waiting
type EntryStart string

const (
	// StartAuto starts with the run.
	StartAuto EntryStart = "Auto"
	// StartWaiting waits for another entry's `next`.
	StartWaiting EntryStart = "Waiting"
)

// NextEntry is the entry that follows another in a chain.
type NextEntry struct {
	// entry is the name of an entry on the same transmitPort. Its stream has as many copies as this one's, or neither has any. None of both
	// replays both directions of a capture.
	// +required
	Entry EntryName `json:"entry"`

	// loops is how often it is started by this entry; without end when absent or 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Loops int64 `json:"loops,omitempty"`
}

// ReflectionSwap is what changes places in a reflected packet.
//
// +kubebuilder:validation:Enum=MAC;Addresses
type ReflectionSwap string

const (
	// SwapMAC swaps the Ethernet addresses.
	SwapMAC ReflectionSwap = "MAC"
	// SwapAddresses swaps IP addresses and TCP/UDP ports too.
	SwapAddresses ReflectionSwap = "Addresses"
)

// ReflectPort is a port that sends back what it receives: IPv4 and IPv6 packets, with a TTL or hop limit that is lower by one, so that
// two reflectors do not pass a packet round for ever. Other frames, frames to or from a group, packets whose TTL is used up and those
// to destinations that the generator's limits do not allow are not sent back. After the sending phase, and while the run is paused,
// only packets of the run itself are.
type ReflectPort struct {
	// port of the generator.
	// +required
	Port PortName `json:"port"`

	// swap says what changes places: `MAC` the Ethernet addresses, `Addresses` IP addresses and TCP/UDP ports too.
	// +optional
	// +default="MAC"
	Swap ReflectionSwap `json:"swap,omitempty"`

	// acceptAnyMAC sends back frames with any destination MAC. By default only those to the port's own MAC are sent back.
	// +optional
	AcceptAnyMAC bool `json:"acceptAnyMAC,omitempty"`
}

// ReceivePort is a port that measures foreign traffic: packets and bytes, inter-arrival time, jitter, and latency of
// packets that carry a time stamp.
type ReceivePort struct {
	// name in results and metrics.
	// +required
	Name EntryName `json:"name"`

	// port of the generator.
	// +required
	Port PortName `json:"port"`
}

// Threshold is a condition on a run's result.
type Threshold struct {
	// name of the threshold.
	// +required
	Name EntryName `json:"name"`

	// expression in CEL over `result`, which has the fields of the run's `status.result`. Counters are integers, ratios are numbers and
	// times are durations, such as `result.lost == 0`, `result.lossRatio < 0.001`,
	// `result.streams["voice"].latency.p99 < duration('100us')`, `result.flows.failed == 0`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Expression string `json:"expression"`

	// message for people when it does not hold.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`

	// abort ends the run, which has failed then, as soon as the expression is false. It is evaluated once a second.
	// +optional
	Abort bool `json:"abort,omitempty"`

	// abortAfter is how long the run, or the stage, is measured before that.
	// +optional
	AbortAfter Duration `json:"abortAfter,omitempty"`
}

// Stage is a part of the measured phase.
type Stage struct {
	// name of the stage.
	// +required
	Name EntryName `json:"name"`

	// duration of the stage, including ramp.
	// +required
	Duration Duration `json:"duration"`

	// rate during the stage, as `rate` of a profile; of applications also connections a second, such as `300cps`.
	// +required
	Rate SearchRate `json:"rate"`

	// ramp is the time from the beginning of the stage in which rates change linearly from those of the stage before to its own; in the first
	// stage they rise from 0.
	// +optional
	Ramp Duration `json:"ramp,omitempty"`

	// thresholds that the stage must meet, on a `result` that has what was counted in the stage. Packets in flight at its end are of the next.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Thresholds []Threshold `json:"thresholds,omitempty"`

	// abortOnFail ends the run at the end of the stage if one of its thresholds does not hold. Later stages are not run.
	// +optional
	AbortOnFail bool `json:"abortOnFail,omitempty"`
}

// GeneratorTolerance is how much of its own a generator may add: a number of packets or of flows, or a share of those sent or
// due. It holds for streams' packets and for templates' flows, each by themselves.
type GeneratorTolerance struct {
	// late packets left the generator, and late flows began, later than they should have.
	// +optional
	// +default="0.1%"
	Late Tolerance `json:"late,omitempty"`

	// txDropped packets could not be sent, and flows could not begin: the generator was behind, or had no place or port for them.
	// +optional
	// +default="0"
	TxDropped Tolerance `json:"txDropped,omitempty"`

	// rxMissed packets arrived and were lost before the engine could read them.
	// +optional
	// +default="0"
	RxMissed Tolerance `json:"rxMissed,omitempty"`
}

// ProfilePhase is where a profile stands, for people; programs read conditions.
//
// +kubebuilder:validation:Enum=Idle;Pending;Queued;Preparing;SettingUp;WarmingUp;Running;Draining;Complete;Suspended;Stalled
type ProfilePhase string

const (
	// ProfileIdle: the profile has no run, and starts none by itself now.
	ProfileIdle ProfilePhase = "Idle"
	// ProfilePending: the profile waits for what it refers to, or for its generator.
	ProfilePending ProfilePhase = "Pending"
	// ProfileQueued: the generator is busy.
	ProfileQueued ProfilePhase = "Queued"
	// ProfilePreparing: engines receive and arm the plan.
	ProfilePreparing ProfilePhase = "Preparing"
	// ProfileSettingUp: the sessions of the run's ports, its routes or its clients are awaited.
	ProfileSettingUp ProfilePhase = "SettingUp"
	// ProfileWarmingUp: traffic is sent and not yet measured.
	ProfileWarmingUp ProfilePhase = "WarmingUp"
	// ProfileRunning: traffic is sent and measured.
	ProfileRunning ProfilePhase = "Running"
	// ProfileDraining: packets in flight are awaited.
	ProfileDraining ProfilePhase = "Draining"
	// ProfileComplete: the run has ended.
	ProfileComplete ProfilePhase = "Complete"
	// ProfileSuspended: `spec.suspend` is true.
	ProfileSuspended ProfilePhase = "Suspended"
	// ProfileStalled: nothing happens until an object is changed.
	ProfileStalled ProfilePhase = "Stalled"
)

// TrafficProfileStatus is where a profile stands.
type TrafficProfileStatus struct {
	// conditions are Ready, Reconciling, Stalled, Running, Complete, Valid, Passed, Stale; Recorded where connections are recorded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status was computed from; -1 until the operator has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase for people.
	// +optional
	Phase ProfilePhase `json:"phase,omitempty"`

	// reason is that of the condition that explains the phase best: Ready while it is not True, then Running, and
	// Passed when the run has ended.
	// +optional
	Reason string `json:"reason,omitempty"`

	// generator the profile runs on, `namespace/name`.
	// +optional
	Generator string `json:"generator,omitempty"`

	// currentRun is the latest run of the profile, whoever created it: the active one, or the last one.
	// +optional
	CurrentRun *RunReference `json:"currentRun,omitempty"`

	// lastTrigger is what the profile started its latest run for.
	// +optional
	LastTrigger *RunTrigger `json:"lastTrigger,omitempty"`

	// lastScheduleTime is the time of the schedule that was dealt with last.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// nextScheduleTime is the next time of the schedule.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`

	// totals of the current run when it has ended. Before, the run has its counters so far and its progress.
	// +optional
	Totals *StreamCounters `json:"totals,omitempty"`

	// flows of the current run's applications when it has ended.
	// +optional
	Flows *FlowCounters `json:"flows,omitempty"`

	// lastResult sums up the last run that ended.
	// +optional
	LastResult *ResultSummary `json:"lastResult,omitempty"`
}

// RunReference names a TrafficRun of the profile.
type RunReference struct {
	// name of the TrafficRun.
	// +required
	Name string `json:"name"`

	// uid of the TrafficRun.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// RunTrigger is what a profile started a run for.
type RunTrigger struct {
	// generation of the profile's spec.
	// +required
	Generation int64 `json:"generation"`

	// digest of what is sent by that spec, as hex digits: with runPolicy OnChange another starts a run.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest,omitempty"`

	// runID of that spec, if it had one.
	// +optional
	RunID string `json:"runID,omitempty"`

	// number of the run among those that the profile started: the end of its name.
	// +optional
	Number int64 `json:"number,omitempty"`
}

// RunProgress is how an active run is doing.
type RunProgress struct {
	// updateTime is when the counters were read.
	// +optional
	UpdateTime *metav1.Time `json:"updateTime,omitempty"`

	// timeLeft until the end of the measured phase, such as `12s`; absent without a set duration.
	// +optional
	TimeLeft string `json:"timeLeft,omitempty"`

	// stage that is under way, and how many there are, such as `spike (3/4)`.
	// +optional
	Stage string `json:"stage,omitempty"`

	// txRate is the present rate of transmission, such as `99.8kpps`.
	// +optional
	TxRate string `json:"txRate,omitempty"`

	// rxRate is the present rate of reception.
	// +optional
	RxRate string `json:"rxRate,omitempty"`

	// connectionRate is the present rate at which templates' flows are established, such as `1kcps`.
	// +optional
	ConnectionRate string `json:"connectionRate,omitempty"`

	// lossRatio so far, in the measured phase, packets still in flight counted as lost.
	// +optional
	LossRatio string `json:"lossRatio,omitempty"`
}

// ResultSummary sums up a run.
type ResultSummary struct {
	// run is the TrafficRun's name.
	// +required
	Run string `json:"run"`

	// verdict of the run.
	// +required
	Verdict VerdictOutcome `json:"verdict"`

	// reason of the verdict.
	// +required
	Reason string `json:"reason"`

	// message with the numbers.
	// +optional
	Message string `json:"message,omitempty"`

	// worstLatency sums up the stream or template with the greatest 99th percentile, such as `voice: p50 12us, p99 31.5us, max 1.2ms`.
	// +optional
	WorstLatency string `json:"worstLatency,omitempty"`

	// completionTime of the run.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// TrafficProfile is what to run: streams and templates on the ports of a generator, with a verdict at the end.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tp,categories=spate
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Passed",type=string,JSONPath=`.status.conditions[?(@.type=="Passed")].status`
// +kubebuilder:printcolumn:name="Tx",type=integer,JSONPath=`.status.totals.tx`,description="Packets sent in the measured phase"
// +kubebuilder:printcolumn:name="Rx",type=integer,JSONPath=`.status.totals.rx`,description="Packets received in the measured phase"
// +kubebuilder:printcolumn:name="Lost",type=integer,JSONPath=`.status.totals.lost`
// +kubebuilder:printcolumn:name="Flows",type=integer,JSONPath=`.status.flows.established`,description="Flows of applications that were established"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.flows.failed`,description="Flows of applications that failed"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Generator",type=string,JSONPath=`.status.generator`,priority=1
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.status.currentRun.name`,priority=1
// +kubebuilder:printcolumn:name="Stale",type=string,JSONPath=`.status.conditions[?(@.type=="Stale")].status`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50",fieldPath=".metadata",message="metadata.name must be at most 50 characters: runs and the inline generator are named after it"
type TrafficProfile struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	// +required
	Spec TrafficProfileSpec `json:"spec"`

	// status is where it stands.
	// +optional
	// +default={"observedGeneration": -1}
	Status TrafficProfileStatus `json:"status,omitzero"`
}

// TrafficProfileList is a list of TrafficProfiles.
//
// +kubebuilder:object:root=true
type TrafficProfileList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []TrafficProfile `json:"items"`
}
