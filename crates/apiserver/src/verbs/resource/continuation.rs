//! Continue tokens of paginated lists. Clients treat them as opaque; the server checks them.

use api::kind::Kind;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use store::Revision;

use crate::failure::Failure;

/// The revision in a token that continues at the newest revision.
const NEWEST: i64 = -1;

/// The position at which a list continues.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Continuation {
    /// The revision of the list, or [`NEWEST`].
    #[serde(rename = "rv")]
    revision: i64,
    /// The last key of the previous page.
    after: String,
}

impl Continuation {
    /// Continues behind a key, at a revision.
    pub(super) fn new(revision: Revision, after: &str) -> Continuation {
        Continuation {
            revision: i64::try_from(revision.0).unwrap_or(i64::MAX),
            after: after.to_owned(),
        }
    }

    /// Returns the same position at the newest revision. Clients whose revision is compacted can use the token if they
    /// accept an inconsistent list.
    pub(super) fn at_newest(self) -> Continuation {
        Continuation {
            revision: NEWEST,
            ..self
        }
    }

    /// Returns the revision of the list; `None` for the newest one.
    pub(super) fn revision(&self) -> Option<Revision> {
        u64::try_from(self.revision).ok().map(Revision)
    }

    /// Returns the last key of the previous page.
    pub(super) fn after(&self) -> &str {
        &self.after
    }

    /// Encodes the continuation as a token.
    pub(super) fn token(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(text)
    }

    /// Parses a token for a list of `kind`.
    pub(super) fn parse(token: &str, kind: &Kind) -> Result<Continuation, Failure> {
        let decode = || {
            let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
            let parsed: Continuation = serde_json::from_slice(&bytes).ok()?;
            let is_of_kind = parsed.after.starts_with(&kind.store_prefix(None)) && parsed.revision >= NEWEST;
            is_of_kind.then_some(parsed)
        };
        decode().ok_or_else(|| {
            let fault = "it is not one that this server gave out";
            Failure::bad_request(format!(
                "invalid continue token: continue key is not valid: {fault}"
            ))
        })
    }
}

#[cfg(test)]
mod tests;
