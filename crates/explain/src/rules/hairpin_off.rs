//! PTL-0044: a Pod does not reach itself through its Service.

use crate::facts::observed_node::{ObservedNode, is_served, observed_nodes};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::observation::Link;
use crate::rule::Rule;
use crate::views::EndpointSlice;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("hairpin_off.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

const CODE: Code = Code(44);
/// With this parameter, the bridge translates packets and sends them to their port. Without it, the node routes them.
const BRIDGED_PARAMETER: &str = "net.bridge.bridge-nf-call-iptables";

fn check(world: &World) -> Vec<Finding> {
    observed_nodes(world).filter_map(finding).collect()
}

fn finding(node: ObservedNode<'_>) -> Option<Finding> {
    if node.sysctl(BRIDGED_PARAMETER) != Some("1") || node.has_ebpf_proxy() {
        return None;
    }
    let is_off = |link: &&Link| link.hairpin == Some(false) && link.kind.as_deref() == Some("veth");
    let (bridge, port, number) = node.pod_bridges().into_iter().find_map(|bridge| {
        // A bridge in promiscuous mode receives the packets itself.
        if bridge.promiscuous == Some(true) {
            return None;
        }
        let mut ports = node
            .ports_of(&bridge.name)
            .filter(is_off)
            .filter(|port| is_of_endpoint(node, port));
        let first = ports.next()?;
        Some((bridge, first, ports.count() + 1))
    })?;
    if !has_endpoint(node) {
        return None;
    }
    let message = format!(
        "Hairpin mode is off on port {} of bridge {} on Node {}, so the Pod there does not reach itself through its Service",
        port.name,
        bridge.name,
        node.name()
    );
    let remedy = format!(
        "Set hairpinMode: true in the CNI configuration. For a running Pod: {}",
        node.run(&format!(
            "bridge link set dev {} hairpin on",
            kubectl::word(&port.name)
        ))
    );
    let field = format!("links[{}].hairpin", port.name);
    let finding = node.finding(CODE, Severity::Warning, field, message, remedy);
    Some(finding.with_evidence(format!("Ports of the bridge without hairpin mode: {number}")))
}

/// Returns true if the Pod of a port is unknown, or a Service selects it.
fn is_of_endpoint(node: ObservedNode<'_>, port: &Link) -> bool {
    let Some(name) = &port.pod else {
        return true;
    };
    let pod = node.world.object(Kind::Pod, &name.namespace, &name.name);
    pod.is_none_or(|pod| {
        let services = node.world.services_selecting(crate::views::Pod(pod));
        services.into_iter().any(is_served)
    })
}

/// Returns true if an endpoint of a Service is on the node.
fn has_endpoint(node: ObservedNode<'_>) -> bool {
    let slices = node.world.all(Kind::EndpointSlice).map(EndpointSlice);
    let mut endpoints = slices.flat_map(|slice| slice.endpoints());
    endpoints.any(|endpoint| endpoint.node() == node.name())
}
