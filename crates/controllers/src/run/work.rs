//! What there is to look at.

use api::object::{ObjectKey, Service};

use crate::selection::Controller;

/// What a worker looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Work {
    /// The slices of a Service.
    Slices(ObjectKey),
    /// The Endpoints of a Service.
    Endpoints(ObjectKey),
    /// The mirrored slices of Endpoints.
    Mirroring(ObjectKey),
}

impl Work {
    /// The controller whose work this is.
    pub(super) fn controller(&self) -> Controller {
        match self {
            Self::Slices(_) => Controller::EndpointSlice,
            Self::Endpoints(_) => Controller::Endpoints,
            Self::Mirroring(_) => Controller::EndpointSliceMirroring,
        }
    }

    /// The object that it is about.
    pub(super) fn key(&self) -> &ObjectKey {
        match self {
            Self::Slices(key) | Self::Endpoints(key) | Self::Mirroring(key) => key,
        }
    }
}

/// What Events are about: what a sync found, or that its writes fail.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Findings(Work),
    Failure(Work),
}

/// Whether the controllers keep endpoints for the Service (EPS-01, EPC-01).
pub(super) fn selects_pods(service: &Service) -> bool {
    !service.spec.selector.is_empty() && service.spec.kind != "ExternalName"
}
