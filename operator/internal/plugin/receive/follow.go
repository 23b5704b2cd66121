// SPDX-License-Identifier: Apache-2.0

package receive

// This file answers: how are readings followed, once and for a time?

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	operator "spate.dev/operator/internal/live"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/live"
	"spate.dev/operator/internal/plugin/progress"
	"spate.dev/operator/internal/runs"
)

// state is what is known. It changes by events alone.
type state struct {
	subject  string
	flags    *flags
	byWorker bool
	tally    *tally
	runs     []spatev1.TrafficRun
	now      time.Time
	note     counters.Note
}

func newState(subject string, f *flags) *state {
	return &state{subject: subject, flags: f, byWorker: f.by == byWorker, tally: newTally(f.fromReset)}
}

// apply takes an event in.
func (s *state) apply(event any) {
	switch event := event.(type) {
	case counters.Found:
		if event.Err != nil {
			s.note = counters.Note{Text: event.Err.Error(), IsBad: true}
			return
		}
		s.runs = event.Runs
		var names []string
		for i := range s.runs {
			names = append(names, s.runs[i].Name)
		}
		s.tally.board.Keep(names)
	case counters.Counted:
		s.tally.add(event.From, event.Answer)
	case counters.Note:
		s.note = event
	case counters.Ticked:
		s.now = event.Now
		s.tally.board.Tick()
	}
}

// isActive reports whether a run is active.
func (s *state) isActive() bool {
	return slices.ContainsFunc(s.runs, func(r spatev1.TrafficRun) bool { return runs.Active(&r) })
}

// inactive is the error of a subject that nothing is read of.
func (s *state) inactive() error {
	if len(s.runs) > 0 {
		run := &s.runs[0]
		return fmt.Errorf("run %s of profile %s has ended: kubectl spate result %s shows what its receivers measured", run.Name, cluster.ProfileOf(run), run.Name)
	}
	return fmt.Errorf("no run of %s is active: foreign traffic is read while a run is active", s.subject)
}

// waiting says what counters are waited for.
func (s *state) waiting() string {
	for i := range s.runs {
		if run := &s.runs[i]; runs.Active(run) && !operator.Readable(run) {
			return fmt.Sprintf("run %s: %s", run.Name, progress.Line(run, s.now))
		}
	}
	return "engines do not answer"
}

// hint says why a run is shown without times; empty if it is not.
func (s *state) hint() string {
	if len(s.tally.board.Sources) == 0 || s.tally.hasReceivers() {
		return ""
	}
	return "no run has a receiver: only packets are counted; spec.receive of a profile measures a port"
}

// errEnough ends the reading without an error.
var errEnough = errors.New("enough was read")

// read applies events, and handles each, until handling fails or the context ends.
func (s *state) read(ctx context.Context, source *counters.Feed, notes io.Writer, handle func(event any) error) error {
	events, end := source.Events(ctx)
	err := s.handle(ctx, events, notes, handle)
	end()
	if errors.Is(err, errEnough) || live.IsEnough(err) {
		return nil
	}
	return err
}

func (s *state) handle(ctx context.Context, events <-chan any, notes io.Writer, handle func(event any) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-events:
			s.apply(event)
			switch event := event.(type) {
			case counters.Found:
				if event.Err != nil {
					return event.Err
				}
			case counters.Note:
				if event.IsBad {
					return errors.New(event.Text)
				}
				fmt.Fprintln(notes, "note:", oneLine(event.Text))
			}
			if err := handle(event); err != nil {
				return err
			}
		}
	}
}

// onceLimit is how long two readings of each pod may take, beside the interval between them.
const onceLimit = 30 * time.Second

// once prints the rows when all rates are known.
func once(ctx context.Context, s *state, source *counters.Feed, to, notes io.Writer) error {
	limited, cancel := context.WithTimeout(ctx, onceLimit+source.Interval)
	defer cancel()
	out := &printer{to: to, form: s.flags.output.Form(), byWorker: s.byWorker}
	err := s.read(limited, source, notes, func(event any) error { return s.printOnce(event, out, notes) })
	switch {
	case ctx.Err() != nil:
		return exit.With(exit.Interrupted, errors.New("interrupted"))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("not all counters were read in %s: %s", onceLimit+source.Interval, cmp.Or(s.note.Text, s.waiting()))
	}
	return err
}

// printOnce prints the rows when a tick finds all rates known.
func (s *state) printOnce(event any, out *printer, notes io.Writer) error {
	if _, isTick := event.(counters.Ticked); !isTick {
		return nil
	}
	switch {
	case !s.isActive():
		return s.inactive()
	case len(s.tally.board.Sources) == 0 || !s.tally.board.AreComplete(s.runs, s.flags.pods):
		return nil // engines may not execute the run yet
	}
	if hint := s.hint(); hint != "" {
		fmt.Fprintln(notes, "note:", hint)
	}
	return cmp.Or(out.print(s.tally.rows(s.byWorker)), errEnough)
}

// stream prints the rows of each reading until no run is active any more, the duration is over, or it is interrupted.
func stream(ctx context.Context, s *state, source *counters.Feed, to, notes io.Writer) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if s.flags.duration > 0 {
		limited, cancel = context.WithTimeout(ctx, s.flags.duration)
	}
	defer cancel()
	out := &printer{to: to, form: s.flags.output.Form(), byWorker: s.byWorker, isStream: true}
	wasActive, wasHinted, wasPrinted := false, false, false
	err := s.read(limited, source, notes, func(event any) error {
		switch event := event.(type) {
		case counters.Counted:
			if hint := s.hint(); hint != "" && !wasHinted {
				wasHinted = true
				fmt.Fprintln(notes, "note:", hint)
			}
			wasPrinted = wasPrinted || s.tally.board.Complete(event.From)
			return s.printReading(event.From, out)
		case counters.Ticked:
			if s.isActive() {
				wasActive = true
				return nil
			}
			if wasActive {
				return errEnough
			}
			return s.inactive()
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return nil // interrupted, which is how it ends without a duration
	case errors.Is(err, context.DeadlineExceeded) && !wasPrinted:
		return fmt.Errorf("no rates were known in %s: %s", s.flags.duration, cmp.Or(s.note.Text, s.waiting()))
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	return err
}

// printReading prints the rows of a source whose rates are known.
func (s *state) printReading(from counters.Source, out *printer) error {
	if !s.tally.board.Complete(from) {
		return nil
	}
	rows := s.tally.rowsOf(s.tally.source(from), s.byWorker)
	inOrder(rows)
	return out.print(rows)
}
