//! Where requests of HTTP/1 begin and end in a stream of bytes. It runs before the parser that serves them and passes on
//! only what is well-formed beyond doubt; a head is passed on when all of it is there.

use super::head::{Body, HEAD_BYTES_MAX, Head, HeadLines, TARGET_BYTES_MAX, field, is_token};
use super::refusal::Refusal;

#[cfg(test)]
mod tests;

/// A chunk's size with its extensions, which nobody uses (RFC 9112, 7.1.1).
const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Digits of a chunk's size: one more may be more than 64 bits.
const CHUNK_DIGITS_MAX: usize = 15;
/// A trailer section with all its lines.
const TRAILER_BYTES_MAX: usize = 8 << 10;

/// Follows one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framing {
    state: State,
    /// What comes after the body that is being read.
    next_is_held: bool,
}

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
    Refused(Refusal),
}

/// At what part of a request a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing of the next request has come, as far as what came has been looked at.
    Between,
    /// In a head.
    Head,
    /// In a body.
    Body,
    /// Behind a request that may change the protocol: nothing is passed on until it is known.
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
    /// Looks at the bytes that came and were not passed on yet, and says how many may be. With 0, more have to come
    /// first. After a refusal, no more is passed on.
    pub fn admit(&mut self, bytes: &[u8]) -> Result<Admitted, Refusal> {
        let admitted = self.step(bytes);
        if let Err(refusal) = admitted {
            self.state = State::Refused(refusal);
        }
        admitted
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        match &self.state {
            State::Head { scanned: 0, .. } => Place::Between,
            State::Head { .. } | State::Refused(_) => Place::Head,
            State::Length(_)
            | State::ChunkSize
            | State::ChunkData(_)
            | State::ChunkEnd
            | State::Trailers { .. } => Place::Body,
            State::Held => Place::Held,
            State::Tunnel => Place::Tunnel,
        }
    }

    /// The protocol stays as it is: what follows is the next request.
    pub fn keep(&mut self) {
        self.next_is_held = false;
        if self.state == State::Held {
            self.state = State::head();
        }
    }

    /// The protocol has changed: what follows is passed on as it comes.
    pub fn tunnel(&mut self) {
        self.state = State::Tunnel;
    }

    fn step(&mut self, bytes: &[u8]) -> Result<Admitted, Refusal> {
        let count = bytes.len();
        let part = match &mut self.state {
            State::Head { .. } => return self.head(bytes),
            State::Tunnel => count,
            State::Held => 0,
            State::Refused(refusal) => return Err(*refusal),
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
                _ => return Err(Refusal::Malformed("a chunk is not as long as it says")),
            },
            State::Trailers { .. } => return self.trailer(bytes),
        };
        match self.state {
            State::Length(0) => self.next_request(),
            State::ChunkData(0) => self.state = State::ChunkEnd,
            _ => {}
        }
        Ok(Admitted::part(part))
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Admitted, Refusal> {
        let State::Head {
            lines,
            scanned,
            line_start,
        } = &mut self.state
        else {
            return Ok(Admitted::part(0));
        };
        if !bytes.first().is_none_or(|byte| is_token(*byte) || *byte == b'\r') {
            return Err(Refusal::Malformed("a request begins with no method"));
        }
        while let Some(found) = bytes
            .get(*scanned..)
            .and_then(|rest| rest.iter().position(|byte| *byte == b'\n'))
        {
            let end = *scanned + found + 1;
            let line = bytes.get(*line_start..end).unwrap_or_default();
            // One empty line before a request is left over from clients of long ago (RFC 9112, 2.2).
            let is_left_over = lines.is_new() && *line_start == 0 && line == b"\r\n";
            (*scanned, *line_start) = (end, end);
            if end > HEAD_BYTES_MAX {
                return Err(Refusal::HeadTooLarge);
            }
            if is_left_over {
                continue;
            }
            if let Some(head) = lines.line(line)? {
                self.begin_body(head);
                return Ok(Admitted {
                    bytes: end,
                    ends_a_head: true,
                });
            }
        }
        *scanned = bytes.len();
        if lines.is_new() && bytes.len() - *line_start > TARGET_BYTES_MAX + 64 {
            return Err(Refusal::TargetTooLong);
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(Refusal::HeadTooLarge);
        }
        Ok(Admitted::part(0))
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

    fn chunk_size(&mut self, bytes: &[u8]) -> Result<Admitted, Refusal> {
        let Some(line) = whole_line(
            bytes,
            CHUNK_LINE_BYTES_MAX,
            Refusal::Malformed("a chunk's size is too long"),
        )?
        else {
            return Ok(Admitted::part(0));
        };
        let size = size(
            line.strip_suffix(b"\r\n")
                .ok_or(Refusal::Malformed("a line does not end with CR LF"))?,
        )?;
        self.state = if size == 0 {
            State::Trailers {
                bytes_left: TRAILER_BYTES_MAX,
            }
        } else {
            State::ChunkData(size)
        };
        Ok(Admitted::part(line.len()))
    }

    fn trailer(&mut self, bytes: &[u8]) -> Result<Admitted, Refusal> {
        let State::Trailers { bytes_left } = &mut self.state else {
            return Ok(Admitted::part(0));
        };
        let Some(line) = whole_line(bytes, *bytes_left, Refusal::HeadTooLarge)? else {
            return Ok(Admitted::part(0));
        };
        *bytes_left -= line.len();
        match line.strip_suffix(b"\r\n") {
            None => return Err(Refusal::Malformed("a line does not end with CR LF")),
            Some([]) => self.next_request(),
            Some(line) => {
                let (name, _) = field(line)?;
                if [&b"content-length"[..], b"transfer-encoding", b"host"]
                    .iter()
                    .any(|framing| name.eq_ignore_ascii_case(framing))
                {
                    return Err(Refusal::Malformed("a trailer says what only a header may"));
                }
            }
        }
        Ok(Admitted::part(line.len()))
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

/// What may be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// So many bytes.
    pub bytes: usize,
    /// Whether they are a whole head.
    pub ends_a_head: bool,
}

impl Admitted {
    fn part(bytes: usize) -> Self {
        Self {
            bytes,
            ends_a_head: false,
        }
    }
}

/// The first line with its line feed, if it has come; the refusal if it is longer than it may be.
fn whole_line(bytes: &[u8], bytes_max: usize, too_long: Refusal) -> Result<Option<&[u8]>, Refusal> {
    let within = bytes.get(..bytes_max).unwrap_or(bytes);
    match within.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(within.get(..=end)),
        None if within.len() == bytes_max => Err(too_long),
        None => Ok(None),
    }
}

/// The size of a chunk. Extensions are let through the grammar's coarse form; they are not passed on (RFC 9112, 7.1.1).
fn size(line: &[u8]) -> Result<u64, Refusal> {
    let end = line
        .iter()
        .position(|byte| !byte.is_ascii_hexdigit())
        .unwrap_or(line.len());
    let (digits, extension) = line.split_at(end);
    if digits.is_empty() || digits.len() > CHUNK_DIGITS_MAX {
        return Err(Refusal::Malformed("a chunk's size is no number"));
    }
    let is_extension = extension.first().is_none_or(|byte| *byte == b';')
        && extension
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    if !is_extension {
        return Err(Refusal::Malformed("a chunk's size is no number"));
    }
    Ok(digits.iter().fold(0, |size, digit| {
        size * 16 + u64::from((*digit as char).to_digit(16).unwrap_or(0))
    }))
}
