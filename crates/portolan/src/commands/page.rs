//! Asking a part that runs on this machine for a page in JSON.

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::Failure;

/// How long the part may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One request, without a client library: the answer is JSON and ends with the connection.
pub fn read<T: DeserializeOwned>(address: SocketAddr, path: &str) -> Result<T, Failure> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer is not HTTP")?;
    let first = head.lines().next().unwrap_or_default();
    if first.split(' ').nth(1) != Some("200") {
        return Err(format!("it says {first:?}").into());
    }
    Ok(serde_json::from_str(body)?)
}
