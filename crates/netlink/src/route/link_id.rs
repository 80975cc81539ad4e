//! Index and name of a link.

use std::fmt;
use std::str::FromStr;

use super::error::RouteError;

/// Maximum length of a link's name in bytes (`IFNAMSIZ` without the terminating zero).
pub const NAME_BYTES_MAX: usize = 15;

/// Index of a link in its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkIndex(pub u32);

/// Name of a link: 1 to [`NAME_BYTES_MAX`] bytes, no blank, no `/` (`dev_valid_name` of the kernel).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkName(String);

impl LinkName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LinkName {
    type Err = RouteError;

    fn from_str(name: &str) -> Result<Self, RouteError> {
        let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && name != "." && name != "..";
        let plain = !name
            .bytes()
            .any(|byte| matches!(byte, b'/' | b':' | 0) || byte.is_ascii_whitespace());
        if fits && plain {
            Ok(Self(name.to_owned()))
        } else {
            Err(RouteError::Name {
                name: name.to_owned(),
            })
        }
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
