//! Old files: their names, how long they stay, and their compression.

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

/// The form of the time in names.
const TIME_FORM: &str = "%Y-%m-%dT%H-%M-%S%.3f";
const COMPRESSED: &str = ".gz";
const MILLISECONDS_PER_DAY: i64 = 24 * 3_600 * 1_000;

/// An old file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Backup {
    time: Timestamp,
    path: PathBuf,
}

/// The name for a file that is put aside at `now`, or in the first millisecond after it that has none yet.
pub(super) fn free_name(path: &Path, now: Timestamp) -> PathBuf {
    let (stem, extension) = split_name(path);
    let mut milliseconds = now.as_millisecond();
    loop {
        let time = Timestamp::from_millisecond(milliseconds).unwrap_or(now);
        let name = path.with_file_name(format!("{stem}-{}{extension}", time.strftime(TIME_FORM)));
        let mut compressed = name.clone().into_os_string();
        compressed.push(COMPRESSED);
        if !name.exists() && !Path::new(&compressed).exists() {
            return name;
        }
        milliseconds += 1;
    }
}

/// Removes and compresses old files, on a thread of its own: compressing takes seconds. One at a time.
pub(super) fn tidy_in_background(path: PathBuf, settings: AuditLogSettings) {
    static AT_WORK: Mutex<()> = Mutex::new(());
    let tidying = move || {
        // Whoever is at work now has listed the files before; the next rotation sees to what is new.
        let Ok(_guard) = AT_WORK.try_lock() else { return };
        if let Err(error) = tidy(&path, &settings, Timestamp::now()) {
            tracing::warn!(%error, path = %path.display(), "old audit logs could not be tidied up");
        }
    };
    let started = std::thread::Builder::new()
        .name("audit-backups".to_owned())
        .spawn(tidying);
    if let Err(error) = started {
        tracing::warn!(%error, "old audit logs could not be tidied up");
    }
}

/// Removes old files beyond number and age, and compresses the others if asked.
pub(super) fn tidy(path: &Path, settings: &AuditLogSettings, now: Timestamp) -> io::Result<()> {
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

/// The old files, the newest first.
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
        let plain = name.strip_suffix(COMPRESSED).unwrap_or(&name);
        let time = plain
            .strip_prefix(&stem)
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|rest| rest.strip_suffix(&extension))
            .and_then(|time| DateTime::strptime(TIME_FORM, time).ok())
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

/// Compresses a file; it goes when its compressed form is on disk.
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
