//! The audit log: who did what, as `audit.k8s.io/v1` events, one line each.
//!
//! [`policy`] decides what of a request is recorded, [`trail`] gathers it while the request is answered, [`event`] is the
//! form of a line, and [`backend`] writes lines to a file that [`log`] rotates, or to standard output.

mod backend;
mod counts;
mod event;
mod identity;
mod log;
mod policy;
mod trail;

pub use backend::{AuditMode, BatchSettings};
pub(crate) use counts::Counts;
pub use log::{AuditLogError, AuditLogSettings};
#[cfg(fuzzing)]
pub(crate) use policy::Subject;
pub use policy::{AuditPolicy, AuditPolicyError};
pub(crate) use trail::{Recorder, Trail, attempted_authentication};

use std::sync::Arc;

use http::Request;

use backend::Backend;

/// Policy and output of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// The policy: the recorded requests, and the level of each.
    pub policy: AuditPolicy,
    /// The file.
    pub log: AuditLogSettings,
    /// Mode of writing.
    pub mode: AuditMode,
}

/// Records requests.
pub(crate) struct Audit {
    policy: AuditPolicy,
    backend: Backend,
    pub(crate) counts: Arc<Counts>,
}

impl Audit {
    /// Opens the log.
    ///
    /// # Errors
    /// See [`AuditLogError`].
    pub(crate) fn open(settings: AuditSettings) -> Result<Audit, AuditLogError> {
        let counts = Arc::new(Counts::default());
        Ok(Audit {
            policy: settings.policy,
            backend: Backend::open(&settings.log, settings.mode, counts.clone())?,
            counts,
        })
    }

    /// Begins to record a request that has just come in.
    pub(crate) fn begin<B>(self: &Arc<Audit>, request: &Request<B>) -> Arc<Trail> {
        Arc::new(Trail::begin(self.clone(), request))
    }
}
