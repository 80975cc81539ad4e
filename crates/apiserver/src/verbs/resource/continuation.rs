//! The token with which a client gets the next page of a list: opaque to it, checked when it comes back.

use api::kind::Kind;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use store::Revision;

use crate::failure::Failure;

/// The revision in a token that goes on with what is there now.
const NEWEST: i64 = -1;

/// Where a list is to go on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Continuation {
    /// The revision of the whole list, or [`NEWEST`].
    #[serde(rename = "rv")]
    revision: i64,
    /// The last key of the page before.
    after: String,
}

impl Continuation {
    /// After a key, at a revision.
    pub(super) fn new(revision: Revision, after: &str) -> Continuation {
        Continuation {
            revision: i64::try_from(revision.0).unwrap_or(i64::MAX),
            after: after.to_owned(),
        }
    }

    /// The same place in the collection as it is now: for a client that comes too late for the revision, and takes a
    /// list that is of no one moment.
    pub(super) fn at_newest(self) -> Continuation {
        Continuation {
            revision: NEWEST,
            ..self
        }
    }

    /// The revision of the whole list; `None` for the newest.
    pub(super) fn revision(&self) -> Option<Revision> {
        u64::try_from(self.revision).ok().map(Revision)
    }

    /// The last key of the page before.
    pub(super) fn after(&self) -> &str {
        &self.after
    }

    /// The token.
    pub(super) fn token(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(text)
    }

    /// Reads a token for a list of `kind`.
    pub(super) fn parse(token: &str, kind: &Kind) -> Result<Continuation, Failure> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
            let this: Continuation = serde_json::from_slice(&bytes).ok()?;
            let is_ours = this.after.starts_with(&kind.store_prefix(None)) && this.revision >= NEWEST;
            is_ours.then_some(this)
        };
        read().ok_or_else(|| {
            Failure::bad_request("continue key is not valid: it is not one that this server gave out")
        })
    }
}

#[cfg(test)]
mod tests;
