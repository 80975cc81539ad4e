//! Entries of a tar archive: headers of POSIX (ustar, pax) and of GNU with long names.
//!
//! The crate `tar` decodes the fields of a header. This module reads the sequence of headers itself. The iterator of
//! `tar` holds names of any length in memory and splits extended headers at line feeds.

use std::io::{self, Read, Seek, SeekFrom};

use tar::{EntryType, Header};

use super::error::{EntryError, LayerError};
use super::limits::{EXTENDED_HEADER_BYTES_MAX, Limit, PATH_BYTES_MAX};
use super::pax::{ExtendedHeader, ModificationTime};

/// Bytes of a block: headers are one block, contents are padded to blocks.
const BLOCK_BYTES: usize = 512;
/// Position of the checksum in a header. Its bytes count as spaces.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Reader of the entries of an archive.
pub(crate) struct Archive<R> {
    reader: R,
    /// Bytes of the current entry that are not read.
    content_bytes: u64,
    padding_bytes: u64,
}

/// Header of an entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub kind: EntryKind,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    pub modified: ModificationTime,
    pub size: u64,
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    HardLink,
    SymbolicLink,
    Directory,
    NamedPipe,
    CharacterDevice { major: u32, minor: u32 },
    BlockDevice { major: u32, minor: u32 },
}

/// Parts of the next entry that headers before it contain.
#[derive(Default)]
struct PrecedingHeaders {
    extended: ExtendedHeader,
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl<R: Read> Archive<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            content_bytes: 0,
            padding_bytes: 0,
        }
    }

    /// Returns the reader of the archive, to read the bytes after its end.
    pub(crate) fn into_inner(self) -> R {
        self.reader
    }

    /// Reads the next header of a file. Returns the position of the content, which the next call does not read.
    pub(crate) fn next_with_position(&mut self) -> Result<Option<(Entry, u64)>, LayerError>
    where
        R: Seek,
    {
        let rest = i64::try_from(self.content_bytes.saturating_add(self.padding_bytes))
            .map_err(|_| LayerError::Truncated)?;
        self.reader
            .seek(SeekFrom::Current(rest))
            .map_err(LayerError::of_read)?;
        (self.content_bytes, self.padding_bytes) = (0, 0);
        let Some(entry) = self.next()? else {
            return Ok(None);
        };
        let position = self.reader.stream_position().map_err(LayerError::of_read)?;
        Ok(Some((entry, position)))
    }

    /// Reads the next header. Skips the rest of the entry before it.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, LayerError> {
        let mut preceding = PrecedingHeaders::default();
        // Each turn reads a block, so the number of turns has the limit of the archive's bytes.
        loop {
            self.skip_rest()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let invalid = |reason| LayerError::Entry {
                path: String::from_utf8_lossy(&header.path_bytes()).into_owned(),
                reason,
            };
            let size = header
                .entry_size()
                .map_err(|_| invalid(EntryError::Number("size")))?;
            let kind = header.entry_type();
            if !is_extension(kind) {
                let size = preceding.extended.size.unwrap_or(size);
                let entry = entry(&header, preceding, size).map_err(invalid)?;
                self.set_content(content_bytes(&entry));
                return Ok(Some(entry));
            }
            self.set_content(size);
            if kind == EntryType::XGlobalHeader {
                continue;
            }
            let content = self.extension(size)?;
            match kind {
                EntryType::GNULongName => preceding.long_path = Some(until_zero(content)),
                EntryType::GNULongLink => preceding.long_link = Some(until_zero(content)),
                _ => preceding.extended.extend(&content).map_err(invalid)?,
            }
        }
    }

    /// Reads a block as header. Returns `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, LayerError> {
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.reader.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(LayerError::Truncated),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LayerError::of_read(error)),
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block);
        let checksum = header
            .cksum()
            .map_err(|_| LayerError::Archive("a header has no checksum"))?;
        let sum = |range: &[u8]| range.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        let spaces = u32::from(b' ') * CHECKSUM.len() as u32;
        if sum(&block[..CHECKSUM.start]) + spaces + sum(&block[CHECKSUM.end..]) != checksum {
            return Err(LayerError::Archive("a header has the wrong checksum"));
        }
        Ok(Some(header.clone()))
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, LayerError> {
        if size > EXTENDED_HEADER_BYTES_MAX {
            return Err(Limit::ExtendedHeaderBytes.into());
        }
        let mut content = Vec::new();
        self.take(size)
            .read_to_end(&mut content)
            .map_err(LayerError::of_read)?;
        Ok(content)
    }

    fn set_content(&mut self, bytes: u64) {
        self.content_bytes = bytes;
        self.padding_bytes = bytes.wrapping_neg() % BLOCK_BYTES as u64;
    }

    fn skip_rest(&mut self) -> Result<(), LayerError> {
        io::copy(self, &mut io::sink()).map_err(LayerError::of_read)?;
        let mut padding = self.reader.by_ref().take(self.padding_bytes);
        let skipped = io::copy(&mut padding, &mut io::sink()).map_err(LayerError::of_read)?;
        if skipped < self.padding_bytes {
            return Err(LayerError::Truncated);
        }
        self.padding_bytes = 0;
        Ok(())
    }
}

/// Reads the content of the current entry.
impl<R: Read> Read for Archive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let requested =
            usize::try_from(self.content_bytes).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        if requested == 0 {
            return Ok(0);
        }
        let read = self.reader.read(&mut buffer[..requested])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.content_bytes -= read as u64;
        Ok(read)
    }
}

/// Only files have content; the size of other entries has no meaning.
fn content_bytes(entry: &Entry) -> u64 {
    if entry.kind == EntryKind::File {
        entry.size
    } else {
        0
    }
}

fn is_extension(kind: EntryType) -> bool {
    matches!(
        kind,
        EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName | EntryType::GNULongLink
    )
}

/// Returns the entry of a header, with the values of extended headers before it.
fn entry(header: &Header, preceding: PrecedingHeaders, size: u64) -> Result<Entry, EntryError> {
    let PrecedingHeaders {
        extended,
        long_path,
        long_link,
    } = preceding;
    let path = extended
        .path
        .or(long_path)
        .unwrap_or_else(|| header.path_bytes().into_owned());
    let link = extended.link.or(long_link);
    let link = link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
    let link = link.unwrap_or_default();
    if path.len() > PATH_BYTES_MAX || link.len() > PATH_BYTES_MAX {
        return Err(EntryError::PathBytes);
    }
    let kind = entry_kind(header, &path)?;
    let fields = header.as_old();
    let id = |extended: Option<u64>, own: io::Result<u64>, name| {
        let id = extended.or(own.ok()).and_then(|id| u32::try_from(id).ok());
        // The highest value means "unchanged" to the kernel.
        id.filter(|id| *id != u32::MAX).ok_or(EntryError::Number(name))
    };
    let modified = extended.modified.unwrap_or_else(|| ModificationTime {
        seconds: header
            .mtime()
            .ok()
            .and_then(|seconds| i64::try_from(seconds).ok())
            .unwrap_or(0),
        nanoseconds: 0,
    });
    Ok(Entry {
        kind,
        mode: number(&fields.mode, header.mode()).map_err(|_| EntryError::Number("mode"))? & 0o7777,
        user: id(extended.user, number(&fields.uid, header.uid()), "user ID")?,
        group: id(extended.group, number(&fields.gid, header.gid()), "group ID")?,
        modified,
        size,
        attributes: extended.attributes,
        path,
        link,
    })
}

fn entry_kind(header: &Header, path: &[u8]) -> Result<EntryKind, EntryError> {
    // A device without a valid number is number 0/0, which is never created.
    let device = |number: io::Result<Option<u32>>| number.ok().flatten().unwrap_or(0);
    let (major, minor) = (header.device_major(), header.device_minor());
    Ok(match header.entry_type() {
        // Archives before POSIX mark directories by the last character.
        EntryType::Regular | EntryType::Continuous if path.ends_with(b"/") => EntryKind::Directory,
        EntryType::Regular | EntryType::Continuous => EntryKind::File,
        EntryType::Link => EntryKind::HardLink,
        EntryType::Symlink => EntryKind::SymbolicLink,
        EntryType::Directory => EntryKind::Directory,
        EntryType::Fifo => EntryKind::NamedPipe,
        EntryType::Char => EntryKind::CharacterDevice {
            major: device(major),
            minor: device(minor),
        },
        EntryType::Block => EntryKind::BlockDevice {
            major: device(major),
            minor: device(minor),
        },
        EntryType::GNUSparse => return Err(EntryError::Sparse),
        other => return Err(EntryError::Kind(char::from(other.as_byte()))),
    })
}

/// Returns the value of a numeric field. A field without digits counts as zero, as GNU tar and Go read it.
fn number<N: Default>(field: &[u8], value: io::Result<N>) -> io::Result<N> {
    if field.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return Ok(N::default());
    }
    value
}

fn until_zero(mut text: Vec<u8>) -> Vec<u8> {
    if let Some(end) = text.iter().position(|byte| *byte == 0) {
        text.truncate(end);
    }
    text
}
