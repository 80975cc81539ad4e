//! `portolan store verify`: damage and contradictions in stored data.

use std::path::Path;
use std::process::ExitCode;

use apiserver::Encryption;
use store::{Contents, Record, StoreLocation, Transformer};

use crate::error::CommandError;
use crate::output;

/// Maximum number of findings that are printed; the others are counted.
const FINDINGS_MAX: usize = 100;

/// Verifies a store and prints one line per finding. Encrypted values are decrypted with the keys of the
/// configuration, if one is given.
///
/// # Errors
///
/// An error if the configuration is invalid or the integrity check fails.
pub(super) async fn run(
    place: &StoreLocation,
    configuration: Option<&Path>,
) -> Result<ExitCode, CommandError> {
    let encryption = configuration.map(Encryption::open).transpose()?;
    let mut findings = place.integrity_faults()?;
    let contents = match place.read().await {
        Ok(contents) => contents,
        Err(error) => {
            findings.push(error.to_string());
            return Ok(report(&findings, "the store cannot be read completely"));
        }
    };
    findings.extend(contents.faults());
    let (revision, count) = (contents.revision, contents.records.len());
    let opened = match &encryption {
        Some(encryption) => open(contents, encryption, &mut findings),
        None => contents,
    };
    let sealed = opened.sealed_count();
    // Without the addresses of encrypted Services, the allocations cannot be compared.
    if !opened.records.iter().any(is_sealed_service) {
        let records = opened.records.into_iter();
        let readable = records.filter(|record| !store::is_sealed(&record.value.bytes));
        let entries: Vec<store::Entry> = readable.filter_map(Record::into_entry).collect();
        let audited = apiserver::service::find_inconsistencies(&entries);
        findings.extend(audited.iter().map(ToString::to_string));
    }
    let summary = match (sealed, &encryption) {
        (0, _) | (_, Some(_)) => format!("{count} keys at revision {revision}"),
        (_, None) => format!(
            "{count} keys at revision {revision}, of which {sealed} are encrypted and were not checked \
             (--encryption-provider-config)"
        ),
    };
    Ok(report(&findings, &summary))
}

/// Decrypts encrypted values. An undecryptable value is a finding.
fn open(contents: Contents, encryption: &Encryption, findings: &mut Vec<String>) -> Contents {
    let open = |record: Record| {
        if !store::is_sealed(&record.value.bytes) {
            return record;
        }
        match encryption.open(&record.key, &record.value) {
            Ok(value) => Record { value, ..record },
            Err(error) => {
                findings.push(error.to_string());
                record
            }
        }
    };
    Contents {
        records: contents.records.into_iter().map(open).collect(),
        ..contents
    }
}

fn is_sealed_service(record: &Record) -> bool {
    record.key.starts_with("/services/") && store::is_sealed(&record.value.bytes)
}

fn report(findings: &[String], summary: &str) -> ExitCode {
    for finding in findings.iter().take(FINDINGS_MAX) {
        output::print(&format!("{finding}\n"));
    }
    match findings.len() {
        0 => output::print(&format!("{summary}: no damage, no contradiction\n")),
        count => output::print(&format!("{summary}: {count} findings\n")),
    }
    if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
