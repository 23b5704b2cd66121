// SPDX-License-Identifier: Apache-2.0
//! Membership of multicast groups, the host's part: the groups of one family that a station receives, the reports that say so, and the
//! answers to a querier. IGMPv3 (RFC 3376) and MLDv2 (RFC 3810) are one protocol in two encodings (`igmp`, `mld`); with an older
//! querier on the link the older version is spoken (RFC 3376 section 7, RFC 3810 section 8).
//!
//! A later change of a group replaces one that is still being repeated, with the group's whole state: it never reports less than the
//! merged reports of RFC 3376 section 5.1 would.
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    str::FromStr,
};

/// Groups that a port can be a member of, by its configuration and by runs together.
pub const MAX_GROUPS: usize = 4096;
/// Sources of a group, at most: their record fits into a frame.
pub const MAX_SOURCES: usize = 64;

/// How often a change is reported (RFC 3376 section 8.1, RFC 3810 section 9.1).
const ROBUSTNESS: u32 = 2;
/// At most this long between repeated reports of a change (RFC 3376 section 8.11, RFC 3810 section 9.11).
const UNSOLICITED_NS: u64 = 1_000_000_000;
/// An older querier is taken for gone after this: robustness times its interval of 125 s, and 10 s (RFC 3376 section 8.12).
const OLDER_QUERIER_NS: u64 = 260_000_000_000;

/// A group, and from whom its packets are received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its address.
    pub address: IpAddr,
    /// Only from these sources (source-specific multicast); from any if there are none.
    pub sources: Vec<IpAddr>,
}

impl FromStr for Group {
    type Err = String;

    /// `GROUP`, or `GROUP,SOURCE,...`.
    fn from_str(text: &str) -> Result<Self, String> {
        let address = |text: &str| text.parse().map_err(|_| format!("{text:?} is no IP address"));
        let (group, sources) = text.split_once(',').map_or((text, None), |(group, sources)| (group, Some(sources)));
        let sources = sources.map_or(Ok(Vec::new()), |sources| sources.split(',').map(address).collect())?;
        Ok(Self { address: address(group)?, sources })
    }
}

/// Versions of the protocols, by what they can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// IGMPv1: a report for each group, and no way to leave.
    Reports,
    /// IGMPv2 and MLDv1: with leaving.
    Leaves,
    /// IGMPv3 and MLDv2: sources.
    Sources,
}

/// Query of a querier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) version: Version,
    /// Answers are to be spread over this time.
    pub(crate) within_ns: u64,
    /// The group in question; none: all groups.
    pub(crate) group: Option<IpAddr>,
}

/// Types of records (RFC 3376 section 4.2.12, RFC 3810 section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    IsInclude = 1,
    IsExclude = 2,
    ToInclude = 3,
    ToExclude = 4,
    Allow = 5,
}

/// Record of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) group: IpAddr,
    pub(crate) sources: Vec<IpAddr>,
}

/// Report to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Report of the newest version, with any number of records.
    Records(Vec<Record>),
    /// Report of an older version: member of this group.
    Member(IpAddr, Version),
    /// Message of an older version: leaves this group.
    Leave(IpAddr),
}

/// The sources of a group that a member here wants; none: any.
type Filter = Option<BTreeSet<IpAddr>>;

/// A change that is still to be reported.
#[derive(Clone, Debug)]
struct Change {
    kind: Kind,
    left: u32,
    at_ns: u64,
}

/// The groups of one family of a station.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// Wanted sources, by group and owner.
    wanted: BTreeMap<IpAddr, Vec<(u64, Filter)>>,
    changes: BTreeMap<IpAddr, Change>,
    /// When a query for all groups is answered.
    answer_at_ns: Option<u64>,
    /// When queries for single groups are answered.
    answers: BTreeMap<IpAddr, u64>,
    /// Until when queriers of older versions are taken to be there.
    older: [Option<u64>; 2],
    random: RandomState,
    drawn: u64,
}

impl Groups {
    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.wanted.len()
    }

    /// The groups.
    pub(crate) fn groups(&self) -> impl Iterator<Item = IpAddr> {
        self.wanted.keys().copied()
    }

    /// An owner joins a group.
    pub(crate) fn join(&mut self, owner: u64, group: &Group, now_ns: u64) {
        let before = self.filter(group.address);
        let sources = (!group.sources.is_empty()).then(|| group.sources.iter().copied().collect());
        self.wanted.entry(group.address).or_default().push((owner, sources));
        self.changed(group.address, before, now_ns);
    }

    /// An owner leaves all groups that it has joined.
    pub(crate) fn leave(&mut self, owner: u64, now_ns: u64) {
        let groups = self.wanted.iter().filter(|(_, owners)| owners.iter().any(|(other, _)| *other == owner));
        for group in groups.map(|(group, _)| *group).collect::<Vec<_>>() {
            let before = self.filter(group);
            if let Some(owners) = self.wanted.get_mut(&group) {
                owners.retain(|(other, _)| *other != owner);
                if owners.is_empty() {
                    self.wanted.remove(&group);
                    self.answers.remove(&group);
                }
            }
            self.changed(group, before, now_ns);
        }
    }

    /// The sources that any owner wants of a group; the outer none: it is no member.
    #[allow(clippy::option_option, reason = "no member, and member for any source, are different things here")]
    fn filter(&self, group: IpAddr) -> Option<Filter> {
        let owners = self.wanted.get(&group)?;
        let mut all = BTreeSet::new();
        for (_, sources) in owners {
            match sources {
                Some(sources) => all.extend(sources.iter().copied()),
                None => return Some(None),
            }
        }
        Some(Some(all))
    }

    /// Reports a change from what was wanted before, if it is one.
    #[allow(clippy::option_option, reason = "as `filter`")]
    fn changed(&mut self, group: IpAddr, before: Option<Filter>, now_ns: u64) {
        let now = self.filter(group);
        if now == before {
            return;
        }
        let kind = match (&before, &now) {
            (_, Some(None)) => Kind::ToExclude,
            // The port was no member before: it joins these sources.
            (None, Some(Some(_))) => Kind::Allow,
            (_, Some(Some(_)) | None) => Kind::ToInclude,
        };
        self.changes.insert(group, Change { kind, left: ROBUSTNESS, at_ns: now_ns });
    }

    /// Whether it is a member.
    pub(crate) fn has(&self, group: IpAddr) -> bool {
        self.wanted.contains_key(&group)
    }

    /// Takes a query.
    pub(crate) fn asked(&mut self, query: &Query, now_ns: u64) {
        if query.version < Version::Sources {
            self.older[query.version as usize] = Some(now_ns.saturating_add(OLDER_QUERIER_NS));
        }
        let at_ns = now_ns.saturating_add(self.random(query.within_ns));
        match query.group {
            None if self.wanted.is_empty() => {}
            // Versions without records have a report, and so an instant, for each group (RFC 2236 section 3, RFC 2710 section 4).
            None if self.version(now_ns) < Version::Sources => {
                for group in self.wanted.keys().copied().collect::<Vec<_>>() {
                    let at_ns = now_ns.saturating_add(self.random(query.within_ns));
                    let answer = self.answers.entry(group).or_insert(at_ns);
                    *answer = (*answer).min(at_ns);
                }
            }
            None => self.answer_at_ns = Some(self.answer_at_ns.map_or(at_ns, |other| other.min(at_ns))),
            Some(group) if self.wanted.contains_key(&group) => {
                let answer = self.answers.entry(group).or_insert(at_ns);
                *answer = (*answer).min(at_ns);
            }
            Some(_) => {}
        }
    }

    /// The version that the oldest querier on the link understands.
    pub(crate) fn version(&self, now_ns: u64) -> Version {
        let there = |version: Version| self.older[version as usize].is_some_and(|until| now_ns < until);
        [Version::Reports, Version::Leaves].into_iter().find(|version| there(*version)).unwrap_or(Version::Sources)
    }

    /// A time up to `most`.
    fn random(&mut self, most: u64) -> u64 {
        self.drawn += 1;
        self.random.hash_one(self.drawn) % most.saturating_add(1)
    }

    /// Reports to send by an instant.
    pub(crate) fn poll(&mut self, now_ns: u64) -> Vec<Report> {
        let (mut records, mut reports) = (Vec::new(), Vec::new());
        let version = self.version(now_ns);
        let due: Vec<IpAddr> =
            self.changes.iter().filter(|(_, c)| c.at_ns <= now_ns).map(|(group, _)| *group).collect();
        for group in due {
            let again_ns = now_ns.saturating_add(self.random(UNSOLICITED_NS).max(1));
            let Some(change) = self.changes.get_mut(&group) else { continue };
            let kind = change.kind;
            (change.left, change.at_ns) = (change.left - 1, again_ns);
            if change.left == 0 {
                self.changes.remove(&group);
            }
            self.report(kind, group, version, &mut records, &mut reports);
        }
        let mut answered: Vec<IpAddr> = Vec::new();
        if self.answer_at_ns.is_some_and(|at| at <= now_ns) {
            self.answer_at_ns = None;
            self.answers.clear();
            answered.extend(self.wanted.keys());
        } else {
            answered.extend(self.answers.iter().filter(|(_, at)| **at <= now_ns).map(|(group, _)| *group));
            self.answers.retain(|_, at| *at > now_ns);
        }
        for group in answered {
            let kind = if self.filter(group) == Some(None) { Kind::IsExclude } else { Kind::IsInclude };
            self.report(kind, group, version, &mut records, &mut reports);
        }
        if !records.is_empty() {
            reports.push(Report::Records(records));
        }
        reports
    }

    fn report(
        &self,
        kind: Kind,
        group: IpAddr,
        version: Version,
        records: &mut Vec<Record>,
        reports: &mut Vec<Report>,
    ) {
        let filter = self.filter(group);
        match version {
            Version::Sources => {
                let sources = filter.flatten().unwrap_or_default().into_iter().collect();
                records.push(Record { kind, group, sources });
            }
            _ if filter.is_some() => reports.push(Report::Member(group, version)),
            Version::Leaves => reports.push(Report::Leave(group)),
            Version::Reports => {}
        }
    }

    /// When to call `poll` next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let changes = self.changes.values().map(|change| change.at_ns);
        changes.chain(self.answer_at_ns).chain(self.answers.values().copied()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn group(address: &str, sources: &[&str]) -> Group {
        Group { address: ip(address), sources: sources.iter().map(|source| ip(source)).collect() }
    }

    /// All that is sent up to an instant, in order.
    fn run(members: &mut Groups, until_ns: u64) -> Vec<Report> {
        let mut reports = Vec::new();
        while let Some(next) = members.next_ns().filter(|next| *next <= until_ns) {
            reports.extend(members.poll(next));
        }
        reports
    }

    fn record(kind: Kind, address: &str, sources: &[&str]) -> Report {
        let Group { address: group, sources } = group(address, sources);
        Report::Records(vec![Record { kind, group, sources }])
    }

    #[test]
    fn a_change_is_reported_twice_within_a_second() {
        let mut members = Groups::default();
        members.join(0, &group("239.1.1.1", &[]), 5);
        assert_eq!(members.poll(5), [record(Kind::ToExclude, "239.1.1.1", &[])]);
        assert!(members.next_ns().unwrap() <= 5 + SECOND);
        assert_eq!(run(&mut members, 5 + SECOND), [record(Kind::ToExclude, "239.1.1.1", &[])]);
        assert_eq!(members.next_ns(), None);
        members.leave(0, 2 * SECOND);
        assert_eq!(run(&mut members, 4 * SECOND), vec![record(Kind::ToInclude, "239.1.1.1", &[]); 2]);
        assert_eq!(members.len(), 0);
    }

    #[test]
    fn sources_of_all_owners_are_wanted_and_any_source_is_more() {
        let mut members = Groups::default();
        members.join(1, &group("232.1.1.1", &["10.0.0.1"]), 0);
        assert_eq!(members.poll(0), [record(Kind::Allow, "232.1.1.1", &["10.0.0.1"])]);
        members.join(2, &group("232.1.1.1", &["10.0.0.2"]), 0);
        assert_eq!(members.poll(0), [record(Kind::ToInclude, "232.1.1.1", &["10.0.0.1", "10.0.0.2"])]);
        members.join(3, &group("232.1.1.1", &[]), 0);
        assert_eq!(members.poll(0), [record(Kind::ToExclude, "232.1.1.1", &[])]);
        members.leave(3, 0);
        members.leave(1, 0);
        assert_eq!(members.poll(0), [record(Kind::ToInclude, "232.1.1.1", &["10.0.0.2"])]);
        // What changes nothing is not reported.
        run(&mut members, 10 * SECOND);
        members.join(4, &group("232.1.1.1", &["10.0.0.2"]), 10 * SECOND);
        assert_eq!(members.next_ns(), None);
    }

    #[test]
    fn queries_are_answered_within_their_time() {
        let mut members = Groups::default();
        for address in ["239.1.1.1", "239.1.1.2"] {
            members.join(0, &group(address, &[]), 0);
        }
        run(&mut members, 2 * SECOND);
        let all = Query { version: Version::Sources, within_ns: 10 * SECOND, group: None };
        members.asked(&all, 100 * SECOND);
        let due = members.next_ns().unwrap();
        assert!((100 * SECOND..=110 * SECOND).contains(&due));
        let Report::Records(records) = &members.poll(due)[0] else { panic!() };
        assert_eq!(records.iter().map(|r| r.kind).collect::<Vec<_>>(), [Kind::IsExclude; 2]);
        members.asked(&Query { group: Some(ip("239.1.1.2")), ..all.clone() }, 200 * SECOND);
        members.asked(&Query { group: Some(ip("239.9.9.9")), ..all }, 200 * SECOND);
        assert_eq!(run(&mut members, 210 * SECOND), [record(Kind::IsExclude, "239.1.1.2", &[])]);
    }

    #[test]
    fn older_queriers_are_spoken_to_in_their_version_until_they_are_gone() {
        let mut members = Groups::default();
        members.join(0, &group("239.1.1.1", &["10.0.0.1"]), 0);
        run(&mut members, 2 * SECOND);
        let ask = |members: &mut Groups, version, at| {
            members.asked(&Query { version, within_ns: SECOND, group: None }, at);
            run(members, at + SECOND)
        };
        let at = 100 * SECOND;
        assert_eq!(ask(&mut members, Version::Leaves, at), [Report::Member(ip("239.1.1.1"), Version::Leaves)]);
        assert_eq!(ask(&mut members, Version::Sources, at), [Report::Member(ip("239.1.1.1"), Version::Leaves)]);
        assert_eq!(ask(&mut members, Version::Reports, at), [Report::Member(ip("239.1.1.1"), Version::Reports)]);
        let later = at + OLDER_QUERIER_NS + SECOND;
        assert_eq!(ask(&mut members, Version::Sources, later), [record(Kind::IsInclude, "239.1.1.1", &["10.0.0.1"])]);
        ask(&mut members, Version::Leaves, later);
        members.leave(0, later + SECOND);
        assert_eq!(run(&mut members, later + 3 * SECOND), vec![Report::Leave(ip("239.1.1.1")); 2]);
    }
}
