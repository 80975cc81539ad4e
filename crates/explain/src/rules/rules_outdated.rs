//! PTL-0037: the rules of a node are older than the objects.

use crate::facts::observed_node::{ObservedNode, observed_nodes};
use crate::finding::{Code, Finding, Severity};
use crate::observation::NodeProxy;
use crate::rule::Rule;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("rules_outdated.md"),
    explained_by: &[],
    service: None,
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(37);
/// Age of a change at which kube-proxy reports that it is not healthy: two sync periods.
const SECONDS_MAX: u64 = 60;

fn check(world: &World) -> Vec<Finding> {
    let nodes = observed_nodes(world);
    nodes
        .flat_map(|node| {
            let proxies = node.proxies().iter().enumerate();
            proxies.filter_map(move |(index, proxy)| outdated_rules(node, index, proxy))
        })
        .collect()
}

fn outdated_rules(node: ObservedNode<'_>, index: usize, proxy: &NodeProxy) -> Option<Finding> {
    let is_too_long = |seconds: &u64| *seconds >= SECONDS_MAX;
    let name = node.name();
    let (field, reason) = if let Some(seconds) = proxy.seconds_without_api.filter(is_too_long) {
        let reason = format!("has not reached the API server for {seconds} s");
        ("secondsWithoutAPI", reason)
    } else {
        let seconds = proxy.seconds_behind.filter(is_too_long)?;
        let reason = format!("received a change {seconds} s ago that its rules do not contain");
        ("secondsBehind", reason)
    };
    let message = format!(
        "{} on Node {name} {reason}, so connections go to former endpoints",
        proxy.name
    );
    let remedy = match field {
        "secondsWithoutAPI" => format!(
            "Restore the connection from the node to the API server, or the credentials of {}. Its log has the error: {}",
            proxy.name,
            node.log_of(&proxy.name)
        ),
        _ => format!(
            "Restart {}, if its log shows that it cannot write its rules: {}",
            proxy.name,
            node.log_of(&proxy.name)
        ),
    };
    let field = format!("proxies[{index}].{field}");
    let finding = node.finding(CODE, Severity::Warning, field, message, remedy);
    Some(match proxy.seconds_since_sync {
        Some(seconds) => finding.with_evidence(format!("The last write of rules was {seconds} s ago")),
        None => finding,
    })
}
