//! Join tokens: `ID.SECRET.sha256:HEX`, a bootstrap token and the hash of the cluster CA.
//!
//! The node proves itself with the bootstrap token, the server with the CA. The hash can be given separately.

use std::fmt;
use std::str::FromStr;

use api::bootstrap_token::Token;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Prefix of a hash.
const PREFIX: &str = "sha256:";
const HEX_DIGITS: usize = 64;
/// Characters of a line of PEM (RFC 7468, section 2).
const PEM_LINE_CHARACTERS: usize = 64;

/// SHA-256 of a CA's SubjectPublicKeyInfo in DER, as kubeadm computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuthorityHash([u8; 32]);

/// Text that is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a CA hash of the form sha256: and 64 hexadecimal digits")]
pub(crate) struct MalformedHash;

impl AuthorityHash {
    /// Returns the hash of the first certificate's key in PEM text, or `None` if the text is not a certificate.
    pub(crate) fn of(certificates: &str) -> Option<Self> {
        // The parser of TLS: another one could find another first certificate.
        let mut all = CertificateDer::pem_slice_iter(certificates.as_bytes());
        Self::of_der(&all.next()?.ok()?)
    }

    /// Returns those certificates of PEM text whose key has this hash, as PEM.
    pub(crate) fn pinned(self, certificates: &str) -> String {
        // Up to the first error, after which the parser does not proceed.
        let all = CertificateDer::pem_slice_iter(certificates.as_bytes()).map_while(Result::ok);
        let pinned = all.filter(|certificate| Self::of_der(certificate) == Some(self));
        pinned.map(|certificate| pem(&certificate)).collect()
    }

    fn of_der(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
        rest.is_empty()
            .then(|| Self(Sha256::digest(parsed.public_key().raw).into()))
    }
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in STANDARD
        .encode(certificate)
        .as_bytes()
        .chunks(PEM_LINE_CHARACTERS)
    {
        text.extend(line.iter().copied().map(char::from));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

impl FromStr for AuthorityHash {
    type Err = MalformedHash;

    fn from_str(text: &str) -> Result<Self, MalformedHash> {
        let hex = text
            .strip_prefix(PREFIX)
            .filter(|hex| hex.len() == HEX_DIGITS)
            .ok_or(MalformedHash)?;
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| MalformedHash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| MalformedHash)?;
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

/// Token with which a node joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinToken {
    /// Bootstrap token of the node.
    pub token: Token,
    /// Hash of the cluster CA, which the server must have.
    pub hash: Option<AuthorityHash>,
}

/// Text that is not a join token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MalformedJoinToken {
    /// The bootstrap token is malformed.
    #[error("{0}")]
    Token(#[source] <Token as FromStr>::Err),
    /// The hash is malformed.
    #[error("{0}")]
    Hash(#[from] MalformedHash),
}

impl FromStr for JoinToken {
    type Err = MalformedJoinToken;

    fn from_str(text: &str) -> Result<Self, MalformedJoinToken> {
        let (token, hash) = match text.find(&format!(".{PREFIX}")) {
            Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
            None => (text, None),
        };
        Ok(Self {
            token: token.parse().map_err(MalformedJoinToken::Token)?,
            hash: hash.map(str::parse).transpose()?,
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
