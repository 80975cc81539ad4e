//! Reading a log from its files, and going on with what is written later. Blocking.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::line::Entry;
use super::{Found, Options};
use crate::sandbox::{LOG_FILES_MAX, older};

/// How often a log that is followed is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// Nobody reads on.
pub struct Stop;

/// Tells `sink` the answer, a line at a time, until the log ends, or, if it is followed, the container does.
pub fn read(
    found: &Found,
    options: &Options,
    mut sink: impl FnMut(Vec<u8>) -> Result<(), Stop>,
) -> io::Result<()> {
    let skipped = match options.tail_lines {
        None => 0,
        Some(tail) => count_lines(&found.path, options)?.saturating_sub(tail),
    };
    let mut writer = Writer {
        options,
        skipped,
        left: options.limit_bytes,
        is_within_line: false,
        sink: &mut sink,
    };
    let mut present = None;
    for path in files(&found.path) {
        let Some(mut file) = Tail::open(&path)? else {
            continue;
        };
        if file.drain(|entry| writer.take(entry))?.is_err() {
            return Ok(());
        }
        present = Some(file);
    }
    if !options.follow {
        return Ok(());
    }
    loop {
        // Asked first: what is printed before the end is read after it.
        let may_go_on = found.may_go_on();
        if follow(&mut present, &found.path, &mut writer)?.is_err() || !may_go_on {
            return Ok(());
        }
        thread::sleep(FOLLOW_INTERVAL);
        if writer.probe().is_err() {
            return Ok(());
        }
    }
}

/// Reads what is new, in the next file too if there is one.
fn follow<S>(
    present: &mut Option<Tail>,
    path: &Path,
    writer: &mut Writer<'_, S>,
) -> io::Result<Result<(), Stop>>
where
    S: FnMut(Vec<u8>) -> Result<(), Stop>,
{
    if let Some(file) = present
        && file.drain(|entry| writer.take(entry))?.is_err()
    {
        return Ok(Err(Stop));
    }
    if let Some(mut next) = Tail::open(path)?
        && present.as_ref().is_none_or(|file| file.inode != next.inode)
    {
        // What was written to the old one between the two looks.
        if let Some(file) = present
            && file.drain(|entry| writer.take(entry))?.is_err()
        {
            return Ok(Err(Stop));
        }
        let read = next.drain(|entry| writer.take(entry))?;
        *present = Some(next);
        return Ok(read);
    }
    Ok(Ok(()))
}

/// The files of a log, the oldest first.
fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = (1..LOG_FILES_MAX)
        .rev()
        .map(|number| older(path, number))
        .collect();
    files.push(path.to_owned());
    files
}

/// How many lines there are to tell, if all are told.
fn count_lines(path: &Path, options: &Options) -> io::Result<u64> {
    let mut lines = 0;
    for path in files(path) {
        let Some(mut file) = Tail::open(&path)? else {
            continue;
        };
        let counted = file.drain(|entry| {
            if entry.is_end && options.since.is_none_or(|since| entry.is_since(since)) {
                lines += 1;
            }
            Ok(())
        })?;
        debug_assert!(counted.is_ok());
    }
    Ok(lines)
}

/// A file that grows.
struct Tail {
    reader: BufReader<File>,
    inode: u64,
    /// The beginning of an entry whose end is not written yet.
    begun: Vec<u8>,
}

impl Tail {
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self {
            inode: file.metadata()?.ino(),
            reader: BufReader::new(file),
            begun: Vec::new(),
        }))
    }

    /// Reads all entries that are there.
    fn drain(
        &mut self,
        mut each: impl FnMut(&Entry<'_>) -> Result<(), Stop>,
    ) -> io::Result<Result<(), Stop>> {
        while self.reader.read_until(b'\n', &mut self.begun)? > 0 {
            let Some(entry) = self.begun.strip_suffix(b"\n") else {
                return Ok(Ok(()));
            };
            if let Some(entry) = Entry::parse(entry)
                && each(&entry).is_err()
            {
                return Ok(Err(Stop));
            }
            self.begun.clear();
        }
        Ok(Ok(()))
    }
}

/// Chooses what is told, and in which form.
struct Writer<'a, S> {
    options: &'a Options,
    /// Lines that are left out before the first one.
    skipped: u64,
    left: Option<u64>,
    is_within_line: bool,
    sink: &'a mut S,
}

impl<S: FnMut(Vec<u8>) -> Result<(), Stop>> Writer<'_, S> {
    fn take(&mut self, entry: &Entry<'_>) -> Result<(), Stop> {
        if self.options.since.is_some_and(|since| !entry.is_since(since)) {
            return Ok(());
        }
        if self.skipped > 0 {
            self.skipped -= u64::from(entry.is_end);
            return Ok(());
        }
        let mut line = Vec::with_capacity(entry.time.len() + entry.text.len() + 2);
        if self.options.timestamps && !self.is_within_line {
            line.extend_from_slice(entry.time.as_bytes());
            line.push(b' ');
        }
        line.extend_from_slice(entry.text);
        if entry.is_end {
            line.push(b'\n');
        }
        self.is_within_line = !entry.is_end;
        self.tell(line)
    }

    fn tell(&mut self, mut line: Vec<u8>) -> Result<(), Stop> {
        let Some(left) = &mut self.left else {
            return (self.sink)(line);
        };
        line.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= line.len() as u64;
        let is_full = *left == 0;
        (self.sink)(line)?;
        if is_full { Err(Stop) } else { Ok(()) }
    }

    /// Whether somebody reads still.
    fn probe(&mut self) -> Result<(), Stop> {
        (self.sink)(Vec::new())
    }
}
