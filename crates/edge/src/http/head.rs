//! Head of an HTTP/1 request, as bytes: its validity and the framing of its body.
//!
//! The check is stricter than parsers. It rejects each head that two parsers could read differently (RFC 9112, section
//! 11.2), so that no request can hide in another one.

use super::rejection::RequestRejection;

/// Maximum number of fields of a header section. Browsers send about twenty.
pub const FIELDS_MAX: usize = 100;
/// Maximum size of a header section with its request line. Servers commonly accept 8 to 64 kB.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Maximum size of the header section of a response, with its status line.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum number of bytes of a request target. RFC 9110, section 4.1 recommends at least 8000.
pub const TARGET_BYTES_MAX: usize = 16 << 10;
/// Method: the longest registered one has 17 bytes.
const METHOD_BYTES_MAX: usize = 32;
/// Maximum number of decimal digits of a length: one more could exceed 64 bits.
const LENGTH_DIGITS_MAX: usize = 18;

/// Framing of a request's body (RFC 9112, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Number of bytes, often 0.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// Parts of a head that determine where the next one starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Framing of the body.
    pub body: Body,
    /// True if the request may switch to another protocol.
    pub may_upgrade: bool,
}

/// Head that is read line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadLines {
    /// Set by the request line.
    version: Option<Version>,
    /// Authority of a target in absolute form.
    target_authority: Option<Box<[u8]>>,
    host: Option<Box<[u8]>>,
    length: Option<u64>,
    is_chunked: bool,
    has_upgrade: bool,
    fields: usize,
}

/// HTTP version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

impl HeadLines {
    /// Takes the next line, with its line feed. The empty line completes the head.
    ///
    /// # Errors
    /// The rejection of the request.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Head>, RequestRejection> {
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(RequestRejection::Malformed(
                "expected a line that ends with CR LF, found another end",
            ));
        };
        let Some(version) = self.version else {
            self.version = Some(self.request_line(line)?);
            return Ok(None);
        };
        if line.is_empty() {
            return self.finish(version).map(Some);
        }
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            return Err(RequestRejection::HeadTooLarge);
        }
        let (name, value) = field(line)?;
        self.take(version, name, value).map(|()| None)
    }

    /// Returns true before the request line.
    pub fn is_new(&self) -> bool {
        self.version.is_none()
    }

    fn request_line(&mut self, line: &[u8]) -> Result<Version, RequestRejection> {
        let mut parts = line.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(RequestRejection::Malformed(
                "expected a request line of three parts, found another number",
            ));
        };
        if method.is_empty() || method.len() > METHOD_BYTES_MAX || !method.iter().all(|byte| is_token(*byte))
        {
            return Err(RequestRejection::Malformed(
                "expected a token as the method, found other bytes",
            ));
        }
        let version = match version {
            b"HTTP/1.1" => Version::Http11,
            b"HTTP/1.0" => Version::Http10,
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                return Err(RequestRejection::Version);
            }
            _ => {
                return Err(RequestRejection::Malformed(
                    "expected a version of HTTP in the request line, found none",
                ));
            }
        };
        self.target(method, target)?;
        Ok(version)
    }

    /// Checks the target (RFC 9112, section 3.2).
    fn target(&mut self, method: &[u8], target: &[u8]) -> Result<(), RequestRejection> {
        if target.len() > TARGET_BYTES_MAX {
            return Err(RequestRejection::TargetTooLong);
        }
        if method == b"CONNECT" {
            return Err(RequestRejection::Method("CONNECT"));
        }
        if !target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
            return Err(RequestRejection::Malformed(
                "expected a URI as the target, found bytes that a URI must not contain",
            ));
        }
        if target.starts_with(b"/") || (target == b"*" && method == b"OPTIONS") {
            return Ok(());
        }
        let Some(rest) = ["http://", "https://"]
            .iter()
            .find_map(|scheme| strip_ignoring_case(target, scheme.as_bytes()))
        else {
            return Err(RequestRejection::Malformed(
                "expected a path or a URI as the target, found another form",
            ));
        };
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
        let authority = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if !is_authority(authority) {
            return Err(RequestRejection::Malformed(
                "expected a host in the target, found none",
            ));
        }
        self.target_authority = Some(authority.into());
        Ok(())
    }

    /// Checks a field that decides about framing, host or upgrade, and keeps its value.
    fn take(&mut self, version: Version, name: &[u8], value: &[u8]) -> Result<(), RequestRejection> {
        if name.eq_ignore_ascii_case(b"content-length") {
            if self.length.replace(length(value)?).is_some() {
                return Err(RequestRejection::Malformed(
                    "expected one Content-Length, found several",
                ));
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if version == Version::Http10 {
                return Err(RequestRejection::Malformed(
                    "expected no Transfer-Encoding in HTTP/1.0, found one",
                ));
            }
            if std::mem::replace(&mut self.is_chunked, true) {
                return Err(RequestRejection::Malformed(
                    "expected one Transfer-Encoding, found several",
                ));
            }
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(RequestRejection::TransferCoding);
            }
        } else if name.eq_ignore_ascii_case(b"host") {
            if !is_authority(value) {
                return Err(RequestRejection::Malformed(
                    "expected a host in Host, found another value",
                ));
            }
            if self.host.replace(value.into()).is_some() {
                return Err(RequestRejection::Malformed("expected one Host, found several"));
            }
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.has_upgrade = version == Version::Http11;
        }
        Ok(())
    }

    fn finish(&mut self, version: Version) -> Result<Head, RequestRejection> {
        let body = match (self.is_chunked, self.length) {
            (true, Some(_)) => {
                return Err(RequestRejection::Malformed(
                    "expected Content-Length or Transfer-Encoding, found both",
                ));
            }
            (true, None) => Body::Chunked,
            (false, length) => Body::Length(length.unwrap_or(0)),
        };
        match (&self.host, &self.target_authority) {
            (None, None) if version == Version::Http10 => {}
            (None, _) if version == Version::Http11 => {
                return Err(RequestRejection::Malformed("expected Host, found none"));
            }
            (Some(host), Some(authority)) if !host.eq_ignore_ascii_case(authority) => {
                return Err(RequestRejection::Malformed(
                    "expected the host of the target in Host, found another one",
                ));
            }
            _ => {}
        }
        Ok(Head {
            body,
            may_upgrade: self.has_upgrade,
        })
    }
}

/// Returns the name and value of a field line without its line end (RFC 9112, section 5).
///
/// # Errors
/// The rejection of the request.
pub fn field(line: &[u8]) -> Result<(&[u8], &[u8]), RequestRejection> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(RequestRejection::Malformed(
            "expected a field of one line, found a continuation line",
        ));
    }
    let mut parts = line.splitn(2, |byte| *byte == b':');
    let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
        return Err(RequestRejection::Malformed(
            "expected a field with a colon, found none",
        ));
    };
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return Err(RequestRejection::Malformed(
            "expected a token as the name of a field, found other bytes",
        ));
    }
    if is_framing_alias(name) {
        return Err(RequestRejection::Malformed(
            "expected an unambiguous field name, found one that backends can read as another",
        ));
    }
    if !value.iter().all(|byte| is_value(*byte)) {
        return Err(RequestRejection::Malformed(
            "expected a field value without control characters, found one with them",
        ));
    }
    Ok((name, trim_whitespace(value)))
}

/// Returns true for a name that is a framing field for backends that read `_` as `-`, as CGI does.
pub fn is_framing_alias(name: &[u8]) -> bool {
    name.contains(&b'_')
        && [&b"content-length"[..], b"transfer-encoding"]
            .iter()
            .any(|framing| {
                name.len() == framing.len()
                    && name.iter().zip(*framing).all(|(byte, other)| {
                        byte.eq_ignore_ascii_case(other) || (*byte == b'_' && *other == b'-')
                    })
            })
}

/// Returns true for a character of a token (RFC 9110, section 5.6.2).
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns true for a character of a field value (RFC 9110, section 5.5): visible characters, spaces, tabs and all
/// beyond ASCII.
fn is_value(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// Returns true for a host with or without a port, and without user information (RFC 3986, section 3.2; RFC 9110,
/// section 4.2.4).
pub fn is_authority(bytes: &[u8]) -> bool {
    let (host, rest) = if bytes.starts_with(b"[") {
        let Some(end) = bytes.iter().position(|byte| *byte == b']') else {
            return false;
        };
        let inner = bytes.get(1..end).unwrap_or_default();
        if !inner
            .iter()
            .all(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte))
        {
            return false;
        }
        (inner, bytes.get(end + 1..).unwrap_or_default())
    } else {
        let end = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
        let host = bytes.get(..end).unwrap_or_default();
        if !host
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(byte))
        {
            return false;
        }
        (host, bytes.get(end..).unwrap_or_default())
    };
    let is_port = match rest {
        [] => true,
        [b':', port @ ..] => port.len() <= 5 && port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    !host.is_empty() && is_port
}

/// Parses a length of digits only: no sign, no list, no spaces (RFC 9110, section 8.6).
fn length(value: &[u8]) -> Result<u64, RequestRejection> {
    let digits = value.len();
    if digits == 0 || digits > LENGTH_DIGITS_MAX || !value.iter().all(u8::is_ascii_digit) {
        return Err(RequestRejection::Malformed(
            "expected a number as Content-Length, found other bytes",
        ));
    }
    Ok(value
        .iter()
        .fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

fn trim_whitespace(value: &[u8]) -> &[u8] {
    let is_inside = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let from = value.iter().position(is_inside).unwrap_or(value.len());
    let to = value.iter().rposition(is_inside).map_or(from, |last| last + 1);
    value.get(from..to).unwrap_or_default()
}

fn strip_ignoring_case<'a>(bytes: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (begin, rest) = bytes.split_at_checked(prefix.len())?;
    begin.eq_ignore_ascii_case(prefix).then_some(rest)
}
