//! PTL-0039: no node proxy runs, or it uses a wrong node name.

use std::collections::BTreeSet;

use super::{rules_changed, rules_outdated};
use crate::facts::observed_node::{ObservedNode, is_served, observed_nodes};
use crate::facts::pod_state::failure;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::object::Object;
use crate::observation::NodeProxy;
use crate::rule::Rule;
use crate::subject::finding_about;
use crate::views::{Node, Pod, list};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("proxy_absent.md"),
    explained_by: &[rules_outdated::CODE, rules_changed::CODE],
    service: None,
    cluster: Some(check),
};

pub(super) const CODE: Code = Code(39);
/// Prefixes of the names of Pods that run a node proxy.
const PROXY_PODS: [&str; 2] = ["kube-proxy", "portolan-proxy"];
/// Flag of kube-proxy with the node name.
const OVERRIDE_FLAG: &str = "--hostname-override";
/// ConfigMap of kube-proxy, and its field with the node name.
const PROXY_CONFIGURATION: &str = "kube-proxy";
const OVERRIDE_FIELD: &str = "hostnameOverride:";
/// Namespace of the Pods and of the ConfigMap of node proxies.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// Prefix of the names of the Pods of a network plugin that serves Services itself.
const OTHER_DATAPLANE: &str = "cilium";
/// Label of the Pods of its agent.
const OTHER_AGENT: (&str, &str) = ("k8s-app", "cilium");
/// DaemonSet of kube-proxy.
const PROXY_SET: &str = "kube-proxy";
/// Prefixes of the names of the DaemonSets of network plugins that need a node proxy.
const PLAIN_PLUGINS: [&str; 4] = ["kube-flannel", "kindnet", "weave-net", "aws-node"];
/// Prefix of the names of DaemonSets that replace kube-proxy.
const REPLACEMENT: &str = "portolan";
/// Minimum number of nodes with Pods of a node proxy, from which the other nodes of the cluster should have them. A
/// smaller number can be an exception.
const PROXY_NODES_MIN: usize = 2;
/// Labels of nodes whose host runs the proxy (Fargate), or whose agent serves Services itself (KubeEdge).
const OTHER_NODES: [&str; 2] = ["eks.amazonaws.com/compute-type", "node-role.kubernetes.io/edge"];
/// Values of the label `type` of nodes that have no kernel.
const VIRTUAL_TYPES: [&str; 2] = ["virtual-kubelet", "kwok"];
/// Taint of nodes that have no kernel.
const VIRTUAL_TAINT: &str = "virtual-kubelet.io/provider";

fn check(world: &World) -> Vec<Finding> {
    let mut findings = Vec::new();
    for node in observed_nodes(world) {
        let Some(proxies) = &node.observation.proxies else {
            continue;
        };
        if proxies.is_empty() && world.services().any(is_served) {
            findings.extend(process_absent(node));
        }
        for (index, proxy) in proxies.iter().enumerate() {
            findings.extend(wrong_name(node, index, proxy).or_else(|| process_unhealthy(node, index, proxy)));
        }
    }
    let has_no_proxies = |node: ObservedNode<'_>| node.observation.proxies.as_ref().is_none_or(Vec::is_empty);
    if findings.is_empty() && observed_nodes(world).all(has_no_proxies) {
        findings.extend(failing_pods(world));
        if findings.is_empty() {
            findings.extend(proxies_with_other_name(world));
        }
        if findings.is_empty() {
            findings.extend(uncovered_nodes(world));
            findings.extend(daemon_set_without_nodes(world));
        }
    }
    findings
}

/// Reports a DaemonSet of kube-proxy that selects no node, with a network plugin that needs a node proxy.
fn daemon_set_without_nodes(world: &World) -> Option<Finding> {
    let set = world.object(Kind::DaemonSet, SYSTEM_NAMESPACE, PROXY_SET)?;
    let is_idle = set.number("/status/desiredNumberScheduled") == Some(0);
    let has_nodes = world.nodes().any(|node| node.is_ready() && !is_virtual(node));
    let is_needed = world.all(Kind::DaemonSet).any(|other| {
        let mut plugins = PLAIN_PLUGINS.iter();
        plugins.any(|plugin| other.name.starts_with(plugin))
    });
    let mut sets = world.all(Kind::DaemonSet);
    let is_replaced = has_other_dataplane(world) || sets.any(|other| other.name.starts_with(REPLACEMENT));
    if !is_idle || !has_nodes || !is_needed || is_replaced || proxy_pods(world).next().is_some() {
        return None;
    }
    let message = format!(
        "DaemonSet {PROXY_SET} selects no node, so no node has rules for Services: its node selector or affinity matches no Node"
    );
    let remedy = format!("Correct its node selector: {}", kubectl::command("edit", set));
    let field = "spec.template.spec.nodeSelector";
    Some(finding_about(set, CODE, Severity::Error, field, message, remedy))
}

/// Returns the Pods of a node proxy that run or will run.
fn proxy_pods(world: &World) -> impl Iterator<Item = Pod<'_>> {
    let pods = world.in_namespace(Kind::Pod, SYSTEM_NAMESPACE).map(Pod);
    pods.filter(|pod| {
        let mut names = PROXY_PODS.iter();
        pod.is_active() && names.any(|name| pod.0.name.starts_with(name))
    })
}

/// Reports nodes without a Pod of a node proxy, although most nodes have one.
fn uncovered_nodes(world: &World) -> Vec<Finding> {
    let covered: BTreeSet<&str> = proxy_pods(world).map(Pod::node).collect();
    let is_uncovered = |node: &Node<'_>| {
        let is_other = OTHER_NODES.iter().any(|label| node.0.label(label).is_some()) || is_virtual(*node);
        node.is_ready() && !node.is_leaving() && !is_other && !covered.contains(node.0.name.as_str())
    };
    let nodes: Vec<Node<'_>> = world.nodes().filter(is_uncovered).collect();
    if covered.len() < PROXY_NODES_MIN || nodes.len() >= covered.len() || has_other_dataplane(world) {
        return Vec::new();
    }
    let finding = |node: &Node<'_>| {
        let message = format!(
            "Node {} has no Pod of a node proxy, which {} other nodes have: connections of its Pods to Services fail",
            node.0.name,
            covered.len()
        );
        let remedy = format!(
            "Find out why the DaemonSet of the proxy leaves out the node, such as its taints: {}",
            kubectl::command("describe", node.0)
        );
        finding_about(node.0, CODE, Severity::Warning, "spec.taints", message, remedy)
    };
    nodes.iter().map(finding).collect()
}

/// Reports node proxies whose flag, or whose configuration, has the name of another node.
fn proxies_with_other_name(world: &World) -> Vec<Finding> {
    let flag_findings: Vec<Finding> = proxy_pods(world)
        .filter_map(|pod| {
            let (field, used) = override_flag(pod)?;
            is_other_name(used, pod).then(|| other_name(pod.0, field, used, pod))
        })
        .collect();
    if !flag_findings.is_empty() {
        return flag_findings;
    }
    let Some((configuration, used)) = configured_name(world) else {
        return Vec::new();
    };
    // The flag has precedence over the file.
    let other = proxy_pods(world).find(|pod| override_flag(*pod).is_none() && is_other_name(used, *pod));
    let finding = other.map(|pod| other_name(configuration, "data".to_owned(), used, pod));
    finding.into_iter().collect()
}

/// Returns true if a name is not that of the node of a Pod. The kubelet replaces names of variables.
fn is_other_name(used: &str, pod: Pod<'_>) -> bool {
    let is_literal = !used.is_empty() && !used.contains('$');
    is_literal && !pod.node().is_empty() && !used.eq_ignore_ascii_case(pod.node())
}

fn other_name(object: &Object, field: String, used: &str, pod: Pod<'_>) -> Finding {
    let message = format!(
        "The node proxy of Node {} uses the node name {used}. It treats no endpoint as local, so traffic policies that are Local drop connections",
        pod.node()
    );
    let remedy = format!(
        "Remove the name, or set it from spec.nodeName of the Pod: {}",
        kubectl::command("edit", object)
    );
    finding_about(object, CODE, Severity::Warning, field, message, remedy)
}

/// Returns the path and the value of the flag with the node name.
fn override_flag(pod: Pod<'_>) -> Option<(String, &str)> {
    let mut containers = pod.0.list("/spec/containers").iter().enumerate();
    containers.find_map(|(index, container)| {
        ["command", "args"].into_iter().find_map(|field| {
            let arguments = list(container, field);
            let position = arguments.iter().position(|argument| {
                argument
                    .as_str()
                    .is_some_and(|text| text.starts_with(OVERRIDE_FLAG))
            })?;
            let rest = arguments[position].as_str()?.strip_prefix(OVERRIDE_FLAG)?;
            let value = match rest.strip_prefix('=') {
                Some(value) => value,
                None => arguments.get(position + 1)?.as_str()?,
            };
            Some((format!("spec.containers[{index}].{field}[{position}]"), value))
        })
    })
}

/// Returns the node name in the configuration of kube-proxy, with its ConfigMap.
fn configured_name(world: &World) -> Option<(&Object, &str)> {
    let object = world.object(Kind::ConfigMap, SYSTEM_NAMESPACE, PROXY_CONFIGURATION)?;
    let mut lines = object.pairs("/data").flat_map(|(_, text)| text.lines());
    let value = lines.find_map(|line| line.trim().strip_prefix(OVERRIDE_FIELD))?;
    Some((object, value.trim().trim_matches('"')))
}

/// Returns true for a node without a kernel, whose Pods run elsewhere or not at all.
fn is_virtual(node: Node<'_>) -> bool {
    let mut taints = node.0.list("/spec/taints").iter();
    let kind = node.0.label("type").unwrap_or_default();
    VIRTUAL_TYPES.contains(&kind) || taints.any(|taint| taint["key"] == VIRTUAL_TAINT)
}

/// Returns true if a network plugin can replace the node proxy, on some nodes or on all.
fn has_other_dataplane(world: &World) -> bool {
    let pods = world.in_namespace(Kind::Pod, SYSTEM_NAMESPACE);
    let mut objects = world.all(Kind::DaemonSet).chain(pods);
    objects.any(|object| object.name.starts_with(OTHER_DATAPLANE))
}

/// Reports Pods of a node proxy whose container fails, in an input without observations of proxies. Without a node proxy,
/// the agents of Cilium serve Services.
fn failing_pods(world: &World) -> Vec<Finding> {
    let mut proxies: Vec<Pod<'_>> = proxy_pods(world).collect();
    if proxies.is_empty() {
        let pods = world.pods_with(SYSTEM_NAMESPACE, &[OTHER_AGENT]).into_iter();
        proxies.extend(pods.filter(|pod| pod.is_active()));
    }
    proxies.retain(|pod| !pod.is_ready());
    let finding = |pod: Pod<'_>| {
        let failure = failure(world, pod).filter(|failure| !failure.is_waiting)?;
        let message = format!(
            "The node proxy of Node {} does not run. Pod {}: {}. Its rules for Services do not follow changes",
            pod.node(),
            pod.0.name,
            failure.text
        );
        let remedy = format!(
            "Remove the reason. The log of the last run: kubectl -n {} logs {} -c {} --previous",
            pod.0.namespace,
            pod.0.name,
            kubectl::word(&failure.container)
        );
        Some(finding_about(
            pod.0,
            CODE,
            Severity::Warning,
            failure.field,
            message,
            remedy,
        ))
    };
    proxies.into_iter().filter_map(finding).collect()
}

/// Reports that no process of a node proxy runs. Rules of an earlier process stay in the kernel.
fn process_absent(node: ObservedNode<'_>) -> Option<Finding> {
    if node.may_have_other_dataplane() {
        return None;
    }
    let name = node.name();
    let (severity, message) = match node.rule_sets().any()? {
        false => (
            Severity::Error,
            format!("No node proxy runs on Node {name}, and it has no rules for Services"),
        ),
        // Programs can embed a node proxy, so rules show one, unless the proxies of the cluster run in Pods.
        true if !runs_in_pods(node.world) => return None,
        true => (
            Severity::Warning,
            format!("No node proxy runs on Node {name}. Its rules for Services do not follow changes"),
        ),
    };
    let remedy = format!(
        "Start the node proxy, for example as a DaemonSet that tolerates all taints: kubectl get pods -A -o wide --field-selector spec.nodeName={name}"
    );
    Some(node.finding(CODE, severity, "proxies", message, remedy))
}

fn runs_in_pods(world: &World) -> bool {
    let mut pods = world.all(Kind::Pod);
    pods.any(|pod| PROXY_PODS.iter().any(|beginning| pod.name.starts_with(beginning)))
}

/// Reports that the proxy uses the name of another Node, or a name that no Node has. If no Node has the name of the
/// observation, the name of the proxy may be right.
fn wrong_name(node: ObservedNode<'_>, index: usize, proxy: &NodeProxy) -> Option<Finding> {
    let name = node.name();
    let used = proxy.node_name.as_deref().filter(|used| *used != name)?;
    let is_known = node.world.has(Kind::Node);
    if is_known && node.node().is_none() && node.world.node(used).is_some() {
        return None;
    }
    let fault = if is_known && node.world.node(used).is_none() {
        "which is not the name of a Node"
    } else {
        "which is not the name of this Node"
    };
    let message = format!(
        "{} on Node {name} uses the node name {used}, {fault}. It treats no endpoint as local, so traffic policies that are Local drop connections",
        proxy.name
    );
    let remedy = format!(
        "Start {} with --hostname-override={name}. Its log: {}",
        proxy.name,
        node.log_of(&proxy.name)
    );
    let field = format!("proxies[{index}].nodeName");
    Some(node.finding(CODE, Severity::Warning, field, message, remedy))
}

/// Reports a proxy that is not healthy. On a node that is about to leave, that is intended: load balancers use other
/// nodes.
fn process_unhealthy(node: ObservedNode<'_>, index: usize, proxy: &NodeProxy) -> Option<Finding> {
    if proxy.healthy != Some(false) || node.node()?.is_leaving() {
        return None;
    }
    let message = format!(
        "{} on Node {} reports that it is not healthy",
        proxy.name,
        node.name()
    );
    let remedy = format!("Read the log of {}: {}", proxy.name, node.log_of(&proxy.name));
    let field = format!("proxies[{index}].healthy");
    Some(node.finding(CODE, Severity::Warning, field, message, remedy))
}
