//! `portolan completions`: shell completions, generated from the flags.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::error::CommandError;
use crate::output;

/// Flags of `portolan completions`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Shell that reads the completions
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completions of a command line for a shell.
///
/// # Errors
///
/// An error if the generated script is not UTF-8.
pub(crate) fn run(flags: &Flags, mut command: clap::Command) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut command, "portolan", &mut script);
    output::print(&String::from_utf8(script)?);
    Ok(ExitCode::SUCCESS)
}
