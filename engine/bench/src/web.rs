// SPDX-License-Identifier: Apache-2.0
//! What connections cost where the kernel holds them: nginx and wrk over the kernel's loopback, a CPU each, one connection
//! for each request.
#![allow(unsafe_code, reason = "system calls")]
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::rig::Cpus;

/// Connections that wrk has open at a time.
const OPEN: u32 = 100;
/// Timeout of nginx's start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests that were answered, and CPU time of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub requests: u64,
    pub cpu_ns: u64,
}

/// nginx, with a folder of its own.
struct Server {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: takes and returns numbers; the process is a child that was not waited for.
        unsafe { libc::kill(self.process.id().cast_signed(), libc::SIGTERM) };
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    fn start(response: u64, cpu: usize) -> anyhow::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let folder = std::env::temp_dir().join(format!("spate-bench-nginx-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("page"), vec![b'x'; response as usize])?;
        let at = folder.display();
        let configuration = format!(
            "daemon off; worker_processes 1; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; sendfile on; open_file_cache max=16;\n\
             client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;\n\
             uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;\n\
             server {{ listen 127.0.0.1:{port} backlog=4096; root {at}; }} }}\n"
        );
        fs::write(folder.join("nginx.conf"), configuration)?;
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let process = Command::new("taskset")
            .args(["-c", &cpu.to_string(), "nginx", "-c"])
            .arg(folder.join("nginx.conf"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("nginx cannot be run (Debian: nginx-light)")?;
        let server = Self { process, folder, port };
        let since = Instant::now();
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(since.elapsed() < PATIENCE, "nginx does not listen: {}", server.errors());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.join("error.log")).unwrap_or_default()
    }

    /// CPU time of its worker in clock ticks.
    fn cpu_ticks(&self) -> anyhow::Result<u64> {
        let master = self.process.id();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"))?;
        let worker = children.split_whitespace().next().context("nginx has a worker")?;
        let stat = fs::read_to_string(format!("/proc/{worker}/stat"))?;
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // utime and stime (proc_pid_stat(5)), counted from the state behind the name.
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    }
}

/// Requests a page of this many bytes again and again for this time.
pub fn measure(response: u64, cpus: Cpus, length: Duration) -> anyhow::Result<Answered> {
    let server = Server::start(response, cpus.control_cpu)?;
    let before = server.cpu_ticks()?;
    let url = format!("http://127.0.0.1:{}/page", server.port);
    let seconds = format!("{}s", length.as_secs().max(1));
    let children = children_ns()?;
    let output = Command::new("taskset")
        .args(["-c", &cpus.worker_cpu.to_string(), "wrk", "-t", "1", "-c", &OPEN.to_string(), "-d", &seconds])
        .args(["-H", "Connection: close", &url])
        .output()
        .context("wrk cannot be run (Debian: wrk)")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || said.contains("Non-2xx") || said.contains("Socket errors") {
        bail!("wrk: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    let line =
        said.lines().find(|line| line.contains(" requests in ")).context("wrk says how many requests it made")?;
    let requests = line.split_whitespace().next().context("and how many")?.parse()?;
    // SAFETY: takes and returns numbers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    let server_ns = (server.cpu_ticks()? - before) * 1_000_000_000 / ticks;
    Ok(Answered { requests, cpu_ns: server_ns + children_ns()? - children })
}

/// CPU time of children that were waited for.
fn children_ns() -> anyhow::Result<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for the call, which fills what it points to.
    let code = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    ensure!(code == 0, "getrusage: {}", std::io::Error::last_os_error());
    // SAFETY: filled.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}
