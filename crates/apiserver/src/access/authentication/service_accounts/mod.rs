//! ServiceAccount tokens: signed, with audiences and an expiration, and bound to objects. A token is invalid once its
//! ServiceAccount, or the Pod, Secret or Node that it is bound to, is deleted. A token that is bound to a Pod also
//! becomes invalid with the Node of the Pod. No controller removes the Pods of a removed Node, and its host may be
//! compromised.

mod claims;
mod keys;
mod request;
mod signatures;
#[cfg(test)]
mod tests;

pub use keys::KeyError;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use api::certificates::INCARNATION;
use api::kind;
use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::Store;

use super::identity::{AUTHENTICATED, CREDENTIAL_ID, Identity, SERVICE_ACCOUNTS};
use super::node_certificates::is_removed;
use crate::transport::connection::source::Source;
use claims::{Claims, Reference};
use keys::Keys;
use signatures::{Signatures, VerifiedToken};

/// Tolerated clock difference.
const LEEWAY_SECONDS: i64 = 60;
/// Period in which a token stays valid after its object was marked for deletion, so that the Pod can shut down in
/// order.
const DELETION_LEEWAY_SECONDS: i64 = 60;
/// Longest token that is parsed. Own tokens have about 1000 bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Reason for the rejection of a ServiceAccount token. It appears in logs and TokenReviews; a request receives 401
/// without a reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    /// No key of this server signed the token, or another issuer did.
    #[error("expected a token of this server, found another issuer or signature")]
    Foreign,
    /// The token has expired or is not valid yet.
    #[error("the token has expired or is not valid yet")]
    Time,
    /// The token is for other audiences.
    #[error("the token is valid for none of the audiences")]
    Audience,
    /// The address has sent too many tokens with a wrong signature.
    #[error("the address sends too many tokens that this server did not issue; retry after a second")]
    TooMany,
    /// An object that the token is bound to was deleted or replaced.
    #[error("the {kind} that the token is bound to no longer exists")]
    BoundObjectGone {
        /// Kind of the object.
        kind: &'static str,
    },
}

/// Issues and verifies ServiceAccount tokens.
pub(crate) struct ServiceAccounts {
    directory: PathBuf,
    keys: ArcSwap<Keys>,
    store: Arc<dyn Store>,
    /// Issuer and default audience of tokens: the URL of the API in the cluster.
    issuer: String,
    signatures: Signatures,
}

impl ServiceAccounts {
    /// Opens the keys in a directory. `issuer` is the issuer and default audience of tokens.
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

    /// Reads the keys again, and replaces the signing key if its period is over.
    pub(crate) fn renew(&self) -> Result<(), KeyError> {
        let keys = Keys::open(&self.directory, SystemTime::now())?;
        self.keys.store(Arc::new(keys));
        self.signatures.clear();
        Ok(())
    }

    /// Returns the store that holds the ServiceAccounts.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the audience of tokens for this server.
    pub(crate) fn audience(&self) -> &str {
        &self.issuer
    }

    /// Authenticates a token for this server. `source` is the client's address.
    pub(crate) fn authenticate(
        &self,
        token: &str,
        source: Option<Source>,
    ) -> Result<Arc<Identity>, Rejection> {
        let (identity, _) = self.authenticate_for(token, &[], source)?;
        Ok(identity)
    }

    /// Returns the owner of a token and the `audiences` for which it is valid. An empty list means this server.
    pub(crate) fn authenticate_for(
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
        let default_audiences = [self.issuer.as_str()];
        let audiences = if audiences.is_empty() {
            &default_audiences
        } else {
            audiences
        };
        // A TokenReview and its token can each have thousands of audiences.
        let claimed: HashSet<&str> = claims.aud.iter().map(String::as_str).collect();
        let valid_audiences: Vec<String> = audiences
            .iter()
            .filter(|audience| claimed.contains(**audience))
            .map(|audience| (*audience).to_owned())
            .collect();
        if valid_audiences.is_empty() {
            return Err(Rejection::Audience);
        }
        self.check_bound(claims, now_seconds)?;
        Ok((verified.identity.clone(), valid_audiences))
    }

    /// Returns the body of `/openid/v1/jwks`: the public keys.
    pub(crate) fn key_set(&self) -> Value {
        self.keys.load().jwk_set()
    }

    /// Returns the body of `/.well-known/openid-configuration`. `host` is the server's name in the request.
    pub(crate) fn discovery(&self, host: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("https://{host}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.keys.load().algorithm()],
        })
    }

    fn verify(&self, token: &str, source: Option<Source>) -> Result<Arc<VerifiedToken>, Rejection> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Rejection::Foreign);
        }
        let digest = Sha256::digest(token).into();
        if let Some(verified) = self.signatures.get(&digest) {
            return Ok(verified);
        }
        let mut claims = None;
        let mut is_limited = false;
        let is_plausible = |bytes: &[u8]| {
            let read = serde_json::from_slice::<Claims>(bytes).ok();
            claims = read.filter(|read| read.iss == self.issuer && read.is_consistent());
            is_limited = claims.is_some() && !self.signatures.may_verify(source);
            claims.is_some() && !is_limited
        };
        let is_signed = self.keys.load().verify(token, is_plausible).is_some();
        match claims {
            Some(_) if is_limited => Err(Rejection::TooMany),
            Some(claims) if is_signed => {
                let identity = Arc::new(identity(&claims));
                Ok(self.signatures.insert(digest, VerifiedToken { claims, identity }))
            }
            Some(_) => {
                self.signatures.count_invalid(source);
                Err(Rejection::Foreign)
            }
            None => Err(Rejection::Foreign),
        }
    }

    /// Checks that all objects that the token is bound to exist.
    fn check_bound(&self, claims: &Claims, now_seconds: i64) -> Result<(), Rejection> {
        let owner = &claims.owner;
        let bound = [
            ("ServiceAccount", "serviceaccounts", Some(&owner.serviceaccount)),
            ("Pod", "pods", owner.pod.as_ref()),
            ("Secret", "secrets", owner.secret.as_ref()),
        ];
        for (kind, plural, reference) in bound {
            if let Some(reference) = reference
                && !self.exists(plural, &owner.namespace, reference, now_seconds)
            {
                return Err(Rejection::BoundObjectGone { kind });
            }
        }
        let is_node_valid = owner.node.as_ref().is_none_or(|node| match owner.pod {
            Some(_) => self.has_node_of_pod(node),
            None => self.exists("nodes", "", node, now_seconds),
        });
        if is_node_valid {
            Ok(())
        } else {
            Err(Rejection::BoundObjectGone { kind: "Node" })
        }
    }

    /// Returns true if the Node of a token's Pod exists. A Node of another UID counts as the same one, unless its host
    /// has joined with a token. An agent with a certificate of an administrator registers its deleted Node again. Its
    /// Pods then keep their tokens.
    fn has_node_of_pod(&self, reference: &Reference) -> bool {
        let entry = kind::find("", "v1", "nodes").and_then(|kind| {
            let index = self.store.index();
            index.get(&kind.store_key("", &reference.name))
        });
        entry.is_some_and(|entry| {
            serde_json::from_slice::<StoredNode>(&entry.value).is_ok_and(|node| {
                let metadata = node.metadata;
                let has_joined = || {
                    let annotations = metadata.annotations.as_ref();
                    annotations.is_some_and(|all| all.contains_key(INCARNATION))
                };
                let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
                !is_removed(metadata.deletion_timestamp.is_some(), finalizers)
                    && (metadata.uid == reference.uid || !has_joined())
            })
        })
    }

    fn exists(&self, plural: &str, namespace: &str, reference: &Reference, now_seconds: i64) -> bool {
        let Some(kind) = kind::find("", "v1", plural) else {
            return false;
        };
        let entry = self
            .store
            .index()
            .get(&kind.store_key(namespace, &reference.name));
        entry.is_some_and(|entry| {
            serde_json::from_slice::<StoredObject<'_>>(&entry.value).is_ok_and(|object| {
                let metadata = object.metadata;
                let is_terminating = metadata
                    .deletion_timestamp
                    .and_then(|time| time.parse::<Timestamp>().ok())
                    .is_some_and(|time| time.as_second() + DELETION_LEEWAY_SECONDS < now_seconds);
                metadata.uid == reference.uid && !is_terminating
            })
        })
    }
}

/// View of a stored object: identity and deletion time.
#[derive(Deserialize)]
struct StoredObject<'o> {
    #[serde(borrow)]
    metadata: StoredMetadata<'o>,
}

/// Metadata of a stored object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMetadata<'o> {
    uid: &'o str,
    #[serde(borrow, default)]
    deletion_timestamp: Option<&'o str>,
}

/// View of a stored Node: identity and annotations.
#[derive(Deserialize)]
struct StoredNode {
    metadata: StoredNodeMetadata,
}

/// Metadata of a stored Node.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredNodeMetadata {
    uid: String,
    annotations: Option<HashMap<String, String>>,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
}

fn identity(claims: &Claims) -> Identity {
    const PREFIX: &str = "authentication.kubernetes.io";
    let owner = &claims.owner;
    let mut extra = Vec::new();
    if !claims.jti.is_empty() {
        extra.push((CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.jti)]));
    }
    for (kind, reference) in [("node", &owner.node), ("pod", &owner.pod)] {
        if let Some(reference) = reference {
            extra.push((format!("{PREFIX}/{kind}-name"), vec![reference.name.clone()]));
            extra.push((format!("{PREFIX}/{kind}-uid"), vec![reference.uid.clone()]));
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
        certificate: None,
    }
}
