// SPDX-License-Identifier: Apache-2.0

// Does the chart's installation do what its values say, where an API server alone does not show it? An upgrade takes seconds, so that one test
// makes all of them.

package suites

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// forOneNamespace are values, of a namespace, an S3 server, its Secret, and the node's address.
const forOneNamespace = `
watchNamespaces: [%s]
archive: {bucket: {name: %s, prefix: e2e, endpoint: %q, credentialsSecret: %s}}
metrics: {export: {remoteWrite: {url: "http://%[5]s:9090/api/v1/write"}, labels: {site: e2e}}}
networkPolicy: {egress: {enabled: true, samplesPorts: [9090], archiveBlocks: [%[5]s/32]}}
`

// This test upgrades the installation: it runs alone.
func TestAnInstallationForOneNamespaceAndItsArchives(t *testing.T) {
	needsRig(t, theInstallation)
	watched, elsewhere := namespace(t), namespace(t)
	operator := operatorPod(t)
	node := operator.Status.HostIP
	bucket := startBucket(t, node)
	claim, folder := claimOnNode(t, operator.Spec.NodeName)
	values := installedAgain(t)
	// Before rights are taken away: the operator that is replaced would still make requests that need them.
	upgrade(t, values, "replicas: 0")
	until(t, 30*time.Second, "the operator has ended", func(ctx context.Context) (bool, string) {
		var pods corev1.PodList
		err := kube.List(ctx, &pods, client.InNamespace(operatorNamespace), client.MatchingLabels{"app.kubernetes.io/name": "spate-operator"})
		return err == nil && len(pods.Items) == 0, fmt.Sprint(len(pods.Items), " pods, ", err)
	})
	upgrade(t, values, fmt.Sprintf(forOneNamespace, watched, bucketName, bucket.endpoint(), bucket.secret, node))
	mustApply(t, elsewhere, loopbackGenerator+"---"+loopbackStream+"---"+loopbackProfile("outside", "  duration: 1s"))
	mustApply(t, watched, loopbackGenerator+"---"+loopbackStream)
	condition(t, 45*time.Second, generatorNamed(watched, "loop"), spate.ConditionReady, metav1.ConditionTrue)

	var inside *spate.TrafficRun
	t.Run("behind policies, a run there is archived in the bucket, and its samples are sent", func(t *testing.T) {
		connections := ofTheOperator(t, bucket)
		connects(t, connections, false)
		enforce(t)
		mustApply(t, watched, loopbackProfile("inside", "  duration: 3s"))
		connects(t, connections, true)
		r := passed(t, watched, "inside")
		archived(t, r)
		samplesSent(t, r)
		inside = r
	})
	if inside == nil {
		return
	}
	t.Run("another namespace is left alone", func(t *testing.T) {
		isLeftAlone(t, elsewhere)
		for _, right := range []struct{ verb, group, resource string }{{"get", "", "secrets"}, {"create", "", "pods"}, {"list", "spate.dev", "trafficprofiles"}} {
			for ns, want := range map[string]bool{watched: true, elsewhere: false, "": false} {
				if got := operatorMay(t, right.verb, right.group, right.resource, ns); got != want {
					t.Errorf("the operator may %s %s.%s in namespace %q (all, if it is empty): %t", right.verb, right.resource, right.group, ns, got)
				}
			}
		}
	})

	upgrade(t, values, fmt.Sprintf("archive: {claim: %s}", claim))
	// Only now: with the namespace, the rights would go that the operator has in it.
	if err := kube.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}}); err != nil {
		t.Fatal(err)
	}
	t.Run("the operator of all namespaces archives a run on the claim", func(t *testing.T) {
		r := passed(t, elsewhere, "outside")
		archived(t, r)
		reportedFrom(t, r, folder)
	})
	t.Run("the bucket has the run whose namespace is gone", func(t *testing.T) {
		until(t, 60*time.Second, "namespace "+watched+" is gone", func(ctx context.Context) (bool, string) {
			err := get(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
		reportedFrom(t, inside, "s3://"+bucketName+"/e2e", "--endpoint", bucket.endpoint())
	})
}

// upgrade upgrades the installation, with values that are added to those of a file.
func upgrade(t *testing.T, file, values string) {
	t.Helper()
	further := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(further, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "helm", "upgrade", "spate", filepath.Join(root, "charts/spate"), "--namespace", operatorNamespace, "--values", file, "--values", further, "--wait", "--timeout=120s")
}

// connection is one that the operator might open.
type connection struct {
	to, address string
	port        int
	allowed     bool
}

// ofTheOperator returns connections, to places that all listen, with what forOneNamespace allows of them.
func ofTheOperator(t *testing.T, bucket bucketServer) []connection {
	t.Helper()
	pods := podNetwork(t)
	listen(t, pods, bucket.port)
	return []connection{
		{"the bucket", bucket.address, bucket.port, true},
		{"Prometheus", bucket.address, 9090, true},
		{"another port of the bucket's address", bucket.address, listen(t, bucket.address, 0), false},
		{"the bucket's port of another address", pods, bucket.port, false},
	}
}

// connects fails unless the operator can open the connections, or those alone that are allowed if they are restricted.
func connects(t *testing.T, all []connection, restricted bool) {
	t.Helper()
	operator := operatorPod(t)
	for _, c := range all {
		err := connect(t, &operator, c.address, c.port)
		if want := c.allowed || !restricted; (err == nil) != want || err != nil && !errors.Is(err, errNoAnswer) {
			t.Errorf("the operator connects to %s (%s, port %d): %v; allowed is %t", c.to, c.address, c.port, err, want)
		}
	}
}

// listen accepts connections at a port of an address of the node, any if it is 0, until the test ends, and returns it.
func listen(t *testing.T, address string, port int) int {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

// podNetwork returns the node's address in the network of its pods.
func podNetwork(t *testing.T) string {
	t.Helper()
	bridge, err := net.InterfaceByName("cni0")
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := bridge.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
			return prefix.Addr().String()
		}
	}
	t.Fatalf("the bridge of pods has no IPv4 address: %v", addresses)
	return ""
}

// samplesSent waits until Prometheus has accepted the samples of a run, and fails unless it has the last ones with their own time.
func samplesSent(t *testing.T, r *spate.TrafficRun) {
	t.Helper()
	expect(t, condition(t, 20*time.Second, r, spate.ConditionRemoteWritten, metav1.ConditionTrue), spate.ReasonSamplesSent, " samples")
	selector := fmt.Sprintf(`{profile_namespace=%q,run=%q,site="e2e"}`, r.Namespace, r.Name)
	for expression, want := range map[string]float64{
		"spate_run_tx_packets_total" + selector:                               float64(r.Status.Result.Tx),
		`sum by (stream) (spate_run_stream_rx_packets_total` + selector + ")": float64(r.Status.Result.Streams["small"].Rx),
	} {
		if found, err := query(t.Context(), expression); err != nil || len(found) != 1 || found[0].value != want {
			t.Errorf("%s: %+v, %v; want %.0f", expression, found, err, want)
		}
	}
	end := float64(r.Status.CompletionTime.Unix() + 1) // it is without its fraction of a second
	if at, err := query(t.Context(), "timestamp(spate_run_tx_packets_total"+selector+")"); err != nil || len(at) != 1 || at[0].value > end || at[0].value < float64(r.Status.TrafficStartTime.Unix()) {
		t.Errorf("the last sample is of %+v, %v; the run lasted from %s to %s", at, err, r.Status.TrafficStartTime, r.Status.CompletionTime)
	}
}

// isLeftAlone fails if the operator has done something with the generator `loop` and the profile `outside` of a namespace.
func isLeftAlone(t *testing.T, ns string) {
	t.Helper()
	p := profileNamed(ns, "outside")
	for _, object := range []client.Object{p, generatorNamed(ns, "loop")} {
		if err := get(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if conditions := conditionsOf(object); len(conditions) > 0 || len(object.GetFinalizers()) > 0 {
			t.Errorf("%s of a namespace that is not watched has finalizers %q and conditions %+v", object.GetName(), object.GetFinalizers(), conditions)
		}
	}
	if runs := runsOf(t.Context(), t, p); len(runs) > 0 {
		t.Errorf("%d runs in a namespace that is not watched", len(runs))
	}
	if pods, err := enginePods(t.Context(), ns, "loop"); err != nil || len(pods) > 0 {
		t.Errorf("%d pods in a namespace that is not watched: %v", len(pods), err)
	}
}

// operatorMay reports whether the operator's service account has a right in a namespace, or in all if it is empty.
func operatorMay(t *testing.T, verb, group, resource, ns string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + operatorNamespace + ":spate-operator", Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: verb, Group: group, Resource: resource},
	}}
	if err := kube.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
