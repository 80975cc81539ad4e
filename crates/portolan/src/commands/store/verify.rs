//! `portolan store verify`.

use std::process::ExitCode;

use store::Place;

use crate::cli::say;
use crate::commands::Failure;

/// Findings that are printed; the others are counted.
const FINDINGS_MAX: usize = 100;

/// Looks over a store and tells what is wrong, a line each.
pub(super) async fn run(place: &Place) -> Result<ExitCode, Failure> {
    let mut findings = place.integrity_faults()?;
    let contents = match place.read().await {
        Ok(contents) => contents,
        Err(error) => {
            findings.push(error.to_string());
            return Ok(told(&findings, "it cannot be read as a whole"));
        }
    };
    findings.extend(contents.faults());
    let (revision, count) = (contents.revision, contents.records.len());
    let records = contents.records.into_iter();
    let entries: Vec<store::Entry> = records.filter_map(store::Record::into_entry).collect();
    findings.extend(
        apiserver::service::audit(&entries)
            .iter()
            .map(ToString::to_string),
    );
    Ok(told(&findings, &format!("{count} keys at revision {revision}")))
}

fn told(findings: &[String], what: &str) -> ExitCode {
    for finding in findings.iter().take(FINDINGS_MAX) {
        say(&format!("{finding}\n"));
    }
    match findings.len() {
        0 => say(&format!("{what}: no damage, no contradiction\n")),
        count => say(&format!("{what}: {count} findings\n")),
    }
    if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
