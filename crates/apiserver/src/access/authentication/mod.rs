//! Who is asking: a client certificate of our authority, a token of a file, a token of a ServiceAccount, a
//! bootstrap token, or nobody that we know.

mod bootstrap_tokens;
mod identity;
mod impersonation;
pub(crate) mod node_certificates;
pub(crate) mod reviews;
pub(crate) mod service_accounts;
mod tokens;

pub use identity::Identity;
pub(crate) use identity::{AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS};
pub(crate) use impersonation::impersonated;
pub use service_accounts::KeyError;
pub use tokens::{TokenFileError, Tokens};

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;

use crate::access::flow_control::Rates;
use crate::failure::Failure;
use crate::transport::connection::census::Source;
use service_accounts::{Rejection, ServiceAccounts};

/// Lines in the log about rejected bootstrap tokens of one address, in a second.
const LINES_PER_SECOND: u32 = 1;

/// Knows everybody who may come in.
pub(crate) struct Authenticator {
    tokens: Tokens,
    /// The tokens of ServiceAccounts.
    pub(crate) service_accounts: ServiceAccounts,
    nobody: Arc<Identity>,
    /// Lines in the log about rejected bootstrap tokens.
    lines: Mutex<Rates<Source>>,
}

impl Authenticator {
    pub(crate) fn new(tokens: Tokens, service_accounts: ServiceAccounts) -> Authenticator {
        Authenticator {
            tokens,
            service_accounts,
            nobody: Arc::new(Identity::anonymous()),
            lines: Mutex::new(Rates::new(LINES_PER_SECOND)),
        }
    }

    /// Who sends a request; somebody anonymous if nothing is sent that proves anything. A token counts before the
    /// certificate of the connection, and a wrong one is never made up for by it. `source` is the client's address.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        connection: Option<&Arc<Identity>>,
        source: Option<Source>,
    ) -> Result<Arc<Identity>, Failure> {
        let connection = || match connection {
            Some(identity) => self.check_certificate(identity).map(|()| identity.clone()),
            None => Ok(self.nobody.clone()),
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
        if let Some(owner) = self.tokens.owner(token) {
            return Ok(owner.clone());
        }
        if let Some(owner) = bootstrap_tokens::owner(self.service_accounts.store(), token) {
            return owner.map_err(|rejection| {
                match self.is_worth_a_line(source) {
                    true => tracing::info!(%rejection, "a token was rejected"),
                    false => tracing::debug!(%rejection, "a token was rejected"),
                }
                Failure::unauthorized()
            });
        }
        self.service_accounts.owner(token, source).map_err(|rejection| {
            tracing::debug!(%rejection, "a token was rejected");
            match rejection {
                Rejection::TooMany => Failure::too_many_requests(),
                _ => Failure::unauthorized(),
            }
        })
    }

    /// Returns true if a rejected token is logged. The rate is limited, so that clients cannot fill the disk.
    fn is_worth_a_line(&self, source: Option<Source>) -> bool {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        source.is_none_or(|source| lines.take_one(source, Instant::now()))
    }

    /// Refuses a connection's certificate that does not count any more, since its Node was removed.
    pub(crate) fn check_certificate(&self, identity: &Identity) -> Result<(), Failure> {
        let index = self.service_accounts.store().index();
        node_certificates::check(identity, index, Timestamp::now()).map_err(|rejection| {
            tracing::debug!(user = identity.user, %rejection, "client certificate refused");
            Failure::unauthorized()
        })
    }

    /// Whose token this is, for those who ask about it: the owner, and those of the `audiences` asked about that
    /// it is good for. No audience means this server.
    pub(crate) fn review(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<(Arc<Identity>, Vec<String>), String> {
        if let Some(owner) = self.tokens.owner(token) {
            let ours = self.service_accounts.audience();
            return match audiences.is_empty() || audiences.contains(&ours) {
                true => Ok((owner.clone(), vec![ours.to_owned()])),
                false => Err("the token is not good for any of the audiences".to_owned()),
            };
        }
        self.service_accounts
            .owner_for(token, audiences, None)
            .map_err(|rejection| rejection.to_string())
    }
}

#[cfg(test)]
mod tests;
