//! Access-log record and the counts of a request.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::header::{HOST, HeaderValue, REFERER, USER_AGENT};
use http::request::Parts;
use http::{Method, StatusCode, Uri, Version};

use super::exchange::Exchange;
use crate::log::{Record, RequestRecord};
use crate::peer::Peer;
use crate::port::{Port, PortSettings};

/// Logged status of a request whose client closed the connection before the response. Other servers log the same
/// status.
const CLIENT_LEFT: u16 = 499;
/// Logged status of a request that the shutdown of the edge ended before the response.
const CUT_OFF: u16 = 503;

/// Record of a request. It is counted and logged when it is dropped.
#[derive(Debug)]
pub(super) struct AccessRecord {
    port: Arc<Port>,
    settings: Arc<PortSettings>,
    peer: Arc<Peer>,
    exchange: Arc<Exchange>,
    started_at: Instant,
    request: Option<Box<LoggedRequest>>,
    backend: Option<SocketAddr>,
    /// Status of the response, once there is one.
    status: Option<u16>,
    sent_bytes: u64,
    /// End of the request; `None` if the client closed the connection, or the edge shut down, before the response.
    outcome: Option<&'static str>,
}

/// Data that only the log needs.
#[derive(Debug)]
struct LoggedRequest {
    is_request: bool,
    started_at: SystemTime,
    method: Method,
    target: Uri,
    version: Version,
    host: Option<HeaderValue>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
}

impl AccessRecord {
    /// Starts the record with a request's head.
    pub(super) fn new(
        port: Arc<Port>,
        settings: Arc<PortSettings>,
        peer: Arc<Peer>,
        exchange: Arc<Exchange>,
        parts: &Parts,
    ) -> Self {
        let request = settings.log.is_some().then(|| Box::new(LoggedRequest::of(parts)));
        Self {
            port,
            settings,
            peer,
            exchange,
            started_at: Instant::now(),
            request,
            backend: None,
            status: None,
            sent_bytes: 0,
            outcome: None,
        }
    }

    /// Returns the settings of the port when the request started.
    pub(super) fn settings(&self) -> &Arc<PortSettings> {
        &self.settings
    }

    /// Sets the status of the response, and its backend if one sent it.
    pub(super) fn set_response(&mut self, status: StatusCode, backend: Option<SocketAddr>) {
        self.status = Some(status.as_u16());
        self.backend = backend;
    }

    /// Marks the bytes as no request: none of them is logged.
    pub(super) fn mark_malformed(&mut self) {
        if let Some(request) = &mut self.request {
            request.is_request = false;
        }
    }

    /// Counts bytes of the response's body.
    pub(super) fn count_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Sets the end of the request.
    pub(super) fn set_outcome(&mut self, outcome: &'static str) {
        self.outcome = Some(outcome);
    }

    /// Returns the logged outcome, and the status for a request without a response.
    fn end(&self) -> (&'static str, u16) {
        match self.outcome {
            Some(outcome) => (outcome, CLIENT_LEFT),
            None if self.port.is_cut_off() => ("shutdown", CUT_OFF),
            None if self.exchange.is_timed_out() => ("timeout", CLIENT_LEFT),
            None => ("client left", CLIENT_LEFT),
        }
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        let duration = self.started_at.elapsed();
        let (outcome, unanswered) = self.end();
        let status = self.status.unwrap_or(unanswered);
        self.port.counters.requests.count(status, duration);
        self.port.counters.received(self.exchange.received_bytes());
        self.port.counters.sent(self.sent_bytes);
        let (Some(log), Some(request)) = (&self.settings.log, &self.request) else {
            return;
        };
        let (method, target, version) = if request.is_request {
            (request.method.as_str(), request.target(), name(request.version))
        } else {
            ("-", "-", "-")
        };
        let (host, referer, user_agent) = (
            text(&request.host),
            text(&request.referer),
            text(&request.user_agent),
        );
        let record = Record {
            service: &self.port.key.service,
            port: self.port.key.port,
            started_at: request.started_at,
            duration,
            peer: &self.peer,
            backend: self.backend,
            received_bytes: self.exchange.received_bytes(),
            sent_bytes: self.sent_bytes,
            outcome,
        };
        log.request(&RequestRecord {
            record,
            method,
            target,
            version,
            host: host.as_deref().filter(|_| request.is_request),
            referer: referer.as_deref(),
            user_agent: user_agent.as_deref(),
            status,
        });
    }
}

fn text(value: &Option<HeaderValue>) -> Option<Cow<'_, str>> {
    value
        .as_ref()
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
}

impl LoggedRequest {
    fn of(parts: &Parts) -> Self {
        let header = |name| parts.headers.get(name).cloned();
        let authority = parts
            .uri
            .authority()
            .and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        Self {
            is_request: true,
            started_at: SystemTime::now(),
            method: parts.method.clone(),
            target: parts.uri.clone(),
            version: parts.version,
            host: authority.or_else(|| header(HOST)),
            referer: header(REFERER),
            user_agent: header(USER_AGENT),
        }
    }

    fn target(&self) -> &str {
        self.target.path_and_query().map_or("/", |target| target.as_str())
    }
}

fn name(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}
