//! `portolan store rewrite`: has every value of the encrypted resources stored by the first provider and key.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use api::kind;
use apiserver::{Encryption, EncryptionAtRest};
use clap::Args;
use futures_util::StreamExt;
use futures_util::stream;
use store::{
    CommitError, EtcdOptions, EtcdStore, Expectation, HistoryLimits, Place, Record, SqliteOptions,
    SqliteStore, Store, Transaction, Transformer, Write,
};

use super::encryption::transformation;
use super::engine::{EtcdFlags, STORE_DIRECTORY};
use super::progress::Progress;
use crate::cli::say;
use crate::commands::Failure;
use crate::flags::BadValue;

/// Passes over everything: what a server changes during one is looked at in the next. Servers write with their own first
/// key, so that many passes mean that it is another one.
const PASSES_MAX: usize = 5;
/// Values that are written at a time. The embedded engine syncs its disk once for those that wait.
const WRITES_MAX: usize = 64;
/// Values that cannot be decrypted, of which each is named.
const FAILURES_NAMED_MAX: usize = 20;

/// Flags of `portolan store rewrite`.
#[derive(Debug, Args)]
pub(super) struct Rewriting {
    /// Directory of a server with an embedded store, which must not run
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "etcd_servers",
        required_unless_present = "etcd_servers"
    )]
    data_dir: Option<PathBuf>,
    /// URLs of etcd's servers; API servers may run
    #[arg(long, value_delimiter = ',', value_name = "URL[,URL]")]
    etcd_servers: Vec<String>,
    #[command(flatten)]
    etcd: EtcdFlags,
    /// File of kind EncryptionConfiguration: its first provider and key of a resource write, all of them read
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: PathBuf,
    /// Resources whose values are rewritten, such as secrets or deployments.apps; all of the configuration if not given
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    resource: Vec<String>,
}

/// Runs it. The exit code is 1 if a value could not be decrypted; it stays as it is.
pub(super) async fn run(rewriting: Rewriting) -> Result<ExitCode, Failure> {
    let prefixes = prefixes(&rewriting.resource)?;
    let encryption = Arc::new(Encryption::open(&rewriting.encryption_provider_config)?);
    let place = match &rewriting.data_dir {
        Some(directory) if !directory.join(STORE_DIRECTORY).is_dir() => {
            return Err(format!("there is no store in {}", directory.display()).into());
        }
        Some(directory) => Place::Directory(directory.join(STORE_DIRECTORY)),
        None => Place::Etcd(rewriting.etcd.address(rewriting.etcd_servers.clone())?),
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
    finish(&place, &encryption, is_selected, written).await
}

/// Says what was done and what is left.
async fn finish(
    place: &Place,
    encryption: &Encryption,
    is_selected: impl Fn(&str) -> bool,
    written: usize,
) -> Result<ExitCode, Failure> {
    let (mut covered, mut unread, mut stale) = (0, 0, 0);
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
                unread += 1;
                if unread <= FAILURES_NAMED_MAX {
                    say(&format!("{error}\n"));
                }
            }
        }
    }
    say(&format!(
        "{written} values rewritten; of {covered} values {unread} cannot be decrypted and stay as they are\n"
    ));
    if stale > 0 {
        let why = "a server writes them with another first key; give all servers this configuration";
        return Err(format!("{stale} values are still in an older form: {why}").into());
    }
    Ok(match unread {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Writes values anew that nobody has changed since they were read; returns how many.
async fn rewrite(store: &dyn Store, encryption: &Encryption, records: Vec<Record>) -> Result<usize, Failure> {
    let mut progress = Progress::new(records.len());
    let writes = records.into_iter().map(|record| async move {
        // It was opened when the store was, so it has a value.
        let value = encryption.open(&record.key, &record.value)?;
        let transaction = Transaction {
            expectations: vec![(record.key.clone(), Expectation::At(record.modified))],
            writes: vec![Write::Put(record.key.clone(), value)],
        };
        match store.commit(transaction).await {
            Ok(_) => Ok(1),
            Err(CommitError::Conflict { .. }) => Ok(0),
            Err(error) => Err(Failure::from(error)),
        }
    });
    let mut outcomes = stream::iter(writes).buffer_unordered(WRITES_MAX);
    let (mut done, mut written) = (0, 0);
    while let Some(outcome) = outcomes.next().await {
        written += outcome?;
        done += 1;
        progress.tell(done);
    }
    Ok(written)
}

async fn open(place: &Place, encryption: &Arc<Encryption>) -> Result<Box<dyn Store>, Failure> {
    let transformation = transformation(Some(&EncryptionAtRest {
        encryption: encryption.clone(),
        reloads: false,
    }));
    Ok(match place {
        Place::Directory(directory) | Place::File(directory) => {
            let options = SqliteOptions {
                transformation,
                ..SqliteOptions::default()
            };
            Box::new(SqliteStore::open(directory, options)?)
        }
        Place::Etcd(address) => Box::new(
            EtcdStore::open(EtcdOptions {
                address: address.clone(),
                history: HistoryLimits::default(),
                // The servers see to that.
                compaction_interval: std::time::Duration::ZERO,
                transformation,
            })
            .await?,
        ),
    })
}

/// Key prefixes of these resources.
fn prefixes(resources: &[String]) -> Result<Vec<String>, BadValue> {
    let prefix = |name: &String| {
        let found = kind::all()
            .iter()
            .find(|kind| kind.is_stored_form() && kind.qualified_plural() == *name);
        found.map(|kind| kind.store_prefix(None)).ok_or_else(|| {
            BadValue(format!(
                "--resource {name:?} is no resource that is stored; examples are secrets and deployments.apps"
            ))
        })
    };
    resources.iter().map(prefix).collect()
}
