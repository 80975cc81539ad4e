//! HTTP requests to the status endpoints of components on this host.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::de::DeserializeOwned;

/// Time for a response that needs no computation.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a response, at most.
const RESPONSE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Failed request to a status endpoint.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
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
    #[error("status line {status:?}")]
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
pub fn read<T: DeserializeOwned>(address: SocketAddr, path: &str) -> Result<T, StatusError> {
    Ok(serde_json::from_str(&read_text(
        address,
        path,
        RESPONSE_TIMEOUT,
    )?)?)
}

/// Reads a text. The timeout applies to the connection attempt and to each read.
///
/// # Errors
///
/// [`StatusError`] if the endpoint does not respond with status 200.
pub fn read_text(address: SocketAddr, path: &str, timeout: Duration) -> Result<String, StatusError> {
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

/// Sends one request and reads until the server closes the connection.
fn exchange(mut stream: TcpStream, address: SocketAddr, path: &str, timeout: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut response = String::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_string(&mut response)?;
    Ok(response)
}
