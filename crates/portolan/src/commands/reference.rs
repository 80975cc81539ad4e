//! `portolan completions` and `portolan man`: what shells and manuals know, from the flags themselves.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Failure;
use crate::cli::Cli;

/// Flags of `portolan completions`.
#[derive(Debug, Args)]
pub struct CompletionFlags {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Flags of `portolan man`.
#[derive(Debug, Args)]
pub struct ManualFlags {
    /// Where the pages go, `portolan.1` and one for each subcommand
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completions of a shell.
pub fn completions(flags: &CompletionFlags) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "portolan", &mut script);
    crate::cli::say(&String::from_utf8(script)?);
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages.
pub fn manual(flags: &ManualFlags) -> Result<ExitCode, Failure> {
    fs::create_dir_all(&flags.directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &flags.directory))
        .map_err(|error| format!("{}: {error}", flags.directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
