// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: when is a pod lost, what becomes of its run, and what is known of the run's traffic without the pod?

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
)

// lostAfter is the time without an answer after which an engine's pod counts as lost.
const lostAfter = time.Minute

// loss is how a pod, by its index, was lost.
type loss struct {
	pod     int
	message string
}

func messages(all []loss) string {
	texts := make([]string, len(all))
	for i, l := range all {
		texts[i] = l.message
	}
	return strings.Join(texts, "; ")
}

// present yields the counters of the pods that are not lost, by the pods' indexes.
func present(stats []*enginev1.WatchStatsResponse) iter.Seq2[int, *enginev1.WatchStatsResponse] {
	return func(yield func(int, *enginev1.WatchStatsResponse) bool) {
		for i, st := range stats {
			if st != nil && !yield(i, st) {
				return
			}
		}
	}
}

// continues reports whether the run goes on without lost pods.
func (s *scope) continues() bool {
	return s.run.Status.Resolved.WhenPodLost == spatev1.PodLossContinue
}

// lose ends the run if pods are lost and its policy or the loss of all pods requires that. Else it records the losses: the run goes on
// with the other pods.
func (s *scope) lose(ctx context.Context, all []loss) (ends bool) {
	if len(all) == 0 {
		return false
	}
	if !s.continues() {
		s.endLost(ctx, messages(all))
		return true
	}
	at := now()
	for _, l := range all {
		s.run.Status.LostPods = append(slices.Clip(s.run.Status.LostPods), spatev1.LostPod{
			Name: s.podName(l.pod), LostTime: at, Message: kstatus.Shortened(l.message, longestText), LastCounters: s.found.read[l.pod],
		})
		s.pods[l.pod] = nil
		s.r.Events.Eventf(s.run, nil, corev1.EventTypeWarning, spatev1.ReasonPodLost, "Run", "%s", kstatus.Shortened(l.message, kstatus.LongestNote))
	}
	s.found.sample = sample{} // it includes the lost pods
	if lost, pods := s.run.Status.LostPods, s.run.Status.Resolved.Generator.Pods; len(lost) == len(pods) {
		s.endLost(ctx, fmt.Sprintf("all %d pods are lost: %s", len(pods), lost[len(lost)-1].Message))
		return true
	}
	return false
}

// endLost ends the run because pods are lost.
func (s *scope) endLost(ctx context.Context, message string) {
	s.stop(ctx, message)
	s.invalid(spatev1.ReasonPodLost, message, "")
}

// endedAlone returns the pods whose engines have ended the run by themselves: their leases have expired.
func (s *scope) endedAlone(stats []*enginev1.WatchStatsResponse) (ended []loss) {
	for i, st := range present(stats) {
		if why := st.GetRun().GetEndReason(); why != "" {
			ended = append(ended, loss{i, fmt.Sprintf("pod %s: %s", s.pods[i].Name, why)})
		}
	}
	return ended
}

// othersGoOn reports whether engines have ended the run by themselves, and not all of those that are left.
func (s *scope) othersGoOn(stats []*enginev1.WatchStatsResponse, alone []loss) bool {
	left := 0
	for range present(stats) {
		left++
	}
	return len(alone) > 0 && len(alone) < left
}

// answered keeps what is needed of the engines' answers when a pod is lost.
func (s *scope) answered(stats []*enginev1.WatchStatsResponse) {
	s.found.silent = nil
	if !s.continues() {
		return
	}
	if s.found.read == nil {
		s.found.read = make(map[int]*spatev1.PodCounters, len(stats))
	}
	for i, st := range present(stats) { // those of lost pods are kept: the loss may not have been written yet
		s.found.read[i] = podCounters(st)
	}
}

// podCounters sums up what an engine has counted of the measured phase.
func podCounters(st *enginev1.WatchStatsResponse) *spatev1.PodCounters {
	sum := &spatev1.PodCounters{ReadTime: metav1.NewMicroTime(time.Unix(0, st.GetReadAtNs()))}
	for _, stream := range st.GetStreams() {
		m := stream.GetMeasured()
		sum.Tx += int64(m.GetTxPackets())
		sum.TxBytes += int64(m.GetTxBytes())
		sum.Rx += int64(m.GetRxPackets())
		sum.RxBytes += int64(m.GetRxBytes())
	}
	all := templatesBy([]*enginev1.WatchStatsResponse{st}, (*enginev1.TemplateStats).GetTemplate, measured, noTimes)
	if flows := flowsOf(all); flows != nil {
		sum.FlowsAttempted, sum.FlowsEstablished, sum.FlowsFailed = flows.Attempted, flows.Established, flows.Failed
	}
	return sum
}

// unanswered handles engines that do not answer, or that do not have the run, by the errors of the pods' engines.
func (s *scope) unanswered(ctx context.Context, errs []error) (time.Duration, error) {
	var lost []loss
	var unreachable, others []error
	since := s.silentSince()
	for i, err := range errs {
		if err == nil {
			delete(s.found.silent, i)
			continue
		}
		if _, known := s.found.silent[i]; !known {
			s.found.silent[i] = since
		}
		switch {
		case engine.UnknownRun(err):
			lost = append(lost, loss{i, "the engine was restarted and no longer has the run: " + err.Error()})
		case !engine.Unreachable(err):
			others = append(others, err)
		case time.Since(s.found.silent[i]) > lostAfter:
			lost = append(lost, loss{i, fmt.Sprintf("an engine has not answered for %s: %v", lostAfter, err)})
		default:
			unreachable = append(unreachable, err)
		}
	}
	if s.lose(ctx, lost) {
		return 0, nil
	}
	if len(unreachable) > 0 {
		s.unreachable = errors.Join(unreachable...).Error()
		return tick, nil
	}
	if len(others) > 0 {
		return tick, errors.Join(others...)
	}
	return time.Millisecond, nil // with the pods that are left
}

// silentSince returns since when an engine has not answered that has answered so far: now. An operator that takes over reads it from the
// run's condition.
func (s *scope) silentSince() time.Time {
	ready := meta.FindStatusCondition(s.run.Status.Conditions, spatev1.ConditionReady)
	first := s.found.silent == nil
	if first {
		s.found.silent = map[int]time.Time{}
	}
	if first && ready != nil && ready.Reason == spatev1.ReasonEngineUnreachable {
		return ready.LastTransitionTime.Time
	}
	return time.Now()
}

// executedBy says which engines execute the run.
func executedBy(run *spatev1.TrafficRun) string {
	lost := podNames(run.Status.LostPods)
	if len(lost) == 0 {
		return "the engines execute the run"
	}
	pods := len(run.Status.Resolved.Generator.Pods)
	return fmt.Sprintf("%d of %d engines execute the run, which has lost %s", pods-len(lost), pods, strings.Join(lost, ", "))
}

// validFor says what a valid measurement is of.
func validFor(run *spatev1.TrafficRun) string {
	if len(run.Status.LostPods) == 0 {
		return "the counters agree, and the generator was not the limit"
	}
	return "the counters of the pods that are left agree, and these pods were not the limit; lost: " + strings.Join(podNames(run.Status.LostPods), ", ")
}

func podNames(lost []spatev1.LostPod) []string {
	names := make([]string, len(lost))
	for i, l := range lost {
		names[i] = l.Name
	}
	return names
}

// withoutPods says what a verdict without the lost pods is on, and what remains unknown.
func withoutPods(run *spatev1.TrafficRun, judged []spatev1.ThresholdResult) string {
	lost := podNames(run.Status.LostPods)
	var left, known []string
	for _, pod := range run.Status.Resolved.Generator.Pods {
		if !slices.Contains(lost, pod.Name) {
			left = append(left, pod.Name)
		}
	}
	for _, t := range judged {
		if t.Met {
			known = append(known, t.Name)
		}
	}
	var text strings.Builder
	for _, l := range run.Status.LostPods {
		fmt.Fprintf(&text, "pod %s was lost at %s (%s), ", l.Name, l.LostTime.UTC().Format(time.RFC3339), l.Message)
		if c := l.LastCounters; c != nil {
			fmt.Fprintf(&text, "last seen at %s with %s; ", c.ReadTime.UTC().Format(time.RFC3339), countersText(c))
		} else {
			text.WriteString("its counters were not seen; ")
		}
	}
	fmt.Fprintf(&text, "the result is what %s did: ", strings.Join(left, ", "))
	if len(known) > 0 {
		fmt.Fprintf(&text, "of that, thresholds %s hold; ", strings.Join(known, ", "))
	}
	text.WriteString("it is not known how many packets were received and lost in all, nor what the lost pods did later")
	return text.String()
}

func countersText(c *spatev1.PodCounters) string {
	text := fmt.Sprintf("%d packets sent and %d received", c.Tx, c.Rx)
	if c.FlowsAttempted+c.FlowsEstablished > 0 {
		text += fmt.Sprintf(", %d flows attempted, %d established and %d failed", c.FlowsAttempted, c.FlowsEstablished, c.FlowsFailed)
	}
	return text
}
