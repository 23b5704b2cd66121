// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how are runs followed to their ends?

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"spate.dev/operator/internal/plugin/change"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/progress"
	"spate.dev/operator/internal/runs"
)

const (
	// interval at which runs are read.
	interval = time.Second
	// absenceLimit is how long the API server may be unreachable before a run is given up.
	absenceLimit = 2 * time.Minute
	// readLimit bounds what is read and written after an interrupt.
	readLimit = 30 * time.Second
)

// hasEnded reports whether the subject's run has ended.
func (s *subject) hasEnded() bool { return s.run != nil && !runs.Active(s.run) }

// follow reads the subjects until each is done or has an error. When the time is over (without limit when it is 0), or when the command is interrupted, those that are
// not done get an error; stop says whether an interrupt stops them.
func (s *session) follow(ctx context.Context, subjects []*subject, limit time.Duration, stop bool, done func(*subject) bool) {
	defer s.screen.close()
	var over <-chan time.Time
	if limit > 0 {
		over = time.After(limit)
	}
	for {
		left := 0
		for _, sub := range subjects {
			if sub.err == nil && !done(sub) {
				s.look(ctx, sub)
			}
			if sub.err == nil && !done(sub) {
				left++
			}
		}
		if ctx.Err() == nil {
			s.show(subjects)
		}
		if left == 0 {
			return
		}
		select {
		case <-ctx.Done():
			s.interrupted(subjects, stop, done)
			return
		case <-over:
			s.late(subjects, limit, done)
			return
		case <-time.After(interval):
		}
	}
}

// look reads a subject once. An API server that does not answer is tolerated for absenceLimit.
func (s *session) look(ctx context.Context, sub *subject) {
	var err error
	if sub.run == nil {
		err = s.find(ctx, sub)
	} else {
		err = s.client.Get(ctx, kube.ObjectKeyFromObject(sub.run), sub.run)
	}
	answered := exit.Code(err) != exit.Failed || apierrors.ReasonForError(err) != "" // find gives codes
	switch {
	case ctx.Err() != nil: // interrupted
	case err == nil:
		sub.absent = time.Time{}
		s.noteEndless(sub)
	case apierrors.IsNotFound(err):
		sub.err = exit.With(exit.NotRun, fmt.Errorf("%s was deleted", sub.name()))
	case answered && !isTransient(err):
		sub.err = exit.With(exit.Code(coded(err)), fmt.Errorf("%s: %w", sub.name(), err))
	case sub.absent.IsZero():
		sub.absent = time.Now()
		s.screen.note("%s: the API server does not answer, tried again for %s: %v", sub.name(), absenceLimit, err)
	case time.Since(sub.absent) > absenceLimit:
		sub.err = exit.With(exit.NotRun, fmt.Errorf("%s: the API server has not answered for %s: %w", sub.name(), absenceLimit, err))
	}
}

// noteEndless says of a run without a duration that it does not end by itself.
func (s *session) noteEndless(sub *subject) {
	if sub.run == nil || sub.endless || sub.run.Spec.Search != nil || sub.run.Status.Resolved == nil || sub.run.Status.Resolved.Timing.Duration != "" {
		return
	}
	sub.endless = true
	s.screen.note("%s has no duration: it lasts until it is stopped: %s", sub.name(), stopCommand(sub))
}

// isTransient reports whether the API server may answer otherwise a little later.
func isTransient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// late gives subjects that are not done an error.
func (s *session) late(subjects []*subject, limit time.Duration, done func(*subject) bool) {
	for _, sub := range subjects {
		switch {
		case sub.err != nil || done(sub):
		case sub.run == nil:
			sub.err = exit.With(exit.NotRun, fmt.Errorf("%s has started no run within %s: %s", sub.name(), limit, s.line(sub)))
		default:
			sub.err = exit.With(exit.NotRun, fmt.Errorf("%s has not ended within %s: %s; it goes on, to stop it: %s", sub.name(), limit, s.line(sub), stopCommand(sub)))
		}
	}
}

// interrupted says of runs that have not ended that they go on, or stops them.
func (s *session) interrupted(subjects []*subject, stop bool, done func(*subject) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	for _, sub := range subjects {
		if sub.err != nil || done(sub) {
			continue
		}
		message := "it goes on, to stop it: "
		switch {
		case sub.run == nil:
			message = "its run was not started yet, and may start"
		case !stop:
			message += stopCommand(sub)
		default:
			message = "it is being stopped"
			if err := change.Stop(ctx, s.client, sub.run); err != nil {
				message = fmt.Sprintf("it cannot be stopped: %v", err)
			}
		}
		sub.err = exit.With(exit.Interrupted, fmt.Errorf("interrupted: %s: %s", sub.name(), message))
	}
}

func stopCommand(sub *subject) string {
	return fmt.Sprintf("kubectl spate stop %s -n %s", sub.run.Name, sub.run.Namespace)
}

// line describes a subject in a line.
func (s *session) line(sub *subject) string {
	switch {
	case sub.run != nil:
		return progress.Line(sub.run, time.Now())
	case sub.waits != "":
		return sub.waits
	}
	return "the operator has not reconciled it yet"
}

// show shows all subjects.
func (s *session) show(subjects []*subject) {
	lines := make([]line, len(subjects))
	for i, sub := range subjects {
		text := s.line(sub)
		state := text
		if sub.run != nil && sub.run.Status.TrafficStartTime != nil {
			state = string(sub.run.Status.Phase)
		}
		lines[i] = line{key: sub.profile.String(), state: state, text: sub.name() + "  " + text}
		if sub.run != nil {
			lines[i].key = string(sub.run.UID)
		}
	}
	s.screen.show(lines)
}
