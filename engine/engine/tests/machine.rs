// SPDX-License-Identifier: Apache-2.0
//! The machine as a serving engine reports it.
mod serving;

use contract::{GetInfoRequest, bool_fact, numbers_fact, text_fact};
use serving::Engine;

#[tokio::test]
async fn an_engine_reports_the_machine_that_it_runs_on() {
    let folder = tempfile::tempdir().unwrap();
    let (_engine, mut client) = Engine::serve(&folder.path().join("spate.sock"), "l").await;
    let info = client.get_info(GetInfoRequest {}).await.unwrap().into_inner();
    let machine = info.machine.expect("a machine");
    let [worker] = &machine.worker_cpus[..] else { panic!("{machine:?}") };
    assert!(machine.allowed_cpus.contains(&worker.cpu) && machine.control_cpus.len() == 1, "{machine:?}");
    assert!(machine.pci_devices.is_empty(), "a loopback has no device: {machine:?}");
    let clock = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap();
    assert_eq!(machine.clock_source.unwrap().fact, Some(text_fact::Fact::Value(clock.trim().to_owned())));
    assert!(matches!(machine.ipc_lock.unwrap().fact, Some(bool_fact::Fact::Value(_))));
    let Some(numbers_fact::Fact::Value(pages)) = machine.packet_memory_nodes.unwrap().fact else { return };
    assert!(pages.numbers.is_empty(), "without huge pages, {pages:?} have some");
    assert_eq!((info.ports[0].max_rx_queues, info.hugepage_bytes), (1, 0));
}
