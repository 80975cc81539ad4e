//! The providers of upstream's `EncryptionConfiguration`.
//!
//! A stored value is `k8s:enc:PROVIDER:v1:KEY:`, followed by the ciphertext of the packed value (upstream:
//! `value/encrypt/aes`, `value/encrypt/secretbox`, `value/transformer.go`):
//!
//! - `aescbc`: a random IV of 16 bytes, then AES-CBC with PKCS #7 padding. It is not authenticated.
//! - `aesgcm`: a random nonce of 12 bytes, then AES-GCM with the store key as associated data.
//! - `secretbox`: a random nonce of 24 bytes, then XSalsa20-Poly1305.
//! - `identity`: the value as it is.

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{AesGcm, Nonce};
use bytes::Bytes;
use crypto_secretbox::XSalsa20Poly1305;
use ring::rand::{SecureRandom, SystemRandom};
use store::{Value, is_sealed};
use zeroize::Zeroizing;

/// Upstream's error for an encrypted value that no provider decrypts.
pub(super) const IDENTITY_READS_ENCRYPTED: &str = "identity transformer tried to read encrypted data";
const NO_PREFIX: &str = "no matching prefix found";
const NO_RANDOMNESS: &str = "the system's random number generator failed";
const UNREADABLE: &str = "decrypted data is not a stored value";
const IV_BYTES: usize = 16;
const GCM_NONCE_BYTES: usize = 12;
const SECRETBOX_NONCE_BYTES: usize = 24;

/// Encryption algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    AesCbc,
    AesGcm,
    Secretbox,
}

impl Algorithm {
    /// Returns the prefix of encrypted values (upstream's `aesCBCTransformerPrefixV1` and similar).
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::AesCbc => "k8s:enc:aescbc:v1:",
            Self::AesGcm => "k8s:enc:aesgcm:v1:",
            Self::Secretbox => "k8s:enc:secretbox:v1:",
        }
    }

    /// Returns the permitted key lengths, in bytes.
    pub(super) fn key_bytes(self) -> &'static [usize] {
        match self {
            Self::AesCbc | Self::AesGcm => &[16, 24, 32],
            Self::Secretbox => &[32],
        }
    }

    fn no_key(self) -> &'static str {
        match self {
            Self::AesCbc | Self::AesGcm => "no matching key was found for the provided AES transformer",
            Self::Secretbox => "no matching key was found for the provided Secretbox transformer",
        }
    }
}

/// A named key whose length is valid for its algorithm.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) secret: Zeroizing<Vec<u8>>,
}

/// A provider of the configuration.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Provider {
    Identity,
    Keys {
        algorithm: Algorithm,
        /// Keys in order; the first one encrypts, all decrypt.
        keys: Vec<Key>,
    },
}

/// The providers of a resource in order. The first one encrypts, all decrypt.
#[derive(Clone, Default)]
pub(super) struct Providers(pub(super) Vec<Provider>);

/// Age of a stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The form that a write would produce now.
    Current,
    /// The form of another provider or key.
    Older,
}

impl Providers {
    /// Returns the stored form of a value.
    pub(super) fn seal(&self, store_key: &str, value: &Value) -> Result<Value, String> {
        let Some(Provider::Keys { algorithm, keys }) = self.0.first() else {
            return Ok(value.clone());
        };
        let key = keys.first().ok_or(NO_PREFIX)?;
        let mut sealed = format!("{}{}:", algorithm.prefix(), key.name).into_bytes();
        encrypt(*algorithm, &key.secret, store_key, &value.packed(), &mut sealed)?;
        Ok(Value::sealed(sealed.into()))
    }

    /// Decrypts a stored form with the first provider and key that match.
    pub(super) fn open(&self, store_key: &str, stored: &Value) -> Result<(Value, Form), String> {
        let mut failures = Vec::new();
        for (number, provider) in self.0.iter().enumerate() {
            let form = |key: usize| match (number, key) {
                (0, 0) => Form::Current,
                _ => Form::Older,
            };
            match provider {
                Provider::Identity if !is_sealed(&stored.bytes) => return Ok((stored.clone(), form(0))),
                Provider::Identity => failures.push(IDENTITY_READS_ENCRYPTED.to_owned()),
                Provider::Keys { algorithm, keys } => {
                    let Some(after_prefix) = stored.bytes.strip_prefix(algorithm.prefix().as_bytes()) else {
                        continue;
                    };
                    let failures_before = failures.len();
                    for (number, key) in keys.iter().enumerate() {
                        let Some(sealed) = after_name(after_prefix, &key.name) else {
                            continue;
                        };
                        match decrypt(*algorithm, &key.secret, store_key, sealed) {
                            Ok(value) => return Ok((value, form(number))),
                            Err(failure) => failures.push(failure),
                        }
                    }
                    if failures.len() == failures_before {
                        failures.push(algorithm.no_key().to_owned());
                    }
                }
            }
        }
        // The provider `identity` reports only that no provider decrypted the value, so the failure of a key has
        // precedence.
        let is_specific = |failure: &&String| *failure != IDENTITY_READS_ENCRYPTED;
        let failure = failures.iter().find(is_specific).or(failures.first());
        Err(failure.cloned().unwrap_or_else(|| NO_PREFIX.to_owned()))
    }

    /// Returns the prefix of newly written values; "" without encryption.
    pub(super) fn written_prefix(&self) -> &'static str {
        match self.0.first() {
            Some(Provider::Keys { algorithm, .. }) => algorithm.prefix(),
            Some(Provider::Identity) | None => "",
        }
    }

    /// Returns true if both write values in the same form.
    pub(super) fn writes_like(&self, others: &Providers) -> bool {
        match (self.0.first(), others.0.first()) {
            (
                Some(Provider::Keys { algorithm, keys }),
                Some(Provider::Keys {
                    algorithm: other,
                    keys: others,
                }),
            ) => algorithm == other && keys.first() == others.first(),
            (Some(Provider::Keys { .. }), _) | (_, Some(Provider::Keys { .. })) => false,
            _ => true,
        }
    }
}

/// Returns the provider prefix of a stored value; "" for a plain value, `unknown` for an unknown provider.
pub(super) fn prefix_of(stored: &[u8]) -> &'static str {
    let prefixes = [Algorithm::AesCbc, Algorithm::AesGcm, Algorithm::Secretbox].map(Algorithm::prefix);
    match prefixes
        .iter()
        .find(|prefix| stored.starts_with(prefix.as_bytes()))
    {
        Some(prefix) => prefix,
        None if is_sealed(stored) => "unknown",
        None => "",
    }
}

fn after_name<'v>(after_prefix: &'v [u8], name: &str) -> Option<&'v [u8]> {
    after_prefix.strip_prefix(name.as_bytes())?.strip_prefix(b":")
}

fn encrypt(
    algorithm: Algorithm,
    key: &[u8],
    store_key: &str,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match algorithm {
        Algorithm::AesCbc => {
            let iv: [u8; IV_BYTES] = random()?;
            out.extend(iv);
            out.extend(match key.len() {
                16 => cbc_encrypt::<Aes128>(key, &iv, plain)?,
                24 => cbc_encrypt::<Aes192>(key, &iv, plain)?,
                _ => cbc_encrypt::<Aes256>(key, &iv, plain)?,
            });
        }
        Algorithm::AesGcm => {
            let nonce: [u8; GCM_NONCE_BYTES] = random()?;
            out.extend(nonce);
            let payload = Payload {
                msg: plain,
                aad: store_key.as_bytes(),
            };
            let nonce = Nonce::from_slice(&nonce);
            out.extend(
                match key.len() {
                    16 => gcm::<Aes128>(key)?.encrypt(nonce, payload),
                    24 => gcm::<Aes192>(key)?.encrypt(nonce, payload),
                    _ => gcm::<Aes256>(key)?.encrypt(nonce, payload),
                }
                .map_err(|_| "the value is too long for AES-GCM")?,
            );
        }
        Algorithm::Secretbox => {
            let nonce: [u8; SECRETBOX_NONCE_BYTES] = random()?;
            out.extend(nonce);
            let sealed = secretbox(key)?.encrypt(crypto_secretbox::Nonce::from_slice(&nonce), plain);
            out.extend(sealed.map_err(|_| "the value is too long for Secretbox")?);
        }
    }
    Ok(())
}

fn decrypt(algorithm: Algorithm, key: &[u8], store_key: &str, sealed: &[u8]) -> Result<Value, String> {
    let plain = match algorithm {
        Algorithm::AesCbc => {
            let (iv, sealed) = sealed
                .split_first_chunk::<IV_BYTES>()
                .ok_or("the stored data was shorter than the required size")?;
            match key.len() {
                16 => cbc_decrypt::<Aes128>(key, iv, sealed)?,
                24 => cbc_decrypt::<Aes192>(key, iv, sealed)?,
                _ => cbc_decrypt::<Aes256>(key, iv, sealed)?,
            }
        }
        Algorithm::AesGcm => {
            let (nonce, sealed) = sealed
                .split_first_chunk::<GCM_NONCE_BYTES>()
                .ok_or("the stored data was shorter than the required size")?;
            let payload = Payload {
                msg: sealed,
                aad: store_key.as_bytes(),
            };
            let nonce = Nonce::from_slice(nonce);
            match key.len() {
                16 => gcm::<Aes128>(key)?.decrypt(nonce, payload),
                24 => gcm::<Aes192>(key)?.decrypt(nonce, payload),
                _ => gcm::<Aes256>(key)?.decrypt(nonce, payload),
            }
            .map_err(|_| "cipher: message authentication failed")?
        }
        Algorithm::Secretbox => {
            let (nonce, sealed) = sealed
                .split_first_chunk::<SECRETBOX_NONCE_BYTES>()
                .ok_or("the stored data was shorter than the required size")?;
            let opened = secretbox(key)?.decrypt(crypto_secretbox::Nonce::from_slice(nonce), sealed);
            opened.map_err(|_| "output array was not large enough for encryption")?
        }
    };
    Value::unpack(&Bytes::from(plain)).ok_or_else(|| UNREADABLE.to_owned())
}

fn cbc_encrypt<C>(key: &[u8], iv: &[u8], plain: &[u8]) -> Result<Vec<u8>, String>
where
    C: aes::cipher::BlockEncryptMut + aes::cipher::BlockCipher + aes::cipher::KeyInit,
{
    let encryptor = cbc::Encryptor::<C>::new_from_slices(key, iv).map_err(|error| error.to_string())?;
    Ok(encryptor.encrypt_padded_vec_mut::<Pkcs7>(plain))
}

fn cbc_decrypt<C>(key: &[u8], iv: &[u8], sealed: &[u8]) -> Result<Vec<u8>, String>
where
    C: aes::cipher::BlockDecryptMut + aes::cipher::BlockCipher + aes::cipher::KeyInit,
{
    let decryptor = cbc::Decryptor::<C>::new_from_slices(key, iv).map_err(|error| error.to_string())?;
    let opened = decryptor.decrypt_padded_vec_mut::<Pkcs7>(sealed);
    opened.map_err(|_| "invalid padding on input".to_owned())
}

fn gcm<C>(key: &[u8]) -> Result<AesGcm<C, U12>, String>
where
    AesGcm<C, U12>: KeyInit,
{
    KeyInit::new_from_slice(key).map_err(|error: aes::cipher::InvalidLength| error.to_string())
}

fn secretbox(key: &[u8]) -> Result<XSalsa20Poly1305, String> {
    KeyInit::new_from_slice(key).map_err(|error: aes::cipher::InvalidLength| error.to_string())
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], String> {
    let mut octets = [0; BYTES];
    SystemRandom::new().fill(&mut octets).map_err(|_| NO_RANDOMNESS)?;
    Ok(octets)
}
