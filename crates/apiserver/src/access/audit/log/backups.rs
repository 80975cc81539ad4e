//! Rotated files: names, deletion and compression.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{AuditLogSettings, split_name};

/// Time format in file names.
const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.3f";
const COMPRESSED: &str = ".gz";
const MILLISECONDS_PER_DAY: i64 = 24 * 3_600 * 1_000;

/// A rotated file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Backup {
    time: Timestamp,
    path: PathBuf,
}

/// Returns the name for a file that is rotated at `now`, or at the next millisecond whose name is not in use.
pub(super) fn unused_name(path: &Path, now: Timestamp) -> PathBuf {
    let (stem, extension) = split_name(path);
    let mut milliseconds = now.as_millisecond();
    loop {
        let time = Timestamp::from_millisecond(milliseconds).unwrap_or(now);
        let name = path.with_file_name(format!("{stem}-{}{extension}", time.strftime(TIME_FORMAT)));
        let mut compressed = name.clone().into_os_string();
        compressed.push(COMPRESSED);
        if !name.exists() && !Path::new(&compressed).exists() {
            return name;
        }
        milliseconds += 1;
    }
}

/// Deletes and compresses rotated files in a thread, because compression takes seconds. One thread runs at a time.
pub(super) fn clean_up_in_background(path: PathBuf, settings: AuditLogSettings) {
    static RUNNING: Mutex<()> = Mutex::new(());
    let run = move || {
        // A thread that runs now listed the files earlier; the next rotation handles later files.
        let Ok(_guard) = RUNNING.try_lock() else { return };
        if let Err(error) = clean_up(&path, &settings, Timestamp::now()) {
            tracing::warn!(%error, path = %path.display(), "cleanup of rotated audit logs failed");
        }
    };
    let thread = std::thread::Builder::new()
        .name("audit-backups".to_owned())
        .spawn(run);
    if let Err(error) = thread {
        tracing::warn!(%error, "cleanup of rotated audit logs failed");
    }
}

/// Deletes rotated files that exceed number or age, and compresses the others if configured.
pub(super) fn clean_up(path: &Path, settings: &AuditLogSettings, now: Timestamp) -> io::Result<()> {
    let oldest = now.as_millisecond() - i64::from(settings.max_age_days) * MILLISECONDS_PER_DAY;
    for (index, backup) in list(path)?.into_iter().enumerate() {
        let is_surplus = settings.max_backups > 0 && index >= settings.max_backups;
        let is_old = settings.max_age_days > 0 && backup.time.as_millisecond() < oldest;
        if is_surplus || is_old {
            fs::remove_file(&backup.path)?;
        } else if settings.compresses && !is_compressed(&backup.path) {
            compress(&backup.path)?;
        }
    }
    Ok(())
}

/// Lists rotated files, newest first.
fn list(path: &Path) -> io::Result<Vec<Backup>> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let (stem, extension) = split_name(path);
    let mut backups = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let uncompressed = name.strip_suffix(COMPRESSED).unwrap_or(&name);
        let time = uncompressed
            .strip_prefix(&stem)
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|rest| rest.strip_suffix(&extension))
            .and_then(|time| DateTime::strptime(TIME_FORMAT, time).ok())
            .and_then(|time| TimeZone::UTC.to_timestamp(time).ok());
        if let Some(time) = time {
            backups.push(Backup {
                time,
                path: entry.path(),
            });
        }
    }
    backups.sort_unstable();
    backups.reverse();
    Ok(backups)
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// Compresses a file, and deletes the original once the compressed file is on disk.
fn compress(path: &Path) -> io::Result<()> {
    let mut compressed = path.to_owned().into_os_string();
    compressed.push(COMPRESSED);
    let target = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&compressed)?;
    let mut encoder = GzEncoder::new(target, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::remove_file(path)
}
