//! Carrying out writes on slices.

use api::object::{EndpointSlice, ObjectMeta};
use client::{Client, ClientError};

use super::SliceWrite;
use crate::world::Slices;
use crate::write;

/// What became of a round of writes.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Slices as the server has them now.
    pub(crate) written: Vec<EndpointSlice>,
    /// How many of these are new.
    pub(crate) created: usize,
    /// Slices that are gone.
    pub(crate) deleted: Vec<ObjectMeta>,
    /// The first failure, which ended the round.
    pub(crate) error: Option<ClientError>,
}

impl Report {
    /// Writes the outcome through to the cache; returns the failure.
    pub(crate) fn take_into(self, slices: &mut Slices) -> Option<ClientError> {
        for slice in self.written {
            slices.answered(slice);
        }
        for meta in &self.deleted {
            slices.deleted(meta);
        }
        self.error
    }
}

/// Makes the writes in their order and stops at the first failure.
pub(crate) async fn carry_out(client: &Client, writes: Vec<SliceWrite>) -> Report {
    let mut report = Report::default();
    for write in writes {
        if let Err(error) = one(client, write, &mut report).await {
            report.error = Some(error);
            break;
        }
    }
    report
}

async fn one(client: &Client, write: SliceWrite, report: &mut Report) -> Result<(), ClientError> {
    match write {
        SliceWrite::Create(slice) => {
            report.written.push(write::create(client, &slice).await?);
            report.created += 1;
        }
        SliceWrite::Update(slice) => report.written.push(write::replace(client, &slice).await?),
        SliceWrite::Delete(meta) => {
            write::delete::<EndpointSlice>(client, &meta).await?;
            report.deleted.push(meta);
        }
    }
    Ok(())
}
