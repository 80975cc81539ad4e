//! Topology mode Auto of Services (EPS-18): its annotations, and the CPUs by which it distributes endpoints.

use std::collections::BTreeMap;

use api::object::Service;

/// Annotation that selects the topology mode.
pub(crate) const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// Deprecated name of the annotation, which takes precedence.
pub(crate) const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Allocatable CPU of ready Nodes by zone, in thousandths, without control plane Nodes. `None` if a Node has
/// no zone or no CPUs, which disables the distribution.
pub(crate) type ZoneCpus = Option<BTreeMap<String, u64>>;

/// Returns true if the Service selects topology mode Auto, regardless of its `trafficDistribution`.
pub(crate) fn is_auto(service: &Service) -> bool {
    let annotations = &service.metadata.annotations;
    let mode = annotations
        .get(TOPOLOGY_AWARE_HINTS)
        .or_else(|| annotations.get(TOPOLOGY_MODE));
    mode.is_some_and(|mode| mode == "Auto" || mode == "auto")
}
