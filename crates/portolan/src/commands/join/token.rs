//! The text that `portolan token create` prints and `portolan join --token` takes: `ID.SECRET.sha256:HEX`, a bootstrap
//! token and the hash of the authority that the server proves itself by. The hash may come by itself, too.

use std::fmt;
use std::str::FromStr;

use api::bootstrap_token::Token;
use sha2::{Digest, Sha256};
use x509_parser::pem::Pem;

/// What the text of a hash begins with.
const PREFIX: &str = "sha256:";
const HEX_DIGITS: usize = 64;

/// The SHA-256 of an authority's public key (of its SubjectPublicKeyInfo in DER, as kubeadm has it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorityHash([u8; 32]);

/// Not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hash of an authority has the form sha256: and 64 hexadecimal digits")]
pub struct NoHash;

impl AuthorityHash {
    /// The hash of a certificate's key, PEM; `None` if it is no certificate.
    pub fn of(certificate: &str) -> Option<Self> {
        let block = Pem::iter_from_buffer(certificate.as_bytes()).next()?.ok()?;
        let parsed = block.parse_x509().ok()?;
        Some(Self(Sha256::digest(parsed.public_key().raw).into()))
    }
}

impl FromStr for AuthorityHash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        let hex = text
            .strip_prefix(PREFIX)
            .filter(|hex| hex.len() == HEX_DIGITS)
            .ok_or(NoHash)?;
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NoHash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NoHash)?;
        }
        Ok(Self(hash))
    }
}

impl fmt::Display for AuthorityHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a machine joins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinToken {
    /// By which it proves itself.
    pub token: Token,
    /// By which the server does.
    pub hash: Option<AuthorityHash>,
}

impl FromStr for JoinToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (token, hash) = match text.find(&format!(".{PREFIX}")) {
            Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
            None => (text, None),
        };
        Ok(Self {
            token: token.parse().map_err(|error| format!("{error}"))?,
            hash: hash
                .map(str::parse)
                .transpose()
                .map_err(|error: NoHash| error.to_string())?,
        })
    }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.token)?;
        self.hash.map_or(Ok(()), |hash| write!(f, ".{hash}"))
    }
}

#[cfg(test)]
mod tests;
