//! As much HTTP/1 as an echo needs. Pure.

/// Methods that tell an HTTP request from other bytes.
const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE",
];

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// An HTTP request, or the beginning of one.
    Http,
    /// Something else.
    Other,
}

/// The parts of a request's head that the answer depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub method: String,
    pub target: String,
    /// Bytes of the head with the empty line.
    pub bytes: usize,
    /// Whether the connection stays open after the answer.
    pub keep_alive: bool,
}

/// Tells HTTP from other bytes as soon as that is possible.
pub(super) fn opening(bytes: &[u8]) -> Opening {
    let begins_http = METHODS.iter().any(|method| {
        let method = format!("{method} ");
        let length = bytes.len().min(method.len());
        !bytes.is_empty() && bytes.get(..length) == method.as_bytes().get(..length)
    });
    if begins_http {
        Opening::Http
    } else {
        Opening::Other
    }
}

/// Reads a request's head; `None` while its empty line has not come.
pub(super) fn head(bytes: &[u8]) -> Option<Head> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
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
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_ascii_lowercase())
    };
    // A body is not read: after a request that has one the connection ends.
    let has_body =
        header("content-length").is_some_and(|l| l != "0") || header("transfer-encoding").is_some();
    let asked = match header("connection").as_deref() {
        Some("close") => false,
        Some("keep-alive") => true,
        _ => is_1_1,
    };
    Some(Head {
        method,
        target,
        bytes: end,
        keep_alive: asked && !has_body,
    })
}

/// The answer with that body.
pub(super) fn answer(head: &Head, body: &str) -> String {
    let connection = if head.keep_alive { "keep-alive" } else { "close" };
    let length = body.len();
    let body = if head.method == "HEAD" { "" } else { body };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: {connection}\r\n\r\n{body}"
    )
}
