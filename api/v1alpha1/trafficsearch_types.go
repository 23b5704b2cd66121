// SPDX-License-Identifier: Apache-2.0

// TrafficSearch: benchmarks that choose their own loads: throughput, latency, frame loss and back-to-back frames.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Percentage is a share of a whole such as `0.5%`.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^(100([.]0+)?|[0-9]{1,2}([.][0-9]{1,9})?)%$')",message="must be a share from 0% to 100% such as 0.5%"
type Percentage string

// SearchRate is a load of a search, or the rate of a stage. It scales the rates of all entries of the profile in proportion, and is one of
//
//   - of streams: the total of each port that transmits, such as `1Mpps/port`, `10Gbps/port` or `80%/port`, or of all ports, such as `1Mpps`;
//   - of applications: the connections a second of all of them, such as `300cps`, or their transactions, such as `3ktps`;
//   - of both: a factor on the entries' own rates, such as `2x`;
//   - with `vary: OpenConnections`: a number of connections, such as `1000conn` or `10kconn`.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?(x|[kMG]?(cps|tps|conn)|([kMG]?(pps|bps|bpsL1|bpsL2)|%)(/port)?)$')",message="must be a factor such as 2x, connections or transactions a second such as 300cps and 3ktps, open connections such as 10kconn, a total such as 1Mpps, 10Gbps (layer 2, FCS included), 10GbpsL1 or 80%, or the total of each port such as 1Mpps/port"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[0.]+[kMG]?[xpbct%]')",message="a load must be greater than zero"
type SearchRate string

// SearchVary is what a search varies.
//
// +kubebuilder:validation:Enum=Rate;OpenConnections
type SearchVary string

const (
	// VaryRate varies the rates of streams or the connection rates of applications.
	VaryRate SearchVary = "Rate"
	// VaryOpenConnections varies the number of connections that are open at the same time (RFC 9411 section 7.5).
	VaryOpenConnections SearchVary = "OpenConnections"
)

// SearchLoad bounds the loads of a search. A load scales all entries of the profile in proportion.
//
// +kubebuilder:validation:XValidation:rule="(has(self.vary) && self.vary == 'OpenConnections') == self.min.endsWith('conn')",fieldPath=".min",message="is a number of connections such as 1kconn with vary: OpenConnections, and a rate without"
// +kubebuilder:validation:XValidation:rule="(has(self.vary) && self.vary == 'OpenConnections') == (has(self.max) && self.max.endsWith('conn'))",fieldPath=".max",message="is a number of connections such as 100kconn with vary: OpenConnections, and a rate without"
// +kubebuilder:validation:XValidation:rule="self.min.endsWith('tps') == (has(self.max) && self.max.endsWith('tps'))",fieldPath=".max",message="must be transactions a second such as 100ktps if min is, and must not if min is not"
// +kubebuilder:validation:XValidation:rule="(has(self.vary) && self.vary == 'OpenConnections') == has(self.ramp)",fieldPath=".ramp",message="is required with vary: OpenConnections, and not used without"
type SearchLoad struct {
	// vary is what the search varies. `OpenConnections` is for applications whose clients leave connections open: a trial opens as many
	// connections as its load within `ramp`, and then holds them for its duration. Connections that are not open at the end are lost.
	// +optional
	// +default="Rate"
	Vary SearchVary `json:"vary,omitempty"`

	// ramp is the time in which a trial opens its connections, with `vary: OpenConnections`.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || duration(self) > duration('0s')",message="must be greater than zero"
	Ramp Duration `json:"ramp,omitempty"`

	// min load: the lowest that is offered.
	// +required
	Min SearchRate `json:"min"`

	// max load: the highest that is offered. The line rate of each transmitting port when absent, which is for streams.
	// +optional
	// +default="100%/port"
	Max SearchRate `json:"max,omitempty"`
}

// LoadUnit is what loads of a search count.
//
// +kubebuilder:validation:Enum=pps;cps;tps;connections
type LoadUnit string

const (
	// UnitPackets are packets a second of the transmitting port that sends most.
	UnitPackets LoadUnit = "pps"
	// UnitConnections are connections a second of all applications.
	UnitConnections LoadUnit = "cps"
	// UnitTransactions are transactions a second of all applications.
	UnitTransactions LoadUnit = "tps"
	// UnitOpen are open connections of all applications.
	UnitOpen LoadUnit = "connections"
)

// SearchTrial is what each trial of a search does beside its traffic (RFC 2544 section 23).
type SearchTrial struct {
	// settle is the least time between the end of the pause and the first packet of a trial.
	// +optional
	// +default="2s"
	Settle Duration `json:"settle,omitempty"`

	// rampUp precedes the measured phase, and is counted apart: streams are sent at the load of the trial, rates of applications rise linearly
	// from 0 to it.
	// +optional
	// +default="0s"
	RampUp Duration `json:"rampUp,omitempty"`

	// drain is how long packets in flight are awaited after the last was sent. Later ones count as lost.
	// +optional
	// +default="2s"
	Drain Duration `json:"drain,omitempty"`

	// pause after the drain, in which the device recovers.
	// +optional
	// +default="5s"
	Pause Duration `json:"pause,omitempty"`

	// warmup is the length of a trial at the maximum load before all others, which does not count. There is none when absent.
	// +optional
	Warmup Duration `json:"warmup,omitempty"`

	// retries is how often a trial in succession is repeated because it was invalid, as when a start was missed. Then the search is invalid.
	// +optional
	// +default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries *int32 `json:"retries,omitempty"`
}

// SearchMethod chooses the loads of trials.
//
// +kubebuilder:validation:Enum=MLRsearch;Bisection
type SearchMethod string

const (
	// MethodMLRsearch is Multiple Loss Ratio search (RFC 9971).
	MethodMLRsearch SearchMethod = "MLRsearch"
	// MethodBisection halves the interval between the bounds.
	MethodBisection SearchMethod = "Bisection"
)

// GoalStandard names the values of a goal.
//
// +kubebuilder:validation:Enum=RFC2544;TST009;RFC9411
type GoalStandard string

const (
	// GoalRFC2544 is a trial of 60 s without loss.
	GoalRFC2544 GoalStandard = "RFC2544"
	// GoalTST009 is one of two trials of 60 s without loss (ETSI GS NFV-TST 009, binary search with loss verification).
	GoalTST009 GoalStandard = "TST009"
	// GoalRFC9411 is a trial of 300 s of applications in which at most 0.001 % of the connections or transactions fail, fewer than 0.001 % of the
	// connections are reset, and the rate is constant within 5 % (RFC 9411 section 7.2.3).
	GoalRFC9411 GoalStandard = "RFC9411"
)

// SearchGoal is a search goal of RFC 9971 section 4.6.
//
// +kubebuilder:validation:XValidation:rule="!has(self.standard) || (!has(self.lossRatio) && !has(self.exceedRatio) && !has(self.finalTrialDuration) && !has(self.durationSum))",message="standard sets lossRatio, exceedRatio, finalTrialDuration and durationSum: leave them out, or leave standard out"
// +kubebuilder:validation:XValidation:rule="has(self.standard) || (has(self.lossRatio) && has(self.finalTrialDuration))",message="set standard, or lossRatio and finalTrialDuration"
type SearchGoal struct {
	// name of the goal, such as `ndr`.
	// +required
	Name EntryName `json:"name"`

	// standard that sets lossRatio, exceedRatio, finalTrialDuration and durationSum.
	// +optional
	Standard GoalStandard `json:"standard,omitempty"`

	// lossRatio is the greatest loss ratio of a low-loss trial.
	// +optional
	LossRatio Percentage `json:"lossRatio,omitempty"`

	// exceedRatio is the greatest share of durationSum that high-loss trials may have at a lower bound. 0% when absent.
	// +optional
	ExceedRatio Percentage `json:"exceedRatio,omitempty"`

	// width is the greatest relative distance between the bounds: (upper - lower) / upper.
	// +optional
	// +default="0.5%"
	Width Percentage `json:"width,omitempty"`

	// initialTrialDuration is the length of the first trials. 1s, or finalTrialDuration if that is less, when absent.
	// +optional
	InitialTrialDuration Duration `json:"initialTrialDuration,omitempty"`

	// finalTrialDuration is the length of a full-length trial.
	// +optional
	FinalTrialDuration Duration `json:"finalTrialDuration,omitempty"`

	// durationSum is the length of all full-length trials that classify a load. finalTrialDuration when absent.
	// +optional
	DurationSum Duration `json:"durationSum,omitempty"`

	// precedingTargets is the number of coarser targets that are reached first. 2 when absent, 0 if initialTrialDuration is durationSum.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	PrecedingTargets *int32 `json:"precedingTargets,omitempty"`

	// expansion is the factor of the width with each step while a bound is missing.
	// +optional
	// +default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Expansion *int32 `json:"expansion,omitempty"`

	// require are expressions in CEL over `trial`, the result of a trial, with the fields that `result` has in thresholds of a profile, such as
	// `trial.streams["voice"].latency.p99 < duration('100us')`. A trial for which one is false, or cannot be evaluated since nothing
	// arrived, counts as a high-loss trial for this goal, whatever it lost.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Require []string `json:"require,omitempty"`
}

// SearchConfirm is a last trial at each lower bound.
type SearchConfirm struct {
	// duration of the trial.
	// +required
	Duration Duration `json:"duration"`

	// lossRatio is the greatest that confirms.
	// +optional
	// +default="0%"
	LossRatio Percentage `json:"lossRatio,omitempty"`
}

// ThroughputTest finds the loads that meet goals (RFC 2544 section 26.1, RFC 9971).
type ThroughputTest struct {
	// method that chooses the loads.
	// +optional
	// +default="MLRsearch"
	Method SearchMethod `json:"method,omitempty"`

	// goals of the search. Trials are shared.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Goals []SearchGoal `json:"goals"`

	// confirm is a last trial at each lower bound. A goal whose trial loses more is irregular.
	// +optional
	Confirm *SearchConfirm `json:"confirm,omitempty"`
}

// FrameLossTest measures the loss from the maximum load down, until two successive trials lose nothing (RFC 2544 section 26.3).
type FrameLossTest struct {
	// step from one load to the next, as a share of the maximum.
	// +optional
	// +default="10%"
	Step Percentage `json:"step,omitempty"`

	// duration of each trial.
	// +optional
	// +default="60s"
	Duration Duration `json:"duration,omitempty"`
}

// BackToBackTest finds the longest burst at the maximum load that is received whole (RFC 9004). It is for profiles of streams.
type BackToBackTest struct {
	// longest burst that is tried, as a time at the maximum load.
	// +optional
	// +default="2s"
	Longest Duration `json:"longest,omitempty"`

	// repeats is the number of searches for the longest burst. The result is their mean.
	// +optional
	// +default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Repeats *int32 `json:"repeats,omitempty"`

	// resolution of the length of the burst, in packets.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	Resolution *int64 `json:"resolution,omitempty"`
}

// RecoveryTest measures for how long packets are lost after an overload (RFC 2544 section 26.5). It is for profiles of streams.
type RecoveryTest struct {
	// of names a goal: trials overload the device at the lower bound of this goal. Default: the first goal.
	// +optional
	Of EntryName `json:"of,omitempty"`

	// overload as a share of that, at most the maximum load. It is halved afterwards.
	// +optional
	// +default="110%"
	// +kubebuilder:validation:Pattern=`^[0-9]+([.][0-9]+)?%$`
	// +kubebuilder:validation:MaxLength=16
	Overload string `json:"overload,omitempty"`

	// duration of the overload.
	// +optional
	// +default="60s"
	Duration Duration `json:"duration,omitempty"`

	// after is how long half of the load is offered then.
	// +optional
	// +default="60s"
	After Duration `json:"after,omitempty"`

	// repeats is the number of trials. The result is their mean.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Repeats *int32 `json:"repeats,omitempty"`
}

// ResetTest measures for how long nothing arrives when the device is reset (RFC 2544 section 26.6, RFC 6201). When a trial is measured, it emits the
// event `ResetDevice`, and `status.search.current.resetDevice` of its run is true: the device is to be reset then, by whoever can. It is for
// profiles of streams.
type ResetTest struct {
	// of names a goal: trials offer the lower bound of this goal. Default: the first goal.
	// +optional
	Of EntryName `json:"of,omitempty"`

	// duration of each trial: the device must be reset, and forward again, within it.
	// +optional
	// +default="120s"
	Duration Duration `json:"duration,omitempty"`

	// repeats is the number of trials. The result is their mean.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Repeats *int32 `json:"repeats,omitempty"`
}

// LatencyTest measures latency at shares of a throughput (RFC 2544 section 26.2, RFC 8219 section 7.1).
type LatencyTest struct {
	// of names a goal: its lower bound is 100 %. Default: the first goal.
	// +optional
	Of EntryName `json:"of,omitempty"`

	// atPercent are the shares of it, each a trial.
	// +optional
	// +default=[100]
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=100
	AtPercent []int32 `json:"atPercent,omitempty"`

	// duration of each trial.
	// +optional
	// +default="120s"
	Duration Duration `json:"duration,omitempty"`

	// repeats is the number of trials at each share. The result is their mean.
	// +optional
	// +default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Repeats *int32 `json:"repeats,omitempty"`
}

// SearchBudget is what a search may take. When it is used up, the search ends with the bounds that are known.
type SearchBudget struct {
	// time of all trials, with their settling, draining and pauses.
	// +required
	Time Duration `json:"time"`

	// trials is their number.
	// +optional
	// +default=500
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	Trials *int32 `json:"trials,omitempty"`
}

// SearchTests are the tests of a search, in the order in which they are done.
//
// +kubebuilder:validation:XValidation:rule="has(self.throughput) || has(self.frameLoss)",message="set throughput, frameLoss or both"
// +kubebuilder:validation:XValidation:rule="!has(self.backToBack) || has(self.throughput)",fieldPath=".backToBack",message="is for loads above the throughput: set throughput too, with a goal without loss as its first"
// +kubebuilder:validation:XValidation:rule="!has(self.recovery) || has(self.throughput)",fieldPath=".recovery",message="is measured above a throughput: set throughput too"
// +kubebuilder:validation:XValidation:rule="!has(self.reset) || has(self.throughput)",fieldPath=".reset",message="is measured at a throughput: set throughput too"
// +kubebuilder:validation:XValidation:rule="!has(self.reset) || !has(self.reset.of) || !has(self.throughput) || self.throughput.goals.exists(g, g.name == self.reset.of)",fieldPath=".reset.of",message="must name a goal of throughput"
// +kubebuilder:validation:XValidation:rule="!has(self.recovery) || !has(self.recovery.of) || !has(self.throughput) || self.throughput.goals.exists(g, g.name == self.recovery.of)",fieldPath=".recovery.of",message="must name a goal of throughput"
// +kubebuilder:validation:XValidation:rule="!has(self.latency) || has(self.throughput)",fieldPath=".latency",message="is measured at shares of a throughput: set throughput too"
// +kubebuilder:validation:XValidation:rule="!has(self.latency) || !has(self.latency.of) || !has(self.throughput) || self.throughput.goals.exists(g, g.name == self.latency.of)",fieldPath=".latency.of",message="must name a goal of throughput"
// +kubebuilder:validation:XValidation:rule="self.load.vary != 'OpenConnections' || (!has(self.latency) && !has(self.backToBack) && !has(self.recovery) && !has(self.reset))",fieldPath=".load.vary",message="OpenConnections is for throughput and frameLoss: leave latency, backToBack, recovery and reset out"
// +kubebuilder:validation:XValidation:rule="self.load.vary != 'OpenConnections' || !has(self.trial) || !has(self.trial.rampUp) || self.trial.rampUp == '0s'",fieldPath=".trial.rampUp",message="must be 0s with vary: OpenConnections: set load.ramp"
type SearchTests struct {
	// load between which loads are searched, and offered.
	// +required
	Load SearchLoad `json:"load"`

	// trial is what each trial does beside its traffic.
	// +optional
	// +default={}
	Trial SearchTrial `json:"trial,omitzero"`

	// throughput finds the loads that meet goals.
	// +optional
	Throughput *ThroughputTest `json:"throughput,omitempty"`

	// latency at shares of a throughput.
	// +optional
	Latency *LatencyTest `json:"latency,omitempty"`

	// frameLoss by load.
	// +optional
	FrameLoss *FrameLossTest `json:"frameLoss,omitempty"`

	// backToBack finds the longest burst that is received whole.
	// +optional
	BackToBack *BackToBackTest `json:"backToBack,omitempty"`

	// recovery from an overload.
	// +optional
	Recovery *RecoveryTest `json:"recovery,omitempty"`

	// reset of the device.
	// +optional
	Reset *ResetTest `json:"reset,omitempty"`

	// budget of all tests together.
	// +required
	Budget SearchBudget `json:"budget"`
}

// SearchTestName is a test of a search.
//
// +kubebuilder:validation:Enum=Throughput;Latency;FrameLoss;BackToBack;Recovery;Reset
type SearchTestName string

const (
	// TestThroughput is SearchTests.throughput.
	TestThroughput SearchTestName = "Throughput"
	// TestLatency is SearchTests.latency.
	TestLatency SearchTestName = "Latency"
	// TestFrameLoss is SearchTests.frameLoss.
	TestFrameLoss SearchTestName = "FrameLoss"
	// TestBackToBack is SearchTests.backToBack.
	TestBackToBack SearchTestName = "BackToBack"
	// TestRecovery is SearchTests.recovery.
	TestRecovery SearchTestName = "Recovery"
	// TestReset is SearchTests.reset.
	TestReset SearchTestName = "Reset"
)

// TrialInput is what a trial does.
type TrialInput struct {
	// number of the trial in its run, from 1.
	// +required
	Number int32 `json:"number"`

	// test that the trial belongs to.
	// +required
	Test SearchTestName `json:"test"`

	// load of the busiest transmitting port in packets a second, or connections or transactions a second of all templates, as the search asked for it.
	// +required
	Load string `json:"load"`

	// rateFactor that was offered, on the rates of the prepared plan: a whole number or a fraction such as `3/4`.
	// +required
	RateFactor string `json:"rateFactor"`

	// duration of the measured phase.
	// +required
	Duration MeasuredTime `json:"duration"`

	// packets of the burst, in a test of bursts.
	// +optional
	Packets int64 `json:"packets,omitempty"`

	// overload is the time after which the load is halved, in a test of recovery.
	// +optional
	Overload MeasuredTime `json:"overload,omitempty"`

	// resetDevice is true from when the device is to be reset, in a test of a reset.
	// +optional
	ResetDevice bool `json:"resetDevice,omitempty"`

	// startTime is the instant at which all engines start the trial.
	// +required
	StartTime metav1.MicroTime `json:"startTime"`
}

// TrialRecord is a trial that has ended.
type TrialRecord struct {
	TrialInput `json:",inline"`

	// intended packets, or connections: those that were due in the measured phase.
	// +required
	Intended int64 `json:"intended"`

	// sent packets, or connections attempted, in time.
	// +required
	Sent int64 `json:"sent"`

	// received packets without duplicates, or connections that succeeded.
	// +required
	Received int64 `json:"received"`

	// lossRatio as searches count it: what was lost or not sent, of what was due, as a decimal number.
	// +required
	LossRatio string `json:"lossRatio"`

	// latency of the stream with the greatest 99th percentile, in tests of latency.
	// +optional
	Latency *Latency `json:"latency,omitempty"`

	// lastLoss is when the last loss became known, since the measured phase began, in a test of recovery; absent if nothing was lost.
	// +optional
	LastLoss MeasuredTime `json:"lastLoss,omitempty"`

	// outage is the longest of all streams, in a test of a reset.
	// +optional
	Outage *Outage `json:"outage,omitempty"`

	// silentAtEnd is true if nothing of a stream arrived in the last part of the trial, in a test of a reset.
	// +optional
	SilentAtEnd bool `json:"silentAtEnd,omitempty"`

	// elapsed is the time since the trial before it, or since the run was prepared.
	// +required
	Elapsed MeasuredTime `json:"elapsed"`

	// unmet are the requirements of goals that the trial does not meet, the first of each goal: it is a high-loss trial for these goals.
	// +optional
	// +listType=map
	// +listMapKey=goal
	// +kubebuilder:validation:MaxItems=8
	Unmet []UnmetRequirement `json:"unmet,omitempty"`

	// unmetValues are the values that the first unmet requirement read.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	UnmetValues string `json:"unmetValues,omitempty"`

	// invalid says why the trial does not count.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Invalid string `json:"invalid,omitempty"`
}

// UnmetRequirement is a requirement of a goal that a trial does not meet.
type UnmetRequirement struct {
	// goal that requires it.
	// +required
	Goal EntryName `json:"goal"`

	// index of the expression in the goal's require.
	// +required
	Index int32 `json:"index"`
}

// GoalResult is what was found for a goal. Loads are of the busiest transmitting port in packets a second, or connections a second of all
// templates.
type GoalResult struct {
	// name of the goal.
	// +required
	Name EntryName `json:"name"`

	// reason of the result: `Found`, `MaxLoadPasses` (no upper bound), `MinLoadFails` (no lower bound), `GeneratorLimited` (the upper bound is
	// the generator's, not the device's), `BudgetExhausted`, `Unstable` (a bound was none any more in a later trial) or `ConfirmFailed`.
	// +required
	Reason string `json:"reason"`

	// regular results have both bounds, as close as the goal requires (RFC 9971 section 4.8).
	// +required
	Regular bool `json:"regular"`

	// lower is the relevant lower bound; absent if there is none.
	// +optional
	Lower string `json:"lower,omitempty"`

	// upper is the relevant upper bound; absent if there is none.
	// +optional
	Upper string `json:"upper,omitempty"`

	// throughput is the conditional throughput at the lower bound (RFC 9971 section 4.8.3).
	// +optional
	Throughput string `json:"throughput,omitempty"`

	// confirmed is true if the last trial at the lower bound lost no more than allowed.
	// +optional
	Confirmed bool `json:"confirmed,omitempty"`

	// boundedBy is the expression of the goal's `require` that made the upper bound one, or the last trial fail, though the loss was within
	// lossRatio. Absent if loss did.
	// +optional
	BoundedBy string `json:"boundedBy,omitempty"`
}

// FrameLossResult is what is lost at a load.
type FrameLossResult struct {
	// percent of the maximum load.
	// +required
	Percent string `json:"percent"`

	// load of the busiest transmitting port in packets a second.
	// +required
	Load string `json:"load"`

	// lossRatio as a decimal number.
	// +required
	LossRatio string `json:"lossRatio"`
}

// LatencyResult is the latency at a share of a throughput: means of the repeats.
type LatencyResult struct {
	// percent of the throughput.
	// +required
	Percent int32 `json:"percent"`

	// load of the busiest transmitting port in packets a second.
	// +required
	Load string `json:"load"`

	// mean latency (RFC 2544 section 26.2).
	// +required
	Mean MeasuredTime `json:"mean"`

	// typical is the median (RFC 8219 section 7.1).
	// +required
	Typical MeasuredTime `json:"typical"`

	// worstCase is the 99.9th percentile (RFC 8219 section 7.1).
	// +required
	WorstCase MeasuredTime `json:"worstCase"`

	// delayVariation is the 99.9th percentile less the minimum (PDV, RFC 8219 section 7.3.1).
	// +required
	DelayVariation MeasuredTime `json:"delayVariation"`
}

// BackToBackResult is the longest burst that was received whole (RFC 9004).
type BackToBackResult struct {
	// frames of the burst: the mean of the repeats, with at most one decimal place.
	// +required
	Frames string `json:"frames"`

	// bufferTime is frames at the maximum load.
	// +required
	BufferTime MeasuredTime `json:"bufferTime"`

	// correctedBufferTime is less by what the device forwards meanwhile (RFC 9004 section 6.4); absent if no throughput is known.
	// +optional
	CorrectedBufferTime MeasuredTime `json:"correctedBufferTime,omitempty"`
}

// RecoveryResult is for how long packets were lost after an overload: from the reduction of the load to the arrival that showed the last loss.
type RecoveryResult struct {
	// load of the overload.
	// +required
	Load string `json:"load"`

	// mean of the trials.
	// +required
	Mean MeasuredTime `json:"mean"`

	// greatest of the trials.
	// +required
	Greatest MeasuredTime `json:"greatest"`
}

// ResetResult is for how long nothing arrived when the device was reset.
type ResetResult struct {
	// load that was offered.
	// +required
	Load string `json:"load"`

	// mean of the longest times without an arrival in each trial (method of time stamps).
	// +required
	Mean MeasuredTime `json:"mean"`

	// greatest of them.
	// +required
	Greatest MeasuredTime `json:"greatest"`

	// byLoss is the mean time in which as many packets are sent as were lost (method of frame loss, RFC 6201).
	// +required
	ByLoss MeasuredTime `json:"byLoss"`

	// reason of the result: `Found`, `NothingLost` (the device was not reset in a trial), `TooEarly` (nothing arrived at the beginning of one),
	// `NotRecovered` (nothing of a stream arrived at the end of one), `GeneratorLimited` or `BudgetExhausted`.
	// +required
	Reason string `json:"reason"`
}

// SearchResult is what the tests of a search found.
type SearchResult struct {
	// goals of throughput.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Goals []GoalResult `json:"goals,omitempty"`

	// latency by share of the throughput.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Latency []LatencyResult `json:"latency,omitempty"`

	// frameLoss by load, descending.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	FrameLoss []FrameLossResult `json:"frameLoss,omitempty"`

	// backToBack is the longest burst.
	// +optional
	BackToBack *BackToBackResult `json:"backToBack,omitempty"`

	// recovery from an overload.
	// +optional
	Recovery *RecoveryResult `json:"recovery,omitempty"`

	// reset of the device.
	// +optional
	Reset *ResetResult `json:"reset,omitempty"`

	// reason is the first of the results' that is not `Found`, else `Found`.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// RunSearchStatus is how far the search of a run is.
type RunSearchStatus struct {
	// unit of loads.
	// +optional
	Unit LoadUnit `json:"unit,omitempty"`

	// maxLoad of the busiest transmitting port in packets a second: spec.search.load.max.
	// +required
	MaxLoad string `json:"maxLoad"`

	// minLoad of that port: spec.search.load.min.
	// +required
	MinLoad string `json:"minLoad"`

	// current trial.
	// +optional
	Current *TrialInput `json:"current,omitempty"`

	// trials that have ended, in their order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Trials []TrialRecord `json:"trials,omitempty"`

	// spent is the time of all trials.
	// +optional
	Spent MeasuredTime `json:"spent,omitempty"`

	// result so far; it is final when the run is complete.
	// +optional
	Result SearchResult `json:"result,omitzero"`
}

// SearchEnvironment is where a search may be done.
//
// +kubebuilder:validation:Enum=Isolated
type SearchEnvironment string

// EnvironmentIsolated is a test network without other traffic: benchmarks of RFC 2544 overload a device and disturb whatever shares it, so they
// must not be done in production networks (RFC 6815).
const EnvironmentIsolated SearchEnvironment = "Isolated"

// FrameSize is the size of the packets in a variant of a search: exactly one of size and imix.
//
// +kubebuilder:validation:ExactlyOneOf=size;imix
type FrameSize struct {
	// size on the wire in bytes, the 4-byte FCS included.
	// +optional
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=9234
	Size *int32 `json:"size,omitempty"`

	// imix is a published Internet mix.
	// +optional
	IMIX IMIX `json:"imix,omitempty"`
}

// TrafficSearchSpec says what is searched for, in which traffic. Like the spec of a Job it cannot be changed, but for `stop` and
// `ttlSecondsAfterFinished`.
//
// +kubebuilder:validation:XValidation:rule="self.load == oldSelf.load && self.budget == oldSelf.budget && has(self.trial) == has(oldSelf.trial) && (!has(self.trial) || self.trial == oldSelf.trial) && has(self.throughput) == has(oldSelf.throughput) && (!has(self.throughput) || self.throughput == oldSelf.throughput) && has(self.latency) == has(oldSelf.latency) && (!has(self.latency) || self.latency == oldSelf.latency) && has(self.frameLoss) == has(oldSelf.frameLoss) && (!has(self.frameLoss) || self.frameLoss == oldSelf.frameLoss) && has(self.backToBack) == has(oldSelf.backToBack) && (!has(self.backToBack) || self.backToBack == oldSelf.backToBack) && has(self.recovery) == has(oldSelf.recovery) && (!has(self.recovery) || self.recovery == oldSelf.recovery) && has(self.reset) == has(oldSelf.reset) && (!has(self.reset) || self.reset == oldSelf.reset) && has(self.frameSizes) == has(oldSelf.frameSizes) && (!has(self.frameSizes) || self.frameSizes == oldSelf.frameSizes) && has(self.repeats) == has(oldSelf.repeats) && (!has(self.repeats) || self.repeats == oldSelf.repeats) && has(self.thresholds) == has(oldSelf.thresholds) && (!has(self.thresholds) || self.thresholds == oldSelf.thresholds)",message="cannot be changed, but for stop and ttlSecondsAfterFinished: create another TrafficSearch"
type TrafficSearchSpec struct {
	// environment acknowledges that the search is done in an isolated test network: `Isolated` is the only value. Tests of RFC 2544 overload a
	// device, and must not be done in production networks (RFC 6815).
	// +required
	Environment SearchEnvironment `json:"environment"`

	// profileRef names the TrafficProfile in the search's namespace whose traffic is offered, at loads of the search. Its runPolicy should be
	// `Manual`. Its rate, duration, warmup, drain and thresholds have no effect.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another TrafficSearch"
	ProfileRef LocalReference `json:"profileRef"`

	// frameSizes are the variants of the search, one after the other, with packets of all streams of that size. One variant with the packets as
	// they are when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	FrameSizes []FrameSize `json:"frameSizes,omitempty"`

	SearchTests `json:",inline"`

	// repeats is how often the whole search is done for each variant, one after the other; each has the whole budget. The reported result is
	// the median.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	Repeats *int32 `json:"repeats,omitempty"`

	// thresholds decide whether the search has passed: all of them must hold. Without thresholds, all results must be regular.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Thresholds []SearchThreshold `json:"thresholds,omitempty"`

	// stop ends the search when it is set to true, with what was found so far.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self || !oldSelf",message="a stopped search cannot go on: create another TrafficSearch"
	Stop bool `json:"stop,omitempty"`

	// ttlSecondsAfterFinished deletes the search, with its runs, this long after it has ended; never when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// SearchThreshold is an expression that must be true of what a search found.
type SearchThreshold struct {
	// name of the threshold.
	// +required
	Name EntryName `json:"name"`

	// expression in CEL over `search`, whose `variants` have their results by name: the size, `imix-` and the mix, or `all`. Of a goal:
	// `search.variants["64"].goals["ndr"].lower >= 1000000.0`, and `upper`, `throughput`, `lossRatio`, `min`, `max` and `deviation`, which are
	// numbers, `regular` and `confirmed`, which are true or false, and `reason`. Loads are packets a second of the busiest transmitting
	// port, or connections a second. Of other tests: `search.variants["64"].latency["50"].worstCase < duration('1ms')` (`mean`, `typical`,
	// `worstCase`, `delayVariation`, by the percentage), `search.variants["64"].frameLoss.all(row, row.percent > 50.0 || row.lossRatio == 0.0)`
	// (`percent`, `load`, `lossRatio`), `search.variants["64"].backToBack.frames >= 500.0` (`frames`, and the durations `bufferTime` and
	// `correctedBufferTime`). A lower bound that does not exist is 0, such an upper bound infinite.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Expression string `json:"expression"`

	// message for people when it does not hold.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// SearchPhase is where a search stands.
//
// +kubebuilder:validation:Enum=Pending;Searching;Complete
type SearchPhase string

const (
	// SearchPending: the run of the first variant waits for what it refers to, or for its generator.
	SearchPending SearchPhase = "Pending"
	// SearchSearching: trials are executed.
	SearchSearching SearchPhase = "Searching"
	// SearchComplete: the search has ended.
	SearchComplete SearchPhase = "Complete"
)

// RepeatedGoal is what one repeat of a search found for a goal. Fields are those of GoalResult.
type RepeatedGoal struct {
	// name of the goal.
	// +required
	Name EntryName `json:"name"`

	// reason of the result.
	// +required
	Reason string `json:"reason"`

	// regular is true if both bounds are known, and as close as the goal requires.
	// +required
	Regular bool `json:"regular"`

	// lower bound; absent if there is none.
	// +optional
	Lower string `json:"lower,omitempty"`

	// upper bound; absent if there is none.
	// +optional
	Upper string `json:"upper,omitempty"`

	// throughput at the lower bound.
	// +optional
	Throughput string `json:"throughput,omitempty"`
}

// SearchRepeat is one repeat of the search of a variant.
type SearchRepeat struct {
	// run is the TrafficRun with its trials, and with its results of all tests.
	// +required
	Run string `json:"run"`

	// outcome of the run.
	// +optional
	Outcome VerdictOutcome `json:"outcome,omitempty"`

	// goals that it found.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Goals []RepeatedGoal `json:"goals,omitempty"`
}

// GoalSpread is how the lower bounds of a goal are spread over the repeats of a search. A repeat without a lower bound counts as 0.
type GoalSpread struct {
	// name of the goal.
	// +required
	Name EntryName `json:"name"`

	// count of the repeats.
	// +required
	Count int32 `json:"count"`

	// min is the least.
	// +required
	Min string `json:"min"`

	// median of them.
	// +required
	Median string `json:"median"`

	// max is the greatest.
	// +required
	Max string `json:"max"`

	// deviation is their sample standard deviation; absent of one repeat.
	// +optional
	Deviation string `json:"deviation,omitempty"`

	// medianLow is the lower end of the 95 % confidence interval of the median, by order statistics. Absent of fewer than 6 repeats, which
	// have none.
	// +optional
	MedianLow string `json:"medianLow,omitempty"`

	// medianHigh is the upper end of that interval.
	// +optional
	MedianHigh string `json:"medianHigh,omitempty"`
}

// SearchVariant is what was found for one size of packets.
type SearchVariant struct {
	// name of the variant: the size, `imix-` and the mix, or `all` if the search has no frameSizes.
	// +required
	Name string `json:"name"`

	// run is the TrafficRun with the variant's trials; with repeats, the latest.
	// +required
	Run string `json:"run"`

	// phase of the run.
	// +optional
	Phase RunPhase `json:"phase,omitempty"`

	// unit of loads.
	// +optional
	Unit LoadUnit `json:"unit,omitempty"`

	// maxLoad of the busiest transmitting port in packets a second, or connections a second of all templates: spec.load.max.
	// +optional
	MaxLoad string `json:"maxLoad,omitempty"`

	// trials that have ended, of all repeats.
	// +optional
	Trials int32 `json:"trials,omitempty"`

	// spent is the time of all trials.
	// +optional
	Spent MeasuredTime `json:"spent,omitempty"`

	// result so far; it is final when the run is complete. With repeats, medians over those that have ended: a goal is regular if it is in all
	// of them.
	// +optional
	Result SearchResult `json:"result,omitzero"`

	// repeats that have ended, if spec.repeats exceeds 1.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Repeats []SearchRepeat `json:"repeats,omitempty"`

	// spread of the lower bounds over these repeats, by goal.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Spread []GoalSpread `json:"spread,omitempty"`

	// outcome of the run, or the worst of the repeats: `Passed` if all results are regular, `Failed` if one is not, `Invalid` if the search could not be done.
	// +optional
	Outcome VerdictOutcome `json:"outcome,omitempty"`

	// message of the outcome, or what the run waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// TrafficSearchStatus is how far a search is, and what it has found.
type TrafficSearchStatus struct {
	// conditions are Ready, Reconciling, Stalled, Complete and Passed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status was computed from; -1 until the operator has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase of the search.
	// +optional
	Phase SearchPhase `json:"phase,omitempty"`

	// progress is the variant that is searched, such as `64: trial 5 (Throughput), 1/7 variants done`.
	// +optional
	Progress string `json:"progress,omitempty"`

	// completionTime is when the search ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// variants in the order of spec.frameSizes. A variant is absent until its first run is created.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Variants []SearchVariant `json:"variants,omitempty"`

	// outcome of the search: `Invalid` if a variant is; else `Passed` if all thresholds hold and `Failed` if one does not; without thresholds
	// the worst of its variants.
	// +optional
	Outcome VerdictOutcome `json:"outcome,omitempty"`

	// thresholds as they were evaluated, when all variants have results.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Thresholds []ThresholdResult `json:"thresholds,omitempty"`
}

// TrafficSearch finds out what a device under test can do: the loads that meet goals (RFC 9971, RFC 2544 section 26.1), latency, frame loss and
// back-to-back frames, by trials of a profile's traffic at loads that it chooses.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ts,path=trafficsearches,categories=spate
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.profileRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.status.outcome`
// +kubebuilder:printcolumn:name="Lower",type=string,JSONPath=`.status.variants[0].result.goals[0].lower`,description="Lower bound of the first goal of the first variant"
// +kubebuilder:printcolumn:name="Upper",type=string,JSONPath=`.status.variants[0].result.goals[0].upper`,description="Upper bound of the first goal of the first variant"
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Passed")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Passed")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TrafficSearch struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is searched for.
	// +required
	Spec TrafficSearchSpec `json:"spec"`

	// status is what was found.
	// +optional
	// +default={"observedGeneration": -1}
	Status TrafficSearchStatus `json:"status,omitzero"`
}

// TrafficSearchList is a list of TrafficSearches.
//
// +kubebuilder:object:root=true
type TrafficSearchList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []TrafficSearch `json:"items"`
}
