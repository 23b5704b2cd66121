// SPDX-License-Identifier: Apache-2.0
//! A plan without fault to what the datapath prepares, on the ports it found.
use super::rate::LineRate;
use super::validate::{Checked, PortFacts};
use super::{Violation, Violations};
use crate::datapath::{self, PortInfo, PrepareError, RunSpec, StreamSpec};
use contract::Plan;
use spate_stateless::{Template, TemplateError};

/// The address of ports that are only thought of.
const SIMULATED_MAC: [u8; 6] = [0x02, 0x53, 0, 0, 0, 0];

/// What validation must know of an open port; `claimed_bits` is what other runs already take of it.
pub fn port_facts(port: &PortInfo, claimed_bits: u128) -> PortFacts {
    PortFacts {
        name: port.name.clone(),
        line_rate: port.line_rate_bps.map_or(LineRate::Unknown, LineRate::Known),
        mtu: (port.mtu > 0).then_some(port.mtu),
        claimed_bits,
    }
}

/// The run of a plan that was validated at the site of these ports.
pub fn run_spec(plan: &Plan, checked: &Checked, ports: &[PortInfo]) -> Result<RunSpec, Violations> {
    let timing = plan.timing.unwrap_or_default();
    let mut wrong = Violations::default();
    let mut streams = Vec::with_capacity(plan.streams.len());
    for (i, (stream, found)) in plan.streams.iter().zip(&checked.streams).enumerate() {
        let mac = ports.get(found.tx_port).map(|port| port.mac);
        match (template(stream, mac.unwrap_or_default()), found.rate) {
            (Ok(template), Some(rate)) => streams.push(StreamSpec {
                name: stream.name.clone(),
                id: stream.id as u16,
                tx_port: found.tx_port,
                rx_port: found.rx_port,
                template,
                rate,
                enabled: !stream.disabled,
            }),
            (Ok(_), None) => wrong.add(format!("streams[{i}].continuous.rate"), "waits for a line rate"),
            (Err(error), _) => wrong.0.push(template_violation(i, &error)),
        }
    }
    let spec = RunSpec {
        run_id: plan.run_id.clone(),
        tag: plan.run_tag as u16,
        timing: datapath::Timing {
            warmup_ns: timing.warmup_ns,
            duration_ns: (timing.duration_ns > 0).then_some(timing.duration_ns),
            drain_ns: timing.drain_ns,
        },
        late_after_ns: (plan.late_after_ns > 0).then_some(plan.late_after_ns),
        share: checked.share,
        streams,
    };
    wrong.or(spec)
}

/// The packets of a stream, sent from a port with address `mac`.
pub fn template(stream: &contract::Stream, mac: [u8; 6]) -> Result<Template, TemplateError> {
    let packet = stream.packet.clone().unwrap_or_default();
    let sums: Vec<spate_stateless::Checksum> = packet.checksums.iter().map(checksum).collect();
    let measured = stream.measure.is_some_and(|m| m.flow);
    if packet.source_mac_from_port && packet.frame.len() >= 12 {
        let mut frame = packet.frame.to_vec();
        frame[6..12].copy_from_slice(&mac);
        Template::new(&frame, &sums, measured)
    } else {
        Template::new(&packet.frame, &sums, measured)
    }
}

/// Tries a stream's packets on a port of no known address; what is wrong with them is noted.
pub fn check_template(index: usize, stream: &contract::Stream, wrong: &mut Violations) -> Option<Template> {
    match template(stream, SIMULATED_MAC) {
        Ok(template) => Some(template),
        Err(error) => {
            wrong.0.push(template_violation(index, &error));
            None
        }
    }
}

fn checksum(sum: &contract::Checksum) -> spate_stateless::Checksum {
    spate_stateless::Checksum {
        offset: sum.offset as usize,
        start: sum.start as usize,
        end: sum.end as usize,
        pseudo_header_sum: sum.pseudo_header_sum,
        zero_means_absent: sum.zero_means_absent,
    }
}

fn template_violation(stream: usize, error: &TemplateError) -> Violation {
    let (field, description) = match error {
        TemplateError::FrameLength(_) => (format!("streams[{stream}].packet.frame"), error.to_string()),
        TemplateError::Checksum { index, problem } => {
            (format!("streams[{stream}].packet.checksums[{index}]"), (*problem).to_owned())
        }
    };
    Violation { field, description }
}

/// What the datapath refused, in the plan's own field names.
pub fn refused(error: &PrepareError) -> Violation {
    let field = match error.field.as_str() {
        "tag" => "run_tag".to_owned(),
        field => field.replace(".template", ".packet").replace("].rate", "].continuous.rate"),
    };
    Violation { field, description: error.problem.clone() }
}
