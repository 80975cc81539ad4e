//! Somebody who asks.

use api::certificates::INCARNATION;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::node_certificates::Signed;

/// The group of everybody who has proved an identity.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody who has not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of everybody who has not.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The group whose members may do everything, whatever the roles say.
const PRIVILEGED: &str = "system:masters";
/// The group of the nodes' agents, and what their names begin with.
pub(crate) const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
/// What the user names of ServiceAccounts begin with.
pub(crate) const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of all ServiceAccounts.
pub(crate) const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The key of what identifies the credential.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Somebody who asks for something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// The user's unique id, if the way of authentication knows one.
    pub uid: String,
    /// The groups that the user is a member of.
    pub groups: Vec<String>,
    /// What else is known, by keys.
    pub extra: Vec<(String, Vec<String>)>,
    /// The signature of the client certificate that proved it, if one did.
    pub signed: Option<Signed>,
}

impl Identity {
    /// Whom a certificate names: the common name is the user, organizations are groups. `None` if it names
    /// nobody. The certificate's signature has been checked by TLS.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Option<Identity> {
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
        let signed = Signed::of(&parsed);
        let mut extra = vec![(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])];
        if let Some(incarnation) = signed.incarnation() {
            extra.push((INCARNATION.to_owned(), vec![incarnation.to_string()]));
        }
        (!user.is_empty()).then(|| Identity {
            user,
            uid: String::new(),
            groups,
            extra,
            signed: Some(signed),
        })
    }

    /// Somebody who has proved nothing.
    pub(crate) fn anonymous() -> Identity {
        Identity {
            user: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Identity::default()
        }
    }

    /// Whether nothing was proved.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS
    }

    /// Whether everything is allowed, whatever the roles say.
    pub(crate) fn is_privileged(&self) -> bool {
        self.groups.iter().any(|group| group == PRIVILEGED)
    }

    /// The Node whose agent this is.
    pub(crate) fn node_name(&self) -> Option<&str> {
        let name = self.user.strip_prefix(NODE_PREFIX)?;
        self.groups.iter().any(|group| group == NODES).then_some(name)
    }
}
