//! HTTPS endpoint of the agent for the API server (kubelet's `pkg/kubelet/server`): logs of containers,
//! streams to Pods, and reports about the node.
//!
//! Clients must present the API server's client certificate, signed by the cluster CA. Other clients get status 403.

mod connection_permits;
mod node_logs;
pub mod reports;
mod streaming;
mod tls;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use counting::{NamespaceShare, NamespaceShares};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, TryAcquireError, mpsc};
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use connection_permits::{ConnectionPermit, ConnectionPermits};
use node_logs::NodeLog;
use streaming::parameters::decode;
use streaming::{StreamError, Streaming};

use crate::containers::logs::{self, ClientGone, LogError, Options};
use crate::pods::state_directory::StateDirectory;
use crate::resources::stats::Stats;
use crate::server::reports::{ReportError, ReportKind, ReportRequest, Reports};
use crate::settings::ServerSettings;

/// Maximum number of concurrent connections of API servers: more than sessions and logs together, each of which has one.
const CONNECTIONS_MAX: usize = 512;
/// Maximum number of concurrent connections that are not authenticated yet, or whose client is not an API server.
const UNAUTHENTICATED_MAX: usize = 128;
/// Maximum number of these connections of one client address: more than an API server opens at once, and too few to
/// exhaust [`UNAUTHENTICATED_MAX`].
const UNAUTHENTICATED_PER_ADDRESS_MAX: usize = 32;
/// Timeout of the TLS handshake and of a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of lines that wait to be sent. A slow client delays only the reading of its own log.
const LINES_WAITING_MAX: usize = 64;
/// Maximum number of chunks of a file that wait to be sent, of 64 KiB each.
const CHUNKS_WAITING_MAX: usize = 4;
/// Maximum number of threads that read logs. A follower holds one as long as it reads; the runtime has 512 for all
/// blocking work.
const LOG_READERS_MAX: usize = 128;
/// Delay after a failed accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Reason why the endpoint cannot be served. The settings must be corrected.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}; choose another port")]
    Listen {
        /// Address to listen on.
        address: SocketAddr,
        /// I/O error.
        source: io::Error,
    },
    /// A certificate or key is not PEM.
    #[error("a certificate or key cannot be read: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// Certificates or keys are not usable for TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The client CA is not usable for authentication.
    #[error("clients' certificates cannot be checked: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// Reason why a connection ends early.
#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error("socket option TCP_NODELAY: {0}")]
    Option(io::Error),
    #[error("no TLS handshake within {HEAD_TIMEOUT:?}")]
    Timeout(#[from] Elapsed),
    #[error("TLS handshake: {0}")]
    Handshake(io::Error),
    #[error("too many connections of API servers")]
    Limit(#[from] TryAcquireError),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// Reports about the node.
pub(crate) struct NodeReports {
    /// Name of the Node.
    pub node_name: String,
    /// Reports that the binary provides.
    pub reports: Reports,
    /// CPU time and memory of the node and its containers.
    pub stats: Stats,
}

/// Listening endpoint.
pub(crate) struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    content: Arc<Content>,
}

/// Content that the endpoint serves.
struct Content {
    /// Records of Pods, for their logs.
    state: StateDirectory,
    /// Reports about the node.
    node: NodeReports,
    /// Streams to Pods.
    streaming: Streaming,
    /// Permits of threads that read logs.
    log_readers: Arc<NamespaceShares>,
}

type ServerResponse = Response<BoxBody<Bytes, Infallible>>;

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub(crate) async fn start(
        settings: &ServerSettings,
        state: StateDirectory,
        node: NodeReports,
    ) -> Result<Self, ServerError> {
        let address = settings.listen;
        let acceptor = TlsAcceptor::from(Arc::new(tls::config(settings)?));
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServerError::Listen { address, source })?;
        let log_readers = NamespaceShares::of(LOG_READERS_MAX);
        Ok(Self {
            listener,
            acceptor,
            content: Arc::new(Content {
                streaming: Streaming::new(state.clone()),
                log_readers,
                state,
                node,
            }),
        })
    }

    /// Serves as long as it is polled.
    pub(crate) async fn serve(self) {
        let authenticated = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let unauthenticated = ConnectionPermits::new(UNAUTHENTICATED_MAX, UNAUTHENTICATED_PER_ADDRESS_MAX);
        loop {
            let (stream, source) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "connection to the agent's endpoint not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Connections beyond the limit are closed at once and do not wait in the queue.
            let Some(permit) = unauthenticated.acquire(source.ip()) else {
                tracing::debug!(%source, "connection closed; too many to the agent's endpoint");
                continue;
            };
            let connection = Connection {
                acceptor: self.acceptor.clone(),
                content: Arc::clone(&self.content),
                authenticated: Arc::clone(&authenticated),
            };
            tokio::spawn(async move {
                if let Err(error) = connection.serve(stream, permit).await {
                    tracing::debug!(%error, "connection to the agent's endpoint failed");
                }
            });
        }
    }
}

/// Connection before its authentication.
struct Connection {
    acceptor: TlsAcceptor,
    content: Arc<Content>,
    authenticated: Arc<Semaphore>,
}

impl Connection {
    /// Serves a connection to its end. After authentication, an API server exchanges its permit for one of API servers.
    async fn serve(self, stream: TcpStream, permit: ConnectionPermit) -> Result<(), ConnectionError> {
        // Messages of streams are small: each would wait for the acknowledgement of the one before.
        stream.set_nodelay(true).map_err(ConnectionError::Option)?;
        let accepted = timeout(HEAD_TIMEOUT, self.acceptor.accept(stream)).await?;
        let stream = accepted.map_err(ConnectionError::Handshake)?;
        let is_api_server = tls::is_api_server(stream.get_ref().1.peer_certificates());
        let (_authenticated, _unauthenticated) = if is_api_server {
            (Some(self.authenticated.try_acquire_owned()?), None)
        } else {
            (None, Some(permit))
        };
        let content = self.content;
        let service = service_fn(move |request: Request<Incoming>| {
            let content = Arc::clone(&content);
            async move {
                Ok::<_, Infallible>(if is_api_server {
                    content.respond(request).await
                } else {
                    text(
                        StatusCode::FORBIDDEN,
                        "expected the client certificate of the API server",
                    )
                })
            }
        });
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await?;
        Ok(())
    }
}

impl Content {
    async fn respond(&self, request: Request<Incoming>) -> ServerResponse {
        let uri = request.uri().clone();
        let query = uri.query().unwrap_or_default();
        let parts: Vec<&str> = uri.path().split('/').skip(1).collect();
        // Clients upgrade to WebSocket by GET and to SPDY by POST.
        match (&request.method().clone(), parts.as_slice()) {
            (&Method::GET | &Method::POST, ["exec", namespace, pod, container]) => {
                let executed = self.streaming.execute(request, namespace, pod, container);
                return upgraded(executed);
            }
            (&Method::GET | &Method::POST, ["attach", namespace, pod, container]) => {
                let attached = self.streaming.attach(request, namespace, pod, container);
                return upgraded(attached);
            }
            (&Method::GET | &Method::POST, ["portForward", namespace, pod]) => {
                return upgraded(self.streaming.forward(request, namespace, pod).await);
            }
            (&Method::GET, _) => {}
            _ => return text(StatusCode::METHOD_NOT_ALLOWED, "expected GET"),
        }
        match parts.as_slice() {
            ["containerLogs", namespace, pod, container] => self.log(namespace, pod, container, query),
            ["logs", path @ ..] => self.node_log(&path.join("/")).await,
            ["nodeReports", node, report] => match ReportKind::of_subresource(report) {
                Some(kind) => self.report(node, kind, query).await,
                None => not_found(),
            },
            ["nodeUsage", node] => self.usage(node),
            _ => not_found(),
        }
    }

    fn log(&self, namespace: &str, pod: &str, container: &str, query: &str) -> ServerResponse {
        let query = parameters(query);
        let log = Options::parse(&query, Timestamp::now()).and_then(|options| {
            let log = logs::find(&self.state, namespace, pod, container, options.previous)?;
            Ok((options, log))
        });
        match log {
            Ok((options, log)) => match self.log_readers.take(namespace) {
                Some(reader) => container_log(log, options, reader),
                None => text(
                    StatusCode::TOO_MANY_REQUESTS,
                    &StreamError::LogReaders.to_string(),
                ),
            },
            Err(error @ LogError::Pod { .. }) => text(StatusCode::NOT_FOUND, &error.to_string()),
            Err(error) => text(StatusCode::BAD_REQUEST, &error.to_string()),
        }
    }

    /// Responds with a file or a listing of the node's log directory.
    async fn node_log(&self, encoded_path: &str) -> ServerResponse {
        let Some(reader) = self.log_readers.take("") else {
            return text(
                StatusCode::TOO_MANY_REQUESTS,
                &StreamError::LogReaders.to_string(),
            );
        };
        let path = decode(encoded_path);
        let opened =
            tokio::task::spawn_blocking(move || node_logs::open(Path::new(node_logs::DIRECTORY), &path));
        match opened.await {
            Ok(Ok(NodeLog::Listing(page))) => document("text/html; charset=utf-8", page.into_bytes()),
            Ok(Ok(NodeLog::File(file, size))) => node_log_file(file, size, reader),
            Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                text(StatusCode::FORBIDDEN, &error.to_string())
            }
            Ok(Err(_)) => not_found(),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    /// Responds with a report. A request for another Node is refused. A Node object with the address of this host must
    /// not give its readers the reports of this one.
    async fn report(&self, node: &str, kind: ReportKind, query: &str) -> ServerResponse {
        if node != self.node.node_name {
            return of_another_node();
        }
        match self.node.reports.create(kind, ReportRequest::parse(query)).await {
            Ok(report) => json(report),
            Err(error) => {
                let status = match &error {
                    ReportError::Parameter { .. } => StatusCode::BAD_REQUEST,
                    ReportError::NotProvided(_) => StatusCode::NOT_IMPLEMENTED,
                    ReportError::Busy => StatusCode::TOO_MANY_REQUESTS,
                    ReportError::TooLarge(_) | ReportError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
                };
                text(status, &error.to_string())
            }
        }
    }

    /// Responds with the CPU time and memory of the node and its containers.
    fn usage(&self, node: &str) -> ServerResponse {
        if node != self.node.node_name {
            return of_another_node();
        }
        match self.node.stats.report() {
            Some(report) => json(report),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "not measured yet, try again"),
        }
    }
}

fn of_another_node() -> ServerResponse {
    text(StatusCode::FORBIDDEN, "this is the agent of another node")
}

/// Returns the response to a request for streams.
fn upgraded(result: Result<Response<()>, StreamError>) -> ServerResponse {
    match result {
        Ok(response) => response.map(|()| Full::new(Bytes::new()).boxed()),
        Err(error) => text(error.status(), &error.to_string()),
    }
}

fn not_found() -> ServerResponse {
    text(StatusCode::NOT_FOUND, "404 page not found")
}

/// Returns the response with the log of a container.
fn container_log(log: logs::ContainerLog, options: Options, reader: NamespaceShare) -> ServerResponse {
    let (lines, waiting) = mpsc::channel::<Vec<u8>>(LINES_WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        let _reader = reader;
        let sink = |line: Vec<u8>| match line.is_empty() {
            // An empty line checks if the client still reads.
            true if lines.is_closed() => Err(ClientGone),
            true => Ok(()),
            false => lines.blocking_send(line).map_err(|_| ClientGone),
        };
        if let Err(error) = logs::read(&log, &options, sink) {
            tracing::warn!(path = %log.path.display(), %error, "log not read");
        }
    });
    plain_stream(waiting)
}

/// Returns the response with a file of the node's log directory.
fn node_log_file(file: File, size: u64, reader: NamespaceShare) -> ServerResponse {
    let (chunks, waiting) = mpsc::channel::<Vec<u8>>(CHUNKS_WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        let _reader = reader;
        if let Err(error) = node_logs::read(file, size, |chunk| chunks.blocking_send(chunk).is_ok()) {
            tracing::warn!(%error, "log of the node not read");
        }
    });
    plain_stream(waiting)
}

/// Returns the response with text that a thread reads: file I/O blocks.
fn plain_stream(mut waiting: mpsc::Receiver<Vec<u8>>) -> ServerResponse {
    let frames = futures_util::stream::poll_fn(move |context| {
        waiting
            .poll_recv(context)
            .map(|line| line.map(|line| Ok(Frame::data(Bytes::from(line)))))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed());
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("text/plain"),
    );
    response
}

/// Parses a query. The API server escapes only characters of timestamps.
fn parameters(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.replace("%3A", ":").replace("%2B", "+")))
        .collect()
}

fn text(status: StatusCode, text: &str) -> ServerResponse {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

fn json(body: Vec<u8>) -> ServerResponse {
    document("application/json", body)
}

fn document(content_type: &'static str, body: Vec<u8>) -> ServerResponse {
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static(content_type),
    );
    response
}
