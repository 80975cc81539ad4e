//! Decompression of layers, with the digests of both sides and the limits of the decompressed side.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::CancelledRead;
use super::limits::{COMPRESSION_RATIO_MAX, Limit, Limits};
use crate::digest::{Algorithm, Digest, DigestHasher};

/// Bytes of the buffers before and after decompression.
const BUFFER_BYTES: usize = 128 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Frames with other data, which layers of `zstd:chunked` have (RFC 8878, section 3.1.2). The first byte varies.
const ZSTD_SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];
/// Header of a frame with the smallest window. The decoder limits the window (100 MiB) of each frame except the first
/// one, and holds as many bytes in memory. This header therefore comes before those of the content.
const ZSTD_FIRST_HEADER: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, 0];

/// Reader of the uncompressed archive.
pub(crate) struct Decompressed<'a> {
    reader: BufReader<BoundedReader<'a>>,
    compressed: Rc<Counter>,
    uncompressed: Rc<Counter>,
}

/// Bytes that passed a reader, and their digest.
struct Counter {
    bytes: Cell<u64>,
    hasher: RefCell<Option<DigestHasher>>,
}

/// Reader that counts its bytes.
struct CountingReader<R> {
    reader: R,
    counter: Rc<Counter>,
}

/// Reader that enforces the limits.
struct BoundedReader<'a> {
    reader: Box<dyn Read + 'a>,
    compressed: Rc<Counter>,
    uncompressed: Rc<Counter>,
    is_compressed: bool,
    limits: Limits,
    cancelled: Arc<AtomicBool>,
}

/// Compression of a layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Returns the compression of content with these first bytes.
    fn of(start: &[u8]) -> Self {
        if start.starts_with(&GZIP_MAGIC) {
            Self::Gzip
        } else if start.starts_with(&ZSTD_MAGIC) || start.get(1..4) == Some(&ZSTD_SKIPPABLE_MAGIC) {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

/// Returns `true` if content with these first bytes is compressed.
pub(crate) fn is_compressed(start: &[u8]) -> bool {
    Compression::of(start) != Compression::None
}

impl<'a> Decompressed<'a> {
    /// Starts to read. The first bytes decide about the compression.
    pub(crate) fn new(
        source: impl Read + 'a,
        algorithms: (Option<Algorithm>, Algorithm),
        limits: Limits,
        cancelled: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let compressed = Counter::new(algorithms.0);
        let uncompressed = Counter::new(Some(algorithms.1));
        let counted = CountingReader {
            reader: source,
            counter: Rc::clone(&compressed),
        };
        let mut source = BufReader::with_capacity(BUFFER_BYTES, counted);
        let start = source.fill_buf()?;
        let compression = Compression::of(start);
        let reader: Box<dyn Read + 'a> = match compression {
            Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
            Compression::Zstd => Box::new(ZstdFrames::new(source)?),
            Compression::None => Box::new(source),
        };
        let bounded = BoundedReader {
            reader,
            compressed: Rc::clone(&compressed),
            uncompressed: Rc::clone(&uncompressed),
            is_compressed: compression != Compression::None,
            limits,
            cancelled,
        };
        Ok(Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, bounded),
            compressed,
            uncompressed,
        })
    }

    /// Reads to the end. Returns the digests of the compressed content, if it is computed, and of the archive.
    pub(crate) fn finish(mut self) -> io::Result<(Option<Digest>, Option<Digest>)> {
        io::copy(&mut self.reader, &mut io::sink())?;
        let bounded = self.reader.into_inner();
        // A frame can be followed by bytes that the decoder has not read.
        let mut rest = bounded.reader;
        io::copy(&mut rest, &mut io::sink())?;
        drop(rest);
        Ok((self.compressed.digest(), self.uncompressed.digest()))
    }
}

impl Read for Decompressed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl Counter {
    fn new(algorithm: Option<Algorithm>) -> Rc<Self> {
        Rc::new(Self {
            bytes: Cell::new(0),
            hasher: RefCell::new(algorithm.map(DigestHasher::new)),
        })
    }

    fn add(&self, content: &[u8]) {
        self.bytes.set(self.bytes.get() + content.len() as u64);
        if let Some(hasher) = self.hasher.borrow_mut().as_mut() {
            hasher.update(content);
        }
    }

    fn digest(&self) -> Option<Digest> {
        Some(self.hasher.take()?.finish())
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.counter.add(&buffer[..read]);
        Ok(read)
    }
}

impl Read for BoundedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(io::Error::other(CancelledRead));
        }
        let read = self.reader.read(buffer)?;
        self.uncompressed.add(&buffer[..read]);
        let (before, after) = (self.compressed.bytes.get(), self.uncompressed.bytes.get());
        if after > self.limits.archive_bytes {
            return Err(io::Error::other(Limit::ArchiveBytes));
        }
        let is_beyond_ratio = after / COMPRESSION_RATIO_MAX > before;
        if self.is_compressed && after > self.limits.ratio_free_bytes && is_beyond_ratio {
            return Err(io::Error::other(Limit::CompressionRatio));
        }
        Ok(read)
    }
}

/// Decoder of a sequence of Zstandard frames. Skippable frames are skipped.
struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> io::Result<Self> {
        let mut decoder = FrameDecoder::new();
        let initialized = decoder.init(ZSTD_FIRST_HEADER.as_slice());
        initialized.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self {
            source,
            decoder,
            is_in_frame: false,
        })
    }

    /// Reads the header of the next frame. Returns `false` at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_in_frame && !self.next_frame()? {
                return Ok(0);
            }
            self.is_in_frame = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBytes(buffer.len());
                let decoded = self.decoder.decode_blocks(&mut self.source, strategy);
                decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            self.is_in_frame = false;
        }
    }
}
