// SPDX-License-Identifier: Apache-2.0

// Connection records on a volume of the cluster: every end of every connection, in files that are whole.

package suites

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/operator/api/v1alpha1"
)

// provision gives the claim `records` of a namespace a volume: the node has no provisioner.
func provision(t *testing.T, ns string) {
	t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: ns + "-"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:                      &corev1.ObjectReference{Namespace: ns, Name: "records"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: t.TempDir()}},
		},
	}
	if err := kube.Create(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Delete(context.Background(), volume); err != nil {
			t.Error(err)
		}
	})
}

// recordsFolder is the volume behind the claim `records`, as a folder of the node.
func recordsFolder(t *testing.T, ns string) string {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "records"}}
	if err := get(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	if err := get(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	return volume.Spec.HostPath.Path
}

// recorded fails unless each flow of a run's templates has a record at each of its ends, in a file of each of so many pods, which
// are all that is on the volume; and unless the run, its profile and the plugin say so.
func recorded(t *testing.T, run *spate.TrafficRun, pods int) {
	t.Helper()
	var ends int64
	for _, template := range run.Status.Result.Templates {
		for _, side := range []*spate.TemplateSide{template.Client, template.Server} {
			if side != nil {
				ends += side.Attempts
			}
		}
	}
	records := run.Status.Result.Records
	if records == nil || len(records.Pods) != pods || records.Written != ends || records.LeftOut != 0 || records.Dropped != 0 {
		t.Fatalf("records %+v, want %d in files of %d pods", records, ends, pods)
	}
	for _, object := range []client.Object{run, profileNamed(run.Namespace, string(run.Spec.Profile.Name))} {
		expect(t, condition(t, 10*time.Second, object, spate.ConditionRecorded, metav1.ConditionTrue), spate.ReasonRecordsWritten)
	}
	said, err := script("build/out/kubectl-spate", "result", "-n", run.Namespace, run.Name)
	if err != nil {
		t.Fatal(err)
	}
	folder := recordsFolder(t, run.Namespace)
	var sum int64
	var want []string
	for _, pod := range records.Pods {
		sum += pod.Written
		name := path.Base(pod.File)
		want = append(want, name)
		holdsRecords(t, filepath.Join(folder, name), pod.Written)
		row := []string{pod.Pod, pod.File, strconv.FormatInt(pod.Written, 10), "0", "0", "-"}
		if !slices.ContainsFunc(strings.Split(said, "\n"), func(line string) bool { return slices.Equal(strings.Fields(line), row) }) {
			t.Errorf("kubectl spate result has no row %v:\n%s", row, said)
		}
	}
	if sum != records.Written {
		t.Errorf("the pods have written %d records, in all %d", sum, records.Written)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, entry := range entries {
		there = append(there, entry.Name())
	}
	slices.Sort(want)
	if !slices.Equal(there, want) {
		t.Errorf("on the volume are %v, want %v", there, want)
	}
}

// holdsRecords fails unless a file is a whole Parquet file of so many rows, which are one row group.
func holdsRecords(t *testing.T, file string, rows int64) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	// "PAR1", row groups, footer, the footer's length, "PAR1".
	const magic = "PAR1"
	body, ended := bytes.CutSuffix(text, []byte(magic))
	if !ended || !bytes.HasPrefix(text, []byte(magic)) || len(body) < len(magic)+4 {
		t.Errorf("%s: %d bytes that are no Parquet file", file, len(text))
		return
	}
	body, length := body[:len(body)-4], int(binary.LittleEndian.Uint32(body[len(body)-4:]))
	if length > len(body)-len(magic) {
		t.Errorf("%s: a footer of %d bytes in a file of %d", file, length, len(text))
		return
	}
	// The footer's num_rows and its row group's, in Thrift's compact protocol: a field after its neighbour, an i64, zigzag.
	count := binary.AppendVarint([]byte{0x16}, rows)
	if footer := body[len(body)-length:]; bytes.Count(footer, count) < 2 {
		t.Errorf("%s: its footer does not tell of %d rows: %q", file, rows, footer)
	}
}
