// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what happened to the records of connections, and how is it reported?

import (
	"cmp"
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

// recordsOf sums the records up that engines report; nil if connections are not recorded.
func recordsOf(stats []*enginev1.WatchStatsResponse, run *spatev1.TrafficRun) *spatev1.RecordsResult {
	var all *spatev1.RecordsResult
	for i, st := range stats {
		reported := st.GetRecords()
		if reported == nil {
			continue
		}
		pod := spatev1.PodRecords{
			Pod: run.Status.Resolved.Generator.Pods[i].Name, File: strings.TrimPrefix(reported.GetPath(), data.VolumesDir+"/"), Problem: reported.GetProblem(),
			RecordCounters: spatev1.RecordCounters{
				Written: int64(reported.GetWritten()), Omitted: int64(reported.GetOmitted()), Delivered: int64(reported.GetDelivered()), Undelivered: int64(reported.GetUndelivered()),
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

// withLostPods adds the pods that are lost, whose files are not complete, if files are written.
func withLostPods(all *spatev1.RecordsResult, run *spatev1.TrafficRun) *spatev1.RecordsResult {
	if all == nil || all.Pods[0].File == "" { // the same for all pods
		return all
	}
	for _, l := range run.Status.LostPods {
		all.Pods = append(all.Pods, spatev1.PodRecords{Pod: l.Name, Problem: "the pod was lost: " + l.Message})
	}
	return all
}

// lostRecords lists the lost records by pod; the reason is empty if there are none.
func lostRecords(all *spatev1.RecordsResult) (reason, message string) {
	if all == nil {
		return "", ""
	}
	var lost []string
	for _, pod := range all.Pods {
		switch {
		case pod.Problem != "":
			reason = spatev1.ReasonRecordsNotWritten
			lost = append(lost, fmt.Sprintf("pod %s: %s is not complete: %s", pod.Pod, cmp.Or(pod.File, "its file"), pod.Problem))
		case pod.Dropped > 0:
			if reason == "" {
				reason = spatev1.ReasonRecordsDropped
			}
			of := ""
			if pod.File != "" {
				of = " of " + pod.File
			}
			lost = append(lost, fmt.Sprintf("pod %s: %d%s were dropped because the engine did not keep up", pod.Pod, pod.Dropped, of))
		}
	}
	if reason == "" {
		return "", ""
	}
	return reason, "connection records are lost: " + strings.Join(lost, "; ")
}

// recorded sets the Recorded condition if connections are recorded.
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
	case all.Pods[0].File == "": // the same for all pods
		reason = spatev1.ReasonRecordsLiveOnly
		message = fmt.Sprintf("no records are stored, since spec.records of the profile names no volume: %d were delivered to readers, %d were not", all.Delivered, all.Undelivered)
	case all.Omitted > 0:
		reason = spatev1.ReasonRecordsOmitted
		message = fmt.Sprintf("%d records are written, %d are omitted because spec.records.maxRecords of the profile was reached", all.Written, all.Omitted)
	default:
		reason, message = spatev1.ReasonRecordsWritten, fmt.Sprintf("%d records are written", all.Written)
	}
	kstatus.Set(&status.Conditions, spatev1.ConditionRecorded, value, s.run.Generation, reason, message)
}
