//! Log of a container's output in files of bounded size, in the format of the CRI. A line has the time, the stream, `F`
//! (full line) or `P` (part of a line), and the text.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::error_log::log_error;

/// Largest log file (upstream's `containerLogMaxSize`).
pub(super) const LOG_BYTES_MAX: u64 = 10 << 20;
/// Files that are kept of one run (upstream's `containerLogMaxFiles`).
pub const LOG_FILES_MAX: usize = 5;
/// Longest entry. Longer lines are split, as in container runtimes.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Returns the path of an older file of the log at `path`. Higher numbers are older.
pub fn older_log(path: &Path, number: usize) -> PathBuf {
    let mut older = path.to_owned().into_os_string();
    older.push(format!(".{number}"));
    older.into()
}

/// Copies `from` into the file at `path` until it ends. Write errors are logged and the output is dropped, because a
/// full disk must not stop a container.
pub(super) fn write_log(from: impl Read, path: &Path, bytes_max: u64) {
    let mut log = BoundedLog::open(path.to_owned(), bytes_max);
    let mut from = BufReader::with_capacity(LINE_BYTES_MAX, from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut from).take(LINE_BYTES_MAX as u64);
        match limited.read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => log.append(&line),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                log_error(format_args!("reading a container's output: {error}"));
                return;
            }
        }
    }
}

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
    fn append(&mut self, line: &[u8]) {
        let (tag, text) = match line.strip_suffix(b"\n") {
            Some(text) => ('F', text),
            None => ('P', line),
        };
        let mut entry = format!("{:.9} stdout {tag} ", Timestamp::now()).into_bytes();
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
