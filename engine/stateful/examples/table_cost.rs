// SPDX-License-Identifier: Apache-2.0
//! Is the table that finds flows faster than hashbrown's? Both hold a number of flows (a million by default), ours with this many
//! cells to spare (as many again, as it has over IPv4; a third over IPv6), with the same 32-bit hashes, in runs that take turns;
//! printed are medians, and hashbrown's time by ours. What is found is looked at in the flow, which has a cache line of its own.
//!
//! ```sh
//! cargo run --release -p spate-stateful --example table_cost -- 1000000 1000000
//! ```
use std::{env, hint::black_box, time::Instant};

use hashbrown::HashTable;
use spate_stateful::{flow::FlowIndex, random::Numbers, table::Table};

const ROUNDS: usize = 21;
/// Of each in a run.
const STEPS: usize = 500_000;
const BURST: usize = 32;

/// What is read of a flow, of a line's size.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Flow {
    hash: u32,
    key: u32,
}

trait Finds {
    fn fetch(&self, _hash: u32) {}
    fn find(&self, flows: &[Flow], hash: u32, key: u32) -> Option<u32>;
    fn insert(&mut self, flows: &[Flow], hash: u32, index: u32);
    fn remove(&mut self, hash: u32, index: u32);
}

impl Finds for Table<FlowIndex> {
    fn fetch(&self, hash: u32) {
        Table::fetch(self, hash);
    }

    #[inline]
    fn find(&self, flows: &[Flow], hash: u32, key: u32) -> Option<u32> {
        let found = Table::find(self, hash, |index| flows[index.position()].key == key);
        found.map(|index| index.position() as u32)
    }

    #[inline]
    fn insert(&mut self, _flows: &[Flow], hash: u32, index: u32) {
        Table::insert(self, hash, FlowIndex::new(index));
    }

    #[inline]
    fn remove(&mut self, hash: u32, index: u32) {
        assert!(Table::remove(self, hash, FlowIndex::new(index)));
    }
}

/// It takes the slot from the low bits, and a tag from the highest.
fn wide(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Finds for HashTable<u32> {
    #[inline]
    fn find(&self, flows: &[Flow], hash: u32, key: u32) -> Option<u32> {
        HashTable::find(self, wide(hash), |index| flows[*index as usize].key == key).copied()
    }

    #[inline]
    fn insert(&mut self, flows: &[Flow], hash: u32, index: u32) {
        self.insert_unique(wide(hash), index, |index| wide(flows[*index as usize].hash));
    }

    #[inline]
    fn remove(&mut self, hash: u32, index: u32) {
        self.find_entry(wide(hash), |other| *other == index).expect("it is there").remove();
    }
}

/// Index of one of them.
fn any(flows: &[Flow], random: &mut Numbers) -> usize {
    random.below(flows.len() as u64) as usize
}

/// Flows that are there are looked for.
fn hits(table: &mut impl Finds, flows: &mut [Flow], random: &mut Numbers) {
    for _ in 0..STEPS {
        let Flow { hash, key } = flows[any(flows, random)];
        assert!(table.find(flows, hash, key).is_some());
    }
}

/// As many that are not.
fn misses(table: &mut impl Finds, flows: &mut [Flow], random: &mut Numbers) {
    for _ in 0..STEPS {
        black_box(table.find(flows, random.draw() as u32, u32::MAX));
    }
}

/// A burst's flows are looked for, fetched before where that can be done.
fn bursts(table: &mut impl Finds, flows: &mut [Flow], random: &mut Numbers) {
    for _ in 0..STEPS / BURST {
        let burst: [_; BURST] = core::array::from_fn(|_| flows[any(flows, random)]);
        burst.iter().for_each(|flow| table.fetch(flow.hash));
        for Flow { hash, key } in burst {
            assert!(table.find(flows, hash, key).is_some());
        }
    }
}

/// A flow ends, another begins in its place and is looked for, a present one too.
fn mixed(table: &mut impl Finds, flows: &mut [Flow], random: &mut Numbers) {
    for _ in 0..STEPS / 4 {
        let index = any(flows, random);
        table.remove(flows[index].hash, index as u32);
        flows[index].hash = random.draw() as u32;
        let Flow { hash, key } = flows[index];
        table.insert(flows, hash, index as u32);
        assert!(table.find(flows, hash, key).is_some());
        let Flow { hash, key } = flows[any(flows, random)];
        assert!(table.find(flows, hash, key).is_some());
    }
}

type Run<T> = fn(&mut T, &mut [Flow], &mut Numbers);

/// Its name, and how it runs with each.
type Case = (&'static str, Run<Table<FlowIndex>>, Run<HashTable<u32>>);

/// ns for each step.
fn timed<T>(run: Run<T>, table: &mut T, flows: &mut [Flow], seed: u64) -> f64 {
    let mut random = Numbers::new(seed);
    let start = Instant::now();
    run(table, flows, &mut random);
    start.elapsed().as_nanos() as f64 / STEPS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let number = |n: usize| env::args().nth(n).map(|number| number.parse().expect("a number"));
    let count: u32 = number(1).unwrap_or(1_000_000);
    let spare = number(2).unwrap_or(count) as usize;
    let mut random = Numbers::new(1);
    let mut flows: Vec<_> = (0..count).map(|key| Flow { hash: random.draw() as u32, key }).collect();
    let (mut ours, mut theirs) = (Table::new(count as usize, spare), HashTable::with_capacity(count as usize));
    for flow in &flows {
        Finds::insert(&mut ours, &flows, flow.hash, flow.key);
        Finds::insert(&mut theirs, &flows, flow.hash, flow.key);
    }
    // Each has its own, as they change in turns.
    let mut others = flows.clone();
    let bytes = (Table::<FlowIndex>::bytes(count as usize, spare), theirs.allocation_size());
    println!("{count} flows; bytes: {} and {}", bytes.0, bytes.1);
    println!("{:8} {:>8} {:>10} {:>6}", "ns", "ours", "hashbrown", "ratio");
    let runs: [Case; 4] =
        [("hits", hits, hits), ("misses", misses, misses), ("bursts", bursts, bursts), ("mixed", mixed, mixed)];
    for (name, of_ours, of_theirs) in runs {
        let (mut a, mut b) = (vec![], vec![]);
        for round in 0..ROUNDS as u64 {
            a.push(timed(of_ours, &mut ours, &mut flows, round));
            b.push(timed(of_theirs, &mut theirs, &mut others, round));
        }
        let (ours, theirs) = (median(a), median(b));
        println!("{name:8} {ours:8.1} {theirs:10.1} {:6.2}", theirs / ours);
    }
}
