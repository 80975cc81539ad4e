//! Names of links, as pools and flags write them: `eth1`, or `bond*` for all that begin so.

use std::fmt;
use std::str::FromStr;

/// Longest name of a link in bytes: the kernel keeps 16 with a zero behind (`IFNAMSIZ` of `linux/if.h`).
const NAME_BYTES_MAX: usize = 15;

/// The name of a link, or the beginning of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkPattern {
    /// This link.
    Name(String),
    /// All whose names begin so; `*` alone is all of them.
    Beginning(String),
}

/// A text that no link can be called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkPatternError {
    /// Nothing is there.
    #[error("must be the name of a link, such as eth1, or the beginning of names, such as bond*")]
    Empty,
    /// The kernel has no such names.
    #[error("must be no longer than {NAME_BYTES_MAX} bytes, as names of links are")]
    TooLong,
    /// The kernel has no such names.
    #[error("must not contain '/', ':' or white space, and '*' only at the end")]
    Character,
}

impl LinkPattern {
    /// Whether the link of that name is meant.
    pub fn matches(&self, link: &str) -> bool {
        match self {
            Self::Name(name) => link == name,
            Self::Beginning(start) => link.starts_with(start.as_str()),
        }
    }
}

impl FromStr for LinkPattern {
    type Err = LinkPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, is_beginning) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        let is_foreign = |c: char| matches!(c, '/' | ':' | '*' | '\0') || c.is_whitespace();
        if text.is_empty() {
            Err(LinkPatternError::Empty)
        } else if name.len() > NAME_BYTES_MAX {
            Err(LinkPatternError::TooLong)
        } else if name.contains(is_foreign) {
            Err(LinkPatternError::Character)
        } else if is_beginning {
            Ok(Self::Beginning(name.to_owned()))
        } else {
            Ok(Self::Name(name.to_owned()))
        }
    }
}

impl fmt::Display for LinkPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Beginning(start) => write!(f, "{start}*"),
        }
    }
}
