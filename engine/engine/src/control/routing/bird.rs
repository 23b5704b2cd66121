// SPDX-License-Identifier: Apache-2.0
//! BIRD's files, its process where it is run here, and its control socket.
use super::Place;
use rustix::process::{Pid, Signal, kill_process};
use spate_routing::{Command, Configuration, Decoder, Entry, Refusal, Reply, protocols};
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// What BIRD reads when it starts: nothing to do.
const CONFIGURATION: &str = "bird.conf";
/// What it is given then. It is there while BIRD reads it, since it has passwords, and with a million routes 36 MB.
const NEXT: &str = "bird.next.conf";
const SOCKET: &str = "bird.ctl";
/// The longest time to answer what changes BIRD: a million routes take 2 s,
const CHANGE_LIMIT: Duration = Duration::from_secs(60);
/// and what only asks: one that hangs is soon reported.
const QUERY_LIMIT: Duration = Duration::from_secs(15);
/// The longest time to end after SIGTERM.
const END_LIMIT: Duration = Duration::from_secs(2);
/// The interval at which BIRD is queried for sessions that end,
const ENDING_INTERVAL: Duration = Duration::from_millis(10);
/// and the time that their last packets have to leave by the ports: the slow path looks for them every 10 ms.
const LAST_PACKETS: Duration = Duration::from_millis(50);

/// Its files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(super) fn of(place: &Place) -> Self {
        Self { folder: place.folder.clone() }
    }

    /// So that BIRD can start: a configuration in which it has nothing to do.
    pub(super) fn begin(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.remove_next()?;
        self.write(CONFIGURATION, &Configuration { routers: &[], routes: &[] }).map(drop)
    }

    /// Writes what BIRD is given next; its path.
    pub(super) fn write_next(&self, configuration: &Configuration<'_>) -> io::Result<String> {
        self.write(NEXT, configuration)
    }

    /// BIRD has read what it was given.
    pub(super) fn remove_next(&self) -> io::Result<()> {
        remove(&self.folder.join(NEXT))
    }

    /// Passwords are in it: only this user reads it.
    fn write(&self, name: &str, configuration: &Configuration<'_>) -> io::Result<String> {
        let path = self.folder.join(name);
        // Another one may have been left with other rights.
        remove(&path)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let mut file = BufWriter::new(file);
        write!(file, "{configuration}")?;
        file.flush()?;
        Ok(path.display().to_string())
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join(CONFIGURATION)
    }
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// BIRD as a child of this process; it ends when dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    pub(super) fn start(program: &Path, files: &Files) -> io::Result<Self> {
        let mut command = std::process::Command::new(program);
        command.arg("-f").arg("-c").arg(files.configuration()).arg("-s").arg(files.socket());
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map(Self)
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> io::Result<Option<String>> {
        Ok(self.0.try_wait()?.map(|status| status.to_string()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let started_at = Instant::now();
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It is a child that was not waited for: the number is its own.
            let _ = kill_process(pid, Signal::TERM);
        }
        while started_at.elapsed() < END_LIMIT && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Why BIRD did not do what a command says.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// It is not reached any more.
    #[error("BIRD's control socket: {0}")]
    Connection(#[from] io::Error),
    /// Its files cannot be written.
    #[error("BIRD's configuration: {0}")]
    Files(io::Error),
    /// It did not answer in time.
    #[error("BIRD's control socket: no reply within {0:?}")]
    Silent(Duration),
    /// It answered with something else than a reply.
    #[error("BIRD's control socket: {0}")]
    Reply(String),
    /// It refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Ends all sessions, of which neighbors are notified by the ports; returns when they have ended.
pub(super) async fn end_sessions(files: &Files) -> Result<(), Failed> {
    let mut bird = Connection::open(&files.socket()).await?;
    let nothing = Configuration { routers: &[], routes: &[] };
    let file = files.write_next(&nothing).map_err(Failed::Files)?;
    bird.command(&Command::ConfigureSoft { file }).await?;
    // Protocols that are removed are listed until they have ended.
    while protocols(&bird.command(&Command::ShowProtocols).await?).iter().any(|left| left.kind != "Device") {
        tokio::time::sleep(ENDING_INTERVAL).await;
    }
    tokio::time::sleep(LAST_PACKETS).await;
    Ok(())
}

/// A connection to its control socket. There is one command at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    decoder: Decoder,
}

impl Connection {
    /// Connects, and waits for the greeting.
    pub(super) async fn open(socket: &Path) -> Result<Self, Failed> {
        let mut this = Self { stream: UnixStream::connect(socket).await?, decoder: Decoder::default() };
        this.reply(QUERY_LIMIT).await?;
        Ok(this)
    }

    /// Sends a command; its reply, once all of it is there.
    pub(super) async fn command(&mut self, command: &Command) -> Result<Reply, Failed> {
        self.stream.write_all(format!("{command}\n").as_bytes()).await?;
        let limit = match command {
            Command::ShowProtocols | Command::ShowBfd | Command::ShowOspf | Command::ShowRip => QUERY_LIMIT,
            _ => CHANGE_LIMIT,
        };
        let reply = self.reply(limit).await?;
        reply.done()?;
        Ok(reply)
    }

    /// Sends a command whose reply may be long; its lines come from [`Self::entry`].
    pub(super) async fn begin(&mut self, command: &Command) -> Result<(), Failed> {
        Ok(self.stream.write_all(format!("{command}\n").as_bytes()).await?)
    }

    /// The next line of a reply.
    pub(super) async fn entry(&mut self) -> Result<Entry, Failed> {
        loop {
            if let Some(entry) = self.decoder.entry().map_err(|e| Failed::Reply(e.to_string()))? {
                return Ok(entry);
            }
            tokio::time::timeout(QUERY_LIMIT, self.read()).await.map_err(|_| Failed::Silent(QUERY_LIMIT))??;
        }
    }

    async fn reply(&mut self, limit: Duration) -> Result<Reply, Failed> {
        tokio::time::timeout(limit, self.whole_reply()).await.map_err(|_| Failed::Silent(limit))?
    }

    async fn whole_reply(&mut self) -> Result<Reply, Failed> {
        loop {
            if let Some(reply) = self.decoder.reply().map_err(|e| Failed::Reply(e.to_string()))? {
                return Ok(reply);
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<(), Failed> {
        let mut bytes = vec![0; 16 << 10];
        match self.stream.read(&mut bytes).await? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            len => {
                self.decoder.push(&bytes[..len]);
                Ok(())
            }
        }
    }
}
