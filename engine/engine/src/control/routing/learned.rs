// SPDX-License-Identifier: Apache-2.0
//! Lists of the routes that neighbors have sent. They are read of BIRD line by line, on a connection of their own, and sent as the caller
//! takes them: there may be millions.
use super::bird::{Connection, Failed, Files};
use super::{Routing, lock};
use crate::control::status::Refusal;
use contract::{AddressFamily, LearnedRoute, ListRoutesRequest, ListRoutesResponse};
use spate_routing::{Command, Entry, Family, Learn, Learned, LearnedRoutes, Router, SessionKind};
use std::mem;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The maximum of lists at a time.
const CALLERS: usize = 4;
/// Routes of an answer.
const BATCH: usize = 500;
/// Answers that wait for a slow caller.
const ANSWERS: usize = 2;
/// Routes of a list where the request says nothing.
const MOST: u64 = 10_000;

/// Codes of replies that are none, from here on.
const REFUSED: u16 = 8000;

type Answer = Result<ListRoutesResponse, Status>;

/// Lists of learned routes, of which there are a few at a time.
#[derive(Clone, Debug)]
pub struct LearnedLists(Arc<Semaphore>);

impl Default for LearnedLists {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CALLERS)))
    }
}

/// A part of a list: routes of a session and a family.
struct Part {
    port: String,
    command: Command,
    /// Whether they are in the table, or just counted.
    kept: bool,
}

impl LearnedLists {
    /// Begins a list.
    ///
    /// # Errors
    /// If there is no such port or session, BIRD cannot be reached, or there are too many lists.
    pub async fn start(
        &self,
        routing: &Routing,
        request: &ListRoutesRequest,
    ) -> Result<ReceiverStream<Answer>, Refusal> {
        let crowded = |_| Refusal::Exhausted(format!("{CALLERS} callers list routes already; end one of them"));
        let parts = parts(&routing.routers(), request)?;
        let permit = Arc::clone(&self.0).try_acquire_owned().map_err(crowded)?;
        let socket = Files::of(&routing.place).socket();
        let unreached = |e: Failed| Refusal::State(format!("BIRD is not reached: {e}"));
        Connection::open(&socket).await.map_err(unreached)?;
        let most = if request.most == 0 { MOST } else { request.most };
        let (answers, stream) = mpsc::channel(ANSWERS);
        tokio::spawn(async move {
            let mut list = List { socket, most, answers, routes: Vec::new(), more: false };
            if let Err(error) = list.send(&parts).await {
                let _ = list.answers.send(Err(Refusal::State(error.to_string()).into())).await;
            }
            drop(permit);
        });
        Ok(ReceiverStream::new(stream))
    }
}

impl Routing {
    /// Its routers as they are configured.
    fn routers(&self) -> Vec<Router> {
        lock(&self.state).wanted.as_ref().map(|wanted| wanted.routers.clone()).unwrap_or_default()
    }
}

/// What BIRD is to list.
fn parts(routers: &[Router], request: &ListRoutesRequest) -> Result<Vec<Part>, Refusal> {
    let families: &[Family] = match request.family() {
        AddressFamily::Unspecified => &[Family::V4, Family::V6],
        AddressFamily::Ipv4 => &[Family::V4],
        AddressFamily::Ipv6 => &[Family::V6],
    };
    let chosen = |router: &&Router| request.port.is_empty() || router.port == request.port;
    let chosen: Vec<&Router> = routers.iter().filter(chosen).collect();
    if chosen.is_empty() {
        let known = routers.iter().map(|router| router.port.as_str()).collect::<Vec<_>>().join(", ");
        let problem = format!("{:?} has no session; ports that have some: {known}", request.port);
        return Err(Refusal::field("port", problem));
    }
    let has = |router: &Router| learning(router).iter().any(|(_, name, _)| *name == request.session);
    if !request.session.is_empty() && !routers.iter().any(has) {
        return Err(Refusal::field("session", format!("{:?} is no session of BGP, OSPF or RIP", request.session)));
    }
    let mut parts = Vec::new();
    for router in chosen {
        for (kind, session, learn) in learning(router) {
            if learn == Learn::None || !(request.session.is_empty() || session == request.session) {
                continue;
            }
            let kept = learn == Learn::Keep;
            parts.extend(families.iter().map(|family| {
                let (port, session) = (router.port.clone(), session.to_owned());
                let command = Command::ShowLearned { port, kind, session, family: *family, counted: !kept };
                Part { port: router.port.clone(), command, kept }
            }));
        }
    }
    Ok(parts)
}

/// Sessions that neighbors can send routes by, and what becomes of these.
pub(super) fn learning(router: &Router) -> Vec<(SessionKind, &str, Learn)> {
    let bgp = router.bgp.iter().map(|session| (SessionKind::Bgp, session.name.as_str(), session.learn));
    let ospf = router.ospf.iter().map(|session| (SessionKind::Ospf, session.name.as_str(), session.learn));
    let rip = router.rip.iter().map(|session| (SessionKind::Rip, session.name.as_str(), session.learn));
    bgp.chain(ospf).chain(rip).collect()
}

/// A list that is being sent.
struct List {
    socket: PathBuf,
    /// Routes of each part.
    most: u64,
    answers: mpsc::Sender<Answer>,
    /// Of the next answer.
    routes: Vec<LearnedRoute>,
    /// There are more than were sent.
    more: bool,
}

impl List {
    /// Sends all, until the caller has enough.
    async fn send(&mut self, parts: &[Part]) -> Result<(), Failed> {
        for part in parts {
            if self.send_part(part).await?.is_break() {
                return Ok(());
            }
        }
        let last = ListRoutesResponse { routes: mem::take(&mut self.routes), more: self.more };
        let _ = self.answers.send(Ok(last)).await;
        Ok(())
    }

    /// On a connection of its own: BIRD lists all routes, or sees that the connection has ended.
    async fn send_part(&mut self, part: &Part) -> Result<ControlFlow<()>, Failed> {
        let mut bird = Connection::open(&self.socket).await?;
        bird.begin(&part.command).await?;
        let (mut reader, mut left) = (LearnedRoutes::of(&part.port), self.most);
        loop {
            let (route, is_last) = match bird.entry().await? {
                Entry::More(line) => (reader.push(&line), false),
                Entry::Last(line) if line.code >= REFUSED => {
                    return Err(spate_routing::Refusal { code: line.code, text: line.text }.into());
                }
                Entry::Last(_) => (mem::replace(&mut reader, LearnedRoutes::of(&part.port)).end(), true),
            };
            if let Some(route) = route {
                if left == 0 {
                    self.more = true;
                    return Ok(ControlFlow::Continue(()));
                }
                left -= 1;
                self.routes.push(message(part, route));
            }
            if self.routes.len() == BATCH {
                let answer = ListRoutesResponse { routes: mem::take(&mut self.routes), more: false };
                if self.answers.send(Ok(answer)).await.is_err() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if is_last {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }
}

fn message(part: &Part, route: Learned) -> LearnedRoute {
    LearnedRoute {
        port: part.port.clone(),
        session: route.session,
        prefix: route.prefix.to_string(),
        next_hop: route.next_hop.map(|hop| hop.to_string()).unwrap_or_default(),
        as_path: route.as_path,
        kept: part.kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spate_routing::Bgp;

    fn routers() -> Vec<Router> {
        let session = |name: &str, learn| Bgp {
            learn,
            ..Bgp::new(name, 65001, [10, 99, 0, 2].into(), 65002, [Family::V4, Family::V6])
        };
        let sessions = [session("count", Learn::Count), session("keep", Learn::Keep), session("none", Learn::None)];
        vec![Router::new("east", "rt-east", []).with_bgp(sessions), Router::new("west", "rt-west", [])]
    }

    #[test]
    fn a_list_has_the_sessions_that_learn() {
        let of = |request: ListRoutesRequest| -> Result<Vec<String>, Refusal> {
            Ok(parts(&routers(), &request)?.iter().map(|part| part.command.to_string()).collect())
        };
        assert_eq!(of(ListRoutesRequest::default()).unwrap().len(), 4);
        let request = ListRoutesRequest {
            port: "east".into(),
            session: "keep".into(),
            family: AddressFamily::Ipv6.into(),
            most: 0,
        };
        assert_eq!(of(request).unwrap(), ["show route table '6:east' all protocol 'bgp:east:keep'"]);
        for (port, session, problem) in [
            ("north", "", "port: \"north\" has no session; ports that have some: east, west"),
            ("", "other", "session: \"other\" is no session of BGP, OSPF or RIP"),
        ] {
            let request =
                ListRoutesRequest { port: port.into(), session: session.into(), ..ListRoutesRequest::default() };
            assert_eq!(of(request).unwrap_err().to_string(), problem);
        }
    }
}
