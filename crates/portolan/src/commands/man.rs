//! `portolan man`: manual pages, generated from the flags.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::error::{CommandError, FileError};

/// Flags of `portolan man`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Directory of the pages: portolan.1, and one page per subcommand
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the manual pages of a command line.
///
/// # Errors
///
/// [`FileError`] if a page cannot be written.
pub(crate) fn run(flags: &Flags, command: clap::Command) -> Result<ExitCode, CommandError> {
    fs::create_dir_all(&flags.directory)
        .and_then(|()| clap_mangen::generate_to(command, &flags.directory))
        .map_err(FileError::at(&flags.directory))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
