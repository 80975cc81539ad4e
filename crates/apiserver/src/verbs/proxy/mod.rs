//! The `proxy` subresource of Pods and Services (API-03). The agents of nodes answer other subresources: `log` of Pods
//! ([`logs`]), `exec`, `attach` and `portforward` of Pods ([`streams`]), `proxy` of Nodes ([`nodes`]), and
//! `observation` and `flows` of Nodes ([`reports`]). The agents also measure the objects of `metrics.k8s.io`
//! ([`resource_metrics`]).
//!
//! The server forwards requests to Pods only, and not to other addresses in Endpoints. The server can reach addresses
//! that its clients must not reach.

mod agent;
mod destination;
mod headers;
pub(crate) mod logs;
pub(crate) mod nodes;
pub(crate) mod reports;
pub(crate) mod resource_metrics;
mod response_head;
pub(crate) mod streams;
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
use crate::transport::html::Links;
use crate::transport::long_running::RequestLifetime;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::resource::Resources;
pub(crate) use agent::AgentClient;
use destination::Destination;
use response_head::{RequestBody, send};

/// Timeout for connecting to a Pod or an agent in the cluster's network.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of idle connections that are kept per Pod, and the time for which they are kept.
const IDLE_CONNECTIONS_MAX: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Proxy for Pods, shared by all connections.
pub(crate) struct PodProxy {
    client: Client<HttpsConnector<HttpConnector>, RequestBody>,
}

impl PodProxy {
    /// Creates a proxy without connections.
    ///
    /// # Errors
    /// Fails if the TLS provider supports none of its default protocol versions, which does not happen.
    pub(crate) fn new() -> Result<PodProxy, rustls::Error> {
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
        Ok(PodProxy {
            client: pooled_client(connector),
        })
    }

    /// Forwards a request to `target` and returns the response, which ends with `lifetime`.
    pub(crate) async fn forward(
        &self,
        resources: &Resources,
        target: &Target,
        mut request: Request<Incoming>,
        mut lifetime: RequestLifetime,
    ) -> Result<ApiResponse, Failure> {
        let destination = destination::resolve(resources, target).await?;
        let path = target.proxy_path.as_deref().unwrap_or_default();
        let outer_path = request.uri().path().to_owned();
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        if path.is_empty() && is_get && !headers::is_upgrade(request.headers()) {
            return Ok(redirect_to_root(request.uri()));
        }
        let prefix = outer_path.strip_suffix(path).unwrap_or(&outer_path).to_owned();
        let links = Links {
            authority: destination.authority.clone(),
            host: headers::host(&request),
            prefix: prefix.clone(),
        };
        let client_upgrade = headers::is_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
        let request = rewrite_request(request, &destination, path, &prefix)?;
        let mut response = lifetime.during(send(&self.client, request)).await?;
        headers::clean_response(&mut response, &links)?;
        match client_upgrade {
            Some(client_upgrade) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let pod_upgrade = hyper::upgrade::on(&mut response);
                tokio::spawn(tunnel::run(
                    client_upgrade,
                    pod_upgrade,
                    resources.shutdown.clone(),
                    lifetime,
                ));
                Ok(response::proxied(response))
            }
            // The client would read the response as the protocol of the upgrade.
            Some(_) if response.status().is_success() || response.status().is_redirection() => {
                let message = format!(
                    "invalid upgrade response: status code {}",
                    response.status().as_u16()
                );
                Err(Failure::internal(message))
            }
            _ => Ok(response::with_lifetime(
                response::proxied_page(response, &links),
                lifetime,
            )),
        }
    }
}

/// Creates the connector for Pods and agents.
fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector
}

/// Creates a client that keeps idle connections.
fn pooled_client<B>(connector: HttpsConnector<HttpConnector>) -> Client<HttpsConnector<HttpConnector>, B>
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

/// Redirects `…/proxy` to `…/proxy/`, so that browsers resolve relative links of the page correctly.
fn redirect_to_root(uri: &Uri) -> ApiResponse {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    response::redirect(&format!("{}/{query}", uri.path()))
}

/// Rewrites a request for its destination.
fn rewrite_request(
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
        .map_err(|error| Failure::bad_request(format!("the path cannot be forwarded: {error}")))?;
    headers::prepare_request(&mut request, path, prefix)?;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    Ok(request)
}

fn unreachable(error: hyper_util::client::legacy::Error) -> Failure {
    // The error names only the step that failed; the cause is its last source.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Failure::unavailable(format!("error trying to reach service: {cause}"))
}
