//! `portolan store rewrite`: re-encryption of all values with the first provider and key of a configuration.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use api::kind;
use apiserver::{Encryption, EncryptionAtRest};
use clap::Args;
use futures_util::StreamExt;
use futures_util::stream;
use store::{
    CommitError, EtcdSettings, EtcdStore, Expectation, HistoryLimits, Record, SqliteOptions, SqliteStore,
    Store, StoreLocation, Transaction, Transformer, Write,
};

use super::progress::Progress;
use crate::error::{CommandError, UsageError};
use crate::flags::encryption::transformation;
use crate::flags::storage::{EtcdFlags, STORE_DIRECTORY};
use crate::output;

/// Maximum number of passes over all values. Values that a server writes during one pass are checked in the next. If
/// values remain stale after all passes, a server writes with another first key.
const PASSES_MAX: usize = 5;
/// Maximum number of concurrent writes. The embedded engine syncs its disk once for all waiting writes.
const WRITES_MAX: usize = 64;
/// Maximum number of undecryptable values that are named.
const FAILURES_NAMED_MAX: usize = 20;

/// Flags of `portolan store rewrite`.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Data directory of a server with SQLite, which must not run
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "etcd_servers",
        required_unless_present = "etcd_servers"
    )]
    data_dir: Option<PathBuf>,
    /// URLs of etcd servers; API servers may run
    #[arg(long, value_delimiter = ',', value_name = "URL[,URL]")]
    etcd_servers: Vec<String>,
    #[command(flatten)]
    etcd: EtcdFlags,
    /// EncryptionConfiguration file; the first provider and key of a resource encrypts, all others decrypt
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: PathBuf,
    /// Resources to rewrite, such as secrets or deployments.apps [default: all of the configuration]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    resource: Vec<String>,
}

/// Re-encrypts the values. The exit code is 1 if a value cannot be decrypted; it is not changed.
///
/// # Errors
///
/// An error if the configuration is invalid, or a store cannot be read or written.
pub(super) async fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    let prefixes = prefixes(&flags.resource)?;
    let encryption = Arc::new(Encryption::open(&flags.encryption_provider_config)?);
    let place = match &flags.data_dir {
        Some(directory) if !directory.join(STORE_DIRECTORY).is_dir() => {
            return Err(format!("no store in {}", directory.display()).into());
        }
        Some(directory) => StoreLocation::Directory(directory.join(STORE_DIRECTORY)),
        None => StoreLocation::Etcd(flags.etcd.address(flags.etcd_servers.clone())?),
    };
    let store = open(&place, &encryption).await?;
    let is_selected =
        |key: &str| prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix));
    let mut written = 0;
    for _ in 0..PASSES_MAX {
        let contents = place.read().await?;
        let stale = |record: &Record| encryption.is_stale(&record.key) && is_selected(&record.key);
        let records: Vec<Record> = contents.records.into_iter().filter(stale).collect();
        if records.is_empty() {
            break;
        }
        written += rewrite(&*store, &encryption, records).await?;
    }
    drop(store);
    place.erase_removed()?;
    report(&place, &encryption, is_selected, written).await
}

/// Prints the number of rewritten and of remaining values.
async fn report(
    place: &StoreLocation,
    encryption: &Encryption,
    is_selected: impl Fn(&str) -> bool,
    written: usize,
) -> Result<ExitCode, CommandError> {
    let (mut covered, mut undecryptable, mut stale) = (0, 0, 0);
    for record in place.read().await?.records {
        if !is_selected(&record.key)
            || (!encryption.covers(&record.key) && !store::is_sealed(&record.value.bytes))
        {
            continue;
        }
        covered += 1;
        match encryption.open(&record.key, &record.value) {
            Ok(_) => stale += usize::from(encryption.is_stale(&record.key)),
            Err(error) => {
                undecryptable += 1;
                if undecryptable <= FAILURES_NAMED_MAX {
                    output::print(&format!("{error}\n"));
                }
            }
        }
    }
    output::print(&format!(
        "{written} values rewritten; of {covered} values {undecryptable} cannot be decrypted and are not changed\n"
    ));
    if stale > 0 {
        return Err(format!(
            "{stale} values are encrypted with an older key: a server writes them with another first key; start all servers \
             with this configuration"
        )
        .into());
    }
    Ok(match undecryptable {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Writes values that were not changed since they were read, and returns their number.
async fn rewrite(
    store: &dyn Store,
    encryption: &Encryption,
    records: Vec<Record>,
) -> Result<usize, CommandError> {
    let mut progress = Progress::new(records.len());
    let writes = records.into_iter().map(|record| async move {
        // The store was opened with this configuration, so the value is decryptable.
        let value = encryption.open(&record.key, &record.value)?;
        let transaction = Transaction {
            expectations: vec![(record.key.clone(), Expectation::At(record.modified))],
            writes: vec![Write::Put(record.key.clone(), value)],
        };
        match store.commit(transaction).await {
            Ok(_) => Ok(1),
            Err(CommitError::Conflict { .. }) => Ok(0),
            Err(error) => Err(CommandError::from(error)),
        }
    });
    let mut outcomes = stream::iter(writes).buffer_unordered(WRITES_MAX);
    let (mut done, mut written) = (0, 0);
    while let Some(outcome) = outcomes.next().await {
        written += outcome?;
        done += 1;
        progress.report(done);
    }
    Ok(written)
}

async fn open(place: &StoreLocation, encryption: &Arc<Encryption>) -> Result<Box<dyn Store>, CommandError> {
    let transformation = transformation(Some(&EncryptionAtRest {
        encryption: encryption.clone(),
        reloads: false,
    }));
    Ok(match place {
        StoreLocation::Directory(directory) | StoreLocation::File(directory) => {
            let options = SqliteOptions {
                transformation,
                ..SqliteOptions::default()
            };
            Box::new(SqliteStore::open(directory, options)?)
        }
        StoreLocation::Etcd(address) => Box::new(
            EtcdStore::open(EtcdSettings {
                address: address.clone(),
                history: HistoryLimits::default(),
                // Compaction is left to the servers.
                compaction_interval: std::time::Duration::ZERO,
                transformation,
            })
            .await?,
        ),
    })
}

/// Returns the key prefixes of resources.
fn prefixes(resources: &[String]) -> Result<Vec<String>, UsageError> {
    let prefix = |name: &String| {
        let found = kind::all()
            .iter()
            .find(|kind| kind.is_stored_form() && kind.qualified_plural() == *name);
        found.map(|kind| kind.store_prefix(None)).ok_or_else(|| {
            UsageError(format!(
                "--resource {name:?} is not a stored resource; examples are secrets and deployments.apps"
            ))
        })
    };
    resources.iter().map(prefix).collect()
}
