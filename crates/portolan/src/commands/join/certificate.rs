//! The certificates of a machine: asked for with a request to the API, kept with their keys in one file each, and
//! asked for anew before they end.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
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

/// How often it is looked whether a request was answered.
const POLL_PERIOD: Duration = Duration::from_millis(100);
/// The part of its life after which a certificate is asked for anew, and how much later that may be, so that not all
/// machines ask at once (upstream's).
const RENEWAL_SHARE_MIN: f64 = 0.7;
const RENEWAL_SHARE_SPREAD: f64 = 0.2;

/// Why there is no certificate, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The server does not take the request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The token is not good.
    #[error(
        "the server does not know the token: it has expired, was revoked, or is another cluster's.\nMake a new one there \
         by `portolan token create --print-join-command`"
    )]
    Token,
    /// It was decided that there is none.
    #[error("the server refuses a certificate for this machine: {0}")]
    Denied(String),
    /// It could not be signed.
    #[error("the server could not sign the certificate of this machine: {0}")]
    Failed(String),
    /// Nobody has decided.
    #[error(
        "nobody has approved the request {name} within {waited:?}.\nLook with `kubectl get csr` whether it waits, approve it by \
         `kubectl certificate approve {name}`, or see why the controllers do not run (`portolan status` at the server)"
    )]
    Unanswered {
        /// The request.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A key or a request cannot be made, or what came is no certificate.
    #[error("the certificate {what} cannot be made: {reason}")]
    Unusable {
        /// Name of the object.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

/// A certificate that a machine has.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Name of its file, without what follows the dot.
    pub file: &'static str,
    signer: &'static str,
    user: String,
    group: &'static str,
    names: Vec<SanType>,
    usage: &'static str,
}

impl Wanted {
    /// Of the agent of a Node, as a client.
    pub fn agent(node_name: &str) -> Self {
        Self {
            file: "agent",
            signer: NODE_CLIENT_SIGNER,
            user: format!("{NODE_USER_PREFIX}{node_name}"),
            group: NODES,
            names: Vec::new(),
            usage: "client auth",
        }
    }

    /// Of the agent of a Node, as a server at an address.
    pub fn serving(node_name: &str, address: IpAddr) -> Self {
        let name = node_name.try_into().map(SanType::DnsName);
        Self {
            file: "agent-serving",
            signer: NODE_SERVING_SIGNER,
            // A name that is none of a host is none that anybody asks for.
            names: name.into_iter().chain([SanType::IpAddress(address)]).collect(),
            usage: "server auth",
            ..Self::agent(node_name)
        }
    }

    /// Of another part of the machine, as a client.
    pub fn part(part: NodePart, node_name: &str) -> Self {
        Self {
            file: match part {
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

    /// Where it is kept, with its key.
    pub fn path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.pem", self.file))
    }

    /// Forgets what is kept, and the request that is under way.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn forget(&self, directory: &Path) -> Result<(), CertificateError> {
        remove(&self.path(directory))?;
        remove(&self.pending_path(directory))
    }

    /// Forgets what is kept if the cluster's authority has signed it, as earlier versions did with certificates of agents as
    /// servers: it is asked for again.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn forget_if_signed_by(&self, authority: &str, directory: &Path) -> Result<(), CertificateError> {
        let path = self.path(directory);
        let is_of_authority =
            fs::read_to_string(&path).is_ok_and(|kept| apiserver::pki::is_signed_by(&kept, authority));
        if is_of_authority { remove(&path) } else { Ok(()) }
    }

    /// What is kept, if it is for this user.
    pub fn kept(&self, directory: &Path) -> Option<Kept> {
        let text = fs::read(self.path(directory)).ok()?;
        Kept::parse(&text).filter(|kept| kept.user == self.user)
    }

    /// Asks for it, waits for it, and keeps it.
    ///
    /// # Errors
    /// See [`CertificateError`].
    pub async fn obtain(
        &self,
        client: &Client,
        directory: &Path,
        patience: Duration,
    ) -> Result<(), CertificateError> {
        let key = self.pending_key(directory)?;
        let name = self.submit(client, &key).await?;
        let certificate = await_answer(client, &name, patience).await;
        let pending = self.pending_path(directory);
        if matches!(
            certificate,
            Err(CertificateError::Denied(_) | CertificateError::Failed(_))
        ) {
            // The next try is another request.
            remove(&pending)?;
        }
        let certificate = certificate?;
        let both = format!("{}{}", certificate, key.serialize_pem());
        if Kept::parse(both.as_bytes()).is_none() {
            return Err(self.unusable("no certificate came"));
        }
        write(&self.path(directory), both.as_bytes())?;
        remove(&pending)
    }

    /// The key of the request that is under way, so that a restart goes on with it.
    fn pending_key(&self, directory: &Path) -> Result<KeyPair, CertificateError> {
        let path = self.pending_path(directory);
        if let Some(key) = fs::read_to_string(&path)
            .ok()
            .and_then(|pem| KeyPair::from_pem(&pem).ok())
        {
            return Ok(key);
        }
        let key = KeyPair::generate().map_err(|error| self.unusable(error))?;
        write(&path, key.serialize_pem().as_bytes())?;
        Ok(key)
    }

    fn pending_path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.pending", self.file))
    }

    /// Sends the request, unless it was sent before; its name, which only the owner of the key can come to.
    async fn submit(&self, client: &Client, key: &KeyPair) -> Result<String, CertificateError> {
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
        let digest: String = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("node-csr-{}-{digest}", self.file);
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
            Err(error) if error.code() == Some(401) => Err(CertificateError::Token),
            Err(error) => Err(error.into()),
        }
    }

    fn unusable(&self, reason: impl ToString) -> CertificateError {
        CertificateError::Unusable {
            what: self.file,
            reason: reason.to_string(),
        }
    }
}

async fn await_answer(client: &Client, name: &str, patience: Duration) -> Result<String, CertificateError> {
    let path = format!("{}/{name}", CertificateSigningRequest::collection(None));
    let begun = tokio::time::Instant::now();
    loop {
        let request: CertificateSigningRequest = match client.get(&path).await {
            Err(error) if error.code() == Some(401) => return Err(CertificateError::Token),
            other => other?,
        };
        let why = |kind| request.condition(kind).map(|condition| condition.message.clone());
        if let Some(why) = why(DENIED) {
            return Err(CertificateError::Denied(why));
        }
        if let Some(why) = why(FAILED) {
            return Err(CertificateError::Failed(why));
        }
        if !request.status.certificate.is_empty() {
            let pem = STANDARD.decode(&request.status.certificate).unwrap_or_default();
            return Ok(String::from_utf8_lossy(&pem).into_owned());
        }
        if begun.elapsed() > patience {
            return Err(CertificateError::Unanswered {
                name: name.to_owned(),
                waited: patience,
            });
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
}

/// A certificate that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    user: String,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl Kept {
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

    /// Whether it has ended.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.not_after <= now
    }

    /// When it is to be asked for anew, after 70 to 90 % of its life; `chance` of 0 to 1 says where in between.
    pub fn renewal(&self, chance: f64) -> Timestamp {
        let life_seconds = (self.not_after.as_second() - self.not_before.as_second()) as f64;
        let share = RENEWAL_SHARE_MIN + RENEWAL_SHARE_SPREAD * chance.clamp(0.0, 1.0);
        self.not_before + SignedDuration::from_secs((life_seconds * share).round() as i64)
    }
}

fn write(path: &Path, contents: &[u8]) -> Result<(), CertificateError> {
    private_file::write(path, contents).map_err(|source| CertificateError::File {
        path: path.to_owned(),
        source,
    })
}

fn remove(path: &Path) -> Result<(), CertificateError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(CertificateError::File {
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
