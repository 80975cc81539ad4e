//! Process that holds the user namespace of a Pod and the namespaces that it owns, until the sandbox has entered them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use netlink::route::NetworkNamespace;
use rustix::thread::UnshareFlags;

use super::ranges::{IDS_PER_POD, IdRange};
use super::{UserNamespaceError, id_mapped_mounts};
use crate::sandbox::SELF_EXE;
use crate::volumes::file_owners::VolumeOwners;

/// Hidden subcommand of the process.
pub const SUBCOMMAND: &str = "internal-user-namespace";
/// Line that the process writes when the user namespace exists. The namespace then needs its ID maps.
const CREATED: &str = "created";
/// Line that the process writes when the namespaces exist that the user namespace owns.
const READY: &str = "ready";
/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 512;

/// Handle of the process. Dropping it ends the process; a namespace lives as long as a process is in it.
#[derive(Debug)]
pub struct Holder {
    process: Child,
}

impl Holder {
    /// Creates a user namespace with the IDs of a range, and network, UTS and IPC namespaces that it owns.
    ///
    /// # Errors
    /// See [`UserNamespaceError`].
    pub fn start(range: IdRange) -> Result<Self, UserNamespaceError> {
        let failed = |source| UserNamespaceError::Holder { source };
        let mut command = Command::new(SELF_EXE);
        command
            .arg0("portolan-users")
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut holder = Self {
            process: command.spawn().map_err(failed)?,
        };
        let (mut input, mut output) = holder.streams().map_err(failed)?;
        expect_line(&mut output, CREATED)?;
        for map in ["uid_map", "gid_map"] {
            let first = range.first();
            let line = format!("0 {first} {IDS_PER_POD}\n");
            fs::write(holder.path(map), line).map_err(|source| UserNamespaceError::Map { first, source })?;
        }
        writeln!(input).map_err(failed)?;
        expect_line(&mut output, READY)?;
        // The process ends when its input is closed.
        holder.process.stdin = Some(input);
        Ok(holder)
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the network namespace of the Pod.
    ///
    /// # Errors
    /// Errors of `open(2)`.
    pub fn network(&self) -> Result<NetworkNamespace, UserNamespaceError> {
        let opened = File::open(self.path("ns/net"));
        let opened = opened.map_err(|source| UserNamespaceError::Holder { source })?;
        Ok(NetworkNamespace::from(opened))
    }

    /// Returns the owners that volumes in a directory can have.
    ///
    /// # Errors
    /// [`UserNamespaceError::Mounts`].
    pub fn volume_owners(&self, directory: &Path) -> Result<VolumeOwners, UserNamespaceError> {
        let namespace = File::open(self.path("ns/user"));
        let owners =
            namespace.and_then(|namespace| id_mapped_mounts::volume_owners(directory, namespace.as_fd()));
        owners.map_err(|source| UserNamespaceError::Mounts { source })
    }

    fn path(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.process.id())
    }

    fn streams(&mut self) -> io::Result<(ChildStdin, BufReader<ChildStdout>)> {
        let streams = self.process.stdin.take().zip(self.process.stdout.take());
        let (input, output) = streams.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((input, BufReader::new(output)))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let ended = self.process.kill().and_then(|()| self.process.wait());
        if let Err(error) = ended {
            tracing::warn!(%error, "holder of a user namespace did not exit");
        }
    }
}

/// Reads the expected line. Any other line is an error message of the process.
fn expect_line(output: &mut impl BufRead, expected: &str) -> Result<(), UserNamespaceError> {
    let mut line = String::new();
    let read = output.take(LINE_BYTES_MAX).read_line(&mut line);
    read.map_err(|source| UserNamespaceError::Holder { source })?;
    match line.trim_end() {
        line if line == expected => Ok(()),
        "" => Err(UserNamespaceError::Holder {
            source: io::Error::new(io::ErrorKind::UnexpectedEof, "the holder process ended at once"),
        }),
        line => Err(UserNamespaceError::Refused {
            message: line.to_owned(),
        }),
    }
}

/// Runs the process: creates the namespaces and waits until its input is closed.
pub fn hold_namespaces() -> ExitCode {
    match create() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn create() -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER, "a user namespace")?;
    print_line(CREATED)?;
    let mut input = io::stdin().lock();
    let mut line = String::new();
    // The agent ended before it wrote the ID maps.
    if input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
        return Ok(());
    }
    let owned = UnshareFlags::NEWNET | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC;
    unshare(owned, "network, UTS and IPC namespaces")?;
    print_line(READY)?;
    io::copy(&mut input, &mut io::sink()).map(drop)
}

fn unshare(flags: UnshareFlags, subject: &str) -> io::Result<()> {
    // SAFETY: no file descriptor table is unshared, the only reason why the call is unsafe.
    let unshared = unsafe { rustix::thread::unshare_unsafe(flags) };
    unshared.map_err(|errno| {
        let error = io::Error::from(errno);
        io::Error::new(error.kind(), format!("{subject}: {error}"))
    })
}

fn print_line(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
