// SPDX-License-Identifier: Apache-2.0

// What does a run report of the records of its connections?

package v1alpha1

// RecordsResult is what has become of the records that the profile requests, those of connections that ended in the warm-up too.
type RecordsResult struct {
	RecordCounters `json:",inline"`

	// pods, each with what its engine did.
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=16
	Pods []PodRecords `json:"pods,omitempty"`
}

// RecordCounters count records. Connections that `oneIn` passes over have none.
type RecordCounters struct {
	// written records are in files.
	Written int64 `json:"written"`

	// leftOut records are in no file because theirs has as many as `mostRecords` allows.
	// +optional
	LeftOut int64 `json:"leftOut,omitempty"`

	// told records were sent to at least one reader while the run lasted, and are in no file because the profile names no volume.
	// +optional
	Told int64 `json:"told,omitempty"`

	// untold records are in no file because the profile names no volume, and were sent to no reader: there was none, or all were too
	// slow.
	// +optional
	Untold int64 `json:"untold,omitempty"`

	// dropped records were lost because the engine was behind in taking them from its workers.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`
}

// PodRecords is what has become of the records of one engine.
type PodRecords struct {
	// pod of the engine.
	Pod string `json:"pod"`

	// file of the engine: the generator's volume and the file's name on it, such as `results/web-1a2b3-1-0.parquet`. Absent if the
	// profile names no volume.
	// +optional
	File string `json:"file,omitempty"`

	RecordCounters `json:",inline"`

	// problem for which the file could not be completed: it ends in .partial then, with the records that `written` counts; all others of the
	// engine are lost.
	// +optional
	Problem string `json:"problem,omitempty"`
}
