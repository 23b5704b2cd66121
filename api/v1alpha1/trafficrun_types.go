// SPDX-License-Identifier: Apache-2.0

// TrafficRun: one execution of a definition: its resolved plan, phases, result and verdict.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TrafficRunSpec says what to execute once: a profile, or what is described here. It cannot be changed, but for `paused`,
// `stop` and `overrides.rate`, which apply to the active run.
//
// +kubebuilder:validation:ExactlyOneOf=profileRef;profile
// +kubebuilder:validation:XValidation:rule="has(self.baselineRef) == has(oldSelf.baselineRef)",fieldPath=".baselineRef",message="cannot be changed: create another run"
// +kubebuilder:validation:XValidation:rule="!has(self.search) || !has(self.baselineRef)",fieldPath=".baselineRef",message="has no effect on a run with search, which thresholds do not judge: leave it out"
// +kubebuilder:validation:XValidation:rule="has(self.search) == has(oldSelf.search)",fieldPath=".search",message="cannot be changed: create another run"
// +kubebuilder:validation:XValidation:rule="!has(self.search) || !has(self.overrides) || (!has(self.overrides.rate) && !has(self.overrides.duration) && !has(self.overrides.warmup) && !has(self.overrides.thresholds))",fieldPath=".overrides",message="a run with search has loads and times of its own: only generatorRef, size and imix can be overridden"
// +kubebuilder:validation:XValidation:rule="has(self.overrides) || !has(oldSelf.overrides) || (!has(oldSelf.overrides.generatorRef) && !has(oldSelf.overrides.duration) && !has(oldSelf.overrides.warmup) && !has(oldSelf.overrides.size) && !has(oldSelf.overrides.imix) && !has(oldSelf.overrides.thresholds))",fieldPath=".overrides",message="cannot be removed: create another run"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || has(oldSelf.overrides) || (!has(self.overrides.generatorRef) && !has(self.overrides.duration) && !has(self.overrides.warmup) && !has(self.overrides.size) && !has(self.overrides.imix) && !has(self.overrides.thresholds))",fieldPath=".overrides",message="only rate can be changed: create another run"
type TrafficRunSpec struct {
	// profileRef names a TrafficProfile in the run's namespace. The run executes it as it is when the run starts.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	ProfileRef *LocalReference `json:"profileRef,omitempty"`

	// profile describes what is run here.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	Profile *TrafficDefinition `json:"profile,omitempty"`

	// overrides replace fields of the profile for this run.
	// +optional
	Overrides RunOverrides `json:"overrides,omitzero"`

	// baselineRef names a run in the same namespace that this run is compared with: thresholds read its result as `baseline`, as in
	// `result.rx >= baseline.rx * 0.99`. It must have ended, with Valid=True and without lost pods; it need not have passed. This run waits
	// until it has, and then keeps a copy of its result: the baseline may be deleted afterwards.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	BaselineRef *LocalReference `json:"baselineRef,omitempty"`

	// search makes the run a series of trials at loads that tests choose, instead of one execution. The profile's rate, duration, warmup,
	// drain, rampUp and thresholds have no effect then. TrafficSearches create such runs.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	Search *SearchTests `json:"search,omitempty"`

	// paused stops the run from sending while it is true, as `paused` of a profile does. A change applies to the active run.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// stop ends the run before its time when it is set to true. A stopped run cannot go on.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self || !oldSelf",message="a stopped run cannot go on: create another run"
	Stop bool `json:"stop,omitempty"`

	// ttlSecondsAfterFinished deletes the run this long after it has ended; never when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RunOverrides replace fields of a profile. Absent ones are the profile's.
//
// +kubebuilder:validation:AtMostOneOf=size;imix
// +kubebuilder:validation:XValidation:rule="has(self.size) == has(oldSelf.size)",fieldPath=".size",message="cannot be changed: create another run"
// +kubebuilder:validation:XValidation:rule="has(self.imix) == has(oldSelf.imix)",fieldPath=".imix",message="cannot be changed: create another run"
// +kubebuilder:validation:XValidation:rule="has(self.generatorRef) == has(oldSelf.generatorRef)",fieldPath=".generatorRef",message="cannot be changed: create another run"
// +kubebuilder:validation:XValidation:rule="has(self.duration) == has(oldSelf.duration)",fieldPath=".duration",message="cannot be changed: create another run"
// +kubebuilder:validation:XValidation:rule="has(self.warmup) == has(oldSelf.warmup)",fieldPath=".warmup",message="cannot be changed: create another run"
// +kubebuilder:validation:XValidation:rule="has(self.thresholds) == has(oldSelf.thresholds)",fieldPath=".thresholds",message="cannot be changed: create another run"
type RunOverrides struct {
	// generatorRef names the generator to run on.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	GeneratorRef *GeneratorReference `json:"generatorRef,omitempty"`

	// rate of the whole run, as `rate` of a profile. A change applies to the active run.
	// +optional
	Rate ScaledRate `json:"rate,omitempty"`

	// duration of the measured phase.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || duration(self) > duration('0s')",message="must be greater than zero"
	Duration Duration `json:"duration,omitempty"`

	// warmup before the measured phase.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	Warmup Duration `json:"warmup,omitempty"`

	// size of the packets of all streams: bytes on the wire, the 4-byte FCS included.
	// +optional
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=9234
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	Size *int32 `json:"size,omitempty"`

	// imix makes the sizes of the packets of all streams those of a published Internet mix.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	IMIX IMIX `json:"imix,omitempty"`

	// thresholds instead of all those of the profile.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another run"
	Thresholds []Threshold `json:"thresholds,omitempty"`
}

// ResolvedRun is what a run executes: all that its spec refers to, as it was when the run was admitted to its generator.
type ResolvedRun struct {
	// profile that was resolved.
	// +required
	Profile ProfileSnapshot `json:"profile"`

	// generator it runs on.
	// +required
	Generator GeneratorSnapshot `json:"generator"`

	// runID names the run to engines: its name and the start of its UID.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	RunID string `json:"runID"`

	// tag marks the run's packets, unique over all runs that could meet.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Tag int32 `json:"tag"`

	// secondTag marks the packets of every second trial of a run with search, as unique as tag.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	SecondTag int32 `json:"secondTag,omitempty"`

	// snapshot is the resolved plan, kept beside the run since it can be larger than an object.
	// +required
	Snapshot Snapshot `json:"snapshot"`

	// rateFactor the snapshot was built with, on the entries' own rates: a whole number or a fraction such as `3/2`.
	// +optional
	// +default="1"
	// +kubebuilder:validation:MaxLength=64
	RateFactor string `json:"rateFactor,omitempty"`

	// entries as they were resolved, to detect later changes.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Entries []EntrySnapshot `json:"entries,omitempty"`

	// clients are the groups of emulated clients as they were resolved.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Clients []ClientsSnapshot `json:"clients,omitempty"`

	// marks the run's packets carry in their headers; no other run that is active has them.
	// +optional
	Marks *RunMarks `json:"marks,omitempty"`

	// timing of the phases.
	// +required
	Timing RunTiming `json:"timing"`

	// stages of the measured phase.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Stages []ResolvedStage `json:"stages,omitempty"`

	// thresholds that are evaluated on the result. Those of a profile may be changed until the next run.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Thresholds []Threshold `json:"thresholds,omitempty"`

	// baseline is the run that the result is compared with.
	// +optional
	Baseline *BaselineSnapshot `json:"baseline,omitempty"`

	// generatorTolerance says how much of its own the generator may add.
	// +required
	GeneratorTolerance GeneratorTolerance `json:"generatorTolerance"`

	// whenPodLost says what to do when a pod is lost; Abort when absent.
	// +optional
	WhenPodLost PodLossPolicy `json:"whenPodLost,omitempty"`
}

// ResolvedStage is a stage of the profile as it was.
type ResolvedStage struct {
	// name of the stage.
	// +required
	Name string `json:"name"`

	// duration of the stage, including its ramp.
	// +required
	Duration Duration `json:"duration"`

	// rateFactor on the entries' own rates, after the ramp: a whole number or a fraction such as `3/2`.
	// +required
	// +kubebuilder:validation:MaxLength=64
	RateFactor string `json:"rateFactor"`

	// thresholds of the stage.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Thresholds []Threshold `json:"thresholds,omitempty"`

	// abortOnFail ends the run if the stage fails.
	// +optional
	AbortOnFail bool `json:"abortOnFail,omitempty"`
}

// EntrySnapshot is an entry of the profile as it was.
type EntrySnapshot struct {
	// name of the entry.
	// +required
	Name string `json:"name"`

	// stream is the name of the StatelessStream that it sends.
	// +optional
	Stream ObjectName `json:"stream,omitempty"`

	// selected is the number of results that it has, where it selects StatelessStreams or replays both directions of a capture.
	// +optional
	Selected int32 `json:"selected,omitempty"`

	// template is the name of the ASTFTemplate that it runs.
	// +optional
	Template ObjectName `json:"template,omitempty"`

	// rate in the snapshot, at a factor of 1; absent for a replay.
	// +optional
	Rate Rate `json:"rate,omitempty"`

	// streamRate is the stream's own, which holds when the entry has none.
	// +optional
	StreamRate Rate `json:"streamRate,omitempty"`

	// connectionRate of a template's clients in the snapshot, at a factor of 1.
	// +optional
	ConnectionRate ConnectionRate `json:"connectionRate,omitempty"`

	// templateRate is the template's own, which holds when the entry has none.
	// +optional
	TemplateRate ConnectionRate `json:"templateRate,omitempty"`

	// paused is true if the entry was paused from the start.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// RunMarks are numbers that identify streams' packets on arrival.
type RunMarks struct {
	// ipv4Identification numbers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	IPv4Identification []int32 `json:"ipv4Identification,omitempty"`

	// ipv6FlowLabel numbers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	IPv6FlowLabel []int32 `json:"ipv6FlowLabel,omitempty"`
}

// ProfileSnapshot names a profile as it was.
type ProfileSnapshot struct {
	// name of the TrafficProfile, in the run's namespace, and in metrics; the run's own where its spec describes the profile.
	// +required
	Name ObjectName `json:"name"`

	// uid of the TrafficProfile; absent where the run's spec describes it.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// generation of its spec that was resolved.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// definitions are the streams, templates and client groups that were resolved, to detect later changes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Definitions []DefinitionSnapshot `json:"definitions,omitempty"`

	// selections are the streams that entries select, to detect later changes.
	// +optional
	// +listType=map
	// +listMapKey=entry
	// +kubebuilder:validation:MaxItems=512
	Selections []SelectionSnapshot `json:"selections,omitempty"`
}

// SelectionSnapshot is what an entry's selector selected.
type SelectionSnapshot struct {
	// entry that has the selector.
	// +required
	Entry EntryName `json:"entry"`

	// count of the StatelessStreams.
	// +required
	Count int32 `json:"count"`

	// digest of their names, UIDs and generations, as hex digits.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
}

// DefinitionSnapshot is a stream, template or client group as it was.
type DefinitionSnapshot struct {
	// kind of the object.
	// +required
	// +kubebuilder:validation:Enum=StatelessStream;ASTFTemplate;ClientGroup
	Kind string `json:"kind"`

	// name of the object, in the run's namespace.
	// +required
	Name ObjectName `json:"name"`

	// digest of its spec, as hex digits.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
}

// GeneratorSnapshot names a generator and its engines as they were.
type GeneratorSnapshot struct {
	// name of the TrafficGenerator.
	// +required
	Name ObjectName `json:"name"`

	// namespace of the TrafficGenerator.
	// +required
	Namespace string `json:"namespace"`

	// pods that execute the run; the index of each is its share's.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Pods []PodSnapshot `json:"pods"`

	// limits of the generator that the run was admitted under. When they change, the run's traffic is checked against the new ones.
	// +optional
	Limits *Limits `json:"limits,omitempty"`
}

// PodSnapshot names an engine pod.
type PodSnapshot struct {
	// name of the pod.
	// +required
	Name string `json:"name"`

	// uid of the pod: another pod of the same name is another pod.
	// +required
	UID types.UID `json:"uid"`
}

// Snapshot says where the resolved plan is kept.
type Snapshot struct {
	// digest is the SHA-256 of the whole, as hex digits.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`

	// bytes is its length.
	// +required
	// +kubebuilder:validation:Minimum=0
	Bytes int64 `json:"bytes"`

	// chunks hold it, in order.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Chunks []DataReference `json:"chunks"`

	// secrets that the plan refers to. Their bytes are no part of it: they are read when the engines are prepared, and only while
	// each Secret is still what was resolved.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Secrets []SecretSnapshot `json:"secrets,omitempty"`
}

// SecretSnapshot names a key of a Secret as it was.
type SecretSnapshot struct {
	// name of the Secret, in the run's namespace.
	// +required
	Name ObjectName `json:"name"`

	// key of the bytes in it.
	// +required
	Key string `json:"key"`

	// uid of the Secret.
	// +required
	UID types.UID `json:"uid"`

	// resourceVersion of the Secret.
	// +required
	ResourceVersion string `json:"resourceVersion"`
}

// BaselineSnapshot names the run that a run is compared with as it was, and says where the copy of its result is kept.
type BaselineSnapshot struct {
	// name of the TrafficRun, in the run's namespace.
	// +required
	Name ObjectName `json:"name"`

	// uid of the TrafficRun.
	// +required
	UID types.UID `json:"uid"`

	// profile that it executed, as in its metrics.
	// +required
	Profile ObjectName `json:"profile"`

	// completionTime is when it ended, with its verdict.
	// +required
	CompletionTime metav1.Time `json:"completionTime"`

	// outcome of its verdict when its result was copied: Passed or Failed.
	// +required
	Outcome VerdictOutcome `json:"outcome"`

	// digest is the SHA-256 of the result as JSON, as hex digits.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`

	// bytes is its length.
	// +required
	Bytes int64 `json:"bytes"`

	// chunks hold it, in order, compressed by gzip. They are ConfigMaps of the run that has this baseline, and are deleted with it.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Chunks []DataReference `json:"chunks"`
}

// RunTiming is the length of each phase.
type RunTiming struct {
	// setup is the longest time that the run waits for the sessions of its ports, for its routes, and for clients without a time of their own.
	// +optional
	Setup Duration `json:"setup,omitempty"`

	// warmup before the measured phase.
	// +required
	Warmup Duration `json:"warmup"`

	// duration of the measured phase; until stopped when absent.
	// +optional
	Duration Duration `json:"duration,omitempty"`

	// drain after the last packet.
	// +required
	Drain Duration `json:"drain"`
}

// RunPhase is where a run stands.
//
// +kubebuilder:validation:Enum=Pending;Preparing;SettingUp;WarmingUp;Running;Draining;Complete
type RunPhase string

const (
	// RunPending: the run waits for what it refers to, or for its generator.
	RunPending RunPhase = "Pending"
	// RunPreparing: engines receive and arm the plan.
	RunPreparing RunPhase = "Preparing"
	// RunSettingUp: the sessions of the run's ports, its routes or its clients are awaited.
	RunSettingUp RunPhase = "SettingUp"
	// RunWarmingUp: traffic is sent and not yet measured.
	RunWarmingUp RunPhase = "WarmingUp"
	// RunRunning: traffic is sent and measured.
	RunRunning RunPhase = "Running"
	// RunDraining: packets in flight are awaited.
	RunDraining RunPhase = "Draining"
	// RunComplete: the run has ended and its verdict is known.
	RunComplete RunPhase = "Complete"
)

// VerdictOutcome is what a run came to.
//
// +kubebuilder:validation:Enum=Passed;Failed;Invalid
type VerdictOutcome string

const (
	// VerdictPassed: the measurement is valid and every threshold holds.
	VerdictPassed VerdictOutcome = "Passed"
	// VerdictFailed: the measurement is valid and a threshold does not hold.
	VerdictFailed VerdictOutcome = "Failed"
	// VerdictInvalid: the measurement says nothing about the device under test.
	VerdictInvalid VerdictOutcome = "Invalid"
)

// TrafficRunStatus is what came of a run.
type TrafficRunStatus struct {
	// conditions are Ready, Reconciling, Stalled, Running, Complete, Valid, Passed; Recorded where connections are recorded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status was computed from; -1 until the operator has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase of the run.
	// +optional
	Phase RunPhase `json:"phase,omitempty"`

	// prepareTime is when the operator started to prepare the run.
	// +optional
	PrepareTime *metav1.Time `json:"prepareTime,omitempty"`

	// setupTime is when the run started to wait for the sessions of its ports, its routes or its clients; absent if it did not wait.
	// +optional
	SetupTime *metav1.Time `json:"setupTime,omitempty"`

	// trafficStartTime is the instant at which all engines started to send.
	// +optional
	TrafficStartTime *metav1.MicroTime `json:"trafficStartTime,omitempty"`

	// completionTime is when the run ended, with its verdict.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// resolved is what the run executes; absent until it is admitted to its generator.
	// +optional
	Resolved *ResolvedRun `json:"resolved,omitempty"`

	// generator that the run waits for or uses, `namespace/name`.
	// +optional
	Generator string `json:"generator,omitempty"`

	// paused is true while the whole run is paused.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// rateFactor in force on the entries' own rates, exact: a whole number or a fraction such as `3/2`.
	// +optional
	RateFactor string `json:"rateFactor,omitempty"`

	// progress while the run is active.
	// +optional
	Progress *RunProgress `json:"progress,omitempty"`

	// search is how far the search of the run is, and what it has found.
	// +optional
	Search *RunSearchStatus `json:"search,omitempty"`

	// stages of the run, in their order; absent until it sends.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Stages []StageStatus `json:"stages,omitempty"`

	// portBaseline holds what the ports had counted when the run was prepared: that is not this run's.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PortBaseline []PortBaseline `json:"portBaseline,omitempty"`

	// sessionBaseline holds what the sessions that advertise the run's routes had counted when the run was prepared and its routes were sent:
	// that is not this run's.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	SessionBaseline []SessionBaseline `json:"sessionBaseline,omitempty"`

	// portsDown are the run's ports that had no link at some time while it was active.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PortsDown []string `json:"portsDown,omitempty"`

	// lostPods are pods that were lost while the run was active, and that it has gone on without (`whenPodLost`). The result is that of the
	// other pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	LostPods []LostPod `json:"lostPods,omitempty"`

	// entries that were changed while the run was active: their rate or pause differs from the snapshot.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Entries []EntryChange `json:"entries,omitempty"`

	// result measured so far, final when the run is complete. Its streams, templates and groups are there when it is final; of a large
	// result the first of them (see details).
	// +optional
	Result *RunResult `json:"result,omitempty"`

	// verdict of the run.
	// +optional
	Verdict *Verdict `json:"verdict,omitempty"`
}

// StagePhase is where a stage stands.
//
// +kubebuilder:validation:Enum=Pending;Running;Passed;Failed;Aborted;Incomplete;NotRun
type StagePhase string

const (
	// StagePending: its time has not come.
	StagePending StagePhase = "Pending"
	// StageRunning: its traffic is sent.
	StageRunning StagePhase = "Running"
	// StagePassed: it has ended, and all its thresholds hold.
	StagePassed StagePhase = "Passed"
	// StageFailed: a threshold of it does not hold.
	StageFailed StagePhase = "Failed"
	// StageAborted: a threshold of it ended the run within the stage; it has the counters until then.
	StageAborted StagePhase = "Aborted"
	// StageIncomplete: the run ended within the stage, for another reason.
	StageIncomplete StagePhase = "Incomplete"
	// StageNotRun: the run ended before it.
	StageNotRun StagePhase = "NotRun"
)

// StageStatus is what came of a stage.
type StageStatus struct {
	// name of the stage.
	// +required
	Name string `json:"name"`

	// phase of the stage.
	// +required
	Phase StagePhase `json:"phase"`

	// result of the stage; absent before its end.
	// +optional
	Result *StageResult `json:"result,omitempty"`

	// thresholds of the stage at its end.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Thresholds []ThresholdResult `json:"thresholds,omitempty"`
}

// StageResult is what was counted in a stage, over all engines.
type StageResult struct {
	// duration between the readings of the counters at the ends of the stage.
	// +required
	Duration MeasuredTime `json:"duration"`

	// tx packets were sent.
	// +required
	Tx int64 `json:"tx"`

	// rx packets were received.
	// +required
	Rx int64 `json:"rx"`

	// lost packets, as far as known at the end of the stage.
	// +required
	Lost int64 `json:"lost"`

	// lossRatio of the packets that were sent.
	// +required
	LossRatio string `json:"lossRatio"`

	// flowsAttempted of templates.
	// +optional
	FlowsAttempted int64 `json:"flowsAttempted,omitempty"`

	// flowsEstablished of templates.
	// +optional
	FlowsEstablished int64 `json:"flowsEstablished,omitempty"`

	// flowsFailed of templates.
	// +optional
	FlowsFailed int64 `json:"flowsFailed,omitempty"`

	// worstLatency is the delay of the stream or template with the greatest 99th percentile.
	// +optional
	WorstLatency string `json:"worstLatency,omitempty"`
}

// EntryChange is what was changed of an entry while its run was active.
type EntryChange struct {
	// name of the entry.
	// +required
	Name string `json:"name"`

	// rate in force instead of the snapshot's, as the profile has it.
	// +optional
	Rate Rate `json:"rate,omitempty"`

	// connectionRate in force instead of the snapshot's, as the profile has it.
	// +optional
	ConnectionRate ConnectionRate `json:"connectionRate,omitempty"`

	// paused is true while the entry is paused.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// LostPod is an engine pod that a run has lost.
type LostPod struct {
	// name of the pod.
	// +required
	Name string `json:"name"`

	// lostTime is when the operator found that it was lost.
	// +required
	LostTime metav1.Time `json:"lostTime"`

	// message says how it was lost.
	// +required
	Message string `json:"message"`

	// lastCounters are the last that were read of its engine, and no part of the run's result. Later ones are unknown. Absent if this
	// operator had read none.
	// +optional
	LastCounters *PodCounters `json:"lastCounters,omitempty"`
}

// PodCounters are what an engine had counted of a run's measured phase.
type PodCounters struct {
	// readTime is when the engine read them.
	// +required
	ReadTime metav1.MicroTime `json:"readTime"`

	// tx packets were sent by streams.
	// +required
	Tx int64 `json:"tx"`

	// txBytes were sent by streams, FCS included.
	// +required
	TxBytes int64 `json:"txBytes"`

	// rx packets of streams were received, duplicates included.
	// +required
	Rx int64 `json:"rx"`

	// rxBytes of streams were received, FCS included.
	// +required
	RxBytes int64 `json:"rxBytes"`

	// flowsAttempted of templates.
	// +optional
	FlowsAttempted int64 `json:"flowsAttempted,omitempty"`

	// flowsEstablished of templates.
	// +optional
	FlowsEstablished int64 `json:"flowsEstablished,omitempty"`

	// flowsFailed of templates.
	// +optional
	FlowsFailed int64 `json:"flowsFailed,omitempty"`
}

// PortBaseline is what a port of an engine had counted before a run.
type PortBaseline struct {
	// pod of the engine.
	// +required
	Pod string `json:"pod"`

	// port of the generator.
	// +required
	Port string `json:"port"`

	// rxMissed packets since the engine's start.
	// +required
	RxMissed int64 `json:"rxMissed"`

	// foreign packets since the engine's start.
	// +required
	Foreign int64 `json:"foreign"`

	// otherMAC packets since the engine's start.
	// +optional
	OtherMAC int64 `json:"otherMAC,omitempty"`

	// notReflected packets since the engine's start.
	// +optional
	NotReflected int64 `json:"notReflected,omitempty"`

	// throttled packets since the engine's start.
	// +optional
	Throttled int64 `json:"throttled,omitempty"`
}

// StreamCounters count packets of the measured phase.
type StreamCounters struct {
	// tx packets were sent.
	// +required
	Tx int64 `json:"tx"`

	// txBytes were sent, FCS included.
	// +required
	TxBytes int64 `json:"txBytes"`

	// rx packets were received, duplicates included.
	// +required
	Rx int64 `json:"rx"`

	// rxBytes were received, FCS included.
	// +required
	RxBytes int64 `json:"rxBytes"`

	// lost packets were sent by a stream that measures flow and never received. Where a pod was lost, it is what the other pods have sent
	// less what they have received, which is no measure of loss and may be negative.
	// +required
	Lost int64 `json:"lost"`

	// lossRatio is lost packets to packets sent by streams that measure flow, as a decimal number such as `0.0125`.
	// +required
	LossRatio string `json:"lossRatio"`

	// duplicates were received before.
	// +required
	Duplicates int64 `json:"duplicates"`

	// outOfOrder packets came after one sent later.
	// +required
	OutOfOrder int64 `json:"outOfOrder"`

	// misdirected packets came in on another port than expected; they are in rx too.
	// +required
	Misdirected int64 `json:"misdirected"`

	// late packets left later than they should have.
	// +required
	Late int64 `json:"late"`

	// txDropped packets could not be sent.
	// +required
	TxDropped int64 `json:"txDropped"`

	// sequenceTooHigh packets had a sequence number far ahead of the expected one.
	// +optional
	SequenceTooHigh int64 `json:"sequenceTooHigh,omitempty"`

	// sequenceTooLow packets had a sequence number far behind: whether they are duplicates is not known.
	// +optional
	SequenceTooLow int64 `json:"sequenceTooLow,omitempty"`
}

// Latency is the delay of packets. Duplicates do not count. When several pods received a stream, percentiles are those of all its packets
// together: the pods' histograms are merged. Times are exact to the nanosecond, percentiles to 3 significant digits.
type Latency struct {
	// count of packets with a measured delay.
	// +required
	Count int64 `json:"count"`

	// min is the smallest delay.
	// +required
	Min MeasuredTime `json:"min"`

	// mean delay.
	// +required
	Mean MeasuredTime `json:"mean"`

	// max is the greatest delay.
	// +required
	Max MeasuredTime `json:"max"`

	// deviation is the standard deviation of the delay.
	// +required
	Deviation MeasuredTime `json:"deviation"`

	// p50 is the median.
	// +required
	P50 MeasuredTime `json:"p50"`

	// p90 is the 90th percentile.
	// +required
	P90 MeasuredTime `json:"p90"`

	// p95 is the 95th percentile.
	// +required
	P95 MeasuredTime `json:"p95"`

	// p99 is the 99th percentile.
	// +required
	P99 MeasuredTime `json:"p99"`

	// p999 is the 99.9th percentile.
	// +required
	P999 MeasuredTime `json:"p999"`

	// p9999 is the 99.99th percentile.
	// +required
	P9999 MeasuredTime `json:"p9999"`

	// jitter is the interarrival jitter (RFC 3550 section 6.4.1) at the end; the greatest of several pods.
	// +required
	Jitter MeasuredTime `json:"jitter"`

	// jitterMean is the mean difference of the delays of successive packets.
	// +required
	JitterMean MeasuredTime `json:"jitterMean"`

	// jitterMax is the greatest difference of the delays of successive packets.
	// +required
	JitterMax MeasuredTime `json:"jitterMax"`

	// clockBound is the maximum error of delays: between pods, by which their clocks may differ, and of the NIC's clock where a port has
	// `receiveTimestamps: Device`.
	// +optional
	ClockBound MeasuredTime `json:"clockBound,omitempty"`

	// oneWayUnknown is true for packets between pods with clocks that are not known well enough: only jitter is reported.
	// +optional
	OneWayUnknown bool `json:"oneWayUnknown,omitempty"`

	// message says why delays are not reported.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// RunResult is what was measured over all streams, templates and engines after the warm-up. Engines in status.lostPods are omitted.
type RunResult struct {
	StreamCounters `json:",inline"`

	// duration of the measured phase so far, by which counters become mean rates.
	// +optional
	Duration MeasuredTime `json:"duration,omitempty"`

	// rxMissed packets arrived during the run and were lost before an engine could read them.
	// +required
	RxMissed int64 `json:"rxMissed"`

	// foreign packets arrived during the run and belong to no run.
	// +required
	Foreign int64 `json:"foreign"`

	// otherMAC packets are the foreign packets for another station: their destination MAC is neither the port's nor a client's nor a
	// group's. They were neither delivered to flows nor answered.
	// +required
	OtherMAC int64 `json:"otherMAC"`

	// throttled packets, each counted once, left the run's ports late or not at all because of the generator's limits.maxRate. They include
	// those of other runs on the same ports.
	// +optional
	Throttled int64 `json:"throttled,omitempty"`

	// notReflected packets arrived during the run on ports that reflect, and were not sent back: for another station, to or from a
	// group, not IP, at the end of their TTL, to a destination that the generator's limits do not allow, or after the sending phase.
	// +optional
	NotReflected int64 `json:"notReflected,omitempty"`

	// streams of the run, by the names of the profile's traffic entries, or of the StatelessStreams that an entry selects; the directions
	// of a replay are `NAME-initiator` and `NAME-responder`.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	Streams map[string]StreamResult `json:"streams,omitempty"`

	// receivers of the run, by the names of the profile's receive entries.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Receivers map[string]ReceiverResult `json:"receivers,omitempty"`

	// flows of all templates, each counted once: at its client, or at its server where clients are real. Only notStarted, late and
	// exhausted are those of both sides. Absent without templates.
	// +optional
	Flows *FlowCounters `json:"flows,omitempty"`

	// templates of the run, by the names of the profile's traffic entries.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	Templates map[string]TemplateResult `json:"templates,omitempty"`

	// groups of templates, by the `statisticsGroup` that templates name. Streams have none.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	Groups map[string]GroupResult `json:"groups,omitempty"`

	// clients of the run, by the names of the profile's clients entries.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Clients map[string]ClientsResult `json:"clients,omitempty"`

	// records of connections, where the profile requests them.
	// +optional
	Records *RecordsResult `json:"records,omitempty"`

	// routing is what the sessions that advertised the run's routes did. Absent without routes.
	// +optional
	Routing *RoutingResult `json:"routing,omitempty"`

	// clockBound is the greatest difference that the clocks of the run's pods may have had, after correction, while the run was active.
	// Absent when no delay between pods was measured.
	// +optional
	ClockBound MeasuredTime `json:"clockBound,omitempty"`

	// worstLatency sums up the stream or template with the greatest 99th percentile, such as `voice: p50 12us, p99 31.5us, max 1.2ms`.
	// +optional
	WorstLatency string `json:"worstLatency,omitempty"`

	// details say where the whole result is, when it is final and larger than 256 KiB as JSON: then streams, templates, groups and the
	// workers of receivers have their first entries here, up to 64 KiB of each. Sums are those of all entries. `kubectl spate result`
	// reads the whole. Absent where all of the result is here.
	// +optional
	Details *ResultDetails `json:"details,omitempty"`
}

// ResultDetails say where a whole result is kept, and how much of it the status has.
type ResultDetails struct {
	// truncated are the lists that have more entries than the status.
	// +optional
	// +listType=map
	// +listMapKey=list
	// +kubebuilder:validation:MaxItems=8
	Truncated []TruncatedList `json:"truncated,omitempty"`

	// digest is the SHA-256 of the whole result as JSON, as hex digits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest,omitempty"`

	// bytes is its length.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// chunks hold it, in order, compressed by gzip. They are ConfigMaps of the run, and are deleted with it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Chunks []DataReference `json:"chunks,omitempty"`

	// problem for which it could not be kept: then what the status does not have is lost.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// TruncatedList says how much of a list a status has.
type TruncatedList struct {
	// list of the result: streams, templates, groups or receivers.workers.
	// +required
	List string `json:"list"`

	// kept entries are in the status.
	// +required
	Kept int32 `json:"kept"`

	// total entries there are.
	// +required
	Total int32 `json:"total"`
}

// StreamResult is what was measured of one stream.
type StreamResult struct {
	StreamCounters `json:",inline"`

	// latency of the stream, if it measures latency and a packet arrived.
	// +optional
	Latency *Latency `json:"latency,omitempty"`

	// outage is the longest time without an arrival, if packets of the stream are counted on arrival.
	// +optional
	Outage *Outage `json:"outage,omitempty"`

	// byTag are the packets that arrived at the stream's receivePort, by their VLAN tags (measure.byTag): `5` for packets with one tag,
	// `100/5` for an outer and an inner one, `untagged`, and `other` for tags that are not named. Successive tags with equal counters are
	// together, such as `6-4094` or `100/6-9`.
	// +optional
	// +kubebuilder:validation:MaxProperties=4098
	ByTag map[string]TagCounters `json:"byTag,omitempty"`
}

// TagCounters count packets with one VLAN tag, or one pair of tags, in the measured phase. Numbers of sequences are those of the stream's
// packets, by each worker that sends it. All but packets and bytes are 0 for `other`: packets with different tags are no sequence.
type TagCounters struct {
	// packets arrived, duplicates included.
	// +required
	Packets int64 `json:"packets"`

	// bytes arrived, FCS included.
	// +required
	Bytes int64 `json:"bytes"`

	// missing packets of the stream did not arrive with this tag although later ones did.
	// +required
	Missing int64 `json:"missing"`

	// sequenceGaps are packets before which others were missing.
	// +required
	SequenceGaps int64 `json:"sequenceGaps"`

	// duplicates arrived with this tag before.
	// +required
	Duplicates int64 `json:"duplicates"`

	// outOfOrder packets arrived with this tag after one sent later.
	// +required
	OutOfOrder int64 `json:"outOfOrder"`
}

// Outage is the longest time without an arrival in the measured phase. The time in which the run, or what is measured, was paused does not
// count. Of a stream it is from the beginning of the phase, or of the stream if that is later, until its last packet was due, both later by
// the least delay of the path; of one side of a template it is until the end of transmission, or until the last arrival if the template
// has a maximum of flows. Pauses that a stream's own schedule makes, such as gaps between bursts, are a part of it.
type Outage struct {
	// longest time without an arrival. If it is not exact, it is at most this, and at least `atLeast`.
	// +required
	Longest MeasuredTime `json:"longest"`

	// atLeast is the longest that is certain; absent where longest is exact: workers keep a limited number of gaps.
	// +optional
	AtLeast *MeasuredTime `json:"atLeast,omitempty"`

	// offset of its beginning (of the one that is certain) from that of the measured phase.
	// +optional
	Offset MeasuredTime `json:"offset,omitempty"`

	// at is the instant of its beginning, by the clock of the first pod.
	// +optional
	At *metav1.MicroTime `json:"at,omitempty"`
}

// ReceiverResult is what arrived of foreign traffic on one port.
type ReceiverResult struct {
	// packets that arrived.
	// +required
	Packets int64 `json:"packets"`

	// bytes that arrived, FCS included.
	// +required
	Bytes int64 `json:"bytes"`

	// workers by pod and number, and what each of them received.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Workers []WorkerReceived `json:"workers,omitempty"`

	// interArrival is the time from packet to packet.
	// +optional
	InterArrival *Moments `json:"interArrival,omitempty"`

	// jitter is the difference of successive times from packet to packet.
	// +optional
	Jitter *Moments `json:"jitter,omitempty"`

	// latency of packets that carry a time stamp from a clock known to agree.
	// +optional
	Latency *Moments `json:"latency,omitempty"`
}

// WorkerReceived is what one worker of an engine received.
type WorkerReceived struct {
	// pod of the engine.
	// +required
	Pod string `json:"pod"`

	// worker of the engine.
	// +required
	Worker int32 `json:"worker"`

	// packets that arrived.
	// +required
	Packets int64 `json:"packets"`

	// bytes that arrived, FCS included.
	// +required
	Bytes int64 `json:"bytes"`
}

// Moments summarize a distribution of times.
type Moments struct {
	// count of the times.
	// +required
	Count int64 `json:"count"`

	// mean of the times.
	// +required
	Mean MeasuredTime `json:"mean"`

	// deviation is their standard deviation.
	// +required
	Deviation MeasuredTime `json:"deviation"`

	// min is the smallest.
	// +required
	Min MeasuredTime `json:"min"`

	// max is the greatest.
	// +required
	Max MeasuredTime `json:"max"`
}

// Verdict is what a run came to, and why.
type Verdict struct {
	// outcome of the run.
	// +required
	Outcome VerdictOutcome `json:"outcome"`

	// reasons of the outcome, the weightiest first; that of the Passed condition is the first. Records that were lost are named last:
	// they change no outcome.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Reasons []VerdictReason `json:"reasons"`

	// thresholds as they were evaluated.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Thresholds []ThresholdResult `json:"thresholds,omitempty"`
}

// VerdictReason is one reason of a verdict.
type VerdictReason struct {
	// reason as in the Passed condition.
	// +required
	Reason string `json:"reason"`

	// message with the numbers.
	// +required
	Message string `json:"message"`
}

// ThresholdResult is what one threshold came to.
type ThresholdResult struct {
	// name of the threshold.
	// +required
	Name string `json:"name"`

	// met is true when its expression holds.
	// +required
	Met bool `json:"met"`

	// message with the numbers, or what is wrong with the expression.
	// +optional
	Message string `json:"message,omitempty"`
}

// TrafficRun is one execution of traffic, of a profile or by itself. Profiles start runs by their `runPolicy`; people and pipelines create
// their own, with `generateName`.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tr,categories=spate
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.profileRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict.outcome`
// +kubebuilder:printcolumn:name="Tx",type=integer,JSONPath=`.status.result.tx`,description="Packets sent in the measured phase"
// +kubebuilder:printcolumn:name="Rx",type=integer,JSONPath=`.status.result.rx`,description="Packets received in the measured phase"
// +kubebuilder:printcolumn:name="Lost",type=integer,JSONPath=`.status.result.lost`
// +kubebuilder:printcolumn:name="Flows",type=integer,JSONPath=`.status.result.flows.established`,description="Flows of templates that were established"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.result.flows.failed`,description="Flows of templates that failed"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Passed")].reason`
// +kubebuilder:printcolumn:name="Left",type=string,JSONPath=`.status.progress.timeLeft`,priority=1
// +kubebuilder:printcolumn:name="Generator",type=string,JSONPath=`.status.generator`,priority=1
// +kubebuilder:printcolumn:name="Factor",type=string,JSONPath=`.status.rateFactor`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Passed")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.baselineRef) || self.spec.baselineRef.name != self.metadata.name",fieldPath=".spec.baselineRef.name",message="must be another run"
type TrafficRun struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what to execute.
	// +required
	Spec TrafficRunSpec `json:"spec"`

	// status is what came of it.
	// +optional
	// +default={"observedGeneration": -1}
	Status TrafficRunStatus `json:"status,omitzero"`
}

// TrafficRunList is a list of TrafficRuns.
//
// +kubebuilder:object:root=true
type TrafficRunList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []TrafficRun `json:"items"`
}
