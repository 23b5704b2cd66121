// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what does the operator take of a cluster, and how often does it write, where 200 generators have 1,000 profiles? The
// API server and the operator are real, the engines simulated. `make bench-operator` runs it.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/drill"
)

const (
	// scaleVariable is the number of generators; 200 when unset.
	scaleVariable = "SCALE"
	// profilesEach generator has: three that are run on change, and two whose runs people create, or every tenth time a schedule.
	profilesEach = 5
	scaleSpaces  = 20
	// scaleLength is the duration of each run; with the drain of half a second it is active for scaleUnderWay seconds.
	scaleLength   = 10 * time.Second
	scaleUnderWay = 11
	scalePackets  = 1000
	scaleRest     = 30 * time.Second

	maxMemory       = 150 << 20
	maxWritesBeside = 15
)

// sizeOf the test, in generators.
func sizeOf(t *testing.T) int {
	t.Helper()
	text := os.Getenv(scaleVariable)
	if text == "" {
		return 200
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is no number of generators", scaleVariable, text)
	}
	return n
}

func TestDrillTwoHundredGeneratorsAndAThousandProfiles(t *testing.T) {
	drill.Long(t)
	size := sizeOf(t)
	d := newDrill(t, fmt.Sprintf("none: %d generators with %d profiles, on simulated engines", size, size*profilesEach), time.Hour)
	until(t, 5*time.Minute, "what other tests left is gone", func() (bool, string) {
		var left spatev1.TrafficGeneratorList
		err := cluster.kube.List(t.Context(), &left)
		return err == nil && len(left.Items) == 0, fmt.Sprint(len(left.Items), err)
	})
	restartOperator(t, "--log-level=info", "--memory-limit=1Gi") // as it is shipped
	t.Cleanup(func() { restartOperator(t) })
	s := &scale{t: t, size: size, node: startSimulatedNode(t), ledger: newLedger(t), load: loadOfMachine()}
	s.space()
	cluster.kubelet.mu.Lock() // its engines would take CPU, and there are none
	t.Cleanup(cluster.kubelet.mu.Unlock)
	s.gauges = s.gauge()

	start := s.snapshot()
	s.create()
	s.await("all generators are ready, and all profiles were looked at", s.isReady)
	ready := s.snapshot()
	s.ledger.forget()
	s.execute()
	s.await("all runs have ended", s.hasRun)
	ended := s.snapshot()
	time.Sleep(10 * time.Second) // the last statuses and events
	settled := s.snapshot()
	time.Sleep(scaleRest)
	rested := s.snapshot()

	s.results()
	t.Log(s.report(start, ready, ended, settled, rested))
	s.judge(d, settled, rested)
}

// scale is the test under way.
type scale struct {
	t      *testing.T
	size   int
	node   *simulatedNode
	ledger *ledger
	gauges *gauges
	load   string // of the machine before
}

// loadOfMachine is the number of runnable threads over the last minute (proc_loadavg(5)).
func loadOfMachine() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// place of a generator: its namespace and its name.
func (s *scale) place(generator int) (space, name string) {
	return fmt.Sprintf("scale-%d", generator%scaleSpaces), fmt.Sprintf("g%d", generator)
}

func profileOf(generator string, number int) string { return fmt.Sprintf("%s-p%d", generator, number) }

// policy of a generator's profile.
func policy(generator, number int) spatev1.RunPolicy {
	switch {
	case number < 3:
		return spatev1.RunOnChange
	case number == profilesEach-1 && generator%10 == 0:
		return spatev1.RunOnSchedule
	}
	return spatev1.RunManual
}

// space makes the namespaces, with the stream that all profiles send.
func (s *scale) space() {
	for i := range min(s.size, scaleSpaces) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("scale-%d", i)}}
		must(s.t, cluster.kube.Create(s.t.Context(), ns))
		s.t.Cleanup(func() { _ = cluster.kube.Delete(context.Background(), ns) })
		s.node.take(ns.Name)
		mustApply(s.t, ns.Name, strings.Replace(loopbackStream, "1kpps", "100pps", 1))
	}
}

// create makes the generators and their profiles, which start nothing yet.
func (s *scale) create() {
	s.each(func(generator int) error {
		space, name := s.place(generator)
		manifests := []string{strings.Replace(loopbackGenerator, "metadata: {name: loop}", "metadata: {name: "+name+"}", 1)}
		for number := range profilesEach {
			spec := fmt.Sprintf("  duration: %s\n  thresholds: [{name: all, expression: result.lost == 0}]\n", scaleLength)
			switch policy(generator, number) {
			case spatev1.RunOnChange:
				spec += "  suspend: true\n"
			case spatev1.RunOnSchedule:
				spec += "  suspend: true\n  runPolicy: Schedule\n  schedule: {cron: '@yearly'}\n"
			default:
				spec += "  runPolicy: Manual\n"
			}
			profile := loopbackProfile(profileOf(name, number), spec)
			manifests = append(manifests, strings.Replace(profile, "generatorRef: {name: loop}", "generatorRef: {name: "+name+"}", 1))
		}
		return apply(s.t.Context(), space, strings.Join(manifests, "---"))
	})
}

// execute starts a run of each profile: those of schedules at the beginning of a minute, the others at once.
func (s *scale) execute() {
	at := time.Now().UTC().Add(80 * time.Second).Truncate(time.Minute)
	cron := fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), at.Month()) // once a year
	s.eachProfile(spatev1.RunOnSchedule, func(p *spatev1.TrafficProfile) error {
		return cluster.kube.Patch(s.t.Context(), p, specPatch(fmt.Sprintf(`{"suspend": false, "schedule": {"cron": %q}}`, cron)))
	})
	s.eachProfile(spatev1.RunOnChange, func(p *spatev1.TrafficProfile) error {
		return cluster.kube.Patch(s.t.Context(), p, specPatch(`{"suspend": false}`))
	})
	s.eachProfile(spatev1.RunManual, func(p *spatev1.TrafficProfile) error {
		return cluster.kube.Create(s.t.Context(), &spatev1.TrafficRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "-"},
			Spec:       spatev1.TrafficRunSpec{ProfileRef: &spatev1.LocalReference{Name: spatev1.ObjectName(p.Name)}},
		})
	})
}

// eachProfile calls do for all profiles with a policy.
func (s *scale) eachProfile(with spatev1.RunPolicy, do func(*spatev1.TrafficProfile) error) {
	s.t.Helper()
	s.each(func(generator int) error {
		space, name := s.place(generator)
		for number := range profilesEach {
			if policy(generator, number) != with {
				continue
			}
			if err := do(profileNamed(space, profileOf(name, number))); err != nil {
				return err
			}
		}
		return nil
	})
}

func specPatch(fields string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(`{"spec": `+fields+`}`))
}

// each calls do for all generators, some at a time.
func (s *scale) each(do func(generator int) error) {
	s.t.Helper()
	const atATime = 8
	errs := make([]error, atATime)
	var wg sync.WaitGroup
	for worker := range atATime {
		wg.Go(func() {
			for generator := worker; generator < s.size && errs[worker] == nil; generator += atATime {
				errs[worker] = do(generator)
			}
		})
	}
	wg.Wait()
	must(s.t, errors.Join(errs...))
}

// await reports how far it is, four times a minute.
func (s *scale) await(what string, holds func() (bool, string)) {
	s.t.Helper()
	said := time.Now()
	until(s.t, 15*time.Minute, what, func() (bool, string) {
		ok, seen := holds()
		if time.Since(said) > 15*time.Second {
			said = time.Now()
			s.t.Log(seen)
		}
		return ok, seen
	})
}

func (s *scale) isReady() (bool, string) {
	generators := s.ledger.count("generator", func(o client.Object) bool {
		return meta.IsStatusConditionTrue(conditionsOf(o), spatev1.ConditionReady)
	})
	profiles := s.ledger.count("profile", func(o client.Object) bool {
		return o.(*spatev1.TrafficProfile).Status.ObservedGeneration == o.GetGeneration()
	})
	return generators == s.size && profiles == s.size*profilesEach, fmt.Sprintf("%d generators, %d profiles", generators, profiles)
}

// hasRun is true when all runs have ended, and all profiles report them.
func (s *scale) hasRun() (bool, string) {
	ended := s.ledger.count("run", func(o client.Object) bool { return o.(*spatev1.TrafficRun).Status.Phase == spatev1.RunComplete })
	reported := s.ledger.count("profile", func(o client.Object) bool {
		return meta.IsStatusConditionTrue(conditionsOf(o), spatev1.ConditionComplete)
	})
	return ended == s.size*profilesEach && reported == ended, fmt.Sprintf("%d runs have ended, %d profiles report it; %s", ended, reported, s.ledger.phases())
}

// results fails for runs that did not pass or have other counters than their plan has.
func (s *scale) results() {
	wrong, example := map[string]int{}, map[string]string{}
	s.ledger.each("run", func(o client.Object, _ *written) {
		r := o.(*spatev1.TrafficRun)
		passed := meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionPassed)
		switch result := r.Status.Result; {
		case passed == nil || passed.Status != metav1.ConditionTrue:
			reason, message := "NoVerdict", ""
			if passed != nil {
				reason, message = passed.Reason, passed.Message
			}
			wrong[reason]++
			example[reason] = message
		case result.Tx != scalePackets || result.Rx != scalePackets:
			wrong["packets"]++
			example["packets"] = fmt.Sprintf("%d of %d sent, %d received", result.Tx, scalePackets, result.Rx)
		}
	})
	for reason, runs := range wrong {
		s.t.Errorf("%d runs: %s, such as: %s", runs, reason, example[reason])
	}
}

// writesOfRuns are the writes of each run.
type writesOfRuns struct {
	// whileEach second that it is active, its counters and nothing else; beside them, of its own, its profile's and its generator's share.
	whileEach, beside []float64
}

func (s *scale) writesOfRuns() (w writesOfRuns) {
	s.ledger.each("run", func(o client.Object, own *written) {
		r := o.(*spatev1.TrafficRun)
		beside := float64(own.writes) + float64(s.ledger.writesOf("profile", r.Namespace, string(r.Spec.ProfileRef.Name)))
		if resolved := r.Status.Resolved; resolved != nil {
			beside += float64(s.ledger.writesOf("generator", r.Namespace, string(resolved.Generator.Name))) / profilesEach
		}
		w.whileEach, w.beside = append(w.whileEach, float64(own.counters)/scaleUnderWay), append(w.beside, beside)
	})
	return w
}

// judge compares with what is promised.
func (s *scale) judge(d *drill.Drill, settled, rested snapshot) {
	w, memory, atRest := s.writesOfRuns(), cluster.operator.peakMemory()<<10, rested.writes()-settled.writes()
	d.Kept("%d runs with their results; the operator took %.0f MiB at most", len(w.beside), float64(memory)/(1<<20))
	d.ReportsText(fmt.Sprintf("%.2f writes/s of an active run, %.0f beside at most, %.0f at rest", slices.Max(w.whileEach), slices.Max(w.beside), atRest))
	if memory > maxMemory {
		s.t.Errorf("the operator took %d MiB; want at most %d", memory>>20, maxMemory>>20)
	}
	if most := slices.Max(w.whileEach); most > 1 {
		s.t.Errorf("%.2f writes a second of a run that is active; want at most 1", most)
	}
	if most := slices.Max(w.beside); most > maxWritesBeside {
		s.t.Errorf("%.1f writes of a run beside those of its counters; want at most %d", most, maxWritesBeside)
	}
	if atRest != 0 {
		s.t.Errorf("%.0f writes in %s in which nothing happens; want none\n%s", atRest, scaleRest, strings.Join(rested.written(settled), "\n"))
	}
}

// report is all that was measured.
func (s *scale) report(start, ready, ended, settled, rested snapshot) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d generators in %d namespaces, %d profiles; %d CPUs for operator, API server, etcd and all simulated engines; load of the machine before: %s\n\n",
		s.size, min(s.size, scaleSpaces), s.size*profilesEach, runtime.NumCPU(), s.load)
	table := func(lines func(row func(cells ...any))) {
		w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		lines(func(cells ...any) {
			for _, cell := range cells {
				if number, is := cell.(float64); is {
					cell = strconv.FormatFloat(number, 'f', 1, 64)
				}
				fmt.Fprintf(w, "%v\t", cell)
			}
			fmt.Fprintln(w)
		})
		_ = w.Flush()
		fmt.Fprintln(&text)
	}
	table(func(row func(...any)) {
		row("phase", "seconds", "CPU s", "CPU s of plan checks", "MiB at most", "MiB at its end", "writes", "refused as conflicts", "runs a minute")
		for _, phase := range []struct {
			name     string
			from, to snapshot
			runs     int
		}{{"creation until all are ready", start, ready, 0}, {"all runs", ready, ended, s.size * profilesEach}, {"settling", ended, settled, 0}, {"rest", settled, rested, 0}} {
			seconds := phase.to.at.Sub(phase.from.at).Seconds()
			row(phase.name, seconds, phase.to.sum("process_cpu_seconds_total")-phase.from.sum("process_cpu_seconds_total"), phase.to.checks-phase.from.checks,
				s.gauges.memory(phase.from.at, phase.to.at)/(1<<20), phase.to.sum("process_resident_memory_bytes")/(1<<20),
				phase.to.writes()-phase.from.writes(), phase.to.conflicts()-phase.from.conflicts(), float64(phase.runs)/seconds*60)
		}
	})
	fmt.Fprintf(&text, "resident memory at most: %.1f MiB (VmHWM)\n\n", float64(cluster.operator.peakMemory())/(1<<10))
	table(func(row func(...any)) {
		row("controller", "reconciles", "p50 ms", "p99 ms", "queue at most", "ms in queue, p99")
		for _, name := range rested.labels("controller_runtime_reconcile_time_seconds_count", "controller") {
			label := fmt.Sprintf("controller=%q", name)
			row(name, fmt.Sprint(rested.sum("controller_runtime_reconcile_time_seconds_count", label)),
				1000*rested.quantile(0.5, "controller_runtime_reconcile_time_seconds", label), 1000*rested.quantile(0.99, "controller_runtime_reconcile_time_seconds", label),
				fmt.Sprint(s.gauges.depths[name]), 1000*rested.quantile(0.99, "workqueue_queue_duration_seconds", label))
		}
	})
	table(func(row func(...any)) {
		row("call of engines", "calls", "p50 ms", "p99 ms")
		for _, name := range rested.labels("spate_operator_engine_call_seconds_count", "method") {
			label := fmt.Sprintf("method=%q", name)
			row(name, fmt.Sprint(rested.sum("spate_operator_engine_call_seconds_count", label)),
				1000*rested.quantile(0.5, "spate_operator_engine_call_seconds", label), 1000*rested.quantile(0.99, "spate_operator_engine_call_seconds", label))
		}
		row("admission after", fmt.Sprint(rested.sum("spate_operator_run_wait_seconds_count")),
			1000*rested.quantile(0.5, "spate_operator_run_wait_seconds"), 1000*rested.quantile(0.99, "spate_operator_run_wait_seconds"))
	})
	fmt.Fprintf(&text, "writes while all runs were executed, %.1f a run:\n", (settled.writes()-ready.writes())/float64(s.size*profilesEach))
	table(func(row func(...any)) {
		for _, line := range settled.written(ready) {
			row(" ", line)
		}
	})
	w := s.writesOfRuns()
	table(func(row func(...any)) {
		row("writes of a run", "mean", "at most", "bound")
		row("a second while it is active", fmt.Sprintf("%.2f", mean(w.whileEach)), fmt.Sprintf("%.2f", slices.Max(w.whileEach)), 1)
		row("beside that, of the run, its profile and its generator", mean(w.beside), slices.Max(w.beside), maxWritesBeside)
		row(fmt.Sprintf("at rest, in %s", scaleRest), "", rested.writes()-settled.writes(), 0)
	})
	return "\n" + text.String()
}

func mean(of []float64) (sum float64) {
	for _, value := range of {
		sum += value / float64(len(of))
	}
	return sum
}

// snapshot has the operator's metrics at an instant.
type snapshot struct {
	at      time.Time
	samples map[string]float64 // by name and labels, as they are served
	checks  float64            // seconds of CPU of its children that have ended: spate-engine, which checks plans
}

func (s *scale) snapshot() snapshot {
	s.t.Helper()
	samples, err := cluster.operator.samples()
	must(s.t, err)
	return snapshot{time.Now(), samples, cluster.operator.childrenCPU()}
}

// samples are all of the operator's metrics.
func (o *operator) samples() (map[string]float64, error) {
	response, err := http.Get("http://" + o.metrics + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	samples, lines := map[string]float64{}, bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if end := strings.LastIndexByte(line, ' '); end > 0 && line[0] != '#' {
			samples[line[:end]], _ = strconv.ParseFloat(line[end+1:], 64)
		}
	}
	return samples, lines.Err()
}

// childrenCPU is the user and system time of its children that have ended (proc_pid_stat(5), cutime and cstime, in ticks of 10 ms).
func (o *operator) childrenCPU() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", o.command.Process.Pid))
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[13], 64)
	system, _ := strconv.ParseFloat(fields[14], 64)
	return (user + system) / 100
}

// named are the samples of a metric that have a label, given as it is served.
func (s snapshot) named(name string, labels ...string) map[string]float64 {
	found := maps.Clone(s.samples)
	maps.DeleteFunc(found, func(sample string, _ float64) bool {
		return sample != name && !strings.HasPrefix(sample, name+"{") || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(sample, l) })
	})
	return found
}

func (s snapshot) sum(name string, labels ...string) (sum float64) {
	for _, value := range s.named(name, labels...) {
		sum += value
	}
	return sum
}

// labels are the values that a label of a metric has.
func (s snapshot) labels(name, label string) []string {
	values := map[string]bool{}
	for sample := range s.named(name) {
		values[labelOf(sample, label)] = true
	}
	return slices.Sorted(maps.Keys(values))
}

func labelOf(sample, label string) string {
	_, rest, _ := strings.Cut(sample, label+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// quantile of a histogram, between the bounds of its bucket in proportion.
func (s snapshot) quantile(q float64, name string, labels ...string) float64 {
	counts := map[float64]float64{}
	for sample, count := range s.named(name+"_bucket", labels...) {
		bound, err := strconv.ParseFloat(labelOf(sample, "le"), 64)
		if err == nil {
			counts[bound] += count
		}
	}
	rank, below, lower := q*counts[math.Inf(1)], 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(counts)) {
		if count := counts[bound]; count >= rank && count > below && !math.IsInf(bound, 1) {
			return lower + (bound-lower)*(rank-below)/(count-below)
		}
		lower, below = bound, counts[bound]
		if math.IsInf(bound, 1) {
			break
		}
	}
	return lower
}

const writesMetric = "spate_operator_api_writes_total"

// writes to the API server but for those of the lease.
func (s snapshot) writes() float64 {
	return s.sum(writesMetric) - s.sum(writesMetric, `resource="leases"`)
}

// conflicts are the writes that were refused because they were worked out from outdated copies.
func (s snapshot) conflicts() float64 { return s.sum("rest_client_requests_total", `code="409"`) }

// written are the writes since another snapshot by resource and verb, the most first.
func (s snapshot) written(since snapshot) (lines []string) {
	before, after := since.named(writesMetric), s.named(writesMetric)
	made := func(sample string) float64 { return after[sample] - before[sample] }
	for _, sample := range slices.SortedFunc(maps.Keys(after), func(a, b string) int { return int(made(b) - made(a)) }) {
		if made(sample) > 0 {
			lines = append(lines, fmt.Sprintf("%6.0f  %s %s", made(sample), labelOf(sample, "verb"), labelOf(sample, "resource")))
		}
	}
	return lines
}

// gauges are read twice a second.
type gauges struct {
	mu     sync.Mutex
	read   []memoryAt
	depths map[string]float64 // greatest of each controller's queue
}

type memoryAt struct {
	at    time.Time
	bytes float64
}

func (s *scale) gauge() *gauges {
	g := &gauges{depths: map[string]float64{}}
	over := make(chan struct{})
	var reader sync.WaitGroup
	s.t.Cleanup(func() { close(over); reader.Wait() })
	reader.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(500 * time.Millisecond):
			}
			if samples, err := cluster.operator.samples(); err == nil {
				g.note(snapshot{at: time.Now(), samples: samples})
			}
		}
	})
	return g
}

func (g *gauges) note(s snapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read = append(g.read, memoryAt{s.at, s.sum("process_resident_memory_bytes")})
	for _, name := range s.labels("workqueue_depth", "controller") {
		g.depths[name] = max(g.depths[name], s.sum("workqueue_depth", fmt.Sprintf("controller=%q", name)))
	}
}

// memory that the operator took at most between two instants.
func (g *gauges) memory(from, to time.Time) (most float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.read {
		if m.at.After(from) && m.at.Before(to) {
			most = max(most, m.bytes)
		}
	}
	return most
}

// ledger has all runs, profiles and generators as a watch sees them, and counts how often the operator has written each.
type ledger struct {
	mu   sync.Mutex
	seen map[string]map[client.ObjectKey]*written // by kind
}

// written is an object and its writes.
type written struct {
	object client.Object
	// writes of a run but for its counters, which are those that leave it in the phase in which it is active.
	writes, counters int
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{seen: map[string]map[client.ObjectKey]*written{}}
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	t.Cleanup(func() { cancel(); readers.Wait() })
	for kind, list := range map[string]client.ObjectList{
		"run": &spatev1.TrafficRunList{}, "profile": &spatev1.TrafficProfileList{}, "generator": &spatev1.TrafficGeneratorList{},
	} {
		l.seen[kind] = map[client.ObjectKey]*written{}
		must(t, cluster.kube.List(ctx, list))
		readers.Go(func() {
			if err := l.follow(ctx, kind, list); ctx.Err() == nil {
				t.Errorf("the watch of each %s has ended: %v", kind, err)
			}
		})
	}
	return l
}

// follow all objects of a kind from a list on. The API server ends watches when it takes a definition of resources over; the next goes on
// behind the last object.
func (l *ledger) follow(ctx context.Context, kind string, list client.ObjectList) error {
	for {
		changes, err := cluster.kube.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		if err != nil {
			return err
		}
		for change := range changes.ResultChan() {
			object, is := change.Object.(client.Object)
			if !is {
				changes.Stop()
				return fmt.Errorf("%s: %v", change.Type, change.Object)
			}
			list.SetResourceVersion(object.GetResourceVersion())
			l.note(kind, object)
		}
	}
}

func (l *ledger) note(kind string, object client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	w := l.seen[kind][key]
	run, isRun := object.(*spatev1.TrafficRun)
	switch {
	case w == nil:
		w = &written{}
		l.seen[kind][key] = w
		if isRun && metav1.GetControllerOf(run) != nil { // others were created by the test
			w.writes++
		}
	case w.object.GetGeneration() != object.GetGeneration(): // the test's own
	case isRun && isUnderWay(run.Status.Phase) && w.object.(*spatev1.TrafficRun).Status.Phase == run.Status.Phase:
		w.counters++
	default:
		w.writes++
	}
	w.object = object
}

func isUnderWay(phase spatev1.RunPhase) bool {
	return phase == spatev1.RunWarmingUp || phase == spatev1.RunRunning || phase == spatev1.RunDraining
}

// forget all writes so far.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, objects := range l.seen {
		for _, w := range objects {
			w.writes, w.counters = 0, 0
		}
	}
}

// each calls do for all objects of a kind, a copy of what is known of each.
func (l *ledger) each(kind string, do func(client.Object, *written)) {
	l.mu.Lock()
	var all []written
	for _, w := range l.seen[kind] {
		all = append(all, *w)
	}
	l.mu.Unlock()
	for i := range all {
		do(all[i].object, &all[i])
	}
}

func (l *ledger) count(kind string, holds func(client.Object) bool) (n int) {
	l.each(kind, func(o client.Object, _ *written) {
		if holds(o) {
			n++
		}
	})
	return n
}

// phases of the runs, and how many there are in each.
func (l *ledger) phases() string {
	phases := map[spatev1.RunPhase]int{}
	l.each("run", func(o client.Object, _ *written) { phases[o.(*spatev1.TrafficRun).Status.Phase]++ })
	return fmt.Sprint(phases)
}

func (l *ledger) writesOf(kind, namespace, name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.seen[kind][client.ObjectKey{Namespace: namespace, Name: name}]; w != nil {
		return w.writes
	}
	return 0
}
