//! Compressed header blocks. Compression has a context for each direction of a connection.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::dictionary::dictionary;
use super::{Headers, ProtocolError};

/// Longest header block after decompression. Streams to containers have about 100 bytes. A few bytes of a client can open
/// a stream with the largest block, so one read can hold several hundred of them.
pub const HEADER_BYTES_MAX: usize = 1 << 10;
/// Maximum number of headers of one block.
const HEADERS_MAX: usize = 64;
/// Space that one call of the compressor gets.
const CHUNK_BYTES: usize = 1 << 10;
/// Window of the compressor: the dictionary and some headers fit.
const LEVEL: u32 = 6;

/// Decompressor of one direction.
pub(super) struct HeaderDecoder {
    stream: Decompress,
}

/// Compressor of one direction.
pub(super) struct HeaderEncoder {
    stream: Compress,
}

impl HeaderDecoder {
    pub(super) fn new() -> Self {
        Self {
            stream: Decompress::new(true),
        }
    }

    /// Decompresses and parses a block.
    pub(super) fn decode(&mut self, block: &[u8]) -> Result<Headers, ProtocolError> {
        decode_headers(&self.inflate(block)?)
    }

    fn inflate(&mut self, block: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let mut plain = Vec::new();
        let mut rest = block;
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            let (read_before, written_before) = (self.stream.total_in(), self.stream.total_out());
            let result = self.stream.decompress(rest, &mut chunk, FlushDecompress::Sync);
            let read = saturating_length(self.stream.total_in() - read_before);
            let written = saturating_length(self.stream.total_out() - written_before);
            rest = rest.get(read..).unwrap_or_default();
            plain.extend(chunk.iter().take(written));
            if plain.len() > HEADER_BYTES_MAX {
                return Err(ProtocolError::HeadersTooLarge);
            }
            match result {
                Ok(Status::StreamEnd) => return Err(ProtocolError::Compression),
                Ok(_) if rest.is_empty() && written < CHUNK_BYTES => return Ok(plain),
                Ok(_) if read == 0 && written == 0 => return Err(ProtocolError::Compression),
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    let set = self.stream.set_dictionary(&dictionary());
                    set.map_err(|_| ProtocolError::Compression)?;
                }
                Err(_) => return Err(ProtocolError::Compression),
            }
        }
    }
}

impl HeaderEncoder {
    pub(super) fn new() -> Self {
        let mut stream = Compress::new(Compression::new(LEVEL), true);
        // A new compressor accepts a dictionary; without it the peer reads the same headers.
        stream.set_dictionary(&dictionary()).ok();
        Self { stream }
    }

    /// Encodes and compresses headers.
    pub(super) fn encode(&mut self, headers: &Headers) -> Result<Vec<u8>, ProtocolError> {
        let mut plain = Vec::new();
        plain.extend(encoded_length(headers.len())?);
        for (name, value) in headers {
            for text in [name, value] {
                plain.extend(encoded_length(text.len())?);
                plain.extend(text.as_bytes());
            }
        }
        let mut block = Vec::new();
        let mut rest = plain.as_slice();
        loop {
            block.reserve(CHUNK_BYTES);
            let before = self.stream.total_in();
            let result = self.stream.compress_vec(rest, &mut block, FlushCompress::Sync);
            result.map_err(|_| ProtocolError::Compression)?;
            let read = saturating_length(self.stream.total_in() - before);
            rest = rest.get(read..).unwrap_or_default();
            if rest.is_empty() && block.len() < block.capacity() {
                return Ok(block);
            }
        }
    }
}

fn saturating_length(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn encoded_length(length: usize) -> Result<[u8; 4], ProtocolError> {
    let length = u32::try_from(length).map_err(|_| ProtocolError::HeadersTooLarge)?;
    Ok(length.to_be_bytes())
}

fn decode_headers(plain: &[u8]) -> Result<Headers, ProtocolError> {
    let (pairs, mut rest) = decode_length(plain)?;
    if pairs > HEADERS_MAX {
        return Err(ProtocolError::HeadersTooLarge);
    }
    let mut headers = Headers::new();
    for _ in 0..pairs {
        let (name, after) = decode_string(rest)?;
        let (value, after) = decode_string(after)?;
        rest = after;
        if headers.insert(name.to_ascii_lowercase(), value).is_some() {
            return Err(ProtocolError::Headers);
        }
    }
    Ok(headers)
}

fn decode_length(bytes: &[u8]) -> Result<(usize, &[u8]), ProtocolError> {
    let (number, rest) = bytes.split_first_chunk::<4>().ok_or(ProtocolError::Headers)?;
    let number = usize::try_from(u32::from_be_bytes(*number)).map_err(|_| ProtocolError::Headers)?;
    Ok((number, rest))
}

fn decode_string(bytes: &[u8]) -> Result<(String, &[u8]), ProtocolError> {
    let (length, rest) = decode_length(bytes)?;
    let (text, rest) = rest.split_at_checked(length).ok_or(ProtocolError::Headers)?;
    let text = String::from_utf8(text.to_vec()).map_err(|_| ProtocolError::Headers)?;
    Ok((text, rest))
}
