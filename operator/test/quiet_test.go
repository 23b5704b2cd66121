// SPDX-License-Identifier: Apache-2.0

package test

// The operator as a guest of the cluster: small, and quiet when nothing changes.

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// writesSince lists the operator's requests that write, since an offset in the audit log, but for those that renew its lease and those that end a
// series of equal events, which the event recorder does minutes after the last of them. It returns the offset for the next call.
func writesSince(t *testing.T, from int64) (all []string, until int64) {
	t.Helper()
	file, err := os.Open(filepath.Join(cluster.dir, auditLog))
	must(t, err)
	defer file.Close()
	_, err = file.Seek(from, io.SeekStart)
	must(t, err)
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // a line that is not complete is read by the next call
			return all, from
		}
		from += int64(len(line))
		var event struct {
			Verb, RequestURI string
			ObjectRef        struct{ Resource string }
		}
		must(t, json.Unmarshal(line, &event))
		switch resource := event.ObjectRef.Resource; {
		case event.Verb == "get" || event.Verb == "list" || event.Verb == "watch":
		case resource == "leases" || resource == "events" && event.Verb != "create":
		case strings.HasSuffix(resource, "reviews"): // authentication of those who read the metrics
		default:
			all = append(all, event.Verb+" "+event.RequestURI)
		}
	}
}

// quiet fails if the operator writes anything for a while, or has grown large.
func quiet(t *testing.T) {
	t.Helper()
	until(t, 90*time.Second, "what other tests left is gone", func() (bool, string) {
		var all corev1.NamespaceList
		err := cluster.kube.List(t.Context(), &all)
		var going []string
		for _, ns := range all.Items {
			if ns.DeletionTimestamp != nil {
				going = append(going, ns.Name)
			}
		}
		return err == nil && len(going) == 0, strings.Join(going, " ")
	})
	time.Sleep(3 * time.Second) // the last events and statuses
	const span = 15 * time.Second
	before, from := writesSince(t, 0)
	if len(before) == 0 {
		t.Fatal("the audit log has no write of the operator")
	}
	time.Sleep(span)
	some, from := writesSince(t, from)
	for range 4 {
		if len(some) == 0 || slices.ContainsFunc(some, isNotOfAClock) {
			break
		}
		// After a load, a clock is known better with each of its measurements, and reported when it is several times better
		// (clock.ReportOf): a few times, from seconds to the finest bound.
		t.Logf("once more, after %s", some)
		time.Sleep(span)
		some, from = writesSince(t, from)
	}
	if len(some) > 0 {
		t.Errorf("%d writes in %s:\n%s\n%s", len(some), span, strings.Join(some, "\n"), cluster.operator.log.lines(20))
	}
	if log := cluster.operator.log.lines(1 << 20); strings.Contains(log, "is forbidden: User") || strings.Contains(log, "could not be tried") {
		t.Errorf("the operator's role is too small, or the engine's dry run fails:\n%s", log)
	}
	rss := cluster.operator.metric("process_resident_memory_bytes")
	t.Logf("the operator's resident memory: %.0f MiB", rss/(1<<20))
	if rss == 0 || rss > 100<<20 {
		t.Error("want less than 100 MiB")
	}
}

// isNotOfAClock returns whether a write is another than of a generator's status, in which its clock is.
func isNotOfAClock(write string) bool {
	return !strings.HasPrefix(write, "patch ") || !strings.HasSuffix(write, "/trafficgenerators/loop/status")
}

func TestWaitingMakesNoWrites(t *testing.T) {
	ns := bareNamespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream+"---"+loopbackProfile("waiting", ""))
	expect(t, answerLimit, profileNamed(ns, "waiting"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorNotReady)
	quiet(t)
}
