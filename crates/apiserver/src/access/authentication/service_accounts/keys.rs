//! Keys for ServiceAccount tokens: ECDSA on P-256 (`ES256` of RFC 7518).
//!
//! `sa.key` holds the private key. `sa.pub` holds its public key and those of earlier keys, newest first. A key is
//! replaced after [`KEY_LIFETIME`]. No token is valid for longer, and [`PUBLIC_KEYS_MAX`] public keys are kept, so
//! tokens stay valid until their own expiration. Servers that share a store share these files, as they share the
//! cluster CA alongside them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use trust::private_file;

/// Period in which a key signs, and the longest lifetime of a token: one year.
pub(crate) const KEY_LIFETIME: Duration = Duration::from_secs(365 * 86_400);
/// Number of public keys that are kept: the current key, the previous key, whose tokens can be valid, and one more. The
/// last one covers a replacement by an administrator in between.
const PUBLIC_KEYS_MAX: usize = 3;
/// Algorithm name in token headers.
const ALGORITHM: &str = "ES256";
/// Length of an uncompressed point: a marker byte and two coordinates. It ends the encoded public key.
const POINT_BYTES: usize = 65;
const COORDINATE_BYTES: usize = 32;
/// Longest token header in base64. Own headers name algorithm and key in about 100 bytes.
const HEADER_TEXT_BYTES_MAX: usize = 256;
/// Length of a signature (two coordinates) in base64 without padding.
const SIGNATURE_TEXT_BYTES: usize = (2 * COORDINATE_BYTES * 4).div_ceil(3);

/// Failure to open keys or to sign a token.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file cannot be read or written. A retry helps once the file is accessible.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A file contains no usable key. After the removal of the file, the server creates a new key, and rejects tokens
    /// of the old key.
    #[error("{} is not a P-256 key in PEM ({reason}); remove it and a new key is created", path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
    /// A key cannot be generated, or a token cannot be signed.
    #[error("the signing key cannot be used: {0}")]
    Crypto(String),
}

/// The signing key, and the public keys that verify tokens.
pub(crate) struct Keys {
    signing: EcdsaKeyPair,
    public: Vec<PublicKey>,
}

/// Public key, with the ID that token headers contain.
struct PublicKey {
    id: String,
    point: Vec<u8>,
}

impl Keys {
    /// Reads the keys of a directory. Creates a signing key if there is no key or its period is over.
    pub(crate) fn open(directory: &Path, now: SystemTime) -> Result<Keys, KeyError> {
        let (key_path, public_path) = (directory.join("sa.key"), directory.join("sa.pub"));
        let current = read(&key_path)?.filter(|_| !is_old(&key_path, now));
        let pair = match current {
            Some(pem) => KeyPair::from_pem(&pem).map_err(|error| unusable(&key_path, error))?,
            None => {
                let pair = KeyPair::generate().map_err(|error| KeyError::Crypto(error.to_string()))?;
                write(&key_path, &pair.serialize_pem())?;
                pair
            }
        };
        let der = PrivatePkcs8KeyDer::from_pem_slice(pair.serialize_pem().as_bytes())
            .map_err(|error| unusable(&key_path, error))?;
        let signing = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            der.secret_pkcs8_der(),
            &SystemRandom::new(),
        )
        .map_err(|error| unusable(&key_path, error))?;
        let previous = read(&public_path)?.unwrap_or_default();
        let own = pair.public_key_pem();
        let text = newest_first(&own, &previous);
        if text != previous {
            write(&public_path, &text)?;
        }
        let public = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes())
            .map(|key| {
                let key = key.map_err(|error| unusable(&public_path, error))?;
                PublicKey::new(&key)
                    .ok_or_else(|| unusable(&public_path, "expected an uncompressed point on P-256"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Keys { signing, public })
    }

    /// Signs claims; returns the token.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, KeyError> {
        let id = self.public.first().map(|key| key.id.as_str()).unwrap_or_default();
        let header = json!({"alg": ALGORITHM, "kid": id});
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self
            .signing
            .sign(&SystemRandom::new(), token.as_bytes())
            .map_err(|error| KeyError::Crypto(error.to_string()))?;
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(signature));
        Ok(token)
    }

    /// Returns the claims of a token that one of the keys signed. `is_plausible` filters claims before their signature
    /// is verified, because unauthenticated clients can send tokens, and the verification needs most of the CPU time.
    pub(crate) fn verify(&self, token: &str, is_plausible: impl FnOnce(&[u8]) -> bool) -> Option<Vec<u8>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        if header.len() > HEADER_TEXT_BYTES_MAX || signature.len() != SIGNATURE_TEXT_BYTES {
            return None;
        }
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        if header.get("alg")?.as_str()? != ALGORITHM {
            return None;
        }
        let id = header.get("kid")?.as_str()?;
        let key = self.public.iter().find(|key| key.id == id)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
        if !is_plausible(&claims) {
            return None;
        }
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key.point)
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        Some(claims)
    }

    /// Returns the public keys as a JWK set (RFC 7517).
    pub(crate) fn jwk_set(&self) -> Value {
        let keys = self.public.iter().map(|key| {
            let (x, y) = key.point[1..].split_at(COORDINATE_BYTES);
            json!({
                "use": "sig",
                "kty": "EC",
                "kid": key.id,
                "crv": "P-256",
                "alg": ALGORITHM,
                "x": URL_SAFE_NO_PAD.encode(x),
                "y": URL_SAFE_NO_PAD.encode(y),
            })
        });
        json!({"keys": keys.collect::<Vec<_>>()})
    }

    /// Returns the algorithm of token signatures.
    pub(crate) fn algorithm(&self) -> &'static str {
        ALGORITHM
    }
}

impl PublicKey {
    /// Reads a public key from its SubjectPublicKeyInfo (RFC 5480), which ends in the point.
    fn new(encoded: &[u8]) -> Option<PublicKey> {
        let point = encoded.get(encoded.len().checked_sub(POINT_BYTES)?..)?;
        // 4 marks an uncompressed point (SEC 1, section 2.3.3).
        (point[0] == 4).then(|| PublicKey {
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(encoded)),
            point: point.to_vec(),
        })
    }
}

/// Returns the content of `sa.pub`: the signing key's public key, then earlier ones, limited to [`PUBLIC_KEYS_MAX`].
fn newest_first(own: &str, previous: &str) -> String {
    const END: &str = "-----END PUBLIC KEY-----";
    let own = own.replace('\r', "");
    let others = previous
        .split_inclusive(END)
        .map(str::trim)
        .filter(|key| key.ends_with(END) && *key != own.trim());
    let mut text = String::new();
    for key in std::iter::once(own.trim()).chain(others).take(PUBLIC_KEYS_MAX) {
        text.push_str(key);
        text.push('\n');
    }
    text
}

fn is_old(path: &Path, now: SystemTime) -> bool {
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    written.is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age > KEY_LIFETIME))
}

fn read(path: &Path) -> Result<Option<String>, KeyError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyError::File {
            path: path.to_owned(),
            source,
        }),
    }
}

fn write(path: &Path, text: &str) -> Result<(), KeyError> {
    private_file::write(path, text.as_bytes()).map_err(|source| KeyError::File {
        path: path.to_owned(),
        source,
    })
}

fn unusable(path: &Path, reason: impl ToString) -> KeyError {
    KeyError::Unusable {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}
