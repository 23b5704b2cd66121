// SPDX-License-Identifier: Apache-2.0
//! Which clients get a page, how many ask, and what a worker that hangs does to the answers.
use super::*;
use crate::control::runs::{Held, tests};
use crate::control::watchdog;
use crate::plan::decode;
use std::sync::Condvar;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn held(engine: &Engine) -> Arc<Held> {
    engine.prepare("r", tests::ONE_TEMPLATE.into(), decode::Format::Auto).unwrap().0
}

async fn listening() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn ask(address: std::net::SocketAddr, request: &str) -> TcpStream {
    ask_with(address, request, b"").await
}

/// The same, with lines of the header.
async fn ask_with(address: std::net::SocketAddr, request: &str, header: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let lines = [request.as_bytes(), b" HTTP/1.1\r\nHost: a\r\n", header, b"\r\n"].concat();
    stream.write_all(&lines).await.unwrap();
    stream
}

async fn answer_to(address: std::net::SocketAddr, request: &str) -> String {
    let mut text = String::new();
    ask(address, request).await.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_run_has_been_scraped_when_its_final_page_was_written_and_not_before() {
    let engine = Arc::new(tests::engine());
    let run = held(&engine);
    run.run().stop("the test says so");
    while !run.has_ended() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // More than sockets hold.
    let body = "~".repeat(64 << 20).into();
    let long = Page { body, format: Format::OpenMetrics, ended: vec![Arc::downgrade(&run)] };
    let (listener, address) = listening().await;
    let last = AsyncMutex::new([Some((Instant::now() + FRESH * 60, Arc::new(long))), None]);
    let server = Arc::new(Server { engine: engine.clone(), last });
    let serving = async {
        for _ in 0..4 {
            server.connection(listener.accept().await.unwrap().0).await;
        }
    };
    let asking = async {
        assert!(answer_to(address, "HEAD /metrics").await.starts_with("HTTP/1.1 200"));
        assert!(!engine.final_counters_scraped(), "it has the head only");
        let mut leaves = ask(address, "GET /metrics").await;
        leaves.read_exact(&mut [0; 1000]).await.unwrap();
        drop(leaves);
        assert!(answer_to(address, "GET /readyz").await.ends_with("\r\n\r\nok\n"));
        assert!(!engine.final_counters_scraped(), "it has a part only");
        assert_eq!(answer_to(address, "GET /metrics").await.matches('~').count(), 64 << 20);
    };
    tokio::join!(serving, asking);
    assert!(engine.final_counters_scraped());

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(serve(listener, engine.clone()));
    let page = answer_to(address, "GET /metrics").await;
    assert!(page.contains("spate_run_state") && page.ends_with("# EOF\n"), "{page}");
    assert!(answer_to(address, "POST /metrics").await.starts_with("HTTP/1.1 405"));
    served.abort();
    let _ = served.await;
}

#[tokio::test]
async fn who_asks_at_once_gets_the_same_page_and_who_asks_later_a_new_one() {
    let server = Arc::new(Server { engine: Arc::new(tests::engine()), last: AsyncMutex::default() });
    let page = || server.page(Format::OpenMetrics);
    let (first, second) = tokio::join!(page(), page());
    let first = first.unwrap();
    assert!(Arc::ptr_eq(&first, &second.unwrap()));
    let other = server.page(Format::Protobuf).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &other) && Arc::ptr_eq(&other, &server.page(Format::Protobuf).await.unwrap()));
    tokio::time::sleep(FRESH).await;
    // A page is made even if the client leaves at once.
    let leaves = server.clone();
    let asking = tokio::spawn(async move { leaves.page(Format::OpenMetrics).await });
    tokio::task::yield_now().await;
    asking.abort();
    let next = page().await.unwrap();
    assert!(!Arc::ptr_eq(&first, &next));
    assert!(Arc::ptr_eq(&next, &page().await.unwrap()));
}

#[tokio::test]
async fn a_request_gets_the_format_that_it_prefers_and_a_malformed_one_gets_text() {
    let (listener, address) = listening().await;
    let served = tokio::spawn(serve(listener, Arc::new(tests::engine())));
    let head = |header: &'static [u8]| async move {
        let mut answer = Vec::new();
        ask_with(address, "GET /metrics", header).await.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).split("\r\n\r\n").next().unwrap().to_owned()
    };
    let protobuf = "proto=io.prometheus.client.MetricFamily; encoding=delimited";
    let several = b"Accept: text/plain;q=0.5\r\n\
        accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6\r\n";
    let got = head(several).await;
    assert!(got.starts_with("HTTP/1.1 200") && got.contains(protobuf) && got.contains("vary: accept"), "{got}");
    for other in [&b""[..], b"Accept: */*\r\n", b"Accept: \xff\xfe;q=,;\r\n", b"Accept:\r\n"] {
        let got = head(other).await;
        assert!(got.starts_with("HTTP/1.1 200") && got.contains("application/openmetrics-text"), "{got}");
    }
    served.abort();
    let _ = served.await;
}

#[tokio::test]
async fn who_holds_all_connections_keeps_nobody_out_and_loses_them() {
    let (listener, address) = listening().await;
    let served = tokio::spawn(serve(listener, Arc::new(tests::engine())));
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let since = Instant::now();
    assert!(answer_to(address, "GET /healthz").await.ends_with("ok\n"));
    assert_eq!(silent[0].read(&mut [0]).await.unwrap_or(0), 0, "the oldest gives way");
    assert!(since.elapsed() < REQUEST_TIMEOUT - FRESH, "they took {:?}", since.elapsed());
    assert_eq!(silent[CONNECTIONS - 1].read(&mut [0]).await.unwrap_or(0), 0, "it asked for nothing");
    let waited = since.elapsed();
    assert!((REQUEST_TIMEOUT - FRESH..REQUEST_TIMEOUT + 2 * FRESH).contains(&waited), "it was kept for {waited:?}");
    served.abort();
    let _ = served.await;
}

#[tokio::test]
async fn a_worker_that_hangs_makes_the_engine_neither_ready_nor_alive_until_it_goes_on() {
    let engine = Arc::new(tests::engine());
    let free = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = free.clone();
    // What a worker sends is given to this first.
    let hang = move |frames: &[(&[u8], usize)]| {
        let (is_free, changed) = &*theirs;
        drop(changed.wait_while(is_free.lock().unwrap(), |is_free| !*is_free));
        (0..frames.len()).collect()
    };
    engine.datapath().disturb(crate::index::PortIndex(0), Box::new(hang));
    let (listener, address) = listening().await;
    let served = tokio::spawn(serve(listener, engine.clone()));
    let watched = tokio::spawn({
        let engine = engine.clone();
        async move { watchdog::watch(&engine).await }
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    let run = held(&engine);
    engine.start(&run, engine.now_ns() + 200_000_000).unwrap();
    let mut answers = Vec::new();
    for _ in 0..15 {
        answers = vec![answer_to(address, "GET /readyz").await, answer_to(address, "GET /healthz").await];
        if answers[0].starts_with("HTTP/1.1 503") {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for answer in answers {
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.ends_with("worker 0 has not passed its loop for 10 s\n"), "{answer}");
    }
    *free.0.lock().unwrap() = true;
    free.1.notify_all();
    tokio::time::sleep(Duration::from_secs(2)).await;
    for path in ["/readyz", "/healthz"] {
        assert!(answer_to(address, &format!("GET {path}")).await.ends_with("ok\n"));
    }
    served.abort();
    watched.abort();
    let _ = tokio::join!(served, watched);
}
