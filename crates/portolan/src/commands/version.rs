//! `portolan version`: prints the version of the binary.

use std::process::ExitCode;

use crate::output;

/// Prints the version.
pub(crate) fn run() -> ExitCode {
    output::print(concat!("portolan ", env!("CARGO_PKG_VERSION"), "\n"));
    ExitCode::SUCCESS
}
