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
    replaced: Option<Revision>,
}

impl Import {
    /// Records of a batch: below etcd's limit of 128 operations a transaction.
    pub(crate) const BATCH_RECORDS_MAX: usize = 120;

    /// Begins: what is there is removed if it may be, and the layout says that a copy is under way.
    pub(crate) async fn begin(address: &EtcdAddress, overwrite: bool) -> Result<Import, TransferError> {
        let prefix = Prefix::new(&address.prefix);
        let (connection, _) = connect(&address.endpoints()?).await?;
        let mut import = Import {
            connection,
            prefix,
            replaced: None,
        };
        let (layout, _) = read_layout(&import.connection, &import.prefix).await?;
        if !is_empty(&import.connection, &import.prefix).await? {
            if !overwrite {
                return Err(TransferError::NotEmpty {
                    place: format!("etcd at {}", address.prefix),
                });
            }
            import.replaced = import.present_revision(layout).await?;
        }
        let (key, range_end) = import.prefix.range();
        let clear = Request::DeleteRange(DeleteRangeRequest { key, range_end });
        import.carry_out(vec![clear.into()]).await?;
        let offset = layout.map_or(0, |layout| layout.revision_offset);
        let unfinished = Layout {
            is_complete: false,
            ..Layout::new(offset)
        };
        let layout = import.layout(unfinished);
        import.carry_out(vec![layout]).await?;
        Ok(import)
    }

    /// The revision of the store that is replaced.
    pub(crate) fn replaced(&self) -> Option<Revision> {
        self.replaced
    }

    /// Writes some of the records.
    pub(crate) async fn put(&self, records: &[Record]) -> Result<(), StoreError> {
        let puts = records
            .iter()
            .map(|record| put(self.prefix.key(&record.key), stored(&record.value)));
        self.carry_out(puts.collect()).await.map(|_| ())
    }

    /// Ends: the store is whole, at this revision or one above. Gives which.
    pub(crate) async fn end(&self, revision: Revision) -> Result<Revision, StoreError> {
        let record = CommitRecord {
            mark: fastrand::u64(..),
            ..CommitRecord::default()
        };
        let now = self
            .carry_out(vec![put(self.prefix.key(COMMIT), record.encoded())])
            .await?;
        let now = u64::try_from(now).unwrap_or(0);
        let offset = revision.0.saturating_sub(now);
        let layout = self.layout(Layout::new(offset));
        self.carry_out(vec![layout]).await?;
        Ok(Revision(now + offset))
    }

    async fn present_revision(&self, layout: Option<Layout>) -> Result<Option<Revision>, StoreError> {
        let now = self.carry_out(Vec::new()).await?;
        Ok(layout.map(|layout| Offset(layout.revision_offset).revision(now)))
    }

    fn layout(&self, layout: Layout) -> RequestOp {
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
