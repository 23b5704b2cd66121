// SPDX-License-Identifier: Apache-2.0

// What does a run report of the records of its connections?

package v1alpha1

// RecordsResult counts the records that the profile requests, those of flows that ended in the warm-up included.
type RecordsResult struct {
	RecordCounters `json:",inline"`

	// pods with the records of each engine.
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=16
	Pods []PodRecords `json:"pods,omitempty"`
}

// RecordCounters count records. Flows that `oneIn` skips have none.
type RecordCounters struct {
	// written records are in files.
	// +required
	Written int64 `json:"written"`

	// omitted records are in no file because their file has `maxRecords`.
	// +optional
	Omitted int64 `json:"omitted,omitempty"`

	// delivered records were sent to at least one reader while the run lasted. They are in no file because the profile names no volume.
	// +optional
	Delivered int64 `json:"delivered,omitempty"`

	// undelivered records were sent to no reader, because there was none or all were too slow. They are in no file because the profile
	// names no volume.
	// +optional
	Undelivered int64 `json:"undelivered,omitempty"`

	// dropped records were lost because the engine did not read them from its workers in time.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`
}

// PodRecords counts the records of one engine.
type PodRecords struct {
	// pod of the engine.
	// +required
	Pod string `json:"pod"`

	// file of the engine: the generator's volume and the file's name on it, such as `results/web-1a2b3-1-0.parquet`. Absent if the
	// profile names no volume.
	// +optional
	File string `json:"file,omitempty"`

	RecordCounters `json:",inline"`

	// problem that kept the file from being completed. Its name then ends in .partial, and it has the records that `written` counts; all
	// others of the engine are lost.
	// +optional
	Problem string `json:"problem,omitempty"`
}
