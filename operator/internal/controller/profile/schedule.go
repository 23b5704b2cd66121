// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: is a run due by the profile's schedule?

import (
	"fmt"
	"time"
	_ "time/tzdata" // the operator's image has no time zones

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/runs"
)

// maxMissed is the number of times of a schedule that are searched for the last one missed.
const maxMissed = 100_000

// scheduled is the state of a schedule at an instant.
type scheduled struct {
	// due is the time of the run to start; zero if none is.
	due time.Time
	// skipped is a time that passed without a run, for the reason; zero if none did.
	skipped time.Time
	reason  string
	// next is the next time.
	next time.Time
}

// timetable parses a schedule and its time zone.
func timetable(s *spatev1.RunSchedule) (cron.Schedule, *time.Location, *problem.Problem) {
	invalid := func(path, format string, args ...any) *problem.Problem {
		return &problem.Problem{Reason: spatev1.ReasonInvalidSpec, Path: "spec.schedule." + path, Message: fmt.Sprintf(format, args...)}
	}
	zone := time.UTC
	if s.TimeZone != nil {
		var err error
		if zone, err = time.LoadLocation(*s.TimeZone); err != nil || *s.TimeZone == "Local" {
			return nil, nil, invalid("timeZone", "%q must be a time zone of the IANA database, such as Europe/Berlin", *s.TimeZone)
		}
	}
	times, err := cron.ParseStandard(s.Cron)
	if err != nil {
		return nil, nil, invalid("cron", "%q must be a schedule in Cron format, such as \"0 2 * * *\": %v", s.Cron, err)
	}
	return times, zone, nil
}

// at evaluates a schedule, of which the times up to `last` have been handled.
func at(s *spatev1.RunSchedule, times cron.Schedule, zone *time.Location, last, now time.Time) scheduled {
	var found scheduled
	t := times.Next(last.In(zone))
	for range maxMissed {
		if t.IsZero() || t.After(now) {
			break
		}
		found.due, t = t, times.Next(t)
	}
	if !t.IsZero() && !t.After(now) { // more were missed than are searched
		found.due, t = now.In(zone), times.Next(now.In(zone))
	}
	found.next = t
	if deadline := s.StartingDeadlineSeconds; deadline != nil && !found.due.IsZero() && now.Sub(found.due) > time.Duration(*deadline)*time.Second {
		found.skipped, found.due = found.due, time.Time{}
		found.reason = fmt.Sprintf("its time passed %s ago, more than spec.schedule.startingDeadlineSeconds", now.Sub(found.skipped).Round(time.Second))
	}
	return found
}

// lastScheduled is the time of the schedule that was handled last, according to the status, the existing runs, and what the cache does
// not have yet. Times before the profile had its schedule were never due.
func (s *scope) lastScheduled(now time.Time) time.Time {
	last := s.profile.CreationTimestamp.Time
	later := func(t time.Time) {
		if t.After(last) {
			last = t
		}
	}
	if s.seen && s.profile.Status.NextScheduleTime == nil {
		later(now)
	}
	if recorded := s.profile.Status.LastScheduleTime; recorded != nil {
		later(recorded.Time)
	}
	for i := range s.runs {
		if runs.StartedBy(&s.runs[i], s.profile) {
			later(runs.ScheduledTime(&s.runs[i]))
		}
	}
	if latest, known := s.lastStarted(); known {
		later(latest.scheduled)
	}
	return last
}

// bySchedule decides for a profile with a schedule.
func (s *scope) bySchedule() decision {
	schedule := s.profile.Spec.Schedule
	times, zone, problem := timetable(schedule)
	if problem != nil {
		return decision{reason: problem.Reason, message: problem.Path + ": " + problem.Message, phase: spatev1.ProfileStalled, stalled: true}
	}
	now := s.r.Clock.Now()
	last := s.lastScheduled(now)
	found := at(schedule, times, zone, last, now)
	setHandled := func(t time.Time) { s.profile.Status.LastScheduleTime = &metav1.Time{Time: t} }
	if recorded := s.profile.Status.LastScheduleTime; last.After(s.profile.CreationTimestamp.Time) && (recorded == nil || recorded.Time.Before(last)) {
		setHandled(last)
	}
	d := decision{again: found.next.Sub(now)}
	s.profile.Status.NextScheduleTime = &metav1.Time{Time: found.next}
	if found.next.IsZero() {
		s.profile.Status.NextScheduleTime, d.again = nil, 0
	}
	if own := s.active(); own != nil && !found.due.IsZero() {
		switch schedule.ConcurrencyPolicy {
		case spatev1.ConcurrencyAllow:
		case spatev1.ConcurrencyReplace:
			d.replace, d.again = own, time.Second // the end of the run also triggers a reconcile
			return d
		default:
			found.skipped, found.due = found.due, time.Time{}
			found.reason = "run " + own.Name + " has not ended, and spec.schedule.concurrencyPolicy is Forbid"
		}
	}
	if !found.skipped.IsZero() {
		setHandled(found.skipped)
		d.skipped = fmt.Sprintf("the run of %s was skipped: %s", found.skipped.Format(time.RFC3339), found.reason)
	}
	if !found.due.IsZero() {
		d.start, d.scheduled = true, found.due
	}
	return d
}

// active is the latest run that the profile started and that has not ended; nil if there is none.
func (s *scope) active() *spatev1.TrafficRun {
	for i := len(s.runs) - 1; i >= 0; i-- {
		if run := &s.runs[i]; runs.StartedBy(run, s.profile) && runs.Active(run) {
			return run
		}
	}
	return nil
}
