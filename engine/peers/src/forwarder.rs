// SPDX-License-Identifier: Apache-2.0
//! The router: takes frames from one end, and gives them to the other when and if the path's judge says so.
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    forge::{self, Aim},
    namespaces::{self, NEAR, OURS},
    packet_socket::{BATCH, PacketSocket, ROOM},
    path::{Direction, Fate, Judge, Path},
};

/// What it did.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Forwarded {
    /// Frames that left.
    pub forwarded: u64,
    /// Lost by the path's decision.
    pub lost: u64,
    /// Sent twice by the path's decision.
    pub twice: u64,
    /// Answered because they were longer than the MTU.
    pub too_long: u64,
    /// Resets forged.
    pub resets: u64,
    /// Lost because the router was too slow: none in a valid run.
    pub missed: u64,
    /// Maximum delay of a frame after it was due.
    pub latest_us: u64,
}

/// What is at the near end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// Our end.
    Ours,
    /// The kernel, in its place.
    Kernel,
}

impl Near {
    fn interface(self) -> &'static str {
        match self {
            Self::Ours => "our1",
            Self::Kernel => "near1",
        }
    }

    fn address(self) -> [u8; 4] {
        match self {
            Self::Ours => OURS,
            Self::Kernel => NEAR,
        }
    }
}

/// Forged resets: one for each connection, against the near end when it sends data.
#[derive(Clone, Copy, Debug)]
pub struct Resets {
    /// One connection of this many, by half of the far end's port: Linux prefers even ones.
    pub one_in: u16,
    /// See there.
    pub aim: Aim,
}

/// A router at work.
#[derive(Debug)]
pub struct Forwarder {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<io::Result<Forwarded>>,
}

impl Forwarder {
    /// Between an interface of the near end's link and the far end's, in the router's namespace.
    pub fn start(prefix: &str, near: Near, path: Path, seed: u64, resets: Option<Resets>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (started, ready) = std::sync::mpsc::channel();
        let thread = namespaces::in_namespace(prefix, "router", move || {
            let ends = [PacketSocket::open(near.interface())?, PacketSocket::open("far1")?];
            started.send(()).map_err(io::Error::other)?;
            Router {
                ends,
                near: namespaces::mac(near.address()),
                judge: Judge::new(path, seed),
                resets,
                reset: HashSet::new(),
                under_way: BinaryHeap::new(),
                order: 0,
                done: Forwarded::default(),
            }
            .run(&stopped)
        });
        if ready.recv().is_err() {
            return Err(thread.join().expect("it does not panic").expect_err("it was not ready"));
        }
        Ok(Self { stop, thread })
    }

    /// Ends it; what is under way is lost.
    pub fn stop(self) -> io::Result<Forwarded> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

/// A frame that leaves at an instant, in order of arrival if at the same.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due: Instant,
    order: u64,
    to: usize,
    frame: Vec<u8>,
}

struct Router {
    /// Near and far.
    ends: [PacketSocket; 2],
    /// MAC of the near end: the other's packets, of connections before, go nowhere.
    near: [u8; 6],
    judge: Judge,
    resets: Option<Resets>,
    /// Ports of the far end whose connections were reset.
    reset: HashSet<(u16, u16)>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    order: u64,
    done: Forwarded,
}

impl Router {
    fn run(mut self, stop: &AtomicBool) -> io::Result<Forwarded> {
        let mut rooms = Box::new([[0; ROOM]; BATCH]);
        let mut lengths = [0; BATCH];
        while !stop.load(Ordering::Relaxed) {
            let mut taken = 0;
            for from in 0..2 {
                let count = self.ends[from].receive(&mut rooms, &mut lengths)?;
                let now = Instant::now();
                for (room, length) in rooms.iter().zip(&lengths[..count]) {
                    self.take(from, &room[..*length], now);
                }
                taken += count;
            }
            self.give()?;
            if taken == 0 {
                self.wait()?;
            }
        }
        for end in &self.ends {
            self.done.missed += end.missed()?;
        }
        Ok(self.done)
    }

    fn take(&mut self, from: usize, frame: &[u8], now: Instant) {
        let direction = if from == 0 { Direction::Out } else { Direction::Back };
        let Some(ports) = forge::ports(frame) else { return };
        if from == 1 && frame[..6] != self.near {
            return;
        }
        if from == 0 {
            self.perhaps_reset(frame, ports, now);
        }
        match self.judge.decide(direction, frame.len() - 14) {
            Fate::Lost => self.done.lost += 1,
            Fate::TooLong { mtu } => {
                self.done.too_long += 1;
                self.send(from, forge::too_long(frame, mtu), now);
            }
            Fate::Leaves { after_us, again_us } => {
                self.send(1 - from, frame.to_vec(), now + Duration::from_micros(after_us));
                if let Some(us) = again_us {
                    self.done.twice += 1;
                    self.send(1 - from, frame.to_vec(), now + Duration::from_micros(us));
                }
            }
        }
    }

    fn perhaps_reset(&mut self, frame: &[u8], ports: (u16, u16), now: Instant) {
        let Some(Resets { one_in, aim }) = self.resets else { return };
        if !(ports.1 / 2).is_multiple_of(one_in) || self.reset.contains(&ports) {
            return;
        }
        if let Some(reset) = forge::reset(frame, aim) {
            self.reset.insert(ports);
            self.done.resets += 1;
            self.send(0, reset, now);
        }
    }

    fn send(&mut self, to: usize, frame: Vec<u8>, due: Instant) {
        self.order += 1;
        self.under_way.push(Reverse(UnderWay { due, order: self.order, to, frame }));
    }

    /// Gives away what is due.
    fn give(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let mut out: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
        while self.under_way.peek().is_some_and(|Reverse(next)| next.due <= now) {
            let Some(Reverse(next)) = self.under_way.pop() else { break };
            self.done.latest_us = self.done.latest_us.max((now - next.due).as_micros() as u64);
            out[next.to].push(next.frame);
        }
        for (end, frames) in self.ends.iter().zip(&out) {
            let mut left = &frames[..];
            while !left.is_empty() {
                let sent = end.send(left)?;
                if sent == 0 {
                    thread::yield_now();
                }
                self.done.forwarded += sent as u64;
                left = &left[sent..];
            }
        }
        Ok(())
    }

    /// Until something is due or comes, but not for long: `stop` may be set.
    fn wait(&self) -> io::Result<()> {
        let longest = Duration::from_millis(20);
        let next = self.under_way.peek().map(|Reverse(next)| next.due.saturating_duration_since(Instant::now()));
        let wait = next.map_or(longest, |next| next.min(longest));
        let mut fds = [PollFd::new(&self.ends[0], PollFlags::IN), PollFd::new(&self.ends[1], PollFlags::IN)];
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as _ };
        match poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
