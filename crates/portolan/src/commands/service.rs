//! `portolan service`: `portolan up` or `portolan join` as a systemd unit.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode, ExitStatus, Stdio};

use clap::{Args, Subcommand};

use crate::error::{CommandError, FileError};
use crate::{cli, output};

/// Variable of additional flags in the file of `--flags-file`.
const FLAGS_VARIABLE: &str = "PORTOLAN_FLAGS";
/// Directory that exists while systemd is the init system.
const SYSTEMD_DIRECTORY: &str = "/run/systemd/system";

/// Subcommands of `portolan service`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write the unit, start it and enable it at boot
    Install(InstallFlags),
    /// Stop and remove the unit; data and files of Pods are kept
    Remove(UnitFlags),
}

/// Flags of both subcommands.
#[derive(Debug, Args)]
pub(crate) struct UnitFlags {
    /// Path of the unit
    #[arg(
        long,
        default_value = "/etc/systemd/system/portolan.service",
        value_name = "FILE"
    )]
    unit: PathBuf,
    /// Write or remove the file only, without systemctl
    #[arg(long)]
    file_only: bool,
}

/// Flags of `portolan service install`.
#[derive(Debug, Args)]
pub(crate) struct InstallFlags {
    #[command(flatten)]
    unit: UnitFlags,
    /// Run `portolan join` instead of `portolan up`
    #[arg(long)]
    join: bool,
    /// Program in the unit, an absolute path [default: this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// File with additional flags in the variable PORTOLAN_FLAGS, an absolute path, read at each start
    #[arg(long, value_name = "FILE")]
    flags_file: Option<PathBuf>,
    /// Flags of `portolan up` or `portolan join`, after `--`
    #[arg(last = true, value_name = "FLAG")]
    up: Vec<String>,
}

impl InstallFlags {
    fn subcommand(&self) -> &'static str {
        if self.join { "join" } else { "up" }
    }
}

/// Failed change of the unit.
#[derive(Debug, thiserror::Error)]
enum UnitError {
    #[error("{0}")]
    File(#[from] FileError),
    #[error("path of this program not found: {0}")]
    Program(#[source] io::Error),
    #[error("expected an absolute path in UTF-8, found {0:?}")]
    UnitPath(PathBuf),
    #[error("expected the path of a file, found {0}")]
    NoFileName(String),
    #[error("portolan {subcommand} rejects the flags after --: {reason}")]
    Flags {
        subcommand: &'static str,
        reason: String,
    },
    #[error("{command} exited with {status}")]
    Systemctl { command: String, status: ExitStatus },
    #[error("systemctl not started: {0}; use --file-only to write the unit without it")]
    NoSystemctl(#[source] io::Error),
    #[error("systemd does not run on this host; use --file-only to write the unit without it")]
    NoSystemd,
}

/// Installs or removes the unit.
///
/// # Errors
///
/// An error if a file cannot be written or systemctl fails.
pub(crate) fn run(command: &Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Install(flags) => install(flags),
        Command::Remove(flags) => remove(flags),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn install(flags: &InstallFlags) -> Result<(), UnitError> {
    // Before anything is written: the unit would be restarted without end, or stay without being used.
    check_flags(flags.subcommand(), &flags.up)?;
    if !flags.unit.file_only {
        find_systemctl()?;
        find_systemd(Path::new(SYSTEMD_DIRECTORY))?;
    }
    let program = match &flags.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(UnitError::Program)?,
    };
    let path = &flags.unit.unit;
    let (arguments, token) = without_token(&flags.up, &token_file(path));
    if let Some(token) = token {
        let file = token_file(path);
        trust::private_file::write(&file, token.as_bytes()).map_err(FileError::at(&file))?;
    }
    let unit = render_unit(
        &program,
        flags.subcommand(),
        &arguments,
        flags.flags_file.as_deref(),
    )?;
    fs::write(path, unit).map_err(FileError::at(path))?;
    output::print(&format!("{} written\n", path.display()));
    if flags.unit.file_only {
        return Ok(());
    }
    systemctl(["daemon-reload"])?;
    systemctl([OsStr::new("enable"), OsStr::new("--now"), file_name(path)?])
}

fn remove(flags: &UnitFlags) -> Result<(), UnitError> {
    let path = &flags.unit;
    if !path.exists() {
        output::print(&format!("{} does not exist\n", path.display()));
        return Ok(());
    }
    if !flags.file_only {
        systemctl([OsStr::new("disable"), OsStr::new("--now"), file_name(path)?])?;
    }
    fs::remove_file(path).map_err(FileError::at(path))?;
    let token = token_file(path);
    match fs::remove_file(&token) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(FileError::at(&token)(error).into());
        }
        _ => {}
    }
    if !flags.file_only {
        systemctl(["daemon-reload"])?;
    }
    output::print(&format!("{} removed\n", path.display()));
    Ok(())
}

/// Checks the flags of the service as its command line does.
fn check_flags(subcommand: &'static str, flags: &[String]) -> Result<(), UnitError> {
    let arguments = ["portolan", subcommand].into_iter();
    let arguments = arguments.chain(flags.iter().map(String::as_str));
    match cli::command().try_get_matches_from(arguments) {
        Ok(_) => Ok(()),
        Err(error) => Err(UnitError::Flags {
            subcommand,
            reason: cli::one_line(&error.to_string()),
        }),
    }
}

/// Fails if this host has no systemctl.
fn find_systemctl() -> Result<(), UnitError> {
    let mut command = Process::new("systemctl");
    let found = command.arg("--version").stdout(Stdio::null()).status();
    found.map(drop).map_err(UnitError::NoSystemctl)
}

/// Fails if systemd is not the init system of this host: its directory does not exist (sd_booted(3)).
fn find_systemd(directory: &Path) -> Result<(), UnitError> {
    if directory.is_dir() {
        Ok(())
    } else {
        Err(UnitError::NoSystemd)
    }
}

/// Returns the path of a unit's token, a private file. Other users can read the unit and the process list.
fn token_file(unit: &Path) -> PathBuf {
    unit.with_extension("token")
}

/// Returns the flags with `--token-file` instead of `--token`, and the token.
fn without_token(flags: &[String], file: &Path) -> (Vec<String>, Option<String>) {
    let (mut arguments, mut token) = (Vec::new(), None);
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let value = match flag.strip_prefix("--token") {
            Some("") => flags.next().cloned(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        match value {
            Some(value) => {
                arguments.push(format!("--token-file={}", file.display()));
                token = Some(value);
            }
            None => arguments.push(flag.clone()),
        }
    }
    (arguments, token)
}

/// Renders the unit. `KillMode=process` keeps the Pods running while the service restarts, and `Delegate`
/// grants control groups for their limits.
///
/// The unit has no sandboxing, because Pods inherit it. System call filters and `NoNewPrivileges` would apply to each
/// Pod. A mount namespace (`ProtectSystem`) would separate the agent from the volumes of Pods that outlive it. The
/// agent confines Pods itself.
///
/// systemd splits the variable of the flags file into words, and accepts a missing file.
fn render_unit(
    program: &Path,
    subcommand: &str,
    flags: &[String],
    flags_file: Option<&Path>,
) -> Result<String, UnitError> {
    let words = [absolute_path(program)?, subcommand]
        .into_iter()
        .chain(flags.iter().map(String::as_str));
    let mut command: Vec<String> = words.map(quote).collect();
    let mut environment = String::new();
    if let Some(file) = flags_file {
        environment = format!("EnvironmentFile=-{}\n", absolute_path(file)?.replace('%', "%%"));
        command.push(format!("${FLAGS_VARIABLE}"));
    }
    Ok(format!(
        "[Unit]\n\
         Description=Portolan: Kubernetes Services on this host\n\
         After=network-online.target\n\
         Wants=network-online.target\n\
         \n\
         [Service]\n\
         {environment}ExecStart={}\n\
         Restart=always\n\
         RestartSec=2\n\
         KillMode=process\n\
         Delegate=yes\n\
         LimitNOFILE=1048576\n\
         TasksMax=infinity\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        command.join(" ")
    ))
}

/// Returns a path for the unit.
fn absolute_path(path: &Path) -> Result<&str, UnitError> {
    path.to_str()
        .filter(|_| path.is_absolute())
        .ok_or_else(|| UnitError::UnitPath(path.to_owned()))
}

/// Quotes a word of a command line for systemd, which expands `%` and `$`.
fn quote(word: &str) -> String {
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    let is_plain = !escaped.is_empty()
        && !escaped
            .contains(|character: char| character.is_whitespace() || matches!(character, '"' | '\'' | ';'));
    if is_plain {
        escaped
    } else {
        format!("\"{escaped}\"")
    }
}

fn file_name(path: &Path) -> Result<&OsStr, UnitError> {
    path.file_name()
        .ok_or_else(|| UnitError::NoFileName(path.display().to_string()))
}

fn systemctl(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<(), UnitError> {
    let mut command = Process::new("systemctl");
    command.args(arguments);
    let status = command.status().map_err(UnitError::NoSystemctl)?;
    if status.success() {
        return Ok(());
    }
    Err(UnitError::Systemctl {
        command: format!("{command:?}"),
        status,
    })
}

#[cfg(test)]
mod tests;
