//! The audit log file, rotated by size. Rotated files are deleted by number and age. Their names are those of
//! upstream's library (lumberjack): `audit-2026-01-31T10-20-30.123.log` alongside `audit.log`, with `.gz` if compressed.

mod backups;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Settings of the audit log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLogSettings {
    /// Path of the file; `None` for standard output, for which the other settings have no effect.
    pub path: Option<PathBuf>,
    /// Size at which the file is rotated, in MiB (upstream calls the unit megabytes).
    pub max_size_megabytes: u64,
    /// Age in days at which rotated files are deleted; 0 for no limit.
    pub max_age_days: u32,
    /// Maximum number of rotated files; 0 for no limit.
    pub max_backups: usize,
    /// True if rotated files are compressed.
    pub compresses: bool,
}

/// Failure to open the audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditLogError {
    /// The file cannot be opened.
    #[error("cannot open the audit log {}: {source}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The writer thread cannot be started.
    #[error("cannot start the audit log writer: {0}")]
    Thread(io::Error),
}

/// Destination of event lines.
pub(super) enum Log {
    StandardOutput,
    File(RotatedFile),
}

impl Log {
    pub(super) fn open(settings: &AuditLogSettings) -> Result<Log, AuditLogError> {
        let Some(path) = &settings.path else {
            return Ok(Log::StandardOutput);
        };
        let file = RotatedFile::open(path.clone(), settings);
        file.map(Log::File).map_err(|source| AuditLogError::Open {
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

/// A file that is rotated when it reaches its maximum size.
pub(super) struct RotatedFile {
    path: PathBuf,
    settings: AuditLogSettings,
    bytes_max: u64,
    bytes: u64,
    /// `None` after a failed rotation; the next write opens the file again.
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

    /// Opens the file with mode 0600, because events contain request bodies.
    fn reopen(&mut self) -> io::Result<&mut File> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        self.bytes = file.metadata()?.len();
        Ok(self.file.insert(file))
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let backup = backups::unused_name(&self.path, jiff::Timestamp::now());
        fs::rename(&self.path, &backup)?;
        self.reopen()?;
        backups::clean_up_in_background(self.path.clone(), self.settings.clone());
        Ok(())
    }
}

/// Splits a file name into stem and extension; the extension includes its dot.
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
