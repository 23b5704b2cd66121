// SPDX-License-Identifier: Apache-2.0

package test

// People start from a preset, look at events, and gather what others need to help them, by the rights that they have. The engines are simulated, and no
// kubelet serves logs.

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// filesOf returns the texts of an archive by their names within its folder.
func filesOf(t *testing.T, archive string) map[string]string {
	t.Helper()
	file, err := os.Open(archive)
	must(t, err)
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	must(t, err)
	files := map[string]string{}
	for all := tar.NewReader(unpacked); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		text, err := io.ReadAll(all)
		must(t, err)
		_, name, _ := strings.Cut(path.Clean(header.Name), "/")
		files[name] = string(text)
	}
}

func TestThePluginStartsFromAPresetAndGathersWhatHappened(t *testing.T) {
	t.Parallel()
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	editor, viewer := userOf(t, ns, "spate-editor"), userOf(t, ns, "spate-viewer")
	// The rules of the ClusterRole view, which a controller fills in from this one.
	const reading = "system:aggregate-to-view"
	reader := userOf(t, ns, reading)
	must(t, cluster.kube.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: reading + "-of-" + ns, APIGroup: rbacv1.GroupName}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "spate-viewer"},
	}))
	has := func(t *testing.T, done executed, code int, words ...string) {
		t.Helper()
		for _, word := range words {
			if !strings.Contains(done.output+done.said, word) {
				t.Errorf("no %q", word)
			}
		}
		if done.code != code {
			t.Errorf("exits with %d, not %d", done.code, code)
		}
	}

	t.Run("a preset is printed and run", func(t *testing.T) {
		made := executedWith(t, ns, editor, "", "new", "--preset", "imix", "--generator", "loop", "--port", "loop", "--receive-port", "loop", "--rate", "1200pps", "--duration", "1s")
		has(t, made, 0, "kind: TrafficProfile", "namespace: "+ns)
		// Simulated engines send packets of one size.
		profile := strings.NewReplacer("\nspec:\n", "\nspec:\n"+lenient, "imix: Simple", "size: 128").Replace(made.output)
		has(t, executedWith(t, ns, editor, profile, "run", "-", "--wait"), 0, "trafficprofile/imix applied\n", "of profile imix: Complete\n", "no-loss", "in-order")
	})
	t.Run("a search is not run", func(t *testing.T) {
		made := executedWith(t, ns, editor, "", "new", "--preset", "rfc2544", "--generator", "loop", "--port", "loop", "--receive-port", "loop")
		has(t, executedWith(t, ns, editor, made.output, "run", "-", "--wait"), 2, "nothing was applied: a TrafficSearch creates its runs itself")
	})
	t.Run("without a terminal nothing is asked", func(t *testing.T) {
		has(t, executedWith(t, ns, editor, "imix\n", "new"), 1, "--preset is needed where there is no terminal")
	})
	t.Run("events", func(t *testing.T) {
		has(t, executedWith(t, ns, reader, "", "events"), 0, "LAST SEEN", "PodCreated", "TrafficGenerator/loop", "RunCreated", "TrafficProfile/imix", "TrafficRun/imix-")
		done := executedWith(t, ns, reader, "", "events", "imix", "-o", "json")
		var list corev1.EventList
		if err := json.Unmarshal([]byte(done.output), &list); err != nil || done.code != 0 || len(list.Items) == 0 {
			t.Fatalf("%v %d", err, len(list.Items))
		}
		for i := range list.Items {
			if of := list.Items[i].InvolvedObject; of.Kind == "TrafficGenerator" {
				t.Errorf("an event of %s %s is shown", of.Kind, of.Name)
			}
		}
		has(t, executedWith(t, ns, reader, "", "events", "none"), 1, `there is no TrafficRun, TrafficProfile, TrafficGenerator or TrafficSearch "none"`)
		has(t, executedWith(t, ns, viewer, "", "events"), 1, "forbidden", "bind the ClusterRole view")
	})
	t.Run("logs", func(t *testing.T) {
		has(t, executedWith(t, ns, viewer, "", "logs", "imix"), 1, "pod loop-0: ", "forbidden", "bind the ClusterRole view")
		has(t, executedWith(t, ns, reader, "", "logs", "none"), 1, `there is no TrafficRun, TrafficProfile or TrafficGenerator "none"`)
	})
	t.Run("must-gather", func(t *testing.T) {
		archive := filepath.Join(t.TempDir(), "all.tar.gz")
		has(t, executedWith(t, ns, reader, "", "must-gather", "-w", archive), 0, archive+": files: ", "(errors.txt)")
		files := filesOf(t, archive)
		in := "namespaces/" + ns + "/"
		for name, want := range map[string]string{
			in + "trafficgenerators/loop.yaml": "kind: TrafficGenerator", in + "trafficprofiles/imix.yaml": "runPolicy: OnChange", in + "statelessstreams/small.yaml": "size: 128",
			in + "events.yaml": "reason: PodCreated", in + "pods/loop-0.yaml": "value: REDACTED", in + "doctor/loop.txt": "Generator loop",
			"versions.txt": "API server: v1.", "README.md": in + "pods/loop-0.yaml: spec.containers[0].env[0].value",
			"errors.txt": in + "pods/loop-0.log: ", // there is no kubelet
		} {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s: no %q in\n%s", name, want, files[name])
			}
		}
		if missing := files["errors.txt"]; !strings.Contains(missing, "the operator's pods in namespace "+operatorNamespace+": pods is forbidden") {
			t.Errorf("errors.txt:\n%s", missing)
		}
	})
	t.Run("must-gather with few rights", func(t *testing.T) {
		archive := filepath.Join(t.TempDir(), "few.tar.gz")
		has(t, executedWith(t, ns, viewer, "", "must-gather", "-w", archive), 0)
		files := filesOf(t, archive)
		if missing := files["errors.txt"]; !strings.Contains(missing, "events of namespace "+ns+": ") || !strings.Contains(missing, "engine pods of namespace "+ns+": ") || files["namespaces/"+ns+"/trafficprofiles/imix.yaml"] == "" {
			t.Errorf("errors.txt:\n%s", missing)
		}
		none := filepath.Join(t.TempDir(), "none.tar.gz")
		has(t, executedWith(t, ns, viewer, "", "must-gather", "-A", "-w", none), 1, "none of Spate's objects could be read")
		if missing := filesOf(t, none)["errors.txt"]; !strings.Contains(missing, "trafficruns of all namespaces: ") {
			t.Errorf("errors.txt:\n%s", missing)
		}
	})
}
