// SPDX-License-Identifier: Apache-2.0

// Which connections of a run end now?

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	executil "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

const (
	// awaitInterval is how often a run is looked at that has not begun, or looked for.
	awaitInterval = 500 * time.Millisecond
	// farewell is how long engines may take to say what they have told, once nobody wants more.
	farewell = 5 * time.Second
)

func newRecordsCommand() *cobra.Command {
	var flags clusterFlags
	var only string
	c := &cobra.Command{
		Use:   "records RUN",
		Short: "Print records of a run's connections as they end",
		Long: `Prints records of a run's connections as they end, from now until the run has ended: JSON Lines, an object for each end of each connection
with the pod and the columns of docs/reference/records.md. Times are in nanoseconds since the epoch; what is not known is null. It waits for a
run that has not begun. RUN may be the name of a TrafficProfile: its latest run is meant then, or its first, which is waited for.

The run's profile must have spec.records; {} is enough. A reader that is slower than the run misses records: how many is told at the end on standard error, by pod.

Engines are asked in their pods, which takes the right to pods/exec in the generator's namespace: the ClusterRole spate-records-reader has it.`,
		Example: `  kubectl spate records web
  kubectl spate records web -n tests | jq -c 'select(.end_reason != "closed") | [.pod, .local_address, .end_reason]'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := flags.connect()
			if err != nil {
				return err
			}
			run, err := awaited(c.Context(), cluster.reader, cluster.namespace, args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			pods, err := podsOf(run, only)
			if err != nil {
				return err
			}
			if err := begun(c.Context(), cluster.reader, run, c.ErrOrStderr()); err != nil {
				return err
			}
			return records(c.Context(), cluster.config, run, pods, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags.add(c)
	c.Flags().StringVar(&only, "pod", "", "an engine pod of the run; all of them when absent")
	return c
}

// podsOf names a run's engine pods, or the only one that is wanted.
func podsOf(run *spatev1.TrafficRun, only string) ([]string, error) {
	var pods []string
	for _, pod := range run.Spec.Generator.Pods {
		pods = append(pods, pod.Name)
	}
	switch {
	case only == "":
		return pods, nil
	case !slices.Contains(pods, only):
		return nil, fmt.Errorf("--pod %s: must be one of %s, which execute run %s", only, strings.Join(pods, ", "), run.Name)
	}
	return []string{only}, nil
}

// awaited finds the run that is meant. It waits for the first of a profile that has none.
func awaited(ctx context.Context, reader kube.Reader, namespace, name string, tell io.Writer) (*spatev1.TrafficRun, error) {
	for waits := false; ; waits = true {
		run, err := findRun(ctx, reader, namespace, name)
		if none := (noRunError{}); !errors.As(err, &none) {
			return run, err
		}
		if reader.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, &spatev1.TrafficProfile{}) != nil {
			return nil, err
		}
		if !waits {
			fmt.Fprintf(tell, "profile %s has no run: waiting for one; why there is none is told by kubectl get tp %s -n %s\n", name, name, namespace)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(awaitInterval):
		}
	}
}

// begun waits until engines know a run, which is read anew; one that has ended is an error.
func begun(ctx context.Context, reader kube.Reader, run *spatev1.TrafficRun, tell io.Writer) error {
	for waits := false; ; waits = true {
		switch run.Status.Phase {
		case spatev1.RunComplete:
			return hasEnded(run)
		case spatev1.RunWarmingUp, spatev1.RunRunning, spatev1.RunDraining:
			return nil
		}
		if !waits {
			fmt.Fprintf(tell, "run %s has not begun: waiting for it\n", run.Name)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("run %s has not begun", run.Name)
		case <-time.After(awaitInterval):
		}
		if err := reader.Get(ctx, kube.ObjectKeyFromObject(run), run); err != nil {
			return err
		}
	}
}

func hasEnded(run *spatev1.TrafficRun) error {
	if run.Status.Result == nil || run.Status.Result.Records == nil {
		return fmt.Errorf("run %s has ended, and connections were not recorded; give its profile %s spec.records: {} and run it anew", run.Name, run.Spec.Profile.Name)
	}
	var files []string
	live := true
	for _, pod := range run.Status.Result.Records.Pods {
		live = live && pod.File == ""
		if pod.Problem == "" {
			files = append(files, pod.File)
		}
	}
	if live {
		return fmt.Errorf("run %s has ended, and its records were told only while it lasted; run it anew, or give its profile %s spec.records.volume, which keeps them",
			run.Name, run.Spec.Profile.Name)
	}
	return fmt.Errorf("run %s has ended, and records are told while it lasts; files with them on the generator's volume: %s; see kubectl spate result %s",
		run.Name, cmp.Or(strings.Join(files, ", "), "none"), run.Name)
}

// records prints a run's records by its pods until it has ended or the context has.
func records(ctx context.Context, config *rest.Config, run *spatev1.TrafficRun, pods []string, to, tell io.Writer) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var lock sync.Mutex
	var all sync.WaitGroup
	failed := make([]error, len(pods))
	for i, pod := range pods {
		url := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(run.Spec.Generator.Namespace).Name(pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: podspec.EngineContainer,
				Command:   []string{"spate-engine", "records", "--until-eof", "--run", run.Spec.RunID},
				Stdin:     true, Stdout: true, Stderr: true,
			}, scheme.ParameterCodec).URL()
		all.Go(func() {
			refusal := ""
			told := &lines{lock: &lock, to: to, change: func(line []byte) []byte {
				return fmt.Appendf(nil, "{%q:%q,%s", "pod", pod, bytes.TrimPrefix(line, []byte("{")))
			}}
			said := &lines{lock: &lock, to: tell, change: func(line []byte) []byte {
				if reason, refused := bytes.CutPrefix(line, []byte("error: ")); refused {
					refusal = string(reason)
					return nil
				}
				return fmt.Appendf(nil, "%s: %s", pod, line)
			}}
			err := execute(ctx, config, url, told, said)
			lock.Lock()
			defer lock.Unlock()
			failed[i] = explain(run, pod, refusal, err)
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// execute runs a command in a pod as kubectl does: over a WebSocket, or SPDY where there is none. Once the context has ended, the
// command's standard input does, and what is on the way is still passed on.
func execute(ctx context.Context, config *rest.Config, url *url.URL, stdout, stderr io.Writer) error {
	socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
	if err != nil {
		return err
	}
	upgrade := &httpstream.UpgradeFailureError{}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		errors.As(err, &upgrade)
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	// What client-go logs is told by the error.
	ending, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	defer cancel()
	stdin, enough := io.Pipe()
	defer enough.Close()
	defer context.AfterFunc(ctx, func() {
		enough.Close()
		time.AfterFunc(farewell, cancel)
	})()
	err = executor.StreamWithContext(ending, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr})
	if err != nil && apierrors.ReasonForError(upgrade.Cause) != metav1.StatusReasonUnknown {
		return upgrade.Cause // SPDY tells no reason
	}
	return err
}

// explain says why a pod's records are missing, or end before the run.
func explain(run *spatev1.TrafficRun, pod, refusal string, err error) error {
	namespace := run.Spec.Generator.Namespace
	switch exit := (executil.CodeExitError{}); {
	case err == nil:
		return nil
	case refusal != "":
		return fmt.Errorf("pod %s: %s", pod, refusal)
	case errors.As(err, &exit):
		return fmt.Errorf("pod %s: reading records ended with code %d, as it does when the pod ends; see kubectl get pod %s -n %s", pod, exit.Code, pod, namespace)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("pod %s: %w; bind the ClusterRole spate-records-reader in namespace %s", pod, err, namespace)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("pod %s has gone from namespace %s; what has become of the run is told by kubectl spate result %s", pod, namespace, run.Name)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("pod %s: the engine did not say in %s what it has told", pod, farewell)
	}
	return fmt.Errorf("pod %s: %w", pod, err)
}

// lines passes whole lines on, each changed, so that those of several pods do not mix.
type lines struct {
	lock *sync.Mutex
	to   io.Writer
	// change gives nothing for a line that is not passed on.
	change func(line []byte) []byte
	rest   []byte
}

func (l *lines) Write(part []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.rest = append(l.rest, part...)
	var whole []byte
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte("\n"))
		if !ended {
			break
		}
		if changed := l.change(line); changed != nil {
			whole = append(append(whole, changed...), '\n')
		}
		l.rest = rest
	}
	if _, err := l.to.Write(whole); err != nil {
		return 0, err
	}
	return len(part), nil
}
