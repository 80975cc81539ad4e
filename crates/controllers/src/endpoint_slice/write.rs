//! Execution of writes of EndpointSlices.

use api::object::{EndpointSlice, ObjectMeta};
use client::{Client, ClientError};

use super::slice_changes::SliceWrite;
use crate::api_requests;
use crate::caches::SliceCache;

/// The result of a series of writes.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Slices after their writes.
    pub(crate) written: Vec<EndpointSlice>,
    /// Number of created slices among them.
    pub(crate) created: usize,
    /// Deleted slices.
    pub(crate) deleted: Vec<ObjectMeta>,
    /// The first error, which ended the series.
    pub(crate) error: Option<ClientError>,
}

impl Report {
    /// Applies the result to the cache; returns the error.
    pub(crate) fn apply_to(self, slices: &mut SliceCache) -> Option<ClientError> {
        for slice in self.written {
            slices.apply_response(slice);
        }
        for meta in &self.deleted {
            slices.confirm_deletion(meta);
        }
        self.error
    }
}

/// Executes the writes in order and stops at the first error.
pub(crate) async fn execute(client: &Client, writes: Vec<SliceWrite>) -> Report {
    let mut report = Report::default();
    for write in writes {
        if let Err(error) = execute_write(client, write, &mut report).await {
            report.error = Some(error);
            break;
        }
    }
    report
}

async fn execute_write(client: &Client, write: SliceWrite, report: &mut Report) -> Result<(), ClientError> {
    match write {
        SliceWrite::Create(slice) => {
            report.written.push(api_requests::create(client, &slice).await?);
            report.created += 1;
        }
        SliceWrite::Update(slice) => report.written.push(api_requests::replace(client, &slice).await?),
        SliceWrite::Delete(meta) => {
            api_requests::delete::<EndpointSlice>(client, &meta).await?;
            report.deleted.push(meta);
        }
    }
    Ok(())
}
