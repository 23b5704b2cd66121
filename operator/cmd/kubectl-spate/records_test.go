// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/operator/api/v1alpha1"
)

// onPods is a run of engine pods in a namespace that is not its own.
func onPods(names ...string) *spatev1.TrafficRun {
	run := runNamed("web-1", "web", time.Unix(0, 0))
	run.Spec.RunID, run.Spec.Generator.Namespace = "web-1", "lab"
	for _, name := range names {
		run.Spec.Generator.Pods = append(run.Spec.Generator.Pods, spatev1.PodSnapshot{Name: name})
	}
	return run
}

// Channels of the WebSocket protocol v5.channel.k8s.io: the first byte of each message.
const (
	stdin, stdout, stderr, status, closed = 0, 1, 2, 3, 255
)

// command stands in for the one in a pod.
type command struct {
	// send gives the command's output on a channel.
	send func(channel byte, text string)
	// eof is closed with standard input.
	eof <-chan struct{}
}

// end of the command with a code.
func (e *command) end(code int) {
	done := metav1.Status{Status: metav1.StatusSuccess}
	if code != 0 {
		done = metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(code)}},
		}}
	}
	text, err := json.Marshal(done)
	if err != nil {
		panic(err)
	}
	e.send(status, string(text))
}

// execServer stands in for an API server with pods/exec, by pod; others are not there, but one that nobody may execute in.
func execServer(t *testing.T, pods map[string]func(*command)) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pod := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/lab/pods/"), "/exec")
		refuse := func(code int, reason metav1.StatusReason) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: pod + " is refused",
			})
		}
		serve := pods[pod]
		switch {
		case pod == "forbidden":
			refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		case serve == nil:
			refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		if asked := r.URL.Query()["command"]; !slices.Equal(asked, []string{"spate-engine", "records", "--until-eof", "--run", "web-1"}) || r.URL.Query().Get("container") != "engine" {
			t.Errorf("asked for %v", r.URL.Query())
		}
		connection, err := (&websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		eof := make(chan struct{})
		go func() {
			for {
				_, message, err := connection.ReadMessage()
				if err != nil {
					return
				}
				if bytes.Equal(message, []byte{closed, stdin}) {
					close(eof)
				}
			}
		}()
		serve(&command{eof: eof, send: func(channel byte, text string) {
			if err := connection.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...)); err != nil {
				t.Error(err)
			}
		}})
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		if err := connection.WriteMessage(websocket.CloseMessage, bye); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestRecordsOfPodsComeAsWholeLinesThatTellThePod(t *testing.T) {
	config := execServer(t, map[string]func(*command){
		"lab-0": func(e *command) {
			e.send(stderr, "records from now on\n")
			e.send(stdout, `{"run":"web-1","flow":1}`+"\n"+`{"run":"web-1",`)
			e.send(stdout, `"flow":2}`+"\n")
			e.send(stderr, "2 records, 7 missed\n")
			e.end(0)
		},
		"lab-1": func(e *command) {
			e.send(stdout, `{"run":"web-1","flow":3}`+"\n")
			e.send(stderr, "1 records, 0 missed\n")
			e.end(0)
		},
	})
	var out, said bytes.Buffer
	if err := records(t.Context(), config, onPods("lab-0", "lab-1"), []string{"lab-0", "lab-1"}, &out, &said); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"records": {out.String(), []string{`{"pod":"lab-0","run":"web-1","flow":1}`, `{"pod":"lab-0","run":"web-1","flow":2}`, `{"pod":"lab-1","run":"web-1","flow":3}`}},
		"sayings": {said.String(), []string{"lab-0: 2 records, 7 missed", "lab-0: records from now on", "lab-1: 1 records, 0 missed"}},
	} {
		got := strings.Split(strings.TrimSpace(c.text), "\n")
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWhoeverHasEnoughStillGetsWhatIsOnTheWay(t *testing.T) {
	ctx, enough := context.WithCancel(t.Context())
	config := execServer(t, map[string]func(*command){"lab-0": func(e *command) {
		e.send(stdout, `{"flow":1}`+"\n")
		enough()
		select {
		case <-e.eof:
		case <-time.After(farewell - time.Second):
			t.Error("standard input stays open")
		}
		e.send(stdout, `{"flow":2}`+"\n")
		e.send(stderr, "2 records, 0 missed\n")
		e.end(0)
	}})
	var out, said bytes.Buffer
	if err := records(ctx, config, onPods("lab-0"), []string{"lab-0"}, &out, &said); err != nil {
		t.Fatal(err)
	}
	if out.String() != `{"pod":"lab-0","flow":1}`+"\n"+`{"pod":"lab-0","flow":2}`+"\n" || said.String() != "lab-0: 2 records, 0 missed\n" {
		t.Errorf("got %q and %q", out.String(), said.String())
	}
}

func TestWhyRecordsAreMissingIsTold(t *testing.T) {
	config := execServer(t, map[string]func(*command){
		"refused": func(e *command) {
			e.send(stderr, "error: the engine refuses: run \"web-1\" has no records\n")
			e.end(1)
		},
		"killed": func(e *command) { e.end(137) },
		"broken": func(e *command) { e.send(status, "?") },
	})
	for pod, want := range map[string][]string{
		"refused":   {"pod refused: the engine refuses: run \"web-1\" has no records"},
		"killed":    {"pod killed", "ended with code 137", "kubectl get pod killed -n lab"},
		"forbidden": {"forbidden is refused", "spate-records-reader in namespace lab"},
		"broken":    {"pod broken: error stream protocol error"},
		"gone":      {"pod gone has gone from namespace lab", "kubectl spate result web-1"},
	} {
		var out, said bytes.Buffer
		err := records(t.Context(), config, onPods(pod), []string{pod}, &out, &said)
		if err == nil || out.Len() > 0 || said.Len() > 0 {
			t.Errorf("%s: %v, %q, %q", pod, err, out.String(), said.String())
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v says nothing of %q", pod, err, part)
			}
		}
	}
	if _, err := podsOf(onPods("lab-0", "lab-1"), "lab-2"); err == nil || !strings.Contains(err.Error(), "must be one of lab-0, lab-1") {
		t.Errorf("got %v", err)
	}
	if pods, err := podsOf(onPods("lab-0", "lab-1"), "lab-1"); err != nil || !slices.Equal(pods, []string{"lab-1"}) {
		t.Errorf("got %v, %v", pods, err)
	}
}

func TestRecordsAreAwaitedUntilTheRunBegins(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := onPods("lab-0")
	stored.Status.Phase = spatev1.RunPreparing
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
	run := stored.DeepCopy()
	said := &signalling{first: make(chan struct{})}
	result := make(chan error)
	go func() { result <- begun(t.Context(), store, run, said) }()
	<-said.first
	stored.Status.Phase = spatev1.RunWarmingUp
	if err := store.Status().Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil || !strings.Contains(said.text, "run web-1 has not begun") {
		t.Errorf("%v, %q", err, said.text)
	}

	run.Status.Phase = spatev1.RunComplete
	if err := begun(t.Context(), store, run, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "give its profile web spec.records: {}") {
		t.Errorf("got %v", err)
	}
	run.Status.Result = &spatev1.RunResult{Records: &spatev1.RecordsResult{Pods: []spatev1.PodRecords{{Pod: "lab-0"}, {Pod: "lab-1"}}}}
	if err := begun(t.Context(), store, run, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "give its profile web spec.records.volume") {
		t.Errorf("got %v", err)
	}
	run.Status.Result = &spatev1.RunResult{Records: &spatev1.RecordsResult{Pods: []spatev1.PodRecords{{File: "results/web-1-0.parquet"}, {File: "none", Problem: "full"}}}}
	if err := begun(t.Context(), store, run, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "volume: results/web-1-0.parquet; see kubectl spate result web-1") {
		t.Errorf("got %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	run.Status.Phase = spatev1.RunPending
	if err := begun(stopped, store, run, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "has not begun") {
		t.Errorf("got %v", err)
	}
}

func TestTheFirstRunOfAProfileIsAwaited(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	profile := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "web"}}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(profile).Build()
	if _, err := awaited(t.Context(), store, "tests", "none", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `no run of a TrafficProfile "none"`) {
		t.Errorf("got %v", err)
	}
	said := &signalling{first: make(chan struct{})}
	result := make(chan error)
	var run *spatev1.TrafficRun
	go func() {
		var err error
		run, err = awaited(t.Context(), store, "tests", "web", said)
		result <- err
	}()
	<-said.first
	if err := store.Create(t.Context(), onPods("lab-0")); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil || run.Name != "web-1" || strings.Count(said.text, "profile web has no run") != 1 {
		t.Errorf("%v, %v, %q", run, err, said.text)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := store.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if _, err := awaited(stopped, store, "tests", "web", &bytes.Buffer{}); err == nil {
		t.Error("who has enough waits on")
	}
}

// signalling tells when it is first written to.
type signalling struct {
	once  sync.Once
	first chan struct{}
	text  string
}

func (s *signalling) Write(p []byte) (int, error) {
	s.text += string(p)
	s.once.Do(func() { close(s.first) })
	return len(p), nil
}
