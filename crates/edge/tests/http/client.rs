//! Client that sends bytes unchanged.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Time to wait for bytes, after which a test fails.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Connection.
pub(crate) struct Client {
    stream: TcpStream,
    waiting: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self {
            stream,
            waiting: Vec::new(),
        }
    }

    /// Sends bytes. The connection may be closed already.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match self.stream.write_all(bytes.as_ref()) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("{error}");
            }
            _ => {}
        }
    }

    /// Ends the sending side.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Returns the head of the next response.
    pub(crate) fn head(&mut self) -> String {
        loop {
            if let Some(end) = self.waiting.windows(4).position(|window| window == b"\r\n\r\n") {
                return self.take(end + 4);
            }
            assert!(
                self.read_more(),
                "the connection ended: {}",
                String::from_utf8_lossy(&self.waiting)
            );
        }
    }

    /// Returns the next response, whose body has a length.
    pub(crate) fn answer(&mut self) -> String {
        let head = self.head();
        let lower = head.to_ascii_lowercase();
        let length = lower.split("\r\ncontent-length: ").nth(1).map_or(0, |rest| {
            let end = rest.find("\r\n").unwrap();
            rest[..end].parse().unwrap()
        });
        head + &self.take(length)
    }

    /// Takes so many bytes.
    pub(crate) fn take(&mut self, count: usize) -> String {
        while self.waiting.len() < count {
            assert!(
                self.read_more(),
                "the connection ended: {}",
                String::from_utf8_lossy(&self.waiting)
            );
        }
        let rest = self.waiting.split_off(count);
        let taken = std::mem::replace(&mut self.waiting, rest);
        String::from_utf8(taken).unwrap()
    }

    /// All data until the end of the connection.
    pub(crate) fn rest(&mut self) -> String {
        while self.read_more() {}
        String::from_utf8_lossy(&std::mem::take(&mut self.waiting)).into_owned()
    }

    /// Reads more. Returns false at the end of the connection.
    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.waiting.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}; so far: {}", String::from_utf8_lossy(&self.waiting)),
        }
    }
}

/// Sends a request and returns all data until the end of the connection.
pub(crate) fn exchange(to: SocketAddr, request: impl AsRef<[u8]>) -> String {
    let mut client = Client::connect(to);
    client.send(request);
    client.rest()
}

/// Returns a GET request that ends its connection.
pub(crate) fn get(to: SocketAddr, path: &str) -> String {
    exchange(
        to,
        format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
    )
}

/// Fails unless a response has this status.
#[track_caller]
pub(crate) fn assert_status(response: &str, status: u16) {
    assert!(
        response.starts_with(&format!("HTTP/1.1 {status} ")),
        "expected {status}: {response}"
    );
}
