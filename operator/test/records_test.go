// SPDX-License-Identifier: Apache-2.0

package test

// Records of connections by real engines: what has become of them is in the run's result.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/data"
)

// volumes of this process's tests, each with a folder of its own.
var volumes struct {
	sync.Mutex

	made int
}

// recording brings up engines that share a volume, which is the folder that is returned.
func recording(t *testing.T, engines int) (ns, volume, folder string) {
	t.Helper()
	needsEngine(t)
	volume, folder = newVolume(t)
	ns = ready(t, fmt.Sprintf("  replicas: %d\n  volumes: [{name: %s, persistentVolumeClaim: {claimName: records}, writable: true}]\n", engines, volume))
	mustApply(t, ns, loopbackTemplate)
	return ns, volume, folder
}

// newVolume makes the folder of a volume.
func newVolume(t *testing.T) (volume, folder string) {
	t.Helper()
	volumes.Lock()
	defer volumes.Unlock()
	volumes.made++
	volume = fmt.Sprintf("records-%s-%d", strings.TrimPrefix(filepath.Base(cluster.dir), "spate-test-"), volumes.made)
	folder = filepath.Join(data.VolumesDir, volume) // here an engine sees the machine's own folders
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Skipf("NO VOLUME: engines write where volumes are mounted in pods, which takes root: %v", err)
	}
	t.Cleanup(func() {
		volumes.Lock()
		defer volumes.Unlock()
		must(t, os.RemoveAll(folder))
		for parent := data.VolumesDir; os.Remove(parent) == nil; parent = filepath.Dir(parent) { // those that are empty now
		}
	})
	return volume, folder
}

// ended with a result, or why not.
func ended(r *spatev1.TrafficRun) error {
	if r.Status.Result == nil {
		return fmt.Errorf("no result: %+v", r.Status.Verdict)
	}
	return nil
}

func TestAResultTellsWhatHasBecomeOfRecords(t *testing.T) {
	t.Parallel()
	ns, volume, _ := recording(t, 2)
	mustApply(t, ns, greetingProfile("recorded", `  warmup: 500ms
  duration: 1s
  records: {volume: `+volume+`, maxRecords: 120}
  thresholds: [{name: none-lost, expression: result.records.dropped + result.records.filesNotWritten == 0}]
`))
	p := profileNamed(ns, "recorded")
	r := complete(t, runLimit, p)
	must(t, ended(r))
	records := r.Status.Result.Records
	if records == nil || len(records.Pods) != 2 || records.Written != 240 || records.Omitted == 0 || records.Dropped != 0 {
		t.Fatalf("%+v", records)
	}
	for _, pod := range records.Pods {
		if text, err := os.ReadFile(filepath.Join(data.VolumesDir, pod.File)); err != nil || pod.Written != 120 || !strings.HasSuffix(string(text), "PAR1") {
			t.Errorf("%+v: %d bytes, %v", pod, len(text), err)
		}
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet)
	expect(t, answerLimit, r, spatev1.ConditionRecorded, metav1.ConditionTrue, spatev1.ReasonRecordsOmitted, "240 records are written")
	expect(t, answerLimit, p, spatev1.ConditionRecorded, metav1.ConditionTrue, spatev1.ReasonRecordsOmitted, "240 records are written")
	mustApply(t, ns, greetingProfile("recorded", "  duration: 500ms\n"))
	if r = complete(t, runLimit, p); r.Status.Result.Records != nil || meta.FindStatusCondition(p.Status.Conditions, spatev1.ConditionRecorded) != nil {
		t.Errorf("this run records nothing: %+v, %+v", r.Status.Result.Records, p.Status.Conditions)
	}
}

func TestRecordsTakeNoVolume(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackTemplate)
	err := apply(t.Context(), ns, greetingProfile("bounded", "  duration: 1s\n  records: {maxRecords: 1}\n"))
	if err == nil || !strings.Contains(err.Error(), "spec.records.maxRecords") || !strings.Contains(err.Error(), "set volume") {
		t.Errorf("a bound of no file: %v", err)
	}
	mustApply(t, ns, greetingProfile("live", "  duration: 1s\n  records: {}\n"))
	p := profileNamed(ns, "live")
	r := complete(t, runLimit, p)
	must(t, ended(r))
	records := r.Status.Result.Records
	if records == nil || len(records.Pods) != 1 || records.Pods[0].File != "" || records.Undelivered == 0 || records.RecordCounters != (spatev1.RecordCounters{Undelivered: records.Undelivered}) {
		t.Fatalf("%+v", records)
	}
	delivered := fmt.Sprintf("0 were delivered to readers, %d were not", records.Undelivered)
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet)
	expect(t, answerLimit, p, spatev1.ConditionRecorded, metav1.ConditionTrue, spatev1.ReasonRecordsLiveOnly, delivered)
}

func TestARunWhoseRecordsCannotBeWrittenIsValidAndSaysSo(t *testing.T) {
	t.Parallel()
	ns, volume, folder := recording(t, 2)
	mustApply(t, ns, greetingProfile("unrecorded", `  duration: 3s
  records: {volume: `+volume+`}
  thresholds: [{name: none-failed, expression: result.flows.failed == 0}]
`))
	p := profileNamed(ns, "unrecorded")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	must(t, os.RemoveAll(folder)) // the files lose their place
	r := complete(t, runLimit, p)
	must(t, ended(r))
	if records := r.Status.Result.Records; r.Status.Verdict.Outcome != spatev1.VerdictPassed || records.Written != 0 || records.Pods[0].Problem == "" || records.Pods[1].Problem == "" {
		t.Errorf("%+v, %+v", r.Status.Verdict, records)
	}
	lost := []string{"connection records are lost", "pod loop-0", "pod loop-1", "No such file or directory"}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet, lost...)
	expect(t, answerLimit, p, spatev1.ConditionRecorded, metav1.ConditionFalse, spatev1.ReasonRecordsNotWritten, lost...)
}
