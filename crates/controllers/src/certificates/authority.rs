//! The cluster's authority, which signs what was approved: each signer what it stands for and nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::certificates::{
    BACKDATE_SECONDS, CLIENT_SIGNER, INCARNATION_UNIT_PREFIX, Incarnation, NODE_CLIENT_SIGNER,
    NODE_PART_SIGNER, NODE_SERVING_SIGNER, Request, RequestError,
};
use api::object::CertificateSigningRequest;
use jiff::Timestamp;
use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use super::recognise::{are_usages_of_client, are_usages_of_server, part_of};
use super::{pem_of, request_of};

/// Why an authority cannot be used. The files have to be mended.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no certificate or no key.
    #[error("{} and {} are not the certificate and key of an authority: {source}", certificate.display(), key.display())]
    Unusable {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        source: rcgen::Error,
    },
}

/// Why a request is not signed, which no retry mends.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// It cannot be read.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The signer does not stand for such a certificate.
    #[error("the signer {signer} {wants}")]
    NotPermitted {
        /// Which signer.
        signer: String,
        /// What it signs.
        wants: &'static str,
    },
    /// The key is of a kind that cannot be signed.
    #[error("the certificate cannot be made: {0}")]
    Issue(#[from] rcgen::Error),
}

/// The certificates and keys of the cluster's authorities.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority of agents as servers; the other one if there is none.
    kubelet_serving_issuer: Option<Issuer<'static, KeyPair>>,
    /// How long certificates are good at most.
    duration: Duration,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is secret.
        f.debug_struct("Authority")
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads certificate and key, PEM. What is signed is good for `duration` at most.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn open(certificate: &Path, key: &Path, duration: Duration) -> Result<Self, AuthorityError> {
        Ok(Self {
            issuer: issuer(certificate, key)?,
            kubelet_serving_issuer: None,
            duration,
        })
    }

    /// Signs agents as servers with an authority of their own, which no client of the API trusts.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn with_kubelet_serving(self, certificate: &Path, key: &Path) -> Result<Self, AuthorityError> {
        Ok(Self {
            kubelet_serving_issuer: Some(issuer(certificate, key)?),
            ..self
        })
    }

    /// Whether one of our signers is asked.
    pub fn signs(object: &CertificateSigningRequest) -> bool {
        let ours = [
            CLIENT_SIGNER,
            NODE_CLIENT_SIGNER,
            NODE_SERVING_SIGNER,
            NODE_PART_SIGNER,
        ];
        ours.contains(&object.spec.signer_name.as_str())
    }

    /// The certificate that a request asks for, PEM; a client's of a Node's machine carries the Node's `incarnation`.
    ///
    /// # Errors
    /// See [`SignError`].
    pub fn sign(
        &self,
        object: &CertificateSigningRequest,
        incarnation: Option<&Incarnation>,
        now: Timestamp,
    ) -> Result<String, SignError> {
        let request = request_of(object)?;
        check(object, &request).map_err(|wants| SignError::NotPermitted {
            signer: object.spec.signer_name.clone(),
            wants,
        })?;
        let pem = String::from_utf8_lossy(&pem_of(object)).into_owned();
        let mut signing = CertificateSigningRequestParams::from_pem(&pem)?;
        signing.params = self.params(object, &request, now)?;
        if let Some(incarnation) = incarnation.filter(|_| object.spec.signer_name != NODE_SERVING_SIGNER) {
            let unit = format!("{INCARNATION_UNIT_PREFIX}{incarnation}");
            let name = &mut signing.params.distinguished_name;
            name.push(DnType::OrganizationalUnitName, unit);
        }
        let issuer = match object.spec.signer_name.as_str() {
            NODE_SERVING_SIGNER => self.kubelet_serving_issuer.as_ref().unwrap_or(&self.issuer),
            _ => &self.issuer,
        };
        Ok(signing.signed_by(issuer)?.pem())
    }

    /// What the certificate says: what was asked for and checked, and nothing that came along with it.
    fn params(
        &self,
        object: &CertificateSigningRequest,
        request: &Request,
        now: Timestamp,
    ) -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(request.dns_names.clone())?;
        let addresses = request.ip_addresses.iter();
        params
            .subject_alt_names
            .extend(addresses.map(|ip| SanType::IpAddress(*ip)));
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = request.common_name() {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        for organization in &request.organizations {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organization.as_str());
        }
        for usage in &object.spec.usages {
            match usage.as_str() {
                "digital signature" => params.key_usages.push(KeyUsagePurpose::DigitalSignature),
                "key encipherment" => params.key_usages.push(KeyUsagePurpose::KeyEncipherment),
                "server auth" => params
                    .extended_key_usages
                    .push(ExtendedKeyUsagePurpose::ServerAuth),
                "client auth" => params
                    .extended_key_usages
                    .push(ExtendedKeyUsagePurpose::ClientAuth),
                // The signers check that there are no others.
                _ => {}
            }
        }
        params.use_authority_key_identifier_extension = true;
        let asked = object
            .spec
            .expiration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        let duration = asked.map_or(self.duration, |seconds| {
            self.duration.min(Duration::from_secs(seconds))
        });
        let at = |time: i64| {
            time::OffsetDateTime::from_unix_timestamp(time).unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
        };
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 2);
        params.not_before = at(now.as_second() - BACKDATE_SECONDS);
        params.not_after = at(now.as_second() + seconds(duration));
        Ok(params)
    }
}

/// Reads certificate and key of an authority, PEM.
fn issuer(certificate: &Path, key: &Path) -> Result<Issuer<'static, KeyPair>, AuthorityError> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|source| AuthorityError::Read {
            path: path.to_owned(),
            source,
        })
    };
    let (certificate_pem, key_pem) = (read(certificate)?, read(key)?);
    KeyPair::from_pem(&key_pem)
        .and_then(|key| Issuer::from_ca_cert_pem(&certificate_pem, key))
        .map_err(|source| AuthorityError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        })
}

/// What each signer stands for (upstream's rules); else what is wanted.
fn check(object: &CertificateSigningRequest, request: &Request) -> Result<(), &'static str> {
    let usages = &object.spec.usages;
    let (fits, wants) = match object.spec.signer_name.as_str() {
        NODE_CLIENT_SIGNER => (
            request.node_name().is_some() && request.has_no_names() && are_usages_of_client(usages),
            "signs system:node:NAME of the group system:nodes, without further names, for digital signature and \
             client auth",
        ),
        NODE_SERVING_SIGNER => (
            request.node_name().is_some()
                && !request.has_no_names()
                && !request.has_other_names
                && are_usages_of_server(usages),
            "signs system:node:NAME of the group system:nodes, with host names or addresses, for digital signature \
             and server auth",
        ),
        NODE_PART_SIGNER => (
            part_of(request, usages).is_some(),
            "signs the parts of a node, such as system:kube-proxy:NODE of the group system:portolan:proxies, without \
             further names, for digital signature and client auth",
        ),
        _ => (
            request.common_name().is_some()
                && request.organizations.len() <= 1
                && request.has_no_names()
                && are_usages_of_client(usages),
            "signs one user, of one group at most, without further names, for digital signature and client auth",
        ),
    };
    fits.then_some(()).ok_or(wants)
}
