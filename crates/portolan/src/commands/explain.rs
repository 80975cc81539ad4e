//! `portolan explain`: documentation of the codes of `portolan doctor`.

use std::process::ExitCode;

use clap::Args;
use explain::{Code, documentation, documentation_of};

use crate::error::{CommandError, UsageError};
use crate::output;

/// Flags of `portolan explain`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Code of a finding, such as PTL-0002 [default: list all codes]
    #[arg(value_name = "CODE")]
    code: Option<Code>,
}

/// Prints the documentation of a code, or the list of all codes.
///
/// # Errors
///
/// An error if no finding has the code.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let text = match flags.code {
        Some(code) => {
            let Some(entry) = documentation_of(code) else {
                let message = format!("no finding has the code {code}; portolan explain lists all codes");
                return Err(UsageError::new(message).into());
            };
            format!("{}: {}\n\n{}\n", entry.code, entry.title, entry.text)
        }
        None => documentation()
            .map(|entry| format!("{}  {}\n", entry.code, entry.title))
            .collect(),
    };
    output::print(&text);
    Ok(ExitCode::SUCCESS)
}
