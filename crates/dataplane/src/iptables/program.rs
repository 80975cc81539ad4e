//! The programs of iptables: detection, execution and errors.

use std::fs;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;

use plan::Family;

use super::names::{CANARY, Table};
use super::saved::SavedTables;

/// Time in seconds to wait for the lock of the tables, as kube-proxy.
const LOCK_WAIT_SECONDS: &str = "5";
/// Maximum number of bytes that are kept of a program's standard error.
const STDERR_BYTES_MAX: u64 = 16 << 10;
/// Chains that show which variant the kubelet of this node uses.
const KUBELET_CHAINS: [&str; 3] = [
    ":KUBE-IPTABLES-HINT ",
    ":KUBE-KUBELET-CANARY ",
    ":KUBE-PROXY-CANARY ",
];

/// Variants of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// ip_tables.
    Legacy,
    /// nf_tables, by the programs of iptables.
    Nft,
}

impl Variant {
    fn infix(self) -> &'static str {
        match self {
            Self::Legacy => "-legacy",
            Self::Nft => "-nft",
        }
    }
}

/// Failures of a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program is missing or cannot start. A retry does not help.
    #[error("cannot run {program}: {source} (install iptables, or choose --proxy-mode=nftables)")]
    Start {
        /// Name of the program.
        program: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// The program lacks privileges. A retry does not help.
    #[error(
        "{program} is not permitted to change rules; run as root, or grant CAP_NET_ADMIN and CAP_NET_RAW"
    )]
    NotPermitted {
        /// Name of the program.
        program: String,
    },
    /// The program or the kernel refused the input. A retry helps if another program held the lock.
    #[error("{program} failed{}: {message}", line.map(|line| format!(" at line {line}")).unwrap_or_default())]
    Refused {
        /// Name of the program.
        program: String,
        /// Line of the input that was refused, from 1, if it is known.
        line: Option<usize>,
        /// Text on standard error, or the exit status.
        message: String,
    },
    /// A pipe to the program failed. A retry helps.
    #[error("cannot read or write {program}: {source}")]
    Pipe {
        /// Name of the program.
        program: String,
        /// Error of the system call.
        source: io::Error,
    },
}

/// The programs of one IP family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Programs {
    base: &'static str,
    infix: &'static str,
}

impl Programs {
    /// Returns the programs of a variant, or the default programs.
    pub(super) fn new(family: Family, variant: Option<Variant>) -> Self {
        Self {
            base: match family {
                Family::V4 => "iptables",
                Family::V6 => "ip6tables",
            },
            infix: variant.map_or("", Variant::infix),
        }
    }

    /// Checks that the programs run and can read the tables.
    pub(super) fn check(&self) -> Result<(), ProgramError> {
        self.save().map(drop)
    }

    /// Reads all tables.
    pub(super) fn save(&self) -> Result<SavedTables, ProgramError> {
        let program = self.name("-save");
        let mut child = spawn(
            Command::new(&program).stdin(Stdio::null()).stdout(Stdio::piped()),
            &program,
        )?;
        let stderr_text = read_stderr(child.stderr.take());
        let saved = match child.stdout.take() {
            Some(stdout) => SavedTables::read(BufReader::new(stdout)),
            None => Ok(SavedTables::default()),
        };
        finish(child, stderr_text, &program)?;
        saved.map_err(|source| ProgramError::Pipe { program, source })
    }

    /// Applies the input that `write` produces, in the language of `iptables-restore`.
    pub(super) fn restore(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ProgramError> {
        let program = self.name("-restore");
        let mut command = Command::new(&program);
        command.args(["-w", LOCK_WAIT_SECONDS, "--noflush", "--counters"]);
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::null()), &program)?;
        let stderr_text = read_stderr(child.stderr.take());
        let written = match child.stdin.take() {
            Some(stdin) => {
                let mut out = BufWriter::with_capacity(64 << 10, stdin);
                write(&mut out).and_then(|()| out.flush())
            }
            None => Ok(()),
        };
        // The exit status explains a broken pipe, so it is checked first.
        finish(child, stderr_text, &program)?;
        written.map_err(|source| ProgramError::Pipe { program, source })
    }

    /// Returns true if a table has its canary (IPT-12).
    pub(super) fn has_canary(&self, table: Table) -> Result<bool, ProgramError> {
        self.succeeds(&["-t", table.name(), "-n", "-L", CANARY])
    }

    /// Returns true if a rule exists.
    pub(super) fn has_rule(
        &self,
        table: Table,
        chain: &str,
        to: &str,
        comment: &str,
    ) -> Result<bool, ProgramError> {
        let comment = ["-m", "comment", "--comment", comment, "-j", to];
        let mut arguments = vec!["-t", table.name(), "-C", chain];
        arguments.extend(comment);
        self.succeeds(&arguments)
    }

    /// Runs a check. Returns true if it succeeds.
    fn succeeds(&self, arguments: &[&str]) -> Result<bool, ProgramError> {
        let program = self.name("");
        let mut command = Command::new(&program);
        command.args(["-w", LOCK_WAIT_SECONDS]).args(arguments);
        let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::null()), &program)?;
        let stderr_text = read_stderr(child.stderr.take());
        match finish(child, stderr_text, &program) {
            Ok(()) => Ok(true),
            Err(ProgramError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn name(&self, suffix: &str) -> String {
        format!("{}{}{suffix}", self.base, self.infix)
    }
}

/// Detects the variant that this node uses: the one with a chain of the kubelet or of an earlier proxy, or else the one
/// with more rules. Returns `None`, for the default programs, if only one variant exists or no variant has rules.
pub(super) fn detect() -> Option<Variant> {
    let rules = |variant| {
        let text =
            [Family::V4, Family::V6].map(|family| text_of_tables(&Programs::new(family, Some(variant))));
        let [v4, v6] = text;
        Some(v4? + &v6.unwrap_or_default())
    };
    let nft = rules(Variant::Nft)?;
    // The legacy program may create tables when it lists them, so the kernel is queried first.
    let has_legacy = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"]
        .iter()
        .any(|path| fs::read_to_string(path).is_ok_and(|names| !names.is_empty()));
    let legacy = if has_legacy { rules(Variant::Legacy) } else { None };
    choose(&nft, &legacy.unwrap_or_default())
}

/// Selects a variant by the content of the tables of both.
fn choose(nft: &str, legacy: &str) -> Option<Variant> {
    let has_hint = |text: &str| {
        text.lines()
            .any(|line| KUBELET_CHAINS.iter().any(|hint| line.starts_with(hint)))
    };
    let count = |text: &str| text.lines().filter(|line| line.starts_with('-')).count();
    match (has_hint(nft), has_hint(legacy)) {
        (true, _) => Some(Variant::Nft),
        (false, true) => Some(Variant::Legacy),
        (false, false) => match count(nft).cmp(&count(legacy)) {
            std::cmp::Ordering::Greater => Some(Variant::Nft),
            std::cmp::Ordering::Less => Some(Variant::Legacy),
            std::cmp::Ordering::Equal => None,
        },
    }
}

/// Returns the text of the tables, or enough of it to compare. Returns `None` if the program is missing.
fn text_of_tables(programs: &Programs) -> Option<String> {
    const TEXT_BYTES_MAX: u64 = 4 << 20;
    let mut child = Command::new(programs.name("-save"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut text = Vec::new();
    let stdout = child.stdout.take()?;
    let read = stdout.take(TEXT_BYTES_MAX).read_to_end(&mut text);
    let is_success = child.wait().is_ok_and(|status| status.success());
    (read.is_ok() && (is_success || text.len() as u64 == TEXT_BYTES_MAX))
        .then(|| String::from_utf8_lossy(&text).into_owned())
}

fn spawn(command: &mut Command, program: &str) -> Result<Child, ProgramError> {
    command
        .env("LC_ALL", "C")
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| ProgramError::Start {
            program: program.to_owned(),
            source,
        })
}

/// Reads standard error in a thread, so that the program never blocks on it.
fn read_stderr(stderr: Option<ChildStderr>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stderr) = stderr {
            let read = stderr.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut kept);
            let rest = io::copy(&mut stderr, &mut io::sink());
            if let Err(error) = read.and(rest) {
                tracing::debug!(%error, "standard error not readable");
            }
        }
        String::from_utf8_lossy(&kept).trim().to_owned()
    })
}

fn finish(mut child: Child, stderr_text: JoinHandle<String>, program: &str) -> Result<(), ProgramError> {
    let status = child.wait();
    let message = stderr_text.join().unwrap_or_default();
    let program = program.to_owned();
    match status {
        Err(source) => Err(ProgramError::Pipe { program, source }),
        Ok(status) if status.success() => {
            if !message.is_empty() {
                tracing::debug!(program, message, "program printed a message");
            }
            Ok(())
        }
        Ok(_) if message.contains("Permission denied") || message.contains("Operation not permitted") => {
            Err(ProgramError::NotPermitted { program })
        }
        Ok(status) => Err(ProgramError::Refused {
            line: refused_line(&message),
            message: if message.is_empty() {
                status.to_string()
            } else {
                message
            },
            program,
        }),
    }
}

/// Returns the line number in a message such as `line 7 failed` or `Error occurred at line: 7`.
fn refused_line(message: &str) -> Option<usize> {
    let (_, rest) = message.rsplit_once("line")?;
    let rest = rest.trim_start_matches([':', ' ']);
    let end = rest
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests;
