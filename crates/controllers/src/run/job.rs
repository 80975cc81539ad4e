//! Jobs: what the core wants done, and what came of it. Each runs in a task of its own.

use api::object::{EndpointSlice, Endpoints, ObjectKey};
use client::ClientError;
use jiff::Timestamp;

use super::Environment;
use super::work::Work;
use crate::endpoints::EndpointsWrite;
use crate::endpointslice::{self, MANAGED_BY_LABEL, Report, SliceWrite};
use crate::write::{self, Listed};
use crate::{endpoints, mirroring};

/// Something to be done for a piece of work.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) action: Action,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Action {
    /// Reading the slices of a name from the server.
    ReadSlices,
    /// Reading the Endpoints of a name from the server, of which this UID is known.
    ReadEndpoints(Option<String>),
    /// Writes on slices, in this order, and the time of the change that they answer to.
    WriteSlices {
        writes: Vec<SliceWrite>,
        trigger_time: Option<Timestamp>,
    },
    /// A write on Endpoints.
    WriteEndpoints(Box<EndpointsWrite>),
}

/// The end of a job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) work: Work,
    pub(super) outcome: Outcome,
}

/// What came of a job.
#[derive(Debug)]
pub(super) enum Outcome {
    SlicesRead(Result<Listed<EndpointSlice>, ClientError>),
    /// With the UID that was known when the read began.
    EndpointsRead(Result<Option<Endpoints>, ClientError>, Option<String>),
    SlicesWritten(Report),
    EndpointsWritten(Result<endpoints::Written, ClientError>),
    /// Nobody knows.
    Panicked,
}

/// Does a job.
pub(super) async fn carry_out(environment: Environment, job: Job) -> Done {
    let Job { work, action } = job;
    let outcome = outcome_of(&environment, &work, action).await;
    Done { work, outcome }
}

async fn outcome_of(environment: &Environment, work: &Work, action: Action) -> Outcome {
    let (client, key) = (&environment.client, work.key());
    match action {
        Action::ReadSlices => {
            Outcome::SlicesRead(write::list(client, &key.namespace, &slices_of(work, key)).await)
        }
        Action::ReadEndpoints(known) => Outcome::EndpointsRead(write::read(client, key).await, known),
        Action::WriteSlices { writes, trigger_time } => {
            let report = endpointslice::carry_out(client, writes).await;
            if let Some(trigger) = trigger_time.filter(|_| report.error.is_none()) {
                environment.metrics.programmed(trigger, environment.clock.now());
            }
            Outcome::SlicesWritten(report)
        }
        Action::WriteEndpoints(write) => {
            Outcome::EndpointsWritten(endpoints::carry_out(client, *write).await)
        }
    }
}

/// The selector of a name's slices of one controller.
fn slices_of(work: &Work, key: &ObjectKey) -> String {
    let managed_by = match work {
        Work::Mirroring(_) => mirroring::MANAGED_BY,
        _ => endpointslice::MANAGED_BY,
    };
    let name = api::object::SERVICE_NAME_LABEL;
    format!("{name}={},{MANAGED_BY_LABEL}={managed_by}", key.name)
}
