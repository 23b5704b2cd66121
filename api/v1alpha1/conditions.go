// SPDX-License-Identifier: Apache-2.0

// Which conditions the kinds have, and every reason one can carry.
//
// `Ready`, `Reconciling` and `Stalled` are on every kind and follow kstatus: `Reconciling` and `Stalled` are present only
// while they are True, and every condition carries the generation it was computed from. To wait for a run, wait for
// `Complete` and then read `Passed`: True, False, or Unknown for a run that is not valid (`Valid` is False then, with the same reason).

package v1alpha1

// Condition types.
const (
	// ConditionReady is True when the object can do its work: a generator's engines answer, a stream or template can
	// be built into packets, a profile resolves into a plan, a run was accepted by its engines.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the spec.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing will happen until an object is changed.
	ConditionStalled = "Stalled"
	// ConditionRunning is True from a run's start until its last packet was sent (profiles and runs).
	ConditionRunning = "Running"
	// ConditionComplete is True when a run has ended and its verdict is known (profiles: the current run).
	ConditionComplete = "Complete"
	// ConditionValid says whether the measurement says something about the device under test (profiles and runs): True, False with the
	// reason (such as PodLost or GeneratorLimited), or Unknown until the run has ended.
	ConditionValid = "Valid"
	// ConditionPassed is the verdict (profiles and runs): True, False with the threshold that was missed, or Unknown: while the run has not
	// ended, and where the measurement is not valid, with the reason of Valid.
	ConditionPassed = "Passed"
	// ConditionRecorded is on runs that record connections, and on their profiles: True when all requested files are written,
	// False as soon as records are lost, Unknown until the run ends and where no engine reported it. It has no part in Passed.
	ConditionRecorded = "Recorded"
	// ConditionArchived is on runs that have ended, if the operator has an archive: True when the run with its whole result and samples is
	// in it, False while that fails. It has no part in Passed.
	ConditionArchived = "Archived"
	// ConditionRemoteWritten is on runs that have ended, if the operator sends samples by Prometheus' remote write: True when those of the run
	// were accepted, False while that fails. It has no part in Passed.
	ConditionRemoteWritten = "RemoteWritten"
	// ConditionOTLPExported is on runs that have ended, if the operator sends samples by OTLP: True when those of the run were accepted, False
	// while that fails. It has no part in Passed.
	ConditionOTLPExported = "OTLPExported"
	// ConditionMeasurementReady is True on a generator that does not limit its own measurements: it has exclusive CPUs, huge pages and devices
	// of its own. The message says what is missing.
	ConditionMeasurementReady = "MeasurementReady"
	// ConditionMachineReady is True on a generator if the preflight of its pods' machines found nothing (NUMA nodes, isolation and
	// frequency of CPUs, clock, devices and their links). The message has the first findings with their remedies. It has no part in Ready.
	ConditionMachineReady = "MachineReady"
	// ConditionStale is True on a profile when a stream or template it uses has changed since the current run was
	// resolved; the change takes effect with the next run.
	ConditionStale = "Stale"
)

// Reasons of Ready, Reconciling and Stalled.
const (
	// ReasonAvailable: everything the object needs is there.
	ReasonAvailable = "Available"
	// ReasonProgressing: work towards the spec is in progress.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: `spec.suspend` is true.
	ReasonSuspended = "Suspended"
	// ReasonInvalidSpec: a field's value cannot be used; the message has its path and what would be right.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNotSupported: a field needs what this version cannot do yet; the message has its path.
	ReasonNotSupported = "NotSupported"
	// ReasonReferenceNotFound: an object that is referred to does not exist (yet).
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonReferenceNotAllowed: the generator does not grant its use to the profile's namespace.
	ReasonReferenceNotAllowed = "ReferenceNotAllowed"
	// ReasonLimitExceeded: the traffic goes beyond the generator's `spec.limits`.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonOversubscribed: a port would have to carry more than its line rate.
	ReasonOversubscribed = "Oversubscribed"
	// ReasonGeneratorNotReady: the generator exists and is not ready.
	ReasonGeneratorNotReady = "GeneratorNotReady"
	// ReasonGeneratorBusy: the generator has no room for the run beside those it executes, or older runs wait for it; the message has the
	// run's place in the line (see `spec.whenBusy`).
	ReasonGeneratorBusy = "GeneratorBusy"
	// ReasonBaselineNotComplete: the run waits for the end of the run that it is compared with (`spec.baselineRef`).
	ReasonBaselineNotComplete = "BaselineNotComplete"
	// ReasonPodsPending: engine pods are being created, scheduled or started.
	ReasonPodsPending = "PodsPending"
	// ReasonReplicasPending: `spec.replicas` has changed while runs use the generator; it takes effect when they have ended, and no other
	// run is admitted until then. The message has both numbers and the run.
	ReasonReplicasPending = "ReplicasPending"
	// ReasonUnschedulable: no node can take an engine pod; the message is the scheduler's.
	ReasonUnschedulable = "Unschedulable"
	// ReasonNetworkNotFound: a port's NetworkAttachmentDefinition does not exist.
	ReasonNetworkNotFound = "NetworkNotFound"
	// ReasonNetworkMismatch: a port's NetworkAttachmentDefinition is of another kind than its attachment: an sriov attachment needs one that
	// names the resource of a device plugin, a kernel attachment one that names none.
	ReasonNetworkMismatch = "NetworkMismatch"
	// ReasonClaimTemplateNotFound: a port's ResourceClaimTemplate does not exist.
	ReasonClaimTemplateNotFound = "ClaimTemplateNotFound"
	// ReasonDeviceMismatch: what ports need of a ResourceClaim and what it has differ; the message has both and the remedy.
	ReasonDeviceMismatch = "DeviceMismatch"
	// ReasonImagePullFailed: the engine's image cannot be pulled; the message is the kubelet's.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonAttachmentFailed: a pod's networks or claimed devices cannot be attached, or cannot be detached from a pod that is being
	// deleted; the message is the network plugin's or the driver's.
	ReasonAttachmentFailed = "AttachmentFailed"
	// ReasonPodFailed: an engine pod failed; the message says how often and why.
	ReasonPodFailed = "PodFailed"
	// ReasonAdmissionFailed: the node refused an engine pod (CPU or NUMA topology, device, hugepages), or the API server
	// did: it, or the run of a profile, its plan or its inline generator (a quota, a pod security policy, an admission policy).
	ReasonAdmissionFailed = "AdmissionFailed"
	// ReasonEngineUnreachable: an engine pod runs and its engine does not answer.
	ReasonEngineUnreachable = "EngineUnreachable"
	// ReasonEngineHangs: a worker of an engine has not passed its loop for 10 s, as when a driver's call does not return; its liveness
	// probe fails, the kubelet ends it within a minute, and its pod is replaced.
	ReasonEngineHangs = "EngineHangs"
	// ReasonOrphanedRun: an engine still executes a run that has ended or no longer exists (it could not be reached to be stopped);
	// it is being stopped, unless its TrafficRun may exist in a watched namespace that the operator cannot read, and the generator takes
	// no other run until it has ended.
	ReasonOrphanedRun = "OrphanedRun"
	// ReasonVersionMismatch: an engine's contract differs from the operator's by more than one minor version.
	ReasonVersionMismatch = "VersionMismatch"
	// ReasonPortDown: a port has no link.
	ReasonPortDown = "PortDown"
	// ReasonDeviceRequested: a node requests the device of a port back, and waits until the pod ends: its driver is unbound, or the virtual
	// functions of a NIC are removed. No run is admitted; active ones continue.
	ReasonDeviceRequested = "DeviceRequested"
	// ReasonCheckFailed: whether engines would take a plan could not be found out, such as in time; the message says why, and when it is
	// tried again. Nothing runs until then.
	ReasonCheckFailed = "CheckFailed"
	// ReasonNotAllowed: the operator is configured to refuse this; the message has the field and the remedy.
	ReasonNotAllowed = "NotAllowed"
	// ReasonNameTaken: an object that a generator or a profile makes has the name of one that is not its own; the message names both.
	ReasonNameTaken = "NameTaken"
	// ReasonDeleting: the object is being deleted.
	ReasonDeleting = "Deleting"
)

// Reasons of Running and Complete, beside the phases' own names.
const (
	// ReasonNotStarted: no run has been started.
	ReasonNotStarted = "NotStarted"
	// ReasonPreparing: engines are receiving and arming the plan.
	ReasonPreparing = "Preparing"
	// ReasonWarmingUp: traffic is sent and not yet measured.
	ReasonWarmingUp = "WarmingUp"
	// ReasonTransmitting: traffic is sent and measured.
	ReasonTransmitting = "Transmitting"
	// ReasonDraining: transmission has ended, packets in flight are awaited.
	ReasonDraining = "Draining"
	// ReasonFinished: the run ended after its duration.
	ReasonFinished = "Finished"
	// ReasonStopped: the run ended before its duration by suspension, deletion or replacement.
	ReasonStopped = "Stopped"
)

// Reasons of Valid and Passed.
const (
	// ReasonMeasurementValid: nothing but the device under test and the path had a part in the result.
	ReasonMeasurementValid = "MeasurementValid"
	// ReasonAwaitingResult: the run has not ended.
	ReasonAwaitingResult = "AwaitingResult"
	// ReasonThresholdsMet: every threshold holds (or there is none) and the measurement is valid.
	ReasonThresholdsMet = "ThresholdsMet"
	// ReasonThresholdMissed: at least one threshold does not hold; the message has its name and the numbers.
	ReasonThresholdMissed = "ThresholdMissed"
	// ReasonStageFailed: a stage did not meet a threshold of its own.
	ReasonStageFailed = "StageFailed"
	// ReasonAborted: a threshold or a stage ended the run before its time.
	ReasonAborted = "Aborted"
	// ReasonThresholdError: a threshold's expression failed to evaluate.
	ReasonThresholdError = "ThresholdError"
	// ReasonGeneratorLimited: invalid, since the generator was the limit (late, dropped or missed packets beyond
	// `spec.generatorTolerance`), not the device under test.
	ReasonGeneratorLimited = "GeneratorLimited"
	// ReasonCountersContradict: invalid, since an engine's counters contradict each other, so that none can be trusted; the message has
	// the identities that do not hold. It is a defect of the engine.
	ReasonCountersContradict = "CountersContradict"
	// ReasonDrainTimedOut: invalid, since an engine's workers had not read all packets 5 s after `spec.drain`: more arrive than they can
	// take, or a worker hangs. The run was closed then; the message has the workers.
	ReasonDrainTimedOut = "DrainTimedOut"
	// ReasonBaselineUnusable: invalid, since the run that it would be compared with (`spec.baselineRef`) has no valid result, or not all of
	// it is there; the message has why. Nothing was sent.
	ReasonBaselineUnusable = "BaselineUnusable"
	// ReasonThresholdUnmeasured: invalid, since a threshold reads what cannot be known: a pod was lost that may have sent or received some of
	// it, or the copy of the baseline's result was deleted. No threshold on what is known was missed.
	ReasonThresholdUnmeasured = "ThresholdUnmeasured"
	// ReasonPodLost: invalid, since an engine pod was lost during the run. With `whenPodLost: Continue` it is a further reason of a verdict
	// on what the other pods did.
	ReasonPodLost = "PodLost"
	// ReasonPrepareFailed: invalid, since an engine refused the plan; the message is the engine's.
	ReasonPrepareFailed = "PrepareFailed"
	// ReasonStartFailed: invalid, since the engines could not be started at one instant.
	ReasonStartFailed = "StartFailed"
	// ReasonSnapshotLost: invalid, since the resolved plan that is kept beside the run is missing or damaged.
	ReasonSnapshotLost = "SnapshotLost"
	// ReasonIncomplete: invalid, since the run was stopped before its duration. A run that was stopped since its generator was withdrawn has
	// the reason of that: ReferenceNotAllowed (`spec.allowedNamespaces` no longer grants the generator's use to the profile's namespace), or
	// LimitExceeded (`spec.limits` was lowered below what the run sends).
	ReasonIncomplete = "Incomplete"
	// ReasonSearchRegular: every goal of the search has both bounds, as close as it requires; the message has them.
	ReasonSearchRegular = "SearchRegular"
	// ReasonSearchIrregular: a goal of the search has a bound only, or none, or the budget was used up; the message has which and why.
	ReasonSearchIrregular = "SearchIrregular"
	// ReasonSearchInvalid: the search of a variant could not be done; the message has which and why.
	ReasonSearchInvalid = "SearchInvalid"
	// ReasonTrialsInvalid: invalid, since a trial of the search was invalid more often than `trial.retries`; the message has why.
	ReasonTrialsInvalid = "TrialsInvalid"
	// ReasonRecordsContradict: invalid, since the recorded trials of the search are not those that this version of the operator would have
	// chosen.
	ReasonRecordsContradict = "RecordsContradict"
	// ReasonDetailsNotKept: named last among the reasons of a verdict, which it does not change: the result is larger than a status, and
	// could not be kept beside the run as a whole; the message says what is lost and why.
	ReasonDetailsNotKept = "DetailsNotKept"
)

// Reasons of Recorded, beside AwaitingResult and, if it stays Unknown, that of Passed.
const (
	// ReasonRecordsWritten: every record is in its file.
	ReasonRecordsWritten = "RecordsWritten"
	// ReasonRecordsOmitted: the files are written, and a file has `spec.records.maxRecords`; later records are omitted.
	ReasonRecordsOmitted = "RecordsOmitted"
	// ReasonRecordsLiveOnly: `spec.records` names no volume, so records were streamed to readers, and none are kept; the message says
	// how many were delivered, and how many were not.
	ReasonRecordsLiveOnly = "RecordsLiveOnly"
	// ReasonRecordsDropped: records were lost because an engine was behind in taking them; the message says how many.
	ReasonRecordsDropped = "RecordsDropped"
	// ReasonRecordsNotWritten: a file could not be completed; the message has the problem, and how many records of its pod can be read
	// nevertheless.
	ReasonRecordsNotWritten = "RecordsNotWritten"
)

// Reasons of Archived.
const (
	// ReasonArchived: the run is in the archive; the message has the folder.
	ReasonArchived = "Archived"
	// ReasonArchiveFailed: the run could not be written into the archive; the message says why. It is tried again, after 10 minutes at the
	// latest.
	ReasonArchiveFailed = "ArchiveFailed"
)

// Reasons of RemoteWritten and OTLPExported.
const (
	// ReasonSamplesSent: the receiver has accepted the samples; the message has their number.
	ReasonSamplesSent = "SamplesSent"
	// ReasonSamplesNotSent: the samples could not be sent, or the receiver has not accepted them; the message says why. They are sent again,
	// after 10 minutes at the latest, unless the receiver refuses them for what they are (HTTP status 400, 413 or 422).
	ReasonSamplesNotSent = "SamplesNotSent"
)

// Reasons of MeasurementReady and MachineReady.
const (
	// ReasonExclusiveResources: nothing is shared that a measurement depends on.
	ReasonExclusiveResources = "ExclusiveResources"
	// ReasonSharedResources: the generator shares what a measurement depends on, so losses and delays may be its own; the message lists it.
	ReasonSharedResources = "SharedResources"
	// ReasonNoEngines: no engine has reported its ports and its machine.
	ReasonNoEngines = "NoEngines"
	// ReasonPreflightPassed: no check of the preflight found anything; the message has what could not be checked.
	ReasonPreflightPassed = "PreflightPassed"
	// ReasonPreflightFindings: a check of the preflight found something; the message has the first findings and their remedies, and
	// `status.pods[].preflight` has all.
	ReasonPreflightFindings = "PreflightFindings"
)

// Reasons of Stale.
const (
	// ReasonReferenceChanged: the message names the object that changed.
	ReasonReferenceChanged = "ReferenceChanged"
)
