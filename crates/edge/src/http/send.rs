//! Sending a request: to which backend, on which connection, and when to send it again.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::account::Account;
use super::answer_body::asked;
use super::backend_streams::BackendStreams;
use super::connection::Connection;
use super::exchange::Exchange;
use super::failure::Failure;
use super::forward::Onward;
use super::interim::{Interim, Outlet};
use super::pool::Sender;
use super::refusal::Refusal;
use super::request_body::{Held, RequestBody};
use super::wire::{WireBody, WireError};
use crate::backends::Chosen;
use crate::outbound;

/// Backends that are tried until one takes a connection.
const BACKENDS_MAX: usize = 4;
/// A header section of an answer, with its status line.
pub(super) const ANSWER_HEAD_BYTES_MAX: usize = 64 << 10;

/// What a backend has answered, as far as its head.
pub(super) struct BackendAnswer {
    pub response: Response<WireBody>,
    pub sender: Sender,
    pub chosen: Chosen,
    /// What the client's cookies say.
    pub numbers: Vec<u64>,
    pub wanted_upgrade: bool,
    /// What the client has asked in.
    pub version: Version,
}

/// How a request is sent.
pub(super) struct Outgoing {
    pub onward: Onward,
    /// What the client's cookies say.
    pub numbers: Vec<u64>,
    /// What the client asks in.
    pub version: Version,
    /// Whether it holds its body back until it is asked for it, which the parser of its connection does.
    pub holds_body: bool,
    /// Where interim answers go.
    pub outlet: Outlet,
    /// Whether all of it is still there, since it has no body.
    pub is_whole: bool,
    /// Whether doing it twice is as good as once, and all of it is still there (RFC 9110, 9.2.2).
    pub is_repeatable: bool,
    pub exchange: Arc<Exchange>,
}

/// A request without an answer.
enum Unanswered {
    /// Nothing of it was sent.
    Unsent(Box<Request<RequestBody>>, WireError),
    /// Some of it may have been.
    Sent(Failure),
}

impl Connection {
    /// Sends a request to a backend, and to another one as long as nothing of it was sent.
    pub(super) async fn pass(
        &self,
        outgoing: &Outgoing,
        mut parts: Parts,
        mut body: RequestBody,
        account: &Account,
    ) -> Result<BackendAnswer, Failure> {
        let mut tried: Vec<SocketAddr> = Vec::new();
        let mut failure = Failure::NoBackend;
        // A kept connection may turn out to be dead; after that, a new one shows how the backend is.
        let mut takes_kept = true;
        while tried.len() < BACKENDS_MAX {
            let Some(chosen) = self.choose(&outgoing.numbers, &tried) else {
                break;
            };
            let address = chosen.backend.address;
            let connected = self.connect(&chosen, outgoing, takes_kept).await;
            let (sender, is_kept) = match connected {
                Ok(connected) => connected,
                Err(error) => {
                    failure = error;
                    tried.push(address);
                    continue;
                }
            };
            outgoing.onward.direct(&mut parts, sender.version());
            let again = (is_kept && outgoing.is_whole).then(|| parts.clone());
            let request = Request::from_parts(parts, body);
            match self.send(outgoing, account, &chosen, sender, request).await {
                Ok((response, sender)) => {
                    let answer = BackendAnswer {
                        response,
                        sender,
                        chosen,
                        numbers: Vec::new(),
                        wanted_upgrade: false,
                        version: outgoing.version,
                    };
                    return Ok(answer);
                }
                Err(Unanswered::Unsent(request, error)) => {
                    (parts, body) = request.into_parts();
                    failure = Failure::Broken(error);
                    if !is_kept {
                        tried.push(address);
                    }
                }
                Err(Unanswered::Sent(Failure::Broken(error))) => match again {
                    Some(same) if outgoing.is_repeatable || error.is_of_nothing_done() => {
                        (parts, body) = (same, RequestBody::empty(outgoing.exchange.clone()));
                        failure = Failure::Broken(error);
                    }
                    _ => return Err(Failure::Broken(error)),
                },
                Err(Unanswered::Sent(failure)) => return Err(failure),
            }
            takes_kept = false;
        }
        Err(failure)
    }

    fn choose(&self, numbers: &[u64], tried: &[SocketAddr]) -> Option<Chosen> {
        let sticky = match numbers {
            [] => None,
            numbers => self.port.choose_by_cookie(numbers),
        };
        sticky
            .filter(|chosen| !tried.contains(&chosen.backend.address))
            .or_else(|| self.port.choose(self.peer.ip(), tried))
    }

    /// A connection to a backend, and whether it was kept from an earlier request.
    async fn connect(
        &self,
        chosen: &Chosen,
        outgoing: &Outgoing,
        takes_kept: bool,
    ) -> Result<(Sender, bool), Failure> {
        let is_http1 = outgoing.onward.wants_upgrade();
        let pool = self.pool(chosen);
        if takes_kept && let Some(sender) = pool.take(is_http1, !outgoing.is_repeatable).await {
            return Ok((sender, true));
        }
        let outbound = match is_http1 {
            true => outbound::connect_http1(&self.port, chosen, &self.peer).await,
            false => outbound::connect(&self.port, chosen, &self.peer).await,
        };
        let outbound = outbound.map_err(Failure::Unreachable)?;
        let is_http2 = outbound.alpn() == Some(b"h2");
        if is_http2 {
            let connection = BackendStreams::begin(outbound).await;
            let connection = connection.map_err(|error| Failure::Broken(error.into()))?;
            return Ok((pool.http2(connection), false));
        }
        let mut builder = http1::Builder::new();
        builder.max_buf_size(ANSWER_HEAD_BYTES_MAX);
        let begun = builder.handshake(TokioIo::new(outbound)).await;
        let (sender, connection) = begun.map_err(|error| Failure::Broken(error.into()))?;
        drop(tokio::spawn(ended(connection.with_upgrades())));
        Ok((pool.http1(sender), false))
    }

    /// Sends a request and waits for its answer.
    async fn send(
        &self,
        outgoing: &Outgoing,
        account: &Account,
        chosen: &Chosen,
        mut sender: Sender,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<WireBody>, Sender), Unanswered> {
        let exchange = &outgoing.exchange;
        let mut held = None;
        if let Sender::Http1(_) = sender {
            let heard = exchange.clone();
            hyper::ext::on_informational(&mut request, move |answer| {
                let interim = Interim::new(answer.status(), answer.headers().clone());
                heard.interims().put(interim);
            });
            if outgoing.holds_body && !request.body().is_end_stream() {
                held = Some(request.body_mut().hold());
            }
        }
        exchange.progress();
        let idle_timeout = account.current().service.policy.idle_timeout;
        let mut cut = chosen.backend.cut();
        let sent = {
            let mut sent = pin!(sender.send(request, exchange));
            loop {
                tokio::select! {
                    sent = sent.as_mut() => break sent,
                    interim = outgoing.next_interim() => {
                        exchange.progress();
                        outgoing.pass_interim(&interim, &mut held).await;
                    }
                    () = exchange.silence().lasts(idle_timeout) => {
                        let is_client = exchange.waits_for_client() && !exchange.is_received();
                        return Err(Unanswered::Sent(if is_client { Refusal::Slow.into() } else { Failure::Timeout }));
                    }
                    () = asked(&mut cut) => return Err(Unanswered::Sent(Failure::BackendLeft)),
                }
            }
        };
        while let Some(interim) = exchange.interims().take() {
            outgoing.pass_interim(&interim, &mut held).await;
        }
        outgoing.outlet.ready().await;
        exchange.progress();
        match sent {
            Ok(response) => Ok((response, sender)),
            Err((error, request)) => Err(match (exchange.refusal(), request) {
                (Some(refusal), _) => Unanswered::Sent(refusal.into()),
                (None, Some(request)) => Unanswered::Unsent(request, error),
                (None, None) => Unanswered::Sent(Failure::Broken(error)),
            }),
        }
    }
}

impl Sender {
    /// Sends a request and waits for its answer. Without one, the request comes back if nothing of it was sent.
    async fn send(
        &mut self,
        request: Request<RequestBody>,
        exchange: &Exchange,
    ) -> Result<Response<WireBody>, (WireError, Option<Box<Request<RequestBody>>>)> {
        match self {
            Self::Http1(http1) => match http1.sender.try_send_request(request).await {
                Ok(response) => Ok(response.map(WireBody::Http1)),
                Err(mut error) => {
                    let request = error.take_message().map(Box::new);
                    Err((error.into_error().into(), request))
                }
            },
            Self::Http2(http2) => {
                if let Err(error) = http2.connection.ready().await {
                    return Err((error.into(), Some(Box::new(request))));
                }
                let (interims, sending) = (exchange.interims(), &mut http2.sending);
                // Requests of HTTP/1.1 are not to be as large for it.
                let sent = Box::pin(http2.connection.send(request, interims, sending)).await;
                sent.map_err(|error| (error.into(), None))
            }
        }
    }
}

impl Outgoing {
    /// What the backend says next before it answers, as soon as the client has taken what was said before.
    async fn next_interim(&self) -> Interim {
        self.outlet.ready().await;
        self.exchange.interims().next().await
    }

    /// Passes on what a backend says before it answers (RFC 9110, 15.2).
    async fn pass_interim(&self, interim: &Interim, held: &mut Option<Held>) {
        if interim.status == StatusCode::CONTINUE && self.holds_body {
            // The client is told when its body is read.
            if let Some(held) = held.take() {
                held.release();
            }
            return;
        }
        self.outlet.pass(interim).await;
    }
}

/// Runs a connection to a backend until it ends; whoever waits for an answer of it learns of errors.
async fn ended(connection: impl Future<Output = Result<(), hyper::Error>>) {
    if let Err(error) = connection.await {
        tracing::trace!(%error, "a connection to a backend ended early");
    }
}
