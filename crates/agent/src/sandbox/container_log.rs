//! Log of a container's output in files of bounded size, in the format of the CRI. A line has the time, the stream, `F`
//! (full line) or `P` (part of a line), and the text.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::error_log::log_error;

/// Largest log file (upstream's `containerLogMaxSize`).
pub(super) const LOG_BYTES_MAX: u64 = 10 << 20;
/// Maximum number of files that are kept of one run (upstream's `containerLogMaxFiles`).
pub const LOG_FILES_MAX: usize = 5;
/// Longest entry. Longer lines are split, as in container runtimes.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Output stream of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OutputStream {
    /// Standard output, or all output of a terminal.
    Output,
    /// Standard error.
    Error,
}

impl OutputStream {
    /// Returns the tag of the stream in a log.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::Output => "stdout",
            Self::Error => "stderr",
        }
    }
}

/// Returns the path of an older file of the log at `path`. Higher numbers are older.
pub fn older_log(path: &Path, number: usize) -> PathBuf {
    let mut older = path.to_owned().into_os_string();
    older.push(format!(".{number}"));
    older.into()
}

/// Writer of the log of one run of a container. Write errors are logged and the output is dropped, because a full disk must
/// not stop a container.
pub(super) struct LogWriter {
    file: BoundedLog,
    /// Beginnings of lines whose ends have not arrived, by stream.
    incomplete: BTreeMap<OutputStream, Vec<u8>>,
}

impl LogWriter {
    /// Opens the log at `path`.
    pub(super) fn open(path: PathBuf, bytes_max: u64) -> Self {
        Self {
            file: BoundedLog::open(path, bytes_max),
            incomplete: BTreeMap::new(),
        }
    }

    /// Writes output of a stream. An incomplete line waits for its end, or until it has the length of an entry.
    pub(super) fn append(&mut self, stream: OutputStream, bytes: &[u8]) {
        let mut line = self.incomplete.remove(&stream).unwrap_or_default();
        for mut part in bytes.split_inclusive(|byte| *byte == b'\n') {
            while !part.is_empty() {
                let room = LINE_BYTES_MAX.saturating_sub(line.len()).min(part.len());
                let (taken, rest) = part.split_at(room);
                line.extend_from_slice(taken);
                part = rest;
                if line.len() >= LINE_BYTES_MAX || line.ends_with(b"\n") {
                    self.file.append(stream, &line);
                    line.clear();
                }
            }
        }
        if !line.is_empty() {
            self.incomplete.insert(stream, line);
        }
    }

    /// Writes the rest of a stream that has ended.
    pub(super) fn end(&mut self, stream: OutputStream) {
        if let Some(line) = self.incomplete.remove(&stream) {
            self.file.append(stream, &line);
        }
    }
}

/// The current log file, and its size.
struct BoundedLog {
    path: PathBuf,
    bytes_max: u64,
    file: Option<File>,
    bytes: u64,
}

impl BoundedLog {
    fn open(path: PathBuf, bytes_max: u64) -> Self {
        let opened = File::options().append(true).create(true).open(&path);
        let file = opened
            .inspect_err(|error| log_error(format_args!("{}: {error}", path.display())))
            .ok();
        let bytes = file
            .as_ref()
            .and_then(|file| file.metadata().ok())
            .map_or(0, |metadata| metadata.len());
        Self {
            path,
            bytes_max,
            file,
            bytes,
        }
    }

    /// Writes a line, or a part of one if it does not end with a newline.
    fn append(&mut self, stream: OutputStream, line: &[u8]) {
        let (tag, text) = match line.strip_suffix(b"\n") {
            Some(text) => ('F', text),
            None => ('P', line),
        };
        let mut entry = format!("{:.9} {} {tag} ", Timestamp::now(), stream.tag()).into_bytes();
        entry.extend_from_slice(text);
        entry.push(b'\n');
        let length = entry.len() as u64;
        if self.bytes > 0 && self.bytes + length > self.bytes_max {
            self.rotate();
        }
        let Some(file) = &mut self.file else { return };
        match file.write_all(&entry) {
            Ok(()) => self.bytes += length,
            Err(error) => log_error(format_args!("{}: {error}", self.path.display())),
        }
    }

    fn rotate(&mut self) {
        for number in (1..LOG_FILES_MAX).rev() {
            let from = match number {
                1 => self.path.clone(),
                _ => older_log(&self.path, number - 1),
            };
            match fs::rename(&from, older_log(&self.path, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    log_error(format_args!("{}: {error}", from.display()));
                }
                _ => {}
            }
        }
        *self = Self::open(self.path.clone(), self.bytes_max);
    }
}
