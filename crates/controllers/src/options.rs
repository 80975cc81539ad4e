//! Settings of the controllers under the names of upstream's flags.

use std::sync::Arc;
use std::time::Duration;

use crate::certificates::{Authority, ReservedNames};
use crate::selection::{Controller, Selection};
use crate::{multicluster, node_ipam, node_lifecycle};

/// Settings of the controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// The controllers to run.
    pub controllers: Selection,
    /// Services whose slices are synced concurrently (EPS-26).
    pub concurrent_service_endpoint_syncs: usize,
    /// Services whose Endpoints are synced concurrently (EPC-16).
    pub concurrent_endpoint_syncs: usize,
    /// Endpoints that are mirrored concurrently (EPM-12).
    pub mirroring_concurrent_service_endpoint_syncs: usize,
    /// Period over which changes of Pods are batched before slices are written (EPS-21).
    pub endpointslice_updates_batch_period: Duration,
    /// Period over which changes of Pods are batched before Endpoints are written (EPC-16).
    pub endpoint_updates_batch_period: Duration,
    /// Period over which changes of Endpoints are batched before they are mirrored (EPM-12).
    pub mirroring_endpointslice_updates_batch_period: Duration,
    /// Upper bound of endpoints in one slice (EPS-11).
    pub max_endpoints_per_slice: usize,
    /// Upper bound of mirrored addresses in one subset (EPM-08).
    pub mirroring_max_endpoints_per_subset: usize,
    /// Settings of the node lifecycle controller.
    pub node_lifecycle: node_lifecycle::Settings,
    /// Settings of the node IPAM controller; `None` without `--allocate-node-cidrs`.
    pub node_ipam: Option<node_ipam::Settings>,
    /// The cluster CA; `None` disables signing (`--cluster-signing-cert-file`).
    pub authority: Option<Arc<Authority>>,
    /// The set of clusters; `None` without `--cluster-id`.
    pub multicluster: Option<multicluster::Settings>,
    /// Names and addresses that no node may use.
    pub reserved: ReservedNames,
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
            multicluster: None,
            reserved: ReservedNames::default(),
        }
    }
}

impl Options {
    /// Returns the number of concurrent syncs of a controller; zero for controllers with private caches.
    pub(crate) fn concurrent_syncs(&self, controller: Controller) -> usize {
        match controller {
            Controller::EndpointSlice => self.concurrent_service_endpoint_syncs,
            Controller::Endpoints => self.concurrent_endpoint_syncs,
            Controller::EndpointSliceMirroring => self.mirroring_concurrent_service_endpoint_syncs,
            // These have loops and limits of their own.
            _ => 0,
        }
    }

    /// Returns the batch period of a controller.
    pub(crate) fn batch_period(&self, controller: Controller) -> Duration {
        match controller {
            Controller::EndpointSlice => self.endpointslice_updates_batch_period,
            Controller::Endpoints => self.endpoint_updates_batch_period,
            Controller::EndpointSliceMirroring => self.mirroring_endpointslice_updates_batch_period,
            _ => Duration::ZERO,
        }
    }
}
