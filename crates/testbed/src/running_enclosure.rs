//! Entry into a running enclosure: `portolan playground exec MEMBER -- PROGRAM`.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, ExitStatus};

use netlink::route::NetworkNamespace;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cluster::NETNS_DIRECTORY;
use crate::enclosure::INIT_NAME;

/// Failure to enter an enclosure.
#[derive(Debug, thiserror::Error)]
pub enum EnclosureEntryError {
    /// `/proc` cannot be read.
    #[error("cannot read the processes of /proc: {source}")]
    Search {
        /// Error of the kernel.
        source: io::Error,
    },
    /// The user has no enclosure, or it has just ended.
    #[error("no playground of this user is running")]
    NoneRunning,
    /// The enclosure belongs to another user, or has just ended.
    #[error("cannot enter the {kind} namespace of process {pid}: {source}")]
    Namespace {
        /// Kind of the namespace.
        kind: &'static str,
        /// Process number.
        pid: u32,
        /// Error of the kernel.
        source: io::Error,
    },
    /// No member has that name.
    #[error("expected a member, one of {}; found {name}", known.join(", "))]
    NoMember {
        /// Requested name.
        name: String,
        /// Names of all members.
        known: Vec<String>,
    },
    /// The program cannot be started.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// Name of the program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
}

/// A running enclosure: its PID 1, by its number on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningEnclosure {
    /// Process number of the enclosure's PID 1.
    pub pid: u32,
}

impl RunningEnclosure {
    /// Returns the enclosures of the calling user, the latest last.
    ///
    /// # Errors
    ///
    /// Returns [`EnclosureEntryError`] if `/proc` cannot be read.
    pub fn all() -> Result<Vec<Self>, EnclosureEntryError> {
        let own = rustix::process::geteuid().as_raw();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").map_err(|source| EnclosureEntryError::Search { source })? {
            let entry = entry.map_err(|source| EnclosureEntryError::Search { source })?;
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process that has just ended is skipped.
            let is_own = entry.metadata().is_ok_and(|metadata| metadata.uid() == own);
            let name = fs::read(entry.path().join("comm")).unwrap_or_default();
            if is_own && name.trim_ascii_end() == INIT_NAME.to_bytes() {
                found.push(Self { pid });
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns the latest enclosure of the calling user.
    ///
    /// # Errors
    ///
    /// Returns [`EnclosureEntryError`] if no enclosure runs.
    pub fn latest() -> Result<Self, EnclosureEntryError> {
        Self::all()?.pop().ok_or(EnclosureEntryError::NoneRunning)
    }

    /// Returns the path on the host of a `path` inside of the enclosure.
    pub fn path(self, inside: &str) -> String {
        format!("/proc/{}/root{inside}", self.pid)
    }
}

/// Runs `command` in the network namespace of a member of a running enclosure. The command has the standard streams
/// of this process. Waits for it. Call this before any thread is started: the kernel lets only single-threaded
/// processes change their user namespace.
///
/// # Errors
///
/// Returns [`EnclosureEntryError`] if a namespace cannot be entered or the program cannot be started.
pub fn enter_enclosure(
    running: RunningEnclosure,
    member: &str,
    command: &mut Command,
) -> Result<ExitStatus, EnclosureEntryError> {
    let directory = std::env::current_dir().ok();
    join(running, "user", LinkNameSpaceType::User)?;
    join(running, "pid", LinkNameSpaceType::ProcessID)?;
    join(running, "mnt", LinkNameSpaceType::Mount)?;
    // Entering a mount namespace leads to its root.
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    let namespace = open_member(member)?;
    let program = command.get_program().to_string_lossy().into_owned();
    let spawn = |source| EnclosureEntryError::Spawn { program, source };
    namespace
        .start_inside(command)
        .map_err(|source| EnclosureEntryError::Namespace {
            kind: "net",
            pid: running.pid,
            source: io::Error::other(source),
        })?;
    command.status().map_err(spawn)
}

fn join(
    running: RunningEnclosure,
    kind: &'static str,
    which: LinkNameSpaceType,
) -> Result<(), EnclosureEntryError> {
    let failed = |source| EnclosureEntryError::Namespace {
        kind,
        pid: running.pid,
        source,
    };
    let theirs = File::open(format!("/proc/{}/ns/{kind}", running.pid)).map_err(failed)?;
    let ours = File::open(format!("/proc/self/ns/{kind}")).map_err(failed)?;
    let number = |file: &File| {
        file.metadata()
            .map(|metadata| (metadata.dev(), metadata.ino()))
            .map_err(failed)
    };
    // The kernel refuses to enter the user namespace that one is in already, which is so for root.
    if number(&theirs)? == number(&ours)? {
        return Ok(());
    }
    move_into_link_name_space(theirs.as_fd(), Some(which)).map_err(|errno| failed(errno.into()))
}

fn open_member(member: &str) -> Result<NetworkNamespace, EnclosureEntryError> {
    let mut known: Vec<String> = fs::read_dir(NETNS_DIRECTORY)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    known.sort();
    let no_member = || EnclosureEntryError::NoMember {
        name: member.to_owned(),
        known: known.clone(),
    };
    if !known.iter().any(|name| name == member) {
        return Err(no_member());
    }
    File::open(format!("{NETNS_DIRECTORY}/{member}"))
        .map(NetworkNamespace::from)
        .map_err(|_| no_member())
}
