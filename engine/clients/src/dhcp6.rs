// SPDX-License-Identifier: Apache-2.0
//! The client's part of DHCPv6 (RFC 8415): from SOLICIT to leases of an address and of a prefix, which it prolongs, gives back, or loses.
use spate_net::{
    Address,
    dhcp6::{self, Builder, INFINITE, Ia, Leased, Message, option, status},
};
use spate_stateful::random;

use crate::{
    client::{Cause, Client6, Moment, NEVER, Phase6, is},
    config::{Dhcp6, SECOND},
    counters::Count,
    duid::{Duid, own_duid},
    frame::{Output, group_mac},
    group::{Group, Leave, Received},
    interned::NONE,
};

/// The client's only association of each kind.
const IAID: u32 = 1;
/// Requested options: DNS servers, search list (RFC 3646).
const REQUESTED: [u8; 4] = [0, 23, 0, 24];
/// Retransmission: first and greatest time, and messages at most (RFC 8415 section 7.6).
const SOLICIT_NS: u64 = SECOND;
const REQUEST_NS: (u64, u64, u8) = (SECOND, 30 * SECOND, 10);
const RENEW_NS: (u64, u64) = (10 * SECOND, 600 * SECOND);
const RELEASE_NS: (u64, u8) = (SECOND, 4);
/// Lifetimes beyond a year do not end.
const LONGEST_S: u32 = 365 * 86_400;

/// What an answer gives.
#[derive(Default)]
struct Given {
    /// Of the message.
    status: u16,
    /// Of an association.
    no_binding: bool,
    /// An association's lifetimes are 0.
    ended: bool,
    address: Option<Leased>,
    prefix: Option<Leased>,
    t1_s: u32,
    t2_s: u32,
}

impl Given {
    /// Reads the leases of a message; none if they contradict each other.
    fn read(message: &Message<'_>, config: &Dhcp6) -> Option<Self> {
        let mut given = Self { status: message.options().status()?, ..Self::default() };
        for (code, value) in message.options() {
            let wanted = match code {
                option::IA_NA => config.address,
                option::IA_PD => config.prefix.is_some(),
                _ => false,
            };
            if wanted {
                given.association(code, &Ia::read(value)?)?;
            }
        }
        Some(given)
    }

    fn association(&mut self, code: u16, ia: &Ia<'_>) -> Option<()> {
        // Times in a wrong order make an association one to ignore (RFC 8415 section 21.4).
        if ia.iaid != IAID || ia.t1 > ia.t2 && ia.t2 > 0 {
            return Some(());
        }
        self.no_binding |= ia.options.status()? == status::NO_BINDING;
        let leased = if code == option::IA_NA {
            ia.options.first(option::IA_ADDRESS).map(Leased::read_address)
        } else {
            ia.options.first(option::IA_PREFIX).map(Leased::read_prefix)
        };
        let Some(leased) = leased else { return Some(()) };
        let leased = leased?;
        let possible = match code {
            option::IA_NA => Address(leased.address).is_hosts() && leased.address >> 118 != 0xfe80 >> 6,
            _ => (1..=64).contains(&leased.length) && leased.address << leased.length == 0,
        };
        if !possible || leased.preferred > leased.valid {
            return None;
        }
        if leased.status != status::SUCCESS || leased.valid == 0 {
            self.ended |= leased.valid == 0;
            return Some(());
        }
        let leased_before = if code == option::IA_NA { &mut self.address } else { &mut self.prefix };
        leased_before.get_or_insert(leased);
        let earlier = |one: u32, other: u32| if one == 0 || other > 0 && other < one { other } else { one };
        (self.t1_s, self.t2_s) = (earlier(self.t1_s, ia.t1), earlier(self.t2_s, ia.t2));
        Some(())
    }

    fn is_usable(&self) -> bool {
        self.address.is_some() || self.prefix.is_some()
    }

    /// When to renew, to rebind, and the end, in seconds from now.
    fn times(&self) -> (u32, u32, u32) {
        let leases = || self.address.iter().chain(&self.prefix);
        let preferred = leases().map(|leased| leased.preferred).min().unwrap_or(0);
        let valid = leases().map(|leased| leased.valid).min().unwrap_or(0);
        let endless = |seconds: u32| if seconds > LONGEST_S { INFINITE } else { seconds };
        let part = |num: u64, den: u64| {
            if preferred == INFINITE { INFINITE } else { (u64::from(preferred) * num / den) as u32 }
        };
        let t1 = if self.t1_s > 0 { self.t1_s } else { part(1, 2) };
        let t2 = if self.t2_s > 0 { self.t2_s } else { part(4, 5) };
        let (t1, t2) = if t1 <= t2 && t2 <= valid { (t1, t2) } else { (valid / 2, (u64::from(valid) * 4 / 5) as u32) };
        (endless(t1), endless(t2), endless(valid))
    }
}

impl Group {
    /// The end of a part of a client's lease.
    pub(crate) fn lease6_ns(&self, index: u32, seconds: u32, now_ns: u64) -> u64 {
        if seconds == INFINITE {
            return NEVER;
        }
        self.six[index as usize].from.ns(now_ns).saturating_add(u64::from(seconds) * SECOND)
    }

    /// When a bound client prolongs its lease; `NEVER` without one.
    pub(crate) fn t1_ns(&self, index: u32, now_ns: u64) -> u64 {
        if !self.clients[index].has(is::LEASED6) {
            return NEVER;
        }
        self.lease6_ns(index, self.six[index as usize].t1_s, now_ns)
    }

    /// A client looks for servers.
    pub(crate) fn start_solicit(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        self.give_server(index);
        let six = &mut self.six[index as usize];
        six.address = 0;
        six.set_delegated(0, 0);
        // The preference of the best offer, until there is a lease.
        six.t1_s = 0;
        self.start_exchange(index, Phase6::Solicit, now_ns);
        self.send_dhcp6(index, now_ns, out);
    }

    fn start_request6(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        self.start_exchange(index, Phase6::Request, now_ns);
        self.send_dhcp6(index, now_ns, out);
    }

    /// Starts an exchange: sets when its first message is repeated.
    fn start_exchange(&mut self, index: u32, phase: Phase6, now_ns: u64) {
        let xid = self.random.draw() as u32;
        let six = &mut self.six[index as usize];
        (six.phase, six.tries) = (phase, 0);
        six.set_xid(xid);
        self.clients[index].exchange6 = (now_ns >> 20) as u32;
        self.clients[index].due6_ns = now_ns.saturating_add(self.retry6_ns(index));
    }

    /// Since when a client's exchange lasts, to a millisecond.
    fn exchange6_ns(&self, index: u32, now_ns: u64) -> u64 {
        u64::from(((now_ns >> 20) as u32).wrapping_sub(self.clients[index].exchange6)) << 20
    }

    /// From the last message of an exchange to the next (RFC 8415 section 15): each time is twice the one before, and a tenth more or
    /// less. All follow from the exchange's identifier.
    fn retry6_ns(&self, index: u32) -> u64 {
        let six = &self.six[index as usize];
        let (first_ns, most_ns) = match six.phase {
            Phase6::Solicit => {
                (SOLICIT_NS, self.config.ipv6.and_then(|six| six.dhcp).map_or(NEVER, |dhcp| dhcp.max_solicit_ns))
            }
            Phase6::Request => (REQUEST_NS.0, REQUEST_NS.1),
            Phase6::Renewing | Phase6::Rebinding => RENEW_NS,
            _ => (RELEASE_NS.0, NEVER),
        };
        let seed = self.config.seed ^ u64::from(six.xid()) << 32 ^ u64::from(index);
        let mut time_ns = 0;
        for round in 0..=six.tries.min(32) {
            let part = |of_ns: u64| random::below(random::nth(seed, u64::from(round)), of_ns / 5 + 1);
            time_ns = match round {
                // More, never less, of the first SOLICIT (RFC 8415 section 18.2.1).
                0 if six.phase == Phase6::Solicit => first_ns + part(first_ns) / 2,
                0 => first_ns - first_ns / 10 + part(first_ns),
                _ => 2 * time_ns - time_ns / 10 + part(time_ns),
            };
            if time_ns > most_ns {
                time_ns = most_ns - most_ns / 10 + part(most_ns);
            }
        }
        time_ns
    }

    /// Does what is due of a client's lease.
    pub(crate) fn step_dhcp6(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let six = &self.six[index as usize];
        let tries = six.tries.saturating_add(1);
        let (t2_ns, end_ns) = (self.lease6_ns(index, six.t2_s, now_ns), self.lease6_ns(index, six.valid_s, now_ns));
        match six.phase {
            Phase6::Solicit if six.server != NONE => {
                self.start_request6(index, now_ns, out);
                return;
            }
            Phase6::Solicit if tries >= self.config.retry.attempts => {
                self.clients[index].cause6.get_or_insert(Cause::NoOffer);
            }
            Phase6::Request if tries >= REQUEST_NS.2 => {
                self.restart6(index, Cause::NoAck, now_ns);
                return;
            }
            Phase6::Bound => {
                self.start_renewing(index, Phase6::Renewing, t2_ns, now_ns, out);
                return;
            }
            Phase6::Renewing if now_ns >= t2_ns => {
                self.start_renewing(index, Phase6::Rebinding, end_ns, now_ns, out);
                return;
            }
            Phase6::Rebinding if now_ns >= end_ns => {
                self.counters.one(Count::LeasesLost);
                self.give_up_lease6(index);
                self.next6(index, now_ns, out);
                return;
            }
            Phase6::Releasing if tries >= RELEASE_NS.1 => {
                self.clear6(index);
                self.six[index as usize].phase = Phase6::Left;
                return;
            }
            Phase6::Declining if tries >= RELEASE_NS.1 => {
                self.declined6(index, now_ns);
                return;
            }
            Phase6::Waiting => {
                self.next6(index, now_ns, out);
                return;
            }
            _ => {}
        }
        self.six[index as usize].tries = tries;
        let until_ns = match self.six[index as usize].phase {
            Phase6::Renewing => t2_ns,
            Phase6::Rebinding => end_ns,
            _ => NEVER,
        };
        self.clients[index].due6_ns = now_ns.saturating_add(self.retry6_ns(index)).min(until_ns);
        self.counters.one(Count::Dhcp6Retransmitted);
        self.send_dhcp6(index, now_ns, out);
    }

    fn start_renewing(&mut self, index: u32, phase: Phase6, until_ns: u64, now_ns: u64, out: &mut impl Output) {
        self.start_exchange(index, phase, now_ns);
        let client = &mut self.clients[index];
        client.due6_ns = client.due6_ns.min(until_ns);
        self.send_dhcp6(index, now_ns, out);
    }

    /// A datagram to a client's port.
    pub(crate) fn receive_dhcp6(&mut self, index: u32, received: &Received, payload: &[u8], out: &mut impl Output) {
        let Some(config) = self.config.ipv6.and_then(|six| six.dhcp) else { return };
        let Some(message) = Message::read(payload) else {
            self.counters.one(Count::Malformed);
            return;
        };
        let six = &self.six[index as usize];
        let waits = match message.kind {
            dhcp6::ADVERTISE => six.phase == Phase6::Solicit,
            dhcp6::REPLY => match six.phase {
                Phase6::Solicit => config.rapid_commit && message.option(option::RAPID_COMMIT).is_some(),
                phase => matches!(
                    phase,
                    Phase6::Request | Phase6::Renewing | Phase6::Rebinding | Phase6::Releasing | Phase6::Declining
                ),
            },
            _ => false,
        };
        let own = message.option(option::CLIENT_ID) == Some(&own_duid(self.layout.mac(index))[..]);
        if !waits || !own || message.xid != six.xid() {
            self.counters.one(Count::Unexpected);
            return;
        }
        let server = message.option(option::SERVER_ID).and_then(Duid::new);
        let (Some(server), Some(given)) = (server, Given::read(&message, &config)) else {
            self.counters.one(Count::Malformed);
            return;
        };
        let now_ns = received.now_ns;
        self.change(index, now_ns, |group| {
            if message.kind == dhcp6::ADVERTISE {
                let preference = message.option(option::PREFERENCE).and_then(|value| value.first()).copied();
                group.advertised6(index, &server, &given, preference.unwrap_or(0), now_ns, out);
            } else {
                group.counters.one(Count::Dhcp6Reply);
                group.replied6(index, &server, &given, received, out);
            }
        });
    }

    /// A server offers leases.
    fn advertised6(
        &mut self,
        index: u32,
        server: &Duid,
        given: &Given,
        preference: u8,
        now_ns: u64,
        out: &mut impl Output,
    ) {
        self.counters.one(Count::Dhcp6Advertise);
        let six = &self.six[index as usize];
        if six.server == NONE && six.tries == 0 {
            self.counters.offered(self.exchange6_ns(index, now_ns));
        }
        let better = six.server == NONE || u32::from(preference) > six.t1_s;
        if !given.is_usable() || given.status != status::SUCCESS || !better {
            return;
        }
        let collects = self.config.ipv6.and_then(|six| six.dhcp).is_some_and(|dhcp| dhcp.collect);
        if !self.set_server(index, server) {
            return;
        }
        let six = &mut self.six[index as usize];
        six.t1_s = u32::from(preference);
        six.address = given.address.map_or(0, |leased| leased.address);
        let prefix = given.prefix.map_or((0, 0), |leased| ((leased.address >> 64) as u64, leased.length));
        six.set_delegated(prefix.0, prefix.1);
        // Others are waited for until the first SOLICIT would be repeated (RFC 8415 section 18.2.9).
        if !collects || preference == u8::MAX || six.tries > 0 {
            self.start_request6(index, now_ns, out);
        }
    }

    /// A server answers a request.
    fn replied6(&mut self, index: u32, server: &Duid, given: &Given, received: &Received, out: &mut impl Output) {
        let now_ns = received.now_ns;
        let (phase, address) = (self.six[index as usize].phase, self.six[index as usize].address);
        match phase {
            Phase6::Releasing => {
                self.clear6(index);
                self.six[index as usize].phase = Phase6::Left;
                self.clients[index].due6_ns = NEVER;
                return;
            }
            Phase6::Declining => {
                self.declined6(index, now_ns);
                return;
            }
            _ => {}
        }
        let renews = matches!(phase, Phase6::Renewing | Phase6::Rebinding);
        if given.status != status::SUCCESS {
            if given.status == status::NOT_ON_LINK && !renews {
                self.start_solicit(index, now_ns, out);
            }
            // Else the request is repeated.
            return;
        }
        if !given.is_usable() {
            if renews && given.no_binding {
                if self.set_server(index, server) {
                    self.start_request6(index, now_ns, out);
                }
            } else if renews && given.ended {
                self.counters.one(Count::LeasesLost);
                self.give_up_lease6(index);
                self.next6(index, now_ns, out);
            } else if !renews {
                self.restart6(index, Cause::Nak, now_ns);
            }
            return;
        }
        let leased = given.address.map_or(0, |leased| leased.address);
        let had = self.clients[index].has(is::LEASED6);
        if had && leased != address {
            self.counters.one(Count::LeasesLost);
            self.give_up_lease6(index);
        }
        if !self.set_server(index, server) {
            return;
        }
        let other = self.holder6(leased, received.tags).filter(|other| *other != index);
        let enters = leased != 0 && !self.clients[index].has(is::LEASED6);
        let (t1_s, t2_s, valid_s) = given.times();
        let six = &mut self.six[index as usize];
        six.address = leased;
        let prefix = given.prefix.map_or((0, 0), |leased| ((leased.address >> 64) as u64, leased.length));
        let moved = (six.delegated, six.delegated_len()) != prefix;
        six.set_delegated(prefix.0, prefix.1);
        six.from = Moment::at(now_ns);
        (six.t1_s, six.t2_s, six.valid_s) = (t1_s, t2_s, valid_s);
        if other.is_some() {
            self.counters.one(Count::GivenTwice);
            self.decline6(index, Cause::AddressGivenTwice, now_ns, out);
            return;
        }
        if enters {
            let hash = self.hash(leased);
            self.table6.insert(hash, index);
        }
        if moved {
            self.changed();
        }
        self.clients[index].set(is::LEASED6, true);
        if renews && had && leased == address {
            self.counters.one(Count::Renewals);
        } else {
            self.counters.acknowledged(self.exchange6_ns(index, now_ns));
        }
        self.next6(index, now_ns, out);
    }

    /// A client takes a server. False if there are too many.
    fn set_server(&mut self, index: u32, server: &Duid) -> bool {
        let Some(name) = self.servers.take(server) else {
            self.counters.one(Count::TooManyRouters);
            return false;
        };
        self.give_server(index);
        self.six[index as usize].server = name;
        true
    }

    fn give_server(&mut self, index: u32) {
        let name = core::mem::replace(&mut self.six[index as usize].server, NONE);
        self.servers.give(name);
    }

    /// A client has its lease no more; what it was is still there.
    fn give_up_lease6(&mut self, index: u32) {
        let address = self.six[index as usize].address;
        let hash = self.hash(address);
        self.table6.remove(hash, index);
        self.clients[index].set(is::LEASED6 | is::ADDRESS6, false);
        self.changed();
    }

    /// Nothing is left of a client's IPv6.
    pub(crate) fn clear6(&mut self, index: u32) {
        if self.clients[index].has(is::LEASED6) {
            self.give_up_lease6(index);
        }
        self.lose_router(index);
        self.give_server(index);
        self.six[index as usize] = Client6::BLANK;
        let client = &mut self.clients[index];
        client.set(is::LINK_LOCAL | is::SLAAC | is::MANAGED, false);
        client.due6_ns = NEVER;
    }

    /// Gives the address that was leased back, as another station has it.
    pub(crate) fn decline6(&mut self, index: u32, cause: Cause, now_ns: u64, out: &mut impl Output) {
        self.give_up_lease6(index);
        let client = &mut self.clients[index];
        let restarts = client.restarts6() + 1;
        client.set_restarts6(restarts);
        if cause == Cause::AddressGivenTwice || restarts >= self.config.retry.restarts {
            client.cause6.get_or_insert(cause);
        }
        self.start_exchange(index, Phase6::Declining, now_ns);
        self.send_dhcp6(index, now_ns, out);
    }

    fn declined6(&mut self, index: u32, now_ns: u64) {
        let retry = self.config.retry;
        let failed = self.clients[index].cause6.is_some();
        self.wait6(index, if failed { retry.max_ns } else { retry.first_ns }, now_ns);
    }

    /// A client looks for servers again after a time, and has failed if that happens too often.
    fn restart6(&mut self, index: u32, cause: Cause, now_ns: u64) {
        let retry = self.config.retry;
        let client = &mut self.clients[index];
        let restarts = client.restarts6() + 1;
        client.set_restarts6(restarts);
        let failed = restarts >= retry.restarts;
        if failed {
            client.cause6.get_or_insert(cause);
        }
        self.wait6(index, if failed { retry.max_ns } else { retry.first_ns }, now_ns);
    }

    fn wait6(&mut self, index: u32, delay_ns: u64, now_ns: u64) {
        self.six[index as usize].phase = Phase6::Waiting;
        self.clients[index].due6_ns = now_ns.saturating_add(delay_ns);
    }

    pub(crate) fn leave6(&mut self, index: u32, how: Leave, now_ns: u64, out: &mut impl Output) {
        if how == Leave::Release && self.clients[index].has(is::LEASED6) {
            self.give_up_lease6(index);
            self.lose_router(index);
            self.clients[index].set(is::LINK_LOCAL | is::SLAAC | is::MANAGED, false);
            self.start_exchange(index, Phase6::Releasing, now_ns);
            self.send_dhcp6(index, now_ns, out);
        } else {
            self.clear6(index);
            self.six[index as usize].phase = Phase6::Left;
        }
    }

    /// Sends the message of the phase that a client is in.
    fn send_dhcp6(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        if !self.is_room(out) {
            return;
        }
        let Some(config) = self.config.ipv6.and_then(|six| six.dhcp) else { return };
        let six = self.six[index as usize];
        let (kind, count) = match six.phase {
            Phase6::Solicit => (dhcp6::SOLICIT, Count::Dhcp6Solicit),
            Phase6::Request => (dhcp6::REQUEST, Count::Dhcp6Request),
            Phase6::Renewing => (dhcp6::RENEW, Count::Dhcp6Renew),
            Phase6::Rebinding => (dhcp6::REBIND, Count::Dhcp6Rebind),
            Phase6::Releasing => (dhcp6::RELEASE, Count::Dhcp6Release),
            Phase6::Declining => (dhcp6::DECLINE, Count::Dhcp6Decline),
            _ => return,
        };
        // Hundredths of a second (RFC 8415 section 21.9).
        let elapsed = (self.exchange6_ns(index, now_ns) / (SECOND / 100)).min(0xffff) as u16;
        let from = self.link_local(index);
        let ends = self.ends(index, group_mac(dhcp6::SERVERS));
        let server = if kind == dhcp6::REBIND { None } else { self.servers.get(six.server) };
        let ports = (dhcp6::CLIENT_PORT, dhcp6::SERVER_PORT);
        let write = |into: &mut [u8]| message(&config, &six, kind, own_duid(ends.from), server, elapsed, into);
        if let Some(frame) = self.scratch.udp6(&ends, (from, dhcp6::SERVERS), ports, write) {
            out.send(frame);
            self.counters.one(count);
        }
    }
}

/// Writes a message.
fn message(
    config: &Dhcp6,
    six: &Client6,
    kind: u8,
    client: [u8; 10],
    server: Option<&Duid>,
    elapsed: u16,
    into: &mut [u8],
) -> Option<usize> {
    let mut message = Builder::new(into, kind, six.xid());
    message.option(option::CLIENT_ID, &client);
    if let Some(server) = server.filter(|_| kind != dhcp6::SOLICIT) {
        message.option(option::SERVER_ID, server.as_slice());
    }
    message.option(option::ELAPSED_TIME, &elapsed.to_be_bytes());
    let requests = !matches!(kind, dhcp6::RELEASE | dhcp6::DECLINE);
    if requests {
        message.option(option::REQUESTED_OPTIONS, &REQUESTED);
    }
    if kind == dhcp6::SOLICIT && config.rapid_commit {
        message.option(option::RAPID_COMMIT, &[]);
    }
    let none = Leased { address: 0, length: 128, preferred: 0, valid: 0, status: status::SUCCESS };
    let address = Leased { address: six.address, ..none };
    if config.address && (six.address != 0 || requests) {
        message.ia(option::IA_NA, IAID, (0, 0), |ia| {
            if six.address != 0 {
                ia.leased(&address);
            }
        });
    }
    let length = if six.delegated_len() > 0 { six.delegated_len() } else { config.prefix.unwrap_or(0) };
    let prefix = Leased { address: u128::from(six.delegated) << 64, length, ..none };
    let delegates = config.prefix.is_some() && kind != dhcp6::DECLINE;
    if delegates && (six.delegated_len() > 0 || requests) {
        message.ia(option::IA_PD, IAID, (0, 0), |ia| {
            if length > 0 {
                ia.leased(&prefix);
            }
        });
    }
    message.finish()
}
