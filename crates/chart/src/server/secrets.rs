//! Random secrets and their digests. Only digests are compared, so the time of a comparison shows nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// Digest of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of a secret.
    pub fn of(secret: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
        Self(bytes)
    }
}

/// The kernel provides no random numbers. A retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel provides no random numbers")]
pub struct NoRandomNumbers;

/// Returns a new secret, as text for URLs and cookies.
///
/// # Errors
///
/// [`NoRandomNumbers`] if the kernel provides none.
pub(super) fn new_secret() -> Result<String, NoRandomNumbers> {
    let mut bytes = [0; SECRET_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| NoRandomNumbers)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the SHA-256 of a content in hexadecimal digits.
pub(super) fn hex_digest(content: &[u8]) -> String {
    let digest = digest(&SHA256, content);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
