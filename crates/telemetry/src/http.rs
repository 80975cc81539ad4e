//! A small HTTP/1.1 server for health checks and metrics: bounded connections, timeouts, no request bodies.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use telemetry::{MetricType, MetricsText, Response};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = telemetry::listen("127.0.0.1:10249".parse()?)?;
//! telemetry::serve(
//!     listener,
//!     Arc::new(|uri| match uri.path() {
//!         "/metrics" => {
//!             let mut text = MetricsText::default();
//!             text.single("up", MetricType::Gauge, "1 while the process runs.", 1);
//!             Response::metrics(text.finish())
//!         }
//!         _ => Response::not_found(),
//!     }),
//! )
//! .await;
//! # Ok(())
//! # }
//! ```

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use counting::client_network;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

#[cfg(test)]
mod tests;

/// Limit of open connections. At the limit, a new one displaces the oldest one of the client with the most. Load
/// balancers probe with a few each.
pub const CONNECTIONS_MAX: usize = 128;
/// Time for the header of a request to arrive; also the limit for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Lifetime of a connection, so that slow readers do not hold a permit forever.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Pause after a failed accept. The usual cause, too many open files, does not go away by retrying at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A response of the server.
pub struct Response {
    /// Status code.
    pub status: StatusCode,
    /// Content type of the body.
    pub content_type: &'static str,
    /// Further headers; names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Body as text.
    pub body: String,
}

impl Response {
    /// Returns a JSON response.
    pub fn json(status: StatusCode, body: &serde_json::Value) -> Self {
        Self {
            status,
            content_type: "application/json",
            headers: Vec::new(),
            body: body.to_string(),
        }
    }

    /// Returns a plain text response.
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// Returns a response with metrics in the Prometheus text format.
    pub fn metrics(text: String) -> Self {
        Self {
            content_type: crate::text::CONTENT_TYPE,
            ..Self::text(StatusCode::OK, text)
        }
    }

    /// Returns the response for an unknown path, with Go's text.
    pub fn not_found() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    fn into_http(self) -> http::Response<Full<Bytes>> {
        let mut response = http::Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

/// Function from the URI of a request to its response.
pub type Handler = Arc<dyn Fn(&Uri) -> Response + Send + Sync>;

/// Listens on an address. As in Go, an unspecified IPv4 address listens on both families if the host has IPv6.
///
/// # Errors
///
/// Returns the error of `bind`, such as `AddrInUse`.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let dual_stack = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
    let listener = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => match std::net::TcpListener::bind(dual_stack) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => std::net::TcpListener::bind(address)?,
            bound => bound?,
        },
        _ => std::net::TcpListener::bind(address)?,
    };
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves requests. Dropping the future closes all connections.
pub async fn serve(listener: TcpListener, handler: Handler) {
    serve_at_most(listener, handler, Arc::new(AtomicUsize::new(CONNECTIONS_MAX))).await;
}

/// Serves requests with another limit of open connections than [`CONNECTIONS_MAX`]. It can change at any time, and applies
/// from the next connection on. Dropping the future closes all connections.
pub async fn serve_at_most(listener: TcpListener, handler: Handler, connections_max: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    let mut open = OpenConnections::default();
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        open.make_room(connections_max.load(Ordering::Relaxed));
        let served = tokio::time::timeout(CONNECTION_TIMEOUT, serve_connection(stream, handler.clone()));
        let task = connections.spawn(async move {
            if served.await.is_err() {
                tracing::debug!(timeout = ?CONNECTION_TIMEOUT, "connection timed out");
            }
        });
        open.0.push_back((client_network(client.ip()), task));
    }
}

/// Open connections with their sources, oldest first.
#[derive(Default)]
struct OpenConnections(VecDeque<(IpAddr, AbortHandle)>);

impl OpenConnections {
    /// Ends connections until there is room for another one. So idle connections of one client keep no other client out.
    fn make_room(&mut self, connections_max: usize) {
        self.0.retain(|(_, task)| !task.is_finished());
        while self.0.len() >= connections_max.max(1) {
            let sources: Vec<IpAddr> = self.0.iter().map(|(source, _)| *source).collect();
            match displaced_connection(&sources).and_then(|index| self.0.remove(index)) {
                Some((_, task)) => task.abort(),
                None => return,
            }
        }
    }
}

/// Returns the index of the connection that a new one displaces: the oldest one of the source with the most.
fn displaced_connection(sources: &[IpAddr]) -> Option<usize> {
    let count = |index: &usize| {
        sources
            .iter()
            .filter(|source| **source == sources[*index])
            .count()
    };
    // Of several maxima, `max_by_key` returns the last one.
    (0..sources.len()).rev().max_by_key(count)
}

/// Accepts connections and runs `serve` for each in a task of its own. Dropping the future ends all tasks.
///
/// A connection holds one of the `permits` while it is served; without a free permit it goes to `refuse`.
pub async fn accept_connections<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    permits: Arc<Semaphore>,
    serve: impl Fn(TcpStream) -> F,
    refuse: impl Fn(TcpStream),
) {
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        match permits.clone().try_acquire_owned() {
            Ok(permit) => {
                let served = serve(stream);
                connections.spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            Err(_) => refuse(stream),
        }
    }
}

async fn serve_connection(stream: TcpStream, handler: Handler) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = handler(request.uri()).into_http();
        async move { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "connection failed");
    }
}
