//! Authentication: client certificates of the cluster CA, static tokens, bootstrap tokens and ServiceAccount tokens.

mod bootstrap_tokens;
mod identity;
mod impersonation;
pub(crate) mod node_certificates;
pub(crate) mod reviews;
pub(crate) mod service_accounts;
mod static_tokens;

pub(crate) use identity::Identity;
pub(crate) use identity::{AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS};
pub(crate) use impersonation::impersonate;
pub use service_accounts::KeyError;
pub(crate) use static_tokens::StaticTokens;
pub use static_tokens::TokenFileError;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;

use crate::access::flow_control::Rates;
use crate::failure::Failure;
use crate::transport::connection::source::Source;
use service_accounts::{Rejection, ServiceAccounts};

/// Log lines about rejected bootstrap tokens, for each client address and second.
const REJECTION_LOG_LINES_PER_SECOND: u32 = 1;

/// Establishes the identity of clients.
pub(crate) struct Authenticator {
    static_tokens: StaticTokens,
    /// Tokens of ServiceAccounts.
    pub(crate) service_accounts: ServiceAccounts,
    anonymous: Arc<Identity>,
    /// Rate of log lines about rejected bootstrap tokens.
    rejection_log_rates: Mutex<Rates<Source>>,
}

impl Authenticator {
    pub(crate) fn new(static_tokens: StaticTokens, service_accounts: ServiceAccounts) -> Authenticator {
        Authenticator {
            static_tokens,
            service_accounts,
            anonymous: Arc::new(Identity::anonymous()),
            rejection_log_rates: Mutex::new(Rates::new(REJECTION_LOG_LINES_PER_SECOND)),
        }
    }

    /// Returns the identity of a request, which is anonymous without credentials. A bearer token takes precedence
    /// over the certificate of the connection; an invalid token fails the request. `source` is the client's address.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        connection: Option<&Arc<Identity>>,
        source: Option<Source>,
    ) -> Result<Arc<Identity>, Failure> {
        let connection = || match connection {
            Some(identity) => self.check_certificate(identity).map(|()| identity.clone()),
            None => Ok(self.anonymous.clone()),
        };
        let Some(authorization) = headers.get(AUTHORIZATION) else {
            return connection();
        };
        let text = authorization.to_str().map_err(|_| Failure::unauthorized())?;
        let (scheme, token) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return connection();
        }
        let token = token.trim();
        if token.is_empty() {
            return connection();
        }
        if let Some(owner) = self.static_tokens.owner(token) {
            return Ok(owner.clone());
        }
        if let Some(result) = bootstrap_tokens::authenticate(self.service_accounts.store(), token) {
            return result.map_err(|rejection| {
                if self.may_log_rejection(source) {
                    tracing::info!(%rejection, "bearer token rejected");
                } else {
                    tracing::debug!(%rejection, "bearer token rejected");
                }
                Failure::unauthorized()
            });
        }
        self.service_accounts
            .authenticate(token, source)
            .map_err(|rejection| {
                tracing::debug!(%rejection, "bearer token rejected");
                match rejection {
                    Rejection::TooMany => Failure::too_many_requests(),
                    _ => Failure::unauthorized(),
                }
            })
    }

    /// Returns true if one more rejection may be logged for the address. The limit bounds the disk space that clients
    /// can use.
    fn may_log_rejection(&self, source: Option<Source>) -> bool {
        let mut rates = self
            .rejection_log_rates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        source.is_none_or(|source| rates.take_token(source, Instant::now()))
    }

    /// Rejects a certificate that has expired or whose Node does not accept it any more.
    pub(crate) fn check_certificate(&self, identity: &Identity) -> Result<(), Failure> {
        let index = self.service_accounts.store().index();
        node_certificates::check(identity, index, Timestamp::now()).map_err(|rejection| {
            tracing::debug!(user = identity.user, %rejection, "client certificate rejected");
            Failure::unauthorized()
        })
    }

    /// Returns the owner of a token and the `audiences` for which it is valid, for a TokenReview. An empty list means
    /// this server.
    pub(crate) fn review(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<(Arc<Identity>, Vec<String>), String> {
        if let Some(owner) = self.static_tokens.owner(token) {
            let default_audience = self.service_accounts.audience();
            return if audiences.is_empty() || audiences.contains(&default_audience) {
                Ok((owner.clone(), vec![default_audience.to_owned()]))
            } else {
                Err("the token is valid for none of the audiences".to_owned())
            };
        }
        self.service_accounts
            .authenticate_for(token, audiences, None)
            .map_err(|rejection| rejection.to_string())
    }
}

#[cfg(test)]
mod tests;
