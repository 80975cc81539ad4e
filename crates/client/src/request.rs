//! Requests to the API server, with timeouts, limits and fencing.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use telemetry::MetricsText;

use crate::config::{Config, ConfigError};
use crate::counters::Counters;
use crate::error::{ClientError, Status};
use crate::fence::Fence;
use crate::transport::{Body, Exchange, Transport};

/// Content type of plain objects.
pub const JSON: &str = "application/json";
/// Content type of merge patches (RFC 7386).
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// Content type of strategic merge patches.
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
/// Content type of server-side apply.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Timeout of requests other than watches.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Period and timeout of HTTP/2 keep-alives: watchers detect a vanished server within the sum of both.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of a response in bytes: twice a list of 50,000 Services with all fields.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// A client of an API server. Clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    user_agent: HeaderValue,
    fence: Option<Fence>,
}

/// State that all clones of a client share.
struct Inner {
    config: Config,
    /// Number of the current server, modulo the number of servers.
    turn: AtomicUsize,
    transport: Transport,
    counters: Counters,
    /// Time of the first request without a response since the last response.
    unreachable_since: Mutex<Option<Instant>>,
}

/// Credentials stay out of logs.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client for the server of `config`, without connecting.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if the configuration is invalid.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let tls = crate::tls::tls_config(&config)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(PING_INTERVAL));
        let mut connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = rustls::pki_types::ServerName::try_from(name.clone()).map_err(|error| {
                ConfigError::Unusable {
                    subject: "tls-server-name",
                    reason: error.to_string(),
                }
            })?;
            connector = connector.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
        }
        let http = HttpClient::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .http2_adaptive_window(true)
            .build(connector.enable_all_versions().wrap_connector(tcp));
        Ok(Self::over(config, Transport::network(http)))
    }

    /// Creates a client of a server in the same process.
    pub fn in_process(exchange: Exchange) -> Self {
        let config = Config {
            server: "http://in-process".to_owned(),
            ..Config::default()
        };
        Self::over(config, Transport::InProcess(exchange))
    }

    fn over(config: Config, transport: Transport) -> Self {
        Self {
            inner: Arc::new(Inner {
                config,
                turn: AtomicUsize::new(0),
                transport,
                counters: Counters::default(),
                unreachable_since: Mutex::default(),
            }),
            user_agent: user_agent("portolan"),
            fence: None,
        }
    }

    /// Returns this client with the name of the component as user agent: `portolan-proxy`. Servers record it in
    /// audit logs and as field manager.
    pub fn named(self, component: &str) -> Self {
        Self {
            user_agent: user_agent(component),
            ..self
        }
    }

    /// Returns this client with a fence, which permits writes only while it is open.
    pub fn fenced(&self, fence: Fence) -> Self {
        Self {
            fence: Some(fence),
            ..self.clone()
        }
    }

    /// Returns scheme, host and port of the current server.
    pub fn server(&self) -> &str {
        self.inner.server(self.inner.turn.load(Ordering::Relaxed))
    }

    /// Returns the time since the first request without a response, if no request of this client or its clones got one
    /// since then.
    pub fn unreachable_for(&self) -> Option<Duration> {
        let since = self.inner.unreachable_since.lock();
        since
            .unwrap_or_else(PoisonError::into_inner)
            .map(|since| since.elapsed())
    }

    /// Writes the metrics of the requests of this client and its clones: `rest_client_requests_total` and
    /// `rest_client_request_duration_seconds`, with `prefix` before these names.
    pub fn write_metrics(&self, text: &mut MetricsText, prefix: &str) {
        self.inner.counters.read().write(text, prefix, self.server());
    }

    /// Reads an object, or any other JSON response, at `path`.
    ///
    /// # Errors
    ///
    /// Returns [`ClientError`] if the request fails or the response is malformed.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let body = self.send(Method::GET, path, JSON, Bytes::new()).await?;
        decode(path, &body)
    }

    /// Sends a request with an optional JSON body and returns the JSON response.
    ///
    /// # Errors
    ///
    /// Returns [`ClientError`] if the request fails or the response is malformed.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let body = match body {
            Some(value) => serde_json::to_vec(value)
                .map_err(|source| ClientError::Decode {
                    path: path.to_owned(),
                    source,
                })?
                .into(),
            None => Bytes::new(),
        };
        let response = self.send(method, path, content_type, body).await?;
        decode(path, &response)
    }

    /// Sends a request and returns the body of the response.
    ///
    /// # Errors
    ///
    /// Returns [`ClientError`] if the request fails.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Bytes, ClientError> {
        let limit = self.limit(&method, path)?;
        let exchange = async {
            let response = self.open(method.clone(), path, content_type, body).await?;
            self.collect(&method, path, response.into_body()).await
        };
        let response = tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| {
            Err(ClientError::Timeout {
                method: method.clone(),
                path: path.to_owned(),
                limit,
            })
        });
        if let (Err(error), Some(fence)) = (&response, &self.fence)
            && method != Method::GET
            && error.code().is_none()
        {
            fence.record_abandoned_write();
        }
        response
    }

    /// Returns the timeout of a request; that of a write ends with the fence.
    fn limit(&self, method: &Method, path: &str) -> Result<Duration, ClientError> {
        let Some(fence) = self.fence.as_ref().filter(|_| *method != Method::GET) else {
            return Ok(REQUEST_TIMEOUT);
        };
        let remaining = fence.remaining();
        if remaining.is_zero() {
            return Err(ClientError::Fenced {
                method: method.clone(),
                path: path.to_owned(),
            });
        }
        Ok(remaining.min(REQUEST_TIMEOUT))
    }

    /// Sends a request and returns the response with its body as a stream; failures are read completely.
    ///
    /// # Errors
    ///
    /// Returns [`ClientError`] if the request fails.
    pub async fn open(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Response<Body>, ClientError> {
        let turn = self.inner.turn.load(Ordering::Relaxed);
        let request = self.build(self.inner.server(turn), method.clone(), path, content_type, body)?;
        let started = Instant::now();
        let response = self.inner.transport.exchange(request).await;
        let code = response.as_ref().ok().map(|response| response.status().as_u16());
        self.inner.counters.count(&method, code, started.elapsed());
        self.inner.record_reachability(code.is_some());
        let response = response.map_err(|error| {
            let error = self.transport(&method, path, error);
            self.inner.switch_server(turn);
            error
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let body = self.collect(&method, path, response.into_body()).await?;
        let status = serde_json::from_slice(&body).unwrap_or_else(|_| Status {
            code,
            reason: String::new(),
            message: String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
            ..Status::default()
        });
        Err(ClientError::Status {
            method,
            path: path.to_owned(),
            status: Status { code, ..status },
        })
    }

    fn build(
        &self,
        server: &str,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Request<Bytes>, ClientError> {
        let config = &self.inner.config;
        let mut request = Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", server.trim_end_matches('/')))
            .header(ACCEPT, JSON)
            .header(USER_AGENT, &self.user_agent);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let bearer = config
            .bearer()
            .map_err(|error| self.transport(&method, path, Box::new(error)))?;
        if let Some(token) = bearer {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(body).map_err(|source| ClientError::Request {
            path: path.to_owned(),
            source,
        })
    }

    async fn collect(&self, method: &Method, path: &str, mut body: Body) -> Result<Bytes, ClientError> {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.transport(method, path, error))?;
            let Ok(part) = frame.into_data() else { continue };
            if whole.len() + part.len() > RESPONSE_BYTES_MAX {
                return Err(ClientError::TooLarge {
                    path: path.to_owned(),
                    limit_bytes: RESPONSE_BYTES_MAX,
                });
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }

    pub(crate) fn transport(
        &self,
        method: &Method,
        path: &str,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> ClientError {
        ClientError::Transport {
            method: method.clone(),
            path: path.to_owned(),
            server: self.server().to_owned(),
            source,
        }
    }
}

/// Returns the user agent of a component in the form of Kubernetes: `portolan-proxy/v0.1.0 (linux/amd64)`.
fn user_agent(component: &str) -> HeaderValue {
    // Go's names of the architectures.
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = env!("CARGO_PKG_VERSION");
    let text = format!("{component}/v{version} ({}/{architecture})", std::env::consts::OS);
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("portolan"))
}

impl Inner {
    /// Returns the server with a number.
    fn server(&self, turn: usize) -> &str {
        let further = &self.config.further_servers;
        match (turn % (further.len() + 1)).checked_sub(1) {
            Some(index) => further.get(index).unwrap_or(&self.config.server),
            None => &self.config.server,
        }
    }

    /// Records that a request received a response, or none.
    fn record_reachability(&self, has_response: bool) {
        let mut since = self
            .unreachable_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if has_response {
            *since = None;
        } else {
            since.get_or_insert_with(Instant::now);
        }
    }

    /// Switches to the next server, unless a concurrent request has done so.
    fn switch_server(&self, turn: usize) {
        if self.config.further_servers.is_empty() {
            return;
        }
        let next = turn.wrapping_add(1);
        let exchange = self
            .turn
            .compare_exchange(turn, next, Ordering::Relaxed, Ordering::Relaxed);
        if exchange.is_ok() {
            tracing::warn!(
                server = self.server(turn),
                next = self.server(next),
                "API server not responding"
            );
        }
    }
}

/// Parses a JSON response, from which the result may borrow.
pub(crate) fn decode<'a, T: Deserialize<'a>>(path: &str, body: &'a [u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|source| ClientError::Decode {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
