//! What is written down of a request when it has ended, however it did.

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
use crate::port::{Current, Port};

/// The status that is written down for clients that left before an answer, as servers commonly do.
const CLIENT_LEFT: u16 = 499;
/// The status that is written down for requests that were cut off before an answer, when the edge ended.
const CUT_OFF: u16 = 503;

/// A request's account: it is closed, and what it says written down, when it is dropped.
#[derive(Debug)]
pub struct Account {
    port: Arc<Port>,
    current: Arc<Current>,
    peer: Arc<Peer>,
    exchange: Arc<Exchange>,
    began: Instant,
    line: Option<Box<Line>>,
    backend: Option<SocketAddr>,
    /// The answer's, as soon as there is one.
    status: Option<u16>,
    sent_bytes: u64,
    /// How it ended. Nobody can say so if its client or the edge leaves.
    outcome: Option<&'static str>,
}

/// What only the log wants to know.
#[derive(Debug)]
struct Line {
    is_request: bool,
    began: SystemTime,
    method: Method,
    target: Uri,
    version: Version,
    host: Option<HeaderValue>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
}

impl Account {
    /// Begins with a request's head.
    pub fn new(
        port: Arc<Port>,
        current: Arc<Current>,
        peer: Arc<Peer>,
        exchange: Arc<Exchange>,
        parts: &Parts,
    ) -> Self {
        let line = current.log.is_some().then(|| Box::new(Line::of(parts)));
        Self {
            port,
            current,
            peer,
            exchange,
            began: Instant::now(),
            line,
            backend: None,
            status: None,
            sent_bytes: 0,
            outcome: None,
        }
    }

    /// What the port is to do, as it was when the request began.
    pub fn current(&self) -> &Arc<Current> {
        &self.current
    }

    /// It is answered with a status; by a backend, if one is named.
    pub fn answered(&mut self, status: StatusCode, backend: Option<SocketAddr>) {
        self.status = Some(status.as_u16());
        self.backend = backend;
    }

    /// What came was no request: nothing of it is written down.
    pub fn is_of_no_request(&mut self) {
        if let Some(line) = &mut self.line {
            line.is_request = false;
        }
    }

    /// So much more of the answer has been passed on.
    pub fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// How it ended.
    pub fn ended(&mut self, outcome: &'static str) {
        self.outcome = Some(outcome);
    }

    /// How it ended; and with which status, if it was not answered.
    fn end(&self) -> (&'static str, u16) {
        match self.outcome {
            Some(outcome) => (outcome, CLIENT_LEFT),
            None if self.port.is_cut_off() => ("shutdown", CUT_OFF),
            None if self.exchange.is_given_up() => ("timeout", CLIENT_LEFT),
            None => ("client left", CLIENT_LEFT),
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let duration = self.began.elapsed();
        let (outcome, unanswered) = self.end();
        let status = self.status.unwrap_or(unanswered);
        self.port.requests().count(status, duration);
        self.port.counters().received(self.exchange.received_bytes());
        self.port.counters().sent(self.sent_bytes);
        let (Some(log), Some(line)) = (&self.current.log, &self.line) else {
            return;
        };
        let (method, target, version) = match line.is_request {
            true => (line.method.as_str(), line.target(), name(line.version)),
            false => ("-", "-", "-"),
        };
        let (host, referer, user_agent) = (text(&line.host), text(&line.referer), text(&line.user_agent));
        let record = Record {
            service: &self.port.key.service,
            port: self.port.key.port,
            began: line.began,
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
            host: host.as_deref().filter(|_| line.is_request),
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

impl Line {
    fn of(parts: &Parts) -> Self {
        let header = |name| parts.headers.get(name).cloned();
        let authority = parts
            .uri
            .authority()
            .and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        Self {
            is_request: true,
            began: SystemTime::now(),
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
