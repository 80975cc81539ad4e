//! Writing of contents into etcd. It takes many transactions; until the last one, the layout is marked as
//! incomplete and no server starts on it.

use super::{Contents, TransferError, WriteOptions, WriteSummary};
use crate::EtcdAddress;
use crate::etcd::Import;

/// Limit of a transaction in bytes: half of etcd's default limit.
const BATCH_BYTES_MAX: usize = 768 << 10;

/// Writes the contents to etcd, in transactions of bounded size.
pub(super) async fn write(
    address: &EtcdAddress,
    contents: &Contents,
    options: WriteOptions,
    mut progress: impl FnMut(usize),
) -> Result<WriteSummary, TransferError> {
    let above = |replaced| options.revision_above(contents, replaced);
    let import = Import::begin(address, options.overwrite, above).await?;
    let mut written = 0;
    for batch in batches(contents) {
        import.put(batch).await?;
        written += batch.len();
        progress(written);
    }
    Ok(WriteSummary {
        records: written,
        revision: import.complete().await?,
    })
}

/// Splits the records into batches that fit into a transaction.
fn batches(contents: &Contents) -> impl Iterator<Item = &[crate::Record]> {
    let mut rest = contents.records.as_slice();
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = rest.iter().take(Import::BATCH_RECORDS_MAX).take_while(|record| {
            let is_first = bytes == 0;
            bytes += record.key.len() + record.value.bytes.len();
            is_first || bytes <= BATCH_BYTES_MAX
        });
        let (batch, left) = rest.split_at(fitting.count());
        rest = left;
        (!batch.is_empty()).then_some(batch)
    })
}
