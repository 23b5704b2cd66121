// SPDX-License-Identifier: Apache-2.0
//! `Send` and `SendMessage`: a payload of the scenario as bytes of the stream, or as a datagram.
use super::Instruction;
use crate::{
    Protocol,
    program::effects::{Data, Effects},
};

impl Instruction {
    /// The number of the payload that it sends, if it is one of these.
    pub(in crate::program) fn payload_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Send { payload, .. } | Self::SendMessage { payload } => Some(payload),
            _ => None,
        }
    }
}

pub(super) fn stream(payload: u32) -> Effects<'static> {
    // The send buffer has an end.
    Effects { sends: Some(Data::Stream(payload)), takes_time: true, ..Effects::NONE }
        .only_over(Protocol::Tcp, "send_message sends a datagram")
}

pub(super) fn message(payload: u32) -> Effects<'static> {
    Effects { sends: Some(Data::Message(payload)), ..Effects::NONE }.only_over(Protocol::Udp, "send sends bytes")
}
