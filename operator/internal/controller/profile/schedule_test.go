// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocks "k8s.io/utils/clock/testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
)

func utc(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Times without a zone are UTC. Clocks of Berlin go from 02:00 to 03:00 on 2026-03-29, and from 03:00 to 02:00 on 2026-10-25.
func TestWhatAScheduleAsksForAtAnInstant(t *testing.T) {
	const berlin, newYork = "Europe/Berlin", "America/New_York"
	for name, c := range map[string]struct {
		cron, zone         string
		deadline           int64
		last, now          string
		due, skipped, next string
	}{
		"before its time":                      {"0 2 * * *", "", 0, "2026-01-01 00:00:00", "2026-01-01 01:59:59", "", "", "2026-01-01 02:00:00"},
		"on time":                              {"0 2 * * *", "", 0, "2026-01-01 00:00:00", "2026-01-01 02:00:00", "2026-01-01 02:00:00", "", "2026-01-02 02:00:00"},
		"a moment later":                       {"0 2 * * *", "", 0, "2026-01-01 00:00:00", "2026-01-01 02:00:03", "2026-01-01 02:00:00", "", "2026-01-02 02:00:00"},
		"dealt with":                           {"0 2 * * *", "", 0, "2026-01-01 02:00:00", "2026-01-01 02:00:03", "", "", "2026-01-02 02:00:00"},
		"missed for days: the last one":        {"0 2 * * *", "", 0, "2026-01-01 02:00:00", "2026-01-05 14:00:00", "2026-01-05 02:00:00", "", "2026-01-06 02:00:00"},
		"within the deadline":                  {"0 2 * * *", "", 600, "2026-01-01 00:00:00", "2026-01-01 02:10:00", "2026-01-01 02:00:00", "", "2026-01-02 02:00:00"},
		"beyond the deadline":                  {"0 2 * * *", "", 600, "2026-01-01 00:00:00", "2026-01-01 02:10:01", "", "2026-01-01 02:00:00", "2026-01-02 02:00:00"},
		"the deadline is that of the last one": {"*/5 * * * *", "", 60, "2026-01-01 00:00:00", "2026-01-01 10:00:30", "2026-01-01 10:00:00", "", "2026-01-01 10:05:00"},
		"hourly":                               {"@hourly", "", 0, "2026-01-01 00:00:00", "2026-01-01 03:30:00", "2026-01-01 03:00:00", "", "2026-01-01 04:00:00"},
		"weekly, of weekdays":                  {"0 9 * * 1-5", "", 0, "2026-01-02 09:00:00", "2026-01-04 12:00:00", "", "", "2026-01-05 09:00:00"},
		"never":                                {"0 0 30 2 *", "", 0, "2026-01-01 00:00:00", "2026-06-01 00:00:00", "", "", ""},
		"Berlin in winter":                     {"0 2 * * *", berlin, 0, "2026-01-01 00:00:00", "2026-01-01 01:00:00", "2026-01-01 01:00:00", "", "2026-01-02 01:00:00"},
		"Berlin in summer":                     {"0 2 * * *", berlin, 0, "2026-06-30 12:00:00", "2026-07-01 00:00:00", "2026-07-01 00:00:00", "", "2026-07-02 00:00:00"},
		"New York, the day before":             {"0 22 * * *", newYork, 0, "2026-01-01 12:00:00", "2026-01-02 03:00:00", "2026-01-02 03:00:00", "", "2026-01-03 03:00:00"},
		"into summer, behind the gap":          {"0 4 * * *", berlin, 0, "2026-03-28 03:00:00", "2026-03-29 02:00:00", "2026-03-29 02:00:00", "", "2026-03-30 02:00:00"},
		"into summer, in the gap: not":         {"30 2 * * *", berlin, 0, "2026-03-28 01:30:00", "2026-03-29 12:00:00", "", "", "2026-03-30 00:30:00"},
		"into summer, hourly":                  {"@hourly", berlin, 0, "2026-03-29 00:00:00", "2026-03-29 01:00:00", "2026-03-29 01:00:00", "", "2026-03-29 02:00:00"},
		"into winter, behind the hour twice":   {"0 4 * * *", berlin, 0, "2026-10-24 02:00:00", "2026-10-25 03:00:00", "2026-10-25 03:00:00", "", "2026-10-26 03:00:00"},
		"into winter, hourly":                  {"@hourly", berlin, 0, "2026-10-25 00:00:00", "2026-10-25 01:00:00", "2026-10-25 01:00:00", "", "2026-10-25 02:00:00"},
	} {
		t.Run(name, func(t *testing.T) {
			schedule := &spatev1.RunSchedule{Cron: c.cron}
			if c.zone != "" {
				schedule.TimeZone = &c.zone
			}
			if c.deadline > 0 {
				schedule.StartingDeadlineSeconds = &c.deadline
			}
			times, zone, problem := timetable(schedule)
			if problem != nil {
				t.Fatal(problem)
			}
			got := at(schedule, times, zone, utc(t, c.last), utc(t, c.now))
			for what, pair := range map[string][2]time.Time{"due": {got.due, utc(t, c.due)}, "skipped": {got.skipped, utc(t, c.skipped)}, "next": {got.next, utc(t, c.next)}} {
				if !pair[0].Equal(pair[1]) {
					t.Errorf("%s is %s, want %s", what, pair[0], pair[1])
				}
			}
			if (got.reason != "") != (c.skipped != "") {
				t.Errorf("reason %q", got.reason)
			}
		})
	}
}

// Like a CronJob: a minute in the repeated hour has two times.
func TestATimeThatComesTwiceIsDueTwice(t *testing.T) {
	zone := "Europe/Berlin"
	schedule := &spatev1.RunSchedule{Cron: "30 2 * * *", TimeZone: &zone}
	times, where, _ := timetable(schedule)
	last := utc(t, "2026-10-24 00:30:00")
	var due []string
	for now := last; now.Before(utc(t, "2026-10-26 12:00:00")); now = now.Add(10 * time.Minute) {
		if found := at(schedule, times, where, last, now); !found.due.IsZero() {
			due, last = append(due, found.due.UTC().Format("01-02 15:04")), found.due
		}
	}
	if got := strings.Join(due, ", "); got != "10-25 00:30, 10-25 01:30, 10-26 01:30" {
		t.Error(got)
	}
}

func TestManyMissedTimesAreOneRun(t *testing.T) {
	schedule := &spatev1.RunSchedule{Cron: "* * * * *"}
	times, zone, _ := timetable(schedule)
	now := utc(t, "2030-01-01 00:00:30")
	began := time.Now()
	found := at(schedule, times, zone, utc(t, "2026-01-01 00:00:00"), now)
	if !found.due.Equal(now) || !found.next.Equal(utc(t, "2030-01-01 00:01:00")) {
		t.Errorf("%+v", found)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestAScheduleThatCannotBeReadIsAProblemOfItsField(t *testing.T) {
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		schedule spatev1.RunSchedule
		want     string
	}{
		"four fields":        {spatev1.RunSchedule{Cron: "0 2 * *"}, `spec.schedule.cron: "0 2 * *" must be a schedule in Cron format, such as "0 2 * * *": expected exactly 5 fields, found 4: [0 2 * *]`},
		"an hour too many":   {spatev1.RunSchedule{Cron: "0 24 * * *"}, `spec.schedule.cron: "0 24 * * *" must be a schedule in Cron format, such as "0 2 * * *": end of range (24) above maximum (23): 24`},
		"a word":             {spatev1.RunSchedule{Cron: "nightly"}, `spec.schedule.cron: "nightly" must be a schedule in Cron format, such as "0 2 * * *": expected exactly 5 fields, found 1: [nightly]`},
		"an unknown zone":    {spatev1.RunSchedule{Cron: "0 2 * * *", TimeZone: text("Europe/Bern")}, `spec.schedule.timeZone: "Europe/Bern" must be a time zone of the IANA database, such as Europe/Berlin`},
		"the operator's own": {spatev1.RunSchedule{Cron: "0 2 * * *", TimeZone: text("Local")}, `spec.schedule.timeZone: "Local" must be a time zone of the IANA database, such as Europe/Berlin`},
		"an abbreviation":    {spatev1.RunSchedule{Cron: "0 2 * * *", TimeZone: text("+01:00")}, `spec.schedule.timeZone: "+01:00" must be a time zone of the IANA database, such as Europe/Berlin`},
	} {
		s := scheduledAt(t, "2026-01-02 00:00:00", &c.schedule)
		d := s.decide()
		if d.start || !d.stalled || d.phase != spatev1.ProfileStalled || d.reason != spatev1.ReasonInvalidSpec || d.message != c.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// scheduledAt is a profile created on 2026-01-01 with a schedule, at an instant.
func scheduledAt(t *testing.T, now string, schedule *spatev1.RunSchedule, all ...spatev1.TrafficRun) *scope {
	t.Helper()
	p := edited(spatev1.RunOnSchedule, 1)
	p.CreationTimestamp = metav1.NewTime(utc(t, "2026-01-01 00:00:00"))
	p.Spec.Schedule = schedule
	return &scope{r: &Reconciler{Clock: clocks.NewFakeClock(utc(t, now)), started: map[types.UID]started{}}, profile: p, runs: all}
}

// scheduledFor is a run for a time of a schedule.
func scheduledFor(t *testing.T, number int64, at string, change ...func(*spatev1.TrafficRun)) spatev1.TrafficRun {
	t.Helper()
	trigger := spatev1.RunTrigger{Generation: 1, Number: number}
	r := made(spatev1.RunOnSchedule, trigger, change...)
	runs.Annotate(&r, spatev1.RunOnSchedule, trigger, utc(t, at))
	return r
}

func TestWhenAScheduledRunStarts(t *testing.T) {
	const today, yesterday, tomorrow = "2026-01-05 02:00:00", "2026-01-04 02:00:00", "2026-01-06 02:00:00"
	const allow, forbid, replace = spatev1.ConcurrencyAllow, spatev1.ConcurrencyForbid, spatev1.ConcurrencyReplace
	finished := endedFor(spatev1.ReasonFinished)
	deadline := int64(60)
	for name, c := range map[string]struct {
		policy   spatev1.ConcurrencyPolicy
		deadline *int64
		runs     []spatev1.TrafficRun
		change   func(*scope)
		start    string
		replaced string
		skipped  string
		recorded string // status.lastScheduleTime
		again    time.Duration
	}{
		"the first":                {forbid, nil, nil, nil, today, "", "", "", 23 * time.Hour},
		"the one before has ended": {forbid, nil, []spatev1.TrafficRun{scheduledFor(t, 1, yesterday, finished)}, nil, today, "", "", yesterday, 23 * time.Hour},
		"it exists, and is not in the status": {
			forbid, nil, []spatev1.TrafficRun{scheduledFor(t, 1, yesterday, finished), scheduledFor(t, 2, today)}, nil, "", "", "", today, 23 * time.Hour,
		},
		"it exists, and the status has the one before": {
			forbid, nil, []spatev1.TrafficRun{scheduledFor(t, 2, today, finished)},
			func(s *scope) { s.profile.Status.LastScheduleTime = &metav1.Time{Time: utc(t, yesterday)} }, "", "", "", today, 23 * time.Hour,
		},
		"the status has it, and the run is deleted": {
			forbid, nil, nil, func(s *scope) { s.profile.Status.LastScheduleTime = &metav1.Time{Time: utc(t, today)} }, "", "", "", today, 23 * time.Hour,
		},
		"it is started, and neither the status nor the cache has it": {
			forbid, nil, nil, func(s *scope) { s.r.started[uid] = started{spatev1.RunTrigger{Number: 1}, utc(t, today)} }, "", "", "", today, 23 * time.Hour,
		},
		"a run of an earlier profile has it": {
			forbid, nil, []spatev1.TrafficRun{scheduledFor(t, 2, today, func(r *spatev1.TrafficRun) { r.OwnerReferences[0].UID = "earlier" })}, nil, today, "", "", "", 23 * time.Hour,
		},
		"the one before has not ended, Forbid": {
			forbid, nil, []spatev1.TrafficRun{scheduledFor(t, 1, yesterday)}, nil, "", "",
			"the run of 2026-01-05T02:00:00Z was skipped: run p-1a2b3-1 has not ended, and spec.schedule.concurrencyPolicy is Forbid", today, 23 * time.Hour,
		},
		"the one before has not ended, the default": {
			"", nil, []spatev1.TrafficRun{scheduledFor(t, 1, yesterday)}, nil, "", "",
			"the run of 2026-01-05T02:00:00Z was skipped: run p-1a2b3-1 has not ended, and spec.schedule.concurrencyPolicy is Forbid", today, 23 * time.Hour,
		},
		"the one before has not ended, Allow": {allow, nil, []spatev1.TrafficRun{scheduledFor(t, 1, yesterday)}, nil, today, "", "", yesterday, 23 * time.Hour},
		"the one before has not ended, Replace": {
			replace, nil, []spatev1.TrafficRun{scheduledFor(t, 1, yesterday)}, nil, "", "p-1a2b3-1", "", yesterday, time.Second,
		},
		"the one before was replaced":     {replace, nil, []spatev1.TrafficRun{scheduledFor(t, 1, yesterday, endedFor(spatev1.ReasonStopped))}, nil, today, "", "", yesterday, 23 * time.Hour},
		"others' run has not ended":       {forbid, nil, []spatev1.TrafficRun{created()}, nil, today, "", "", "", 23 * time.Hour},
		"a run of a runID has not ended":  {forbid, nil, []spatev1.TrafficRun{made(spatev1.RunManual, spatev1.RunTrigger{Number: 3})}, nil, "", "", "the run of 2026-01-05T02:00:00Z was skipped: run p-1a2b3-3 has not ended, and spec.schedule.concurrencyPolicy is Forbid", today, 23 * time.Hour},
		"too late":                        {forbid, &deadline, nil, nil, "", "", "the run of 2026-01-05T02:00:00Z was skipped: its time passed 1h0m0s ago, more than spec.schedule.startingDeadlineSeconds", today, 23 * time.Hour},
		"too late to replace":             {replace, &deadline, []spatev1.TrafficRun{scheduledFor(t, 1, yesterday)}, nil, "", "", "the run of 2026-01-05T02:00:00Z was skipped: its time passed 1h0m0s ago, more than spec.schedule.startingDeadlineSeconds", today, 23 * time.Hour},
		"the profile was not run by time": {forbid, nil, nil, func(s *scope) { s.seen = true }, "", "", "", "2026-01-05 03:00:00", 23 * time.Hour},
		"the profile was run by time": {
			forbid, nil, nil, func(s *scope) { s.seen, s.profile.Status.NextScheduleTime = true, &metav1.Time{Time: utc(t, today)} }, today, "", "", "", 23 * time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := scheduledAt(t, "2026-01-05 03:00:00", &spatev1.RunSchedule{Cron: "0 2 * * *", ConcurrencyPolicy: c.policy, StartingDeadlineSeconds: c.deadline}, c.runs...)
			if c.change != nil {
				c.change(s)
			}
			d := s.decide()
			if d.start != (c.start != "") || !d.scheduled.Equal(utc(t, c.start)) {
				t.Errorf("starts %v, for %s, want %q", d.start, d.scheduled, c.start)
			}
			if replaced := d.replace; (replaced != nil) != (c.replaced != "") || replaced != nil && replaced.Name != c.replaced {
				t.Errorf("replaces %+v, want %q", replaced, c.replaced)
			}
			if d.skipped != c.skipped || d.again != c.again || d.reason != "" {
				t.Errorf("skipped %q, again in %s, %s", d.skipped, d.again, d.reason)
			}
			var recorded, next time.Time
			if at := s.profile.Status.LastScheduleTime; at != nil {
				recorded = at.Time
			}
			if at := s.profile.Status.NextScheduleTime; at != nil {
				next = at.Time
			}
			if !recorded.Equal(utc(t, c.recorded)) || !next.Equal(utc(t, tomorrow)) {
				t.Errorf("recorded is %s, want %q; next is %s", recorded, c.recorded, next)
			}
		})
	}
}

func TestAProfileWithoutAScheduleHasNoNextTime(t *testing.T) {
	s := scheduledAt(t, "2026-01-05 03:00:00", nil)
	s.profile.Spec.RunPolicy = spatev1.RunManual
	s.profile.Status.NextScheduleTime = &metav1.Time{Time: utc(t, "2026-01-06 02:00:00")}
	if d := s.decide(); d.start || d.again != 0 || s.profile.Status.NextScheduleTime != nil {
		t.Errorf("%+v, next %s", d, s.profile.Status.NextScheduleTime)
	}
}

func TestASuspendedScheduleStartsNothing(t *testing.T) {
	s := scheduledAt(t, "2026-01-05 03:00:00", &spatev1.RunSchedule{Cron: "0 2 * * *"})
	s.profile.Spec.Suspend = true
	if d := s.decide(); d.start || d.phase != spatev1.ProfileSuspended || s.profile.Status.LastScheduleTime != nil {
		t.Errorf("%+v", d)
	}
	s.profile.Spec.Suspend = false
	if d := s.decide(); !d.start || !d.scheduled.Equal(utc(t, "2026-01-05 02:00:00")) { // like a CronJob
		t.Errorf("%+v", d)
	}
}
