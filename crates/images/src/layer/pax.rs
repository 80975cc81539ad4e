//! Extended headers of tar archives (POSIX.1-2008, pax, "pax Extended Header").
//!
//! Values can contain any bytes, also line feeds: `security.capability` often does. So the lengths of the records count.

use std::str;

use super::error::EntryError;
use super::limits::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX};

/// Prefix of records with extended attributes, of star and Docker.
const ATTRIBUTE_PREFIX: &[u8] = b"SCHILY.xattr.";
const SPARSE_PREFIX: &[u8] = b"GNU.sparse.";

/// Values of an extended header, which replace those of the header that follows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExtendedHeader {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub user: Option<u64>,
    pub group: Option<u64>,
    pub modified: Option<ModificationTime>,
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Time of the last modification since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModificationTime {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl ExtendedHeader {
    /// Adds the records of an extended header.
    pub(super) fn extend(&mut self, mut records: &[u8]) -> Result<(), EntryError> {
        while !records.is_empty() {
            let (record, rest) = split_record(records).ok_or(EntryError::ExtendedHeader)?;
            records = rest;
            let equals = record.iter().position(|byte| *byte == b'=');
            let (key, value) = record.split_at(equals.ok_or(EntryError::ExtendedHeader)?);
            self.set(key, &value[1..])?;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), EntryError> {
        let bytes = || (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => self.path = bytes(),
            b"linkpath" => self.link = bytes(),
            b"size" => self.size = number(value, "size")?,
            b"uid" => self.user = number(value, "user ID")?,
            b"gid" => self.group = number(value, "group ID")?,
            b"mtime" => self.modified = Some(time(value).ok_or(EntryError::Number("modification time"))?),
            _ if key.starts_with(SPARSE_PREFIX) => return Err(EntryError::Sparse),
            _ => {
                if let Some(name) = key.strip_prefix(ATTRIBUTE_PREFIX) {
                    if self.attributes.len() == ATTRIBUTES_MAX || value.len() > ATTRIBUTE_BYTES_MAX {
                        return Err(EntryError::Attributes);
                    }
                    self.attributes.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

/// Splits `LENGTH KEY=VALUE\n` off. The length counts all of it.
fn split_record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let length: usize = str::from_utf8(&records[..space]).ok()?.parse().ok()?;
    if length <= space + 1 || length > records.len() || records[length - 1] != b'\n' {
        return None;
    }
    Some((&records[space + 1..length - 1], &records[length..]))
}

fn number(value: &[u8], name: &'static str) -> Result<Option<u64>, EntryError> {
    if value.is_empty() {
        return Ok(None);
    }
    let parsed = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    parsed.map(Some).ok_or(EntryError::Number(name))
}

/// Parses a decimal number of seconds: `-1.5` is half a second after -2.
fn time(value: &[u8]) -> Option<ModificationTime> {
    let text = str::from_utf8(value).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    let seconds: i64 = whole.parse().ok()?;
    if whole.starts_with('-') && nanoseconds > 0 {
        return Some(ModificationTime {
            seconds: seconds.checked_sub(1)?,
            nanoseconds: 1_000_000_000 - nanoseconds,
        });
    }
    Some(ModificationTime { seconds, nanoseconds })
}

#[cfg(test)]
mod tests;
