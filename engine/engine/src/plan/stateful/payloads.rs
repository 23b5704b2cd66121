// SPDX-License-Identifier: Apache-2.0
//! What templates send.
use super::super::Violations;
use contract::{Stateful, payload, payload_field};
use spate_stateful::payload::{Field, MAX_BYTES_WITH_FIELDS, Values};
use spate_stateful::{FieldPath, Payload};

/// Payloads of a plan, at most: flows have 16 bits for the number of one.
const MAX_PAYLOADS: usize = 1 << 16;
/// Bytes of a pattern, at most: years of sending at 100 Gbit/s.
const MAX_PATTERN_BYTES: u64 = 1 << 60;

/// The payloads of a plan, in its order; as many, even where something is wrong.
pub fn payloads(asked: &Stateful, wrong: &mut Violations) -> Vec<Payload> {
    if asked.payloads.len() > MAX_PAYLOADS {
        let problem = format!("{} of them; must be at most {MAX_PAYLOADS}", asked.payloads.len());
        wrong.add("stateful.payloads", problem);
    }
    let all = FieldPath::from("stateful.payloads");
    asked.payloads.iter().enumerate().map(|(i, asked)| one(&all.index(i), asked, wrong)).collect()
}

fn one(at: &FieldPath, asked: &contract::Payload, wrong: &mut Violations) -> Payload {
    let payload = match &asked.content {
        Some(payload::Content::Bytes(bytes)) => Payload::bytes(&bytes[..]),
        Some(payload::Content::Size(size)) if *size > MAX_PATTERN_BYTES => {
            wrong.add(at.field("size"), format!("{size}; must be at most {MAX_PATTERN_BYTES}"));
            return Payload::pattern(0);
        }
        Some(payload::Content::Size(size)) => Payload::pattern(*size),
        // Data were filled in when the plan was decoded.
        Some(payload::Content::Data(_)) | None => {
            wrong.add(at, "empty; set bytes or size");
            return Payload::pattern(0);
        }
    };
    if asked.fields.is_empty() {
        return payload;
    }
    if payload.len() > MAX_BYTES_WITH_FIELDS {
        let problem = format!(
            "are of a payload of {} bytes; one with fields has at most {MAX_BYTES_WITH_FIELDS}: send the rest as another payload",
            payload.len()
        );
        wrong.add(at.field("fields"), problem);
        return payload;
    }
    let before = wrong.0.len();
    let field = |(i, asked)| field(&at.field("fields").index(i), asked, wrong);
    let fields: Vec<Field> = asked.fields.iter().enumerate().filter_map(field).collect();
    if wrong.0.len() > before {
        return payload;
    }
    payload.with_fields(fields).unwrap_or_else(|error| {
        wrong.add(at.join(&error.field()), error.to_string());
        Payload::pattern(0)
    })
}

/// A field, or none, and a violation says why. Whether it fits is checked with the payload.
fn field(at: &FieldPath, asked: &contract::PayloadField, wrong: &mut Violations) -> Option<Field> {
    let values = match &asked.values {
        Some(payload_field::Values::List(list)) => {
            Values::List(list.values.iter().map(|value| Box::from(&value[..])).collect())
        }
        Some(payload_field::Values::Counter(counter)) => Values::Counter {
            first: counter.first,
            step: counter.step,
            width: u8::try_from(counter.width).unwrap_or(u8::MAX),
        },
        None => {
            wrong.add(at, "has no values; set list or counter");
            return None;
        }
    };
    Some(Field { offset: asked.offset, values })
}
