//! Signatures of tokens: right ones are remembered, and wrong ones limited for each address. A check takes a hundred times as
//! long as the rest of a request's way to its handler, and strangers send tokens, too.
//!
//! Only the signature and the claims are remembered, which never change. Whether a token is good now is looked at anew each
//! time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use super::claims::Claims;
use crate::access::authentication::Identity;
use crate::access::flow_control::Rates;
use crate::transport::connection::census::Source;

/// Tokens of one generation. Both together take some 10 MiB.
const GENERATION_MAX: usize = 2_048;
/// Tokens with a wrong signature that one address may send in a second: enough for Pods behind one address whose tokens are
/// of a cluster that was there before, and some milliseconds of work.
const WRONG_PER_SECOND: u32 = 20;

/// The SHA-256 of a token.
pub(super) type Digest = [u8; 32];

/// A token that one of our keys has signed.
pub(super) struct Verified {
    pub(super) claims: Claims,
    pub(super) identity: Arc<Identity>,
}

/// State of the signature cache.
pub(super) struct Signatures {
    known: RwLock<Known>,
    wrong: Mutex<Rates<Source>>,
}

/// Tokens in two generations: when the younger one is full it becomes the older one, which is forgotten. Tokens in use move to
/// the younger one, so that strangers' tokens do not push them out.
#[derive(Default)]
struct Known {
    young: HashMap<Digest, Arc<Verified>>,
    old: HashMap<Digest, Arc<Verified>>,
}

impl Default for Signatures {
    fn default() -> Signatures {
        Signatures {
            known: RwLock::default(),
            wrong: Mutex::new(Rates::new(WRONG_PER_SECOND)),
        }
    }
}

impl Signatures {
    /// A token whose signature was right.
    pub(super) fn known(&self, digest: &Digest) -> Option<Arc<Verified>> {
        let known = self.read();
        if let Some(young) = known.young.get(digest) {
            return Some(young.clone());
        }
        let old = known.old.get(digest).cloned()?;
        drop(known);
        self.write().keep(*digest, old.clone());
        Some(old)
    }

    /// Remembers a token whose signature is right.
    pub(super) fn keep(&self, digest: Digest, verified: Verified) -> Arc<Verified> {
        let verified = Arc::new(verified);
        self.write().keep(digest, verified.clone());
        verified
    }

    /// Forgets all tokens, as the keys have changed.
    pub(super) fn forget(&self) {
        *self.write() = Known::default();
    }

    /// Returns true if an address may have one more signature verified.
    pub(super) fn may_check(&self, source: Option<Source>) -> bool {
        source.is_none_or(|source| self.wrong().has_one(source, Instant::now()))
    }

    /// An address has sent a token with a wrong signature.
    pub(super) fn count_wrong(&self, source: Option<Source>) {
        if let Some(source) = source
            && !self.wrong().take_one(source, Instant::now())
        {
            tracing::debug!(?source, "tokens with a wrong signature, more than are checked");
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self) -> MutexGuard<'_, Rates<Source>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn keep(&mut self, digest: Digest, verified: Arc<Verified>) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, verified);
    }
}

#[cfg(test)]
mod tests;
