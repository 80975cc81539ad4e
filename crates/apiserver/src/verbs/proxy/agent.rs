//! Requests to the agents of nodes. The server presents its client certificate, and verifies the serving certificate of
//! the agent.

use std::error::Error;
use std::io;
use std::sync::Arc;

use api::kind;
use api::tree::{child, items, number, text};
use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::time::timeout;

use super::destination::authority;
use super::response_head::{RESPONSE_HEAD_TIMEOUT, response_timeout};
use super::{connector, pooled_client};
use crate::bootstrap::pki;
use crate::failure::Failure;
use crate::request::route::Target;
use crate::transport::tls::TlsError;
use crate::verbs::resource::Resources;

/// Maximum number of bytes of an agent's error response that are read.
const AGENT_ERROR_BYTES_MAX: usize = 4 << 10;

/// Client of agents, shared by all connections. Clones share their connections.
#[derive(Clone)]
pub(crate) struct AgentClient {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl AgentClient {
    /// Creates a client with the certificate of `identity`. Agents present certificates of `serving_authority`
    /// (PEM). Agents whose certificates date from an earlier version present certificates of the cluster CA.
    ///
    /// # Errors
    /// Fails if a certificate or a CA is not usable.
    pub(crate) fn new(identity: &pki::Client, serving_authority: &str) -> Result<AgentClient, TlsError> {
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
        Ok(AgentClient {
            client: pooled_client(connector),
        })
    }

    /// Sends a GET to the agent of a node, and returns the response once its head has arrived.
    pub(super) async fn get(
        &self,
        resources: &Resources,
        node_name: &str,
        path_and_query: &str,
    ) -> Result<Response<Incoming>, Failure> {
        let headers = HeaderMap::new();
        self.send(resources, node_name, Method::GET, path_and_query, headers)
            .await
    }

    /// Sends a request that upgrades the connection to the agent of a node.
    pub(super) async fn connect(
        &self,
        resources: &Resources,
        node_name: &str,
        method: Method,
        path_and_query: &str,
        mut headers: HeaderMap,
    ) -> Result<Response<Incoming>, Failure> {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        self.send(resources, node_name, method, path_and_query, headers)
            .await
    }

    async fn send(
        &self,
        resources: &Resources,
        node_name: &str,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
    ) -> Result<Response<Incoming>, Failure> {
        let invalid =
            |error: http::Error| Failure::bad_request(format!("invalid request to an agent: {error}"));
        let node = node(resources, node_name).await?;
        let uri = Uri::builder()
            .scheme("https")
            .authority(agent_of(&node, node_name)?)
            .path_and_query(path_and_query)
            .build()
            .map_err(invalid)?;
        let request = Request::builder().method(method).uri(uri);
        let mut request = request.body(Empty::new()).map_err(invalid)?;
        *request.headers_mut() = headers;
        timeout(RESPONSE_HEAD_TIMEOUT, self.client.request(request))
            .await
            .map_err(|_| response_timeout())?
            .map_err(|error| unreachable(error, node_name))
    }
}

/// Returns the failure for an agent that cannot be reached. An agent listens before its serving certificate is signed.
fn unreachable(error: hyper_util::client::legacy::Error, node_name: &str) -> Failure {
    if !has_no_certificate(&error) {
        return super::unreachable(error);
    }
    Failure::unavailable(format!(
        "the agent of node {node_name:?} has no serving certificate yet, try again; if this persists, see its request: kubectl get csr"
    ))
}

/// Returns true if the agent ended the handshake because it has no certificate to present.
fn has_no_certificate(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref() == Some(&rustls::Error::AlertReceived(AlertDescription::AccessDenied)) {
            return true;
        }
        // The source of an I/O error is the source of the error in it.
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inside = inside.map(|inside| inside as &(dyn Error + 'static));
        cause = inside.or_else(|| error.source());
    }
    false
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
            "the agent of node {name:?} serves no logs and reports; give it --tls-cert-file, --tls-private-key-file and --client-ca-file"
        )));
    }
    let mut addresses = items(status, "addresses").iter();
    let internal = addresses.find(|address| text(address, "type") == "InternalIP");
    let ip = internal.and_then(|address| text(address, "address").parse().ok());
    ip.map(|ip| authority(ip, Some(port)))
        .ok_or_else(|| Failure::unavailable(format!("node {name:?} has no InternalIP")))
}

/// Returns the text of an agent's error response, "" if it does not arrive in time. Control characters are escaped,
/// because clients print the text.
pub(super) async fn error_text(response: Response<Incoming>) -> String {
    let body = Limited::new(response.into_body(), AGENT_ERROR_BYTES_MAX).collect();
    let body = timeout(RESPONSE_HEAD_TIMEOUT, body).await;
    let body = body.ok().and_then(Result::ok);
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    escape_control_characters(&String::from_utf8_lossy(&bytes))
}

fn escape_control_characters(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            character if character.is_control() => escaped.extend(character.escape_default()),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
