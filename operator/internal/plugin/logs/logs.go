// SPDX-License-Identifier: Apache-2.0

// Package logs answers: what do the engines and routers of a run or a generator log, and what the operator about it?
package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/live"
	"spate.dev/operator/internal/podspec"
)

const (
	// holdTime is how long a line waits for earlier ones of other pods, while logs are followed.
	holdTime = 500 * time.Millisecond
	// lookInterval is the interval at which more pods, or the end of the run, are looked for.
	lookInterval = time.Second
	// farewell is how long logs are followed after the end of their run.
	farewell = 2 * time.Second
	// absenceLimit is how long a log that is followed may be unavailable.
	absenceLimit = 2 * time.Minute
)

// containers of engine pods; the second one is in those of generators with routing.
var containers = []string{podspec.EngineContainer, podspec.RoutingContainer}

// flags select lines.
type flags struct {
	follow, operator  bool
	since             time.Duration
	tail              int64
	container         string
	operatorNamespace string
}

// NewCommand returns `logs`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var f flags
	c := &cobra.Command{
		Use:   "logs RUN | GENERATOR",
		Short: "Print what the engines of a run or a generator log, merged by time",
		Long: `Prints the log lines of all engine pods of a run or of a TrafficGenerator in the order of their times, each with the pod's name and the time at which
the node has recorded it. Lines of BIRD, in the pods of a generator with routing, have POD/routing in place of the pod's name. RUN may be the name of a TrafficProfile: its latest run is used then. run/NAME, profile/NAME and generator/NAME select one of several objects with the same name.

Of a run, the lines from its creation to 5 s after its end are printed, but for those that name another run: engines outlive runs. --since chooses another time, and --tail the last of the
lines that would be printed of each container. --follow goes on until the run has ended, or
of a generator until interrupted, with pods that are created meanwhile. A line then waits up to 500 ms for earlier ones of other pods.

It takes the rights to get pods/log, and of a generator to list pods, in the namespace of the generator, which the cluster's ClusterRole view has. --operator adds the
operator's lines that have both the name and the namespace of the run or generator; that takes the same rights in the operator's namespace. Without them they are omitted, which is reported.`,
		Example: `  kubectl spate logs imix
  kubectl spate logs lab --follow --tail 20
  kubectl spate logs imix-1a2b3-1 -n tests --since 10m --operator
  kubectl spate logs lab --container routing
  kubectl spate logs generator/lab | grep -i error`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: where.Complete(1, cluster.Runs, cluster.Profiles, cluster.Generators),
		RunE: func(c *cobra.Command, args []string) error {
			if f.since < 0 || f.tail < -1 {
				return errors.New("--since must not be negative, nor --tail but for -1")
			}
			if f.container != "" && !slices.Contains(containers, f.container) {
				return fmt.Errorf("--container %s: must be %s", f.container, strings.Join(containers, " or "))
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			var lock sync.Mutex
			note := func(format string, values ...any) {
				lock.Lock()
				defer lock.Unlock()
				fmt.Fprintf(c.ErrOrStderr(), "note: "+format+"\n", values...)
			}
			of, err := find(c.Context(), connection.Client, connection.Namespace, args[0], note)
			if err != nil {
				return err
			}
			pods, err := typedcorev1.NewForConfig(connection.Config)
			if err != nil {
				return err
			}
			r := &reading{pods: pods, flags: f, of: of, note: note, hold: holdTime}
			return r.print(c.Context(), connection, c.OutOrStdout())
		},
	}
	where.Add(c)
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with lines as they are logged")
	c.Flags().DurationVar(&f.since, "since", 0, "only lines that are not older, such as 5m; 0 is no limit")
	c.Flags().Int64Var(&f.tail, "tail", -1, "only the last lines of each container, of those that would be printed; -1 is all")
	c.Flags().StringVarP(&f.container, "container", "c", "", "only the lines of engine, or of routing (BIRD); all when absent")
	_ = c.RegisterFlagCompletionFunc("container", cobra.FixedCompletions(slices.Clone(containers), cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
	c.Flags().BoolVar(&f.operator, "operator", false, "the operator's lines about the run or generator, too")
	c.Flags().StringVar(&f.operatorNamespace, "operator-namespace", cluster.OperatorNamespace, "namespace of the operator")
	return c
}

// source is a log.
type source struct {
	namespace, pod, container string
	// has keeps lines; nil for all.
	has func(text string) bool
	// optional is true where a log that cannot be read is reported and is no error.
	optional bool
}

// name returns that of the source in front of its lines.
func (s *source) name() string {
	if s.container == podspec.RoutingContainer {
		return s.pod + "/" + s.container
	}
	return s.pod
}

// reading is the reading of all logs.
type reading struct {
	pods typedcorev1.PodsGetter
	flags
	of   *target
	note func(string, ...any)
	hold time.Duration

	all     sync.WaitGroup
	changes chan change
	// started are the pods whose logs are read.
	started map[string]bool
	lock    sync.Mutex
	failed  []error
}

// print writes the lines of all logs.
func (r *reading) print(ctx context.Context, connection *cluster.Connection, to io.Writer) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	now, err := r.of.look(ctx)
	if err != nil {
		return err
	}
	r.follow = r.follow && !now.ended
	if len(now.pods) == 0 && !r.follow {
		return fmt.Errorf("%s has no engine pods", r.of.title)
	}
	if len(now.routed) == 0 && !r.follow && r.container == podspec.RoutingContainer {
		return fmt.Errorf("%s has no container %s: no port of the generator has routing", r.of.title, r.container)
	}
	sources := r.sources(now)
	if r.operator {
		sources = append(sources, r.operatorSources(ctx, connection)...)
	}
	r.changes = make(chan change)
	r.all.Go(func() {
		r.start(ctx, sources)
		if r.follow {
			r.lookOut(ctx, end)
		}
	})
	go func() {
		r.all.Wait()
		close(r.changes)
	}()
	m := &merger{write: func(l line) error {
		_, err := fmt.Fprintf(to, "[%s] %s\n", l.source, l.text)
		return err
	}}
	if r.follow {
		m.hold = r.hold
	}
	if err := m.merge(ctx, r.changes); err != nil && !live.IsEnough(err) {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return errors.Join(r.failed...)
}

// sources are the logs of engine pods that are not read yet.
func (r *reading) sources(now present) (all []source) {
	for _, pod := range now.pods {
		if r.started[pod] {
			continue
		}
		if r.started == nil {
			r.started = map[string]bool{}
		}
		r.started[pod] = true
		for _, container := range containers {
			if r.container != "" && container != r.container || container == podspec.RoutingContainer && !slices.Contains(now.routed, pod) {
				continue
			}
			all = append(all, source{namespace: r.of.namespace, pod: pod, container: container, has: r.of.isOwn})
		}
	}
	return all
}

// operatorSources are the logs of the operator's pods. Without the right to read them there are none, which is said.
func (r *reading) operatorSources(ctx context.Context, connection *cluster.Connection) (all []source) {
	pods, err := cluster.OperatorPods(ctx, connection.Client, r.operatorNamespace)
	switch {
	case err != nil:
		r.note("the operator's lines are omitted: %v", err)
	case len(pods) == 0:
		r.note("the operator's lines are omitted: it has no pods in namespace %s; --operator-namespace names another", r.operatorNamespace)
	}
	for i := range pods {
		all = append(all, source{namespace: pods[i].Namespace, pod: pods[i].Name, container: pods[i].Spec.Containers[0].Name, has: r.of.isMentioned, optional: true})
	}
	return all
}

// start reads logs. All of them are announced before a line of any is read.
func (r *reading) start(ctx context.Context, sources []source) {
	for _, s := range sources {
		r.send(ctx, change{line: line{source: s.name()}, opened: true})
	}
	for _, s := range sources {
		r.all.Go(func() {
			err := r.read(ctx, s)
			r.send(ctx, change{line: line{source: s.name()}, ended: true})
			switch {
			case err == nil:
			case s.optional:
				r.note("the operator's lines of pod %s are omitted: %v", s.pod, err)
			default:
				if apierrors.IsForbidden(err) {
					err = fmt.Errorf("%w; bind the ClusterRole view in namespace %s", err, s.namespace)
				}
				r.lock.Lock()
				defer r.lock.Unlock()
				r.failed = append(r.failed, fmt.Errorf("pod %s: %w", s.name(), err))
			}
		})
	}
}

func (r *reading) send(ctx context.Context, c change) {
	select {
	case r.changes <- c:
	case <-ctx.Done():
	}
}

// lookOut starts reading the logs of pods that are created, until the context ends or the run does.
func (r *reading) lookOut(ctx context.Context, end func()) {
	for {
		now, err := r.of.look(ctx)
		if err == nil {
			r.start(ctx, r.sources(now))
		}
		if err == nil && now.ended || apierrors.IsNotFound(err) {
			time.AfterFunc(farewell, end)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookInterval):
		}
	}
}

// options returns how a log is requested. The kubelet counts lines of other runs, too: where only some lines are printed, the last of them are kept, and
// known at the log's end, which is followed after that.
func (r *reading) options(s source) (*corev1.PodLogOptions, *recent) {
	options := &corev1.PodLogOptions{Container: s.container, Follow: r.follow, Timestamps: true}
	switch {
	case r.since > 0:
		options.SinceSeconds = ptr.To(max(int64(r.since/time.Second), 1))
	case !r.of.from.IsZero():
		options.SinceTime = &metav1.Time{Time: r.of.from}
	}
	switch {
	case r.tail < 0:
	case s.has == nil:
		options.TailLines = ptr.To(r.tail)
	default:
		options.Follow = false
		return options, &recent{limit: r.tail}
	}
	return options, nil
}

// read reads a log to its end. A log that is followed is asked for again when the connection breaks, or its container has not started.
func (r *reading) read(ctx context.Context, s source) error {
	options, last := r.options(s)
	send := func(l line) {
		l.arrived = time.Now()
		r.send(ctx, change{line: l})
	}
	sendLast := func() {
		for _, l := range last.inOrder() {
			send(l)
		}
		last = nil
	}
	defer sendLast()
	until := time.Time{}
	if options.SinceTime != nil && !r.follow {
		until = r.of.until
	}
	var latest, resumed, absent time.Time
	for {
		err := r.once(ctx, s, options, func(text string) {
			absent = time.Time{}
			stamp, _, _ := strings.Cut(text, " ")
			at, err := time.Parse(time.RFC3339Nano, stamp)
			if err == nil && !resumed.IsZero() && !at.After(resumed) {
				return // it was read before the connection broke
			}
			if at.Before(latest) { // or is no time
				at = latest
			}
			latest = at
			if !until.IsZero() && at.After(until) || s.has != nil && !s.has(text) {
				return
			}
			if l := (line{source: s.name(), at: at, text: text}); last != nil {
				last.add(l)
			} else {
				send(l)
			}
		})
		resume := func() {
			if resumed = latest; !latest.IsZero() {
				options.SinceTime, options.SinceSeconds, options.TailLines = &metav1.Time{Time: latest}, nil, nil
			}
		}
		if err == nil && r.follow && !options.Follow && !interrupted(ctx) {
			sendLast()
			resume()
			options.Follow = true
			continue
		}
		if err == nil || interrupted(ctx) {
			return nil
		}
		if absent.IsZero() {
			absent = time.Now()
		}
		if !r.follow || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || time.Since(absent) > absenceLimit {
			return err
		}
		resume()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookInterval):
		}
	}
}

// interrupted reports whether no more lines are wanted, which is no error.
func interrupted(ctx context.Context) bool { return ctx.Err() != nil }

// once reads lines until the log or the connection ends.
func (r *reading) once(ctx context.Context, s source, options *corev1.PodLogOptions, take func(string)) error {
	stream, err := r.pods.Pods(s.namespace).GetLogs(s.pod, options).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	lines := bufio.NewReader(stream)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			take(strings.TrimRight(text, "\r\n"))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
