// SPDX-License-Identifier: Apache-2.0
//! What templates send.
use super::super::Violations;
use contract::{Stateful, payload, payload_field};
use spate_stateful::Payload;

/// Payloads of a plan, at most.
const MOST_PAYLOADS: usize = 1 << 20;
/// Bytes of a pattern, at most: years of sending at 100 Gbit/s.
const LONGEST_PATTERN: u64 = 1 << 60;
/// Digits of the greatest 64-bit number.
const MOST_DIGITS: u32 = 20;

/// The payloads of a plan, in its order; as many, even where something is wrong.
pub fn payloads(asked: &Stateful, wrong: &mut Violations) -> Vec<Payload> {
    if asked.payloads.len() > MOST_PAYLOADS {
        let problem = format!("{} of them; must be at most {MOST_PAYLOADS}", asked.payloads.len());
        wrong.add("stateful.payloads", problem);
    }
    asked.payloads.iter().enumerate().map(|(i, asked)| one(&format!("stateful.payloads[{i}]"), asked, wrong)).collect()
}

fn one(at: &str, asked: &contract::Payload, wrong: &mut Violations) -> Payload {
    let payload = match &asked.content {
        Some(payload::Content::Bytes(bytes)) => Payload::bytes(&bytes[..]),
        Some(payload::Content::Size(size)) if *size > LONGEST_PATTERN => {
            wrong.add(format!("{at}.size"), format!("{size}; must be at most {LONGEST_PATTERN}"));
            Payload::pattern(0)
        }
        Some(payload::Content::Size(size)) => Payload::pattern(*size),
        None => {
            wrong.add(at, "empty; set bytes or size");
            Payload::pattern(0)
        }
    };
    for (i, field) in asked.fields.iter().enumerate() {
        check_field(&format!("{at}.fields[{i}]"), field, payload.len(), wrong);
    }
    payload
}

/// Whether a field lies in its payload, and has values.
fn check_field(at: &str, field: &contract::PayloadField, len: u64, wrong: &mut Violations) {
    let width = match &field.values {
        Some(payload_field::Values::List(list)) => {
            let width = list.values.first().map_or(0, |value| value.len());
            if width == 0 {
                wrong.add(format!("{at}.list.values"), "none, or empty; must be at least one of at least 1 byte");
            }
            if let Some(other) = list.values.iter().position(|value| value.len() != width) {
                let problem = format!("{} bytes; must have {width}, as the first", list.values[other].len());
                wrong.add(format!("{at}.list.values[{other}]"), problem);
            }
            width as u64
        }
        Some(payload_field::Values::Counter(counter)) => {
            if !(1..=MOST_DIGITS).contains(&counter.width) {
                wrong.add(format!("{at}.counter.width"), format!("{}; must be 1..{MOST_DIGITS}", counter.width));
            }
            counter.width.into()
        }
        None => {
            wrong.add(at, "has no values; set list or counter");
            return;
        }
    };
    if field.offset.checked_add(width).is_none_or(|end| end > len) {
        let problem = format!("{width} bytes at {} reach beyond the payload's {len} bytes", field.offset);
        wrong.add(format!("{at}.offset"), problem);
    }
}
