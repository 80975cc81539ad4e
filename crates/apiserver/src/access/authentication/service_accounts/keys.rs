//! The keys that tokens are signed with: ECDSA on the curve P-256, as `ES256` of RFC 7518.
//!
//! The private key is in `sa.key`, the public keys of it and of those before it are in `sa.pub`, the newest first.
//! A key is replaced after [`KEY_LIFE`], which no token outlives, so a token is good until its own end. Servers that
//! share a store share these files, as they share the certificate authority beside them.

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

/// How long a key signs, and the longest that a token can be good for: a year.
pub(crate) const KEY_LIFE: Duration = Duration::from_secs(365 * 86_400);
/// Public keys that are kept: the present one, the one before it whose tokens may still be good, and one more for a
/// key that was replaced by hand in between.
const PUBLIC_KEYS_MAX: usize = 3;
/// The name of the algorithm in tokens.
const ALGORITHM: &str = "ES256";
/// Bytes of a point on the curve, uncompressed: a mark and two coordinates. It is the end of the encoded key.
const POINT_BYTES: usize = 65;
const COORDINATE_BYTES: usize = 32;
/// Longest header of a token in base64: ours name an algorithm and a key, in about 100 bytes.
const HEADER_TEXT_BYTES_MAX: usize = 256;
/// A signature of two coordinates in base64 without padding.
const SIGNATURE_TEXT_BYTES: usize = (2 * COORDINATE_BYTES * 4).div_ceil(3);

/// Why tokens cannot be signed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file could not be read or written; retrying helps when that is mended.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds no usable key. Removing it has a new one made; tokens of the old one are refused then.
    #[error("{} is not a key on P-256 in PEM ({reason}); remove it to have one made", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A key could not be made or a token could not be signed.
    #[error("the key cannot be used: {0}")]
    Crypto(String),
}

/// A signing key and the public keys that tokens may be signed for.
pub(crate) struct Keys {
    signing: EcdsaKeyPair,
    public: Vec<PublicKey>,
}

struct PublicKey {
    id: String,
    point: Vec<u8>,
}

impl Keys {
    /// Reads the keys in a directory; makes a new one if there is none, or if the present one is old.
    pub(crate) fn open(directory: &Path, now: SystemTime) -> Result<Keys, KeyError> {
        let (key_path, public_path) = (directory.join("sa.key"), directory.join("sa.pub"));
        let present = read(&key_path)?.filter(|_| !is_old(&key_path, now));
        let pair = match present {
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
        let known = read(&public_path)?.unwrap_or_default();
        let own = pair.public_key_pem();
        let text = newest_first(&own, &known);
        if text != known {
            write(&public_path, &text)?;
        }
        let public = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes())
            .map(|key| {
                let key = key.map_err(|error| unusable(&public_path, error))?;
                PublicKey::new(&key).ok_or_else(|| unusable(&public_path, "another type of key"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Keys { signing, public })
    }

    /// Signs claims; gives the token.
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

    /// The claims of a token that one of the keys signed. `is_plausible` looks at claims that nobody may have signed: the
    /// signature is checked last, since it costs the most and strangers send tokens, too.
    pub(crate) fn verified(&self, token: &str, is_plausible: impl FnOnce(&[u8]) -> bool) -> Option<Vec<u8>> {
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

    /// The public keys as a set of RFC 7517.
    pub(crate) fn set(&self) -> Value {
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

    /// The algorithm that tokens are signed with.
    pub(crate) fn algorithm(&self) -> &'static str {
        ALGORITHM
    }
}

impl PublicKey {
    /// A key from its encoding (RFC 5480), which ends in the point.
    fn new(encoded: &[u8]) -> Option<PublicKey> {
        let point = encoded.get(encoded.len().checked_sub(POINT_BYTES)?..)?;
        // An uncompressed point begins so.
        (point[0] == 4).then(|| PublicKey {
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(encoded)),
            point: point.to_vec(),
        })
    }
}

/// The file of public keys with a key as its first, without those that are too many.
fn newest_first(own: &str, known: &str) -> String {
    const END: &str = "-----END PUBLIC KEY-----";
    let own = own.replace('\r', "");
    let others = known
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
    written.is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age > KEY_LIFE))
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
