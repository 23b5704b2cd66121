// SPDX-License-Identifier: Apache-2.0
//! Builds the shim and the bindings against the libdpdk and libpcap that pkg-config finds, and says what to link.
//!
//! `SPATE_MARCH` is the instruction set of the shim (default x86-64-v2, DPDK's own baseline: what runs on any machine
//! that Debian's DPDK runs on). `SPATE_DPDK_LINK=static` links DPDK's archives into the binary, drivers included.
use std::{env, path::PathBuf};

/// Drivers that reach the binary when linked statically: what ports can be made of, and NICs with SR-IOV.
const DRIVERS: &[&str] = &[
    "bus_vdev",
    "bus_pci",
    "bus_auxiliary",
    "bus_vmbus",
    "mempool_ring",
    "net_null",
    "net_ring",
    "net_af_packet",
    "net_af_xdp",
    "net_tap",
    "net_bond",
    "net_memif",
    "net_virtio",
    "common_iavf",
    "net_iavf",
    "net_e1000",
    "net_igc",
    "net_ixgbe",
    "net_i40e",
    "net_ice",
    "net_vmxnet3",
    "net_ena",
    "net_bnxt",
    "common_mlx5",
    "net_mlx5",
];

/// Libraries they and the shim need, in DPDK's link order; those that a version does not have are skipped.
const LIBRARIES: &[&str] = &[
    "vhost",
    "cryptodev",
    "dmadev",
    "security",
    "rcu",
    "hash",
    "gso",
    "ip_frag",
    "timer",
    "stack",
    "pci",
    "ethdev",
    "meter",
    "net",
    "mbuf",
    "mempool",
    "ring",
    "eal",
    "argparse",
    "telemetry",
    "kvargs",
    "log",
];

fn main() {
    for path in ["shim.c", "shim.h", "build.rs"] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=SPATE_MARCH");
    println!("cargo:rerun-if-env-changed=SPATE_DPDK_LINK");

    let dpdk = pkg_config::Config::new()
        .cargo_metadata(false)
        .atleast_version("22.11")
        .probe("libdpdk")
        .expect("libdpdk 22.11 or later with its headers (Debian: libdpdk-dev)");
    let pcap = pkg_config::Config::new()
        .probe("libpcap")
        .expect("libpcap with its headers (Debian: libpcap-dev; libdpdk-dev brings it)");
    let march = env::var("SPATE_MARCH").unwrap_or_else(|_| "x86-64-v2".into());

    let mut shim = cc::Build::new();
    shim.file("shim.c").opt_level(3).flag(format!("-march={march}")).flag("-include").flag("rte_config.h");
    shim.flag("-Werror=implicit-function-declaration");
    // DPDK's headers are not free of warnings under -Wextra; system headers are exempt.
    for path in dpdk.include_paths.iter().chain(&pcap.include_paths) {
        shim.flag("-isystem").flag(path);
    }
    shim.compile("spate_dpdk_shim");

    let mut bindings = bindgen::Builder::default()
        .header("shim.h")
        .clang_args(["-include", "rte_config.h", &format!("-march={march}")])
        .clang_args(dpdk.include_paths.iter().chain(&pcap.include_paths).map(|path| format!("-I{}", path.display())))
        .allowlist_function("spate_.*")
        .allowlist_type("spate_.*")
        .allowlist_var("SPATE_.*|RTE_LOG_.*|RTE_MAX_LCORE|RTE_PKTMBUF_HEADROOM|RING_F_SC_DEQ|SOCKET_ID_ANY|DLT_EN10MB|PCAP_NETMASK_UNKNOWN")
        // Only ever behind pointers: their layout is the shim's business.
        .opaque_type("rte_mbuf.*|rte_mempool.*|rte_ring.*")
        .prepend_enum_name(false)
        .no_debug("rte_mbuf|rte_eth_conf|rte_eth_dev_info")
        .generate_comments(false);
    for function in [
        "rte_eal_init",
        "rte_eal_hotplug_add",
        "rte_dev_event_callback_register",
        "rte_eth_dev_get_port_by_name",
        "rte_eth_dev_start",
        "rte_eth_read_clock",
        "rte_eth_promiscuous_enable",
        "rte_eth_allmulticast_enable",
        "rte_eth_from_rings",
        "rte_eth_tx_done_cleanup",
        "rte_pktmbuf_pool_create",
        "rte_mempool_free",
        "rte_mempool_avail_count",
        "rte_ring_create",
        "rte_thread_register",
        "rte_thread_unregister",
        "rte_strerror",
        "rte_version",
        "pcap_open_dead",
        "pcap_compile",
        "pcap_geterr",
        "pcap_freecode",
        "pcap_close",
        "bpf_filter",
    ] {
        bindings = bindings.allowlist_function(function);
    }
    bindings
        .generate()
        .expect("bindgen reads shim.h")
        .write_to_file(PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs"))
        .expect("OUT_DIR is writable");

    match env::var("SPATE_DPDK_LINK").as_deref() {
        Ok("static") => link_statically(&dpdk),
        Ok("shared") | Err(_) => {
            for name in ["ethdev", "mbuf", "mempool", "ring", "eal", "net_ring", "net_bond"] {
                println!("cargo:rustc-link-lib=dylib=rte_{name}");
            }
        }
        Ok(other) => panic!("SPATE_DPDK_LINK is static or shared, not {other}"),
    }
}

fn link_statically(dpdk: &pkg_config::Library) {
    let directories: Vec<PathBuf> =
        pkg_config::get_variable("libdpdk", "libdir").map(PathBuf::from).into_iter().collect();
    let exists = |name: &str| directories.iter().any(|d| d.join(format!("librte_{name}.a")).exists());
    for directory in &directories {
        println!("cargo:rustc-link-search=native={}", directory.display());
    }
    // Drivers register themselves in constructors that nothing refers to: keep every object.
    for name in DRIVERS.iter().chain(LIBRARIES).filter(|name| exists(name)) {
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=rte_{name}");
    }
    let _ = dpdk;
    for name in ["xdp", "bpf"].iter().filter(|_| exists("net_af_xdp")) {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
    for name in ["numa", "mlx5", "ibverbs", "bsd", "atomic", "m", "dl", "pthread"] {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
}
