//! Observed objects of one import in this cluster.

use std::collections::BTreeMap;

use api::multicluster::SERVICE_NAME_LABEL;
use api::object::{EndpointSlice, ObjectKey, Service, ServiceExport, ServiceImport};

use super::names::{MANAGED_BY, MANAGED_BY_LABEL};

/// The objects of one import, and the ServiceExport of the same name.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservedImport {
    pub(super) import: Option<ServiceImport>,
    /// The Service with the name of the derived one.
    pub(super) service: Option<Service>,
    /// Mirrored slices.
    pub(super) slices: Vec<EndpointSlice>,
    pub(super) export: Option<ServiceExport>,
    /// Response of the API server to a derived Service that it rejected. No further attempt follows in this job.
    pub(super) rejection: Option<String>,
    /// Responses of the API server to mirrored slices that it rejected, by name. No further attempt follows in this job.
    pub(super) rejected_slices: BTreeMap<String, String>,
}

impl ObservedImport {
    /// Returns the derived Service. A Service of a user with its name is not the derived one.
    pub(super) fn derived(&self, key: &ObjectKey) -> Option<&Service> {
        let service = self.service.as_ref()?;
        is_derived_from(service, key).then_some(service)
    }
}

/// Returns true if a Service with the name of the derived Service of an import is derived. One of the two labels
/// suffices, so that the controller repairs the other.
fn is_derived_from(service: &Service, key: &ObjectKey) -> bool {
    is_managed(service) || names_import(service, key)
}

/// Returns true if the label with the name of the import has this name.
pub(super) fn names_import(service: &Service, key: &ObjectKey) -> bool {
    let label = service.metadata.labels.get(SERVICE_NAME_LABEL);
    label.is_some_and(|name| **name == *key.name)
}

/// Returns true if a Service has the label of this controller.
pub(super) fn is_managed(service: &Service) -> bool {
    let label = service.metadata.labels.get(MANAGED_BY_LABEL);
    label.is_some_and(|name| name == MANAGED_BY)
}

/// Returns true if a Service is derived from any import.
pub(super) fn is_derived(service: &Service) -> bool {
    is_managed(service) || service.metadata.labels.contains_key(SERVICE_NAME_LABEL)
}
