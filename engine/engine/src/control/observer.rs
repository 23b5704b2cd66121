// SPDX-License-Identifier: Apache-2.0
//! The service for callers that may only read: it knows no lease, and nothing of the engine is reached through it
//! but records, emulated clients, and the routes of neighbors.
use super::client_list;
use super::records::{self, Answer};
use super::routing::LearnedLists;
use super::runs::{Engine, Held};
use super::status::Refusal;
use contract::{
    ListClientsRequest, ListRoutesRequest, ListRoutesResponse, WatchRecordsRequest, engine_server, observer_server,
};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::{Request, Response, Status};

/// The maximum of callers at a time: up to 20 MiB of records wait for each caller that does not read them.
const CALLERS: usize = 4;

/// Records and emulated clients of an engine's runs, and routes that its neighbors have sent.
#[derive(Clone)]
pub struct Observer {
    engine: Arc<Engine>,
    permits: Arc<Semaphore>,
    lists: LearnedLists,
}

impl Observer {
    /// An observer of the runs of this engine.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine, permits: Arc::new(Semaphore::new(CALLERS)), lists: LearnedLists::default() }
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let crowded =
            |_| Refusal::Exhausted(format!("{CALLERS} callers watch records or list clients already; end one of them"));
        Arc::clone(&self.permits).try_acquire_owned().map_err(crowded)
    }

    /// The run of a request, which may leave it out if there is no choice.
    fn held(&self, run_id: &str) -> Result<Arc<Held>, Refusal> {
        if !run_id.is_empty() {
            return self.engine.find(run_id);
        }
        let mut runs = self.engine.all();
        runs.retain(|held| !held.has_ended());
        match &runs[..] {
            [] => Err(Refusal::State("no run is under way; ask again when one is".into())),
            [only] => Ok(Arc::clone(only)),
            _ => {
                let mut ids: Vec<_> = runs.iter().map(|held| held.run().id()).collect();
                ids.sort_unstable();
                Err(Refusal::field("run_id", format!("is missing; must be one of {}", ids.join(", "))))
            }
        }
    }
}

#[tonic::async_trait]
impl observer_server::Observer for Observer {
    type WatchRecordsStream = ReceiverStream<Answer>;

    async fn watch_records(
        &self,
        request: Request<WatchRecordsRequest>,
    ) -> Result<Response<Self::WatchRecordsStream>, Status> {
        let held = self.held(&request.into_inner().run_id)?;
        Ok(Response::new(records::watch(&held, self.permit()?)?))
    }

    type ListClientsStream = ReceiverStream<client_list::Answer>;

    async fn list_clients(
        &self,
        request: Request<ListClientsRequest>,
    ) -> Result<Response<Self::ListClientsStream>, Status> {
        let request = request.into_inner();
        let held = self.held(&request.run_id)?;
        Ok(Response::new(client_list::list(&held, request, self.permit()?)?))
    }

    type ListRoutesStream = ReceiverStream<Result<ListRoutesResponse, Status>>;

    async fn list_routes(
        &self,
        request: Request<ListRoutesRequest>,
    ) -> Result<Response<Self::ListRoutesStream>, Status> {
        let no_router = || Refusal::State("no port of this engine is a router; start it with --router".into());
        let routing = self.engine.routing().ok_or_else(no_router)?;
        Ok(Response::new(self.lists.start(routing, &request.into_inner()).await?))
    }
}

/// Stands where the engine's own service is not offered: refuses its calls by name.
#[derive(Clone)]
pub struct NoControl;

impl NamedService for NoControl {
    const NAME: &'static str = engine_server::SERVICE_NAME;
}

impl<B> Service<http::Request<B>> for NoControl {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let call = request.uri().path().trim_start_matches('/');
        let refusal =
            format!("{call} is not answered on a socket of records; call where the engine listens (serve --listen)");
        ready(Ok(Status::permission_denied(refusal).into_http()))
    }
}
