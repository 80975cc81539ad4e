//! Who is asking: a client certificate of our authority, or a bearer token.

mod tokens;

pub use tokens::{TokenFileError, Tokens};

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::failure::Failure;

/// The group of everybody who has proved an identity.
const AUTHENTICATED: &str = "system:authenticated";

/// Somebody who has proved who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// The user's unique id, if the way of authentication knows one.
    pub uid: String,
    /// The groups that the user is a member of.
    pub groups: Vec<String>,
}

impl Identity {
    /// Whom a certificate names: the common name is the user, organizations are groups. `None` if it names
    /// nobody. The certificate's signature has been checked by TLS.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Option<Identity> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = certificate.subject();
        let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = subject
            .iter_organization()
            .filter_map(|group| group.as_str().ok())
            .chain([AUTHENTICATED])
            .map(str::to_owned)
            .collect();
        (!user.is_empty()).then_some(Identity {
            user,
            uid: String::new(),
            groups,
        })
    }
}

/// Knows everybody who may come in.
#[derive(Debug, Default)]
pub(crate) struct Authenticator {
    tokens: Tokens,
}

impl Authenticator {
    pub(crate) fn new(tokens: Tokens) -> Authenticator {
        Authenticator { tokens }
    }

    /// Who sends a request. A token counts before the certificate of the connection, and a wrong one is never
    /// made up for by it.
    pub(crate) fn authenticate<'i>(
        &'i self,
        headers: &HeaderMap,
        connection: Option<&'i Arc<Identity>>,
    ) -> Result<&'i Arc<Identity>, Failure> {
        let Some(authorization) = headers.get(AUTHORIZATION) else {
            return connection.ok_or_else(Failure::unauthorized);
        };
        let text = authorization.to_str().map_err(|_| Failure::unauthorized())?;
        let (scheme, token) = text.trim().split_once(' ').ok_or_else(Failure::unauthorized)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return connection.ok_or_else(Failure::unauthorized);
        }
        self.tokens.owner(token.trim()).ok_or_else(Failure::unauthorized)
    }
}

#[cfg(test)]
mod tests;
