//! Reading and writing whole contents, without following them.

use super::connect;
use super::connection::{Connection, EtcdAddress, told};
use super::layout::{COMMIT, CommitRecord, LAYOUT, Layout, Offset, Prefix, stored};
use super::load::{is_empty, load, read_layout, settle_layout};
use super::transaction::put;
use super::wire::{DeleteRangeRequest, Request, RequestOp, TxnRequest};
use crate::transfer::{Contents, TransferError};
use crate::{Record, Revision, StoreError};

/// Everything in an etcd at one revision.
pub(crate) async fn read_etcd(address: &EtcdAddress) -> Result<Contents, StoreError> {
    let prefix = Prefix::new(&address.prefix);
    let (connection, _) = connect(&address.endpoints()?).await?;
    let offset = match read_layout(&connection, &prefix).await? {
        (None, _) if is_empty(&connection, &prefix).await? => return Ok(Contents::default()),
        // What cannot be read is told as at the start of a server.
        _ => Offset(settle_layout(&connection, &prefix).await?.revision_offset),
    };
    let mut records = Vec::new();
    let loaded = load(&connection, &prefix, offset, |record| records.push(record)).await?;
    Ok(Contents {
        revision: offset.revision(loaded.newest),
        records,
    })
}

/// A copy into etcd under way.
pub(crate) struct Import {
    connection: Connection,
    prefix: Prefix,
    offset: Offset,
}

impl Import {
    /// Records of a batch: below etcd's limit of 128 operations a transaction.
    pub(crate) const BATCH_RECORDS_MAX: usize = 120;

    /// Begins: what is there is removed if it may be, and the layout says that a copy is under way. `above` is
    /// given the revision of the store that is replaced, and says above which revision all that is written has to
    /// be: objects get new revisions, and none of these may have been given out before.
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
                place: format!("etcd at {}", address.prefix),
            });
        }
        let mut import = Import {
            connection,
            prefix,
            offset: Offset(0),
        };
        let now = import.carry_out(Vec::new()).await?;
        let replaced = layout.map(|layout| Offset(layout.revision_offset).revision(now));
        import.offset = Offset::after(now, above(replaced));
        let mut operations = import.clear();
        operations.push(import.layout(false));
        import.carry_out(operations).await?;
        Ok(import)
    }

    /// Writes some of the records.
    pub(crate) async fn put(&self, records: &[Record]) -> Result<(), StoreError> {
        let puts = records
            .iter()
            .map(|record| put(self.prefix.key(&record.key), stored(&record.value)));
        self.carry_out(puts.collect()).await.map(|_| ())
    }

    /// Ends: the store is whole. Gives its revision.
    pub(crate) async fn end(&self) -> Result<Revision, StoreError> {
        let record = CommitRecord {
            mark: fastrand::u64(..),
            ..CommitRecord::default()
        };
        let commit = put(self.prefix.key(COMMIT), record.encoded());
        let now = self.carry_out(vec![commit, self.layout(true)]).await?;
        Ok(self.offset.revision(now))
    }

    /// Removes everything but the layout, which is written in the same transaction: etcd takes a key only once in
    /// each. So the offset is never lost, wherever a copy breaks off.
    fn clear(&self) -> Vec<RequestOp> {
        let (first, end) = self.prefix.range();
        let behind_layout = self.prefix.key(&format!("{LAYOUT}\0"));
        [(first, self.prefix.key(LAYOUT)), (behind_layout, end)]
            .map(|(key, range_end)| Request::DeleteRange(DeleteRangeRequest { key, range_end }).into())
            .into()
    }

    fn layout(&self, is_complete: bool) -> RequestOp {
        let layout = Layout {
            is_complete,
            ..Layout::new(self.offset.0)
        };
        put(self.prefix.key(LAYOUT), layout.encoded())
    }

    /// Gives etcd's revision behind it.
    async fn carry_out(&self, success: Vec<RequestOp>) -> Result<i64, StoreError> {
        let request = TxnRequest {
            success,
            ..TxnRequest::default()
        };
        let answer = self
            .connection
            .txn(request)
            .await
            .map_err(|status| told(&status))?;
        Ok(answer.header.map_or(0, |header| header.revision))
    }
}
