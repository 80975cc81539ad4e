//! The identity of a client.

use api::certificates::INCARNATION;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::node_certificates::ClientCertificate;

/// Group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Group of unauthenticated users.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Name of unauthenticated users.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// Group whose members may do everything, independent of roles.
const PRIVILEGED: &str = "system:masters";
/// Group of the node agents.
pub(crate) const NODES: &str = "system:nodes";
/// Prefix of the user names of node agents.
const NODE_PREFIX: &str = "system:node:";
/// Prefix of the user names of ServiceAccounts.
pub(crate) const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// Group of all ServiceAccounts.
pub(crate) const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// Key in `extra` of the credential ID.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// User, groups and attributes that authentication established.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// User name.
    pub user: String,
    /// UID of the user; empty if the authentication method has none.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// Further attributes, by key (`userInfo.extra`).
    pub extra: Vec<(String, Vec<String>)>,
    /// The client certificate, if one proved the identity.
    pub certificate: Option<ClientCertificate>,
}

impl Identity {
    /// Returns the user of a client certificate: the common name is the user name, the organizations are the groups.
    /// Returns `None` without a common name. TLS has verified the signature.
    pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Option<Identity> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let subject = parsed.subject();
        let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = subject
            .iter_organization()
            .filter_map(|group| group.as_str().ok())
            .chain([AUTHENTICATED])
            .map(str::to_owned)
            .collect();
        let digest = Sha256::digest(certificate);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let client_certificate = ClientCertificate::of(&parsed);
        let mut extra = vec![(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])];
        if let Some(incarnation) = client_certificate.incarnation() {
            extra.push((INCARNATION.to_owned(), vec![incarnation.to_string()]));
        }
        (!user.is_empty()).then(|| Identity {
            user,
            uid: String::new(),
            groups,
            extra,
            certificate: Some(client_certificate),
        })
    }

    /// Returns the identity of a client without credentials.
    pub(crate) fn anonymous() -> Identity {
        Identity {
            user: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Identity::default()
        }
    }

    /// Returns true if the client is unauthenticated.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS
    }

    /// Returns true if everything is allowed, independent of roles.
    pub(crate) fn is_privileged(&self) -> bool {
        self.groups.iter().any(|group| group == PRIVILEGED)
    }

    /// Returns the name of the Node whose agent this is.
    pub(crate) fn node_name(&self) -> Option<&str> {
        let name = self.user.strip_prefix(NODE_PREFIX)?;
        self.groups.iter().any(|group| group == NODES).then_some(name)
    }
}
