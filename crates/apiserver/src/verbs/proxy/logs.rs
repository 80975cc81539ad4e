//! The `log` subresource of Pods, read from the agent of the Pod's node. The server presents its client
//! certificate, and verifies the serving certificate of the agent.

use std::sync::Arc;

use api::kind;
use api::tree::{child, items, number, text};
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::time::timeout;

use super::destination::{authority, find};
use super::response_head::{RESPONSE_HEAD_TIMEOUT, response_timeout};
use super::{connector, pooled};
use crate::bootstrap::pki;
use crate::failure::Failure;
use crate::request::query::Query;
use crate::request::route::Target;
use crate::transport::long_running::RequestLifetime;
use crate::transport::response::{self, ApiResponse};
use crate::transport::tls::TlsError;
use crate::verbs::resource::Resources;

/// Bytes of an agent's error response that are read.
const AGENT_ERROR_BYTES_MAX: usize = 4 << 10;

/// Client of agents, shared by all connections.
pub(crate) struct PodLogs {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl PodLogs {
    /// Creates a client with the certificate of `identity`. Agents present certificates of `serving_authority`
    /// (PEM). Agents whose certificates date from an earlier version present certificates of the cluster CA.
    ///
    /// # Errors
    /// Fails if a certificate or a CA is not usable.
    pub(crate) fn new(identity: &pki::Client, serving_authority: &str) -> Result<PodLogs, TlsError> {
        let mut roots = RootCertStore::empty();
        for authorities in [serving_authority, &identity.authority] {
            for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
                roots.add(authority?)?;
            }
        }
        let chain = CertificateDer::pem_slice_iter(identity.pair.certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(identity.pair.key.as_bytes())?;
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .wrap_connector(connector());
        Ok(PodLogs {
            client: pooled(connector),
        })
    }

    /// Returns the log of `target` and `query`. The response ends with `lifetime`.
    pub(crate) async fn read(
        &self,
        resources: &Resources,
        target: &Target,
        query: &Query,
        encoded_query: &str,
        mut lifetime: RequestLifetime,
    ) -> Result<ApiResponse, Failure> {
        let pod = find(resources, target, "pods", target.name()).await?;
        let container = container(&pod, target.name(), query.text("container"))?;
        let node_name = text(child(&pod, "spec"), "nodeName");
        if node_name.is_empty() {
            // As upstream: a Pod without a node has an empty log.
            return Ok(response::text(StatusCode::OK, Bytes::new()));
        }
        let node = node(resources, node_name).await?;
        let agent = agent_of(&node, node_name)?;
        let path = format!(
            "/containerLogs/{}/{}/{container}",
            target.namespace(),
            target.name()
        );
        let uri = Uri::builder()
            .scheme("https")
            .authority(agent)
            .path_and_query(format!("{path}?{encoded_query}"))
            .build()
            .map_err(|error| Failure::bad_request(format!("invalid log request: {error}")))?;
        let request = Request::get(uri)
            .body(Empty::new())
            .map_err(|error| Failure::bad_request(format!("invalid log request: {error}")))?;
        let response = timeout(RESPONSE_HEAD_TIMEOUT, self.client.request(request));
        let response = async {
            response
                .await
                .map_err(|_| response_timeout())?
                .map_err(super::unreachable)
        };
        let response = lifetime.during(response).await?;
        match response.status() {
            StatusCode::OK => Ok(response::with_lifetime(response::proxied(response), lifetime)),
            _ => Err(agent_error(response, node_name).await),
        }
    }
}

/// Returns the requested container, or the only one if the request names none.
fn container<'p>(pod: &'p Value, pod_name: &str, requested: &'p str) -> Result<&'p str, Failure> {
    let spec = child(pod, "spec");
    let names = |list: &str| -> Vec<&'p str> { items(spec, list).iter().map(|c| text(c, "name")).collect() };
    let (main, init) = (names("containers"), names("initContainers"));
    if !requested.is_empty() {
        let exists = main.contains(&requested) || init.contains(&requested);
        return exists.then_some(requested).ok_or_else(|| {
            Failure::bad_request(format!("container {requested} is not valid for pod {pod_name}"))
        });
    }
    if let [only] = main.as_slice() {
        return Ok(only);
    }
    let mut message = format!(
        "a container name must be specified for pod {pod_name}, choose one of: [{}]",
        main.join(" ")
    );
    if !init.is_empty() {
        message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
    }
    Err(Failure::bad_request(message))
}

async fn node(resources: &Resources, name: &str) -> Result<Value, Failure> {
    let kind = kind::find("", "v1", "nodes").ok_or_else(Failure::no_such_path)?;
    let stored = resources.stored(&Target::object(kind, "", name)).await?;
    stored
        .map(|stored| stored.object)
        .ok_or_else(|| Failure::not_found(kind, name))
}

/// Returns the address and port of a node's agent.
fn agent_of(node: &Value, name: &str) -> Result<String, Failure> {
    let status = child(node, "status");
    let port = number(child(child(status, "daemonEndpoints"), "kubeletEndpoint"), "Port");
    if port == 0 {
        return Err(Failure::unavailable(format!(
            "the agent of node {name:?} serves no logs; give it --tls-cert-file, --tls-private-key-file and --client-ca-file"
        )));
    }
    let mut addresses = items(status, "addresses").iter();
    let internal = addresses.find(|address| text(address, "type") == "InternalIP");
    let ip = internal.and_then(|address| text(address, "address").parse().ok());
    ip.map(|ip| authority(ip, Some(port)))
        .ok_or_else(|| Failure::unavailable(format!("node {name:?} has no InternalIP")))
}

/// Converts an agent's error response to a failure.
async fn agent_error(response: Response<Incoming>, node_name: &str) -> Failure {
    let status = response.status();
    let body = Limited::new(response.into_body(), AGENT_ERROR_BYTES_MAX)
        .collect()
        .await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let message = String::from_utf8_lossy(&body).into_owned();
    match status {
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Failure::bad_request(message),
        _ => Failure::unavailable(format!(
            "the agent of node {node_name:?} answered {status}: {message}"
        )),
    }
}

#[cfg(test)]
mod tests;
