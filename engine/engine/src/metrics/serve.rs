// SPDX-License-Identifier: Apache-2.0
//! /metrics, /healthz and /readyz in plain HTTP, without authentication: answers cost the thread of control little, connections are
//! few and short, and a page that was not received counts for nothing.
use super::{Format, Page, page};
use crate::control::runs::Engine;
use crate::lock::lock;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::AbortHandle;

/// Connections at a time. A further one closes the oldest, so that a client with many open keeps out neither a probe nor a scrape.
const CONNECTIONS: usize = 32;
/// A connection that has not asked for anything by then is closed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that has not taken its answer by then is closed.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests within this time of another get the same page, if they are for the same format.
const FRESH: Duration = Duration::from_secs(1);

/// A connection, which is closed if this is dropped.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A page, and when its encoding started.
type Encoded = (Instant, Arc<Page>);

/// State that answers are made from.
struct Server {
    engine: Arc<Engine>,
    /// The last page in each format. Held while one is encoded: there are never two under way.
    last: AsyncMutex<[Option<Encoded>; Format::COUNT]>,
}

/// Serves for ever.
pub async fn serve(listener: TcpListener, engine: Arc<Engine>) {
    let server = Arc::new(Server { engine, last: AsyncMutex::default() });
    let mut open: VecDeque<Connection> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a scrape could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let server = server.clone();
        let connection = tokio::spawn(async move {
            if tokio::time::timeout(RESPONSE_TIMEOUT, server.connection(stream)).await.is_err() {
                tracing::debug!("a scrape's connection took too long");
            }
        });
        open.retain(|Connection(connection)| !connection.is_finished());
        if open.len() == CONNECTIONS {
            open.pop_front();
        }
        open.push_back(Connection(connection.abort_handle()));
        // The request is read before the next connection is accepted, which may close this one.
        tokio::task::yield_now().await;
    }
}

impl Server {
    /// Answers one request, and closes the connection: one that is kept would keep others out.
    async fn connection(self: &Arc<Self>, stream: TcpStream) {
        let given = Mutex::new(None);
        let service = service_fn(|request: Request<Incoming>| {
            let given = &given;
            async move {
                let (response, page) = self.answer(request.method(), request.uri().path(), request.headers()).await;
                *lock(given) = page;
                Ok::<_, Infallible>(response)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .keep_alive(false)
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a scrape's connection ended");
            return;
        }
        // The last byte of the answer was written.
        if let Some(page) = given.into_inner().unwrap_or_else(PoisonError::into_inner) {
            page.note_scraped();
        }
    }

    /// The answer, and the page if it is one.
    async fn answer(
        self: &Arc<Self>,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> (Response<Full<Bytes>>, Option<Arc<Page>>) {
        if ![Method::GET, Method::HEAD].contains(method) {
            return (say(StatusCode::METHOD_NOT_ALLOWED, "GET only\n"), None);
        }
        match path {
            "/metrics" => {
                let accept = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
                match self.page(Format::preferred(accept)).await {
                    Ok(page) => {
                        let mut response = respond(StatusCode::OK, page.format.content_type(), page.body.clone());
                        response.headers_mut().insert(VARY, HeaderValue::from_name(ACCEPT));
                        (response, Some(page).filter(|_| method == Method::GET))
                    }
                    Err(error) => (say(StatusCode::INTERNAL_SERVER_ERROR, error), None),
                }
            }
            "/healthz" | "/readyz" => match self.engine.watchdog().problem() {
                None => (say(StatusCode::OK, "ok\n"), None),
                Some(problem) => (say(StatusCode::SERVICE_UNAVAILABLE, problem + "\n"), None),
            },
            _ => (say(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n"), None),
        }
    }

    /// The last page, or a new one if that is no longer fresh. It is made to its end although the client may leave: there are
    /// never two under way, and clients that leave cause one of each format a second at most.
    async fn page(self: &Arc<Self>, format: Format) -> Result<Arc<Page>, String> {
        let this = self.clone();
        tokio::spawn(async move { this.fresh_page(format).await }).await.map_err(|error| error.to_string())?
    }

    async fn fresh_page(&self, format: Format) -> Result<Arc<Page>, String> {
        let mut all = self.last.lock().await;
        let last = &mut all[format as usize];
        if let Some((_, page)) = last.as_ref().filter(|(started, _)| started.elapsed() < FRESH) {
            return Ok(page.clone());
        }
        let (started, engine) = (Instant::now(), self.engine.clone());
        let encoded = tokio::task::spawn_blocking(move || page(&engine, format)).await;
        let page = Arc::new(encoded.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?);
        *last = Some((started, page.clone()));
        Ok(page)
    }
}

/// A short text.
fn say(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    respond(status, "text/plain", text.into())
}

fn respond(status: StatusCode, content_type: &str, body: Bytes) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
    response.body(Full::new(body)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
