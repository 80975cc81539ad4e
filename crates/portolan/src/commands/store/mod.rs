//! `portolan store`: copies, snapshots, restores, re-encrypts and looks over the API server's data.

pub mod encryption;
pub mod engine;
mod progress;
mod rewrite;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use store::{Contents, Place, WriteOptions};

use self::engine::{EtcdFlags, STORE_DIRECTORY};
use self::progress::Progress;
use super::{Failure, runtime};
use crate::flags::BadValue;

/// What a restored store's revision is above that of the snapshot: clients may have seen what came after it was taken,
/// and no revision may mean two states. At 5,000 writes a second, two days of them.
const RESTORE_LEAP: u64 = 1_000_000_000;

/// Flags of `portolan store`.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

/// A PLACE is a data directory of `portolan apiserver`, the URLs of etcd's servers, or a file: a snapshot.
#[derive(Debug, Subcommand)]
enum Command {
    /// Copy everything to another store, for example from the embedded one to etcd
    Copy(Transfer),
    /// Write everything to a file; servers may run meanwhile
    Snapshot(Transfer),
    /// Put what is in a snapshot into a store that no server runs on
    Restore(Transfer),
    /// Look for damage and contradictions; servers may run meanwhile. Exit code 1 if there are any
    Verify(Verification),
    /// Have every value of the encrypted resources stored by the first provider and key of a configuration
    Rewrite(rewrite::Rewriting),
}

#[derive(Debug, Args)]
struct Transfer {
    /// Where to read
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Where to write; it must be empty
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// Replace what is there
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    etcd: EtcdFlags,
}

#[derive(Debug, Args)]
struct Verification {
    /// What to look over: a data directory, URLs of etcd's servers, or a snapshot
    #[arg(value_name = "PLACE")]
    place: String,
    #[command(flatten)]
    etcd: EtcdFlags,
    /// File of kind EncryptionConfiguration whose keys encrypted values are looked into with
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
}

/// Runs one of them.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    let runtime = runtime(1)?;
    runtime.block_on(async {
        match flags.command {
            Command::Copy(transfer) => copy(transfer).await,
            Command::Snapshot(transfer) => snapshot(transfer).await,
            Command::Restore(transfer) => restore(transfer).await,
            Command::Rewrite(rewriting) => rewrite::run(rewriting).await,
            Command::Verify(verification) => {
                let place = existing(&verification.place, &verification.etcd)?;
                let configuration = verification.encryption_provider_config.as_deref();
                verify::run(&place, configuration).await
            }
        }
    })
}

async fn copy(transfer: Transfer) -> Result<ExitCode, Failure> {
    let to = match place(&transfer.to, &transfer.etcd)? {
        // A data directory may be one yet to be made; a snapshot has a command of its own.
        Place::File(path) if !path.exists() => Place::Directory(path.join(STORE_DIRECTORY)),
        other => other,
    };
    let from = existing(&transfer.from, &transfer.etcd)?;
    carry(&from, &to, transfer.overwrite, 0).await
}

async fn snapshot(transfer: Transfer) -> Result<ExitCode, Failure> {
    let to = PathBuf::from(&transfer.to);
    if is_url(&transfer.to) || to.is_dir() {
        return Err(BadValue("--to of a snapshot is a file".to_owned()).into());
    }
    let from = existing(&transfer.from, &transfer.etcd)?;
    carry(&from, &Place::File(to), transfer.overwrite, 0).await
}

async fn restore(transfer: Transfer) -> Result<ExitCode, Failure> {
    let from = existing(&transfer.from, &transfer.etcd)?;
    if !matches!(from, Place::File(_)) {
        return Err(BadValue(
            "--from of a restoration is a snapshot's file; see `portolan store copy`".to_owned(),
        )
        .into());
    }
    let to = match place(&transfer.to, &transfer.etcd)? {
        Place::File(path) => Place::Directory(path.join(STORE_DIRECTORY)),
        other => other,
    };
    carry(&from, &to, transfer.overwrite, RESTORE_LEAP).await
}

async fn carry(from: &Place, to: &Place, overwrite: bool, revision_leap: u64) -> Result<ExitCode, Failure> {
    let contents: Contents = from.read().await?;
    if let Some(fault) = contents.faults().first() {
        return Err(format!("what is read contradicts itself: {fault}; see `portolan store verify`").into());
    }
    let options = WriteOptions {
        overwrite,
        revision_leap,
    };
    let mut progress = Progress::new(contents.records.len());
    let written = to.write(&contents, options, |done| progress.tell(done)).await?;
    crate::cli::say(&format!(
        "{} keys of revision {} written; the new store is at revision {}\n",
        written.records, contents.revision, written.revision
    ));
    let sealed = contents.sealed_count();
    if sealed > 0 {
        crate::cli::say(&format!(
            "{sealed} of them are encrypted, and were copied as they are: their reader needs the same \
             --encryption-provider-config\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// A place that something is read from.
fn existing(text: &str, etcd: &EtcdFlags) -> Result<Place, Failure> {
    let place = place(text, etcd)?;
    match &place {
        Place::File(path) if !path.exists() => Err(format!("there is nothing at {text}").into()),
        _ => Ok(place),
    }
}

/// What a text names: a directory that there is, a file, or etcd.
fn place(text: &str, etcd: &EtcdFlags) -> Result<Place, BadValue> {
    if is_url(text) {
        let servers = text.split(',').map(str::to_owned).collect();
        return Ok(Place::Etcd(etcd.address(servers)?));
    }
    let path = Path::new(text);
    Ok(match path.is_dir() {
        true => Place::Directory(path.join(STORE_DIRECTORY)),
        false => Place::File(path.to_owned()),
    })
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}
