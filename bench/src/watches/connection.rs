//! Watches on an HTTP/2 connection (RFC 9113), read with minimal work: the reader shares the host with the
//! measured server.

use std::sync::Arc;

use client::Config;
use http::Uri;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Failure;

/// Connection preface of a client (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Size of a frame header (RFC 9113, section 4.1).
const HEADER_BYTES: usize = 9;
/// Maximum window (RFC 9113, section 6.9.1), for streams and for the connection.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;
/// Initial window of a connection (RFC 9113, section 6.9.2).
const CONNECTION_WINDOW_BYTES: u32 = 65_535;
/// Number of received bytes after which a window is increased by as many.
const WINDOW_UPDATE_BYTES: u32 = 1 << 30;
/// Size of the read buffer.
const BUFFER_BYTES: usize = 256 << 10;
/// First byte of a header block with `:status: 200` (RFC 7541, appendix A).
const STATUS_OK: u8 = 0x88;

/// Frame types (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Frame flags; the bit of ACK (of SETTINGS and PING) is that of END_STREAM.
const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// Connection with its watches.
pub(super) struct Connection {
    /// Buffered below TLS, because rustls reads 4 KiB at a time.
    stream: TlsStream<BufReader<TcpStream>>,
    buffer: Vec<u8>,
    filled: usize,
    accepted: usize,
    /// Bytes received since the last window update of the connection.
    consumed: u32,
    /// The same for each watch.
    consumed_by_watch: Vec<u32>,
    reply: Vec<u8>,
}

impl Connection {
    /// Connects, requests `watches` watches of a path, and waits until all are accepted.
    ///
    /// # Errors
    /// The connection fails or the server refuses a watch.
    pub(super) async fn open(config: &Config, path: &str, watches: usize) -> Result<Self, Failure> {
        let server: Uri = config.server.parse()?;
        let host = server.host().ok_or("server URL without a host")?;
        let port = server.port_u16().unwrap_or(443);
        let tcp = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
        tcp.set_nodelay(true)?;
        let mut tls = client::tls_config(config)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let name = config.tls_server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned())?;
        let tcp = BufReader::with_capacity(BUFFER_BYTES, tcp);
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await?;
        let mut connection = Self {
            stream,
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            accepted: 0,
            consumed: 0,
            consumed_by_watch: vec![0; watches],
            reply: Vec::new(),
        };
        connection.send_requests(config, &server, path, watches).await?;
        while connection.accepted < watches {
            connection.receive(|_, _| Ok(())).await?;
        }
        Ok(connection)
    }

    /// Reads until the server ends a watch. `on_lines` gets the index of a watch and the number of received lines.
    ///
    /// # Errors
    /// The server ended a watch; the function does not return otherwise.
    pub(super) async fn read(
        mut self,
        mut on_lines: impl FnMut(usize, usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        loop {
            self.receive(&mut on_lines).await?;
        }
    }

    async fn send_requests(
        &mut self,
        config: &Config,
        server: &Uri,
        path: &str,
        watches: usize,
    ) -> Result<(), Failure> {
        let mut out = PREFACE.to_vec();
        // SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113, 6.5.2).
        let mut settings = vec![0, 4];
        settings.extend(WINDOW_BYTES_MAX.to_be_bytes());
        frame(&mut out, SETTINGS, 0, 0, &settings);
        let more = WINDOW_BYTES_MAX - CONNECTION_WINDOW_BYTES;
        frame(&mut out, WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        let authority = server.authority().map(|authority| authority.as_str());
        let bearer = config.bearer()?.map(|token| format!("Bearer {token}"));
        let mut headers = vec![
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", authority.unwrap_or_default()),
            (":path", path),
            ("accept", client::JSON),
        ];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let mut block = Vec::new();
        for (name, value) in headers {
            literal(&mut block, name, value);
        }
        for watch in 0..watches {
            frame(
                &mut out,
                HEADERS,
                END_STREAM | END_HEADERS,
                stream_of(watch)?,
                &block,
            );
        }
        self.stream.write_all(&out).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads once and handles all complete frames.
    async fn receive(
        &mut self,
        mut on_lines: impl FnMut(usize, usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let read = self.stream.read(&mut self.buffer[self.filled..]).await?;
        if read == 0 {
            return Err("the server closed a connection".into());
        }
        self.filled += read;
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = &buffer[..self.filled];
        while let Some((header, payload)) = next(rest) {
            self.handle_frame(header, payload, &mut on_lines)?;
            rest = &rest[HEADER_BYTES + payload.len()..];
        }
        let handled = self.filled - rest.len();
        self.buffer = buffer;
        self.buffer.copy_within(handled..self.filled, 0);
        self.filled -= handled;
        if self.reply.is_empty() {
            return Ok(());
        }
        let reply = std::mem::take(&mut self.reply);
        self.stream.write_all(&reply).await?;
        Ok(self.stream.flush().await?)
    }

    fn handle_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        on_lines: &mut impl FnMut(usize, usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (kind, flags) = (header[3], header[4]);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) & WINDOW_BYTES_MAX;
        match kind {
            DATA | HEADERS if flags & PADDED != 0 => return Err("the server sends padded frames".into()),
            DATA => {
                let watch = usize::try_from(stream / 2)?;
                let lines = lines(payload);
                self.consume(stream, watch, u32::try_from(payload.len())?);
                on_lines(watch, lines)?;
            }
            HEADERS if payload.first() == Some(&STATUS_OK) => self.accepted += 1,
            HEADERS => return Err("the server refused a watch".into()),
            SETTINGS if flags & ACK == 0 => frame(&mut self.reply, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(&mut self.reply, PING, ACK, 0, payload),
            RST_STREAM | GOAWAY => return Err("the server ended a watch".into()),
            _ => {}
        }
        match kind {
            DATA | HEADERS if flags & END_STREAM != 0 => Err("the server ended a watch".into()),
            _ => Ok(()),
        }
    }

    fn consume(&mut self, stream: u32, watch: usize, bytes: u32) {
        let by_watch = self.consumed_by_watch.get_mut(watch);
        for (stream, consumed) in [(0, Some(&mut self.consumed)), (stream, by_watch)] {
            let Some(consumed) = consumed else { continue };
            *consumed += bytes;
            if *consumed >= WINDOW_UPDATE_BYTES {
                frame(&mut self.reply, WINDOW_UPDATE, 0, stream, &consumed.to_be_bytes());
                *consumed = 0;
            }
        }
    }
}

/// Number of line ends in a payload. Chunks of 255 bytes let the compiler count with byte-wide vector instructions.
fn lines(payload: &[u8]) -> usize {
    let ends = |part: &[u8]| part.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    let parts = payload.chunks(usize::from(u8::MAX));
    parts.map(|part| usize::from(ends(part))).sum()
}

/// Header and payload of the next frame, if it is complete.
fn next(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let length = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
    Some((header, rest.get(..length)?))
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Stream of a watch; streams of clients have odd numbers (RFC 9113, section 5.1.1).
fn stream_of(watch: usize) -> Result<u32, Failure> {
    Ok(u32::try_from(watch)? * 2 + 1)
}

/// Encodes a header as literal without indexing (RFC 7541, section 6.2.2).
fn literal(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(0);
    for text in [name, value] {
        integer(out, text.len());
        out.extend_from_slice(text.as_bytes());
    }
}

/// Encodes an integer with a prefix of seven bits (RFC 7541, section 5.1).
fn integer(out: &mut Vec<u8>, number: usize) {
    const PREFIX_MAX: usize = 0x7f;
    if number < PREFIX_MAX {
        return out.push(number as u8);
    }
    out.push(PREFIX_MAX as u8);
    let mut rest = number - PREFIX_MAX;
    while rest >= 0x80 {
        out.push((rest % 0x80) as u8 | 0x80);
        rest /= 0x80;
    }
    out.push(rest as u8);
}
