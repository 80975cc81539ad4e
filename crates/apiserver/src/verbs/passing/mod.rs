//! The `proxy` subresource, and the `log` of Pods ([`logs`]): requests that are passed on to a Pod, by itself or as an endpoint of a Service (API-03).
//!
//! Only Pods are reached, never an address that somebody has written into Endpoints: the server stands where its
//! clients may not reach everything that it can.

mod answer_head;
mod destination;
mod headers;
mod logs;
mod tunnel;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode, Uri, Version};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use crate::failure::Failure;
use crate::request::route::Target;
use crate::transport::long_running::Lasting;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::resource::Resources;
use answer_head::{Sent, answer_of};
use destination::Destination;
pub(crate) use logs::Logs;

/// How long a connection to a Pod may take: Pods are near.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that are kept to a Pod for what comes next, and for how long.
const IDLE_CONNECTIONS_MAX: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Passes requests on. Shared by all connections.
pub(crate) struct Passing {
    client: Client<HttpsConnector<HttpConnector>, Sent>,
}

impl Passing {
    /// Without any connection yet.
    ///
    /// # Errors
    /// If the TLS library has no protocol in common with itself, which does not happen.
    pub(crate) fn new() -> Result<Passing, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust::AcceptAnyServerCert::new(provider)))
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector());
        Ok(Passing {
            client: pooled(connector),
        })
    }

    /// Passes a request on to what `target` names, and the answer back, which lasts no longer than `lasting`.
    pub(crate) async fn pass(
        &self,
        resources: &Resources,
        target: &Target,
        mut request: Request<Incoming>,
        mut lasting: Lasting,
    ) -> Result<ApiResponse, Failure> {
        let destination = destination::of(resources, target).await?;
        let path = target.passed_path.as_deref().unwrap_or_default();
        let outer_path = request.uri().path().to_owned();
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        if path.is_empty() && is_get && !headers::is_upgrade(request.headers()) {
            return Ok(to_the_root(request.uri()));
        }
        let prefix = outer_path.strip_suffix(path).unwrap_or(&outer_path).to_owned();
        let host = headers::host(&request);
        let client_side = headers::is_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
        let request = directed(request, &destination, path, &prefix)?;
        let mut answered = lasting.during(answer_of(&self.client, request)).await?;
        headers::clean_answer(&mut answered, &destination, &prefix, &host)?;
        match client_side {
            Some(client_side) if answered.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let pod_side = hyper::upgrade::on(&mut answered);
                tokio::spawn(tunnel::run(
                    client_side,
                    pod_side,
                    resources.shutdown.clone(),
                    lasting,
                ));
                Ok(response::passed_on(answered))
            }
            // The client would take what follows for the protocol it wants.
            Some(_) if answered.status().is_success() || answered.status().is_redirection() => {
                let message = format!(
                    "invalid upgrade response: status code {}",
                    answered.status().as_u16()
                );
                Err(Failure::internal(message))
            }
            _ => Ok(response::lasting(response::passed_on(answered), lasting)),
        }
    }
}

/// How connections to Pods and agents are made.
fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector
}

/// A client that keeps connections for what comes next.
fn pooled<B>(connector: HttpsConnector<HttpConnector>) -> Client<HttpsConnector<HttpConnector>, B>
where
    B: Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .build(connector)
}

/// A browser that gets a page at `…/proxy` would look for what the page needs at the wrong place.
fn to_the_root(uri: &Uri) -> ApiResponse {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    response::redirect(&format!("{}/{query}", uri.path()))
}

/// The request as the Pod gets it.
fn directed(
    mut request: Request<Incoming>,
    destination: &Destination,
    path: &str,
    prefix: &str,
) -> Result<Request<Incoming>, Failure> {
    let query = request
        .uri()
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let path = if path.is_empty() { "/" } else { path };
    let uri = Uri::builder()
        .scheme(destination.scheme)
        .authority(destination.authority.as_str())
        .path_and_query(format!("{path}{query}"))
        .build()
        .map_err(|error| Failure::bad_request(format!("the path cannot be passed on: {error}")))?;
    headers::prepare_request(&mut request, path, prefix)?;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    Ok(request)
}

fn unreachable(error: hyper_util::client::legacy::Error) -> Failure {
    // The error itself says only in which step it happened; what went wrong is the last of its sources.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Failure::unavailable(format!("error trying to reach service: {cause}"))
}
