// SPDX-License-Identifier: Apache-2.0
//! The kernel's TCP as a peer: byte streams over plain sockets, and a log of every connection.
//!
//! A client connects, sends a request, receives a response of known length and closes. All bytes are compared with what they
//! should be.
use std::{
    io,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::net::sockopt::set_tcp_congestion;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    runtime, select,
    sync::oneshot,
    task::{JoinSet, LocalSet},
    time,
};

use crate::namespaces;

/// A connection that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(180);

/// What both ends send.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// From clients.
    pub request: Arc<[u8]>,
    /// From servers.
    pub response: Arc<[u8]>,
}

/// A connection, as the kernel's end saw it.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Bytes that came.
    pub received: u64,
    /// Bytes that were given to the socket.
    pub sent: u64,
    /// Clients: from before the connect until the last byte. Servers: from the accept until the client closed.
    pub took: Duration,
    /// Why it failed.
    pub failure: Option<String>,
}

/// A server or clients in a thread of their own.
#[derive(Debug)]
pub struct Peer {
    log: Arc<Mutex<Vec<Stream>>>,
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<io::Result<()>>,
}

impl Peer {
    /// Connections that have ended so far.
    pub fn ended(&self) -> usize {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Ends it, and all its open sockets as those of a process that is killed. Returns the connections that had ended.
    pub fn stop(self) -> io::Result<Vec<Stream>> {
        drop(self.stop);
        self.thread.join().expect("it does not panic")?;
        Ok(std::mem::take(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn start(
        prefix: &str,
        which: &str,
        work: impl AsyncFnOnce(Log, oneshot::Sender<()>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let log = Arc::new(Mutex::new(Vec::new()));
        let shared = Log(Arc::clone(&log));
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let thread = namespaces::in_namespace(prefix, which, move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, async {
                select! {
                    result = work(shared, ready) => result,
                    _ = stopped => Ok(()),
                }
            })
        });
        if is_ready.blocking_recv().is_err() {
            thread.join().expect("it does not panic")?;
            return Err(io::Error::other("it ended at once"));
        }
        Ok(Self { log, stop, thread })
    }
}

#[derive(Clone)]
struct Log(Arc<Mutex<Vec<Stream>>>);

impl Log {
    async fn note(self, start: Instant, work: impl Future<Output = (u64, u64, io::Result<Instant>)>) {
        let (received, sent, result) = match time::timeout(LONGEST, work).await {
            Ok(text) => text,
            Err(_) => (0, 0, Err(io::Error::other(format!("not over after {} s", LONGEST.as_secs())))),
        };
        let (end, failure) = match result {
            Ok(end) => (end, None),
            Err(error) => (Instant::now(), Some(error.to_string())),
        };
        let stream = Stream { received, sent, took: end - start, failure };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }
}

/// Reads what is expected, and compares it.
async fn receive(stream: &mut TcpStream, expected: &[u8], received: &mut u64) -> io::Result<()> {
    let mut buffer = [0; 32 << 10];
    while (*received as usize) < expected.len() {
        let at = *received as usize;
        let room = (expected.len() - at).min(buffer.len());
        let count = stream.read(&mut buffer[..room]).await?;
        if count == 0 {
            return Err(io::Error::other(format!("closed after {received} bytes of {}", expected.len())));
        }
        if buffer[..count] != expected[at..at + count] {
            return Err(io::Error::other(format!("bytes behind {at} arrived changed")));
        }
        *received += count as u64;
    }
    Ok(())
}

async fn serve_one(mut stream: TcpStream, exchange: Exchange) -> (u64, u64, io::Result<Instant>) {
    let (mut received, mut sent) = (0, 0);
    let result = async {
        receive(&mut stream, &exchange.request, &mut received).await?;
        stream.write_all(&exchange.response).await?;
        sent = exchange.response.len() as u64;
        match stream.read(&mut [0; 1]).await? {
            0 => Ok(Instant::now()),
            _ => Err(io::Error::other("more came than was asked for")),
        }
    };
    let result = result.await;
    (received, sent, result)
}

async fn ask_one(
    server: SocketAddr,
    from: Option<SocketAddr>,
    exchange: Rc<Exchange>,
) -> (u64, u64, io::Result<Instant>) {
    let (mut received, mut sent) = (0, 0);
    let result = async {
        let socket = socket(server)?;
        if let Some(from) = from {
            socket.bind(from)?;
        }
        let mut stream = socket.connect(server).await?;
        stream.write_all(&exchange.request).await?;
        sent = exchange.request.len() as u64;
        receive(&mut stream, &exchange.response, &mut received).await?;
        Ok(Instant::now())
    };
    let result = result.await;
    (received, sent, result)
}

/// A server at an address of a namespace.
pub fn serve(prefix: &str, which: &str, at: SocketAddr, exchange: Exchange) -> io::Result<Peer> {
    Peer::start(prefix, which, async move |log: Log, ready| {
        let listener = listen(at)?;
        let _ = ready.send(());
        let mut open = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await?;
            let work = serve_one(stream, exchange.clone());
            open.spawn_local(log.clone().note(Instant::now(), work));
            while open.try_join_next().is_some() {}
        }
    })
}

fn socket(family: SocketAddr) -> io::Result<TcpSocket> {
    if family.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(at)?;
    socket.set_reuseaddr(true)?;
    // Whatever this machine's default is; connections have their listener's.
    set_tcp_congestion(&socket, "cubic")?;
    socket.bind(at)?;
    socket.listen(16_384)
}

/// Clients of a server.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    pub count: usize,
    pub per_second: usize,
    /// Where the n-th is; the kernel chooses if this does not say.
    pub from: fn(usize) -> Option<SocketAddr>,
}

/// Clients in a namespace ask a server.
pub fn ask(prefix: &str, which: &str, server: SocketAddr, exchange: Exchange, clients: Clients) -> io::Result<Peer> {
    Peer::start(prefix, which, async move |log: Log, ready| {
        let _ = ready.send(());
        let exchange = Rc::new(exchange);
        let mut open = JoinSet::new();
        let start = time::Instant::now();
        for n in 0..clients.count {
            time::sleep_until(start + Duration::from_secs(n as u64) / clients.per_second as u32).await;
            let work = ask_one(server, (clients.from)(n), Rc::clone(&exchange));
            open.spawn_local(log.clone().note(Instant::now(), work));
            while open.try_join_next().is_some() {}
        }
        while open.join_next().await.is_some() {}
        // Stopped from outside.
        std::future::pending().await
    })
}
