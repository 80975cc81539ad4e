//! `portolan store verify`.

use std::path::Path;
use std::process::ExitCode;

use apiserver::Encryption;
use store::{Contents, Place, Record, Transformer};

use crate::cli::say;
use crate::commands::Failure;

/// Findings that are printed; the others are counted.
const FINDINGS_MAX: usize = 100;

/// Looks over a store and tells what is wrong, a line each. Encrypted values are looked into with the keys of a
/// `configuration`, if one is given.
pub(super) async fn run(place: &Place, configuration: Option<&Path>) -> Result<ExitCode, Failure> {
    let encryption = configuration.map(Encryption::open).transpose()?;
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
    let opened = match &encryption {
        Some(encryption) => open(contents, encryption, &mut findings),
        None => contents,
    };
    let sealed = opened.sealed_count();
    // What encrypted Services have cannot be compared with what was given out.
    if !opened.records.iter().any(is_sealed_service) {
        let records = opened.records.into_iter();
        let readable = records.filter(|record| !store::is_sealed(&record.value.bytes));
        let entries: Vec<store::Entry> = readable.filter_map(Record::into_entry).collect();
        let audited = apiserver::service::audit(&entries);
        findings.extend(audited.iter().map(ToString::to_string));
    }
    let what = match (sealed, &encryption) {
        (0, _) | (_, Some(_)) => format!("{count} keys at revision {revision}"),
        (_, None) => format!(
            "{count} keys at revision {revision}, of which {sealed} are encrypted and were not looked into \
             (--encryption-provider-config)"
        ),
    };
    Ok(told(&findings, &what))
}

/// Decrypts what is encrypted; what cannot be is a finding.
fn open(contents: Contents, encryption: &Encryption, findings: &mut Vec<String>) -> Contents {
    let open = |record: Record| match store::is_sealed(&record.value.bytes) {
        false => record,
        true => match encryption.open(&record.key, &record.value) {
            Ok(value) => Record { value, ..record },
            Err(error) => {
                findings.push(error.to_string());
                record
            }
        },
    };
    Contents {
        records: contents.records.into_iter().map(open).collect(),
        ..contents
    }
}

fn is_sealed_service(record: &Record) -> bool {
    record.key.starts_with("/services/") && store::is_sealed(&record.value.bytes)
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
