// SPDX-License-Identifier: Apache-2.0

// What a run tells of the records of its connections.

package v1alpha1

// RecordsResult is what has become of the records that the profile asks for, those of connections that ended in the warm-up too.
type RecordsResult struct {
	RecordCounters `json:",inline"`

	// pods, each with the file of its engine.
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

	// dropped records were lost because the engine's writer was behind.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`
}

// PodRecords is what has become of the records of one engine.
type PodRecords struct {
	// pod of the engine.
	Pod string `json:"pod"`

	// file of the engine: the generator's volume and the file's name on it, such as `results/web-1a2b3-1-0.parquet`.
	File string `json:"file"`

	RecordCounters `json:",inline"`

	// problem for which the file could not be written: there is none, and all records of the engine are lost.
	// +optional
	Problem string `json:"problem,omitempty"`
}
