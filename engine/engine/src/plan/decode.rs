// SPDX-License-Identifier: Apache-2.0
//! Bytes to a plan: protobuf's binary form, or its canonical JSON.
use super::{MAX_PLAN_BYTES, Violations};
use crate::index::{StreamIndex, TemplateIndex};
use contract::{DataRef, Plan, capture, payload, replay, stream};
use prost::Message;
use prost::bytes::Bytes;
use serde_path_to_error::Segment;
use sha2::{Digest, Sha256};
use spate_stateful::FieldPath;

/// How a plan is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// JSON if it is text that begins with a brace, else binary.
    Auto,
    /// Canonical protobuf JSON.
    Json,
    /// Protobuf's binary form.
    Binary,
}

/// Reads a plan. The field of a violation is where the reading stopped, or `plan` where no field is known.
pub fn plan(bytes: Bytes, format: Format) -> Result<Plan, Violations> {
    let size = bytes.len() as u64;
    if size > MAX_PLAN_BYTES {
        let wrong = format!("{size} bytes; must be at most {MAX_PLAN_BYTES} (20,000 streams of 9 KB frames)");
        return Err(Violations::one("plan", wrong));
    }
    let json = match format {
        Format::Json => true,
        Format::Binary => false,
        Format::Auto => looks_like_json(&bytes),
    };
    let mut plan = if json { from_json(&bytes)? } else { from_binary(bytes)? };
    fill_in(&mut plan)?;
    Ok(plan)
}

/// Puts the plan's data where they are referred to, so that no other code has to look for them.
fn fill_in(plan: &mut Plan) -> Result<(), Violations> {
    let data = std::mem::take(&mut plan.data);
    let mut wrong = Violations::default();
    let mut find = |at: FieldPath, asked: &DataRef| match data.get(asked.index as usize) {
        Some(bytes) if bytes.len() as u64 == asked.bytes => bytes.clone(),
        Some(bytes) => {
            let (index, given, meant) = (asked.index, bytes.len(), asked.bytes);
            wrong.add(at, format!("data[{index}] has {given} bytes; must have {meant}"));
            Bytes::new()
        }
        None => {
            let (index, given) = (asked.index, data.len());
            wrong.add(
                at,
                format!("data[{index}] is missing: the plan came with {given} items of data; add those it refers to"),
            );
            Bytes::new()
        }
    };
    for (i, stream) in plan.streams.iter_mut().enumerate() {
        if let Some(stream::Transmit::Replay(replay)) = &mut stream.transmit
            && let Some(replay::Source::Data(asked)) = &replay.source
        {
            replay.source = Some(replay::Source::Pcap(find(StreamIndex(i).path().field("replay.data"), asked)));
        }
    }
    if let Some(stateful) = &mut plan.stateful {
        for (i, payload) in stateful.payloads.iter_mut().enumerate() {
            if let Some(payload::Content::Data(asked)) = &payload.content {
                let at = FieldPath::from("stateful.payloads").index(i).field("data");
                payload.content = Some(payload::Content::Bytes(find(at, asked)));
            }
        }
        for (i, template) in stateful.templates.iter_mut().enumerate() {
            if let Some(capture) = &mut template.capture
                && let Some(capture::Source::Data(asked)) = &capture.source
            {
                let at = TemplateIndex(i).path().field("capture.data");
                capture.source = Some(capture::Source::Pcap(find(at, asked)));
            }
        }
    }
    wrong.or(())
}

/// The digest that distinguishes runs with one id: SHA-256 of the plan's bytes as they were received.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn looks_like_json(bytes: &[u8]) -> bool {
    let begins = bytes.iter().find(|b| !b.is_ascii_whitespace());
    begins == Some(&b'{') && std::str::from_utf8(bytes).is_ok()
}

fn from_binary(bytes: Bytes) -> Result<Plan, Violations> {
    Plan::decode(bytes).map_err(|e| Violations::one("plan", format!("not a valid binary plan: {e}")))
}

fn from_json(bytes: &[u8]) -> Result<Plan, Violations> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let plan = serde_path_to_error::deserialize(&mut reader).map_err(|e| {
        let path = field_path(e.path());
        let path = if path.is_empty() { "plan".into() } else { path };
        Violations::one(path, e.into_inner().to_string())
    })?;
    reader.end().map_err(|e| Violations::one("plan", format!("something follows the plan: {e}")))?;
    Ok(plan)
}

/// Where the reading of JSON stopped. JSON has `txPort`, the contract has `tx_port`; paths are reported in the contract's names.
fn field_path(stopped: &serde_path_to_error::Path) -> FieldPath {
    stopped.iter().fold(FieldPath::default(), |path, segment| match segment {
        Segment::Seq { index } => path.index(*index),
        Segment::Map { key } => path.key(snake_case(key)),
        Segment::Enum { variant } => path.key(snake_case(variant)),
        Segment::Unknown => path,
    })
}

fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<Plan, Violations> {
        plan(Bytes::copy_from_slice(text.as_bytes()), Format::Auto)
    }

    #[test]
    fn json_and_binary_say_the_same() {
        let text = r#"{"runId": "r", "runTag": 7, "timing": {"durationNs": "1000000000"},
            "streams": [{"name": "s", "txPort": "l", "packet": {"frame": "AAEC"},
            "continuous": {"rate": {"packetsPerSecond": {"numerator": "1", "denominator": "3"}}}}]}"#;
        let from_text = json(text).unwrap();
        assert_eq!(from_text.streams[0].packet.as_ref().unwrap().frame.as_ref(), [0, 1, 2]);
        let binary = Bytes::from(from_text.encode_to_vec());
        assert_eq!(plan(binary, Format::Auto).unwrap(), from_text);
    }

    #[test]
    fn data_come_to_where_they_are_referred_to() {
        let text = r#"{"streams": [{"replay": {"data": {"index": 1, "bytes": "3"}}}],
            "stateful": {"payloads": [{"data": {"bytes": "2"}}], "templates": [{"capture": {"data": {"index": 1, "bytes": "3"}}}]}}"#;
        let kept = serde_json::from_str::<Plan>(text).unwrap().encode_to_vec();
        let beside = Plan { data: vec![vec![1, 2].into(), vec![3, 4, 5].into()], ..Plan::default() }.encode_to_vec();
        let whole = plan(Bytes::from([&kept[..], &beside].concat()), Format::Binary).unwrap();
        let filled = r#"{"streams": [{"replay": {"pcap": "AwQF"}}],
            "stateful": {"payloads": [{"bytes": "AQI="}], "templates": [{"capture": {"pcap": "AwQF"}}]}}"#;
        assert_eq!(whole, json(filled).unwrap());

        let missing = plan(Bytes::from(kept.clone()), Format::Binary).unwrap_err();
        let fields: Vec<String> = missing.0.iter().map(|one| one.field.to_string()).collect();
        assert_eq!(
            fields,
            ["streams[0].replay.data", "stateful.payloads[0].data", "stateful.templates[0].capture.data"]
        );
        let others = Plan { data: vec![vec![1, 2, 9].into(), vec![3, 4, 5].into()], ..Plan::default() }.encode_to_vec();
        let wrong = plan(Bytes::from([kept, others].concat()), Format::Binary).unwrap_err();
        assert_eq!(wrong.to_string(), "stateful.payloads[0].data: data[0] has 3 bytes; must have 2");
    }

    #[test]
    fn an_error_names_the_field() {
        let cases = [
            (r#"{"streams": [{}, {"packet": {"frame": "%"}}]}"#, "streams[1].packet.frame"),
            (r#"{"streams": [{"txPort": 5}]}"#, "streams[0].tx_port"),
            (r#"{"timing": {"durationNs": "-1"}}"#, "timing.duration_ns"),
            (r#"{"timing": {"durationNs": 1"#, "timing"),
            (r#"{"stream": []}"#, "stream"),
            (r#"{} {}"#, "plan"),
            ("\u{1}", "plan"),
        ];
        for (text, field) in cases {
            let wrong = json(text).expect_err(text);
            assert_eq!(wrong.0[0].field.to_string(), field, "{text}: {wrong}");
        }
    }
}
