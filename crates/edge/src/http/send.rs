//! Sending of a request: the backend, the connection, and retries.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::access_record::AccessRecord;
use super::connection::Connection;
use super::exchange::Exchange;
use super::gateway_error::GatewayError;
use super::head::RESPONSE_HEAD_BYTES_MAX;
use super::header_rewrite::ForwardedHead;
use super::http2_client::Http2Client;
use super::informational::{InformationalResponse, InformationalSink};
use super::pool::RequestSender;
use super::rejection::RequestRejection;
use super::request_body::{BodyRelease, RequestBody};
use super::wire_body::{WireBody, WireError};
use crate::backends::ChosenBackend;
use crate::outbound;
use crate::port::Port;
use crate::settings::BackendProtocol;
use crate::watch_flag::wait_until_true;

/// Maximum number of backends that are tried until one accepts a connection.
const BACKENDS_MAX: usize = 4;

/// Response of a backend up to its head.
pub(super) struct BackendResponse {
    pub response: Response<WireBody>,
    pub sender: RequestSender,
    pub chosen: ChosenBackend,
}

/// Request on its way to a backend.
pub(super) struct OutgoingRequest {
    pub head: ForwardedHead,
    /// Ids from the client's cookies.
    pub cookie_ids: Vec<u64>,
    /// True if the client waits for `100 Continue`, which the parser of its connection sends.
    pub holds_body: bool,
    /// Receiver of informational responses.
    pub sink: InformationalSink,
    /// True if the request has no body, so all of it is still present.
    pub is_whole: bool,
    /// True if the request is idempotent, and all of it is still present (RFC 9110, section 9.2.2).
    pub is_repeatable: bool,
    pub exchange: Arc<Exchange>,
    /// Port whose backends receive the request.
    pub target: Arc<Port>,
}

/// Reason why a request has no response.
enum SendError {
    /// No part of it was sent.
    Unsent(Box<Request<RequestBody>>, WireError),
    /// A part of it may have been sent.
    Sent(GatewayError),
}

impl Connection {
    /// Sends a request to a backend, and to another one as long as no part of it was sent.
    pub(super) async fn forward(
        &self,
        outgoing: &OutgoingRequest,
        mut parts: Parts,
        mut body: RequestBody,
        record: &AccessRecord,
    ) -> Result<BackendResponse, GatewayError> {
        let mut tried: Vec<SocketAddr> = Vec::new();
        let mut failure = GatewayError::NoBackend;
        // The backend may have closed a pooled connection. After such a failure, a new connection shows the state of
        // the backend.
        let mut may_use_pool = true;
        while tried.len() < BACKENDS_MAX {
            let Some(chosen) = self.choose(&outgoing.target, &outgoing.cookie_ids, &tried) else {
                break;
            };
            let address = chosen.backend.address;
            let connected = self.connect(&chosen, outgoing, may_use_pool).await;
            let (sender, is_pooled) = match connected {
                Ok(connected) => connected,
                Err(error) => {
                    failure = error;
                    tried.push(address);
                    continue;
                }
            };
            outgoing.head.apply_version(
                &mut parts,
                sender.version(),
                has_tls_to_backends(&outgoing.target),
            );
            let repeated = (is_pooled && outgoing.is_whole).then(|| parts.clone());
            let request = Request::from_parts(parts, body);
            match self.send(outgoing, record, &chosen, sender, request).await {
                Ok((response, sender)) => {
                    let response = BackendResponse {
                        response,
                        sender,
                        chosen,
                    };
                    return Ok(response);
                }
                Err(SendError::Unsent(request, error)) => {
                    (parts, body) = request.into_parts();
                    failure = GatewayError::Broken(error);
                    if !is_pooled {
                        tried.push(address);
                    }
                }
                Err(SendError::Sent(GatewayError::Broken(error))) => match repeated {
                    Some(same) if outgoing.is_repeatable || error.is_unprocessed() => {
                        (parts, body) = (same, RequestBody::empty(outgoing.exchange.clone()));
                        failure = GatewayError::Broken(error);
                    }
                    _ => return Err(GatewayError::Broken(error)),
                },
                Err(SendError::Sent(failure)) => return Err(failure),
            }
            may_use_pool = false;
        }
        Err(failure)
    }

    fn choose(&self, target: &Port, cookie_ids: &[u64], tried: &[SocketAddr]) -> Option<ChosenBackend> {
        let sticky = match cookie_ids {
            [] => None,
            cookie_ids => target.policy.choose_by_cookie(cookie_ids),
        };
        sticky
            .filter(|chosen| !tried.contains(&chosen.backend.address))
            .or_else(|| target.policy.choose(self.peer.ip(), tried))
    }

    /// Returns a connection to a backend, and true if it is pooled.
    async fn connect(
        &self,
        chosen: &ChosenBackend,
        outgoing: &OutgoingRequest,
        may_use_pool: bool,
    ) -> Result<(RequestSender, bool), GatewayError> {
        let is_http1 = outgoing.head.wants_upgrade();
        let pool = self.pool(&outgoing.target, chosen);
        if may_use_pool && let Some(sender) = pool.take(is_http1, !outgoing.is_repeatable).await {
            return Ok((sender, true));
        }
        let stream = if is_http1 {
            outbound::connect_http1(&outgoing.target, chosen, &self.peer).await
        } else {
            outbound::connect(&outgoing.target, chosen, &self.peer).await
        };
        let stream = stream.map_err(GatewayError::Unreachable)?;
        let has_prior_knowledge = backend_protocol(&outgoing.target) == BackendProtocol::Http2 && !is_http1;
        let is_http2 = has_prior_knowledge || stream.alpn() == Some(b"h2");
        if is_http2 {
            let connection = Http2Client::handshake(stream).await;
            let connection = connection.map_err(|error| GatewayError::Broken(error.into()))?;
            return Ok((pool.add_http2(connection), false));
        }
        let mut builder = http1::Builder::new();
        builder.max_buf_size(RESPONSE_HEAD_BYTES_MAX);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| GatewayError::Broken(error.into()))?;
        drop(tokio::spawn(run(connection.with_upgrades())));
        Ok((pool.add_http1(sender), false))
    }

    /// Sends a request and waits for its response, while it forwards informational ones.
    async fn send(
        &self,
        outgoing: &OutgoingRequest,
        record: &AccessRecord,
        chosen: &ChosenBackend,
        mut sender: RequestSender,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<WireBody>, RequestSender), SendError> {
        let exchange = &outgoing.exchange;
        let mut body_release = None;
        if let RequestSender::Http1(_) = sender {
            let collector = exchange.clone();
            hyper::ext::on_informational(&mut request, move |response| {
                let informational = InformationalResponse::new(response.status(), response.headers().clone());
                collector.informational().push(informational);
            });
            if outgoing.holds_body && !request.body().is_end_stream() {
                body_release = Some(request.body_mut().hold());
            }
        }
        exchange.progress();
        let idle_timeout = record.settings().service.policy.idle_timeout;
        let mut cut = chosen.backend.cut_off();
        let sent = {
            let mut sent = pin!(sender.send(request, exchange));
            loop {
                tokio::select! {
                    sent = sent.as_mut() => break sent,
                    informational = outgoing.next_informational() => {
                        exchange.progress();
                        outgoing.forward_informational(&informational, &mut body_release).await;
                    }
                    () = exchange.idle().expired(idle_timeout) => {
                        let is_client = exchange.waits_for_client() && !exchange.is_received();
                        return Err(SendError::Sent(if is_client { RequestRejection::Slow.into() } else { GatewayError::Timeout }));
                    }
                    () = wait_until_true(&mut cut) => return Err(SendError::Sent(GatewayError::BackendRemoved)),
                }
            }
        };
        while let Some(informational) = exchange.informational().pop() {
            outgoing
                .forward_informational(&informational, &mut body_release)
                .await;
        }
        outgoing.sink.ready().await;
        exchange.progress();
        match sent {
            Ok(response) => Ok((response, sender)),
            Err((error, request)) => Err(match (exchange.rejection(), request) {
                (Some(rejection), _) => SendError::Sent(rejection.into()),
                (None, Some(request)) => SendError::Unsent(request, error),
                (None, None) => SendError::Sent(GatewayError::Broken(error)),
            }),
        }
    }
}

fn backend_protocol(target: &Port) -> BackendProtocol {
    target.policy.load().listener.backend_protocol
}

fn has_tls_to_backends(target: &Port) -> bool {
    matches!(
        backend_protocol(target),
        BackendProtocol::Ssl | BackendProtocol::Https
    )
}

impl RequestSender {
    /// Sends a request and waits for its response. An error contains the request if no part of it was sent.
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
                let (informational, sending) = (exchange.informational(), &mut http2.sending);
                // Boxed, so that HTTP/1.1 requests need no memory for its state.
                let sent = Box::pin(http2.connection.send(request, informational, sending)).await;
                sent.map_err(|error| (error.into(), None))
            }
        }
    }
}

impl OutgoingRequest {
    /// Returns the next informational response, as soon as the client has taken earlier ones.
    async fn next_informational(&self) -> InformationalResponse {
        self.sink.ready().await;
        self.exchange.informational().next().await
    }

    /// Forwards an informational response (RFC 9110, section 15.2).
    async fn forward_informational(
        &self,
        informational: &InformationalResponse,
        body_release: &mut Option<BodyRelease>,
    ) {
        if informational.status == StatusCode::CONTINUE && self.holds_body {
            // The parser of the client's connection sends its own when the body is read.
            if let Some(body_release) = body_release.take() {
                body_release.release();
            }
            return;
        }
        self.sink.send(informational).await;
    }
}

/// Runs a connection to a backend until it ends. Requests that wait for a response receive its errors.
async fn run(connection: impl Future<Output = Result<(), hyper::Error>>) {
    if let Err(error) = connection.await {
        tracing::trace!(%error, "backend connection failed");
    }
}
