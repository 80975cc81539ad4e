//! `httpGet` probes and handlers.

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

/// Redirects that are followed, as upstream's client does.
const REDIRECTS_MAX: usize = 10;
/// Bytes of a body that are read: it is of interest to people only.
const BODY_BYTES_MAX: usize = 10 << 10;
/// Who asks.
pub(super) const AGENT: &str = "kube-probe/portolan";

/// Why an `httpGet` did not succeed. Asking again may help, except for [`HttpFailure::Request`].
#[derive(Debug, thiserror::Error)]
pub enum HttpFailure {
    /// No connection.
    #[error("Get \"{url}\": {source}")]
    Dial {
        /// Whom was asked.
        url: String,
        /// What failed.
        source: DialError,
    },
    /// The handshake failed. Certificates are not looked at.
    #[error("Get \"{url}\": {source}")]
    Tls {
        /// Whom was asked.
        url: String,
        /// What failed.
        source: std::io::Error,
    },
    /// The answer is not HTTP, or broke off.
    #[error("Get \"{url}\": {source}")]
    Exchange {
        /// Whom was asked.
        url: String,
        /// What failed.
        source: hyper::Error,
    },
    /// It leads from place to place.
    #[error("Get \"{url}\": stopped after {REDIRECTS_MAX} redirects")]
    Redirects {
        /// The last place.
        url: String,
    },
    /// The status is none of 200 to 399.
    #[error("HTTP probe failed with statuscode: {code}")]
    Status {
        /// The status code.
        code: u16,
    },
    /// The object asks for what cannot be sent.
    #[error("invalid request: {why}")]
    Request {
        /// Why.
        why: String,
    },
}

/// How it succeeded.
#[derive(Debug, PartialEq, Eq)]
pub enum HttpSuccess {
    /// With a status of 200 to 299, or one that leads nowhere.
    Plain,
    /// With a redirect to another host, which is not followed.
    RedirectedAway,
}

/// Asks `host` for what `get` says, follows redirects within that host, and judges the status.
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
        let answer = ask(&url, &headers, tls).await?;
        let Some(next) = redirect(&url, &answer) else {
            return judge(answer.status());
        };
        if next.host() != Some(&first_host) {
            return Ok(HttpSuccess::RedirectedAway);
        }
        url = next;
    }
    Err(HttpFailure::Redirects { url: url.to_string() })
}

/// Asks for `path` over a connection that stands already, to a server or what stands for it; the status that it answers,
/// whatever that is.
///
/// # Errors
/// [`HttpFailure::Request`] for what cannot be sent, [`HttpFailure::Exchange`] if the answer is not HTTP or breaks off.
pub async fn ask_over<S>(stream: S, host: &str, path: &str) -> Result<StatusCode, HttpFailure>
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

fn judge(status: StatusCode) -> Result<HttpSuccess, HttpFailure> {
    match status.as_u16() {
        200..400 => Ok(HttpSuccess::Plain),
        code => Err(HttpFailure::Status { code }),
    }
}

/// The place that `get` names. A path that no URL has is quoted as far as needed.
pub(super) fn url(get: &HttpGet, host: &Host, port: u16) -> Result<Uri, HttpFailure> {
    let scheme = if get.scheme.eq_ignore_ascii_case("https") {
        "https"
    } else {
        "http"
    };
    let slash = if get.path.starts_with('/') { "" } else { "/" };
    let path: String = get.path.chars().map(quoted).collect();
    Uri::builder()
        .scheme(scheme)
        .authority(host.with_port(port))
        .path_and_query(format!("{slash}{path}"))
        .build()
        .map_err(invalid)
}

fn quoted(character: char) -> String {
    if character.is_ascii_graphic()
        && !matches!(character, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')
    {
        return character.to_string();
    }
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).bytes();
    bytes.map(|byte| format!("%{byte:02X}")).collect()
}

/// What is sent with every request. The object's own go before ours; `Accept` may be taken out by an empty one.
pub(super) fn headers(given: &[HttpHeader]) -> Result<HeaderMap, HttpFailure> {
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

/// Where an answer leads to, if anywhere.
pub(super) fn redirect<B>(from: &Uri, answer: &Response<B>) -> Option<Uri> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = answer.headers().get(LOCATION)?.to_str().ok()?;
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

async fn ask(url: &Uri, headers: &HeaderMap, tls: &Arc<ClientConfig>) -> Result<Response<()>, HttpFailure> {
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
    let answer = async {
        let answer = sender.send_request(request).await.map_err(failed)?;
        let (parts, body) = answer.into_parts();
        read(body).await;
        Ok(Response::from_parts(parts, ()))
    };
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            // The connection is done with; what was answered has been put down for us.
            Ok(()) => answer.await,
            Err(source) => Err(failed(source)),
        },
    }
}

/// Reads a body so that the server is not cut off; one that breaks off or is too long is of no interest.
async fn read(body: Incoming) {
    if let Err(error) = Limited::new(body, BODY_BYTES_MAX).collect().await {
        tracing::debug!(%error, "the body of a probe's answer is not read to its end");
    }
}

fn invalid(error: impl std::fmt::Display) -> HttpFailure {
    HttpFailure::Request {
        why: error.to_string(),
    }
}
