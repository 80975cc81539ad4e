//! The cluster CA, which signs approved requests under the rules of each signer.
//!
//! Approval does not suffice: a request also has to fulfil the rules of its signer about names, groups and usages. The
//! certificate is built from the checked fields, and extensions of the request are not copied. Its validity is the
//! requested one, up to the maximum of the authority. Serving certificates of kubelets may have a CA of their own,
//! which no client of the API trusts.

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

use super::recognize::{are_usages_of_client, are_usages_of_server, part_of};
use super::{pem_of, request_of};

/// The error of CA files. A retry does not help; the files must change.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file is not readable.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The files are not a CA certificate with its key.
    #[error("expected a CA certificate in {} and its private key in {}: {source}", certificate.display(), key.display())]
    Unusable {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// The parse error.
        source: rcgen::Error,
    },
}

/// The error of a request that cannot be signed. A retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The PKCS #10 request is invalid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The request violates the rules of its signer.
    #[error("signer {signer} {rule}")]
    NotPermitted {
        /// The signer name.
        signer: String,
        /// The rule of the signer.
        rule: &'static str,
    },
    /// The key type is not supported.
    #[error("certificate creation failed: {0}")]
    Issue(#[from] rcgen::Error),
}

/// The certificates and keys of the cluster CAs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// CA of kubelet serving certificates; `issuer` signs them if there is no such CA.
    kubelet_serving_issuer: Option<Issuer<'static, KeyPair>>,
    /// Upper bound of the validity of certificates.
    duration: Duration,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret, so it is omitted.
        f.debug_struct("Authority")
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads a CA certificate and its key in PEM. Signed certificates are valid for at most `duration`.
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

    /// Reads a separate CA for kubelet serving certificates, which no client of the API trusts.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn with_kubelet_serving(self, certificate: &Path, key: &Path) -> Result<Self, AuthorityError> {
        Ok(Self {
            kubelet_serving_issuer: Some(issuer(certificate, key)?),
            ..self
        })
    }

    /// Returns true if this controller handles the signer of the request.
    pub fn signs(object: &CertificateSigningRequest) -> bool {
        let ours = [
            CLIENT_SIGNER,
            NODE_CLIENT_SIGNER,
            NODE_SERVING_SIGNER,
            NODE_PART_SIGNER,
        ];
        ours.contains(&object.spec.signer_name.as_str())
    }

    /// Signs a request; returns the certificate in PEM. A client certificate of a node carries the Node's
    /// `incarnation`.
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
        check(object, &request).map_err(|rule| SignError::NotPermitted {
            signer: object.spec.signer_name.clone(),
            rule,
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

    /// Builds the certificate from the checked fields of the request. Extensions of the request are not
    /// copied.
    fn params(
        &self,
        object: &CertificateSigningRequest,
        request: &Request,
        now: Timestamp,
    ) -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::default();
        // `CertificateParams::new` converts names such as `192.0.2.1`, which a Node may have, to addresses. No rule
        // checked that the address belongs to the Node.
        for name in &request.dns_names {
            let name = SanType::DnsName(name.as_str().try_into()?);
            params.subject_alt_names.push(name);
        }
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
                // `check` rejects all other usages.
                _ => {}
            }
        }
        params.use_authority_key_identifier_extension = true;
        let requested = object
            .spec
            .expiration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        let duration = requested.map_or(self.duration, |seconds| {
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

/// Reads a CA certificate and its key in PEM.
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

/// Checks a request against the rules of its signer (upstream's); returns the violated rule.
fn check(object: &CertificateSigningRequest, request: &Request) -> Result<(), &'static str> {
    let usages = &object.spec.usages;
    let (fits, rule) = match object.spec.signer_name.as_str() {
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
    fits.then_some(()).ok_or(rule)
}
