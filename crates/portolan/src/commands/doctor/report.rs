//! Output of the findings, and the exit code.

use std::process::ExitCode;

use clap::ValueEnum;
use explain::{Finding, Severity};
use serde_json::{Value, json};

use super::text;
use crate::error::CommandError;
use crate::output;

/// Exit code if the objects cannot be read.
pub(super) const EXIT_NOT_EXAMINED: u8 = 2;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Human-readable text
    Text,
    /// JSON object with the list `findings`
    Json,
    /// The same in YAML
    Yaml,
}

/// Prints warnings to standard error. They can contain texts of nodes.
pub(super) fn warn(problems: &[String]) {
    for problem in problems {
        eprintln!("portolan: warning: {}", output::printable(problem));
    }
}

/// Prints the findings. `subject` and `absent` are lines of the summary. The exit code is 1 with an error or warning.
///
/// # Errors
///
/// An error if the output cannot be encoded.
pub(super) fn print(
    format: Format,
    subject: &str,
    findings: &[Finding],
    absent: &str,
) -> Result<ExitCode, CommandError> {
    output::print(&match format {
        Format::Text => text::render(subject, findings, absent),
        Format::Json => format!("{:#}\n", value(findings)?),
        Format::Yaml => serde_saphyr::to_string(&value(findings)?)?,
    });
    let is_faulty = findings.iter().any(|finding| finding.severity != Severity::Info);
    Ok(if is_faulty {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the findings as a tree.
///
/// # Errors
///
/// An error if a finding cannot be encoded.
pub(super) fn value(findings: &[Finding]) -> Result<Value, serde_json::Error> {
    Ok(json!({"findings": serde_json::to_value(findings)?}))
}
