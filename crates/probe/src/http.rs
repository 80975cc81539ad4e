//! `httpGet` probes and lifecycle handlers.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::connect::{DialError, Host, dial};
use crate::definition::{HttpGet, HttpHeader};

/// Limit of redirects, as in upstream's client.
const REDIRECTS_MAX: usize = 10;
/// Maximum size of a body in bytes; it appears in messages for operators only.
const BODY_BYTES_MAX: usize = 10 << 10;
/// Maximum number of headers of a definition. A [`HeaderMap`] panics beyond 24,576 names.
const HEADERS_MAX: usize = 10_000;
/// User agent of probes.
pub(super) const AGENT: &str = "kube-probe/portolan";

/// Failure of an `httpGet`. A retry may succeed, except for [`HttpFailure::Request`].
#[derive(Debug, thiserror::Error)]
pub enum HttpFailure {
    /// The connection failed.
    #[error("Get \"{url}\": {source}")]
    Dial {
        /// URL of the request.
        url: String,
        /// Error of the connection.
        source: DialError,
    },
    /// The TLS handshake failed. Certificates are not verified.
    #[error("Get \"{url}\": {source}")]
    Tls {
        /// URL of the request.
        url: String,
        /// Error of the handshake.
        source: std::io::Error,
    },
    /// The response is not HTTP, or is incomplete.
    #[error("Get \"{url}\": {source}")]
    Exchange {
        /// URL of the request.
        url: String,
        /// Error of the exchange.
        source: hyper::Error,
    },
    /// Too many redirects.
    #[error("Get \"{url}\": stopped after {REDIRECTS_MAX} redirects")]
    Redirects {
        /// Last URL.
        url: String,
    },
    /// The status is not between 200 and 399.
    #[error("HTTP probe failed with statuscode: {code}")]
    Status {
        /// The status code.
        code: u16,
    },
    /// The definition cannot be converted to a request.
    #[error("invalid request: {reason}")]
    Request {
        /// Description of the defect.
        reason: String,
    },
}

/// Kind of success.
#[derive(Debug, PartialEq, Eq)]
pub enum HttpSuccess {
    /// Status 200 to 299, or a redirect without a location.
    Plain,
    /// A redirect to another host, which is not followed.
    RedirectedAway,
}

/// Sends the request of `get` to `host`, follows redirects within that host, and evaluates the status.
///
/// # Errors
///
/// Returns [`HttpFailure`] if the request fails or the status is not between 200 and 399.
pub async fn probe(
    get: &HttpGet,
    host: &Host,
    port: u16,
    tls: &Arc<ClientConfig>,
) -> Result<HttpSuccess, HttpFailure> {
    let mut url = url(get, host, port)?;
    let first_host = url.host().unwrap_or_default().to_owned();
    let headers = headers(&get.http_headers)?;
    for _ in 0..=REDIRECTS_MAX {
        let response = send(&url, &headers, tls).await?;
        let Some(next) = redirect(&url, &response) else {
            return evaluate_status(response.status());
        };
        if next.host() != Some(&first_host) {
            return Ok(HttpSuccess::RedirectedAway);
        }
        url = next;
    }
    Err(HttpFailure::Redirects { url: url.to_string() })
}

/// Requests `path` over an existing connection and returns the status of the response, whatever it is.
///
/// # Errors
///
/// Returns [`HttpFailure::Request`] for an invalid request, and [`HttpFailure::Exchange`] if the response is not
/// HTTP or incomplete.
pub async fn request_over<S>(stream: S, host: &str, path: &str) -> Result<StatusCode, HttpFailure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let url = Uri::builder()
        .scheme("http")
        .authority(host)
        .path_and_query(path)
        .build()
        .map_err(invalid)?;
    let request = request(&url, &headers(&[])?)?;
    Ok(exchange(&url, stream, request).await?.status())
}

fn evaluate_status(status: StatusCode) -> Result<HttpSuccess, HttpFailure> {
    match status.as_u16() {
        200..400 => Ok(HttpSuccess::Plain),
        code => Err(HttpFailure::Status { code }),
    }
}

/// Returns the URL of `get`. Characters that URLs do not allow are escaped.
pub(super) fn url(get: &HttpGet, host: &Host, port: u16) -> Result<Uri, HttpFailure> {
    let scheme = if get.scheme.eq_ignore_ascii_case("https") {
        "https"
    } else {
        "http"
    };
    let slash = if get.path.starts_with('/') { "" } else { "/" };
    let path: String = get.path.chars().map(percent_encode).collect();
    Uri::builder()
        .scheme(scheme)
        .authority(host.with_port(port))
        .path_and_query(format!("{slash}{path}"))
        .build()
        .map_err(invalid)
}

fn percent_encode(character: char) -> String {
    if character.is_ascii_graphic()
        && !matches!(character, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')
    {
        return character.to_string();
    }
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).bytes();
    bytes.map(|byte| format!("%{byte:02X}")).collect()
}

/// Returns the headers of requests. Headers of the definition take precedence; an empty `Accept` removes the
/// default.
pub(super) fn headers(given: &[HttpHeader]) -> Result<HeaderMap, HttpFailure> {
    if given.len() > HEADERS_MAX {
        return Err(invalid(format_args!(
            "expected at most {HEADERS_MAX} headers, found {}",
            given.len()
        )));
    }
    let mut headers = HeaderMap::new();
    for header in given {
        let name: HeaderName = header.name.parse().map_err(invalid)?;
        headers.append(name, HeaderValue::from_str(&header.value).map_err(invalid)?);
    }
    if !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    }
    match headers.get(ACCEPT) {
        None => drop(headers.insert(ACCEPT, HeaderValue::from_static("*/*"))),
        Some(value) if value.is_empty() => drop(headers.remove(ACCEPT)),
        Some(_) => {}
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(headers)
}

/// Returns the target of a redirect, if there is one.
pub(super) fn redirect<B>(from: &Uri, response: &Response<B>) -> Option<Uri> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    if location.contains("://") {
        return location.parse().ok();
    }
    let (scheme, authority) = (from.scheme()?, from.authority()?);
    if let Some(rest) = location.strip_prefix("//") {
        return format!("{scheme}://{rest}").parse().ok();
    }
    let path = if location.starts_with('/') {
        location.to_owned()
    } else {
        let directory = from
            .path()
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory);
        format!("{directory}/{location}")
    };
    format!("{scheme}://{authority}{path}").parse().ok()
}

async fn send(url: &Uri, headers: &HeaderMap, tls: &Arc<ClientConfig>) -> Result<Response<()>, HttpFailure> {
    let host = Host::parse(url.host().unwrap_or_default());
    let is_tls = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = dial(&host, port).await.map_err(|source| HttpFailure::Dial {
        url: url.to_string(),
        source,
    })?;
    let request = request(url, headers)?;
    if !is_tls {
        return exchange(url, stream, request).await;
    }
    let name = match &host {
        Host::Address(ip) => ServerName::from(*ip),
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(invalid)?,
    };
    let connector = TlsConnector::from(Arc::clone(tls));
    let stream = connector.connect(name, stream).await;
    let stream = stream.map_err(|source| HttpFailure::Tls {
        url: url.to_string(),
        source,
    })?;
    exchange(url, stream, request).await
}

fn request(url: &Uri, headers: &HeaderMap) -> Result<Request<Empty<Bytes>>, HttpFailure> {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(path).body(Empty::new()).map_err(invalid)?;
    *request.headers_mut() = headers.clone();
    if !headers.contains_key(HOST) {
        let host = url.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(host).map_err(invalid)?;
        request.headers_mut().insert(HOST, host);
    }
    Ok(request)
}

async fn exchange<S>(
    url: &Uri,
    stream: S,
    request: Request<Empty<Bytes>>,
) -> Result<Response<()>, HttpFailure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |source| HttpFailure::Exchange {
        url: url.to_string(),
        source,
    };
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(failed)?;
    let response = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let (parts, body) = response.into_parts();
        read(body).await;
        Ok(Response::from_parts(parts, ()))
    };
    tokio::pin!(response);
    tokio::select! {
        response = &mut response => response,
        ended = connection => match ended {
            // The connection has ended; the response is already stored.
            Ok(()) => response.await,
            Err(source) => Err(failed(source)),
        },
    }
}

/// Reads a body so that the server can finish sending; an incomplete or too long body is ignored.
async fn read(body: Incoming) {
    if let Err(error) = Limited::new(body, BODY_BYTES_MAX).collect().await {
        tracing::debug!(%error, "probe response body incomplete");
    }
}

fn invalid(error: impl std::fmt::Display) -> HttpFailure {
    HttpFailure::Request {
        reason: error.to_string(),
    }
}
