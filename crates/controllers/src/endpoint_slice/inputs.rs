//! The inputs of a reconciliation of slices.

use api::object::{EndpointSlice, Service};

use crate::caches::PodFacts;
use crate::topology_mode::ZoneCpus;

/// Inputs of [`super::reconcile()`].
pub struct Inputs<'a> {
    /// The Service; it has a selector and is not of type ExternalName.
    pub service: &'a Service,
    /// The Pods that match its selector.
    pub pods: &'a [&'a PodFacts],
    /// The zone of a Node by its name; `None` if the Node is unknown.
    pub node_zones: &'a dyn Fn(&str) -> Option<Option<String>>,
    /// The CPUs of the zones, for Services in topology mode Auto.
    pub zone_cpus: &'a ZoneCpus,
    /// The slices with the Service's name and this controller's managed-by label.
    pub slices: &'a [&'a EndpointSlice],
    /// Upper bound of endpoints in one slice (EPS-11).
    pub endpoints_per_slice_max: usize,
    /// Time of the change that causes the writes, RFC 3339 (EPS-04).
    pub trigger_time: Option<&'a str>,
}
