//! Asking a container over the network, from the node's namespace: where this process is.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::object::HttpHeader;

/// Bytes of an answer's first line that are read: "HTTP/1.1 200" and a reason phrase.
const STATUS_LINE_BYTES_MAX: u64 = 1024;

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeFailure {
    /// No connection, or it broke. The next probe may succeed.
    #[error("dial {to}: {source}")]
    Connection {
        /// Whereto.
        to: SocketAddr,
        /// What failed.
        source: io::Error,
    },
    /// The answer is not HTTP.
    #[error("{to}: malformed HTTP response")]
    Malformed {
        /// Whereto.
        to: SocketAddr,
    },
    /// The status is none of 200 to 399.
    #[error("HTTP probe failed with statuscode: {code}")]
    Status {
        /// The status code.
        code: u16,
    },
}

/// Connects, and is content with that.
pub async fn tcp_connect(to: SocketAddr) -> Result<(), ProbeFailure> {
    TcpStream::connect(to)
        .await
        .map(drop)
        .map_err(|source| ProbeFailure::Connection { to, source })
}

/// Asks for `path` and reads the status. `host` is the `Host` header, unless `headers` has one.
pub async fn http_get(
    to: SocketAddr,
    path: &str,
    host: &str,
    headers: &[HttpHeader],
) -> Result<(), ProbeFailure> {
    let failed = |source| ProbeFailure::Connection { to, source };
    let mut stream = TcpStream::connect(to).await.map_err(failed)?;
    let request = request(path, host, headers);
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut line = Vec::new();
    let mut limited = stream.take(STATUS_LINE_BYTES_MAX);
    while !line.contains(&b'\n') && limited.read_buf(&mut line).await.map_err(failed)? > 0 {}
    let code = status_code(&line).ok_or(ProbeFailure::Malformed { to })?;
    if (200..400).contains(&code) {
        Ok(())
    } else {
        Err(ProbeFailure::Status { code })
    }
}

/// The request as bytes. What could end a line in it is left out: an object must not write headers by its path.
pub(super) fn request(path: &str, host: &str, headers: &[HttpHeader]) -> String {
    let plain = |text: &str| text.replace(['\r', '\n'], "");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut request = format!("GET {slash}{} HTTP/1.1\r\n", plain(path).replace(' ', "%20"));
    if !headers.iter().any(|h| h.name.eq_ignore_ascii_case("host")) {
        request.push_str(&format!("Host: {host}\r\n"));
    }
    request.push_str("User-Agent: kube-probe/portolan\r\nAccept: */*\r\nConnection: close\r\n");
    for header in headers {
        request.push_str(&format!("{}: {}\r\n", plain(&header.name), plain(&header.value)));
    }
    request.push_str("\r\n");
    request
}

/// The code of a status line.
pub(super) fn status_code(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line.split(|b| *b == b'\r' || *b == b'\n').next()?).ok()?;
    let rest = line.strip_prefix("HTTP/")?;
    rest.split(' ').nth(1)?.parse().ok()
}
