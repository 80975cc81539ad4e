//! GUIDs in the layout of Windows.

use std::fmt;
use std::str::FromStr;

/// A GUID, with the memory layout of the C structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Guid {
    /// First group of digits.
    pub data1: u32,
    /// Second group.
    pub data2: u16,
    /// Third group.
    pub data3: u16,
    /// Fourth and fifth group.
    pub data4: [u8; 8],
}

/// Text that is not a GUID. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a GUID such as 00000000-0000-0000-0000-000000000000, found {0:?}")]
pub struct GuidError(pub String);

/// Lengths of the groups of digits.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

impl FromStr for Guid {
    type Err = GuidError;

    /// Parses a GUID with or without braces, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || GuidError(text.to_owned());
        let bare = match text.strip_prefix('{') {
            Some(rest) => rest.strip_suffix('}').ok_or_else(invalid)?,
            None => text,
        };
        let has_groups = bare.split('-').map(str::len).eq(GROUPS);
        let is_hex = bare.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        if !has_groups || !is_hex {
            return Err(invalid());
        }
        let digits = bare.replace('-', "");
        let number = u128::from_str_radix(&digits, 16).map_err(|_| invalid())?;
        let [a, b, c, d, e, f, g, h, data4 @ ..] = number.to_be_bytes();
        Ok(Self {
            data1: u32::from_be_bytes([a, b, c, d]),
            data2: u16::from_be_bytes([e, f]),
            data3: u16::from_be_bytes([g, h]),
            data4,
        })
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X}-{:04X}-{:04X}-", self.data1, self.data2, self.data3)?;
        for (index, byte) in self.data4.iter().enumerate() {
            let separator = if index == 2 { "-" } else { "" };
            write!(f, "{separator}{byte:02X}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
