//! The programs: finding the right ones, running them, and what they say when they fail.

use std::fs;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;

use plan::Family;

use super::names::{CANARY, Table};
use super::saved::Saved;

/// How long a program waits while another one has the tables: as long as kube-proxy has it wait.
const LOCK_WAIT_SECONDS: &str = "5";
/// What is kept of a program's complaints.
const COMPLAINT_BYTES_MAX: u64 = 16 << 10;
/// Chains that tell which of the two kinds of tables this machine's kubelet uses.
const HINTS: [&str; 3] = [
    ":KUBE-IPTABLES-HINT ",
    ":KUBE-KUBELET-CANARY ",
    ":KUBE-PROXY-CANARY ",
];

/// The two kinds of tables that kernels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// ip_tables.
    Legacy,
    /// nf_tables, through iptables' programs.
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

/// Why a program did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not there, or cannot be started. No retry helps.
    #[error("cannot run {program}: {source} (install iptables, or choose --proxy-mode=nftables)")]
    Start {
        /// Its name.
        program: String,
        /// What failed.
        source: io::Error,
    },
    /// It says that it is not permitted. No retry helps.
    #[error("{program} is not permitted to change rules")]
    NotPermitted {
        /// Its name.
        program: String,
    },
    /// It refused what it was given, or the kernel did. Retrying helps if another program had the tables.
    #[error("{program} failed{}: {message}", line.map(|line| format!(" at line {line}")).unwrap_or_default())]
    Refused {
        /// Its name.
        program: String,
        /// The line of its input that was refused, from 1, if that is known.
        line: Option<usize>,
        /// What it says.
        message: String,
    },
    /// Talking with it failed. Retrying helps.
    #[error("talking with {program}: {source}")]
    Talk {
        /// Its name.
        program: String,
        /// What failed.
        source: io::Error,
    },
}

/// The programs of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    base: &'static str,
    infix: &'static str,
}

impl Programs {
    /// The programs of a variant; the machine's default ones for `None`.
    pub fn new(family: Family, variant: Option<Variant>) -> Self {
        Self {
            base: match family {
                Family::V4 => "iptables",
                Family::V6 => "ip6tables",
            },
            infix: variant.map_or("", Variant::infix),
        }
    }

    /// Whether they can be run and their tables read.
    pub fn check(&self) -> Result<(), ProgramError> {
        self.save().map(drop)
    }

    /// Reads all tables.
    pub fn save(&self) -> Result<Saved, ProgramError> {
        let program = self.name("-save");
        let mut child = spawn(
            Command::new(&program).stdin(Stdio::null()).stdout(Stdio::piped()),
            &program,
        )?;
        let complaints = listen(child.stderr.take());
        let saved = match child.stdout.take() {
            Some(stdout) => Saved::read(BufReader::new(stdout)),
            None => Ok(Saved::default()),
        };
        finish(child, complaints, &program)?;
        saved.map_err(|source| ProgramError::Talk { program, source })
    }

    /// Changes what `write` says, in the language of `iptables-restore`.
    pub fn restore(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), ProgramError> {
        let program = self.name("-restore");
        let mut command = Command::new(&program);
        command.args(["-w", LOCK_WAIT_SECONDS, "--noflush", "--counters"]);
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::null()), &program)?;
        let complaints = listen(child.stderr.take());
        let written = match child.stdin.take() {
            Some(stdin) => {
                let mut out = BufWriter::with_capacity(64 << 10, stdin);
                write(&mut out).and_then(|()| out.flush())
            }
            None => Ok(()),
        };
        // A program that ended early says why; that it did not read on is no news then.
        finish(child, complaints, &program)?;
        written.map_err(|source| ProgramError::Talk { program, source })
    }

    /// Whether the canary of a table is there (IPT-12).
    pub fn has_canary(&self, table: Table) -> Result<bool, ProgramError> {
        self.asks(&["-t", table.name(), "-n", "-L", CANARY])
    }

    /// Whether a rule is there.
    pub fn has_rule(&self, table: Table, chain: &str, to: &str, comment: &str) -> Result<bool, ProgramError> {
        let comment = ["-m", "comment", "--comment", comment, "-j", to];
        let mut arguments = vec!["-t", table.name(), "-C", chain];
        arguments.extend(comment);
        self.asks(&arguments)
    }

    /// Runs a question; whether the answer is yes.
    fn asks(&self, arguments: &[&str]) -> Result<bool, ProgramError> {
        let program = self.name("");
        let mut command = Command::new(&program);
        command.args(["-w", LOCK_WAIT_SECONDS]).args(arguments);
        let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::null()), &program)?;
        let complaints = listen(child.stderr.take());
        match finish(child, complaints, &program) {
            Ok(()) => Ok(true),
            Err(ProgramError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn name(&self, suffix: &str) -> String {
        format!("{}{}{suffix}", self.base, self.infix)
    }
}

/// Which kind of tables this machine uses: the one where kubelet or an earlier proxy has left a chain, else the one
/// with more rules. `None` for the default programs: there is but one kind, or there are no rules at all.
pub fn detect() -> Option<Variant> {
    let rules = |variant| {
        let text =
            [Family::V4, Family::V6].map(|family| text_of_tables(&Programs::new(family, Some(variant))));
        let [v4, v6] = text;
        Some(v4? + &v6.unwrap_or_default())
    };
    let nft = rules(Variant::Nft)?;
    // Asking for legacy tables may make them; the kernel tells whether there are any.
    let has_legacy = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"]
        .iter()
        .any(|path| fs::read_to_string(path).is_ok_and(|names| !names.is_empty()));
    let legacy = if has_legacy { rules(Variant::Legacy) } else { None };
    choose(&nft, &legacy.unwrap_or_default())
}

/// Decides by what both kinds of tables have.
fn choose(nft: &str, legacy: &str) -> Option<Variant> {
    let has_hint = |text: &str| {
        text.lines()
            .any(|line| HINTS.iter().any(|hint| line.starts_with(hint)))
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

/// What the tables have, or as much of it as is needed to compare. `None` if the program is not there.
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

/// Reads what a program complains about, while it is talked with.
fn listen(stderr: Option<ChildStderr>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stderr) = stderr {
            let read = stderr.by_ref().take(COMPLAINT_BYTES_MAX).read_to_end(&mut kept);
            let rest = io::copy(&mut stderr, &mut io::sink());
            if let Err(error) = read.and(rest) {
                tracing::debug!(%error, "reading a program's complaints");
            }
        }
        String::from_utf8_lossy(&kept).trim().to_owned()
    })
}

fn finish(mut child: Child, complaints: JoinHandle<String>, program: &str) -> Result<(), ProgramError> {
    let status = child.wait();
    let message = complaints.join().unwrap_or_default();
    let program = program.to_owned();
    match status {
        Err(source) => Err(ProgramError::Talk { program, source }),
        Ok(status) if status.success() => {
            if !message.is_empty() {
                tracing::debug!(program, message, "a program remarks");
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

/// The line that a complaint names: `line 7 failed`, `Error occurred at line: 7`.
fn refused_line(message: &str) -> Option<usize> {
    let (_, rest) = message.rsplit_once("line")?;
    let rest = rest.trim_start_matches([':', ' ']);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests;
