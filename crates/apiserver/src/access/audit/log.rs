//! The file of the audit log: it is rotated by size, and old files go by number and age. Names are those that upstream's
//! library (lumberjack) gives: `audit-2026-01-31T10-20-30.123.log` beside `audit.log`, with `.gz` if compressed.

mod backups;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Settings of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLogSettings {
    /// The file; `None` for standard output, to which the other settings do not apply.
    pub path: Option<PathBuf>,
    /// The size at which a new file is begun, in megabytes (MiB, as upstream).
    pub max_size_megabytes: u64,
    /// Days that old files are kept; 0 for no limit.
    pub max_age_days: u32,
    /// Old files that are kept; 0 for no limit.
    pub max_backups: usize,
    /// Set if rotated files are compressed.
    pub compresses: bool,
}

/// An audit log that cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum AuditLogError {
    /// The file cannot be opened.
    #[error("cannot open the audit log {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// No thread can be started.
    #[error("cannot start the writer of the audit log: {0}")]
    Thread(io::Error),
}

/// Takes lines.
pub(super) enum Log {
    StandardOutput,
    File(RotatedFile),
}

impl Log {
    pub(super) fn open(settings: &AuditLogSettings) -> Result<Log, AuditLogError> {
        let Some(path) = &settings.path else {
            return Ok(Log::StandardOutput);
        };
        let opened = RotatedFile::open(path.clone(), settings);
        opened.map(Log::File).map_err(|source| AuditLogError::Open {
            path: path.clone(),
            source,
        })
    }

    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Log::StandardOutput => io::stdout().lock().write_all(lines),
            Log::File(file) => file.write(lines),
        }
    }
}

/// A file that makes room for another one when it is large.
pub(super) struct RotatedFile {
    path: PathBuf,
    settings: AuditLogSettings,
    bytes_max: u64,
    bytes: u64,
    /// `None` after a rotation that failed; the next write tries again.
    file: Option<File>,
}

impl RotatedFile {
    fn open(path: PathBuf, settings: &AuditLogSettings) -> io::Result<RotatedFile> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut rotated = RotatedFile {
            path,
            settings: settings.clone(),
            bytes_max: settings.max_size_megabytes << 20,
            bytes: 0,
            file: None,
        };
        rotated.reopen()?;
        Ok(rotated)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let added = lines.len() as u64;
        if self.bytes > 0 && self.bytes + added > self.bytes_max {
            self.rotate()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.reopen()?,
        };
        file.write_all(lines)?;
        self.bytes += added;
        Ok(())
    }

    /// Opens the file, which only its owner may read: events have what their requests had.
    fn reopen(&mut self) -> io::Result<&mut File> {
        let opened = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        self.bytes = opened.metadata()?.len();
        Ok(self.file.insert(opened))
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let backup = backups::free_name(&self.path, jiff::Timestamp::now());
        fs::rename(&self.path, &backup)?;
        self.reopen()?;
        backups::tidy_in_background(self.path.clone(), self.settings.clone());
        Ok(())
    }
}

/// The name of the file without its extension, and the extension with its dot.
fn split_name(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = match text(path.extension()) {
        extension if extension.is_empty() => extension,
        extension => format!(".{extension}"),
    };
    (text(path.file_stem()), extension)
}

#[cfg(test)]
mod tests;
