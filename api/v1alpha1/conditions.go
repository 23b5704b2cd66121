// SPDX-License-Identifier: Apache-2.0

// Which conditions the kinds have, and every reason one can carry, with its remedy. The reference of conditions is generated from the comments
// (operator/hack/conditions).
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
	// ConditionRoutingReady is on generators whose ports have routing: True when all sessions of all pods are up, False with the sessions that
	// are not. It has no part in Ready; a run starts when the sessions of its own ports are up.
	ConditionRoutingReady = "RoutingReady"
	// ConditionStale is True on a profile when a stream or template it uses has changed since the current run was
	// resolved; the change takes effect with the next run.
	ConditionStale = "Stale"
)

// Reasons of Ready, Reconciling and Stalled.
const (
	// ReasonAvailable: everything the object needs is there.
	// Remedy: none is needed.
	ReasonAvailable = "Available"
	// ReasonProgressing: work towards the spec is in progress.
	// Remedy: none is needed; the message has what is in progress.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: `spec.suspend` is true.
	// Remedy: set `spec.suspend` to false.
	ReasonSuspended = "Suspended"
	// ReasonInvalidSpec: a field's value cannot be used; the message has its path and what would be right.
	// Remedy: correct the field; `kubectl spate validate` checks the file before it is applied.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNotSupported: a field needs what this version cannot do yet; the message has its path.
	// Remedy: leave the field out, or set what the message names instead; docs/reference/unsupported.md lists what is not supported.
	ReasonNotSupported = "NotSupported"
	// ReasonReferenceNotFound: an object that is referred to does not exist (yet).
	// Remedy: create the object in the namespace that the message names, or correct the reference. What waits for it goes on by itself.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonReferenceNotAllowed: the generator does not grant its use to the profile's namespace.
	// Remedy: add the namespace to the `spec.allowedNamespaces` of the generator, or use a generator of the namespace.
	ReasonReferenceNotAllowed = "ReferenceNotAllowed"
	// ReasonLimitExceeded: the traffic goes beyond the generator's `spec.limits`.
	// Remedy: change the traffic to what the message says is allowed, or have the owner of the generator change its `spec.limits`
	// (docs/concepts.md#guard-rails).
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonOversubscribed: a port would have to carry more than its line rate.
	// Remedy: lower the rates of the entries on the port, or spread them over more ports, pods (`replicas`) or a port with a higher line
	// rate.
	ReasonOversubscribed = "Oversubscribed"
	// ReasonGeneratorNotReady: the generator exists and is not ready.
	// Remedy: the message has the reason of the generator: follow its remedy. The run then starts by itself.
	ReasonGeneratorNotReady = "GeneratorNotReady"
	// ReasonGeneratorBusy: the generator has no room for the run beside those it executes, or older runs wait for it; the message has the
	// run's place in the queue (see `spec.whenBusy`).
	// Remedy: wait, stop a run that the message names (`kubectl spate stop RUN`), lower the rates, or use another generator
	// (docs/concepts.md#who-is-next-on-a-busy-generator).
	ReasonGeneratorBusy = "GeneratorBusy"
	// ReasonBaselineNotComplete: the run waits for the end of the run that it is compared with (`spec.baselineRef`).
	// Remedy: wait for the end of that run, stop it, or delete this run and create it again with another `spec.baselineRef`.
	ReasonBaselineNotComplete = "BaselineNotComplete"
	// ReasonPodsPending: engine pods are being created, scheduled or started.
	// Remedy: wait; if it lasts, `kubectl describe pod` of the pod that the message names has the events of scheduler and kubelet.
	ReasonPodsPending = "PodsPending"
	// ReasonReplicasPending: `spec.replicas` has changed while runs use the generator; it takes effect when they have ended, and no other
	// run is admitted until then. The message has both numbers and the run.
	// Remedy: wait for the end of the run that the message names, or stop it (`kubectl spate stop RUN`).
	ReasonReplicasPending = "ReplicasPending"
	// ReasonUnschedulable: no node can take an engine pod; the message is the scheduler's.
	// Remedy: give the nodes what the message misses, or request less. CPUs: `workers`, or `cpuPolicy: Shared` where nothing is measured.
	// Hugepages: `packetMemory`. Devices: the resource in the allocatable of `kubectl get node -o yaml`. Labels: engines need a node
	// of the architecture of their image, amd64 unless it was set (docs/install.md#other-architectures). kind and minikube: docs/install.md#kind-and-minikube.
	ReasonUnschedulable = "Unschedulable"
	// ReasonNetworkNotFound: a port's NetworkAttachmentDefinition does not exist.
	// Remedy: create the NetworkAttachmentDefinition in the namespace that the message names, or correct the port's attachment
	// (docs/attachments.md).
	ReasonNetworkNotFound = "NetworkNotFound"
	// ReasonNetworkMismatch: a port's NetworkAttachmentDefinition is of another kind than its attachment: an sriov attachment needs one that
	// names the resource of a device plugin, a kernel attachment one that names none.
	// Remedy: name a NetworkAttachmentDefinition of the right kind, or change the port's attachment
	// (docs/attachments.md#which-device-a-port-is).
	ReasonNetworkMismatch = "NetworkMismatch"
	// ReasonClaimTemplateNotFound: a port's ResourceClaimTemplate does not exist.
	// Remedy: create the ResourceClaimTemplate in the namespace of the generator, or correct its name. It takes Kubernetes 1.34
	// (docs/resource-claims.md).
	ReasonClaimTemplateNotFound = "ClaimTemplateNotFound"
	// ReasonDeviceMismatch: what ports need of a ResourceClaim and what it has differ; the message has both and the remedy.
	// Remedy: change the ports or the ResourceClaimTemplate to what the message says (docs/resource-claims.md).
	ReasonDeviceMismatch = "DeviceMismatch"
	// ReasonImagePullFailed: the engine's image cannot be pulled; the message is the kubelet's.
	// Remedy: push the image, or correct the values `engine.image` of the chart or `spec.image` of the generator; pull secrets are those of
	// the generator (`spec.podTemplate.spec.imagePullSecrets`).
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonAttachmentFailed: a pod's networks or claimed devices cannot be attached, or cannot be detached from a pod that is being
	// deleted; the message is the network plugin's or the driver's.
	// Remedy: correct what the message names: the NetworkAttachmentDefinition, the device plugin or driver, or the device on the node
	// (docs/attachments.md). The pod is retried by the kubelet.
	ReasonAttachmentFailed = "AttachmentFailed"
	// ReasonPodFailed: an engine pod failed; the message says how often and why.
	// Remedy: the message has the last lines of the engine's log, and `kubectl logs POD --previous` more. After a change of the generator
	// its pods are replaced.
	ReasonPodFailed = "PodFailed"
	// ReasonAdmissionFailed: the node refused an engine pod (CPU or NUMA topology, device, hugepages), or the API server
	// did: it, or the run of a profile, its plan or its inline generator (a quota, a pod security policy, an admission policy).
	// Remedy: allow what the message names: the Pod Security level of the namespace (docs/attachments.md#what-each-needs), a quota, an
	// admission policy; or request what a NUMA node of the node has: fewer `workers`, `threadsPerCore`, less memory
	// (docs/preflight.md#whole-cores).
	ReasonAdmissionFailed = "AdmissionFailed"
	// ReasonEngineUnreachable: an engine pod runs and its engine does not answer.
	// Remedy: check NetworkPolicies and the network plugin between the operator and the pod (docs/security.md), and `kubectl logs` of the
	// pod.
	ReasonEngineUnreachable = "EngineUnreachable"
	// ReasonEngineHangs: a worker of an engine has not passed its loop for 10 s, as when a driver's call does not return; its liveness
	// probe fails, the kubelet ends it within a minute, and its pod is replaced.
	// Remedy: wait until the pod is replaced. If it happens again, report it with the output of `kubectl spate must-gather`.
	ReasonEngineHangs = "EngineHangs"
	// ReasonOrphanedRun: an engine still executes a run that has ended or no longer exists (it could not be reached to be stopped);
	// it is being stopped, unless its TrafficRun may exist in a watched namespace that the operator cannot read, and the generator takes
	// no other run until it has ended.
	// Remedy: wait. If the message says that a namespace cannot be read, give the operator its Role there, or take it out of
	// `watchNamespaces` (docs/install.md#a-watched-namespace-that-cannot-be-read).
	ReasonOrphanedRun = "OrphanedRun"
	// ReasonVersionMismatch: an engine's contract differs from the operator's by more than one minor version.
	// Remedy: use an engine image of the operator's release: the values `engine.image` of the chart, or `spec.image` of the generator.
	ReasonVersionMismatch = "VersionMismatch"
	// ReasonPortDown: a port has no link.
	// Remedy: check the link of the physical function, its state for the virtual function (`ip link`), cable and switch.
	ReasonPortDown = "PortDown"
	// ReasonDeviceRequested: a node requests the device of a port back, and waits until the pod ends: its driver is unbound, or the virtual
	// functions of a NIC are removed. No run is admitted; active ones continue.
	// Remedy: delete the pod or set `spec.suspend` of the generator, so that the node gets its device; if that was not meant, create the
	// virtual functions again.
	ReasonDeviceRequested = "DeviceRequested"
	// ReasonCheckFailed: whether engines would take a plan could not be found out, such as in time; the message says why, and when it is
	// tried again. Nothing runs until then.
	// Remedy: wait for the next attempt; if it lasts, use fewer or smaller entries, or give the operator more CPU or memory (`resources` of
	// the chart).
	ReasonCheckFailed = "CheckFailed"
	// ReasonNotAllowed: the operator is configured to refuse this; the message has the field and the remedy.
	// Remedy: change the field, or have the administrator change the value of the chart that the message names
	// (docs/concepts.md#guard-rails).
	ReasonNotAllowed = "NotAllowed"
	// ReasonNameTaken: an object that a generator or a profile makes has the name of one that is not its own; the message names both.
	// Remedy: rename the generator or the profile, or delete or rename the object that the message names.
	ReasonNameTaken = "NameTaken"
	// ReasonDeleting: the object is being deleted.
	// Remedy: wait; if it lasts, see docs/troubleshooting.md#nothing-is-deleted.
	ReasonDeleting = "Deleting"
)

// Reasons of Running and Complete, beside the phases' own names.
const (
	// ReasonNotStarted: no run has been started.
	// Remedy: none is needed; with `runPolicy: Manual` a run starts by `kubectl spate run PROFILE`.
	ReasonNotStarted = "NotStarted"
	// ReasonPreparing: engines are receiving and arming the plan.
	// Remedy: none is needed.
	ReasonPreparing = "Preparing"
	// ReasonSettingUp: the engines have the plan; the sessions of the run's ports, its routes or its clients are awaited.
	// Remedy: none is needed.
	ReasonSettingUp = "SettingUp"
	// ReasonWarmingUp: traffic is sent and not yet measured.
	// Remedy: none is needed.
	ReasonWarmingUp = "WarmingUp"
	// ReasonTransmitting: traffic is sent and measured.
	// Remedy: none is needed.
	ReasonTransmitting = "Transmitting"
	// ReasonDraining: transmission has ended, packets in flight are awaited.
	// Remedy: none is needed.
	ReasonDraining = "Draining"
	// ReasonFinished: the run ended after its duration.
	// Remedy: none is needed.
	ReasonFinished = "Finished"
	// ReasonStopped: the run ended before its duration by suspension, deletion or replacement.
	// Remedy: none is needed; `kubectl spate run PROFILE` starts another run.
	ReasonStopped = "Stopped"
)

// Reasons of Valid and Passed.
const (
	// ReasonMeasurementValid: nothing but the device under test and the path had a part in the result.
	// Remedy: none is needed.
	ReasonMeasurementValid = "MeasurementValid"
	// ReasonAwaitingResult: the run has not ended.
	// Remedy: none is needed.
	ReasonAwaitingResult = "AwaitingResult"
	// ReasonThresholdsMet: every threshold holds (or there is none) and the measurement is valid.
	// Remedy: none is needed.
	ReasonThresholdsMet = "ThresholdsMet"
	// ReasonThresholdMissed: at least one threshold does not hold; the message has its name and the numbers.
	// Remedy: find out why the device under test does not meet it: `kubectl spate report RUN`, and `kubectl spate compare` with a run that
	// passed (docs/troubleshooting.md#some-packets-are-lost).
	ReasonThresholdMissed = "ThresholdMissed"
	// ReasonStageFailed: a stage did not meet a threshold of its own.
	// Remedy: as for ThresholdMissed; the message has the stage (docs/stages.md).
	ReasonStageFailed = "StageFailed"
	// ReasonAborted: a threshold or a stage ended the run before its time.
	// Remedy: as for ThresholdMissed; without `abort` the run goes on to its end (docs/stages.md).
	ReasonAborted = "Aborted"
	// ReasonThresholdError: a threshold's expression failed to evaluate.
	// Remedy: correct the expression: the message has what it reads and does not find, such as a stream, or a time that is not measured
	// (docs/concepts.md#the-verdict).
	ReasonThresholdError = "ThresholdError"
	// ReasonGeneratorLimited: invalid, since the generator was the limit (late, dropped or missed packets beyond
	// `spec.generatorTolerance`), not the device under test.
	// Remedy: lower the rate, or give the generator more: `workers`, `replicas`, CPUs of its own (`cpuPolicy: Exclusive`), and a machine
	// without findings of `kubectl spate doctor` (docs/scaling.md). For a run that only tries something, raise `spec.generatorTolerance`.
	ReasonGeneratorLimited = "GeneratorLimited"
	// ReasonCountersContradict: invalid, since an engine's counters contradict each other, so that none can be trusted; the message has
	// the identities that do not hold. It is a defect of the engine.
	// Remedy: report it with the output of `kubectl spate must-gather`; another run may be valid.
	ReasonCountersContradict = "CountersContradict"
	// ReasonDrainTimedOut: invalid, since an engine's workers had not read all packets 5 s after `spec.drain`: more arrive than they can
	// take, or a worker hangs. The run was closed then; the message has the workers.
	// Remedy: lower the rate, or add `workers`, so that what arrives is read in time; exclude foreign traffic from the ports (`kubectl spate
	// receive`).
	ReasonDrainTimedOut = "DrainTimedOut"
	// ReasonBaselineUnusable: invalid, since the run that it would be compared with (`spec.baselineRef`) has no valid result, or not all of
	// it is there; the message has why. Nothing was sent.
	// Remedy: delete the run, and create it again with the name of a run with `Valid=True` and without lost pods as `spec.baselineRef`.
	ReasonBaselineUnusable = "BaselineUnusable"
	// ReasonThresholdUnmeasured: invalid, since a threshold reads what cannot be known: a pod was lost that may have sent or received some of
	// it, or the copy of the baseline's result was deleted. No threshold on what is known was missed.
	// Remedy: run it again; remove the cause of the lost pod first (its events, `kubectl spate events`).
	ReasonThresholdUnmeasured = "ThresholdUnmeasured"
	// ReasonPodLost: invalid, since an engine pod was lost during the run. With `whenPodLost: Continue` it is a further reason of a verdict
	// on what the other pods did.
	// Remedy: `kubectl spate events` says why the pod was lost: evicted, out of memory (`spec.memory`), or its node was lost. Run it again.
	ReasonPodLost = "PodLost"
	// ReasonPrepareFailed: invalid, since an engine refused the plan; the message is the engine's.
	// Remedy: correct what the message names. If next hops did not answer: `kubectl spate ping GENERATOR GATEWAY --port PORT`, then VLAN,
	// addresses and cabling.
	ReasonPrepareFailed = "PrepareFailed"
	// ReasonRoutingNotReady: a session of a routing protocol is not up, or has not sent the routes of a run; the message has the session, its
	// state and the protocol's error, or how many routes are sent.
	// Remedy: compare the session with the neighbor's configuration: addresses, AS numbers, password, timers; `kubectl spate routes` has all
	// sessions, `kubectl spate ping GENERATOR NEIGHBOR --port PORT` whether the neighbor answers (docs/routing.md).
	ReasonRoutingNotReady = "RoutingNotReady"
	// ReasonClientsNotReady: fewer emulated clients are bound than `ready.least` of their entry in `spec.clients` requires; the message has
	// how many are, and the states and causes of the others.
	// Remedy: by the cause: whether a server answers on the port's link and in the clients' VLANs (`kubectl spate capture`), has enough
	// addresses, and lets that many clients begin a second; `kubectl spate clients RUN --state Failed` has each (docs/clients.md).
	ReasonClientsNotReady = "ClientsNotReady"
	// ReasonSetupTimedOut: invalid, since a session of the run's ports was not up, or its routes were not sent, within `spec.setupTimeout`, or
	// clients were not bound within `ready.timeout` of their entry; the message has which and why.
	// Remedy: as for RoutingNotReady or ClientsNotReady; raise the timeout if the neighbor or the server takes longer.
	ReasonSetupTimedOut = "SetupTimedOut"
	// ReasonRoutingFailed: invalid, since BIRD ended in a pod while the run used its sessions: all of them fell, which was not the device's
	// doing. A session that falls by itself is counted (docs/routing.md#runs).
	// Remedy: `kubectl spate logs GENERATOR --container routing` has what BIRD logged last; if it was out of memory, raise
	// `spec.routing.memory` of the generator. Then run it again.
	ReasonRoutingFailed = "RoutingFailed"
	// ReasonStartFailed: invalid, since the engines could not be started at one instant.
	// Remedy: run it again. If the message names clocks, synchronise those of the nodes (docs/clocks.md); if it names an engine, see
	// `kubectl spate logs RUN`.
	ReasonStartFailed = "StartFailed"
	// ReasonSnapshotLost: invalid, since the resolved plan that is kept beside the run is missing or damaged.
	// Remedy: run it again; leave the ConfigMaps and Secrets of a run to the operator, and Secrets that streams name unchanged while a run
	// is prepared.
	ReasonSnapshotLost = "SnapshotLost"
	// ReasonIncomplete: invalid, since the run was stopped before its duration. A run that was stopped since its generator was withdrawn has
	// the reason of that: ReferenceNotAllowed (`spec.allowedNamespaces` no longer grants the generator's use to the profile's namespace), or
	// LimitExceeded (`spec.limits` was lowered below what the run sends).
	// Remedy: run it again, and let it end by itself; the message has what ended it.
	ReasonIncomplete = "Incomplete"
	// ReasonSearchRegular: every goal of the search has both bounds, as close as it requires; the message has them.
	// Remedy: none is needed.
	ReasonSearchRegular = "SearchRegular"
	// ReasonSearchIrregular: a goal of the search has a bound only, or none, or the budget was used up; the message has which and why.
	// Remedy: by the reason of the goal in the message: change the bounds of the load, raise the budget, or accept the bound that was found
	// (docs/searches.md).
	ReasonSearchIrregular = "SearchIrregular"
	// ReasonSearchInvalid: the search of a variant could not be done; the message has which and why.
	// Remedy: remove the cause that the message names, such as an invalid trial; then delete the search and create it again.
	ReasonSearchInvalid = "SearchInvalid"
	// ReasonTrialsInvalid: invalid, since a trial of the search was invalid more often than `trial.retries`; the message has why.
	// Remedy: follow the remedy of the reason that the message gives for the last trial; then delete the search and create it again.
	ReasonTrialsInvalid = "TrialsInvalid"
	// ReasonRecordsContradict: invalid, since the recorded trials of the search are not those that this version of the operator would have
	// chosen.
	// Remedy: delete the search and create it again, so that this version of the operator chooses all of its trials.
	ReasonRecordsContradict = "RecordsContradict"
	// ReasonDetailsNotKept: named last among the reasons of a verdict, which it does not change: the result is larger than a status, and
	// could not be kept beside the run as a whole; the message says what is lost and why.
	// Remedy: make room for what the message names, such as a quota of ConfigMaps, or give the run fewer streams.
	ReasonDetailsNotKept = "DetailsNotKept"
)

// Reasons of Recorded, beside AwaitingResult and, if it stays Unknown, that of Passed.
const (
	// ReasonRecordsWritten: every record is in its file.
	// Remedy: none is needed.
	ReasonRecordsWritten = "RecordsWritten"
	// ReasonRecordsOmitted: the files are written, and a file has `spec.records.maxRecords`; later records are omitted.
	// Remedy: raise `spec.records.maxRecords` (10 million when absent).
	ReasonRecordsOmitted = "RecordsOmitted"
	// ReasonRecordsLiveOnly: `spec.records` names no volume, so records were streamed to readers, and none are kept; the message says
	// how many were delivered, and how many were not.
	// Remedy: to keep records, name a volume of the generator in `spec.records` (docs/reference/records.md).
	ReasonRecordsLiveOnly = "RecordsLiveOnly"
	// ReasonRecordsDropped: records were lost because an engine was behind in taking them; the message says how many.
	// Remedy: use a faster volume or fewer connections a second; without a volume, a faster reader.
	ReasonRecordsDropped = "RecordsDropped"
	// ReasonRecordsNotWritten: a file could not be completed; the message has the problem, and how many records of its pod can be read
	// nevertheless.
	// Remedy: make room on the volume, or correct its mount; `spate-engine records --file` reads what was written.
	ReasonRecordsNotWritten = "RecordsNotWritten"
)

// Reasons of Archived.
const (
	// ReasonArchived: the run is in the archive; the message has the folder.
	// Remedy: none is needed.
	ReasonArchived = "Archived"
	// ReasonArchiveFailed: the run could not be written into the archive; the message says why. It is tried again, after 10 minutes at the
	// latest.
	// Remedy: correct what the message names: the claim or the bucket of the archive, or its credentials (docs/archive.md).
	ReasonArchiveFailed = "ArchiveFailed"
)

// Reasons of RemoteWritten and OTLPExported.
const (
	// ReasonSamplesSent: the receiver has accepted the samples; the message has their number.
	// Remedy: none is needed.
	ReasonSamplesSent = "SamplesSent"
	// ReasonSamplesNotSent: the samples could not be sent, or the receiver has not accepted them; the message says why. They are sent again,
	// after 10 minutes at the latest, unless the receiver refuses them for what they are (HTTP status 400, 413 or 422).
	// Remedy: correct what the message names: the URL, the credentials or the receiver (docs/monitoring.md#samples-of-a-run-sent).
	ReasonSamplesNotSent = "SamplesNotSent"
)

// Reasons of MeasurementReady and MachineReady.
const (
	// ReasonExclusiveResources: nothing is shared that a measurement depends on.
	// Remedy: none is needed.
	ReasonExclusiveResources = "ExclusiveResources"
	// ReasonSharedResources: the generator shares what a measurement depends on, so losses and delays may be its own; the message lists it.
	// Remedy: give the generator what the message lists: `cpuPolicy: Exclusive`, `controlCPU: Dedicated`, hugepages, ports by `sriov`
	// (docs/concepts.md#ready-for-measurement). To try something, none is needed.
	ReasonSharedResources = "SharedResources"
	// ReasonNoEngines: no engine has reported its ports and its machine.
	// Remedy: wait until the pods are ready; the condition `Ready` of the generator says what they wait for.
	ReasonNoEngines = "NoEngines"
	// ReasonPreflightPassed: no check of the preflight found anything; the message has what could not be checked.
	// Remedy: none is needed.
	ReasonPreflightPassed = "PreflightPassed"
	// ReasonPreflightFindings: a check of the preflight found something; the message has the first findings and their remedies, and
	// `status.pods[].preflight` has all.
	// Remedy: each finding has its remedy: `kubectl spate doctor GENERATOR` prints all of them (docs/preflight.md).
	ReasonPreflightFindings = "PreflightFindings"
)

// Reasons of RoutingReady, beside NoEngines and RoutingNotReady.
const (
	// ReasonSessionsUp: all sessions of routing protocols are up.
	// Remedy: none is needed.
	ReasonSessionsUp = "SessionsUp"
)

// Reasons of Stale.
const (
	// ReasonReferenceChanged: the message names the object that changed.
	// Remedy: none is needed; to use the change, start another run: `kubectl spate run PROFILE`.
	ReasonReferenceChanged = "ReferenceChanged"
)
