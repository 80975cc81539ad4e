//! Bootstrap tokens: by which a machine that is not known yet asks for its first certificate. Each is a Secret
//! `bootstrap-token-ID` in `kube-system`, in upstream's form.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::kinds::certificates::Incarnation;
use crate::machinery::tree::{child, text};

/// Where the Secrets are.
pub const NAMESPACE: &str = "kube-system";
/// What their names begin with.
pub const NAME_PREFIX: &str = "bootstrap-token-";
/// Their type.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// What the names of users with a token begin with.
pub const USER_PREFIX: &str = "system:bootstrap:";
/// The group of all users with a token.
pub const GROUP: &str = "system:bootstrappers";
/// The further group of tokens that machines join with, if none is named.
pub const JOINING_GROUP: &str = "system:bootstrappers:portolan:default-node-token";

/// The entries of a token's Secret that name the Node whose machine may be replaced with it, and its incarnation.
const REPLACES_NODE: &str = "portolan-replaces-node";
const REPLACES_INCARNATION: &str = "portolan-replaces-incarnation";

const ID_LETTERS: usize = 6;
const SECRET_LETTERS: usize = 16;

/// A token, `ID.SECRET`: six and sixteen small letters and digits. Shown as text it is whole; in logs only its ID is.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What may be known.
    pub id: String,
    /// What proves.
    pub secret: String,
}

/// Not a token. It is not shown: it may be one but for a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has the form abcdef.0123456789abcdef: 6 and 16 small letters and digits")]
pub struct NoToken;

impl FromStr for Token {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let (id, secret) = text.split_once('.').ok_or(NoToken)?;
        let is_of = |text: &str, letters: usize| {
            text.len() == letters && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        match is_of(id, ID_LETTERS) && is_of(secret, SECRET_LETTERS) {
            true => Ok(Self {
                id: id.to_owned(),
                secret: secret.to_owned(),
            }),
            false => Err(NoToken),
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
    /// A token out of letters that nobody can guess: `random` gives a number below its argument.
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

    /// The name of the token's Secret.
    pub fn secret_name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.id)
    }
}

/// What a token is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// For people.
    pub text: String,
    /// RFC 3339 time from which on it is worth nothing; `None` for never.
    pub expiration: Option<String>,
    /// Groups beside [`GROUP`], each of which begins with it.
    pub groups: Vec<String>,
    /// The Node whose machine may be replaced with the token, once: its name and its incarnation.
    pub replaces: Option<(String, Incarnation)>,
}

/// The Secret of a token that a machine may prove itself with.
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

/// A token's Secret as it is stored.
#[derive(Clone, Debug)]
pub struct Stored<'s> {
    secret: &'s Value,
}

impl<'s> Stored<'s> {
    /// Reads a Secret; `None` if it is none of a token.
    pub fn of(secret: &'s Value) -> Option<Self> {
        let name = text(child(secret, "metadata"), "name");
        let stored = Self { secret };
        let is_whole = text(secret, "type") == SECRET_TYPE
            && name.strip_prefix(NAME_PREFIX) == Some(stored.get("token-id").as_str());
        is_whole.then_some(stored)
    }

    /// An entry, "" if it is not there.
    pub fn get(&self, key: &str) -> String {
        let bytes = STANDARD
            .decode(text(child(self.secret, "data"), key))
            .unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// The groups beside [`GROUP`]; `None` if one is not to be given by a token.
    pub fn groups(&self) -> Option<Vec<String>> {
        let text = self.get("auth-extra-groups");
        let groups = text.split(',').map(str::trim).filter(|group| !group.is_empty());
        groups
            .map(|group| is_extra_group(group).then(|| group.to_owned()))
            .collect()
    }

    /// The Node whose machine may be replaced with it, once: its name and its incarnation.
    pub fn replaced_node(&self) -> Option<(String, Incarnation)> {
        let name = self.get(REPLACES_NODE);
        (!name.is_empty()).then(|| (name, Incarnation::written(&self.get(REPLACES_INCARNATION))))
    }

    /// Whether a machine may prove itself with it.
    pub fn is_for_authentication(&self) -> bool {
        self.get("usage-bootstrap-authentication") == "true"
    }

    /// Whether it is over at a time. One whose time cannot be read is: nobody knows how long it was meant for.
    pub fn is_expired(&self, now: jiff::Timestamp) -> bool {
        let text = self.get("expiration");
        !text.is_empty() && text.parse::<jiff::Timestamp>().map_or(true, |end| end <= now)
    }

    /// How many seconds it is good for still; `None` if for ever.
    pub fn seconds_left(&self, now: jiff::Timestamp) -> Option<i64> {
        let end = self.get("expiration").parse::<jiff::Timestamp>().ok()?;
        Some(end.as_second() - now.as_second())
    }
}

/// Whether a token may make its owner a member of a group.
pub fn is_extra_group(group: &str) -> bool {
    group
        .strip_prefix(GROUP)
        .and_then(|rest| rest.strip_prefix(':'))
        .is_some_and(|rest| {
            let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b':' || b == b'-';
            rest.len() <= 256
                && rest.bytes().all(allowed)
                && rest.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests;
