//! `portolan service`: this machine's `portolan up` or `portolan join` as a systemd unit.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, ExitCode};

use clap::{Args, Subcommand};

use super::Failure;

/// What to do with the unit.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write the unit, and have it started now and at every boot
    Install(InstallFlags),
    /// Stop it, and take the unit away; data and Pods' files stay
    Remove(UnitFlags),
}

/// Flags of both.
#[derive(Debug, Args)]
pub struct UnitFlags {
    /// Where the unit is
    #[arg(
        long,
        default_value = "/etc/systemd/system/portolan.service",
        value_name = "FILE"
    )]
    unit: PathBuf,
    /// Only write or remove the file; systemd is not told
    #[arg(long)]
    file_only: bool,
}

/// Flags of `portolan service install`.
#[derive(Debug, Args)]
pub struct InstallFlags {
    #[command(flatten)]
    unit: UnitFlags,
    /// Run `portolan join` in the place of `portolan up`, for a machine that joins another's cluster
    #[arg(long)]
    join: bool,
    /// Flags for `portolan up` or `portolan join`, after `--`
    #[arg(last = true, value_name = "FLAG")]
    up: Vec<String>,
}

impl InstallFlags {
    fn subcommand(&self) -> &'static str {
        if self.join { "join" } else { "up" }
    }
}

/// Installs or removes the unit.
pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Install(flags) => install(flags),
        Command::Remove(flags) => remove(flags),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn install(flags: &InstallFlags) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let path = &flags.unit.unit;
    let (words, token) = without_token(&flags.up, &token_file(path));
    if let Some(token) = token {
        let file = token_file(path);
        trust::private_file::write(&file, token.as_bytes()).map_err(|error| said(&file, &error))?;
    }
    fs::write(path, unit(&program, flags.subcommand(), &words)?).map_err(|error| said(path, &error))?;
    crate::cli::say(&format!("{} written\n", path.display()));
    if flags.unit.file_only {
        return Ok(());
    }
    systemctl(["daemon-reload"])?;
    systemctl([OsStr::new("enable"), OsStr::new("--now"), name(path)?])
}

fn remove(flags: &UnitFlags) -> Result<(), Failure> {
    let path = &flags.unit;
    if !path.exists() {
        crate::cli::say(&format!("{} is not there\n", path.display()));
        return Ok(());
    }
    if !flags.file_only {
        systemctl([OsStr::new("disable"), OsStr::new("--now"), name(path)?])?;
    }
    fs::remove_file(path).map_err(|error| said(path, &error))?;
    let token = token_file(path);
    match fs::remove_file(&token) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(said(&token, &error)),
        _ => {}
    }
    if !flags.file_only {
        systemctl(["daemon-reload"])?;
    }
    crate::cli::say(&format!("{} removed\n", path.display()));
    Ok(())
}

/// Where the token of a unit is kept, mode 0600: the unit itself everybody may read, and the list of processes, too.
fn token_file(unit: &Path) -> PathBuf {
    unit.with_extension("token")
}

/// The flags with `--token-file` in the place of a `--token`, and the token.
fn without_token(flags: &[String], file: &Path) -> (Vec<String>, Option<String>) {
    let (mut words, mut token) = (Vec::new(), None);
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let value = match flag.strip_prefix("--token") {
            Some("") => flags.next().cloned(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        match value {
            Some(value) => {
                words.push(format!("--token-file={}", file.display()));
                token = Some(value);
            }
            None => words.push(flag.clone()),
        }
    }
    (words, token)
}

/// The unit. Pods inherit what systemd keeps from a unit, so none of its sandboxing is on: a mount namespace of its own
/// (`ProtectSystem` and the like) would part the agent from the volumes of Pods that outlive it, and its filters of system
/// calls and `NoNewPrivileges` would hold for every Pod, too; the agent confines Pods itself. `KillMode=process` leaves the
/// Pods running when `up` is stopped or started anew, and `Delegate` gives it control groups to hold them to their limits
/// with.
fn unit(program: &Path, subcommand: &str, flags: &[String]) -> Result<String, Failure> {
    let words = [
        program.to_str().ok_or("the path of this program is not UTF-8")?,
        subcommand,
    ]
    .into_iter();
    let words = words.chain(flags.iter().map(String::as_str));
    let command: Vec<String> = words.map(quoted).collect();
    Ok(format!(
        "[Unit]\n\
         Description=Portolan: Kubernetes Services on this machine\n\
         After=network-online.target\n\
         Wants=network-online.target\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
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

/// A word of a command line as systemd reads it: `%` and `$` have a meaning there.
fn quoted(word: &str) -> String {
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    let is_plain = !escaped.is_empty()
        && !escaped.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';'));
    if is_plain {
        escaped
    } else {
        format!("\"{escaped}\"")
    }
}

fn name(path: &Path) -> Result<&OsStr, Failure> {
    path.file_name()
        .ok_or_else(|| format!("{} names no file", path.display()).into())
}

fn systemctl(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<(), Failure> {
    let mut program = Program::new("systemctl");
    program.args(arguments);
    match program.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program:?} ended with {status}").into()),
        Err(error) => Err(format!(
            "systemctl: {error}; with --file-only the unit is written and nothing else done"
        )
        .into()),
    }
}

fn said(path: &Path, error: &io::Error) -> Failure {
    format!("{}: {error}", path.display()).into()
}

#[cfg(test)]
mod tests;
