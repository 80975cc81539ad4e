//! PTL-0038.

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::references::Reference;
use crate::rule::Rule;
use crate::subject::{Subject, about, workload_of};
use crate::views::Pod;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("client_dns.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(38);
/// Domain of clusters, unless they are configured otherwise.
const CLUSTER_DOMAIN: &str = "cluster.local";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let references = subject.world.references_to(subject.service);
    let active = references.filter(|(pod, _)| pod.is_active());
    active
        .filter_map(|(pod, reference)| check_pod(subject, pod, reference))
        .collect()
}

fn check_pod(subject: &Subject<'_>, pod: Pod<'_>, reference: &Reference) -> Option<Finding> {
    // Nameservers of the Pod can be those of the cluster, whatever the policy is.
    let has_nameservers = !pod.0.list("/spec/dnsConfig/nameservers").is_empty();
    let is_on_host_network = pod.0.flag("/spec/hostNetwork");
    let policy = pod.0.text("/spec/dnsPolicy");
    let (reason, wanted) = match policy {
        "Default" if !has_nameservers => (
            "its dnsPolicy is Default: it uses the resolvers of the node, which do not know names of Services".to_owned(),
            if is_on_host_network { "ClusterFirstWithHostNet" } else { "ClusterFirst" },
        ),
        "ClusterFirst" if is_on_host_network && !has_nameservers => (
            "it uses the network of the node with dnsPolicy ClusterFirst: it uses the resolvers of the node, which do not know names of \
             Services"
                .to_owned(),
            "ClusterFirstWithHostNet",
        ),
        "None" if has_nameservers => (missing_search(subject, pod, reference)?, "ClusterFirst"),
        _ => return few_dots(subject, pod, reference),
    };
    let message = format!(
        "The Pod uses the name of Service {} ({}), but {reason}",
        subject.service.name, reference.text
    );
    let (kind, name) = workload_of(pod);
    let remedy = format!(
        "Set dnsPolicy: {wanted} in {}: {}",
        if kind == "Pod" {
            "a new Pod".to_owned()
        } else {
            format!("the template of {kind} {name}")
        },
        kubectl::command("get -o yaml", pod.0)
    );
    Some(about(
        pod.0,
        CODE,
        Severity::Warning,
        "spec.dnsPolicy",
        message,
        remedy,
    ))
}

/// A name with at least `ndots` dots is tried as it is. Some resolvers (musl) then use no search domain.
fn few_dots(subject: &Subject<'_>, pod: Pod<'_>, reference: &Reference) -> Option<Finding> {
    let mut options = pod.0.list("/spec/dnsConfig/options").iter();
    let option = options.find(|option| option["name"] == "ndots")?;
    let ndots: usize = option["value"].as_str()?.parse().ok()?;
    let host = reference.text.rsplit("://").next()?.split([':', '/']).next()?;
    let dots = host.matches('.').count();
    let is_complete = host.ends_with('.') || host.ends_with(CLUSTER_DOMAIN);
    if dots < ndots || is_complete {
        return None;
    }
    let message = format!(
        "The Pod uses the name of Service {} ({}) with ndots {ndots}: the name has {dots} dots, so it is tried without search domains first, and \
         some resolvers do not try them at all",
        subject.service.name, reference.text
    );
    let remedy = format!(
        "Use {}.{}.svc.{CLUSTER_DOMAIN}. with the final dot, or ndots {} in the template of the Pod",
        subject.service.name,
        subject.service.namespace,
        dots + 1
    );
    Some(about(
        pod.0,
        CODE,
        Severity::Warning,
        "spec.dnsConfig.options",
        message,
        remedy,
    ))
}

/// A short name needs a search domain of the namespace.
fn missing_search(subject: &Subject<'_>, pod: Pod<'_>, reference: &Reference) -> Option<String> {
    let mut searches = pod
        .0
        .list("/spec/dnsConfig/searches")
        .iter()
        .filter_map(|search| search.as_str());
    let host = reference.text.rsplit("://").next()?.split([':', '/']).next()?;
    let own = format!("{}.svc.", pod.0.namespace);
    let has_search = match host.split('.').count() {
        1 => searches.any(|search| search.starts_with(&own)),
        2 => searches.any(|search| search.starts_with("svc.")),
        _ => true,
    };
    (!has_search).then(|| {
        format!(
            "its dnsPolicy is None without a search domain for {host}: only {}.{}.svc and the domain of the cluster resolves",
            subject.service.name, subject.service.namespace
        )
    })
}
