//! `portolan store`: copies, snapshots, restoration, verification and re-encryption of the API server's data.

mod progress;
mod rewrite;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use store::{Contents, StoreLocation, WriteOptions};

use self::progress::Progress;
use crate::error::{CommandError, UsageError};
use crate::flags::storage::{EtcdFlags, STORE_DIRECTORY};
use crate::{output, runtime};

/// Difference of the revision of a restored store to that of the snapshot. Clients may have seen later
/// revisions, and no revision may have two states. The difference is that of two days with 5,000 writes per
/// second.
const RESTORE_REVISION_INCREMENT: u64 = 1_000_000_000;

/// Flags of `portolan store`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Command,
}

/// Subcommands of `portolan store`. A PLACE is a data directory, the URLs of etcd servers, or a snapshot file.
#[derive(Debug, Subcommand)]
enum Command {
    /// Copy all data to another store, for example from SQLite to etcd
    Copy(TransferFlags),
    /// Write all data to a file; servers may run
    Snapshot(TransferFlags),
    /// Restore a snapshot into a store without running servers
    Restore(TransferFlags),
    /// Search for damage and contradictions (exit code 1 if there are any); servers may run
    Verify(VerifyFlags),
    /// Re-encrypt all values of the encrypted resources with the first key of a configuration
    Rewrite(rewrite::Flags),
}

#[derive(Debug, Args)]
struct TransferFlags {
    /// Source: data directory, URLs of etcd servers, or snapshot file
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Destination: data directory, URLs of etcd servers, or snapshot file; must be empty without --overwrite
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// Replace the data of the destination
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    etcd: EtcdFlags,
}

#[derive(Debug, Args)]
struct VerifyFlags {
    /// Data directory, URLs of etcd servers, or snapshot file
    #[arg(value_name = "PLACE")]
    place: String,
    #[command(flatten)]
    etcd: EtcdFlags,
    /// EncryptionConfiguration file with the keys of encrypted values
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
}

/// Runs a subcommand.
///
/// # Errors
///
/// An error if a flag is invalid, or a store cannot be read or written.
pub(crate) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    runtime::multi_thread(1)?.block_on(async {
        match flags.command {
            Command::Copy(flags) => copy(flags).await,
            Command::Snapshot(flags) => snapshot(flags).await,
            Command::Restore(flags) => restore(flags).await,
            Command::Rewrite(flags) => rewrite::run(flags).await,
            Command::Verify(flags) => {
                let place = existing_location(&flags.place, &flags.etcd)?;
                let configuration = flags.encryption_provider_config.as_deref();
                verify::run(&place, configuration).await
            }
        }
    })
}

async fn copy(flags: TransferFlags) -> Result<ExitCode, CommandError> {
    let to = match location(&flags.to, &flags.etcd)? {
        // A missing path is a new data directory; snapshots have a subcommand of their own.
        StoreLocation::File(path) if !path.exists() => StoreLocation::Directory(path.join(STORE_DIRECTORY)),
        other => other,
    };
    let from = existing_location(&flags.from, &flags.etcd)?;
    transfer(&from, &to, flags.overwrite, 0).await
}

async fn snapshot(flags: TransferFlags) -> Result<ExitCode, CommandError> {
    let to = PathBuf::from(&flags.to);
    if is_url(&flags.to) || to.is_dir() {
        return Err(UsageError::new("--to of a snapshot is a file").into());
    }
    let from = existing_location(&flags.from, &flags.etcd)?;
    transfer(&from, &StoreLocation::File(to), flags.overwrite, 0).await
}

async fn restore(flags: TransferFlags) -> Result<ExitCode, CommandError> {
    let from = existing_location(&flags.from, &flags.etcd)?;
    if !matches!(from, StoreLocation::File(_)) {
        return Err(UsageError::new(
            "--from of a restoration is a snapshot file; use `portolan store copy` for other sources",
        )
        .into());
    }
    let to = match location(&flags.to, &flags.etcd)? {
        StoreLocation::File(path) => StoreLocation::Directory(path.join(STORE_DIRECTORY)),
        other => other,
    };
    transfer(&from, &to, flags.overwrite, RESTORE_REVISION_INCREMENT).await
}

async fn transfer(
    from: &StoreLocation,
    to: &StoreLocation,
    overwrite: bool,
    revision_leap: u64,
) -> Result<ExitCode, CommandError> {
    let contents: Contents = from.read().await?;
    if let Some(fault) = contents.faults().first() {
        return Err(format!("inconsistent source: {fault}; see `portolan store verify`").into());
    }
    let options = WriteOptions {
        overwrite,
        revision_leap,
    };
    let mut progress = Progress::new(contents.records.len());
    let written = to.write(&contents, options, |done| progress.report(done)).await?;
    output::print(&format!(
        "{} keys of revision {} written; the new store is at revision {}\n",
        written.records, contents.revision, written.revision
    ));
    let sealed = contents.sealed_count();
    if sealed > 0 {
        output::print(&format!(
            "{sealed} of them are encrypted, and were copied as they are: servers need the same \
             --encryption-provider-config to read them\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a place that must exist.
fn existing_location(text: &str, etcd: &EtcdFlags) -> Result<StoreLocation, CommandError> {
    let place = location(text, etcd)?;
    match &place {
        StoreLocation::File(path) if !path.exists() => Err(format!("nothing at {text}").into()),
        _ => Ok(place),
    }
}

/// Parses a place: an existing directory, a file, or etcd.
fn location(text: &str, etcd: &EtcdFlags) -> Result<StoreLocation, UsageError> {
    if is_url(text) {
        let servers = text.split(',').map(str::to_owned).collect();
        return Ok(StoreLocation::Etcd(etcd.address(servers)?));
    }
    let path = Path::new(text);
    Ok(if path.is_dir() {
        StoreLocation::Directory(path.join(STORE_DIRECTORY))
    } else {
        StoreLocation::File(path.to_owned())
    })
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}
