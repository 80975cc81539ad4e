//! Digests of content: `sha256:…` and `sha512:…` (OCI image specification, "Digests").

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256, Sha512};

#[cfg(test)]
mod tests;

/// Hash function of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// SHA-256, which nearly all images use.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// Reason why a text is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// There is no colon.
    #[error("expected a digest of the form ALGORITHM:HEX, such as sha256:2cf24d…")]
    Form,
    /// The algorithm is not implemented.
    #[error("expected the algorithm sha256 or sha512 in a digest, found another one")]
    Algorithm,
    /// The second part has another length or other characters.
    #[error("expected {} lower-case hexadecimal digits in a {algorithm} digest, found another hash", algorithm.hex_digits())]
    Hash {
        /// Algorithm of the digest.
        algorithm: Algorithm,
    },
}

/// Digest of some content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    hex: Box<str>,
}

impl Digest {
    /// Returns the SHA-256 digest of `content`.
    pub fn sha256(content: &[u8]) -> Self {
        let mut hasher = DigestHasher::new(Algorithm::Sha256);
        hasher.update(content);
        hasher.finish()
    }

    /// Returns the hash function of this digest.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the hash in lower-case hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// Returns the name of a file for the content with this digest.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}", self.algorithm, self.hex)
    }

    /// Returns the digest that [`Digest::file_name`] wrote.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        let (algorithm, hex) = name.split_once('-')?;
        Self::new(algorithm, hex).ok()
    }

    /// Returns `true` if `content` has this digest.
    pub(crate) fn matches(&self, content: &[u8]) -> bool {
        let mut hasher = DigestHasher::new(self.algorithm);
        hasher.update(content);
        hasher.finish() == *self
    }

    fn new(algorithm: &str, hex: &str) -> Result<Self, DigestError> {
        let algorithm = match algorithm {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(DigestError::Algorithm),
        };
        let is_lower_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if hex.len() != algorithm.hex_digits() || !is_lower_hex {
            return Err(DigestError::Hash { algorithm });
        }
        Ok(Self {
            algorithm,
            hex: hex.into(),
        })
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (algorithm, hex) = text.split_once(':').ok_or(DigestError::Form)?;
        Self::new(algorithm, hex)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.algorithm, self.hex)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Algorithm {
    fn hex_digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        })
    }
}

/// Computes the digest of content that arrives in parts.
#[derive(Clone)]
pub(crate) enum DigestHasher {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl DigestHasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Box::new(Sha512::new())),
        }
    }

    pub(crate) fn update(&mut self, content: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(content),
            Self::Sha512(hasher) => hasher.update(content),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        let (algorithm, hex) = match self {
            Self::Sha256(hasher) => (Algorithm::Sha256, lower_hex(&hasher.finalize())),
            Self::Sha512(hasher) => (Algorithm::Sha512, lower_hex(&hasher.finalize())),
        };
        Digest {
            algorithm,
            hex: hex.into(),
        }
    }
}

fn lower_hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        write!(hex, "{byte:02x}").ok();
        hex
    })
}
