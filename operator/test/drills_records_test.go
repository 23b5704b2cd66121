// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what is left of connection records when their disk is full?

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// The volume has room for one row group of 65,536 records and not for two.
func TestDrillDiskFullInMidRecords(t *testing.T) {
	t.Parallel()
	d := newDrill(t, "disk full in mid-records", 3*time.Minute)
	ns, volume, folder := recording(t, 1)
	must(t, syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=14m"))
	t.Cleanup(func() { must(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
	mustApply(t, ns, strings.Replace(loopbackTemplate, "100cps", "20kcps", 1))
	mustApply(t, ns, greetingProfile("filling", `  duration: 12s
  records: {volume: `+volume+`}
  thresholds: [{name: some-ended, expression: result.flows.failed == 0}]
`))
	p := profileNamed(ns, "filling")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	d.Strike()
	full := runOf(t, p)
	expect(t, runLimit, full, spatev1.ConditionRecorded, metav1.ConditionFalse, spatev1.ReasonRecordsNotWritten, "No space left on device", "records can be read")
	d.Detected(20 * time.Second)
	d.Reports("TrafficRun", meta.FindStatusCondition(full.Status.Conditions, spatev1.ConditionRecorded))
	r := complete(t, runLimit, p)
	must(t, ended(r))
	if r.Status.Verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("the run is as valid as without records: %+v", r.Status.Verdict)
	}
	expect(t, answerLimit, p, spatev1.ConditionRecorded, metav1.ConditionFalse, spatev1.ReasonRecordsNotWritten, "No space left on device")

	partials, err := filepath.Glob(filepath.Join(folder, "*.partial"))
	if err != nil || len(partials) != 1 {
		t.Fatalf("%v, %v", partials, err)
	}
	var lines, said bytes.Buffer
	command := exec.CommandContext(t.Context(), engineBinary(), "records", "--file", partials[0])
	command.Stdout, command.Stderr = &lines, &said
	must(t, command.Run())
	read := int64(bytes.Count(lines.Bytes(), []byte("\n")))
	if pod := r.Status.Result.Records.Pods[0]; read == 0 || read%65536 != 0 || read != pod.Written || !strings.Contains(pod.Problem, fmt.Sprintf("the first %d records can be read", read)) {
		t.Errorf("%d records read, %+v; %s", read, pod, said.String())
	}
	d.Kept("the verdict; the file up to its last whole row group, %d records: `spate-engine records --file`", read)
}
