// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

const ALONE: Share = Share { worker: 0, workers: 1 };
const TREX: Order = Order::Drawn { seed: 555 };

fn timings(rates: &[(u64, u64)]) -> Vec<Timing> {
    rates.iter().map(|rate| Timing { rate: Ratio::new(rate.0, rate.1), limit: 0 }).collect()
}

fn even(rates: &[(u64, u64)]) -> FlowSchedule {
    FlowSchedule::new(&timings(rates), Order::Even, ALONE, 0, 0).unwrap()
}

fn all(mut arrivals: FlowSchedule, before_ns: u64) -> Vec<DueFlow> {
    std::iter::from_fn(|| arrivals.take(before_ns)).collect()
}

/// What TRex's simulator emits of its shared_port example: six templates of one flow a second.
#[test]
fn six_templates_are_spaced_and_drawn_as_captured() {
    let captured = [0, 0, 2, 5, 5, 4, 4, 1, 0, 1, 1, 0, 5, 4, 3, 2, 2, 1, 3, 5, 0, 4, 3, 3, 4, 2, 3, 0, 4, 4];
    let arrivals = FlowSchedule::new(&timings(&[(1, 1); 6]), TREX, ALONE, 0, 0).unwrap();
    let taken = all(arrivals, 5_000_000_000);
    assert_eq!(taken.iter().map(|flow| flow.template).collect::<Vec<_>>(), captured);
    assert!(taken.iter().zip(0..).all(|(flow, n)| flow.due_ns == n * 1_000_000_000 / 6));
}

/// Its param_sch_rampup example: 2.776 flows a second after 5 steps of a second.
#[test]
fn rates_rise_by_steps_as_captured() {
    let up = RampUp { ns: 5_000_000_000, step_ns: 1_000_000_000 };
    let arrivals = FlowSchedule::new(&timings(&[(2776, 1000)]), Order::Even, ALONE, 0, up).unwrap();
    let taken: Vec<_> = all(arrivals, 4_700_000_000).iter().map(|flow| flow.due_ns / 1000).collect();
    assert_eq!(taken, [0, 1_250_000, 2_150_576, 2_750_960, 3_351_344, 3_801_633, 4_251_921, 4_612_151]);
}

/// Its udp_mix example: 10 and 2 flows a second.
#[test]
fn two_templates_are_spaced_and_drawn_as_captured() {
    let arrivals = FlowSchedule::new(&timings(&[(10, 1), (2, 1)]), TREX, ALONE, 117_670_000, 0).unwrap();
    let taken = all(arrivals, 2_600_000_000);
    let second: Vec<_> = (0..30).filter(|n| taken[*n].template == 1).collect();
    assert_eq!(second, [6, 7, 16, 25]);
    assert_eq!(
        [0, 1, 2, 12, 29].map(|n: usize| taken[n].due_ns / 1000),
        [117_670, 201_003, 284_336, 1_117_670, 2_534_336]
    );
}

#[test]
fn slots_are_shared_out_evenly() {
    let taken: Vec<_> = all(even(&[(10, 1), (2, 1)]), 1_000_000_000).iter().map(|flow| flow.template).collect();
    assert_eq!(taken, [0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    let taken: Vec<_> = all(even(&[(1, 2), (0, 1), (1, 3)]), 6_000_000_000).iter().map(|flow| flow.template).collect();
    assert_eq!(taken, [0, 2, 0, 2, 0]);
}

#[test]
fn each_worker_has_flows_of_each_template() {
    for worker in 0..2 {
        let share = Share { worker, workers: 2 };
        let arrivals = FlowSchedule::new(&timings(&[(1000, 1); 2]), Order::Even, share, 0, 0).unwrap();
        let taken = all(arrivals, 1_000_000_000);
        let first = taken.iter().filter(|flow| flow.template == 0).count();
        assert!(taken.len() == 1000 && (400..600).contains(&first), "{first} of {}", taken.len());
    }
}

#[test]
fn nothing_begins_without_a_rate_or_beyond_the_limit() {
    assert_eq!(even(&[]).next_due_ns(), None);
    assert_eq!(even(&[(0, 1), (0, 7)]).next_due_ns(), None);
    let mut arrivals =
        FlowSchedule::new(&[Timing { rate: Ratio::new(5, 1), limit: 3 }], Order::Even, ALONE, 7, 0).unwrap();
    let due: Vec<_> = std::iter::from_fn(|| arrivals.take(u64::MAX)).map(|flow| flow.due_ns).collect();
    assert_eq!(due, [7, 200_000_007, 400_000_007]);
    assert_eq!(arrivals.next_due_ns(), None);
}

#[test]
fn a_template_at_its_limit_leaves_its_slots_empty() {
    let timings = [Timing { rate: Ratio::ONE, limit: 1 }, Timing { rate: Ratio::ONE, limit: 0 }];
    let taken = all(FlowSchedule::new(&timings, Order::Even, ALONE, 0, 0).unwrap(), 3_000_000_000);
    let taken: Vec<_> = taken.iter().map(|flow| (flow.due_ns / 1_000_000, flow.template)).collect();
    assert_eq!(taken, [(0, 0), (500, 1), (1500, 1), (2500, 1)]);
}

#[test]
fn rates_that_are_too_fine_are_refused() {
    let make = |rates: &[(u64, u64)], ramp| FlowSchedule::new(&timings(rates), Order::Even, ALONE, 0, ramp).err();
    assert_eq!(make(&[(1, 1), (u64::MAX, 1)], 0), Some(TimingError::TooFine(1)));
    assert_eq!(make(&[(1, u64::MAX), (1, u64::MAX - 1)], 0), Some(TimingError::TooFine(1)));
    assert_eq!(make(&[(u64::MAX, 7)], u64::MAX), Some(TimingError::RampUp));
    // A million flows a second, to a millionth, over an hour.
    assert_eq!(make(&[(1_000_000_000_001, 1_000_000)], 3_600_000_000_000), None);
}

#[test]
fn a_pause_moves_all_that_follows() {
    let mut arrivals = even(&[(3, 1)]);
    assert_eq!(arrivals.take(1).unwrap().due_ns, 0);
    arrivals.change(100_000_000, Ratio::ZERO);
    assert_eq!(arrivals.next_due_ns(), None);
    arrivals.change(5_100_000_000, Ratio::ONE);
    let due: Vec<_> = std::iter::from_fn(|| arrivals.take(6_000_000_001)).map(|flow| flow.due_ns).collect();
    assert_eq!(due, [5_333_333_333, 5_666_666_666, 6_000_000_000]);
}

#[test]
fn what_is_overdue_at_a_pause_stays_due() {
    let mut arrivals = even(&[(10, 1)]);
    arrivals.change(250_000_000, Ratio::ZERO);
    let due: Vec<_> = std::iter::from_fn(|| arrivals.take(u64::MAX)).map(|flow| (flow.number, flow.due_ns)).collect();
    assert_eq!(due, [(0, 250_000_000), (1, 250_000_000), (2, 250_000_000)]);
}

#[test]
fn draws_come_to_their_rates() {
    let weights = [1, 50, 7, 0, 300, 20];
    let mut turns = Turns::new(TREX, &weights);
    let mut counts = [0u64; 6];
    for _ in 0..378_000 {
        counts[turns.next()] += 1;
    }
    for (count, weight) in counts.iter().zip(weights) {
        assert!(count.abs_diff(weight * 1000) <= 40 + weight * 40, "{counts:?}");
    }
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Even), any::<u32>().prop_map(|seed| Order::Drawn { seed })]
}

fn several() -> impl Strategy<Value = Vec<Timing>> {
    let limit = prop_oneof![Just(0), 1u64..20];
    prop::collection::vec((0u64..50, 1u64..12, limit), 1..8).prop_map(|all| {
        all.into_iter().map(|(flows, per, limit)| Timing { rate: Ratio::new(flows, per), limit }).collect()
    })
}

proptest! {
    #[test]
    fn workers_take_together_what_one_would(
        timings in several(), order in order(), workers in 1u64..9, ramp_up_ns in prop_oneof![Just(0), 1u64..2_000_000_000],
        change in 0u64..4_000_000_000, factor in (0u64..5, 1u64..5),
    ) {
        let of = |share| {
            let mut arrivals = FlowSchedule::new(&timings, order, share, 1000, ramp_up_ns).unwrap();
            let mut taken: Vec<_> = std::iter::from_fn(|| arrivals.take(change)).collect();
            arrivals.change(change, Ratio::new(factor.0, factor.1));
            taken.extend(std::iter::from_fn(|| arrivals.take(6_000_000_000)));
            taken
        };
        let mut split: Vec<_> = (0..workers).flat_map(|worker| of(Share { worker, workers })).collect();
        let mut whole = of(ALONE);
        prop_assert!(whole.is_sorted_by_key(|flow| flow.due_ns));
        let key = |flow: &DueFlow| (flow.template, flow.number);
        split.sort_unstable_by_key(key);
        whole.sort_unstable_by_key(key);
        prop_assert_eq!(&split, &whole);
        let numbers = whole.chunk_by(|a, b| a.template == b.template);
        for flows in numbers {
            prop_assert!(flows.iter().zip(0..).all(|(flow, n)| flow.number == n));
            let limit = timings[flows[0].template].limit;
            prop_assert!(limit == 0 || flows.len() as u64 <= limit);
        }
    }

    #[test]
    fn a_template_has_its_share_of_all_slots(timings in several(), seconds in 1u64..50) {
        let timings: Vec<_> = timings.into_iter().map(|timing| Timing { limit: 0, ..timing }).collect();
        let (weights, per) = weights(&timings).unwrap();
        let sum: u64 = weights.iter().sum();
        let taken = all(FlowSchedule::new(&timings, Order::Even, ALONE, 0, 0).unwrap(), seconds * 1_000_000_000);
        prop_assert_eq!(taken.len() as u64, (seconds * sum).div_ceil(per));
        let mut counts = vec![0; timings.len()];
        for (flow, slots) in taken.iter().zip(1u64..) {
            counts[flow.template] += 1;
            for (count, weight) in counts.iter().zip(&weights) {
                // Compared over the sum: at most one ahead, and behind by what others may be ahead.
                let (has, due) = (count * sum, slots * weight);
                prop_assert!(has < due + sum && due <= has + weight * timings.len() as u64 + sum);
            }
        }
        // Where rounds are complete, so is each one's share.
        let round = all(FlowSchedule::new(&timings, Order::Even, ALONE, 0, 0).unwrap(), per * 1_000_000_000);
        for (template, weight) in weights.iter().enumerate() {
            prop_assert_eq!(round.iter().filter(|flow| flow.template == template).count() as u64, *weight);
        }
    }

    #[test]
    fn rates_rise_linearly_and_exactly(flows in 1u64..3000, per in 1u64..9, ramp in 1u64..5_000_000_000) {
        let arrivals = FlowSchedule::new(&timings(&[(flows, per)]), Order::Even, ALONE, 0, ramp).unwrap();
        let taken = all(arrivals, ramp + 1_000_000_000);
        prop_assert!(taken.is_sorted_by_key(|flow| flow.due_ns));
        let (flows, per, ramp) = (u128::from(flows), u128::from(per) * SECOND, u128::from(ramp));
        // Slots whose time is t or later, by the area under the rate.
        let before_end = taken.iter().filter(|flow| u128::from(flow.due_ns) < ramp).count() as u128;
        prop_assert_eq!(before_end, (flows * ramp).div_ceil(2 * per));
        for flow in &taken {
            let (n, due) = (u128::from(flow.number), u128::from(flow.due_ns));
            if due < ramp {
                prop_assert!(due * due * flows <= 2 * n * ramp * per && 2 * n * ramp * per < (due + 1) * (due + 1) * flows);
            } else {
                prop_assert_eq!(due, (ramp * flows + 2 * n * per) / (2 * flows));
            }
        }
    }

    #[test]
    fn each_gap_is_that_of_its_step(flows in 1u64..3000, per in 1u64..9, steps in 1u64..9, step in 1u64..900_000_000, workers in 1u64..5) {
        let up = RampUp { ns: steps * step, step_ns: step };
        let of = |share| FlowSchedule::new(&timings(&[(flows, per)]), Order::Even, share, 0, up).unwrap();
        let end = steps * step + 1_000_000_000;
        let mut taken: Vec<_> = (0..workers).flat_map(|worker| all(of(Share { worker, workers }), end)).collect();
        taken.sort_by_key(|flow| flow.number);
        prop_assert_eq!(&taken, &all(of(ALONE), end));
        for pair in taken.windows(2) {
            let at = (pair[0].due_ns / step + 1).min(steps);
            let gap = (per as f64 * 1e9 * steps as f64) / (flows * at) as f64;
            let gap = if pair[0].due_ns < steps * step { gap.min((steps * step) as f64 / 4.0) } else { gap };
            let got = (pair[1].due_ns - pair[0].due_ns) as f64;
            // What is due within a nanosecond of a step's end may be of either.
            let near_end = pair[0].due_ns % step > step - 2 || pair[0].due_ns % step < 2;
            prop_assert!((got - gap).abs() < 2.0 || near_end, "{got} behind {:?}, want {gap}", pair[0]);
        }
    }

    #[test]
    fn changes_keep_the_phase(
        flows in 1u64..3000, per in 1u64..9,
        changes in prop::collection::vec((0u64..400_000_000, (0u64..9, 1u64..9)), 0..6),
    ) {
        let mut arrivals = FlowSchedule::new(&timings(&[(flows, per)]), Order::Even, ALONE, 0, 0).unwrap();
        let (mut at, mut position, mut speed) = (0, 0.0, flows as f64 / per as f64 / 1e9);
        let full = speed;
        let mut next = 0u64;
        for (after, factor) in changes.into_iter().chain([(3_000_000_000, (1, 1))]) {
            let to = at + after;
            while let Some(flow) = arrivals.take(to) {
                prop_assert_eq!(flow.number, next);
                next += 1;
                let expected = position + (flow.due_ns.max(at) - at) as f64 * speed;
                prop_assert!((expected - flow.number as f64).abs() <= 2.0 * speed + 1e-6, "{expected} {flow:?}");
            }
            position += after as f64 * speed;
            prop_assert!(((next as f64) - position.ceil()).abs() <= 1.0);
            arrivals.change(to, Ratio::new(factor.0, factor.1));
            (at, speed) = (to, full * factor.0 as f64 / factor.1 as f64);
        }
    }

    #[test]
    fn who_comes_late_gets_all_one_by_one(timings in several(), order in order(), ramp in 0u64..1_000_000_000) {
        let make = || FlowSchedule::new(&timings, order, ALONE, 0, ramp).unwrap();
        let late = all(make(), 3_000_000_000);
        let mut arrivals = make();
        let timely: Vec<_> = (0..=300).flat_map(|n| {
            let before = n * 10_000_000;
            std::iter::from_fn(|| arrivals.take(before)).inspect(|flow| assert!(flow.due_ns < before)).collect::<Vec<_>>()
        }).collect();
        prop_assert_eq!(timely, late);
    }
}

fn flow_schedule(rates: &[(u64, u64)], share: Share, ramp_ns: u64) -> Box<FlowSchedule> {
    Box::new(FlowSchedule::new(&timings(rates), Order::Even, share, 0, ramp_ns).unwrap())
}

#[test]
fn other_rates_begin_a_row_and_flows_go_on_to_be_numbered() {
    let mut arrivals = even(&[(10, 1), (5, 1)]);
    arrivals.change_rates(1_000_000_000, flow_schedule(&[(0, 1), (20, 1)], ALONE, 0));
    arrivals.change_rates(1_500_000_000, flow_schedule(&[(2, 1), (0, 1)], ALONE, 0));
    let taken = all(arrivals, 3_000_000_000);
    let of = |template| {
        taken.iter().filter(move |flow| flow.template == template).map(|flow| (flow.number, flow.due_ns / 1_000_000))
    };
    // 10 in the first second, none in the next half, and two a second from there.
    assert_eq!(of(0).skip(9).collect::<Vec<_>>(), [(9, 933), (10, 1500), (11, 2000), (12, 2500)]);
    assert_eq!(of(1).skip(4).map(|(number, _)| number).collect::<Vec<_>>(), (4..15).collect::<Vec<_>>());
    assert_eq!((of(1).nth(5), of(1).next_back()), (Some((5, 1000)), Some((14, 1450))));
}

#[test]
fn what_is_overdue_when_rates_change_stays_due_and_what_stood_begins_again() {
    let mut arrivals = even(&[(10, 1)]);
    arrivals.change_rates(500_000_000, flow_schedule(&[(0, 1)], ALONE, 0));
    arrivals.change(700_000_000, Ratio::new(1, 2));
    arrivals.change_rates(1_000_000_000, flow_schedule(&[(10, 1)], ALONE, 0));
    let due: Vec<_> = all(arrivals, 1_500_000_000).iter().map(|flow| flow.due_ns / 1_000_000).collect();
    // Five late ones, and then at half of the speed.
    assert_eq!(due, [700, 700, 700, 700, 700, 1000, 1200, 1400]);
}

#[test]
fn limits_hold_over_rows() {
    let limited = |flows| {
        FlowSchedule::new(&[Timing { rate: Ratio::new(flows, 1), limit: 12 }], Order::Even, ALONE, 0, 0).unwrap()
    };
    let mut arrivals = limited(10);
    arrivals.change_rates(1_000_000_000, Box::new(limited(100)));
    let due: Vec<_> = all(arrivals.clone(), u64::MAX).iter().map(|flow| flow.due_ns / 1_000_000).collect();
    assert_eq!(due[9..], [900, 1000, 1010]);
    // One that is at its limit has no more in another schedule.
    arrivals.change_rates(2_000_000_000, Box::new(limited(100)));
    assert_eq!(all(arrivals, u64::MAX).len(), 12);
}

#[test]
fn steps_go_on_in_another_row() {
    // 100 a second after 4 steps: 25, 50, and from there on twice as many.
    let up = RampUp { ns: 4_000_000_000, step_ns: 1_000_000_000 };
    let made = |rate| FlowSchedule::new(&timings(&[(rate, 1)]), Order::Even, ALONE, 0, up).unwrap();
    let mut arrivals = made(100);
    arrivals.change_rates(2_000_000_000, Box::new(made(200)));
    let taken = all(arrivals, 6_000_000_000);
    let before = |ns| taken.iter().filter(|flow| flow.due_ns < ns).count();
    assert_eq!([1, 2, 3, 4, 5, 6].map(|s| before(s * 1_000_000_000)), [25, 75, 225, 425, 625, 825]);
    assert!(taken.is_sorted_by_key(|flow| flow.due_ns));
}

#[test]
fn a_ramp_goes_on_in_another_row() {
    // To 100 a second in 10 s: 500 flows, of which 125 in the first half; from there on twice as many.
    let mut arrivals = FlowSchedule::new(&timings(&[(100, 1)]), Order::Even, ALONE, 0, 10_000_000_000).unwrap();
    arrivals.change_rates(5_000_000_000, flow_schedule(&[(200, 1)], ALONE, 10_000_000_000));
    let taken = all(arrivals, 12_000_000_000);
    let before = |ns| taken.iter().filter(|flow| flow.due_ns < ns).count();
    assert_eq!([5, 10, 11, 12].map(|s| before(s * 1_000_000_000)), [125, 125 + 750, 125 + 950, 125 + 1150]);
    assert!(taken.is_sorted_by_key(|flow| flow.due_ns));
}

proptest! {
    #[test]
    fn workers_together_begin_what_one_would_though_rates_change(
        rates in prop::collection::vec(prop::collection::vec((0u64..50, 1u64..4), 3), 1..5), workers in 1u64..5,
        steps in prop::collection::vec(0u64..900_000_000, 4), ramp in prop::sample::select(vec![0u64, 700_000_000]), drawn: bool,
    ) {
        let order = if drawn { TREX } else { Order::Even };
        let of = |share: Share| {
            let made = |rates: &[(u64, u64)]| FlowSchedule::new(&timings(rates), order, share, 0, ramp).unwrap();
            let mut arrivals = made(&rates[0]);
            let mut at = 0;
            for (rates, step) in rates[1..].iter().zip(&steps) {
                at += step;
                arrivals.change_rates(at, Box::new(made(rates)));
            }
            all(arrivals, 4_000_000_000)
        };
        let alone = of(ALONE);
        let mut together: Vec<DueFlow> = (0..workers).flat_map(|worker| of(Share { worker, workers })).collect();
        let key = |flow: &DueFlow| (flow.due_ns, flow.template, flow.number);
        let mut sorted = alone.clone();
        sorted.sort_by_key(key);
        together.sort_by_key(key);
        prop_assert_eq!(together, sorted);
        for template in 0..3 {
            let numbers: Vec<u64> = alone.iter().filter(|flow| flow.template == template).map(|flow| flow.number).collect();
            prop_assert_eq!(&numbers, &(0..numbers.len() as u64).collect::<Vec<_>>());
        }
    }
}
