// SPDX-License-Identifier: Apache-2.0
//! nginx as a server at the far end, with a file of known length and a log of the bytes of every connection.
use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::namespaces::{self, name};

/// One process, in a folder of its own.
#[derive(Debug)]
pub struct Nginx {
    process: Child,
    folder: PathBuf,
}

/// A request of a file after which the server closes.
pub const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: far\r\nConnection: close\r\n\r\n";

impl Nginx {
    /// Serves a file of these bytes.
    pub fn start(prefix: &str, at: SocketAddr, file: &[u8]) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("{prefix}-nginx"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("file"), file)?;
        let here = folder.display();
        let configuration = format!(
            "daemon off; master_process off; worker_rlimit_nofile 65536; pid {here}/pid; error_log {here}/errors warn;
             events {{ worker_connections 32768; }}
             http {{ log_format bytes '$status $bytes_sent'; access_log {here}/access bytes; sendfile on;
                client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path {here}/fastcgi;
                uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi; send_timeout 180s;
                server {{ listen {at} backlog=16384; root {here}; }} }}"
        );
        fs::write(folder.join("nginx.conf"), configuration)?;
        let process = Command::new("ip")
            .args(["netns", "exec", &name(prefix, "far"), "nginx", "-p"])
            .arg(&folder)
            .args(["-e".into(), folder.join("errors"), "-c".into(), folder.join("nginx.conf")])
            .stdin(Stdio::null())
            .spawn()
            .context("nginx: `make deps` installs it")?;
        let mut this = Self { process, folder };
        this.wait_until_it_listens(prefix, at)?;
        Ok(this)
    }

    fn wait_until_it_listens(&mut self, prefix: &str, at: SocketAddr) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let connects = namespaces::in_namespace(prefix, "far", move || std::net::TcpStream::connect(at).is_ok());
            if connects.join().expect("it does not panic") {
                return Ok(());
            }
            if let Some(status) = self.process.try_wait()? {
                let errors = fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
                bail!("nginx ended with {status}: {errors}");
            }
            if start.elapsed() > Duration::from_secs(10) {
                bail!("nginx does not listen after 10 s");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Bytes sent by each request that was answered in full, headers among them.
    pub fn log(&self) -> anyhow::Result<Vec<u64>> {
        let log = fs::read_to_string(self.folder.join("access"))?;
        let bytes = |line: &str| line.strip_prefix("200 ").and_then(|bytes| bytes.parse().ok());
        log.lines().map(|line| bytes(line).with_context(|| format!("nginx logged {line:?}"))).collect()
    }

    /// Kills it (SIGKILL): the kernel closes its sockets.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
