//! Health checks of non-Pod backends of a Service, for example a database or a virtual machine.
//!
//! An EndpointSlice of the Service declares the backends, and an annotation holds the probe. The controller
//! probes each endpoint and writes the result to the endpoint's conditions.
//!
//! The slice contains the complete state, so backends stay after restarts, and a manifest can declare them instead of
//! `portolan backend add`. Other controllers ignore the slice because of its managed-by label. The Service owns the
//! slice, which is deleted with the Service.

mod controller;
mod run;
mod write;

use std::sync::Arc;

use api::object::{Endpoint, EndpointSlice};
use probe::definition::Probe;

pub use run::run;

/// Value of the managed-by label on slices that this controller checks.
pub const MANAGED_BY: &str = "backend-health.portolan.dev";
/// Annotation with the probe of a slice's endpoints, as JSON in the form of a container's `readinessProbe`. A
/// slice without it is not checked.
pub const PROBE_ANNOTATION: &str = "portolan.dev/readiness-probe";

/// The error of an invalid probe annotation. A retry does not help; the annotation must change.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The annotation is not a probe in JSON.
    #[error("metadata.annotations[{PROBE_ANNOTATION}]: expected a readinessProbe as JSON: {0}")]
    Form(#[from] serde_json::Error),
    /// The annotation has no handler, several, or one that only works inside a Pod.
    #[error("metadata.annotations[{PROBE_ANNOTATION}]: expected one of httpGet, tcpSocket and grpc")]
    Handler,
    /// The probe names a host. The controller would connect to it from its own network, such as its loopback interface.
    #[error(
        "metadata.annotations[{PROBE_ANNOTATION}]: expected no host, found {0:?}; the addresses of the endpoints are probed"
    )]
    Host(String),
}

/// Longest timeout of a probe. Longer ones would occupy the probes of the controller, which all Services share.
const TIMEOUT_SECONDS_MAX: u32 = 60;

/// Reads the probe of a slice; `None` if the slice has none. The timeout is at most a minute.
///
/// # Errors
/// See [`CheckError`].
pub fn probe_of(slice: &EndpointSlice) -> Result<Option<Probe>, CheckError> {
    let Some(text) = slice.metadata.annotations.get(PROBE_ANNOTATION) else {
        return Ok(None);
    };
    let mut probe: Probe = serde_json::from_str(text)?;
    let handlers = [
        probe.http_get.is_some(),
        probe.tcp_socket.is_some(),
        probe.grpc.is_some(),
    ];
    if probe.exec.is_some() || handlers.iter().filter(|is_set| **is_set).count() != 1 {
        return Err(CheckError::Handler);
    }
    let hosts = [
        probe.http_get.as_ref().map(|handler| &handler.host),
        probe.tcp_socket.as_ref().map(|handler| &handler.host),
    ];
    if let Some(host) = hosts.into_iter().flatten().find(|host| !host.is_empty()) {
        return Err(CheckError::Host(host.clone()));
    }
    probe.timeout_seconds = probe.timeout_seconds.min(TIMEOUT_SECONDS_MAX);
    Ok(Some(probe))
}

/// Returns the first address of an endpoint. It identifies the endpoint, and proxies use no other.
fn address_of(endpoint: &Endpoint) -> Option<&Arc<str>> {
    endpoint.addresses.first()
}
