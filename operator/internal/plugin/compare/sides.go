// SPDX-License-Identifier: Apache-2.0

package compare

// This file answers: which two runs are compared, and where are they?

import (
	"context"
	"errors"
	"fmt"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/archived"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/result"
	"spate.dev/operator/internal/runs/samples"
	"spate.dev/operator/internal/runs/storage"
)

// side is a run that is compared.
type side struct {
	run *spatev1.TrafficRun
	// samples are nil where there are none, for the reason noSamples.
	samples   *samples.Series
	noSamples string
}

// places are where the runs are, if they are not in the cluster.
type places struct{ first, second *archived.Source }

// both reads the runs that the arguments name. No cluster is needed if both are archived.
func both(ctx context.Context, flags *cluster.Flags, from places, args []string) (first, second side, err error) {
	isFirst, isSecond := from.first.IsSet(), from.second.IsSet()
	switch {
	case len(args) == 1 && isFirst:
		return first, second, errors.New("--from reads the first of two runs: name the other one, too")
	case len(args) == 1 && isSecond:
		return first, second, errors.New("--other-from reads the second of two runs: name the first one, too; an archive has no copies of baselines")
	case len(args) == 0 && (!isFirst || !isSecond):
		return first, second, errors.New("name two runs, or one that has a baseline")
	}
	var connection *cluster.Connection
	if !isFirst || !isSecond {
		if connection, err = flags.Connect(); err != nil {
			return first, second, err
		}
	}
	firstName, secondName := args, args // none if both are folders of one run
	if len(args) == 2 {
		firstName, secondName = args[:1], args[1:]
	}
	second, other := read(ctx, connection, flags, from.second, secondName)
	switch {
	case len(args) != 1:
		first, err = read(ctx, connection, flags, from.first, firstName)
	case other == nil:
		first, err = baselineOf(ctx, connection.Client, second.run)
	}
	return first, second, errors.Join(err, other)
}

// read reads a run, with its whole result, of an archive or of the cluster. Without a name it is the one of the archive's folder.
func read(ctx context.Context, connection *cluster.Connection, flags *cluster.Flags, from *archived.Source, name []string) (s side, err error) {
	if from.IsSet() {
		if s.run, s.samples, err = from.Read(ctx, flags, name); err != nil {
			return s, err
		}
		if s.samples == nil {
			s.noSamples = fmt.Sprintf("the archive has no samples of run %s", s.run.Name)
		}
		if s.run.Status.Result == nil {
			err = fmt.Errorf("run %s has no result: nothing was measured", s.run.Name)
		}
		return s, err
	}
	if s.run, err = cluster.FindRun(ctx, connection.Client, connection.Namespace, name[0]); err != nil {
		return s, err
	}
	if s.run.Status.Result == nil {
		return s, fmt.Errorf("run %s has no result: nothing was measured yet", s.run.Name)
	}
	if err := result.Load(ctx, connection.Client, s.run); err != nil {
		return s, fmt.Errorf("run %s: %w", s.run.Name, err)
	}
	s.load(ctx, connection.Client)
	return s, nil
}

// load reads the samples of a run of the cluster. Without them runs are compared, too.
func (s *side) load(ctx context.Context, reader kube.Reader) {
	var err error
	switch s.samples, err = storage.LoadSamples(ctx, reader, s.run); {
	case err != nil:
		s.noSamples = fmt.Sprintf("the samples of run %s cannot be read: %v", s.run.Name, err)
	case s.samples == nil:
		s.noSamples = fmt.Sprintf("run %s has no samples", s.run.Name)
	}
}

// baselineOf returns the baseline of a run, with the copy of its whole result, and with its samples if it still exists.
func baselineOf(ctx context.Context, reader kube.Reader, run *spatev1.TrafficRun) (s side, err error) {
	if run.Status.Resolved == nil || run.Status.Resolved.Baseline == nil {
		return s, fmt.Errorf("run %s has no baseline: name the run to compare it with", run.Name)
	}
	kept, err := storage.LoadBaseline(ctx, reader, run)
	if err != nil {
		return s, fmt.Errorf("run %s: %w", run.Name, err)
	}
	b, baseline := run.Status.Resolved.Baseline, &spatev1.TrafficRun{}
	baseline.Namespace, baseline.Name, baseline.UID = run.Namespace, string(b.Name), b.UID
	baseline.Spec.ProfileRef = &spatev1.LocalReference{Name: b.Profile}
	baseline.Status.Phase, baseline.Status.Verdict, baseline.Status.Result = spatev1.RunComplete, &spatev1.Verdict{Outcome: b.Outcome}, kept
	s.run = baseline
	if s.load(ctx, reader); s.samples == nil {
		return s, nil
	}
	// The copy of a result does not say when the warm-up was over, which the run itself does: it exists, since its samples go with it.
	itself := &spatev1.TrafficRun{}
	if err := reader.Get(ctx, kube.ObjectKeyFromObject(baseline), itself); err != nil {
		s.samples, s.noSamples = nil, fmt.Sprintf("run %s, the baseline, cannot be read: %v", baseline.Name, err)
	}
	baseline.Status.Resolved, baseline.Status.Stages = itself.Status.Resolved, itself.Status.Stages
	return s, nil
}
