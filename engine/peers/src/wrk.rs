// SPDX-License-Identifier: Apache-2.0
//! wrk as a client at the far end. It sends a fixed number of requests, so that nothing is under way when it ends and
//! its numbers can be compared with a server's.
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::{namespaces::name, times::Times};

/// Connections that it has open at a time.
pub const OPEN: usize = 20;
/// Connections that it makes before, to see whether there is a server.
pub const BEFORE: usize = 1;
/// Seconds after which wrk ends by itself: nothing waits for ever.
const LONGEST: &str = "180";
/// What it prints when the last answer has come.
const ALL: &str = "all have come";
/// Requests wait behind the last that is wanted: it has no other way not to ask.
const SCRIPT: &str = include_str!("wrk.lua");

/// A process, in a folder of its own.
#[derive(Debug)]
pub struct Wrk {
    process: Child,
    out: BufReader<ChildStdout>,
    folder: PathBuf,
}

/// What it printed.
#[derive(Clone, Debug)]
pub struct Answered {
    pub requests: u64,
    /// All that came.
    pub bytes: u64,
    /// By kind, those that happened; answers with another body are among them.
    pub errors: BTreeMap<String, usize>,
    /// From request to answer.
    pub seconds: Times,
}

impl Wrk {
    /// Requests this body from a server this many times.
    pub fn start(prefix: &str, server: SocketAddr, requests: usize, body: &[u8]) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("{prefix}-wrk"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("script.lua"), SCRIPT)?;
        fs::write(folder.join("body"), body)?;
        let mut process = Command::new("ip")
            .args(["netns", "exec", &name(prefix, "far"), "wrk", "--threads", "1", "--connections", &OPEN.to_string()])
            .args(["--duration", LONGEST, "--timeout", LONGEST, "--script"])
            .arg(folder.join("script.lua"))
            .args([&format!("http://{server}/"), "--", &requests.to_string()])
            .arg(folder.join("body"))
            .arg(ALL)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("wrk: `make deps` installs it")?;
        let out = BufReader::new(process.stdout.take().context("it was asked for")?);
        Ok(Self { process, out, folder })
    }

    /// Until the last answer has come, or it gave up.
    pub fn wait(&mut self) -> anyhow::Result<()> {
        let mut line = String::new();
        while self.out.read_line(&mut line)? > 0 && line.trim() != ALL {
            line.clear();
        }
        Ok(())
    }

    /// Ends it, with all its connections.
    pub fn stop(mut self) -> anyhow::Result<Answered> {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_child(&self.process), Signal::INT);
        let mut printed = BTreeMap::new();
        for line in (&mut self.out).lines() {
            let line = line?;
            let value = line.strip_prefix("counted ").and_then(|rest| rest.split_once(' '));
            if let Some((name, value)) = value {
                printed.insert(name.to_owned(), value.parse::<f64>()?);
            }
        }
        let status = self.process.wait()?;
        ensure!(status.success(), "wrk ended with {status}");
        let mut take = |name: &str| printed.remove(name).with_context(|| format!("wrk does not report {name}"));
        let (requests, bytes) = (take("requests")? as u64, take("bytes")? as u64);
        let mut seconds = |name: &str| take(name).map(|us| us / 1e6);
        let seconds = Times {
            mean: seconds("mean")?,
            median: seconds("median")?,
            p99: seconds("p99")?,
            longest: seconds("longest")?,
        };
        let errors = printed.into_iter().filter(|(_, times)| *times > 0.0).map(|(kind, times)| (kind, times as usize));
        Ok(Answered { requests, bytes, errors: errors.collect(), seconds })
    }
}

impl Drop for Wrk {
    fn drop(&mut self) {
        // It has ended, unless something else failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
