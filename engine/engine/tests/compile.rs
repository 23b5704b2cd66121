// SPDX-License-Identifier: Apache-2.0
//! What `compile` prints of templates: a summary, or with `--resolved` the plan with a capture replaced by its programs,
//! which compiles as well; errors with the paths of their fields.
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn compile(plan: &Value, options: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spate-engine"))
        .args(["compile", "--plan", "-"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(plan.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_version_is_that_of_the_release_that_the_image_is_of() {
    let version = |released: &str| {
        let engine =
            Command::new(env!("CARGO_BIN_EXE_spate-engine")).arg("--version").env("SPATE_VERSION", released).output();
        String::from_utf8(engine.unwrap().stdout).unwrap()
    };
    assert_eq!(version("9.8.7-rc.1"), "spate-engine 9.8.7-rc.1\n");
    assert_eq!(version(""), concat!("spate-engine ", env!("CARGO_PKG_VERSION"), "-dev\n"));
}

fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One message from 10.0.0.1:4000 to 10.0.0.2:53, and the answer 20 ms later.
fn question() -> Vec<u8> {
    let mut file: Vec<u8> =
        [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1u32].iter().flat_map(|w| w.to_le_bytes()).collect();
    for (at_us, ends, ports, text) in
        [(0, [1, 2], [15, 160, 0, 53], b"who is it?"), (20_000, [2, 1], [0, 53, 15, 160], b"it is me!!")]
    {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 38, 0, 0, 0, 0, 64, 17, 0, 0];
        frame.extend([&[10, 0, 0, ends[0], 10, 0, 0, ends[1]][..], &ports, &[0, 18, 0, 0], text].concat());
        file.extend([0, at_us, frame.len() as u32, frame.len() as u32].iter().flat_map(|w| w.to_le_bytes()));
        file.extend(frame);
    }
    file
}

/// Base64 (RFC 4648 section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |three: &[u8]| {
        let word = three.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let digit =
            |n: usize| if n <= three.len() { char::from(DIGITS[(word >> (18 - 6 * n) & 63) as usize]) } else { '=' };
        [0, 1, 2, 3].map(digit)
    };
    bytes.chunks(3).flat_map(digits).collect()
}

fn plan(capture: &[u8]) -> Value {
    json!({
        "runId": "r", "runTag": 1, "timing": {},
        "stateful": {
            "pools": [{"first": "EAAAAQ==", "last": "EAAA/w=="}, {"first": "MAAAAQ==", "last": "MAAA/w=="}],
            "templates": [{
                "name": "dns", "clientPort": "l", "serverPort": "l",
                "flowsPerSecond": {"numerator": "10", "denominator": "3"},
                "clients": [{"pool": 0, "weight": 1}], "servers": [{"pool": 1, "weight": 1}],
                "capture": {"pcap": base64(capture)},
            }],
        },
    })
}

#[test]
fn a_capture_becomes_programs_and_those_compile_alike() {
    let plan = plan(&question());
    let resolved = compile(&plan, &["--resolved"]);
    assert!(resolved.status.success(), "{resolved:?}");
    let resolved = printed(&resolved);
    let template = &resolved["stateful"]["templates"][0];
    assert_eq!(template["capture"], Value::Null);
    assert_eq!((&template["protocol"], &template["destinationPort"]), (&json!("TRANSPORT_PROTOCOL_UDP"), &json!(53)));
    let client = json!([{"sendMessage": {}}, {"receiveMessages": {"messages": "1"}}]);
    let server = json!([{"receiveMessages": {"messages": "1"}}, {"sendMessage": {"payload": 1}}]);
    assert_eq!((&template["client"]["instructions"], &template["server"]["instructions"]), (&client, &server));
    let payloads = json!([{"bytes": base64(b"who is it?")}, {"bytes": base64(b"it is me!!")}]);
    assert_eq!(resolved["stateful"]["payloads"], payloads);

    let summary = printed(&compile(&plan, &[]));
    let expected = json!([{
        "name": "dns", "protocol": "udp", "destination_port": 53, "flows": 10, "per_seconds": 3,
        "client_instructions": 2, "server_instructions": 2,
    }]);
    assert_eq!(summary["templates"], expected);
    assert_eq!(printed(&compile(&resolved, &[])), summary);
    assert_eq!(printed(&compile(&resolved, &["--resolved"])), resolved);
}

#[test]
fn what_is_wrong_is_reported_with_its_path() {
    let mut twice = question();
    // The answer's ports are of another session.
    let port = twice.len() - 18;
    twice[port] = 1;
    let refused = compile(&plan(&twice), &["--resolved"]);
    assert_eq!(refused.status.code(), Some(1));
    let error = &printed(&refused)["errors"][0];
    assert_eq!(error["field"], "stateful.templates[0].capture.pcap");
    let message = error["description"].as_str().unwrap();
    assert!(message.starts_with("packet 2: its pair of ports is not of the session that packet 1 begins"), "{message}");
}

#[test]
fn no_more_is_read_than_a_plan_may_have() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spate-engine"))
        .args(["compile", "--plan", "-", "--format", "binary"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let (mut written, block) = (0, vec![0; 1 << 20]);
    while written < 300 && stdin.write_all(&block).is_ok() {
        written += 1;
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("--plan -: standard input has more than the 268435456 bytes that a plan may have"),
        "{message}"
    );
    assert_eq!((output.status.code(), written), (Some(1), 256));
}

#[test]
fn help_states_what_a_plan_need_not_say() {
    let help = Command::new(env!("CARGO_BIN_EXE_spate-engine")).args(["compile", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["mss 1460", "initial_window 10", "minimum_rto_ns 200000000 (0.2 s)", "65536 a worker"] {
        assert!(help.contains(words), "{words} is not in:\n{help}");
    }
}
