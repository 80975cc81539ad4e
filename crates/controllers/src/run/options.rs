//! Settings of the controllers, under the names of upstream's flags.

use std::sync::Arc;
use std::time::Duration;

use crate::certificates::{Authority, Reserved};
use crate::selection::{Controller, Selection};
use crate::{node_ipam, node_lifecycle};

/// Settings of the controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which controllers run.
    pub controllers: Selection,
    /// Services whose slices are synced at once (EPS-26).
    pub concurrent_service_endpoint_syncs: usize,
    /// Services whose Endpoints are synced at once (EPC-16).
    pub concurrent_endpoint_syncs: usize,
    /// Endpoints that are mirrored at once (EPM-12).
    pub mirroring_concurrent_service_endpoint_syncs: usize,
    /// How long changes of Pods are gathered before slices are written (EPS-21).
    pub endpointslice_updates_batch_period: Duration,
    /// How long changes of Pods are gathered before Endpoints are written (EPC-16).
    pub endpoint_updates_batch_period: Duration,
    /// How long changes of Endpoints are gathered before they are mirrored (EPM-12).
    pub mirroring_endpointslice_updates_batch_period: Duration,
    /// Most endpoints in one slice (EPS-11).
    pub max_endpoints_per_slice: usize,
    /// Most addresses of one subset that are mirrored (EPM-08).
    pub mirroring_max_endpoints_per_subset: usize,
    /// How patient the node lifecycle controller is.
    pub node_lifecycle: node_lifecycle::Settings,
    /// Where the ranges of Nodes' Pods come from; `None` if others give them out (`--allocate-node-cidrs`).
    pub node_ipam: Option<node_ipam::Settings>,
    /// What signs certificates; none are signed without (`--cluster-signing-cert-file`).
    pub authority: Option<Arc<Authority>>,
    /// Names and addresses that no machine gets.
    pub reserved: Reserved,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: Selection::default(),
            concurrent_service_endpoint_syncs: 5,
            concurrent_endpoint_syncs: 5,
            mirroring_concurrent_service_endpoint_syncs: 5,
            endpointslice_updates_batch_period: Duration::ZERO,
            endpoint_updates_batch_period: Duration::ZERO,
            mirroring_endpointslice_updates_batch_period: Duration::ZERO,
            max_endpoints_per_slice: 100,
            mirroring_max_endpoints_per_subset: 1_000,
            node_lifecycle: node_lifecycle::Settings::default(),
            node_ipam: None,
            authority: None,
            reserved: Reserved::default(),
        }
    }
}

impl Options {
    /// Keys of a controller that are worked on at once.
    pub(super) fn concurrent_syncs(&self, controller: Controller) -> usize {
        match controller {
            Controller::EndpointSlice => self.concurrent_service_endpoint_syncs,
            Controller::Endpoints => self.concurrent_endpoint_syncs,
            Controller::EndpointSliceMirroring => self.mirroring_concurrent_service_endpoint_syncs,
            // The others have loops and bounds of their own.
            _ => 0,
        }
    }

    /// How long a controller gathers changes.
    pub(super) fn batch_period(&self, controller: Controller) -> Duration {
        match controller {
            Controller::EndpointSlice => self.endpointslice_updates_batch_period,
            Controller::Endpoints => self.endpoint_updates_batch_period,
            Controller::EndpointSliceMirroring => self.mirroring_endpointslice_updates_batch_period,
            _ => Duration::ZERO,
        }
    }
}
