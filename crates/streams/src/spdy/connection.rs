//! State of a connection: streams, header compression, and the frames to send.
//!
//! The windows of the peer are not observed: the clients of Kubernetes send no WINDOW_UPDATE. TCP delays a sender whose
//! peer does not read. Received data is credited at once, for peers that observe windows.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

use super::frame::{self, FLAG_FIN, Frame};
use super::header_block::{HeaderDecoder, HeaderEncoder};
use super::{Headers, ProtocolError};

/// Maximum number of streams that are open at once. A forwarded connection has two.
pub const STREAMS_MAX: usize = 256;
/// Status code of RST_STREAM for a stream beyond the limit.
const REFUSED_STREAM: u32 = 3;
/// Status code of RST_STREAM for a frame on a stream that does not exist.
const INVALID_STREAM: u32 = 2;
const STREAM_ID_MASK: u32 = 0x7fff_ffff;

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens streams with odd IDs.
    Client,
    /// Opens streams with even IDs.
    Server,
}

/// Received event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer opened a stream.
    Opened {
        /// Stream ID.
        stream: u32,
        /// Headers of the stream.
        headers: Headers,
    },
    /// The peer accepted a stream.
    Accepted {
        /// Stream ID.
        stream: u32,
    },
    /// Data arrived.
    Data {
        /// Stream ID.
        stream: u32,
        /// Bytes, not empty.
        bytes: Bytes,
    },
    /// The peer sends no more data on a stream.
    Finished {
        /// Stream ID.
        stream: u32,
    },
    /// The peer ended a stream in both directions.
    Reset {
        /// Stream ID.
        stream: u32,
    },
    /// The peer opens no more streams.
    GoAway,
}

/// Directions of a stream that have ended.
#[derive(Clone, Copy, Debug, Default)]
struct Halves {
    is_received: bool,
    is_sent: bool,
}

/// One side of a connection.
pub struct Connection {
    role: Role,
    received: BytesMut,
    output: BytesMut,
    decoder: HeaderDecoder,
    encoder: HeaderEncoder,
    streams: BTreeMap<u32, Halves>,
    last_of_peer: u32,
    last_own: u32,
    last_ping: u32,
}

impl Connection {
    /// Returns a connection without streams.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            received: BytesMut::new(),
            output: BytesMut::new(),
            decoder: HeaderDecoder::new(),
            encoder: HeaderEncoder::new(),
            streams: BTreeMap::new(),
            last_of_peer: 0,
            last_own: 0,
            last_ping: 0,
        }
    }

    /// Processes received bytes. Responses that the protocol demands are in [`Connection::take_output`] afterwards.
    ///
    /// # Errors
    /// [`ProtocolError`]; the connection must be closed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Event>, ProtocolError> {
        self.received.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(frame) = frame::take(&mut self.received)? {
            match frame {
                Frame::Data {
                    stream,
                    flags,
                    payload,
                } => self.receive_data(stream, flags, payload, &mut events),
                Frame::Control { kind, flags, payload } => {
                    self.receive_control(kind, flags, &payload, &mut events)?;
                }
            }
        }
        Ok(events)
    }

    /// Takes the bytes to send, in order.
    pub fn take_output(&mut self) -> Bytes {
        self.output.split().freeze()
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`ProtocolError`] if the headers are too large.
    pub fn open(&mut self, headers: &Headers) -> Result<u32, ProtocolError> {
        let stream = match (self.last_own, self.role) {
            (0, Role::Client) => 1,
            (last, _) => last + 2,
        };
        self.last_own = stream;
        let mut payload = BytesMut::new();
        payload.put_u32(stream);
        payload.put_u32(0);
        payload.put_u16(0);
        payload.put_slice(&self.encoder.encode(headers)?);
        frame::put_control(&mut self.output, frame::SYN_STREAM, 0, &payload);
        self.streams.insert(stream, Halves::default());
        Ok(stream)
    }

    /// Accepts a stream of the peer.
    ///
    /// # Errors
    /// [`ProtocolError`] if the compressor fails.
    pub fn accept(&mut self, stream: u32) -> Result<(), ProtocolError> {
        let mut payload = BytesMut::new();
        payload.put_u32(stream);
        payload.put_slice(&self.encoder.encode(&Headers::new())?);
        frame::put_control(&mut self.output, frame::SYN_REPLY, 0, &payload);
        Ok(())
    }

    /// Sends data on a stream, and ends this direction if `is_last`. Does nothing if the direction has ended.
    pub fn send(&mut self, stream: u32, bytes: &[u8], is_last: bool) {
        let Some(halves) = self.streams.get_mut(&stream).filter(|halves| !halves.is_sent) else {
            return;
        };
        halves.is_sent = is_last;
        let flags = if is_last { FLAG_FIN } else { 0 };
        frame::put_data(&mut self.output, stream, flags, bytes);
        self.remove_if_ended(stream);
    }

    /// Ends a stream in both directions.
    pub fn reset(&mut self, stream: u32) {
        if self.streams.remove(&stream).is_some() {
            self.put_reset(stream, INVALID_STREAM);
        }
    }

    /// Sends a ping, which the peer answers. An ended connection fails at the next write.
    pub fn ping(&mut self) {
        self.last_ping = self.last_ping.wrapping_add(2);
        // The parity of an ID is that of the side's streams.
        let id = self.last_ping.wrapping_sub(u32::from(self.role == Role::Client));
        frame::put_control(&mut self.output, frame::PING, 0, &id.to_be_bytes());
    }

    fn receive_data(&mut self, stream: u32, flags: u8, payload: Bytes, events: &mut Vec<Event>) {
        let Some(halves) = self.streams.get_mut(&stream).filter(|halves| !halves.is_received) else {
            // The stream has ended; data may have been under way.
            return;
        };
        let is_last = flags & FLAG_FIN != 0;
        halves.is_received = is_last;
        if !payload.is_empty() {
            let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            for credited in [stream, 0] {
                let mut update = BytesMut::new();
                update.put_u32(credited);
                update.put_u32(length);
                frame::put_control(&mut self.output, frame::WINDOW_UPDATE, 0, &update);
            }
            let bytes = payload;
            events.push(Event::Data { stream, bytes });
        }
        if is_last {
            events.push(Event::Finished { stream });
            self.remove_if_ended(stream);
        }
    }

    /// Receives a control frame, and adds its events.
    fn receive_control(
        &mut self,
        kind: u16,
        flags: u8,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), ProtocolError> {
        let first = || {
            let bytes = payload.first_chunk::<4>().ok_or(ProtocolError::Truncated(kind))?;
            Ok(u32::from_be_bytes(*bytes))
        };
        match kind {
            frame::SYN_STREAM => {
                let stream = first()? & STREAM_ID_MASK;
                let block = payload.get(10..).ok_or(ProtocolError::Truncated(kind))?;
                self.receive_stream(stream, flags, block, events)?;
            }
            frame::SYN_REPLY => {
                let stream = first()? & STREAM_ID_MASK;
                // The block is decoded for the context of the compression.
                self.decoder.decode(payload.get(4..).unwrap_or_default())?;
                if self.streams.contains_key(&stream) {
                    events.push(Event::Accepted { stream });
                    if flags & FLAG_FIN != 0 {
                        self.receive_data(stream, FLAG_FIN, Bytes::new(), events);
                    }
                }
            }
            frame::RST_STREAM => {
                let stream = first()? & STREAM_ID_MASK;
                if self.streams.remove(&stream).is_some() {
                    events.push(Event::Reset { stream });
                }
            }
            frame::PING => {
                let is_of_peer = first()? % 2 == u32::from(self.role == Role::Server);
                if is_of_peer {
                    frame::put_control(&mut self.output, frame::PING, 0, payload);
                }
            }
            frame::GOAWAY => events.push(Event::GoAway),
            // SETTINGS, HEADERS, WINDOW_UPDATE and unknown types change nothing here. HEADERS would change the context
            // of the compression; no client of Kubernetes sends them.
            _ => {}
        }
        Ok(())
    }

    fn receive_stream(
        &mut self,
        stream: u32,
        flags: u8,
        block: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), ProtocolError> {
        let is_of_peer = stream % 2 == u32::from(self.role == Role::Server);
        if !is_of_peer || stream <= self.last_of_peer {
            return Err(ProtocolError::StreamId(stream));
        }
        self.last_of_peer = stream;
        let headers = self.decoder.decode(block)?;
        if self.streams.len() >= STREAMS_MAX {
            self.put_reset(stream, REFUSED_STREAM);
            return Ok(());
        }
        self.streams.insert(stream, Halves::default());
        events.push(Event::Opened { stream, headers });
        if flags & FLAG_FIN != 0 {
            self.receive_data(stream, FLAG_FIN, Bytes::new(), events);
        }
        Ok(())
    }

    fn put_reset(&mut self, stream: u32, status: u32) {
        let mut payload = BytesMut::new();
        payload.put_u32(stream);
        payload.put_u32(status);
        frame::put_control(&mut self.output, frame::RST_STREAM, 0, &payload);
    }

    fn remove_if_ended(&mut self, stream: u32) {
        let ended = |halves: &Halves| halves.is_received && halves.is_sent;
        if self.streams.get(&stream).is_some_and(ended) {
            self.streams.remove(&stream);
        }
    }
}
