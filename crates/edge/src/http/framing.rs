//! Boundaries of HTTP/1 requests in a stream of bytes.
//!
//! The framing check runs before the parser that serves the requests, and admits valid requests only. A head is
//! admitted as a whole.

use super::head::{Body, HEAD_BYTES_MAX, Head, HeadLines, TARGET_BYTES_MAX, field, is_token};
use super::rejection::RequestRejection;

#[cfg(test)]
mod tests;

/// Maximum length of a chunk's size line with its extensions (RFC 9112, section 7.1.1). Clients rarely send extensions.
const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Maximum number of hexadecimal digits of a chunk's size: one more could exceed 64 bits.
const CHUNK_DIGITS_MAX: usize = 15;
/// Maximum size of a trailer section with all its lines.
const TRAILER_BYTES_MAX: usize = 8 << 10;

/// Position of one connection in its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framing {
    state: State,
    /// True if the bytes after the current body are held back.
    next_is_held: bool,
}

/// Position in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Head {
        lines: HeadLines,
        scanned: usize,
        line_start: usize,
    },
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers {
        bytes_left: usize,
    },
    Held,
    Tunnel,
    Rejected(RequestRejection),
}

/// Part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before the next request.
    Between,
    /// In a head.
    Head,
    /// In a body.
    Body,
    /// After a request that may switch protocols. The guard holds bytes back until the decision.
    Held,
    /// Bytes of another protocol.
    Tunnel,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            state: State::head(),
            next_is_held: false,
        }
    }
}

impl Framing {
    /// Examines the bytes that were not admitted yet. Returns the number of those that are admitted; 0 means that
    /// more are needed.
    ///
    /// # Errors
    /// The rejection of the request. No more bytes are admitted after it.
    pub fn admit(&mut self, bytes: &[u8]) -> Result<AdmittedBytes, RequestRejection> {
        let admitted = self.step(bytes);
        if let Err(rejection) = admitted {
            self.state = State::Rejected(rejection);
        }
        admitted
    }

    /// Returns the current position.
    pub fn position(&self) -> Position {
        match &self.state {
            State::Head { scanned: 0, .. } => Position::Between,
            State::Head { .. } | State::Rejected(_) => Position::Head,
            State::Length(_)
            | State::ChunkSize
            | State::ChunkData(_)
            | State::ChunkEnd
            | State::Trailers { .. } => Position::Body,
            State::Held => Position::Held,
            State::Tunnel => Position::Tunnel,
        }
    }

    /// Records that the protocol stays HTTP/1: the next bytes are a request.
    pub fn resume(&mut self) {
        self.next_is_held = false;
        if self.state == State::Held {
            self.state = State::head();
        }
    }

    /// Records that the protocol has changed: all further bytes are admitted.
    pub fn tunnel(&mut self) {
        self.state = State::Tunnel;
    }

    fn step(&mut self, bytes: &[u8]) -> Result<AdmittedBytes, RequestRejection> {
        let count = bytes.len();
        let part = match &mut self.state {
            State::Head { .. } => return self.head(bytes),
            State::Tunnel => count,
            State::Held => 0,
            State::Rejected(rejection) => return Err(*rejection),
            State::Length(left) | State::ChunkData(left) => {
                let part = usize::try_from(*left).unwrap_or(usize::MAX).min(count);
                *left -= part as u64;
                part
            }
            State::ChunkSize => return self.chunk_size(bytes),
            State::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.state = State::ChunkSize;
                    2
                }
                [] | [b'\r'] => 0,
                _ => {
                    return Err(RequestRejection::Malformed(
                        "expected a chunk of the announced size, found another size",
                    ));
                }
            },
            State::Trailers { .. } => return self.trailer(bytes),
        };
        match self.state {
            State::Length(0) => self.next_request(),
            State::ChunkData(0) => self.state = State::ChunkEnd,
            _ => {}
        }
        Ok(AdmittedBytes::part(part))
    }

    /// Reads a part of the head of a request.
    fn head(&mut self, bytes: &[u8]) -> Result<AdmittedBytes, RequestRejection> {
        let State::Head {
            lines,
            scanned,
            line_start,
        } = &mut self.state
        else {
            return Ok(AdmittedBytes::part(0));
        };
        if !bytes.first().is_none_or(|byte| is_token(*byte) || *byte == b'\r') {
            return Err(RequestRejection::Malformed(
                "expected a method, found other bytes",
            ));
        }
        while let Some(found) = bytes
            .get(*scanned..)
            .and_then(|rest| rest.iter().position(|byte| *byte == b'\n'))
        {
            let end = *scanned + found + 1;
            let line = bytes.get(*line_start..end).unwrap_or_default();
            // Servers ignore an empty line before a request, which old clients send (RFC 9112, section 2.2).
            let is_left_over = lines.is_new() && *line_start == 0 && line == b"\r\n";
            (*scanned, *line_start) = (end, end);
            if end > HEAD_BYTES_MAX {
                return Err(RequestRejection::HeadTooLarge);
            }
            if is_left_over {
                continue;
            }
            if let Some(head) = lines.line(line)? {
                self.begin_body(head);
                return Ok(AdmittedBytes {
                    bytes: end,
                    is_head_complete: true,
                });
            }
        }
        *scanned = bytes.len();
        if lines.is_new() && bytes.len() - *line_start > TARGET_BYTES_MAX + 64 {
            return Err(RequestRejection::TargetTooLong);
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(RequestRejection::HeadTooLarge);
        }
        Ok(AdmittedBytes::part(0))
    }

    fn begin_body(&mut self, head: Head) {
        self.next_is_held = head.may_upgrade;
        match head.body {
            Body::Length(0) => self.next_request(),
            Body::Length(length) => self.state = State::Length(length),
            Body::Chunked => self.state = State::ChunkSize,
        }
    }

    fn next_request(&mut self) {
        self.state = if std::mem::take(&mut self.next_is_held) {
            State::Held
        } else {
            State::head()
        };
    }

    fn chunk_size(&mut self, bytes: &[u8]) -> Result<AdmittedBytes, RequestRejection> {
        let Some(line) = whole_line(
            bytes,
            CHUNK_LINE_BYTES_MAX,
            RequestRejection::Malformed("expected a chunk size within the limit, found a longer one"),
        )?
        else {
            return Ok(AdmittedBytes::part(0));
        };
        let size = size(line.strip_suffix(b"\r\n").ok_or(RequestRejection::Malformed(
            "expected a line that ends with CR LF, found another end",
        ))?)?;
        self.state = if size == 0 {
            State::Trailers {
                bytes_left: TRAILER_BYTES_MAX,
            }
        } else {
            State::ChunkData(size)
        };
        Ok(AdmittedBytes::part(line.len()))
    }

    fn trailer(&mut self, bytes: &[u8]) -> Result<AdmittedBytes, RequestRejection> {
        let State::Trailers { bytes_left } = &mut self.state else {
            return Ok(AdmittedBytes::part(0));
        };
        let Some(line) = whole_line(bytes, *bytes_left, RequestRejection::HeadTooLarge)? else {
            return Ok(AdmittedBytes::part(0));
        };
        *bytes_left -= line.len();
        match line.strip_suffix(b"\r\n") {
            None => {
                return Err(RequestRejection::Malformed(
                    "expected a line that ends with CR LF, found another end",
                ));
            }
            Some([]) => self.next_request(),
            Some(line) => {
                let (name, _) = field(line)?;
                if [&b"content-length"[..], b"transfer-encoding", b"host"]
                    .iter()
                    .any(|framing| name.eq_ignore_ascii_case(framing))
                {
                    return Err(RequestRejection::Malformed(
                        "expected no framing field or Host in the trailer, found one",
                    ));
                }
            }
        }
        Ok(AdmittedBytes::part(line.len()))
    }
}

impl State {
    fn head() -> Self {
        Self::Head {
            lines: HeadLines::default(),
            scanned: 0,
            line_start: 0,
        }
    }
}

/// Admitted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmittedBytes {
    /// Number of bytes.
    pub bytes: usize,
    /// Returns true if they complete a head.
    pub is_head_complete: bool,
}

impl AdmittedBytes {
    fn part(bytes: usize) -> Self {
        Self {
            bytes,
            is_head_complete: false,
        }
    }
}

/// Returns the first line with its line feed, if it has arrived.
///
/// # Errors
/// `too_long` if it exceeds `bytes_max`.
fn whole_line(
    bytes: &[u8],
    bytes_max: usize,
    too_long: RequestRejection,
) -> Result<Option<&[u8]>, RequestRejection> {
    let within = bytes.get(..bytes_max).unwrap_or(bytes);
    match within.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(within.get(..=end)),
        None if within.len() == bytes_max => Err(too_long),
        None => Ok(None),
    }
}

/// Parses the size of a chunk. Extensions only have to be visible characters, since they are not forwarded (RFC 9112,
/// section 7.1.1).
fn size(line: &[u8]) -> Result<u64, RequestRejection> {
    let end = line
        .iter()
        .position(|byte| !byte.is_ascii_hexdigit())
        .unwrap_or(line.len());
    let (digits, extension) = line.split_at(end);
    if digits.is_empty() || digits.len() > CHUNK_DIGITS_MAX {
        return Err(RequestRejection::Malformed(
            "expected a hexadecimal chunk size, found other bytes",
        ));
    }
    let is_extension = extension.first().is_none_or(|byte| *byte == b';')
        && extension
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    if !is_extension {
        return Err(RequestRejection::Malformed(
            "expected a hexadecimal chunk size, found other bytes",
        ));
    }
    Ok(digits.iter().fold(0, |size, digit| {
        size * 16 + u64::from((*digit as char).to_digit(16).unwrap_or(0))
    }))
}
