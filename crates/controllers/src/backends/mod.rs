//! Addresses that are no Pods behind a Service: a database, a virtual machine. Each is declared by an EndpointSlice of
//! the Service, with a probe as an annotation; this controller asks the probes and keeps what came of it in the
//! slice's conditions.
//!
//! The slice is all that is kept, so backends outlive every restart, and whoever likes manifests better than `portolan
//! backend add` applies one. Its managed-by label is its own, for which the other controllers leave it alone, and
//! its owner is the Service, with which it goes.

mod keeper;
mod run;
mod write;

use std::sync::Arc;

use api::object::{Endpoint, EndpointSlice};
use probe::definition::Probe;

pub use run::run;

/// Value of the managed-by label on slices whose endpoints are checked here.
pub const MANAGED_BY: &str = "backend-health.portolan.dev";
/// The annotation with the probe of a slice's endpoints: JSON, in the form of a container's `readinessProbe`. A slice
/// without it is not checked.
pub const PROBE_ANNOTATION: &str = "portolan.dev/readiness-probe";

/// Why the endpoints of a slice are not checked. Only another annotation helps.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It is no probe.
    #[error("metadata.annotations[{PROBE_ANNOTATION}]: expected a readinessProbe as JSON: {0}")]
    Form(#[from] serde_json::Error),
    /// It says nothing that can be asked from here.
    #[error("metadata.annotations[{PROBE_ANNOTATION}]: expected one of httpGet, tcpSocket and grpc")]
    Handler,
}

/// How the endpoints of a slice are checked, if they are.
pub fn probe_of(slice: &EndpointSlice) -> Result<Option<Probe>, CheckError> {
    let Some(text) = slice.metadata.annotations.get(PROBE_ANNOTATION) else {
        return Ok(None);
    };
    let probe: Probe = serde_json::from_str(text)?;
    let handlers = [
        probe.http_get.is_some(),
        probe.tcp_socket.is_some(),
        probe.grpc.is_some(),
    ];
    if probe.exec.is_some() || handlers.iter().filter(|is_set| **is_set).count() != 1 {
        return Err(CheckError::Handler);
    }
    Ok(Some(probe))
}

/// The address by which an endpoint is known, and asked: proxies use the first, too.
fn address_of(endpoint: &Endpoint) -> Option<&Arc<str>> {
    endpoint.addresses.first()
}
