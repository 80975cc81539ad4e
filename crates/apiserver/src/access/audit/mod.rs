//! The audit log: `audit.k8s.io/v1` events, one JSON line each.
//!
//! - [`policy`] decides which parts of a request are recorded.
//! - [`context`] collects it while the request is served.
//! - [`event`] defines the lines.
//! - [`backend`] writes them to a file that [`log`] rotates, or to standard output.

mod backend;
mod body;
mod context;
mod counts;
mod event;
mod headers;
mod log;
mod policy;

pub use backend::{AuditMode, BatchSettings};
pub(crate) use context::{AuditContext, Recorder};
pub(crate) use counts::Counts;
pub(crate) use headers::attempted_authentication;
pub use log::{AuditLogError, AuditLogSettings};
#[cfg(fuzzing)]
pub(crate) use policy::Subject;
pub use policy::{AuditPolicy, AuditPolicyError};

use std::sync::Arc;

use http::Request;

use backend::Backend;

/// Settings of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Recorded requests, and the level of each.
    pub policy: AuditPolicy,
    /// Output file.
    pub log: AuditLogSettings,
    /// Mode of the backend.
    pub mode: AuditMode,
}

/// The audit log of a server.
pub(crate) struct Audit {
    policy: AuditPolicy,
    backend: Backend,
    pub(crate) counts: Arc<Counts>,
}

impl Audit {
    /// Opens the audit log.
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

    /// Begins the record of a request.
    pub(crate) fn begin<B>(self: &Arc<Audit>, request: &Request<B>) -> Arc<AuditContext> {
        Arc::new(AuditContext::begin(self.clone(), request))
    }
}
