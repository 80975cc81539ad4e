//! One entry of a log file. Pure.

use jiff::Timestamp;

/// An entry: a line, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its time, as it is written.
    pub time: &'a str,
    /// What was printed.
    pub text: &'a [u8],
    /// Whether the line ends with it.
    pub is_end: bool,
}

impl<'a> Entry<'a> {
    /// Reads an entry without its newline; `None` for what was cut off by a crash or is of somebody else.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = bytes.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let _stream = parts.next()?;
        let is_end = match parts.next()? {
            b"F" => true,
            b"P" => false,
            _ => return None,
        };
        Some(Self {
            time,
            text: parts.next()?,
            is_end,
        })
    }

    /// Whether it is not older than `since`.
    pub fn is_since(&self, since: Timestamp) -> bool {
        self.time.parse().is_ok_and(|time: Timestamp| time >= since)
    }
}
