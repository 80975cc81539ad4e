//! The keys of the endpoint controllers' queues.

use api::object::{ObjectKey, Service};

use crate::selection::Controller;

/// Key of a sync: one object of one controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SyncKey {
    /// The EndpointSlices of a Service.
    Slices(ObjectKey),
    /// The Endpoints of a Service.
    Endpoints(ObjectKey),
    /// The EndpointSlices that mirror Endpoints.
    Mirroring(ObjectKey),
}

impl SyncKey {
    /// Returns the controller that syncs the object.
    pub(super) fn controller(&self) -> Controller {
        match self {
            Self::Slices(_) => Controller::EndpointSlice,
            Self::Endpoints(_) => Controller::Endpoints,
            Self::Mirroring(_) => Controller::EndpointSliceMirroring,
        }
    }

    /// Returns the key of the Service or Endpoints.
    pub(super) fn object_key(&self) -> &ObjectKey {
        match self {
            Self::Slices(key) | Self::Endpoints(key) | Self::Mirroring(key) => key,
        }
    }

    /// Returns the namespace of the Service or Endpoints.
    pub(super) fn namespace(&self) -> &str {
        &self.object_key().namespace
    }
}

/// The topic of Events: those of a sync, or the failure of its writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Findings(SyncKey),
    Failure(SyncKey),
}

/// Returns true if the controllers maintain endpoints for the Service (EPS-01, EPC-01).
pub(super) fn selects_pods(service: &Service) -> bool {
    !service.spec.selector.is_empty() && service.spec.kind != "ExternalName"
}
