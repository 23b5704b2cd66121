// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what has become of the records of connections, and what is said of it?

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
)

// recordsDropped is the engine's counter of records that were not taken from a worker in time.
const recordsDropped = "records_dropped"

// recordsOf sums up what engines tell of records; nil if connections are not recorded.
func recordsOf(stats []*enginev1.WatchStatsResponse, run *spatev1.TrafficRun) *spatev1.RecordsResult {
	var all *spatev1.RecordsResult
	for i, st := range stats {
		told := st.GetRecords()
		if told == nil {
			continue
		}
		pod := spatev1.PodRecords{
			Pod: run.Status.Resolved.Generator.Pods[i].Name, File: strings.TrimPrefix(told.GetPath(), data.VolumesDir+"/"), Problem: told.GetProblem(),
			RecordCounters: spatev1.RecordCounters{
				Written: int64(told.GetWritten()), Omitted: int64(told.GetOmitted()), Delivered: int64(told.GetDelivered()), Undelivered: int64(told.GetUndelivered()),
			},
		}
		for _, t := range st.GetTemplates() {
			pod.Dropped += whole(t)[recordsDropped]
		}
		if all == nil {
			all = &spatev1.RecordsResult{}
		}
		all.Written += pod.Written
		all.Omitted += pod.Omitted
		all.Delivered += pod.Delivered
		all.Undelivered += pod.Undelivered
		all.Dropped += pod.Dropped
		all.Pods = append(all.Pods, pod)
	}
	return all
}

// lostRecords says by pod which records were lost; no reason if none were.
func lostRecords(all *spatev1.RecordsResult) (reason, message string) {
	if all == nil {
		return "", ""
	}
	var lost []string
	for _, pod := range all.Pods {
		switch {
		case pod.Problem != "":
			reason = spatev1.ReasonRecordsNotWritten
			lost = append(lost, fmt.Sprintf("pod %s: %s is not complete: %s", pod.Pod, pod.File, pod.Problem))
		case pod.Dropped > 0:
			if reason == "" {
				reason = spatev1.ReasonRecordsDropped
			}
			of := ""
			if pod.File != "" {
				of = " of " + pod.File
			}
			lost = append(lost, fmt.Sprintf("pod %s: %d%s were dropped, the engine was behind in taking them", pod.Pod, pod.Dropped, of))
		}
	}
	if reason == "" {
		return "", ""
	}
	return reason, "connection records are lost: " + strings.Join(lost, "; ")
}

// recorded sets the condition of that name where connections are recorded.
func (s *scope) recorded() {
	status := &s.run.Status
	if status.Result == nil || status.Result.Records == nil {
		return
	}
	value, all := metav1.ConditionTrue, status.Result.Records
	reason, message := lostRecords(all)
	switch {
	case reason != "":
		value = metav1.ConditionFalse
	case status.Phase != spatev1.RunComplete:
		value, reason, message = metav1.ConditionUnknown, spatev1.ReasonAwaitingResult, "the run has not ended"
	case !s.final:
		value, reason, message = metav1.ConditionUnknown, status.Verdict.Reasons[0].Reason, "the engines did not report the state of the records at the end"
	case all.Pods[0].File == "": // so it is with all of them
		reason = spatev1.ReasonRecordsLiveOnly
		message = fmt.Sprintf("no records are kept, since spec.records of the profile names no volume: %d were delivered to readers, %d were not", all.Delivered, all.Undelivered)
	case all.Omitted > 0:
		reason = spatev1.ReasonRecordsOmitted
		message = fmt.Sprintf("%d records are written, %d are omitted: they are more than spec.records.maxRecords of the profile", all.Written, all.Omitted)
	default:
		reason, message = spatev1.ReasonRecordsWritten, fmt.Sprintf("%d records are written", all.Written)
	}
	kstatus.Set(&status.Conditions, spatev1.ConditionRecorded, value, s.run.Generation, reason, message)
}
