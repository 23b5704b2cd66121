// SPDX-License-Identifier: Apache-2.0
//! Ports whose device is to stamp packets and cannot: they are refused by name with what helps, and the same devices can be opened without.
use spate_engine::datapath::{Datapath, OpenError, PollMode, PortDevice, StampedBy};

use crate::{
    kernel::run_inside,
    setup::{open, open_config, turn},
};

/// Why a port is not opened whose device is to stamp packets.
fn refusal(device: PortDevice) -> String {
    let mut config = open_config(&[("east", device)], 1, PollMode::Adaptive);
    config.ports[0].stamped_by = StampedBy::Device;
    match Datapath::open(config).map(|_| ()) {
        Err(error @ OpenError::System { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The device is opened with time stamps of the CPU, after it was refused.
fn opens_without(device: PortDevice) {
    let datapath = open(&[("east", device)], 1, PollMode::Adaptive);
    let port = &datapath.ports()[0];
    assert_eq!((port.stamped_by, port.stamp_bound_ns, port.offers_stamps), (StampedBy::Cpu, None, false), "{port:?}");
    assert_eq!((datapath.stamp_bounds().count(), datapath.port_counters()[0].unstamped_packets), (0, 0));
}

#[test]
fn a_port_whose_driver_has_no_time_stamps_is_refused_by_name_with_what_helps() {
    let _turn = turn();
    for (device, driver) in [(PortDevice::Null, "net_null"), (PortDevice::Loopback, "net_ring")] {
        let refused = refusal(device.clone());
        println!("{refused}");
        assert!(refused.starts_with("port east: "), "{refused}");
        let named = format!("its driver {driver} gives received packets no time stamps");
        for part in [named.as_str(), "mlx5", "receiveTimestamps: CPU"] {
            assert!(refused.contains(part), "{part:?} is not in: {refused}");
        }
        opens_without(device);
    }
}

#[test]
fn an_interface_of_the_kernel_is_refused_too() {
    run_inside("timestamps::inside_kernel", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_kernel() {
    let device = PortDevice::Kernel("sp0".into());
    let refused = refusal(device.clone());
    println!("{refused}");
    assert!(
        refused.starts_with("port east: interface sp0: its driver net_af_packet gives received packets "),
        "{refused}"
    );
    opens_without(device);
}
