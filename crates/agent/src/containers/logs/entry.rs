//! Entry of a log file in the format of the CRI. Pure.

use jiff::Timestamp;

use crate::sandbox::OutputStream;

/// Entry: a line, or a part of a long line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Timestamp as written.
    pub time: &'a str,
    /// Stream of the container.
    pub stream: OutputStream,
    /// Output of the container.
    pub text: &'a [u8],
    /// True if the entry is the end of a line.
    pub is_end: bool,
}

impl<'a> Entry<'a> {
    /// Parses an entry without its newline; `None` for an entry that a crash cut off, or of another format.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = bytes.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let stream = if parts.next()? == OutputStream::Error.tag().as_bytes() {
            OutputStream::Error
        } else {
            OutputStream::Output
        };
        let is_end = match parts.next()? {
            b"F" => true,
            b"P" => false,
            _ => return None,
        };
        Some(Self {
            time,
            stream,
            text: parts.next()?,
            is_end,
        })
    }

    /// Returns true if the entry is not older than `since`.
    pub(crate) fn is_not_before(&self, since: Timestamp) -> bool {
        self.time.parse().is_ok_and(|time: Timestamp| time >= since)
    }
}
