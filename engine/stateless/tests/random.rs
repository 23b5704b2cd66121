// SPDX-License-Identifier: Apache-2.0
//! Are random fields as random as they must be? Chi-square over ranges, bits and followers, by fixed seeds: the values are a
//! function of the seed, so what passes once passes always.
use spate_net::Trailer;
use spate_stateless::{
    Blueprint, FieldProgram, Frames, Lanes, ListOrder, Numbers, PIECE, Sequence, Template, Variable, WorkerShare, Write,
};

/// Where the value is written, as 8 bytes.
const AT: usize = 20;
const SEEDS: [u64; 4] = [0, 1, 7, u64::MAX];

struct Buffer(Vec<u8>);

impl Frames for Buffer {
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        self.0[first * PIECE..].chunks_exact_mut(PIECE).take(lens.len())
    }
}

/// The first `count` values of a sequence, as packets carry them.
fn values(sequence: Sequence, count: usize) -> Vec<u64> {
    const BATCH: usize = 64;
    let template = Template::new(&Blueprint {
        frame: vec![0; 60],
        program: FieldProgram {
            variables: vec![Variable { sequence, after: None, limit: 0, per_worker: false }],
            writes: vec![Write { variable: 0, offset: AT, size: 8, add: 0, shift: 0, mask: 0, little_endian: false }],
        },
        ..Blueprint::default()
    })
    .unwrap();
    let mut writer = template.writer(WorkerShare { first: 0, stride: 1 });
    let mut buffer = Buffer(vec![0; BATCH * 60usize.next_multiple_of(PIECE)]);
    let mut lanes = Lanes::new();
    let stamp = Trailer { run_tag: 1, stream: 0, sender: 0, measured: false, sequence: 0, timestamp: 0 };
    let mut all = Vec::with_capacity(count + BATCH);
    while all.len() < count {
        let number = all.len() as u64;
        let numbers = Numbers { number, sequence: number, count: BATCH };
        template.write(&mut writer, &mut lanes, numbers, stamp, &mut buffer, 0);
        for index in 0..BATCH {
            let bytes: [u8; 8] = buffer.0[index * PIECE + AT..][..8].try_into().unwrap();
            all.push(u64::from_be_bytes(bytes));
        }
    }
    all.truncate(count);
    all
}

fn random(min: u64, max: u64, seed: u64) -> Sequence {
    Sequence::Random { min, max, seed }
}

/// How far counts are from even, in standard deviations of chi-square (by Wilson and Hilferty); high is bad, very low too.
fn deviation(counts: &[u64]) -> f64 {
    let even = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let square: f64 = counts.iter().map(|&count| (count as f64 - even).powi(2) / even).sum();
    let freedom = (counts.len() - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    ((square / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// 1 of some 300,000 good generators is further off; those of a test together are some hundred.
#[track_caller]
fn assert_even(counts: &[u64], what: &str) {
    let off = deviation(counts);
    assert!(off.abs() < 4.7, "{what}: {off:.1} standard deviations from even");
}

#[test]
fn every_value_of_a_small_range_comes_as_often() {
    for seed in SEEDS {
        for (min, size) in [(0, 2), (5, 3), (1025, 10), (0, 100), (16, 256), (1 << 40, 1000)] {
            let mut counts = vec![0; size];
            for value in values(random(min, min + size as u64 - 1, seed), 200 * size) {
                counts[(value - min) as usize] += 1;
            }
            assert_even(&counts, &format!("{size} values from {min}, seed {seed}"));
        }
    }
}

#[test]
fn a_large_range_is_filled_evenly_to_its_ends() {
    // No power of two, so that a modulo or a scaling that is not right shows.
    for (min, max) in
        [(0x1000_0000, 0x1200_00fe), (0, 3 << 62), (1025, 65_000), (0, u64::MAX), (0, u64::from(u32::MAX))]
    {
        for seed in SEEDS {
            const PARTS: usize = 97;
            let mut counts = vec![0; PARTS];
            let (mut low, mut high) = (u64::MAX, 0);
            for value in values(random(min, max, seed), 100_000) {
                assert!((min..=max).contains(&value));
                (low, high) = (low.min(value), high.max(value));
                counts[(u128::from(value - min) * PARTS as u128 / (u128::from(max - min) + 1)) as usize] += 1;
            }
            assert_even(&counts, &format!("{min}..={max}, seed {seed}"));
            // The chance that nothing comes within a thousandth of an end is e^-100.
            let near = (max - min) / 1000 + 1;
            assert!(low - min <= near && max - high <= near, "{low} to {high} of {min}..={max}");
        }
    }
}

#[test]
fn all_values_of_16_bits_come_and_every_bit_is_as_often_set_as_not() {
    // TRex's 15-bit generator never reaches half of them.
    let mut seen = vec![false; 1 << 16];
    for value in values(random(0, 0xffff, 3), 1 << 20) {
        seen[value as usize] = true;
    }
    // 65,536 * e^-16 values are missing by chance: none.
    assert!(seen.iter().filter(|seen| !**seen).count() <= 2);
    for seed in SEEDS {
        let all = values(random(0, u64::MAX, seed), 100_000);
        for bit in 0..64 {
            let set = all.iter().filter(|value| *value >> bit & 1 == 1).count() as u64;
            assert_even(&[set, all.len() as u64 - set], &format!("bit {bit}, seed {seed}"));
        }
        for bit in 0..63 {
            // Neighbours: no bit predicts the next.
            let mut pairs = [0; 4];
            all.iter().for_each(|value| pairs[(value >> bit & 3) as usize] += 1);
            assert_even(&pairs, &format!("bits {bit} and {}, seed {seed}", bit + 1));
        }
    }
}

#[test]
fn a_value_does_not_predict_the_next_nor_one_seed_another() {
    const SIDE: usize = 16;
    let range = |seed| values(random(0, SIDE as u64 - 1, seed), 200_000);
    for seed in SEEDS {
        let all = range(seed);
        for lag in [1, 2, 64] {
            let mut pairs = vec![0; SIDE * SIDE];
            all.iter().zip(&all[lag..]).for_each(|(a, b)| pairs[*a as usize * SIDE + *b as usize] += 1);
            assert_even(&pairs, &format!("values {lag} apart, seed {seed}"));
        }
        let mut pairs = vec![0; SIDE * SIDE];
        let other = range(seed.wrapping_add(1));
        all.iter().zip(&other).for_each(|(a, b)| pairs[*a as usize * SIDE + *b as usize] += 1);
        assert_even(&pairs, &format!("seeds {seed} and the next"));
    }
}

#[test]
fn a_list_in_random_order_shows_every_value_as_often() {
    let list: Vec<u64> = (0..37).map(|index| index * 1_000_003).collect();
    for seed in SEEDS {
        let mut counts = vec![0; list.len()];
        let sequence = Sequence::List { values: list.clone(), order: ListOrder::Random, seed };
        for value in values(sequence, 20_000) {
            counts[(value / 1_000_003) as usize] += 1;
        }
        assert_even(&counts, &format!("list, seed {seed}"));
    }
}

#[test]
fn the_same_seed_gives_the_same_values_and_another_gives_others() {
    let of = |seed| values(random(0, u64::MAX, seed), 10_000);
    assert_eq!(of(5), of(5));
    assert!(of(5).iter().zip(&of(6)).all(|(a, b)| a != b));
}
