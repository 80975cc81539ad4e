//! Backend that records each byte, and responds as a test defines.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Response of most tests.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Backend.
pub(crate) struct Backend {
    pub address: SocketAddr,
    recorded: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

/// Connection to a backend.
pub(crate) struct Connection {
    pub stream: TcpStream,
    /// Received bytes that were not taken yet.
    waiting: Vec<u8>,
    recorded: Arc<Mutex<Vec<String>>>,
    /// Index of the current request in the record.
    slot: Option<usize>,
}

impl Backend {
    /// Starts a backend that runs `serve` for each connection, each on a thread of its own.
    pub(crate) fn start(serve: impl Fn(&mut Connection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (recorded, connections) = (
            Arc::<Mutex<Vec<String>>>::default(),
            Arc::<AtomicUsize>::default(),
        );
        let serve = Arc::new(serve);
        let (records, counted) = (recorded.clone(), connections.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (serve, recorded) = (serve.clone(), records.clone());
                thread::spawn(move || {
                    let mut connection = Connection {
                        stream: stream.unwrap(),
                        waiting: Vec::new(),
                        recorded,
                        slot: None,
                    };
                    serve(&mut connection);
                });
            }
        });
        Self {
            address,
            recorded,
            connections,
        }
    }

    /// Starts a backend that responds to each request in the same way.
    pub(crate) fn answering(response: &'static [u8]) -> Self {
        Self::start(move |connection| while connection.request().is_some() && connection.answer(response) {})
    }

    /// Starts a backend that responds to each request with its own text.
    pub(crate) fn echoing() -> Self {
        Self::start(|connection| {
            while let Some(request) = connection.request() {
                let response = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{request}",
                    request.len()
                );
                if !connection.answer(response.as_bytes()) {
                    return;
                }
            }
        })
    }

    /// All received requests. The last one of a connection may be incomplete.
    pub(crate) fn recorded(&self) -> Vec<String> {
        self.recorded.lock().unwrap().clone()
    }

    /// Returns the number of its connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Connection {
    /// Returns the next request with its body; `None` at the end of the connection.
    pub(crate) fn request(&mut self) -> Option<String> {
        self.slot = None;
        let head = self.read_until(b"\r\n\r\n")?;
        let lower = head.to_ascii_lowercase();
        let length = lower
            .split("\r\ncontent-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next());
        let body = match length {
            Some(length) => self.take(length.parse().unwrap())?,
            None if lower.contains("\r\ntransfer-encoding: chunked\r\n") => self.until_last_chunk()?,
            None => String::new(),
        };
        Some(head + &body)
    }

    /// Returns the head of the next request.
    pub(crate) fn head(&mut self) -> Option<String> {
        self.read_until(b"\r\n\r\n")
    }

    /// Sends bytes. Returns true if that succeeded.
    pub(crate) fn answer(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Takes so many bytes.
    pub(crate) fn take(&mut self, count: usize) -> Option<String> {
        while self.waiting.len() < count {
            self.read_more()?;
        }
        let rest = self.waiting.split_off(count);
        let taken = std::mem::replace(&mut self.waiting, rest);
        Some(String::from_utf8_lossy(&taken).into_owned())
    }

    fn read_until(&mut self, end: &[u8]) -> Option<String> {
        loop {
            if let Some(found) = self.waiting.windows(end.len()).position(|window| window == end) {
                return self.take(found + end.len());
            }
            self.read_more()?;
        }
    }

    fn until_last_chunk(&mut self) -> Option<String> {
        let mut body = String::new();
        loop {
            let line = self.read_until(b"\r\n")?;
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
            body += &line;
            if size == 0 {
                break;
            }
            body += &self.take(size + 2)?;
        }
        loop {
            let line = self.read_until(b"\r\n")?;
            body += &line;
            if line == "\r\n" {
                return Some(body);
            }
        }
    }

    fn read_more(&mut self) -> Option<()> {
        let mut buffer = [0; 16 << 10];
        let count = self.stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        self.waiting.extend_from_slice(&buffer[..count]);
        let mut recorded = self.recorded.lock().unwrap();
        let slot = *self.slot.get_or_insert_with(|| {
            recorded.push(String::new());
            recorded.len() - 1
        });
        recorded[slot].push_str(&String::from_utf8_lossy(&buffer[..count]));
        Some(())
    }
}
