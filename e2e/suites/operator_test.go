// SPDX-License-Identifier: Apache-2.0

// The operator's use of the cluster: small, idle when nothing changes, observable, secured.

package suites

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

func operatorPod(t *testing.T) corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := kube.List(t.Context(), &pods, client.InNamespace(operatorNamespace), client.MatchingLabels{"app.kubernetes.io/name": "spate-operator"}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && pod.Status.PodIP != "" {
			return pod
		}
	}
	t.Fatalf("no operator among %d pods", len(pods.Items))
	return corev1.Pod{}
}

// scrape reads the metrics of a pod's port named metrics.
func scrape(t *testing.T, pod corev1.Pod) map[string]float64 {
	t.Helper()
	var port int32
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "metrics" {
				port = p.ContainerPort
			}
		}
	}
	// Through the API server, which reaches pods from anywhere.
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/metrics", pod.Namespace, pod.Name, port)
	text, err := exec.CommandContext(t.Context(), "kubectl", "get", "--raw", path).Output()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	values := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok {
			name, value, ok = strings.Cut(lines.Text(), " ")
		} else {
			name += "}"
		}
		if number, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(name, "#") {
			values[name] = number
		}
	}
	return values
}

func TestTheOperatorIsSmall(t *testing.T) {
	metrics := scrape(t, operatorPod(t))
	const limit = 100 << 20
	rss := metrics["process_resident_memory_bytes"]
	if rss == 0 || rss >= limit {
		t.Errorf("resident memory is %.0f MiB, want below 100 MiB", rss/(1<<20))
	}
	t.Logf("resident memory: %.0f MiB", rss/(1<<20))
}

// When nothing changes, nothing is written: no object's resourceVersion changes, and the operator's only writing
// requests renew its lease.
func TestSteadyStateMakesNoWrites(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream+"---"+loopbackProfile("done", "  duration: 1s"))
	complete(t, 45*time.Second, profileNamed(ns, "done"))
	time.Sleep(3 * time.Second) // the last events and status of the run
	versions := func() map[string]string {
		found := map[string]string{}
		for _, list := range []client.ObjectList{
			&spate.TrafficGeneratorList{}, &spate.TrafficProfileList{}, &spate.TrafficRunList{}, &spate.StatelessStreamList{},
			&corev1.PodList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.EventList{},
		} {
			if err := kube.List(t.Context(), list, client.InNamespace(ns)); err != nil {
				t.Fatal(err)
			}
			if err := meta.EachListItem(list, func(item runtime.Object) error {
				object, err := meta.Accessor(item)
				if err == nil {
					found[fmt.Sprintf("%T %s", item, object.GetName())] = object.GetResourceVersion()
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		return found
	}
	const quiet = 20 * time.Second
	before, writesBefore := versions(), writes(t)
	time.Sleep(quiet)
	after, writesAfter := versions(), writes(t)
	const generator = "*v1alpha1.TrafficGenerator loop"
	for range 4 {
		others := maps.Clone(after)
		others[generator] = before[generator]
		if maps.Equal(before, after) || !maps.Equal(before, others) {
			break
		}
		// After a load, an engine's clock is known better with each of its measurements, and reported when it is several times better
		// (clock.ReportOf): a few times.
		before, writesBefore = after, writesAfter
		time.Sleep(quiet)
		after, writesAfter = versions(), writes(t)
	}
	if !maps.Equal(before, after) {
		t.Errorf("objects changed in %s of nothing:\nbefore %v\nafter  %v", quiet, before, after)
	}
	if len(before) < 5 {
		t.Errorf("only %d objects were watched", len(before))
	}
	// The lease is renewed every 2 s by default; no other requests are allowed.
	if made := writesAfter - writesBefore; made > quiet.Seconds()/2+2 {
		t.Errorf("%.0f writing requests in %s, more than the lease's renewals", made, quiet)
	}
}

func writes(t *testing.T) float64 {
	t.Helper()
	sum := 0.0
	for name, value := range scrape(t, operatorPod(t)) {
		for _, method := range []string{"PUT", "POST", "PATCH", "DELETE"} {
			if strings.HasPrefix(name, "rest_client_requests_total{") && strings.Contains(name, `method="`+method+`"`) {
				sum += value
			}
		}
	}
	return sum
}

// The engine's control port serves no client without the operator's certificate.
func TestTheControlPortWantsTheOperatorsCertificate(t *testing.T) {
	t.Parallel()
	needsRig(t, thePodNetwork)
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator)
	condition(t, 45*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	pods, err := enginePods(t.Context(), ns, "loop")
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	address := net.JoinHostPort(pods[0].Status.PodIP, "7470")
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13} //nolint:gosec // the client without a certificate does not verify
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return // refused in the handshake
	}
	defer conn.Close()
	// With TLS 1.3 a client learns about its missing certificate at the first read.
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(make([]byte, 64))
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("a client without a certificate got %d bytes, %v; want a refusal for want of a certificate", n, err)
	}
}

// unplug sets the node's end of a pod's link down.
func unplug(t *testing.T, podIP string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	// The neighbor's MAC identifies the pod's port of the bridge.
	command := fmt.Sprintf(`mac=$(ip neigh show %s | awk '{for (i = 1; i < NF; i++) if ($i == "lladdr") print $(i + 1)}')
link=$(bridge fdb show br cni0 | awk -v mac="$mac" '$1 == mac {print $3; exit}')
[ -n "$link" ] && ip link set "$link" down`, podIP)
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("unplugging %s: %v %s", podIP, err, out.String())
	}
}
