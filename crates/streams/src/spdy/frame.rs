//! Frames and their layout (SPDY/3, section 2.2).

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::ProtocolError;

/// Longest payload of a received frame. Clients send 32 KiB at most.
pub const FRAME_BYTES_MAX: usize = 128 << 10;
/// Maximum number of bytes in the payload of a sent data frame.
pub const DATA_BYTES_MAX: usize = 32 << 10;

const HEAD_BYTES: usize = 8;
const VERSION: u16 = 3;
const CONTROL: u8 = 0x80;
pub(super) const FLAG_FIN: u8 = 1;

pub(super) const SYN_STREAM: u16 = 1;
pub(super) const SYN_REPLY: u16 = 2;
pub(super) const RST_STREAM: u16 = 3;
pub(super) const PING: u16 = 6;
pub(super) const GOAWAY: u16 = 7;
pub(super) const WINDOW_UPDATE: u16 = 9;

/// Frame with an undecoded payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Control { kind: u16, flags: u8, payload: Bytes },
    Data { stream: u32, flags: u8, payload: Bytes },
}

/// Takes a complete frame from the start of the buffer.
pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<Frame>, ProtocolError> {
    let Some(head) = buffer.first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let [a, b, c, d, flags, e, f, g] = *head;
    let bytes = usize::from(e) << 16 | usize::from(f) << 8 | usize::from(g);
    if bytes > FRAME_BYTES_MAX {
        return Err(ProtocolError::FrameTooLarge(bytes));
    }
    let is_control = a & CONTROL != 0;
    if is_control {
        let version = u16::from_be_bytes([a & !CONTROL, b]);
        if version != VERSION {
            return Err(ProtocolError::Version(version));
        }
    }
    if buffer.len() < HEAD_BYTES + bytes {
        return Ok(None);
    }
    buffer.advance(HEAD_BYTES);
    let payload = buffer.split_to(bytes).freeze();
    Ok(Some(if is_control {
        let kind = u16::from_be_bytes([c, d]);
        Frame::Control { kind, flags, payload }
    } else {
        let stream = u32::from_be_bytes([a, b, c, d]);
        Frame::Data {
            stream,
            flags,
            payload,
        }
    }))
}

/// Appends a control frame.
pub(super) fn put_control(out: &mut BytesMut, kind: u16, flags: u8, payload: &[u8]) {
    out.put_u16(u16::from(CONTROL) << 8 | VERSION);
    out.put_u16(kind);
    out.put_u8(flags);
    out.put_uint(payload.len() as u64, 3);
    out.put_slice(payload);
}

/// Appends data frames with all bytes, the last one with `flags`.
pub(super) fn put_data(out: &mut BytesMut, stream: u32, flags: u8, bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(DATA_BYTES_MAX));
        out.put_u32(stream);
        out.put_u8(if after.is_empty() { flags } else { 0 });
        out.put_uint(piece.len() as u64, 3);
        out.put_slice(piece);
        if after.is_empty() {
            return;
        }
        rest = after;
    }
}
