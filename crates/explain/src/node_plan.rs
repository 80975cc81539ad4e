//! Decisions of a node's plan about one Service.

use api::object::{EndpointSlice, Service};
use plan::{FrontendKind, NodeFacts, Origin, Plan, ServicePortPlan, Settings, Target};
use serde::Deserialize;

use crate::subject::Subject;

/// Returns the plan of a node with one Service. Without a name, the node has no endpoint and no zone. `None` if proxies do not
/// serve the Service, or if a field has an unexpected type.
pub fn plan_of(subject: &Subject<'_>, node_name: &str) -> Option<Plan> {
    let service = Service::deserialize(subject.service.tree()).ok()?;
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
    });
    plan.apply_service(&service);
    for slice in subject.slices() {
        plan.apply_slice(&EndpointSlice::deserialize(slice.tree()).ok()?);
    }
    plan.take_changes();
    let is_served = plan.services().next().is_some();
    is_served.then_some(plan)
}

/// Returns the target of connections from outside of the node to the cluster IP of a Service port.
pub fn internal_target(port: &ServicePortPlan) -> Option<Target> {
    target(port, |kind| kind == FrontendKind::ClusterIp)
}

/// Returns the target of connections from outside of the cluster to a node port, external IP or load balancer IP of a
/// Service port.
pub fn external_target(port: &ServicePortPlan) -> Option<Target> {
    target(port, |kind| kind != FrontendKind::ClusterIp)
}

fn target(port: &ServicePortPlan, is_wanted: impl Fn(FrontendKind) -> bool) -> Option<Target> {
    let mut frontends = port.frontends.iter();
    let frontend = frontends.find(|frontend| is_wanted(frontend.kind))?;
    Some(frontend.target(Origin::Outside))
}
