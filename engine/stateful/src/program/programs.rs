// SPDX-License-Identifier: Apache-2.0
//! The programs of a template, of both sides.
use super::{Program, Side};
use crate::Protocol;

/// A template as its checks see it.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// Its transport.
    pub protocol: Protocol,
    /// Program of clients, if they are emulated.
    pub client: Option<&'a Program>,
    /// Program of servers, if they are emulated.
    pub server: Option<&'a Program>,
}

impl<'a> Programs<'a> {
    /// The program of a side.
    pub fn of(&self, side: Side) -> Option<&'a Program> {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}
