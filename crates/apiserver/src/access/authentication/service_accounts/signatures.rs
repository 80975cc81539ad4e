//! Cache of verified token signatures, and a limit on invalid ones for each client address. Verification takes about
//! a hundred times as long as the rest of authentication and authorization, and unauthenticated clients send tokens
//! too.
//!
//! The cache holds the signature result and the claims, which never change. Validity is checked for each request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use super::claims::Claims;
use crate::access::authentication::Identity;
use crate::access::flow_control::Rates;
use crate::transport::connection::source::Source;

/// Maximum number of tokens in one generation. Both generations together use about 10 MiB.
const GENERATION_MAX: usize = 2_048;
/// Tokens with an invalid signature that are verified for one address in a second. The limit admits Pods behind one
/// address with tokens of an earlier cluster, and costs a few milliseconds of CPU time.
const INVALID_PER_SECOND: u32 = 20;

/// The SHA-256 of a token.
pub(super) type Digest = [u8; 32];

/// A token with a valid signature.
pub(super) struct VerifiedToken {
    pub(super) claims: Claims,
    pub(super) identity: Arc<Identity>,
}

/// Verified signatures, and rates of invalid ones.
pub(super) struct Signatures {
    generations: RwLock<Generations>,
    invalid_rates: Mutex<Rates<Source>>,
}

/// Tokens in two generations. When the young generation is full, it replaces the old one. A token that is used moves
/// to the young generation, so other clients' tokens do not evict it.
#[derive(Default)]
struct Generations {
    young: HashMap<Digest, Arc<VerifiedToken>>,
    old: HashMap<Digest, Arc<VerifiedToken>>,
}

impl Default for Signatures {
    fn default() -> Signatures {
        Signatures {
            generations: RwLock::default(),
            invalid_rates: Mutex::new(Rates::new(INVALID_PER_SECOND)),
        }
    }
}

impl Signatures {
    /// Returns the claims of a token whose signature was verified before.
    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<VerifiedToken>> {
        let generations = self.read();
        if let Some(young) = generations.young.get(digest) {
            return Some(young.clone());
        }
        let old = generations.old.get(digest).cloned()?;
        drop(generations);
        self.write().insert(*digest, old.clone());
        Some(old)
    }

    /// Adds a token with a valid signature.
    pub(super) fn insert(&self, digest: Digest, verified: VerifiedToken) -> Arc<VerifiedToken> {
        let verified = Arc::new(verified);
        self.write().insert(digest, verified.clone());
        verified
    }

    /// Removes all tokens, for changed keys.
    pub(super) fn clear(&self) {
        *self.write() = Generations::default();
    }

    /// Returns true if one more signature may be verified for the address.
    pub(super) fn may_verify(&self, source: Option<Source>) -> bool {
        source.is_none_or(|source| self.invalid_rates().has_token(source, Instant::now()))
    }

    /// Counts a token with an invalid signature against its address.
    pub(super) fn count_invalid(&self, source: Option<Source>) {
        if let Some(source) = source
            && !self.invalid_rates().take_token(source, Instant::now())
        {
            tracing::debug!(
                ?source,
                "too many invalid token signatures; verification suspended"
            );
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Generations> {
        self.generations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Generations> {
        self.generations.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn invalid_rates(&self) -> MutexGuard<'_, Rates<Source>> {
        self.invalid_rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn insert(&mut self, digest: Digest, verified: Arc<VerifiedToken>) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, verified);
    }
}

#[cfg(test)]
mod tests;
