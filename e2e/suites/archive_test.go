// SPDX-License-Identifier: Apache-2.0

// Where runs are archived: a bucket of an S3 server on the node, and a volume of the node. Both are read when the runs are gone.

package suites

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// bucketName is the name of the only bucket.
const bucketName = "results"

// bucketServer is an S3 server.
type bucketServer struct {
	// address and port are where it listens.
	address string
	port    int
	// secret of the operator's namespace has the credentials.
	secret string
}

// endpoint is the server's URL.
func (s bucketServer) endpoint() string {
	return "http://" + net.JoinHostPort(s.address, strconv.Itoa(s.port))
}

// startBucket starts an S3 server on an address of the node, until the test ends. Its bucket is empty, and the test's own environment has the
// credentials, too.
func startBucket(t *testing.T, address string) bucketServer {
	t.Helper()
	program := os.Getenv("S3_SERVER")
	if program == "" {
		t.Fatal("S3_SERVER, the path of versitygw, is not set (make e2e sets it)")
	}
	folder := t.TempDir()
	for _, name := range []string{"objects/" + bucketName, "attributes", "accounts"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := bucketServer{address: address, port: free.Addr().(*net.TCPAddr).Port}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	at, key, word := net.JoinHostPort(address, strconv.Itoa(s.port)), "SPATEE2EKEY", "spate-e2e-word"
	process := exec.Command(program, "--port", at, "--access", key, "--secret", word, "--iam-dir", filepath.Join(folder, "accounts"), "--quiet", //nolint:gosec // of the test's own
		"posix", "--sidecar", filepath.Join(folder, "attributes"), filepath.Join(folder, "objects"))
	var said bytes.Buffer
	process.Stdout, process.Stderr = &said, &said
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Process.Kill(); err != nil {
			t.Errorf("the S3 server has ended: %v", err)
		}
		_ = process.Wait() // killed
		if t.Failed() {
			t.Logf("the S3 server: %s", said.String())
		}
	})
	until(t, 30*time.Second, "the S3 server answers", func(context.Context) (bool, string) {
		connection, err := net.Dial("tcp", at)
		if err != nil {
			return false, err.Error()
		}
		return true, fmt.Sprint(connection.Close())
	})
	credentials := map[string]string{"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": word}
	for name, value := range credentials {
		t.Setenv(name, value)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, GenerateName: "e2e-bucket-"}, StringData: credentials}
	createUntilEnd(t, secret)
	s.secret = secret.Name
	return s
}

// claimOnNode creates a claim in the operator's namespace that is bound to a folder of a node, until the test ends. It returns both.
func claimOnNode(t *testing.T, node string) (claim, folder string) {
	t.Helper()
	folder = t.TempDir()
	modes, size := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claimed := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, GenerateName: "e2e-archive-"},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: ptr.To(""), Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}
	createUntilEnd(t, claimed)
	onNode := []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}
	createUntilEnd(t, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: claimed.Name + "-"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: operatorNamespace, Name: claimed.Name},
			// Not of kind hostPath: the kubelet gives those to no group, and the operator is not root.
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
			NodeAffinity:           &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: onNode}}}},
		},
	})
	return claimed.Name, folder
}

// createUntilEnd creates an object, and deletes it when the test has ended.
func createUntilEnd(t *testing.T, object client.Object) {
	t.Helper()
	if err := kube.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Delete(context.Background(), object); err != nil {
			t.Error(err)
		}
	})
}

// archived waits until a run is in the archive, by its condition.
func archived(t *testing.T, run *spate.TrafficRun) {
	t.Helper()
	expect(t, condition(t, 20*time.Second, run, spate.ConditionArchived, metav1.ConditionTrue), spate.ReasonArchived, "in "+run.Namespace+"/"+run.Name+"-"+string(run.UID))
}

// reportedFrom fails unless the plugin reports the result and the samples of a run from an archive, without a cluster.
func reportedFrom(t *testing.T, run *spate.TrafficRun, place ...string) {
	t.Helper()
	report, err := script("build/out/kubectl-spate", append([]string{"report", run.Name, "--kubeconfig", os.DevNull, "--namespace", run.Namespace, "--output", "csv", "--from"}, place...)...)
	if total := fmt.Sprintf("\ntotal,,,%d,", run.Status.Result.Tx); err != nil || !strings.Contains(report, total) || !strings.Contains(report, "\nsample,") {
		t.Errorf("%v: no samples or no %q in\n%s", err, total, report)
	}
}
