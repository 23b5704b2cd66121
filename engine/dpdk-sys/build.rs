// SPDX-License-Identifier: Apache-2.0
//! Compiles the shim and generates bindings against the installed libdpdk (>= 22.11, by pkg-config).
//!
//! `SPATE_DPDK_MARCH` sets the shim's instruction set; the default is the oldest that DPDK itself supports, so that one
//! binary runs on every x86-64-v2 machine.
use std::{env, path::PathBuf};

/// What is linked: the libraries whose functions are called. Drivers are plug-ins that EAL loads at run time.
const LIBRARIES: [&str; 7] =
    ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal", "rte_net_ring", "rte_bus_vdev"];

fn main() {
    println!("cargo:rerun-if-env-changed=SPATE_DPDK_MARCH");
    for file in ["src/shim.c", "src/shim.h"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let march = env::var("SPATE_DPDK_MARCH").unwrap_or_else(|_| "corei7".into());
    let dpdk = pkg_config::Config::new()
        .cargo_metadata(false)
        .atleast_version("22.11")
        .probe("libdpdk")
        .expect("libdpdk >= 22.11 with its headers (Debian: libdpdk-dev; `make deps` installs it)");

    let mut shim = cc::Build::new();
    shim.file("src/shim.c").opt_level(3).flag(format!("-march={march}")).flag("-include").flag("rte_config.h");
    shim.includes(&dpdk.include_paths).warnings(false).compile("spate_dpdk_shim");

    let bindings = bindgen::Builder::default()
        .header("src/shim.h")
        .clang_args(["-include", "rte_config.h", "-march=corei7"])
        .clang_args(dpdk.include_paths.iter().map(|path| format!("-I{}", path.display())))
        .allowlist_function(
            "rte_eal_(init|cleanup|hotplug_(add|remove))|rte_strerror|rte_version|rte_thread_(un)?register|rte_socket_count\
             |rte_pktmbuf_pool_create|rte_mempool_(free|avail_count)|rte_ring_(create|free)|rte_eth_from_rings\
             |rte_eth_dev_(configure|start|stop|close|info_get|get_port_by_name|get_mtu|set_mtu)\
             |rte_eth_(rx|tx)_queue_setup|rte_eth_(promiscuous_enable|macaddr_get|link_get_nowait|stats_get)",
        )
        .allowlist_function("spate_.*")
        .allowlist_type("rte_(mbuf|mempool|ring|eth_conf|eth_dev_info|eth_link|eth_stats|ether_addr)")
        .allowlist_var("RTE_(MAX_LCORE|PKTMBUF_HEADROOM|ETHER_MAX_JUMBO_FRAME_LEN|ETH_SPEED_NUM_UNKNOWN)")
        // Packed and aligned at once, which Rust cannot say; never looked into.
        .opaque_type("rte_arp_hdr|rte_arp_ipv4|rte_l2tpv2_combined_msg_hdr|rte_gtp_psc_generic_hdr")
        .derive_default(true)
        .generate_comments(false)
        .prepend_enum_name(false)
        .generate()
        .expect("bindings of libdpdk");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs");
    bindings.write_to_file(out).expect("OUT_DIR is writable");

    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}
