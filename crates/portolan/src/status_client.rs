//! HTTP requests to the status endpoints of components on this host.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

/// Time for a response that needs no computation.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes of a response.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Failed request to a status endpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    /// The connection failed: the component does not run, or listens elsewhere.
    #[error(transparent)]
    Connect(io::Error),
    /// The response did not arrive or is incomplete. A retry may help.
    #[error(transparent)]
    Read(io::Error),
    /// The response is not HTTP.
    #[error("the response is not HTTP")]
    NotHttp,
    /// The endpoint rejected the request.
    #[error(
        "expected status 200, found {status:?}; check the address, and the version of the component there"
    )]
    Rejected {
        /// Status line of the response.
        status: String,
        /// Body of the response.
        body: String,
    },
    /// The document has another form, as that of another version of the component.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Reads a JSON document.
///
/// # Errors
///
/// [`StatusError`] if the endpoint does not respond with such a document.
pub(crate) fn read<T: DeserializeOwned>(address: SocketAddr, path: &str) -> Result<T, StatusError> {
    Ok(serde_json::from_str(&read_text(
        address,
        path,
        RESPONSE_TIMEOUT,
    )?)?)
}

/// Reads a text. The timeout applies to the connection attempt and to the exchange. Redirects are not followed.
///
/// # Errors
///
/// [`StatusError`] if the endpoint does not respond with status 200.
pub(crate) fn read_text(address: SocketAddr, path: &str, timeout: Duration) -> Result<String, StatusError> {
    let stream = TcpStream::connect_timeout(&address, timeout).map_err(StatusError::Connect)?;
    let response = exchange(stream, address, path, timeout).map_err(StatusError::Read)?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or(StatusError::NotHttp)?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(StatusError::Rejected {
            status: status.to_owned(),
            body: body.to_owned(),
        });
    }
    Ok(body.to_owned())
}

/// Sends one request and reads until the server closes the connection. The timeout ends also the response of a server that
/// sends slowly.
fn exchange(mut stream: TcpStream, address: SocketAddr, path: &str, timeout: Duration) -> io::Result<String> {
    let deadline = Instant::now() + timeout;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut response = Vec::new();
    let mut piece = vec![0; READ_BYTES];
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            let message = format!("the response is not complete after {timeout:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        stream.set_read_timeout(Some(remaining))?;
        let length = match stream.read(&mut piece) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if length == 0 {
            break;
        }
        if response.len() + length > RESPONSE_BYTES_MAX {
            let message = format!("the response has more than {RESPONSE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        response.extend_from_slice(&piece[..length]);
    }
    String::from_utf8(response).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests;
