// SPDX-License-Identifier: Apache-2.0
//! Whether a device shares packets out to its receive queues as [`spate_net::spread`] computes.
use spate_dpdk_sys as sys;
use spate_net::spread;

/// What must be hashed by addresses and ports, and its name.
const HASHED: [(u32, &str); 4] = [
    (sys::SPATE_HASHES_TCP4, "TCP over IPv4"),
    (sys::SPATE_HASHES_UDP4, "UDP over IPv4"),
    (sys::SPATE_HASHES_TCP6, "TCP over IPv6"),
    (sys::SPATE_HASHES_UDP6, "UDP over IPv6"),
];

/// Sets a started port's table, and compares what its device has then with what is computed. The error says what differs.
pub(crate) fn set_and_verify(port: u16, queues: u16) -> Result<(), String> {
    if queues == 1 {
        return Ok(());
    }
    let mut found = std::mem::MaybeUninit::<sys::spate_spread>::zeroed();
    // SAFETY: the port is started; the pointer is valid for the call.
    let code = unsafe { sys::spate_port_spread(port, queues, spread::TABLE as u16, found.as_mut_ptr()) };
    if code != 0 {
        let why = std::io::Error::from_raw_os_error(-code);
        return Err(format!("the driver does not report how it shares packets out ({why})"));
    }
    // SAFETY: zeroed, then filled in; it is all integers.
    verify(&unsafe { found.assume_init() }, usize::from(queues))
}

fn verify(found: &sys::spate_spread, queues: usize) -> Result<(), String> {
    let key = &found.key[..usize::from(found.key_len).min(found.key.len())];
    if !key.starts_with(&spread::KEY) {
        return Err(format!("its hash has another key, of {} bytes", key.len()));
    }
    let missing: Vec<_> = HASHED.iter().filter(|(bit, _)| found.hashes & bit == 0).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        return Err(format!("it does not hash the ports of {}", missing.join(", ")));
    }
    let table = &found.table[..usize::from(found.table_len).min(found.table.len())];
    // Remainders by both lengths, which are powers of two, repeat after the larger.
    let other = (0..spread::TABLE.max(table.len() as u32)).find(|hash| {
        let queue = table.get(*hash as usize % table.len().max(1)).copied().map(usize::from);
        queue != Some(spread::queue_of(*hash, queues))
    });
    match other {
        Some(hash) => Err(format!("its table of {} entries has another queue for the hash {hash}", table.len())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Eal, Memory, Mempool, port::probe};

    fn as_computed(table_len: u16, queues: usize) -> sys::spate_spread {
        let mut found = sys::spate_spread { hashes: 15, key_len: 52, key: [0; 64], table_len, table: [0; 2048] };
        found.key[..40].copy_from_slice(&spread::KEY);
        for (i, queue) in found.table[..usize::from(table_len)].iter_mut().enumerate() {
            *queue = (i % 128 % queues) as u16;
        }
        found
    }

    #[test]
    fn tables_of_any_length_are_compared_hash_by_hash() {
        for queues in [2, 3, 7] {
            for len in [128, 512, 2048] {
                assert_eq!(verify(&as_computed(len, queues), queues), Ok(()));
            }
        }
        // Shorter ones do where the queues divide them.
        assert_eq!(verify(&as_computed(64, 4), 4), Ok(()));
        let message = verify(&as_computed(64, 3), 3).unwrap_err();
        assert_eq!(message, "its table of 64 entries has another queue for the hash 64");
        assert!(verify(&as_computed(0, 2), 2).is_err());
        let mut other = as_computed(512, 2);
        other.table[511] = 0;
        assert_eq!(verify(&other, 2).unwrap_err(), "its table of 512 entries has another queue for the hash 511");
    }

    #[test]
    fn another_key_and_packets_without_ports_are_reported() {
        let mut other = as_computed(128, 2);
        other.key[39] ^= 1;
        assert_eq!(verify(&other, 2).unwrap_err(), "its hash has another key, of 52 bytes");
        other = as_computed(128, 2);
        other.key_len = 16;
        assert_eq!(verify(&other, 2).unwrap_err(), "its hash has another key, of 16 bytes");
        other = as_computed(128, 2);
        other.hashes = sys::SPATE_HASHES_TCP4 | sys::SPATE_HASHES_TCP6;
        assert_eq!(verify(&other, 2).unwrap_err(), "it does not hash the ports of UDP over IPv4, UDP over IPv6");
    }

    /// DPDK's own device without a wire has a hash and a table as a NIC has.
    #[test]
    fn a_device_is_given_the_table_and_is_read_back() {
        let eal = Eal::init(Memory::Normal { bytes: 32 << 20 }, &[], &[0], &[&[0]]).unwrap();
        let pool = Mempool::new(&eal, "steering", 255, 2048).unwrap();
        let port = probe("net_null", "no-rx=1").unwrap();
        const QUEUES: u16 = 3;
        // SAFETY: a port that is probed and not started; the pool outlives it.
        unsafe {
            let key = &spread::KEY;
            assert_eq!(sys::spate_port_configure(port, QUEUES, 1, key.as_ptr(), key.len() as u8, 0, 0), 0);
            for queue in 0..QUEUES {
                assert_eq!(sys::spate_port_setup_rx(port, queue, 64, pool.raw()), 0);
            }
            assert_eq!(sys::spate_port_setup_tx(port, 0, 64), 0);
            assert_eq!(sys::rte_eth_dev_start(port), 0);
        }
        let result = set_and_verify(port, QUEUES);
        // SAFETY: no thread uses it.
        assert_eq!(unsafe { sys::spate_port_close(port) }, 0);
        assert_eq!(result, Ok(()));
    }
}
