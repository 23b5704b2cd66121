// SPDX-License-Identifier: Apache-2.0
//! An address of the contract.
use super::super::Violations;
use spate_stateful::{Address, FieldPath};

/// An address of 4 or 16 bytes in network order.
pub fn address(field: &FieldPath, bytes: &[u8], wrong: &mut Violations) -> Option<Address> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Address::v4(u32::from_be_bytes(four)));
    }
    if let Ok(six) = <[u8; 16]>::try_from(bytes) {
        return Some(Address(u128::from_be_bytes(six)));
    }
    wrong.add(field, format!("{} bytes; must be 4 (IPv4) or 16 (IPv6)", bytes.len()));
    None
}
