// SPDX-License-Identifier: Apache-2.0

// Connection records on a volume of the cluster: every end of every connection, in complete files; and live, for
// readers who may, with and without a volume.

package suites

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// provision creates a volume for a claim of a namespace: the node has no provisioner.
func provision(t *testing.T, ns, claim string) {
	t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: ns + "-"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:                      &corev1.ObjectReference{Namespace: ns, Name: claim},
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

// recordsFolder returns the node's folder of the volume behind the claim `records`.
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

// endsOf counts the emulated ends of a run's flows.
func endsOf(run *spate.TrafficRun) (ends int64) {
	for _, template := range run.Status.Result.Templates {
		for _, side := range []*spate.TemplateSide{template.Client, template.Server} {
			if side != nil {
				ends += side.Attempted
			}
		}
	}
	return ends
}

// recorded fails unless each flow of a run's templates has a record at each of its ends, in a file of each of this
// number of pods, and the volume has no other file; and unless the run, its profile and the plugin report that.
func recorded(t *testing.T, run *spate.TrafficRun, pods int) {
	t.Helper()
	records, ends := run.Status.Result.Records, endsOf(run)
	if records == nil || len(records.Pods) != pods || records.Written != ends || records.Omitted != 0 || records.Dropped != 0 {
		t.Fatalf("records %+v, want %d in files of %d pods", records, ends, pods)
	}
	for _, object := range []client.Object{run, profileNamed(run.Namespace, string(run.Status.Resolved.Profile.Name))} {
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

func TestRecordsAreReadLiveWithoutAVolume(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, sampleText(t, "astf-http.yaml", "duration: 5s", "duration: 6s"+behind))
	// At once: there is no run yet, or one that waits for its generator's pod.
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	reader := exec.CommandContext(ctx, filepath.Join(root, "build/out/kubectl-spate"), "records", "-n", ns, "astf-http")
	var said bytes.Buffer
	reader.Stderr = &said
	live, err := reader.Output()
	if err != nil || !strings.Contains(said.String(), "profile astf-http has no run: waiting for one") && !strings.Contains(said.String(), "has not started: waiting for it") {
		t.Fatalf("%v: %s", err, said.String())
	}
	read := int64(bytes.Count(live, []byte("\n")))
	run := passed(t, ns, "astf-http")
	var claims corev1.PersistentVolumeClaimList
	if err := kube.List(t.Context(), &claims, client.InNamespace(ns)); err != nil || len(claims.Items) > 0 {
		t.Errorf("claims %v, %v", claims.Items, err)
	}
	records, ends := run.Status.Result.Records, endsOf(run)
	want := spate.RecordCounters{Delivered: read, Undelivered: ends - read} // undelivered until this reader started
	if records == nil || records.RecordCounters != want || read < ends/2 || read > ends || len(records.Pods) != 1 || records.Pods[0].File != "" {
		t.Fatalf("records %+v, want %+v in no file", records, want)
	}
	for _, object := range []client.Object{run, profileNamed(ns, "astf-http")} {
		expect(t, condition(t, 10*time.Second, object, spate.ConditionRecorded, metav1.ConditionTrue), spate.ReasonRecordsLiveOnly,
			"names no volume", strconv.FormatInt(want.Delivered, 10), strconv.FormatInt(want.Undelivered, 10))
	}
	_, err = script("build/out/kubectl-spate", "records", "-n", ns, "astf-http")
	if err == nil || !strings.Contains(err.Error(), "spec.records.volume") {
		t.Errorf("after the end: %v", err)
	}
}

// holdsRecords fails unless a file is a complete Parquet file with this number of rows in one row group.
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
	// The footer's num_rows and its row group's, in Thrift's compact protocol: the header of a field that follows its
	// predecessor, and a zigzag i64.
	count := binary.AppendVarint([]byte{0x16}, rows)
	if footer := body[len(body)-length:]; bytes.Count(footer, count) < 2 {
		t.Errorf("%s: its footer does not give %d rows: %q", file, rows, footer)
	}
}

// userOf creates a service account with one role in the namespace, and returns its kubeconfig.
func userOf(t *testing.T, ns, role string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: account.ObjectMeta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: role}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
	for _, object := range []client.Object{account, binding} {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := kube.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	made := clientcmdapi.NewConfig()
	made.Clusters[role] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	made.AuthInfos[role] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	made.Contexts[role] = &clientcmdapi.Context{Cluster: role, AuthInfo: role, Namespace: ns}
	made.CurrentContext = role
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*made, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// readLive reads the records of an active run until it ends, and returns their number by pod. Before that it checks
// that a reader that stops ends at once, and that no other user may read.
func readLive(t *testing.T, profile, viewer, reader string) map[string]int64 {
	t.Helper()
	_, err := script("build/out/kubectl-spate", "records", profile, "--kubeconfig", viewer)
	if err == nil || !strings.Contains(err.Error(), "trafficrecordsreaders") || !strings.Contains(err.Error(), "bind the ClusterRole spate-records-reader") {
		t.Errorf("a viewer got %v", err)
	}

	interrupted := exec.Command(filepath.Join(root, "build/out/kubectl-spate"), "records", profile, "--kubeconfig", reader)
	var said bytes.Buffer
	interrupted.Stderr = &said
	output, err := interrupted.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := interrupted.Start(); err != nil {
		t.Fatal(err)
	}
	some, err := bufio.NewReader(output).ReadString('\n')
	if err := errors.Join(err, interrupted.Process.Signal(os.Interrupt)); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	_, copied := io.Copy(io.Discard, output)
	if err := errors.Join(copied, interrupted.Wait()); err != nil || !strings.Contains(said.String(), " records, 0 missed") {
		t.Errorf("interrupted after %q: %v: %s", some, err, said.String())
	}

	all, err := script("build/out/kubectl-spate", "records", profile, "--kubeconfig", reader)
	if err != nil {
		t.Fatal(err)
	}
	live := map[string]int64{}
	for line := range strings.Lines(all) {
		var record struct {
			Pod, Run, Template, Side string
			Reason                   string `json:"end_reason"`
			Sent                     int64  `json:"sent_bytes"`
			Start, End               int64
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if !strings.HasPrefix(record.Run, profile+"-") || record.Template != "echo" || record.Reason != "closed" || record.Sent != 1000 || record.Start <= 0 || record.Start > record.End {
			t.Errorf("got %s", line)
		}
		live[record.Pod]++
	}
	_, err = script("build/out/kubectl-spate", "records", profile, "--kubeconfig", reader)
	// The operator says so if the run ends while the plugin asks.
	if err == nil || !strings.Contains(err.Error(), "has ended") && !strings.Contains(err.Error(), "is Complete: records can only be read while it is active") {
		t.Errorf("after the end: %v", err)
	}
	return live
}
