//! A small HTTP/1.1 server for health checks and metrics: bounded connections, deadlines, no bodies.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections served at once; more are closed at once. Load balancers probe with a few each.
const CONNECTIONS_MAX: usize = 128;
/// How long a request may take to arrive, and an idle connection stays open.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may last in all, so that slow readers do not hold a place for ever.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Pause after a failed accept: the usual cause is too many open files, which no hurry mends.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is answered.
pub struct Answer {
    /// Status code.
    pub status: StatusCode,
    /// Content type of the body.
    pub content_type: &'static str,
    /// Further headers; names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// A JSON answer.
    pub fn json(status: StatusCode, body: &serde_json::Value) -> Self {
        Self {
            status,
            content_type: "application/json",
            headers: Vec::new(),
            body: body.to_string(),
        }
    }

    /// A plain text answer.
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// Metrics in Prometheus' format.
    pub fn metrics(text: String) -> Self {
        Self {
            content_type: crate::text::CONTENT_TYPE,
            ..Self::text(StatusCode::OK, text)
        }
    }

    /// Nothing is there.
    pub fn not_found() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
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

/// Says what is at a path.
pub type Respond = Arc<dyn Fn(&Uri) -> Answer + Send + Sync>;

/// Listens on an address. An unspecified one means both families, as in Go, if there is IPv6.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
    let listener = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => match std::net::TcpListener::bind(both) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => std::net::TcpListener::bind(address)?,
            bound => bound?,
        },
        _ => std::net::TcpListener::bind(address)?,
    };
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves until it is dropped, which ends its connections too.
pub async fn serve(listener: TcpListener, respond: Respond) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let serve_one = |stream| {
        let served = tokio::time::timeout(CONNECTION_TIMEOUT, connection(stream, respond.clone()));
        async move {
            if served.await.is_err() {
                tracing::debug!("a connection lasted too long");
            }
        }
    };
    accept_each(listener, places, serve_one, drop).await;
}

/// Takes connections until it is dropped, which ends them too. Each has one of the `places` as long as it is served; for
/// whom none is left, that is refused.
pub async fn accept_each<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    places: Arc<Semaphore>,
    serve: impl Fn(TcpStream) -> F,
    refuse: impl Fn(TcpStream),
) {
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        match places.clone().try_acquire_owned() {
            Ok(place) => {
                let served = serve(stream);
                connections.spawn(async move {
                    served.await;
                    drop(place);
                });
            }
            Err(_) => refuse(stream),
        }
    }
}

async fn connection(stream: TcpStream, respond: Respond) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = respond(request.uri()).into_response();
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "a connection ended early");
    }
}
