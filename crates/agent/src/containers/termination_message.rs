//! Termination messages of containers (kubelet's `getTerminationMessage`): a file that the container writes, or the end
//! of its log.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::containers::logs::Entry;

#[cfg(test)]
mod tests;

/// Maximum number of bytes of one message (upstream's `MaxContainerTerminationMessageLength`).
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Maximum number of bytes of a message from a log (upstream's `MaxContainerTerminationMessageLogLength`).
const LOG_MESSAGE_BYTES_MAX: usize = 2 << 10;
/// Maximum number of lines of a message from a log (upstream's `MaxContainerTerminationMessageLogLines`).
const LOG_MESSAGE_LINES_MAX: usize = 80;
/// Maximum number of bytes of all messages of a Pod (upstream's `MaxPodTerminationMessageLogLength`).
const POD_BYTES_MAX: usize = 12 << 10;
/// Bytes that are read of a log: those of the lines with their timestamps, and one of the longest entries.
const LOG_BYTES_READ: u64 = 32 << 10;

/// Returns the end of the message file; "" if it is missing. The container has written the file, which is not a link:
/// its directory belongs to the agent.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn read_file(path: &Path) -> io::Result<String> {
    match read_end(path, MESSAGE_BYTES_MAX as u64) {
        Ok(bytes) => Ok(end_of(&bytes, MESSAGE_BYTES_MAX)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// Returns the end of a log.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn read_log(path: &Path) -> io::Result<String> {
    let bytes = read_end(path, LOG_BYTES_READ)?;
    let mut text = Vec::new();
    let mut lines = Vec::new();
    // The first entry of a longer log may be cut off.
    let skipped = usize::from(bytes.len() as u64 >= LOG_BYTES_READ);
    let entries = bytes.split(|byte| *byte == b'\n').skip(skipped);
    for entry in entries.filter_map(Entry::parse) {
        text.extend_from_slice(entry.text);
        if entry.is_end {
            text.push(b'\n');
            lines.push(std::mem::take(&mut text));
        }
    }
    lines.extend(Some(text).filter(|text| !text.is_empty()));
    let skipped = lines.len().saturating_sub(LOG_MESSAGE_LINES_MAX);
    let last = lines.split_off(skipped).concat();
    Ok(end_of(&last, LOG_MESSAGE_BYTES_MAX))
}

/// Returns the bytes of a message in the status of a Pod with a number of containers.
pub(crate) fn bytes_max(containers: usize) -> usize {
    POD_BYTES_MAX / containers.max(1)
}

/// Returns the beginning of a text with at most `bytes_max` bytes.
pub(crate) fn truncate(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or_default()
}

fn read_end(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file that is not a symbolic link.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("expected a regular file"))
    }
}

/// Returns the last bytes as text.
fn end_of(bytes: &[u8], bytes_max: usize) -> String {
    let begin = bytes.len().saturating_sub(bytes_max);
    let text = String::from_utf8_lossy(bytes.get(begin..).unwrap_or_default()).into_owned();
    // Replacement characters are longer than the bytes that they replace.
    let begin = text.ceil_char_boundary(text.len().saturating_sub(bytes_max));
    text.get(begin..).unwrap_or_default().to_owned()
}
