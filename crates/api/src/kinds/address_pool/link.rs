//! Link patterns, as pools and flags write them: `eth1`, or `bond*` for all links with that prefix.

use std::fmt;
use std::str::FromStr;

/// Longest link name in bytes: `IFNAMSIZ` of `linux/if.h` without the terminating zero.
const NAME_BYTES_MAX: usize = 15;

/// Name of a link, or prefix of link names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkPattern {
    /// Link of this name.
    Name(String),
    /// Links with this prefix; `*` alone matches all.
    Prefix(String),
}

/// Error of a text that matches no link name. A retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkPatternError {
    /// Empty text.
    #[error("must be the name of a link, such as eth1, or a prefix of names, such as bond*")]
    Empty,
    /// Longer than a link name.
    #[error("must be at most {NAME_BYTES_MAX} bytes, the longest name of a link")]
    TooLong,
    /// Character that link names do not contain.
    #[error("must not contain '/', ':' or white space, and '*' only at the end")]
    Character,
}

impl LinkPattern {
    /// Returns true if the pattern matches the link name.
    pub fn matches(&self, link: &str) -> bool {
        match self {
            Self::Name(name) => link == name,
            Self::Prefix(prefix) => link.starts_with(prefix.as_str()),
        }
    }
}

impl FromStr for LinkPattern {
    type Err = LinkPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        let is_foreign =
            |character: char| matches!(character, '/' | ':' | '*' | '\0') || character.is_whitespace();
        if text.is_empty() {
            Err(LinkPatternError::Empty)
        } else if name.len() > NAME_BYTES_MAX {
            Err(LinkPatternError::TooLong)
        } else if name.contains(is_foreign) {
            Err(LinkPatternError::Character)
        } else if is_prefix {
            Ok(Self::Prefix(name.to_owned()))
        } else {
            Ok(Self::Name(name.to_owned()))
        }
    }
}

impl fmt::Display for LinkPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}
