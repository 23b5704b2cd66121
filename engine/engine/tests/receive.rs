// SPDX-License-Identifier: Apache-2.0
//! `spate-engine receive` on a kernel interface, in a network namespace of its own: what it prints, and SIGUSR1.
use std::process::Command;

const ENGINE: &str = env!("CARGO_BIN_EXE_spate-engine");

/// Sends datagrams nobody waits for, resets the statistics, and lets it print for a while.
const SCRIPT: &str = r#"
set -e
mount -t sysfs sysfs /sys
ip link set lo up mtu "$MTU"
out=$(mktemp)
"$ENGINE" receive --port east=kernel:lo --hugepages none --memory 32M --interval 200ms --format script > "$out" & engine=$!
trap 'kill $engine 2>/dev/null || true; cat "$out"; rm "$out"' EXIT
# Until it prints, or has ended: how long that takes depends on what else runs.
for i in $(seq 300); do
  if [ -s "$out" ] || ! kill -0 $engine 2>/dev/null; then break; fi
  sleep 0.1
done
for i in $(seq 20); do echo $i > /dev/udp/127.0.0.1/9 || true; done
sleep 1
kill -USR1 $engine
sleep 1
kill -INT $engine
wait $engine
"#;

/// Whether all went well, and what was printed.
fn receive(mtu: &str) -> (bool, String, String) {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "bash", "-c", SCRIPT]).env("ENGINE", ENGINE).env("MTU", mtu);
    let done = command.output().expect("unshare runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.success(), text(&done.stdout), text(&done.stderr))
}

#[test]
fn an_interface_whose_packets_are_too_long_is_refused() {
    let (good, said, errors) = receive("65536");
    assert!(!good && said.is_empty() && errors.contains("interface lo failed: its MTU is 65536"), "{said}\n{errors}");
}

#[test]
fn a_signal_starts_the_statistics_again() {
    let (good, said, errors) = receive("1500");
    assert!(good, "{said}\n{errors}");
    let packets: Vec<u64> = said
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[1..3] == ["east", "total"])
        .map(|words| words[3].parse().unwrap())
        .collect();
    assert!(packets.iter().max().is_some_and(|&most| most >= 20), "{said}\n{errors}");
    assert_eq!(packets.last(), Some(&0), "{said}\n{errors}");
}
