//! Tokens of ServiceAccounts: signed, for an audience, for some time, and bound to objects: when the ServiceAccount,
//! or the Pod, Secret or Node that a token is bound to, is gone, the token is worth nothing.

mod claims;
mod keys;
mod request;
mod signatures;
#[cfg(test)]
mod tests;

pub use keys::KeyError;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use api::kind;
use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::Store;

use super::identity::{AUTHENTICATED, CREDENTIAL_ID, Identity, SERVICE_ACCOUNTS};
use crate::transport::connection::census::Source;
use claims::{Claims, Reference};
use keys::Keys;
use signatures::{Signatures, Verified};

/// Seconds by which clocks may differ.
const LEEWAY_SECONDS: i64 = 60;
/// Seconds for which a token is still good after the object that it is bound to was marked as being deleted: it may
/// need it to end in order.
const DELETION_LEEWAY_SECONDS: i64 = 60;
/// Longest token that is looked at: ours have about a thousand bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Why a token is not accepted. For logs and reviews; a client is told nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    /// Nothing that one of our keys has signed for us.
    #[error("the token is none of this server's")]
    Foreign,
    /// It was good, or will be.
    #[error("the token is not good at this time")]
    Time,
    /// It is for others.
    #[error("the token is not good for any of the audiences")]
    Audience,
    /// The address has sent too many tokens with a wrong signature.
    #[error("the address sends too many tokens that are none of this server's")]
    TooMany,
    /// The ServiceAccount or what the token is bound to is not there any more.
    #[error("the {what} of the token is gone")]
    Gone {
        /// Name of the object.
        what: &'static str,
    },
}

/// Signs and knows the tokens of ServiceAccounts.
pub(crate) struct ServiceAccounts {
    directory: PathBuf,
    keys: ArcSwap<Keys>,
    store: Arc<dyn Store>,
    /// Who signs, and whom tokens are for that do not say: the URL of the API in the cluster.
    issuer: String,
    signatures: Signatures,
}

impl ServiceAccounts {
    /// With the keys in a directory; `issuer` stands in the tokens.
    pub(crate) fn open(
        directory: PathBuf,
        issuer: String,
        store: Arc<dyn Store>,
    ) -> Result<ServiceAccounts, KeyError> {
        let keys = Keys::open(&directory, SystemTime::now())?;
        Ok(ServiceAccounts {
            keys: ArcSwap::from_pointee(keys),
            directory,
            store,
            issuer,
            signatures: Signatures::default(),
        })
    }

    /// Reads the keys again and replaces the signing key if it is old.
    pub(crate) fn renew(&self) -> Result<(), KeyError> {
        let keys = Keys::open(&self.directory, SystemTime::now())?;
        self.keys.store(Arc::new(keys));
        self.signatures.forget();
        Ok(())
    }

    /// Where the ServiceAccounts are.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The audience of tokens for this server.
    pub(crate) fn audience(&self) -> &str {
        &self.issuer
    }

    /// Whose token this is, if it is one for this server. `source` is the address that sends it.
    pub(crate) fn owner(&self, token: &str, source: Option<Source>) -> Result<Arc<Identity>, Rejection> {
        let (owner, _) = self.owner_for(token, &[], source)?;
        Ok(owner)
    }

    /// Whose token this is, and those of `audiences` that it is good for; no audience means this server.
    pub(crate) fn owner_for(
        &self,
        token: &str,
        audiences: &[&str],
        source: Option<Source>,
    ) -> Result<(Arc<Identity>, Vec<String>), Rejection> {
        let verified = self.verify(token, source)?;
        let now_seconds = Timestamp::now().as_second();
        let claims = &verified.claims;
        if now_seconds >= claims.exp.saturating_add(LEEWAY_SECONDS)
            || now_seconds.saturating_add(LEEWAY_SECONDS) < claims.nbf
        {
            return Err(Rejection::Time);
        }
        let ours = [self.issuer.as_str()];
        let audiences = if audiences.is_empty() { &ours } else { audiences };
        let good_for: Vec<String> = audiences
            .iter()
            .filter(|audience| claims.aud.iter().any(|of_token| of_token == *audience))
            .map(|audience| (*audience).to_owned())
            .collect();
        if good_for.is_empty() {
            return Err(Rejection::Audience);
        }
        self.check_bound(claims, now_seconds)?;
        Ok((verified.identity.clone(), good_for))
    }

    /// `/openid/v1/jwks`: the public keys.
    pub(crate) fn key_set(&self) -> Value {
        self.keys.load().set()
    }

    /// `/.well-known/openid-configuration`; `host` is how clients call this server.
    pub(crate) fn discovery(&self, host: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("https://{host}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.keys.load().algorithm()],
        })
    }

    fn verify(&self, token: &str, source: Option<Source>) -> Result<Arc<Verified>, Rejection> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Rejection::Foreign);
        }
        let digest = Sha256::digest(token).into();
        if let Some(known) = self.signatures.known(&digest) {
            return Ok(known);
        }
        let mut claims = None;
        let mut is_limited = false;
        let is_plausible = |bytes: &[u8]| {
            let read = serde_json::from_slice::<Claims>(bytes).ok();
            claims = read.filter(|read| read.iss == self.issuer && read.is_consistent());
            is_limited = claims.is_some() && !self.signatures.may_check(source);
            claims.is_some() && !is_limited
        };
        let is_signed = self.keys.load().verified(token, is_plausible).is_some();
        match claims {
            Some(_) if is_limited => Err(Rejection::TooMany),
            Some(claims) if is_signed => {
                let identity = Arc::new(identity(&claims));
                Ok(self.signatures.keep(digest, Verified { claims, identity }))
            }
            Some(_) => {
                self.signatures.count_wrong(source);
                Err(Rejection::Foreign)
            }
            None => Err(Rejection::Foreign),
        }
    }

    /// What a token rests on has to be there still.
    fn check_bound(&self, claims: &Claims, now_seconds: i64) -> Result<(), Rejection> {
        let owner = &claims.owner;
        let bound = [
            ("ServiceAccount", "serviceaccounts", Some(&owner.serviceaccount)),
            ("Pod", "pods", owner.pod.as_ref()),
            ("Secret", "secrets", owner.secret.as_ref()),
        ];
        for (what, plural, reference) in bound {
            if let Some(reference) = reference
                && !self.is_there(plural, &owner.namespace, reference, now_seconds)
            {
                return Err(Rejection::Gone { what });
            }
        }
        // The Node of a Pod is told for information; one that a token is bound to by itself counts.
        if let Some(node) = owner.node.as_ref().filter(|_| owner.pod.is_none())
            && !self.is_there("nodes", "", node, now_seconds)
        {
            return Err(Rejection::Gone { what: "Node" });
        }
        Ok(())
    }

    fn is_there(&self, plural: &str, namespace: &str, reference: &Reference, now_seconds: i64) -> bool {
        let Some(kind) = kind::find("", "v1", plural) else {
            return false;
        };
        let entry = self
            .store
            .index()
            .get(&kind.store_key(namespace, &reference.name));
        entry.is_some_and(|entry| {
            serde_json::from_slice::<Living<'_>>(&entry.value).is_ok_and(|object| {
                let metadata = object.metadata;
                let is_ending = metadata
                    .deletion_timestamp
                    .and_then(|time| time.parse::<Timestamp>().ok())
                    .is_some_and(|time| time.as_second() + DELETION_LEEWAY_SECONDS < now_seconds);
                metadata.uid == reference.uid && !is_ending
            })
        })
    }
}

/// Of an object, whether it is the one that is meant and not ending.
#[derive(Deserialize)]
struct Living<'o> {
    #[serde(borrow)]
    metadata: LivingMetadata<'o>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LivingMetadata<'o> {
    uid: &'o str,
    #[serde(borrow, default)]
    deletion_timestamp: Option<&'o str>,
}

fn identity(claims: &Claims) -> Identity {
    const PREFIX: &str = "authentication.kubernetes.io";
    let owner = &claims.owner;
    let mut extra = Vec::new();
    if !claims.jti.is_empty() {
        extra.push((CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.jti)]));
    }
    for (what, reference) in [("node", &owner.node), ("pod", &owner.pod)] {
        if let Some(reference) = reference {
            extra.push((format!("{PREFIX}/{what}-name"), vec![reference.name.clone()]));
            extra.push((format!("{PREFIX}/{what}-uid"), vec![reference.uid.clone()]));
        }
    }
    Identity {
        user: claims.sub.clone(),
        uid: owner.serviceaccount.uid.clone(),
        groups: vec![
            SERVICE_ACCOUNTS.to_owned(),
            format!("{SERVICE_ACCOUNTS}:{}", owner.namespace),
            AUTHENTICATED.to_owned(),
        ],
        extra,
        signed: None,
    }
}
