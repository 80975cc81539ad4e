//! Decisions of a node's plan about one Service.

use std::collections::BTreeSet;

use api::object::{EndpointSlice, Service};
use plan::{FrontendKind, NodeFacts, Origin, Plan, ServicePortPlan, Settings, Target};
use serde::Deserialize;

use crate::subject::Subject;
use crate::views;

/// Addresses that stand for cluster IPs that manifests do not have yet (RFC 5737, RFC 3849).
pub(crate) const PLACEHOLDERS: [(&str, &str); 2] =
    [("192.0.2.1", "2001:db8::1"), ("192.0.2.2", "2001:db8::2")];

/// Returns a Service for a plan. A Service of a manifest gets a cluster IP of its families, as an API server assigns
/// it. `None` if a field has an unexpected type.
pub(crate) fn with_cluster_ip(service: views::Service<'_>, (v4, v6): (&str, &str)) -> Option<Service> {
    let mut service = Service::deserialize(service.tree()).ok()?;
    let spec = &mut service.spec;
    let is_assigned = !spec.cluster_ip.is_empty() || !spec.cluster_ips.is_empty();
    if !is_assigned && spec.kind != "ExternalName" {
        let families = &spec.ip_families;
        spec.cluster_ips = if families.is_empty() {
            vec![v4.to_owned()]
        } else {
            let address = |family: &String| if family == "IPv6" { v6 } else { v4 };
            families.iter().map(|family| address(family).to_owned()).collect()
        };
        spec.cluster_ip.clone_from(&spec.cluster_ips[0]);
    }
    Some(service)
}

/// Returns the plan of a node with one Service. Without a name, the node has no endpoint and no zone. `None` if proxies
/// do not serve the Service, or if a field has an unexpected type.
pub(crate) fn plan_of(subject: &Subject<'_>, node_name: &str) -> Option<Plan> {
    let service = with_cluster_ip(subject.service, PLACEHOLDERS[0])?;
    let node = subject.world.node(node_name);
    let mut plan = Plan::new(Settings {
        node_name: node_name.to_owned(),
        ..Settings::default()
    });
    plan.set_node(NodeFacts {
        zone: node
            .map(|node| node.zone().to_owned())
            .filter(|zone| !zone.is_empty()),
        ips: node.map(|node| node.ips()).unwrap_or_default(),
        addresses: node.map(|node| node.ips()).unwrap_or_default(),
    });
    plan.apply_service(&service);
    for slice in subject.slices() {
        plan.apply_slice(&EndpointSlice::deserialize(slice.tree()).ok()?);
    }
    plan.take_changes();
    let is_served = plan.services().next().is_some();
    is_served.then_some(plan)
}

/// Returns the names of the nodes with usable endpoints, as the slices have them.
pub(crate) fn nodes_with_endpoints<'w>(subject: &Subject<'w>) -> BTreeSet<&'w str> {
    let endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    endpoints
        .filter(|endpoint| endpoint.is_serving() || endpoint.is_ready())
        .map(|endpoint| endpoint.node())
        .collect()
}

/// Returns the target of connections from outside of the node to the cluster IP of a Service port.
pub(crate) fn internal_target(port: &ServicePortPlan) -> Option<Target> {
    target(port, |kind| kind == FrontendKind::ClusterIp)
}

/// Returns the target of connections from outside of the cluster to a node port, external IP or load balancer IP of a
/// Service port.
pub(crate) fn external_target(port: &ServicePortPlan) -> Option<Target> {
    target(port, |kind| kind != FrontendKind::ClusterIp)
}

fn target(port: &ServicePortPlan, is_wanted: impl Fn(FrontendKind) -> bool) -> Option<Target> {
    let mut frontends = port.frontends.iter();
    let frontend = frontends.find(|frontend| is_wanted(frontend.kind))?;
    Some(frontend.target(Origin::Outside))
}
