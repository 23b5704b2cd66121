// SPDX-License-Identifier: Apache-2.0
//! Sources whose packets of no open flow are dropped.
use super::super::Violations;
use super::address::address;
use spate_stateful::{Address, FieldPath, IgnoredSources};

/// MACs of a plan, and prefixes, at most.
const MAX_ENTRIES: usize = 64;

/// The sources that a plan ignores; none if it names none, or if a violation says what is wrong with them.
pub fn ignored(asked: Option<&contract::IgnoredSources>, wrong: &mut Violations) -> Option<IgnoredSources> {
    let asked = asked?;
    let at = |field: &'static str| FieldPath::from("stateful.ignored_sources").field(field);
    for (field, count) in [("macs", asked.macs.len()), ("prefixes", asked.prefixes.len())] {
        if count > MAX_ENTRIES {
            wrong.add(at(field), format!("{count} of them; must be at most {MAX_ENTRIES}"));
            return None;
        }
    }
    let macs: Vec<_> =
        asked.macs.iter().enumerate().map(|(i, bytes)| mac(&at("macs").index(i), bytes, wrong)).collect();
    let prefixes = asked.prefixes.iter().enumerate();
    let ranges: Vec<_> = prefixes.map(|(i, prefix)| range(&at("prefixes").index(i), prefix, wrong)).collect();
    let (macs, ranges) =
        macs.into_iter().collect::<Option<Vec<_>>>().zip(ranges.into_iter().collect::<Option<Vec<_>>>())?;
    (!macs.is_empty() || !ranges.is_empty()).then(|| IgnoredSources::new(macs, ranges))
}

fn mac(at: &FieldPath, bytes: &[u8], wrong: &mut Violations) -> Option<[u8; 6]> {
    match <[u8; 6]>::try_from(bytes) {
        Err(_) => wrong.add(at, format!("{} bytes; must be 6", bytes.len())),
        Ok([first, ..]) if first & 1 == 1 => {
            wrong.add(at, "is a group address, which is no frame's source; the first byte must be even");
        }
        Ok(mac) => return Some(mac),
    }
    None
}

/// First and last address of a prefix.
fn range(at: &FieldPath, prefix: &contract::Prefix, wrong: &mut Violations) -> Option<(Address, Address)> {
    let address = address(&at.field("address"), &prefix.address, wrong)?;
    let bits = 8 * prefix.address.len() as u32;
    let Some(hosts) = bits.checked_sub(prefix.length) else {
        wrong.add(at.field("length"), format!("{}; must be at most {bits}", prefix.length));
        return None;
    };
    let mask = 1u128.checked_shl(hosts).map_or(u128::MAX, |beyond| beyond - 1);
    Some((Address(address.0 & !mask), Address(address.0 | mask)))
}
