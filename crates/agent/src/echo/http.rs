//! Minimal HTTP/1 for the echo server. Pure.

/// Methods that distinguish HTTP requests from other bytes.
const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE",
];

/// Protocol of a connection, as its first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DetectedProtocol {
    /// HTTP/1, from the beginning of a request on.
    Http,
    /// Any other protocol.
    Other,
}

/// Parts of a request head on which the response depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub method: String,
    pub target: String,
    /// Bytes of the head, including the empty line.
    pub bytes: usize,
    /// True if the connection stays open after the response.
    pub is_keep_alive: bool,
}

/// Returns the protocol that begins with these bytes.
pub(super) fn detect_protocol(bytes: &[u8]) -> DetectedProtocol {
    let begins_http = METHODS.iter().any(|method| {
        let method = format!("{method} ");
        let length = bytes.len().min(method.len());
        !bytes.is_empty() && bytes.get(..length) == method.as_bytes().get(..length)
    });
    if begins_http {
        DetectedProtocol::Http
    } else {
        DetectedProtocol::Other
    }
}

/// Parses a request head; `None` while its empty line is missing.
pub(super) fn parse_head(bytes: &[u8]) -> Option<Head> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let method = words.next()?.to_owned();
    let target = words.next().unwrap_or("/").to_owned();
    let is_1_1 = words.next() == Some("HTTP/1.1");
    let header = |name: &str| {
        text.split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .find(|(header, _)| header.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_ascii_lowercase())
    };
    // Bodies are not read: the connection closes after a request that has one.
    let has_body =
        header("content-length").is_some_and(|length| length != "0") || header("transfer-encoding").is_some();
    let is_requested = match header("connection").as_deref() {
        Some("close") => false,
        Some("keep-alive") => true,
        _ => is_1_1,
    };
    Some(Head {
        method,
        target,
        bytes: end,
        is_keep_alive: is_requested && !has_body,
    })
}

/// Returns a response with the body.
pub(super) fn response(head: &Head, body: &str) -> String {
    let connection = if head.is_keep_alive { "keep-alive" } else { "close" };
    let length = body.len();
    let body = if head.method == "HEAD" { "" } else { body };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: {connection}\r\n\r\n{body}"
    )
}
