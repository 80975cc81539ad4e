//! PTL-0032: a NetworkPolicy denies the connections.

use super::{selector_matches_no_pod, selector_matches_other_app, service_terminating};
use crate::facts::references::Reference;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::object::Object;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Direction, NetworkPolicy, Pod, PolicyRule, Port};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("network_policy.md"),
    explained_by: &[
        selector_matches_no_pod::CODE,
        selector_matches_other_app::CODE,
        service_terminating::CODE,
    ],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(32);
/// DaemonSet of a network plugin that does not enforce policies by itself.
const WITHOUT_POLICIES: &str = "flannel";
/// Namespaces of network plugins.
const PLUGIN_NAMESPACES: [&str; 7] = [
    "kube-system",
    "kube-flannel",
    "calico-system",
    "cilium",
    "antrea-system",
    "weave",
    "ovn-kubernetes",
];
/// Parts of the names of DaemonSets that enforce policies.
const WITH_POLICIES: [&str; 8] = [
    "calico",
    "canal",
    "cilium",
    "antrea",
    "kube-router",
    "weave",
    "ovn",
    "network-polic",
];
/// Namespace and label of the DNS servers of a cluster.
const DNS_PODS: (&str, (&str, &str)) = ("kube-system", ("k8s-app", "kube-dns"));
/// Port of DNS.
const DNS_PORT: u16 = 53;
/// Parts of the names of ports that serve no users of the application.
const SIDE_PORTS: [&str; 5] = ["metrics", "prom", "health", "probe", "debug"];
/// Namespaces and labels of the Pods of Ingress controllers. The value of the label contains the usual name of their
/// class.
const CONTROLLERS: [(&str, (&str, &str)); 4] = [
    ("ingress-nginx", ("app.kubernetes.io/name", "ingress-nginx")),
    ("traefik", ("app.kubernetes.io/name", "traefik")),
    ("kube-system", ("app.kubernetes.io/name", "traefik")),
    ("kong", ("app.kubernetes.io/name", "kong")),
];
/// Annotation with the class of an Ingress, before the field existed.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Maximum number of examined clients of a Service, which bounds the time of an examination.
const CLIENTS_MAX: usize = 256;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let is_known = [Kind::NetworkPolicy, Kind::Pod]
        .into_iter()
        .all(|kind| subject.has(kind));
    if !is_known || !is_enforced(subject) {
        return Vec::new();
    }
    let pods: Vec<Pod<'_>> = subject.active().filter(|pod| is_restrictable(*pod)).collect();
    if let Some(finding) = closed_to_all(subject, &pods) {
        return vec![finding];
    }
    if let Some(finding) =
        policies_without_clients(subject, &pods).or_else(|| policies_without_outside(subject, &pods))
    {
        return vec![finding];
    }
    let references = subject.world.references_to(subject.service).take(CLIENTS_MAX);
    let clients = references.filter(|(pod, _)| pod.is_active() && is_restrictable(*pod));
    let mut findings: Vec<Finding> = Vec::new();
    for (client, reference) in clients {
        let finding = dns_refused(subject, client, reference)
            .or_else(|| egress_refused(subject, &pods, client, reference))
            .or_else(|| ingress_refused(subject, &pods, client, reference));
        findings.extend(finding);
    }
    if findings.is_empty() {
        findings.extend(ingress_controller_refused(subject, &pods));
    }
    findings
}

/// Policies have no effect with a network plugin that ignores them. Its DaemonSet shows the plugin, or a Pod of it;
/// without both, policies count.
fn is_enforced(subject: &Subject<'_>) -> bool {
    let world = subject.world;
    let is_plugin = |names: &[&str]| {
        let has_part = |name: &str| names.iter().any(|part| name.contains(part));
        let mut sets = world.all(Kind::DaemonSet);
        let mut pods = PLUGIN_NAMESPACES
            .iter()
            .flat_map(|namespace| world.in_namespace(Kind::Pod, namespace));
        sets.any(|set| has_part(&set.name))
            || pods.any(|pod| {
                pod.controller()
                    .is_some_and(|(kind, name)| kind == Kind::DaemonSet.name() && has_part(name))
            })
    };
    !is_plugin(&[WITHOUT_POLICIES]) || is_plugin(&WITH_POLICIES)
}

/// Policies have no defined effect on Pods in the network of their node.
fn is_restrictable(pod: Pod<'_>) -> bool {
    !pod.0.flag("/spec/hostNetwork")
}

/// Returns the policies that restrict a Pod in a direction.
fn policies<'w>(subject: &Subject<'w>, pod: Pod<'_>, direction: Direction) -> Vec<NetworkPolicy<'w>> {
    let all = subject
        .world
        .in_namespace(Kind::NetworkPolicy, &pod.0.namespace)
        .map(NetworkPolicy);
    all.filter(|policy| policy.restricts(direction) && policy.selects(pod))
        .collect()
}

/// Returns true if no policy restricts the Pod, or if a rule permits the connection.
fn is_permitted(
    policies: &[NetworkPolicy<'_>],
    direction: Direction,
    permits: impl Fn(PolicyRule<'_>) -> bool,
) -> bool {
    policies.is_empty()
        || policies
            .iter()
            .any(|policy| policy.rules(direction).any(&permits))
}

/// Returns true if a rule permits any client the port of a Pod. A target port that the containers do not declare is
/// wrong itself if a rule permits one that they declare. PTL-0006 and PTL-0010 report it.
fn is_open(port: &Port<'_>, pod: Pod<'_>, policies: &[NetworkPolicy<'_>]) -> bool {
    let Some(number) = pod.resolve(port.target, port.protocol) else {
        return true;
    };
    let is_listed = |number: u16, protocol: &str| {
        is_permitted(policies, Direction::Ingress, |rule| {
            rule.permits_port(number, protocol, pod)
        })
    };
    let declared = pod.ports();
    let is_declared = declared
        .iter()
        .any(|other| other.number == number && other.protocol == port.protocol);
    let is_other_listed = || {
        declared
            .iter()
            .any(|other| is_listed(other.number, other.protocol))
    };
    is_listed(number, port.protocol) || !is_declared && is_other_listed()
}

/// Reports that no rule permits any port of the Service to any client.
fn closed_to_all(subject: &Subject<'_>, pods: &[Pod<'_>]) -> Option<Finding> {
    let service = subject.service;
    let ports = service.ports();
    let restricting: Vec<Vec<NetworkPolicy<'_>>> = pods
        .iter()
        .map(|pod| policies(subject, *pod, Direction::Ingress))
        .collect();
    let with_policies = || pods.iter().zip(&restricting);
    let closed: Vec<&Port<'_>> = ports
        .iter()
        .filter(|port| with_policies().all(|(pod, policies)| !is_open(port, *pod, policies)))
        .collect();
    let (pod, policies) = with_policies().next()?;
    // A port can be closed on purpose while the others are used, such as one for metrics.
    let is_side_port = |name: &str| SIDE_PORTS.iter().any(|part| name.contains(part));
    let are_all_closed = closed.len() == ports.len();
    let mut reported = closed
        .iter()
        .filter(|port| are_all_closed || subject.is_named && !is_side_port(port.name));
    let port = **reported.next()?;
    let policy = *policies.first()?;
    let number = pod.resolve(port.target, port.protocol)?;
    let severity = if are_all_closed {
        Severity::Error
    } else {
        Severity::Info
    };
    let (policy, detail) =
        wrong_port(policies, port, number, *pod).unwrap_or_else(|| (policy, String::new()));
    let message = format!(
        "NetworkPolicy {} selects the Pods of Service {}, and no rule permits their port {number}/{}{detail}",
        policy.name, service.name, port.protocol
    );
    let rule = serde_json::json!({"ports": [{"protocol": port.protocol, "port": number}]});
    let remedy = format!(
        "Add a rule with the port, and with the clients under from: {}",
        if policy.list("/spec/ingress").is_empty() {
            kubectl::add(policy.0, "/spec/ingress", serde_json::json!([rule]))
        } else {
            kubectl::add(policy.0, "/spec/ingress/-", rule)
        }
    );
    let finding = finding_about(policy.0, CODE, severity, "spec.ingress", message, remedy);
    Some(finding.with_evidence(format!(
        "Pod {} is selected by {} policies with the type Ingress",
        pod.name,
        policies.len()
    )))
}

/// Returns the policy that permits a wrong port, and a sentence about it. Such a port is the port of the Service in
/// place of the Pod's port `number`, or a name that the containers do not declare.
fn wrong_port<'w>(
    policies: &[NetworkPolicy<'w>],
    port: Port<'_>,
    number: u16,
    pod: Pod<'_>,
) -> Option<(NetworkPolicy<'w>, String)> {
    let confused = policies.iter().find(|policy| {
        port.number != number && policy.rules(Direction::Ingress).any(|rule| rule.lists_port(port))
    });
    if let Some(policy) = confused {
        let sentence = format!(
            ". It permits port {}, but policies apply to the port of the Pod",
            port.number
        );
        return Some((*policy, sentence));
    }
    let (policy, name) = policies.iter().find_map(|policy| {
        let mut rules = policy.rules(Direction::Ingress);
        Some((policy, rules.find_map(|rule| rule.undeclared_name(pod))?))
    })?;
    let sentence = format!(". It permits the port {name:?}, but the containers declare no port of this name");
    Some((*policy, sentence))
}

/// Reports that all rules for the Pods permit Pods by labels that no Pod or namespace has.
fn policies_without_clients(subject: &Subject<'_>, pods: &[Pod<'_>]) -> Option<Finding> {
    let world = subject.world;
    let pod = *pods.first()?;
    let pod_policies = policies(subject, pod, Direction::Ingress);
    let policy = *pod_policies.first()?;
    let rules: Vec<PolicyRule<'_>> = pod_policies
        .iter()
        .flat_map(|policy| policy.rules(Direction::Ingress))
        .collect();
    let mut neighbours = world
        .in_namespace(Kind::Pod, &pod.0.namespace)
        .map(Pod)
        .filter(|other| other.is_active());
    // A single Namespace can be the only one of several in the input.
    let namespaces: Vec<&Object> = world.all(Kind::Namespace).collect();
    let is_judged = |rule: &PolicyRule<'_>| {
        let permits_other = |namespace: &&Object| {
            namespace.name != pod.0.namespace && rule.permits_namespace(&namespace.name, Some(namespace))
        };
        let excludes_others = namespaces.len() > 1 && !namespaces.iter().any(permits_other);
        rule.permits_only_neighbours() || !rule.permits_others() && excludes_others
    };
    let own = world.object(Kind::Namespace, "", &pod.0.namespace);
    let is_unused = !rules.is_empty()
        && rules.iter().all(is_judged)
        && !neighbours.any(|other| rules.iter().any(|rule| rule.permits_pod(other, own)));
    let message = format!(
        "NetworkPolicy {} selects the Pods of Service {}, and no Pod or namespace has the labels that its rules permit",
        policy.name, subject.service.name
    );
    let remedy = format!(
        "Compare the rules with the labels of the clients: {}",
        kubectl::command("edit", policy.0)
    );
    is_unused.then(|| finding_about(policy.0, CODE, Severity::Warning, "spec.ingress", message, remedy))
}

/// Reports that all rules for the Pods behind a load balancer permit Pods of their own namespace only. A load balancer
/// with a class can consist of Pods.
fn policies_without_outside(subject: &Subject<'_>, pods: &[Pod<'_>]) -> Option<Finding> {
    let service = subject.service;
    let addresses = service.list("/status/loadBalancer/ingress");
    let has_class = !service.text("/spec/loadBalancerClass").is_empty();
    if service.kind() != "LoadBalancer" || addresses.is_empty() || has_class {
        return None;
    }
    let is_closed = |pod: &Pod<'_>| {
        let policies = policies(subject, *pod, Direction::Ingress);
        let mut rules = policies
            .iter()
            .flat_map(|policy| policy.rules(Direction::Ingress));
        !policies.is_empty() && rules.all(PolicyRule::permits_only_neighbours)
    };
    let policy = *policies(subject, *pods.first()?, Direction::Ingress).first()?;
    let message = format!(
        "NetworkPolicy {} selects the Pods of Service {}, and all rules permit Pods of namespace {} only: clients of the load balancer are excluded",
        policy.name, service.name, service.namespace
    );
    let remedy = format!(
        "Add the addresses of the clients as an ipBlock to a rule: {}",
        kubectl::command("edit", policy.0)
    );
    pods.iter()
        .all(is_closed)
        .then(|| finding_about(policy.0, CODE, Severity::Warning, "spec.ingress", message, remedy))
}

/// Returns the ports of the Service that a reference means.
fn ports_of<'w>(subject: &Subject<'w>, reference: &Reference) -> Vec<Port<'w>> {
    let mut ports = subject.service.ports();
    ports.retain(|port| reference.port.is_none_or(|number| port.number == number));
    ports
}

/// Returns the first of several ports if all of them are closed for all Pods.
fn closed_port<'w>(
    ports: &[Port<'w>],
    pods: &[Pod<'_>],
    permits: impl Fn(Pod<'_>, u16, &str) -> bool,
) -> Option<(Port<'w>, u16)> {
    let is_closed = |port: &Port<'_>, pod: &Pod<'_>| {
        let number = pod.resolve(port.target, port.protocol);
        number.is_some_and(|number| !permits(*pod, number, port.protocol))
    };
    let first = *ports.first()?;
    // A reference without a port means one of several.
    let is_closed_for_all = ports
        .iter()
        .all(|port| pods.iter().all(|pod| is_closed(port, pod)));
    let number = pods.first()?.resolve(first.target, first.protocol)?;
    is_closed_for_all.then_some((first, number))
}

/// Reports that no rule for the Pods permits the client.
fn ingress_refused(
    subject: &Subject<'_>,
    pods: &[Pod<'_>],
    client: Pod<'_>,
    reference: &Reference,
) -> Option<Finding> {
    let use_of_service = format!("which uses {}", reference.text);
    let added = format!(
        "the labels of the client, and of its namespace {},",
        client.namespace
    );
    excluded_client(
        subject,
        pods,
        client,
        &ports_of(subject, reference),
        &use_of_service,
        &added,
    )
}

/// Reports that no ingress rule for the Pods permits a client at any of the ports. `use_of_service` is the use that the
/// client makes of the Service, and `added` the part that a rule lacks.
fn excluded_client(
    subject: &Subject<'_>,
    pods: &[Pod<'_>],
    client: Pod<'_>,
    ports: &[Port<'_>],
    use_of_service: &str,
    added: &str,
) -> Option<Finding> {
    let namespace = subject.world.object(Kind::Namespace, "", &client.0.namespace);
    let permits = |pod: Pod<'_>, number: u16, protocol: &str| {
        let policies = policies(subject, pod, Direction::Ingress);
        is_permitted(&policies, Direction::Ingress, |rule| {
            rule.permits_port(number, protocol, pod) && rule.permits_pod(client, namespace)
        })
    };
    let (port, number) = closed_port(ports, pods, permits)?;
    let policy = *policies(subject, *pods.first()?, Direction::Ingress).first()?;
    let message = format!(
        "No ingress rule for the Pods of Service {} permits Pod {}/{} at port {number}/{}, {use_of_service}",
        subject.service.name, client.namespace, client.name, port.protocol
    );
    let remedy = format!("Add {added} to a rule: {}", kubectl::command("edit", policy.0));
    Some(finding_about(
        policy.0,
        CODE,
        Severity::Warning,
        "spec.ingress",
        message,
        remedy,
    ))
}

/// Reports that no rule for the Pods permits the controller of an Ingress that leads to the Service.
fn ingress_controller_refused(subject: &Subject<'_>, pods: &[Pod<'_>]) -> Option<Finding> {
    let world = subject.world;
    let ingress = world.ingresses_of(subject.service).next()?;
    let class = match ingress.0.text("/spec/ingressClassName") {
        "" => ingress.0.annotation(CLASS_ANNOTATION).unwrap_or_default(),
        class => class,
    };
    let class_controllers = CONTROLLERS.iter().filter(|(_, (_, value))| value.contains(class));
    let mut clients = class_controllers
        .flat_map(|(namespace, label)| world.pods_with(namespace, &[*label]))
        .filter(|pod| pod.is_active() && is_restrictable(*pod));
    let client = clients.next()?;
    let use_of_service = format!("the controller of Ingress {}", ingress.name);
    let added = format!("the namespace {}", client.namespace);
    excluded_client(
        subject,
        pods,
        client,
        &subject.service.ports(),
        &use_of_service,
        &added,
    )
}

/// Reports that the client has egress policies, and none permits the Pods of the Service.
fn egress_refused(
    subject: &Subject<'_>,
    pods: &[Pod<'_>],
    client: Pod<'_>,
    reference: &Reference,
) -> Option<Finding> {
    let service = subject.service;
    let client_policies = policies(subject, client, Direction::Egress);
    let namespace = subject.world.object(Kind::Namespace, "", &service.namespace);
    let cluster_ips = service.cluster_ips();
    let permits = |pod: Pod<'_>, number: u16, protocol: &str| {
        is_permitted(&client_policies, Direction::Egress, |rule| {
            // Some network plugins compare the address before the proxy has changed it.
            let is_by_cluster_ip = cluster_ips.iter().any(|address| rule.has_range_with(*address));
            is_by_cluster_ip || rule.permits_port(number, protocol, pod) && rule.permits_pod(pod, namespace)
        })
    };
    let (port, number) = closed_port(&ports_of(subject, reference), pods, permits)?;
    let policy = *client_policies.first()?;
    let message = format!(
        "NetworkPolicy {} restricts Pod {}/{}, and no egress rule permits port {number}/{} of the Pods of Service {}, which the Pod uses ({})",
        policy.name, client.namespace, client.name, port.protocol, service.name, reference.text
    );
    let remedy = format!(
        "Add the labels of the Pods and port {number} to a rule: {}",
        kubectl::command("edit", policy.0)
    );
    Some(finding_about(
        policy.0,
        CODE,
        Severity::Warning,
        "spec.egress",
        message,
        remedy,
    ))
}

/// Reports that the client has egress policies, and none permits DNS.
fn dns_refused(subject: &Subject<'_>, client: Pod<'_>, reference: &Reference) -> Option<Finding> {
    let client_policies = policies(subject, client, Direction::Egress);
    let (namespace, label) = DNS_PODS;
    let servers = subject.world.pods_with(namespace, &[label]);
    let servers_namespace = subject.world.object(Kind::Namespace, "", namespace);
    let permits = |rule: PolicyRule<'_>| {
        // Without the servers in the input, any rule for the port and the namespace counts.
        let is_permitted = servers.is_empty()
            && rule.permits_port(DNS_PORT, "UDP", client)
            && rule.permits_namespace(namespace, servers_namespace);
        is_permitted
            || rule.permits_others() && rule.permits_port(DNS_PORT, "UDP", client)
            || servers.iter().any(|server| {
                let mut ports = server
                    .ports()
                    .into_iter()
                    .filter(|port| port.protocol == "UDP")
                    .map(|port| port.number);
                let is_port = rule.permits_port(DNS_PORT, "UDP", *server)
                    || ports.any(|number| rule.permits_port(number, "UDP", *server));
                is_port && rule.permits_pod(*server, servers_namespace)
            })
    };
    if is_permitted(&client_policies, Direction::Egress, permits) {
        return None;
    }
    let policy = *client_policies.first()?;
    let message = format!(
        "NetworkPolicy {} restricts Pod {}/{}, and no egress rule permits DNS (port 53/UDP). The Pod cannot resolve {}",
        policy.name, client.namespace, client.name, reference.text
    );
    let rule = serde_json::json!({
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}],
        "ports": [{"protocol": "UDP", "port": DNS_PORT}, {"protocol": "TCP", "port": DNS_PORT}]
    });
    let remedy = if policy.list("/spec/egress").is_empty() {
        kubectl::add(policy.0, "/spec/egress", serde_json::json!([rule]))
    } else {
        kubectl::add(policy.0, "/spec/egress/-", rule)
    };
    Some(finding_about(
        policy.0,
        CODE,
        Severity::Warning,
        "spec.egress",
        message,
        remedy,
    ))
}
