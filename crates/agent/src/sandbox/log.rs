//! A container's output in a file of bounded size.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Largest log file; the one before is kept too (upstream's `containerLogMaxSize`).
pub(super) const LOG_BYTES_MAX: u64 = 10 << 20;
/// Bytes taken from the pipe at once.
const CHUNK_BYTES: usize = 16 << 10;

/// Copies `from` into the file at `path` until it ends. What cannot be written is dropped: a full disk must not
/// stop a container.
pub(super) fn copy(mut from: impl Read, path: &Path, bytes_max: u64) {
    let mut log = BoundedLog::open(path.to_owned(), bytes_max);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(length) => log.append(chunk.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                eprintln!("sandbox: reading a container's output: {error}");
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
            .inspect_err(|error| eprintln!("sandbox: {}: {error}", path.display()))
            .ok();
        let bytes = file
            .as_ref()
            .and_then(|f| f.metadata().ok())
            .map_or(0, |m| m.len());
        Self {
            path,
            bytes_max,
            file,
            bytes,
        }
    }

    fn append(&mut self, chunk: &[u8]) {
        if self.bytes + chunk.len() as u64 > self.bytes_max {
            self.rotate();
        }
        let Some(file) = &mut self.file else { return };
        match file.write_all(chunk) {
            Ok(()) => self.bytes += chunk.len() as u64,
            Err(error) => eprintln!("sandbox: {}: {error}", self.path.display()),
        }
    }

    fn rotate(&mut self) {
        let mut older = self.path.clone().into_os_string();
        older.push(".1");
        if let Err(error) = fs::rename(&self.path, older) {
            eprintln!("sandbox: {}: {error}", self.path.display());
        }
        *self = Self::open(self.path.clone(), self.bytes_max);
    }
}
