//! Certificates of a node: requests to the API server, storage with their keys, and renewal.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use api::certificates::condition::{DENIED, FAILED};
use api::certificates::{
    NODE_CLIENT_SIGNER, NODE_PART_SIGNER, NODE_SERVING_SIGNER, NODE_USER_PREFIX, NODES, NodePart,
};
use api::object::{CertificateSigningRequest, Resource};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError, JSON};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData, SanType};
use serde_json::json;
use sha2::{Digest, Sha256};
use trust::private_file;
use x509_parser::pem::Pem;

use super::join_directory::{AGENT, JoinDirectory};
use crate::error::FileError;

/// Time for the approval of a request.
pub(crate) const APPROVAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two reads of a pending request.
const POLL_PERIOD: Duration = Duration::from_millis(100);
/// Share of the lifetime after which a certificate is renewed, and its random part, so that not all nodes renew at
/// once (upstream's values).
const RENEWAL_SHARE_MIN: f64 = 0.7;
const RENEWAL_SHARE_SPREAD: f64 = 0.2;
/// Time between two checks of all certificates.
const RENEWAL_PERIOD: Duration = Duration::from_secs(600);
/// Time between two checks after a failure.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Bytes of the key's digest in the name of a request.
const NAME_DIGEST_BYTES: usize = 10;

/// Failed request of a certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeCertificateError {
    /// The server rejected the request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The token is invalid.
    #[error(
        "the server does not know the token: it is expired, revoked, or of another cluster.\nCreate a new one there with \
         `portolan token create --print-join-command`"
    )]
    Token,
    /// The request was denied.
    #[error("certificate request of this node denied: {0}")]
    Denied(String),
    /// The certificate was not signed.
    #[error("certificate of this node not signed: {0}")]
    Failed(String),
    /// The request was neither approved nor denied in time.
    #[error(
        "certificate request {name} not approved within {timeout:?}.\nList pending requests with `kubectl get csr`, and \
         approve this one with `kubectl certificate approve {name}`; if the controllers do not run, see `portolan status` on \
         the server"
    )]
    NotApproved {
        /// Name of the request.
        name: String,
        /// Time for the approval.
        timeout: Duration,
    },
    /// A file cannot be read or written.
    #[error("{0}")]
    File(#[from] FileError),
    /// The key or the request cannot be created, or the response contains no certificate.
    #[error("certificate of {component} unusable: {reason}")]
    Unusable {
        /// Component of the node.
        component: &'static str,
        /// Description of the defect.
        reason: String,
    },
}

/// Request of a node's certificate.
#[derive(Clone, Debug)]
pub(crate) struct CertificateRequest {
    /// Component of the node, which names the files.
    pub component: &'static str,
    signer: &'static str,
    user: String,
    group: &'static str,
    names: Vec<SanType>,
    usage: &'static str,
}

impl CertificateRequest {
    /// Returns the request of the agent's client certificate.
    pub(crate) fn agent(node_name: &str) -> Self {
        Self {
            component: AGENT,
            signer: NODE_CLIENT_SIGNER,
            user: format!("{NODE_USER_PREFIX}{node_name}"),
            group: NODES,
            names: Vec::new(),
            usage: "client auth",
        }
    }

    /// Returns the request of the agent's serving certificate.
    pub(crate) fn serving(node_name: &str, address: IpAddr) -> Self {
        let name = node_name.try_into().map(SanType::DnsName);
        Self {
            component: "agent-serving",
            signer: NODE_SERVING_SIGNER,
            // Clients cannot connect to a name that is not a DNS name, so it is omitted.
            names: name.into_iter().chain([SanType::IpAddress(address)]).collect(),
            usage: "server auth",
            ..Self::agent(node_name)
        }
    }

    /// Returns the request of the client certificate of another component.
    pub(crate) fn part(part: NodePart, node_name: &str) -> Self {
        Self {
            component: match part {
                NodePart::Proxy => "proxy",
                NodePart::Dns => "dns",
                NodePart::Announcer => "announcer",
                NodePart::Edge => "edge",
            },
            signer: NODE_PART_SIGNER,
            user: part.user(node_name),
            group: part.group(),
            names: Vec::new(),
            usage: "client auth",
        }
    }

    /// Removes the stored certificate and the key of a pending request.
    ///
    /// # Errors
    ///
    /// [`NodeCertificateError::File`] if a file cannot be removed.
    pub(crate) fn remove(&self, directory: &JoinDirectory) -> Result<(), NodeCertificateError> {
        remove(&directory.certificate_path(self.component))?;
        remove(&directory.pending_path(self.component))
    }

    /// Removes the stored certificate if the cluster CA signed it. Earlier versions signed the agents'
    /// serving certificates with it; such a certificate is requested again.
    ///
    /// # Errors
    ///
    /// [`NodeCertificateError::File`] if the file cannot be removed.
    pub(crate) fn remove_if_signed_by(
        &self,
        authority: &str,
        directory: &JoinDirectory,
    ) -> Result<(), NodeCertificateError> {
        let path = directory.certificate_path(self.component);
        let is_signed = fs::read_to_string(&path)
            .is_ok_and(|certificate| apiserver::pki::is_signed_by(&certificate, authority));
        if is_signed { remove(&path) } else { Ok(()) }
    }

    /// Returns the stored certificate, if it is for the user of this request.
    pub(crate) fn stored(&self, directory: &JoinDirectory) -> Option<StoredCertificate> {
        let text = fs::read(directory.certificate_path(self.component)).ok()?;
        StoredCertificate::parse(&text).filter(|certificate| certificate.user == self.user)
    }

    /// Submits the request, waits for its approval, and stores the certificate.
    ///
    /// # Errors
    ///
    /// [`NodeCertificateError`] if the request is rejected, denied, or not approved in time.
    pub(crate) async fn obtain(
        &self,
        client: &Client,
        directory: &JoinDirectory,
    ) -> Result<(), NodeCertificateError> {
        let pending = directory.pending_path(self.component);
        let key = self.pending_key(&pending)?;
        let name = self.submit(client, &key).await?;
        let certificate = wait_for_certificate(client, &name).await;
        if matches!(
            certificate,
            Err(NodeCertificateError::Denied(_) | NodeCertificateError::Failed(_))
        ) {
            // The name of a request depends on its key: the next attempt needs a new one.
            remove(&pending)?;
        }
        let certificate = certificate?;
        let with_key = format!("{}{}", certificate, key.serialize_pem());
        if StoredCertificate::parse(with_key.as_bytes()).is_none() {
            return Err(self.unusable("the response contains no certificate"));
        }
        write(&directory.certificate_path(self.component), with_key.as_bytes())?;
        remove(&pending)
    }

    /// Reads or creates the key of the pending request. After a restart, the request is continued with it.
    fn pending_key(&self, path: &Path) -> Result<KeyPair, NodeCertificateError> {
        if let Some(key) = fs::read_to_string(path)
            .ok()
            .and_then(|pem| KeyPair::from_pem(&pem).ok())
        {
            return Ok(key);
        }
        let key = KeyPair::generate().map_err(|error| self.unusable(error))?;
        write(path, key.serialize_pem().as_bytes())?;
        Ok(key)
    }

    /// Sends the request unless it exists, and returns its name. Only the owner of the key can derive the name.
    async fn submit(&self, client: &Client, key: &KeyPair) -> Result<String, NodeCertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, self.user.as_str());
        params
            .distinguished_name
            .push(DnType::OrganizationName, self.group);
        params.subject_alt_names.clone_from(&self.names);
        let request = params.serialize_request(key).and_then(|request| request.pem());
        let request = request.map_err(|error| self.unusable(error))?;
        let digest = Sha256::digest(key.der_bytes());
        let digest: String = digest
            .iter()
            .take(NAME_DIGEST_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("node-csr-{}-{digest}", self.component);
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": CertificateSigningRequest::KIND,
            "metadata": {"name": name},
            "spec": {"request": STANDARD.encode(request), "signerName": self.signer,
                     "usages": ["digital signature", self.usage]},
        });
        let collection = CertificateSigningRequest::collection(None);
        match client
            .request(Method::POST, &collection, JSON, Some(&object))
            .await
        {
            Ok(_) => Ok(name),
            Err(error) if error.is_conflict() => Ok(name),
            Err(error) if error.code() == Some(401) => Err(NodeCertificateError::Token),
            Err(error) => Err(error.into()),
        }
    }

    fn unusable(&self, reason: impl ToString) -> NodeCertificateError {
        NodeCertificateError::Unusable {
            component: self.component,
            reason: reason.to_string(),
        }
    }
}

async fn wait_for_certificate(client: &Client, name: &str) -> Result<String, NodeCertificateError> {
    let path = format!("{}/{name}", CertificateSigningRequest::collection(None));
    let start = tokio::time::Instant::now();
    loop {
        let request: CertificateSigningRequest = match client.get(&path).await {
            Err(error) if error.code() == Some(401) => return Err(NodeCertificateError::Token),
            other => other?,
        };
        let message = |kind| request.condition(kind).map(|condition| condition.message.clone());
        if let Some(message) = message(DENIED) {
            return Err(NodeCertificateError::Denied(message));
        }
        if let Some(message) = message(FAILED) {
            return Err(NodeCertificateError::Failed(message));
        }
        if !request.status.certificate.is_empty() {
            let pem = STANDARD.decode(&request.status.certificate).unwrap_or_default();
            return Ok(String::from_utf8_lossy(&pem).into_owned());
        }
        if start.elapsed() > APPROVAL_TIMEOUT {
            return Err(NodeCertificateError::NotApproved {
                name: name.to_owned(),
                timeout: APPROVAL_TIMEOUT,
            });
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
}

/// Requests missing certificates and renews the others before they expire, until the future is dropped.
pub(crate) async fn keep_renewed(
    client: Client,
    directory: JoinDirectory,
    requests: Vec<CertificateRequest>,
) {
    // Fixed for this process and certificate, and different on each node.
    let jitters: Vec<f64> = requests.iter().map(|_| fastrand::f64()).collect();
    loop {
        let mut pause = RENEWAL_PERIOD;
        for (request, jitter) in requests.iter().zip(&jitters) {
            let is_due = request
                .stored(&directory)
                .is_none_or(|certificate| certificate.renewal_time(*jitter) <= Timestamp::now());
            if !is_due {
                continue;
            }
            match request.obtain(&client, &directory).await {
                Ok(()) => tracing::info!(component = request.component, "certificate obtained"),
                Err(error) => {
                    tracing::warn!(component = request.component, %error, "certificate not obtained; retrying");
                    pause = RETRY_PERIOD;
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Subject and validity of a stored certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredCertificate {
    user: String,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl StoredCertificate {
    fn parse(pem: &[u8]) -> Option<Self> {
        let block = Pem::iter_from_buffer(pem).next()?.ok()?;
        let certificate = block.parse_x509().ok()?;
        let validity = certificate.validity();
        let time = |seconds| Timestamp::from_second(seconds).ok();
        let user = certificate
            .subject()
            .iter_common_name()
            .next()?
            .as_str()
            .ok()?
            .to_owned();
        Some(Self {
            user,
            not_before: time(validity.not_before.timestamp())?,
            not_after: time(validity.not_after.timestamp())?,
        })
    }

    /// Returns true if the certificate has expired.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.not_after <= now
    }

    /// Returns the time of the renewal, after 70 to 90 % of the lifetime. The jitter is from 0 to 1.
    pub(crate) fn renewal_time(&self, jitter: f64) -> Timestamp {
        let lifetime_seconds = (self.not_after.as_second() - self.not_before.as_second()) as f64;
        let share = RENEWAL_SHARE_MIN + RENEWAL_SHARE_SPREAD * jitter.clamp(0.0, 1.0);
        self.not_before + SignedDuration::from_secs((lifetime_seconds * share).round() as i64)
    }
}

fn write(path: &Path, contents: &[u8]) -> Result<(), NodeCertificateError> {
    Ok(private_file::write(path, contents).map_err(FileError::at(path))?)
}

fn remove(path: &Path) -> Result<(), NodeCertificateError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(FileError::at(path)(source).into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
