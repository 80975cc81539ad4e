//! Jobs: the reads and writes of the endpoint controllers. Each runs in a task of its own.

use api::object::{EndpointSlice, Endpoints, ObjectKey};
use client::ClientError;
use jiff::Timestamp;

use super::sync_key::SyncKey;
use crate::api_requests::{self, ObjectList};
use crate::endpoint_slice::{self, MANAGED_BY_LABEL, Report, SliceWrite};
use crate::endpoints::EndpointsWrite;
use crate::environment::Environment;
use crate::{endpoints, mirroring};

/// A read or write for a unit of work.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: SyncKey,
    pub(super) kind: JobKind,
}

/// The requests of a job.
#[derive(Debug)]
pub(super) enum JobKind {
    /// Reads the slices of a Service or Endpoints from the server.
    ReadSlices,
    /// Reads Endpoints from the server; with the UID of the cached object.
    ReadEndpoints(Option<String>),
    /// Writes slices in this order; with the time of the change that caused the writes.
    WriteSlices {
        writes: Vec<SliceWrite>,
        trigger_time: Option<Timestamp>,
    },
    /// Writes Endpoints.
    WriteEndpoints(Box<EndpointsWrite>),
}

/// A job that has ended.
#[derive(Debug)]
pub(super) struct FinishedJob {
    pub(super) work: SyncKey,
    pub(super) result: JobResult,
}

/// The result of a job.
#[derive(Debug)]
pub(super) enum JobResult {
    SlicesRead(Result<ObjectList<EndpointSlice>, ClientError>),
    /// With the UID of the cached object at the start of the read.
    EndpointsRead(Result<Option<Endpoints>, ClientError>, Option<String>),
    SlicesWritten(Report),
    EndpointsWritten(Result<endpoints::WriteResult, ClientError>),
    /// The job panicked, so the effect of its writes is unknown.
    Panicked,
}

/// Runs a job.
pub(super) async fn execute(environment: Environment, job: Job) -> FinishedJob {
    let Job { work, kind } = job;
    let result = send_requests(&environment, &work, kind).await;
    FinishedJob { work, result }
}

async fn send_requests(environment: &Environment, work: &SyncKey, kind: JobKind) -> JobResult {
    let (client, key) = (&environment.client, work.object_key());
    match kind {
        JobKind::ReadSlices => JobResult::SlicesRead(
            api_requests::list(client, &key.namespace, &slice_selector(work, key)).await,
        ),
        JobKind::ReadEndpoints(known) => {
            JobResult::EndpointsRead(api_requests::read(client, key).await, known)
        }
        JobKind::WriteSlices { writes, trigger_time } => {
            let report = endpoint_slice::execute(client, writes).await;
            if let Some(trigger) = trigger_time.filter(|_| report.error.is_none()) {
                environment
                    .metrics
                    .observe_programming(trigger, environment.clock.now());
            }
            JobResult::SlicesWritten(report)
        }
        JobKind::WriteEndpoints(write) => {
            JobResult::EndpointsWritten(endpoints::execute(client, *write).await)
        }
    }
}

/// Returns the label selector for the slices of a Service or Endpoints that this controller manages.
fn slice_selector(work: &SyncKey, key: &ObjectKey) -> String {
    let managed_by = match work {
        SyncKey::Mirroring(_) => mirroring::MANAGED_BY,
        _ => endpoint_slice::MANAGED_BY,
    };
    let name = api::object::SERVICE_NAME_LABEL;
    format!("{name}={},{MANAGED_BY_LABEL}={managed_by}", key.name)
}
