//! Observed objects of one import in this cluster.

use api::multicluster::SERVICE_NAME_LABEL;
use api::object::{EndpointSlice, ObjectKey, Service, ServiceExport, ServiceImport};

/// The objects of one import, and the ServiceExport of the same name.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) import: Option<ServiceImport>,
    /// The Service with the name of the derived one.
    pub(super) service: Option<Service>,
    /// Mirrored slices.
    pub(super) slices: Vec<EndpointSlice>,
    pub(super) export: Option<ServiceExport>,
    /// Answer of the API server to a derived Service that it rejected. No further attempt follows in this job.
    pub(super) rejection: Option<String>,
}

impl Observed {
    /// Returns the derived Service. A Service of a user with its name is not the derived one.
    pub(super) fn derived(&self, key: &ObjectKey) -> Option<&Service> {
        let service = self.service.as_ref()?;
        is_derived_from(service, key).then_some(service)
    }
}

/// Returns true if a Service is derived from an import.
pub(super) fn is_derived_from(service: &Service, key: &ObjectKey) -> bool {
    let label = service.metadata.labels.get(SERVICE_NAME_LABEL);
    label.is_some_and(|name| **name == *key.name)
}
