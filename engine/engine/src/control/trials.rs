// SPDX-License-Identifier: Apache-2.0
//! Trials of a run: what each is made of, and which may be started.
use super::status::Refusal;
use crate::datapath::Run;
use crate::plan::{Violations, rate};
use contract::{Plan, StartTrialRequest, Timing, stream::Transmit};

/// What the trials of a run are made of.
pub struct Trials {
    plan: Plan,
    /// What started the trial that the run is in, or was in; none before the first.
    last: Option<StartTrialRequest>,
}

impl Trials {
    /// The trials of a plan, none of which has started.
    pub fn new(plan: Plan) -> Self {
        Self { plan, last: None }
    }

    /// The trials after a request has started another.
    pub fn after(&self, request: StartTrialRequest) -> Self {
        Self { plan: self.plan.clone(), last: Some(request) }
    }

    /// Number of the trial that was started last; 0 before the first.
    pub fn number(&self) -> u32 {
        self.last.as_ref().map_or(0, |last| last.trial)
    }

    /// Tags that packets of its trials have in turn, from the first trial on.
    pub fn tags(&self) -> [u32; 2] {
        [self.plan.run_tag, self.plan.trials.as_ref().map_or(0, |trials| trials.second_run_tag)]
    }

    /// Whether a request has started the trial that the run is in; an error if it cannot start the next. A trial whose instant had passed
    /// was not started.
    pub fn is_started(&self, request: &StartTrialRequest, run: &Run) -> Result<bool, Refusal> {
        let (last, started) = (self.number(), run.started_at().is_some());
        if started && self.last.as_ref() == Some(request) {
            return Ok(true);
        }
        if request.trial < last || request.trial == last && (started || last == 0) {
            let wrong = format!("trial {} cannot be started after trial {last}: numbers increase", request.trial);
            return Err(Refusal::State(wrong));
        }
        if started && !run.state().has_ended() {
            return Err(Refusal::State(format!("trial {last} is under way; wait until it has ended, or Stop it")));
        }
        Ok(false)
    }

    /// The plan of a trial, at the rates of the whole plan. It is that of any run.
    pub fn plan_of(&self, request: &StartTrialRequest) -> Result<Plan, Refusal> {
        let mut wrong = Violations::default();
        if request.duration_ns == 0 {
            wrong.add("duration_ns", "0; a trial ends by itself");
        }
        if let Some(factor) = &request.rate_factor
            && let Err(error) = rate::positive(factor)
        {
            wrong.add("rate_factor", error.to_string());
        }
        if request.rate_factor.is_some() && !request.stages.is_empty() {
            wrong.add("rate_factor", "stages have rates of their own; leave it out");
        }
        if request.at_monotonic_ns <= 0 {
            wrong.add("at_monotonic_ns", format!("{}; must be an instant to come", request.at_monotonic_ns));
        }
        let mut plan = self.plan.clone();
        plan.run_tag = self.tags()[(request.trial as usize + 1) % 2];
        plan.trials = None;
        let (warmup_ns, duration_ns, drain_ns) = (request.warmup_ns, request.duration_ns, request.drain_ns);
        plan.timing = Some(Timing { warmup_ns, duration_ns, drain_ns, stages: request.stages.clone() });
        let factor = request.rate_factor.or_else(|| request.stages.first().and_then(|stage| stage.rate_factor));
        if let (Some(stateful), Some(factor)) = (&mut plan.stateful, factor) {
            // Arrivals measure the ramp-up by a clock that runs at the factor.
            let scaled = u128::from(stateful.ramp_up_ns) * u128::from(factor.numerator);
            let scaled = scaled / u128::from(factor.denominator.max(1));
            stateful.ramp_up_ns = u64::try_from(scaled).unwrap_or(u64::MAX); // which is refused
        }
        if request.packets > 0 {
            bursts(&mut plan, request.packets, &mut wrong);
        }
        wrong.or(plan).map_err(Refusal::from)
    }
}

/// Makes each stream send one burst.
fn bursts(plan: &mut Plan, packets: u64, wrong: &mut Violations) {
    if plan.stateful.is_some() {
        wrong.add("packets", "is for streams, and the plan has templates too");
    }
    for stream in &mut plan.streams {
        match &mut stream.transmit {
            Some(Transmit::Continuous(continuous)) => {
                let rate = continuous.rate.take();
                stream.transmit = Some(Transmit::Bursts(contract::Bursts { rate, packets, count: 1, gap_ns: 0 }));
            }
            _ => wrong.add("packets", format!("stream {:?} does not send continuously", stream.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::runs::{
        Engine, Held,
        tests::{ONE_TEMPLATE, engine},
    };
    use crate::control::stats::{self, Grouping};
    use crate::plan::decode::Format;
    use contract::{Ratio, RunState, StreamCounters};
    use std::{
        sync::Arc,
        time::{Duration, Instant},
    };

    /// A stream of 10,000 packets a second on a loopback port.
    const PLAN: &str = r#"{"runId": "r", "runTag": 7, "trials": {"secondRunTag": 8}, "timing": {"durationNs": 1000000000}, "streams": [{
        "name": "s", "id": 0, "txPort": "l", "rxPort": "l", "packet": {"frame": "AgAAAAABAgAAAAACCABFAAAyAAAAAEARAAAKAAABCgAAAgABAAIAHgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="},
        "continuous": {"rate": {"packetsPerSecond": {"numerator": 10000, "denominator": 1}}}, "measure": {"flow": true}
    }]}"#;

    fn request(engine: &Engine, trial: u32, factor: (u64, u64), packets: u64) -> StartTrialRequest {
        StartTrialRequest {
            run_id: "r".into(),
            trial,
            duration_ns: 200_000_000,
            drain_ns: 20_000_000,
            rate_factor: Some(Ratio { numerator: factor.0, denominator: factor.1 }),
            packets,
            at_monotonic_ns: (engine.clock().mono_ns() + 200_000_000) as i64,
            ..Default::default()
        }
    }

    /// What a trial has counted when it has ended.
    fn end(engine: &Engine, held: &Arc<Held>) -> StreamCounters {
        let asked = Instant::now();
        while !held.has_ended() {
            assert!(asked.elapsed() < Duration::from_secs(10), "the trial is {:?}", held.run().state());
            std::thread::sleep(Duration::from_millis(2));
        }
        let stats = stats::read(engine, held, Grouping::ByGroup);
        stats.streams[0].measured.clone().unwrap()
    }

    #[test]
    fn trials_follow_each_other_with_counters_of_their_own() {
        let engine = engine();
        engine.prepare("r", PLAN.into(), Format::Auto).unwrap();
        for (trial, factor, packets, sent) in
            [(1, (1, 1), 0, 2000), (2, (1, 4), 0, 500), (5, (1, 2), 123, 123), (6, (3, 4), 0, 1500)]
        {
            let held = engine.start_trial(&request(&engine, trial, factor, packets)).unwrap();
            let counted = end(&engine, &held);
            assert_eq!((counted.tx_packets, counted.rx_packets), (sent, sent), "trial {trial}");
            let info = engine.find("r").unwrap().info(0);
            assert_eq!((info.trial, info.state()), (trial, RunState::Complete));
        }
        assert_eq!(engine.all().len(), 1);
        engine.remove("r");
        engine.close();
    }

    #[test]
    fn a_trial_in_stages_has_their_rates() {
        let engine = engine();
        engine.prepare("r", PLAN.into(), Format::Auto).unwrap();
        let stage = |ms: u64, of: u64| contract::Stage {
            duration_ns: ms * 1_000_000,
            rate_factor: Some(Ratio { numerator: 1, denominator: of }),
            ramp_ns: 0,
        };
        let mut request = request(&engine, 1, (1, 1), 0);
        request.stages = vec![stage(150, 1), stage(50, 2)];
        let refused = engine.start_trial(&request).map(drop).unwrap_err().to_string();
        assert!(refused.starts_with("rate_factor: stages have rates"), "{refused}");
        request.rate_factor = None;
        let held = engine.start_trial(&request).unwrap();
        while !held.has_ended() {
            std::thread::sleep(super::super::stages::advance(&engine).min(Duration::from_millis(5)));
        }
        let counted = end(&engine, &held);
        assert_eq!((counted.tx_packets, counted.last_loss_ns), (1500 + 250, 0));
        engine.remove("r");
        engine.close();
    }

    #[test]
    fn rates_of_applications_rise_to_those_of_the_trial() {
        let engine = engine();
        let plan = ONE_TEMPLATE
            .replacen(r#""timing""#, r#""trials": {"secondRunTag": 8}, "timing""#, 1)
            .replacen(r#""stateful": {"#, r#""stateful": {"rampUpNs": 200000000,"#, 1)
            .replacen(r#"{"numerator": 1,"#, r#"{"numerator": 10000,"#, 1);
        engine.prepare("r", plan.into(), Format::Auto).unwrap();
        for (trial, (numerator, denominator), ramp, sustained) in [(1, (1, 2), 500, 1000), (2, (1, 10), 100, 200)] {
            let request = StartTrialRequest {
                warmup_ns: 200_000_000,
                at_monotonic_ns: (engine.clock().mono_ns() + 1_000_000_000) as i64,
                ..request(&engine, trial, (numerator, denominator), 0)
            };
            let held = engine.start_trial(&request).unwrap();
            while !held.has_ended() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let templates = stats::templates(&held);
            let clients = templates.iter().find(|t| t.side() == contract::Side::Client).unwrap();
            // A worker that is late begins some of them after the ramp-up, or not at all.
            let due = ["flows_attempted", "flows_not_started"].map(|name| {
                clients.counters.iter().find(|counter| counter.name == name).map_or(0, |counter| counter.value)
            });
            let due = due.iter().sum::<u64>();
            assert!(due.abs_diff(ramp + sustained) <= 1, "{due} were due in trial {trial}: {templates:?}");
        }
        engine.remove("r");
        engine.close();
    }

    #[test]
    fn the_same_request_starts_no_second_trial_and_a_wrong_one_leaves_the_run_ready() {
        let engine = engine();
        engine.prepare("r", PLAN.into(), Format::Auto).unwrap();
        let refused = |request: &StartTrialRequest| engine.start_trial(request).map(drop).unwrap_err().to_string();
        let held = engine.find("r").unwrap();
        let started = engine.start(&held, engine.now_ns() + 1_000_000_000).unwrap_err().to_string();
        assert!(started.contains("has trials; StartTrial starts each"), "{started}");

        let passed = StartTrialRequest { at_monotonic_ns: 1, ..request(&engine, 1, (1, 1), 0) };
        assert!(refused(&passed).contains("passed"), "{}", refused(&passed));
        let endless = StartTrialRequest { duration_ns: 0, ..request(&engine, 1, (1, 1), 0) };
        assert_eq!(refused(&endless), "duration_ns: 0; a trial ends by itself");
        let beyond = refused(&request(&engine, 1, (0, 1), 0));
        assert!(beyond.starts_with("rate_factor: "), "{beyond}");

        let first = request(&engine, 1, (1, 1), 0);
        let held = engine.start_trial(&first).unwrap();
        assert!(Arc::ptr_eq(&held, &engine.start_trial(&first).unwrap()));
        let other = StartTrialRequest { rate_factor: Some(Ratio { numerator: 1, denominator: 2 }), ..first.clone() };
        assert_eq!(refused(&other), "trial 1 cannot be started after trial 1: numbers increase");
        let soon = refused(&request(&engine, 2, (1, 1), 0));
        assert_eq!(soon, "trial 1 is under way; wait until it has ended, or Stop it");
        assert_eq!(end(&engine, &held).rx_packets, 2000);
        let held = engine.start_trial(&request(&engine, 2, (1, 1), 0)).unwrap();
        assert_eq!(end(&engine, &held).rx_packets, 2000);
        engine.remove("r");
        engine.close();
    }

    #[test]
    fn both_tags_belong_to_the_run() {
        let engine = engine();
        engine.prepare("r", PLAN.into(), Format::Auto).unwrap();
        let other = |tag: u32, second: u32| {
            let plan = PLAN.replace(r#""runId": "r", "runTag": 7"#, &format!(r#""runId": "o", "runTag": {tag}"#));
            let plan = plan.replace(r#""secondRunTag": 8"#, &format!(r#""secondRunTag": {second}"#));
            engine.prepare("o", plan.into(), Format::Auto).map(drop).unwrap_err().to_string()
        };
        assert_eq!(other(8, 9), r#"run_tag: 8 marks the packets of run "r"; use another, or Remove that run"#);
        assert_eq!(
            other(9, 7),
            r#"trials.second_run_tag: 7 marks the packets of run "r"; use another, or Remove that run"#
        );
        assert_eq!(other(9, 9), "trials.second_run_tag: 9, which is run_tag too; trials alternate between two");
        engine.remove("r");
        engine.close();
    }
}
