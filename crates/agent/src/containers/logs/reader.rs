//! Reader of a container's log, which can follow later output. Blocking.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::entry::Entry;
use super::{ContainerLog, Options};
use crate::sandbox::{LOG_FILES_MAX, older_log};

/// Interval at which a followed log is checked for new output.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// Error of a sink whose client has disconnected.
pub struct ClientGone;

/// Passes the selected lines to `sink` until the log ends or, if it is followed, the container exits.
///
/// # Errors
/// Errors of the file system. A sink that returns [`ClientGone`] ends the log without an error.
pub fn read(
    log: &ContainerLog,
    options: &Options,
    mut sink: impl FnMut(Vec<u8>) -> Result<(), ClientGone>,
) -> io::Result<()> {
    let skipped = match options.tail_lines {
        None => 0,
        Some(tail) => count_lines(&log.path, options)?.saturating_sub(tail),
    };
    let mut writer = Writer {
        options,
        skipped,
        remaining_bytes: options.limit_bytes,
        is_inside_line: false,
        sink: &mut sink,
    };
    let mut current = None;
    for path in files(&log.path) {
        let Some(mut file) = GrowingLog::open(&path)? else {
            continue;
        };
        if file.drain(|entry| writer.write(entry))?.is_err() {
            return Ok(());
        }
        current = Some(file);
    }
    if !options.follow {
        return Ok(());
    }
    loop {
        // The order matters: output from before the exit is read after this check.
        let may_grow = log.may_grow();
        if follow(&mut current, &log.path, &mut writer)?.is_err() || !may_grow {
            return Ok(());
        }
        thread::sleep(FOLLOW_INTERVAL);
        if writer.probe().is_err() {
            return Ok(());
        }
    }
}

/// Reads new entries, also from the next file after a rotation.
fn follow<S>(
    current: &mut Option<GrowingLog>,
    path: &Path,
    writer: &mut Writer<'_, S>,
) -> io::Result<Result<(), ClientGone>>
where
    S: FnMut(Vec<u8>) -> Result<(), ClientGone>,
{
    if let Some(file) = current
        && file.drain(|entry| writer.write(entry))?.is_err()
    {
        return Ok(Err(ClientGone));
    }
    if let Some(mut next) = GrowingLog::open(path)?
        && current.as_ref().is_none_or(|file| file.inode != next.inode)
    {
        // Entries that were written to the old file before the rotation.
        if let Some(file) = current
            && file.drain(|entry| writer.write(entry))?.is_err()
        {
            return Ok(Err(ClientGone));
        }
        let read = next.drain(|entry| writer.write(entry))?;
        *current = Some(next);
        return Ok(read);
    }
    Ok(Ok(()))
}

/// Returns the files of a log, the oldest first.
fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = (1..LOG_FILES_MAX)
        .rev()
        .map(|number| older_log(path, number))
        .collect();
    files.push(path.to_owned());
    files
}

/// Returns the number of lines that the options would select without `tailLines`.
fn count_lines(path: &Path, options: &Options) -> io::Result<u64> {
    let mut lines = 0;
    for path in files(path) {
        let Some(mut file) = GrowingLog::open(&path)? else {
            continue;
        };
        let counted = file.drain(|entry| {
            if entry.is_end && options.since.is_none_or(|since| entry.is_not_before(since)) {
                lines += 1;
            }
            Ok(())
        })?;
        debug_assert!(counted.is_ok());
    }
    Ok(lines)
}

/// Log file that grows.
struct GrowingLog {
    reader: BufReader<File>,
    inode: u64,
    /// Beginning of an entry whose end is not written yet.
    partial: Vec<u8>,
}

impl GrowingLog {
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self {
            inode: file.metadata()?.ino(),
            reader: BufReader::new(file),
            partial: Vec::new(),
        }))
    }

    /// Reads all complete entries.
    fn drain(
        &mut self,
        mut each: impl FnMut(&Entry<'_>) -> Result<(), ClientGone>,
    ) -> io::Result<Result<(), ClientGone>> {
        while self.reader.read_until(b'\n', &mut self.partial)? > 0 {
            let Some(entry) = self.partial.strip_suffix(b"\n") else {
                return Ok(Ok(()));
            };
            if let Some(entry) = Entry::parse(entry)
                && each(&entry).is_err()
            {
                return Ok(Err(ClientGone));
            }
            self.partial.clear();
        }
        Ok(Ok(()))
    }
}

/// Selection and format of the lines.
struct Writer<'a, S> {
    options: &'a Options,
    /// Lines to skip before the first one.
    skipped: u64,
    remaining_bytes: Option<u64>,
    is_inside_line: bool,
    sink: &'a mut S,
}

impl<S: FnMut(Vec<u8>) -> Result<(), ClientGone>> Writer<'_, S> {
    fn write(&mut self, entry: &Entry<'_>) -> Result<(), ClientGone> {
        if self
            .options
            .since
            .is_some_and(|since| !entry.is_not_before(since))
            || !self.options.stream.contains(entry.stream)
        {
            return Ok(());
        }
        if self.skipped > 0 {
            self.skipped -= u64::from(entry.is_end);
            return Ok(());
        }
        let mut line = Vec::with_capacity(entry.time.len() + entry.text.len() + 2);
        if self.options.timestamps && !self.is_inside_line {
            line.extend_from_slice(entry.time.as_bytes());
            line.push(b' ');
        }
        line.extend_from_slice(entry.text);
        if entry.is_end {
            line.push(b'\n');
        }
        self.is_inside_line = !entry.is_end;
        self.send(line)
    }

    fn send(&mut self, mut line: Vec<u8>) -> Result<(), ClientGone> {
        let Some(remaining) = &mut self.remaining_bytes else {
            return (self.sink)(line);
        };
        line.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
        *remaining -= line.len() as u64;
        let is_full = *remaining == 0;
        (self.sink)(line)?;
        if is_full { Err(ClientGone) } else { Ok(()) }
    }

    /// Returns true if the client still reads.
    fn probe(&mut self) -> Result<(), ClientGone> {
        (self.sink)(Vec::new())
    }
}
