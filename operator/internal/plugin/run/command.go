// SPDX-License-Identifier: Apache-2.0

// Package run answers: how does a user start runs, of files or of profiles in the cluster, and wait for their verdicts?
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/result"
)

// startLimit is how long the operator may take to start a run of a profile that is not waited for.
const startLimit = 30 * time.Second

// options of a command line.
type options struct {
	cluster         cluster.Flags
	sources         files.Sources
	set             []string
	baseline        string
	forceConflicts  bool
	wait            bool
	timeout         time.Duration
	stopOnInterrupt bool
	junit           string
	output          output.Flag
	json            bool
}

// NewCommand returns `run`.
func NewCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "run [PROFILE | FILE ...] [-f FILE | -k FOLDER]",
		Short: "Start runs, and wait for their verdicts",
		Long: `Starts a run of each TrafficProfile that is named, or that is in the files. With --wait it follows the runs, and at their end prints what
kubectl spate result prints.

PROFILE is the name of a TrafficProfile in the cluster: a TrafficRun of it is created, whatever its runPolicy. FILE is what kubectl apply takes: a
path with a slash or with the ending .yaml, .yml or .json, a URL, or - for standard input; anything else with -f. All objects of the files
are applied on the server's side with the field manager kubectl-spate; if one is not valid, nothing is applied. A profile that starts a run because it was
applied (runPolicy OnChange and a change of its traffic, or another runID) starts one only; of any other profile of the files a TrafficRun is created, unless
a TrafficRun or a TrafficSearch of the files names it. TrafficRuns of the files are created, too. A TrafficSearch creates its runs itself, and is not waited for.

--set changes rate, duration, warmup or generator: of PROFILE for this run (overrides of the TrafficRun), in files before they are
applied, so the applied profile has the changed value.

--baseline RUN compares the runs with one that has ended: thresholds read its result as ` + "`baseline`" + `, as in
result.rx >= baseline.rx * 0.99. RUN may be the name of a TrafficProfile: its latest run is used then. Profiles of the files must have runPolicy Manual: runs
that a profile starts by itself have no baseline.

Exit codes with --wait, the worst of all runs:
  0    passed
  1    failed: a threshold does not hold
  2    invalid: an object is not valid, or the measurement is not (Valid=False)
  3    could not run: refused, not ended within --timeout, or the API server cannot be reached
  130  interrupted: the runs go on, unless --stop-on-interrupt is set
Without --wait: 0 if all runs were started, otherwise 2 or 3.`,
		Example: `  kubectl spate run imix --wait
  kubectl spate run imix --set rate=2x --set duration=10s --wait --timeout 5m
  kubectl spate run imix --baseline imix-1a2b3-1 --wait
  kubectl spate run -f profiles/ --wait --junit results.xml
  kustomize build overlays/lab | kubectl spate run - --wait -o json
  kubectl spate run -k overlays/lab --wait --stop-on-interrupt
  kubectl spate new --preset imix | kubectl spate run - --wait`,
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			names, _ := o.cluster.Complete(math.MaxInt, cluster.Profiles)(c, args, prefix)
			return names, cobra.ShellCompDirectiveDefault // files, too
		},
		RunE: func(c *cobra.Command, args []string) error { return exit.With(exit.NotRun, o.run(c, args)) },
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit.With(exit.NotRun, err) })
	o.cluster.Add(c)
	o.sources.Add(c)
	c.Flags().StringArrayVar(&o.set, "set", nil, "NAME=VALUE to change: "+settable)
	c.Flags().StringVar(&o.baseline, "baseline", "", "run that has ended, to compare the runs with")
	_ = c.RegisterFlagCompletionFunc("baseline", func(c *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return o.cluster.Complete(1, cluster.Runs, cluster.Profiles)(c, nil, prefix)
	}) // fails for a flag that does not exist only
	c.Flags().BoolVar(&o.forceConflicts, "force-conflicts", false, "take over fields of the files that another field manager has set to another value")
	c.Flags().BoolVar(&o.wait, "wait", false, "wait for the end of all runs, and print their results")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "with --wait: how long to wait for the end of all runs; without limit when 0")
	c.Flags().BoolVar(&o.stopOnInterrupt, "stop-on-interrupt", false, "with --wait: stop the runs when the command is interrupted (Ctrl-C)")
	c.Flags().StringVar(&o.junit, "junit", "", "with --wait: write a JUnit report to this file, with a test case for each threshold and one for validity")
	o.output.Add(c)
	c.Flags().BoolVar(&o.json, "json", false, "the same as -o json")
	return c
}

// check returns the names of profiles and the files among the arguments, and what --set changes.
func (o *options) check(args []string) (names, paths []string, set spatev1.RunOverrides, err error) {
	for _, arg := range args {
		if files.IsFile(arg) {
			paths = append(paths, arg)
		} else {
			names = append(names, arg)
		}
	}
	switch {
	case len(args) == 0 && o.sources.IsEmpty():
		err = errors.New("nothing to run: name a PROFILE or a FILE, - for standard input, or -k FOLDER")
	case !o.wait && (o.timeout != 0 || o.junit != "" || o.stopOnInterrupt):
		err = errors.New("--timeout, --junit and --stop-on-interrupt need --wait")
	case o.json && !o.output.IsTable():
		err = errors.New("--json is -o json: name one of both")
	default:
		if o.json {
			o.output.Choose(output.JSON)
		}
		err = o.output.Check()
	}
	if err == nil {
		set, err = parseSettings(o.set)
	}
	return names, paths, set, err
}

func (o *options) run(c *cobra.Command, args []string) error {
	names, paths, set, err := o.check(args)
	if err != nil {
		return err
	}
	var report *os.File
	if o.junit != "" {
		if report, err = os.Create(o.junit); err != nil {
			return err
		}
	}
	subjects, err := o.execute(c, names, paths, set)
	if report != nil {
		suites := suitesOf(subjects, err)
		err = errors.Join(err, suites.Write(report), report.Close())
	}
	return err
}

// execute starts the runs, follows them if that was asked for, and prints what came of them.
func (o *options) execute(c *cobra.Command, names, paths []string, set spatev1.RunOverrides) ([]*subject, error) {
	objects, problems, err := o.sources.Objects(c, paths)
	switch {
	case err != nil:
		return nil, err
	case len(problems) > 0:
		files.Tell(c.ErrOrStderr(), problems)
		return nil, exit.With(exit.Invalid, fmt.Errorf("nothing was applied: problems found: %d", len(problems)))
	case len(names) == 0 && !canRun(objects):
		nothing := "the files have no TrafficProfile and no TrafficRun"
		if len(profilesOf(objects, "", "TrafficSearch")) > 0 {
			nothing = "a TrafficSearch creates its runs itself: apply the files with kubectl apply, and follow it with kubectl spate search watch"
		}
		return nil, exit.With(exit.Invalid, errors.New("nothing was applied: "+nothing))
	}
	if o.baseline != "" {
		if err := startsOwn(objects); err != nil {
			return nil, exit.With(exit.Invalid, fmt.Errorf("nothing was applied: %w", err))
		}
	}
	connection, err := o.cluster.Connect()
	if err != nil {
		return nil, err
	}
	s := &session{client: connection.Client, namespace: connection.Namespace, set: set, force: o.forceConflicts, screen: newScreen(c.ErrOrStderr())}
	if o.baseline != "" {
		baseline, err := cluster.FindRun(c.Context(), connection.Client, connection.Namespace, o.baseline)
		if err != nil {
			return nil, fmt.Errorf("nothing was applied: --baseline: %w", err)
		}
		s.baseline = kube.ObjectKeyFromObject(baseline)
	}
	subjects, err := s.start(c.Context(), objects, names)
	if err != nil {
		return nil, err
	}
	if !o.wait {
		s.follow(c.Context(), subjects, startLimit, false, func(sub *subject) bool { return sub.run != nil })
		return subjects, errors.Join(writeStarted(c.OutOrStdout(), &o.output, subjects), worst(subjects, func(sub *subject) error { return sub.err }))
	}
	s.follow(c.Context(), subjects, o.timeout, o.stopOnInterrupt, (*subject).hasEnded)
	// What has ended is still read and printed after an interrupt.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), readLimit)
	defer cancel()
	return subjects, errors.Join(s.writeResults(ctx, c.OutOrStdout(), &o.output, subjects), worst(subjects, (*subject).outcome))
}

// runsDocument is runs for programs.
type runsDocument struct {
	Runs []result.Document `json:"runs"`
}

// shown is the document in every form; tables writes it for people.
func (d runsDocument) shown(tables func(w io.Writer, wide bool) error) output.Shown {
	return output.Shown{Document: d, Lists: []output.List{{Name: "metric", Objects: result.Rows(d.Runs)}}, Tables: tables}
}

// writeStarted prints the runs that were started.
func writeStarted(w io.Writer, form *output.Flag, subjects []*subject) error {
	document := runsDocument{Runs: []result.Document{}}
	for _, sub := range subjects {
		if sub.run != nil {
			document.Runs = append(document.Runs, result.Of(sub.run))
		}
	}
	return form.Write(w, document.shown(func(w io.Writer, _ bool) error {
		for _, run := range document.Runs {
			fmt.Fprintf(w, "run %s of profile %s started\n", run.Name, run.Profile)
		}
		return nil
	}))
}

// writeResults prints the results of the runs that have ended, as kubectl spate result does; for programs also what is known of the others.
func (s *session) writeResults(ctx context.Context, w io.Writer, form *output.Flag, subjects []*subject) error {
	document := runsDocument{Runs: []result.Document{}}
	var problems []error
	var all []*spatev1.TrafficRun
	for _, sub := range subjects {
		if sub.run == nil || !sub.hasEnded() && form.IsTable() {
			continue
		}
		problems = append(problems, result.Load(ctx, s.client, sub.run))
		document.Runs, all = append(document.Runs, result.Of(sub.run)), append(all, sub.run)
	}
	problems = append(problems, form.Write(w, document.shown(func(w io.Writer, wide bool) error {
		for i, run := range all {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := result.Shown(run).Tables(w, wide); err != nil {
				return err
			}
		}
		return nil
	})))
	return errors.Join(problems...)
}
