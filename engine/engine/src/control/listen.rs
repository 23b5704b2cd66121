// SPDX-License-Identifier: Apache-2.0
//! Where the service listens: TCP with mutual TLS, or a Unix socket whose file mode says who may connect.
use super::tls::{self, Certificates};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::server::Connected;

/// A client has this long for its handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Handshakes at a time.
const HANDSHAKES: usize = 64;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Address and port.
    Tcp(SocketAddr),
    /// Path of a socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("unix: needs a path, such as unix:/run/spate.sock".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| format!("{text:?} is neither ADDRESS:PORT, such as 0.0.0.0:7470, nor unix:PATH")),
        }
    }
}

/// A connection whose client has proven that it is the operator.
pub struct Authorised(TlsStream<TcpStream>);

/// Connections on a TCP listener that pass the handshake.
pub fn authorised(listener: TcpListener, certificates: Arc<Certificates>) -> ReceiverStream<io::Result<Authorised>> {
    let (connections, accepted) = tokio::sync::mpsc::channel(HANDSHAKES);
    let room = Arc::new(tokio::sync::Semaphore::new(HANDSHAKES));
    tokio::spawn(async move {
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (certificates, connections) = (certificates.clone(), connections.clone());
            tokio::spawn(async move {
                let _permit = permit;
                let handshake = async { tls_handshake(stream, certificates.current().await).await };
                match tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await {
                    Ok(Ok(connection)) => drop(connections.send(Ok(connection)).await),
                    Ok(Err(error)) => tracing::warn!(%peer, %error, "connection refused"),
                    Err(_) => {
                        tracing::warn!(%peer, "connection refused: its handshake took longer than {HANDSHAKE_LIMIT:?}")
                    }
                }
            });
        }
    });
    ReceiverStream::new(accepted)
}

async fn tls_handshake(stream: TcpStream, config: Arc<rustls::ServerConfig>) -> io::Result<Authorised> {
    stream.set_nodelay(true)?;
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    if certificate.is_some_and(tls::is_operator) {
        return Ok(Authorised(stream));
    }
    let refusal = format!("the client's certificate is not for {}", tls::OPERATOR_NAME);
    Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal))
}

/// Connections on a Unix socket, which is created at the start: one left behind by a process that is gone is replaced.
pub fn local(path: &PathBuf) -> io::Result<UnixListenerStream> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(UnixListenerStream::new(UnixListener::bind(path)?))
}

/// Listens for this process's user only. Other threads must not make files meanwhile.
pub fn private(path: &PathBuf) -> io::Result<UnixListenerStream> {
    use rustix::{fs::Mode, process::umask};
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let connections = local(path);
    umask(before);
    connections
}

impl Connected for Authorised {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Authorised {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Authorised {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
