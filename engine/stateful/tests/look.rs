mod net;
use net::{MS, Net, Path, request_response, scenario};
use spate_stateful::Protocol;
#[test]
fn look() {
    for (loss, resp, delay) in
        [(0, 100_000u64, 25), (50_000, 100_000, 25), (10_000, 10_000_000, 25), (50_000, 1_000_000, 25)]
    {
        let (client, server, payloads) = request_response(100, resp);
        let mut s = scenario(Protocol::Tcp, client, server, payloads);
        s.templates[0].client.as_mut().unwrap().tunables.receive_buffer = 4 << 20;
        s.templates[0].server.as_mut().unwrap().tunables.send_buffer = 4 << 20;
        let path = Path { delay_ns: delay * MS, loss, seed: 7, ..Path::default() };
        let mut net = Net::new(s, path);
        net.record = true;
        for _ in 0..20 {
            net.open(0);
        }
        let start = net.now;
        let mut done = 0;
        while net.stack.open_flows(0, true) > 0 && net.now < start + 600_000 * MS {
            net.run_for(MS);
            done = net.now;
        }
        println!("loss {loss} resp {resp}: {} ms\n{}", (done - start) / MS, net.told());
        if loss == 0 {
            let mut f = std::fs::File::create("/tmp/s6/look.pcap").unwrap();
            use std::io::Write;
            f.write_all(&[0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0]).unwrap();
            for (at, _, b) in &net.sent {
                let mut h = vec![];
                h.extend(((at / 1_000_000_000) as u32).to_le_bytes());
                h.extend(((at % 1_000_000_000) as u32).to_le_bytes());
                h.extend((b.len() as u32).to_le_bytes());
                h.extend((b.len() as u32).to_le_bytes());
                f.write_all(&h).unwrap();
                f.write_all(b).unwrap();
            }
        }
    }
}
