//! Channels of a WebSocket connection: the first byte of a message is the number of the channel.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};

use crate::protocol::Stream;

/// Channel of `v5.channel.k8s.io` whose message names a channel that the client has closed.
const CLOSE: u8 = 255;

/// Received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Bytes of a stream.
    Data(Stream, Bytes),
    /// The client sends no more bytes of a stream.
    Closed(Stream),
    /// Message that has no meaning here.
    Ignored,
}

/// Encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Binary messages, with the number as a byte.
    Binary,
    /// Text messages with the number as a digit, and base64.
    Base64,
}

impl Stream {
    /// Returns the number of the channel.
    pub fn channel(self) -> u8 {
        match self {
            Self::Input => 0,
            Self::Output => 1,
            Self::Error => 2,
            Self::Status => 3,
            Self::Resize => 4,
        }
    }

    /// Returns the stream of a channel.
    pub fn of_channel(channel: u8) -> Option<Self> {
        let all = [Self::Input, Self::Output, Self::Error, Self::Status, Self::Resize];
        all.into_iter().find(|stream| stream.channel() == channel)
    }
}

impl Encoding {
    /// Decodes a message. Invalid messages are ignored, as upstream does.
    pub fn decode(self, message: &Bytes) -> Message {
        let Some((channel, content)) = self.decode_channel(message) else {
            return Message::Ignored;
        };
        if channel == CLOSE {
            let closed = content.first().and_then(|number| Stream::of_channel(*number));
            return closed.map_or(Message::Ignored, Message::Closed);
        }
        match Stream::of_channel(channel) {
            Some(stream) => Message::Data(stream, content),
            None => Message::Ignored,
        }
    }

    /// Decodes the number of the channel and the bytes of a message; `None` if it is invalid.
    pub fn decode_channel(self, message: &Bytes) -> Option<(u8, Bytes)> {
        let (first, rest) = message.split_first()?;
        Some(match self {
            Self::Binary => (*first, message.slice(1..)),
            Self::Base64 => (first.wrapping_sub(b'0'), STANDARD.decode(rest).ok()?.into()),
        })
    }

    /// Encodes bytes of a stream.
    pub fn encode(self, stream: Stream, content: &[u8]) -> Bytes {
        self.encode_channel(stream.channel(), content)
    }

    /// Encodes bytes of a channel. In base64 the numbers continue after the digits.
    pub fn encode_channel(self, channel: u8, content: &[u8]) -> Bytes {
        let mut message = BytesMut::with_capacity(1 + content.len());
        match self {
            Self::Binary => {
                message.put_u8(channel);
                message.put_slice(content);
            }
            Self::Base64 => {
                message.put_u8(b'0'.wrapping_add(channel));
                message.put_slice(STANDARD.encode(content).as_bytes());
            }
        }
        message.freeze()
    }
}

#[cfg(test)]
mod tests;
