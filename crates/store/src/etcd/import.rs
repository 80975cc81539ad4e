//! Reading and writing of complete contents, without following etcd.

use super::connect;
use super::connection::{Connection, EtcdAddress, store_error};
use super::layout::{COMMIT, CommitRecord, LAYOUT, Layout, Offset, Prefix, encode_value};
use super::load::{ensure_layout, is_empty, load, read_layout};
use super::transaction::put;
use super::wire::{DeleteRangeRequest, Request, RequestOp, TxnRequest};
use crate::transfer::contents::Contents;
use crate::transfer::error::TransferError;
use crate::{Record, Revision, StoreError};

/// Reads all data of an etcd at one revision.
pub(crate) async fn read_etcd(address: &EtcdAddress) -> Result<Contents, StoreError> {
    let prefix = Prefix::new(&address.prefix);
    let (connection, _) = connect(&address.endpoints()?).await?;
    let offset = match read_layout(&connection, &prefix).await? {
        (None, _) if is_empty(&connection, &prefix).await? => return Ok(Contents::default()),
        // Reports the same errors as the start of a server.
        _ => Offset(ensure_layout(&connection, &prefix).await?.revision_offset),
    };
    let mut records = Vec::new();
    let loaded = load(&connection, &prefix, offset, |record| records.push(record)).await?;
    Ok(Contents {
        revision: offset.revision(loaded.newest),
        records,
    })
}

/// A copy into etcd.
pub(crate) struct Import {
    connection: Connection,
    prefix: Prefix,
    offset: Offset,
}

impl Import {
    /// Records per batch: below etcd's limit of 128 operations per transaction.
    pub(crate) const BATCH_RECORDS_MAX: usize = 120;

    /// Begins a copy: removes existing data if that is allowed, and marks the layout as incomplete. `above` receives
    /// the revision of the replaced store, and returns the revision that all written objects must exceed. Objects get
    /// new revisions, which were never assigned before.
    pub(crate) async fn begin(
        address: &EtcdAddress,
        overwrite: bool,
        above: impl FnOnce(Option<Revision>) -> Revision,
    ) -> Result<Import, TransferError> {
        let prefix = Prefix::new(&address.prefix);
        let (connection, _) = connect(&address.endpoints()?).await?;
        let (layout, _) = read_layout(&connection, &prefix).await?;
        if !overwrite && !is_empty(&connection, &prefix).await? {
            return Err(TransferError::NotEmpty {
                destination: format!("etcd at {}", address.prefix),
            });
        }
        let mut import = Import {
            connection,
            prefix,
            offset: Offset(0),
        };
        let now = import.commit(Vec::new()).await?;
        let replaced = layout.map(|layout| Offset(layout.revision_offset).revision(now));
        import.offset = Offset::after(now, above(replaced));
        let mut operations = import.clear();
        operations.push(import.layout(false));
        import.commit(operations).await?;
        Ok(import)
    }

    /// Writes a batch of records.
    pub(crate) async fn put(&self, records: &[Record]) -> Result<(), StoreError> {
        let puts = records
            .iter()
            .map(|record| put(self.prefix.key(&record.key), encode_value(&record.value)));
        self.commit(puts.collect()).await.map(|_| ())
    }

    /// Completes the copy and returns the revision of the store.
    pub(crate) async fn complete(&self) -> Result<Revision, StoreError> {
        let record = CommitRecord {
            mark: fastrand::u64(..),
            ..CommitRecord::default()
        };
        let commit = put(self.prefix.key(COMMIT), record.encode());
        let now = self.commit(vec![commit, self.layout(true)]).await?;
        Ok(self.offset.revision(now))
    }

    /// Returns operations that remove everything except the layout, which is written in the same transaction: etcd
    /// accepts a key only once per transaction. The offset is therefore not lost if a copy is interrupted.
    fn clear(&self) -> Vec<RequestOp> {
        let (first, end) = self.prefix.range();
        let after_layout = self.prefix.key(&format!("{LAYOUT}\0"));
        [(first, self.prefix.key(LAYOUT)), (after_layout, end)]
            .map(|(key, range_end)| Request::DeleteRange(DeleteRangeRequest { key, range_end }).into())
            .into()
    }

    fn layout(&self, is_complete: bool) -> RequestOp {
        let layout = Layout {
            is_complete,
            ..Layout::new(self.offset.0)
        };
        put(self.prefix.key(LAYOUT), layout.encode())
    }

    /// Commits operations and returns etcd's revision.
    async fn commit(&self, success: Vec<RequestOp>) -> Result<i64, StoreError> {
        let request = TxnRequest {
            success,
            ..TxnRequest::default()
        };
        let response = self
            .connection
            .txn(request)
            .await
            .map_err(|status| store_error(&status))?;
        Ok(response.header.map_or(0, |header| header.revision))
    }
}
