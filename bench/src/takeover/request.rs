//! Requests of the load: HTTP over a new TCP connection, and DNS over UDP. Neither is repeated.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::dns::queries::{RCODE_NO_ERROR, query};

/// Size of the largest accepted response.
const RESPONSE_BYTES_MAX: usize = 4_096;

/// Length of the header of a DNS message.
const HEADER_BYTES: usize = 12;

/// Requests `/hostname` of agnhost over a new connection.
pub(super) async fn http(server: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    // The connection ends with a reset: neither side keeps TIME-WAIT, which would occupy the client's ports.
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    stream
        .write_all(b"GET /hostname HTTP/1.1\r\nHost: backends\r\n\r\n")
        .await?;
    let mut response = Vec::with_capacity(256);
    while !is_complete(&response) {
        if response.len() > RESPONSE_BYTES_MAX || stream.read_buf(&mut response).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "incomplete response"));
        }
    }
    if response.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not 200"))
}

/// True when the head and the body of `Content-Length` are there.
fn is_complete(response: &[u8]) -> bool {
    let text = String::from_utf8_lossy(response);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .and_then(|length| length.trim().parse::<usize>().ok());
    length.is_some_and(|length| length > 0 && body.len() >= length)
}

/// Opens a UDP socket that is connected to a DNS server.
pub(super) async fn dns_socket(server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).await?;
    socket.connect(server).await?;
    Ok(socket)
}

/// Queries the A record of a name, in one datagram.
pub(super) async fn dns(socket: &UdpSocket, name: &str) -> io::Result<()> {
    let id = fastrand::u16(..);
    socket.send(&query(id, name)).await?;
    let mut buffer = [0; RESPONSE_BYTES_MAX];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let header = &buffer[..length];
        if header.len() < HEADER_BYTES || header[..2] != id.to_be_bytes() {
            // The late response to an earlier query of the socket.
            continue;
        }
        let (code, records) = (header[3] & 0x0F, u16::from_be_bytes([header[6], header[7]]));
        if code != RCODE_NO_ERROR || records == 0 {
            let text = format!("code {code}, {records} records");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        return Ok(());
    }
}

#[cfg(test)]
mod tests;
