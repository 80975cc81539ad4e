//! Bootstrap tokens: credentials with which a new node requests its first certificate. Each token is a Secret
//! `bootstrap-token-ID` in `kube-system`, in the format of kubeadm.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::kinds::certificates::Incarnation;
use crate::machinery::tree::{child, text};

/// Namespace of the Secrets.
pub const NAMESPACE: &str = "kube-system";
/// Prefix of the Secrets' names.
pub const NAME_PREFIX: &str = "bootstrap-token-";
/// Type of the Secrets.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Prefix of the user names of tokens.
pub const USER_PREFIX: &str = "system:bootstrap:";
/// Group of all users of tokens.
pub const GROUP: &str = "system:bootstrappers";
/// Default further group of tokens for joining nodes.
pub const JOINING_GROUP: &str = "system:bootstrappers:portolan:default-node-token";

/// Entries of the Secret for a replacement: name of the Node, and its incarnation.
const REPLACES_NODE: &str = "portolan-replaces-node";
const REPLACES_INCARNATION: &str = "portolan-replaces-incarnation";

const ID_LETTERS: usize = 6;
const SECRET_LETTERS: usize = 16;

/// Bootstrap token, `ID.SECRET`: six and sixteen lower-case letters and digits. `Display` shows all of it, `Debug`
/// the ID only.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Public part.
    pub id: String,
    /// Secret part.
    pub secret: String,
}

/// Error of a text that is not a token. The message omits the text, which may be a token with a typing error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a token of the form abcdef.0123456789abcdef: 6 and 16 small letters and digits")]
pub struct TokenError;

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let (id, secret) = text.split_once('.').ok_or(TokenError)?;
        let is_of = |text: &str, letters: usize| {
            text.len() == letters
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if is_of(id, ID_LETTERS) && is_of(secret, SECRET_LETTERS) {
            Ok(Self {
                id: id.to_owned(),
                secret: secret.to_owned(),
            })
        } else {
            Err(TokenError)
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.secret)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.…", self.id)
    }
}

impl Token {
    /// Generates a token. `random` returns a number below its argument, from a cryptographic source.
    pub fn generate(mut random: impl FnMut(usize) -> usize) -> Self {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let mut letters = |count: usize| -> String {
            let picked = (0..count).map(|_| LETTERS.get(random(LETTERS.len())).copied().unwrap_or(b'0'));
            picked.map(char::from).collect()
        };
        Self {
            id: letters(ID_LETTERS),
            secret: letters(SECRET_LETTERS),
        }
    }

    /// Returns the name of the token's Secret.
    pub fn secret_name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.id)
    }
}

/// Properties of a new token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Human-readable description.
    pub text: String,
    /// Expiration as an RFC 3339 time; `None` for never.
    pub expiration: Option<String>,
    /// Groups in addition to [`GROUP`], each with its prefix.
    pub groups: Vec<String>,
    /// Node that the token may replace once: name and incarnation.
    pub replaces: Option<(String, Incarnation)>,
}

/// Returns the Secret of a token for authentication.
pub fn secret(token: &Token, description: &Description) -> Value {
    let mut data = json!({
        "token-id": token.id,
        "token-secret": token.secret,
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
    });
    let groups = description.groups.join(",");
    let (replaced, incarnation) = description
        .replaces
        .as_ref()
        .map(|(name, incarnation)| (name.clone(), incarnation.to_string()))
        .unzip();
    let more = [
        ("description", Some(&description.text)),
        ("expiration", description.expiration.as_ref()),
        ("auth-extra-groups", Some(&groups)),
        (REPLACES_NODE, replaced.as_ref()),
        (REPLACES_INCARNATION, incarnation.as_ref()),
    ];
    for (key, value) in more {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            data[key] = json!(value);
        }
    }
    json!({"apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
           "metadata": {"name": token.secret_name(), "namespace": NAMESPACE}, "stringData": data})
}

/// Stored Secret of a token.
#[derive(Clone, Debug)]
pub struct StoredToken<'s> {
    secret: &'s Value,
}

impl<'s> StoredToken<'s> {
    /// Reads a Secret; `None` if it is not the Secret of a token.
    pub fn of(secret: &'s Value) -> Option<Self> {
        let name = text(child(secret, "metadata"), "name");
        let stored = Self { secret };
        let is_token = text(secret, "type") == SECRET_TYPE
            && name.strip_prefix(NAME_PREFIX) == Some(stored.get("token-id").as_str());
        is_token.then_some(stored)
    }

    /// Returns the decoded entry, "" if it is absent.
    pub fn get(&self, key: &str) -> String {
        let bytes = STANDARD
            .decode(text(child(self.secret, "data"), key))
            .unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Returns the groups in addition to [`GROUP`]; `None` if the Secret names a group that a token cannot have.
    pub fn groups(&self) -> Option<Vec<String>> {
        let text = self.get("auth-extra-groups");
        let groups = text.split(',').map(str::trim).filter(|group| !group.is_empty());
        groups
            .map(|group| is_extra_group(group).then(|| group.to_owned()))
            .collect()
    }

    /// Returns the Node that the token may replace once: name and incarnation.
    pub fn replaced_node(&self) -> Option<(String, Incarnation)> {
        let name = self.get(REPLACES_NODE);
        (!name.is_empty()).then(|| (name, Incarnation::from_text(&self.get(REPLACES_INCARNATION))))
    }

    /// Returns true if the token is valid for authentication.
    pub fn is_for_authentication(&self) -> bool {
        self.get("usage-bootstrap-authentication") == "true"
    }

    /// Returns true if the token has expired. An expiration that cannot be parsed counts as expired.
    pub fn is_expired(&self, now: jiff::Timestamp) -> bool {
        let text = self.get("expiration");
        !text.is_empty() && text.parse::<jiff::Timestamp>().map_or(true, |end| end <= now)
    }

    /// Returns the seconds until the expiration; `None` for a token that does not expire.
    pub fn seconds_left(&self, now: jiff::Timestamp) -> Option<i64> {
        let end = self.get("expiration").parse::<jiff::Timestamp>().ok()?;
        Some(end.as_second() - now.as_second())
    }
}

/// Returns true if a token may carry the group.
pub fn is_extra_group(group: &str) -> bool {
    group
        .strip_prefix(GROUP)
        .and_then(|rest| rest.strip_prefix(':'))
        .is_some_and(|rest| {
            let allowed =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b':' || byte == b'-';
            rest.len() <= 256
                && rest.bytes().all(allowed)
                && rest
                    .ends_with(|character: char| character.is_ascii_lowercase() || character.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests;
