//! The agent's endpoint for the API server: logs, at upstream's path, over TLS. Who asks has to prove by a certificate
//! of the cluster's authority to be the API server; nobody else is answered.

mod places;
mod tls;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use places::{Place, Places};

use crate::logs::{self, LogError, Options, Stop};
use crate::settings::Serving;
use crate::state_directory::StateDirectory;

/// Connections of API servers at a time, each with as many logs as are followed.
const CONNECTIONS_MAX: usize = 256;
/// Connections at a time of clients that have not proved yet to be an API server, and of those that are none.
const UNPROVEN_MAX: usize = 128;
/// The same from one address: more than an API server opens at a moment, and not enough to keep it out.
const UNPROVEN_OF_ADDRESS_MAX: usize = 32;
/// How long a handshake and the head of a request may take.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Lines that wait to be sent. A client that does not read holds up only the reading of its own log.
const LINES_WAITING_MAX: usize = 64;
/// Pause after a failed accept, most often for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the endpoint cannot be served. The settings have to be mended.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A certificate or key is not PEM.
    #[error("a certificate or key cannot be read: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// Certificates or keys cannot be used for TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The authority cannot be used to check clients.
    #[error("clients' certificates cannot be checked: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// The endpoint, listening.
pub struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    state: StateDirectory,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl Server {
    /// Listens.
    pub async fn start(settings: &Serving, state: StateDirectory) -> Result<Self, ServingError> {
        let address = settings.listen;
        let acceptor = TlsAcceptor::from(Arc::new(tls::config(settings)?));
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServingError::Listen { address, source })?;
        Ok(Self {
            listener,
            acceptor,
            state,
        })
    }

    /// Answers for as long as it is polled.
    pub async fn serve(self) {
        let proven = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let unproven = Places::new(UNPROVEN_MAX, UNPROVEN_OF_ADDRESS_MAX);
        loop {
            let (stream, source) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accepting on the agent's endpoint");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // One that is refused is closed at once: it must not wait in the way of others.
            let Some(place) = unproven.take(source.ip()) else {
                tracing::debug!(%source, "a connection to the agent's endpoint has no place");
                continue;
            };
            let connection = Connection {
                acceptor: self.acceptor.clone(),
                state: self.state.clone(),
                proven: Arc::clone(&proven),
            };
            tokio::spawn(async move {
                if let Err(error) = connection.converse(stream, place).await {
                    tracing::debug!(%error, "a connection to the agent's endpoint");
                }
            });
        }
    }
}

/// Beginning of a connection.
struct Connection {
    acceptor: TlsAcceptor,
    state: StateDirectory,
    proven: Arc<Semaphore>,
}

impl Connection {
    /// Serves a connection to its end. An API server gives its place up for one among its like.
    async fn converse(
        self,
        stream: TcpStream,
        unproven: Place,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let stream = timeout(HEAD_PATIENCE, self.acceptor.accept(stream)).await??;
        let is_api_server = tls::is_api_server(stream.get_ref().1.peer_certificates());
        let (_proven, _unproven) = match is_api_server {
            true => (Some(self.proven.try_acquire_owned()?), None),
            false => (None, Some(unproven)),
        };
        let state = self.state;
        let service = service_fn(move |request: Request<Incoming>| {
            let state = state.clone();
            async move {
                Ok::<_, Infallible>(if is_api_server {
                    answer(&state, &request)
                } else {
                    text(StatusCode::FORBIDDEN, "only the API server is answered")
                })
            }
        });
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .serve_connection(TokioIo::new(stream), service)
            .await?;
        Ok(())
    }
}

fn answer(state: &StateDirectory, request: &Request<Incoming>) -> Answer {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered");
    }
    let parts: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let ["containerLogs", namespace, pod, container] = parts.as_slice() else {
        return text(StatusCode::NOT_FOUND, "404 page not found");
    };
    let query = parameters(request.uri().query().unwrap_or_default());
    let found = Options::parse(&query, Timestamp::now()).and_then(|options| {
        let found = logs::find(state, namespace, pod, container, options.previous)?;
        Ok((options, found))
    });
    match found {
        Ok((options, found)) => stream(found, options),
        Err(error @ LogError::Pod { .. }) => text(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error) => text(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

/// The log as it is read, on a thread of its own: files have no other way to be read.
fn stream(found: logs::Found, options: Options) -> Answer {
    let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(LINES_WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        let sink = |line: Vec<u8>| match line.is_empty() {
            // Asked whether somebody reads still.
            true if lines.is_closed() => Err(Stop),
            true => Ok(()),
            false => lines.blocking_send(line).map_err(|_| Stop),
        };
        if let Err(error) = logs::read(&found, &options, sink) {
            tracing::warn!(path = %found.path.display(), %error, "reading a log");
        }
    });
    let frames = futures_util::stream::poll_fn(move |context| {
        waiting
            .poll_recv(context)
            .map(|line| line.map(|line| Ok(Frame::data(Bytes::from(line)))))
    });
    let mut answer = Response::new(StreamBody::new(frames).boxed());
    answer.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("text/plain"),
    );
    answer
}

/// The parameters of a query; the API server escapes nothing but what stands in times.
fn parameters(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.replace("%3A", ":").replace("%2B", "+")))
        .collect()
}

fn text(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}
