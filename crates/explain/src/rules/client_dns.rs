//! PTL-0038: the client's DNS settings do not resolve the name of the Service.

use std::net::IpAddr;

use super::service_terminating;
use crate::facts::probes;
use crate::facts::references::Reference;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::observation::{Outcome, ProbeKind, ProbeSource};
use crate::rule::Rule;
use crate::subject::{Subject, finding_about, workload_of};
use crate::views::Pod;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("client_dns.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(38);
/// Domain of clusters, unless they are configured otherwise.
const CLUSTER_DOMAIN: &str = "cluster.local";

/// Addresses of node-local DNS servers, and of resolvers of the Internet.
const LOCAL_DNS_PREFIX: &str = "169.254.";
const PUBLIC_RESOLVERS: [&str; 8] = [
    "8.8.8.8",
    "8.8.4.4",
    "1.1.1.1",
    "1.0.0.1",
    "9.9.9.9",
    "149.112.112.112",
    "208.67.222.222",
    "208.67.220.220",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let references = subject.world.references_to(subject.service);
    let active = references.filter(|(pod, reference)| pod.is_active() && reference.address.is_none());
    let mut findings: Vec<Finding> = active
        .filter_map(|(pod, reference)| {
            wrong_name(subject, pod, reference).or_else(|| check_pod(subject, pod, reference))
        })
        .collect();
    if findings.is_empty() {
        findings.extend(failed_query(subject));
    }
    findings
}

/// Reports that the query of a Pod for the full name of the Service failed. The name of a headless Service exists only
/// with an endpoint.
fn failed_query(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let observations = subject.world.observations();
    if service.is_external_name() || service.is_headless() && !subject.has_ready_endpoint() {
        return None;
    }
    let name = format!("{}.{}.svc", service.name, service.namespace);
    let mut probes = observations.probes_of(&service.namespace, &service.name);
    let (found, response) = probes.find_map(|found| {
        let (_, probe) = found;
        let is_query = probe.kind == ProbeKind::Dns && probe.target.starts_with(&name);
        let response = match probe.outcome {
            Outcome::Nxdomain => "NXDOMAIN",
            Outcome::Servfail => "SERVFAIL",
            _ => return None,
        };
        let is_of_pod = matches!(probe.from, ProbeSource::Pod(_));
        (is_query && is_of_pod).then_some((found, response))
    })?;
    let message = format!(
        "The query of {} for {} is answered with {response}, although Service {} exists",
        found.1.from, found.1.target, service.name
    );
    let remedy = "Compare the nameservers of the Pod with the cluster IP of the DNS Service, and read the log of the DNS servers: kubectl -n kube-system logs \
                  -l k8s-app=kube-dns";
    let finding = subject.finding(CODE, Severity::Warning, "metadata.name", message, remedy);
    Some(finding.with_evidence(probes::description(found)))
}

/// A final dot, or another domain than that of the cluster, makes a name that only a DNS server outside of the cluster
/// could have.
fn wrong_name(subject: &Subject<'_>, pod: Pod<'_>, reference: &Reference) -> Option<Finding> {
    let host = reference.host();
    let domain = subject.world.cluster_facts().domain();
    let rest = host
        .trim_end_matches('.')
        .split_once(".svc")
        .map(|(_, rest)| rest);
    let is_absolute = host.ends_with('.');
    let fault = match rest {
        None | Some("") if is_absolute => {
            "ends with a dot, so no search domain is appended, and the name is incomplete".to_owned()
        }
        Some(rest) if !rest.is_empty() && rest != format!(".{domain}") => {
            format!(
                "has the domain {}, and the domain of the cluster is {domain}",
                rest.trim_start_matches('.')
            )
        }
        _ => return None,
    };
    let message = format!(
        "The Pod uses the name {host} for Service {}, which {fault}",
        subject.service.name
    );
    let remedy = format!(
        "Use {}.{}.svc in the configuration of the client",
        subject.service.name, subject.service.namespace
    );
    Some(finding_about(
        pod.0,
        CODE,
        Severity::Warning,
        reference.field.clone(),
        message,
        remedy,
    ))
}

/// Returns the nameservers of a Pod if none of them can be a DNS server of the cluster.
fn foreign_nameservers<'w>(subject: &Subject<'_>, pod: Pod<'w>) -> Option<Vec<&'w str>> {
    let nameservers = pod.0.list("/spec/dnsConfig/nameservers").iter();
    let nameservers: Vec<&str> = nameservers.filter_map(|address| address.as_str()).collect();
    let servers = subject.world.cluster_facts().dns_servers();
    let is_foreign = |address: &str| {
        let is_of_cluster = address
            .parse()
            .is_ok_and(|address: IpAddr| is_service(subject, address));
        let is_other = if servers.is_empty() {
            PUBLIC_RESOLVERS.contains(&address)
        } else {
            !is_of_cluster
        };
        is_other && !address.starts_with(LOCAL_DNS_PREFIX)
    };
    let is_all = !nameservers.is_empty() && nameservers.iter().all(|address| is_foreign(address));
    is_all.then_some(nameservers)
}

/// Returns true if an address belongs to a Service, or can belong to one.
fn is_service(subject: &Subject<'_>, address: IpAddr) -> bool {
    let world = subject.world;
    world.services_at(address).next().is_some() || world.cluster_facts().service_range(address).is_some()
}

/// Reports that the DNS settings of a Pod do not resolve the name of a reference.
fn check_pod(subject: &Subject<'_>, pod: Pod<'_>, reference: &Reference) -> Option<Finding> {
    // Nameservers of the Pod can be those of the cluster, whatever the policy is.
    let foreign = foreign_nameservers(subject, pod);
    let has_nameservers = !pod.0.list("/spec/dnsConfig/nameservers").is_empty() && foreign.is_none();
    let is_on_host_network = pod.0.flag("/spec/hostNetwork");
    let policy = pod.0.text("/spec/dnsPolicy");
    let (reason, requested) = match (policy, foreign) {
        ("None", Some(nameservers)) => (
            format!(
                "its dnsPolicy is None with the nameservers {}, which are not those of the cluster",
                nameservers.join(", ")
            ),
            "ClusterFirst",
        ),
        ("Default", _) if !has_nameservers => (
            "its dnsPolicy is Default: it uses the resolvers of the node, which have no names of Services".to_owned(),
            if is_on_host_network { "ClusterFirstWithHostNet" } else { "ClusterFirst" },
        ),
        ("ClusterFirst" | "", _) if is_on_host_network && !has_nameservers => (
            "it uses the network of the node with dnsPolicy ClusterFirst: it uses the resolvers of the node, which do not know names of \
             Services"
                .to_owned(),
            "ClusterFirstWithHostNet",
        ),
        ("None", None) if has_nameservers => (missing_search_domain(subject, pod, reference)?, "ClusterFirst"),
        _ => return name_with_few_dots(subject, pod, reference),
    };
    let message = format!(
        "The Pod uses the name of Service {} ({}), but {reason}",
        subject.service.name, reference.text
    );
    let (kind, name) = workload_of(pod);
    let remedy = format!(
        "Set dnsPolicy: {requested} in {}: {}",
        if kind == "Pod" {
            "a new Pod".to_owned()
        } else {
            format!("the template of {kind} {name}")
        },
        kubectl::command("get -o yaml", pod.0)
    );
    Some(finding_about(
        pod.0,
        CODE,
        Severity::Warning,
        "spec.dnsPolicy",
        message,
        remedy,
    ))
}

/// A name with at least `ndots` dots is tried as it is. Some resolvers (musl) then use no search domain.
fn name_with_few_dots(subject: &Subject<'_>, pod: Pod<'_>, reference: &Reference) -> Option<Finding> {
    let mut options = pod.0.list("/spec/dnsConfig/options").iter();
    let option = options.find(|option| option["name"] == "ndots")?;
    let ndots: usize = option["value"].as_str()?.parse().ok()?;
    let host = reference.host();
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
    Some(finding_about(
        pod.0,
        CODE,
        Severity::Warning,
        "spec.dnsConfig.options",
        message,
        remedy,
    ))
}

/// A short name needs a search domain of the namespace.
fn missing_search_domain(subject: &Subject<'_>, pod: Pod<'_>, reference: &Reference) -> Option<String> {
    let mut searches = pod
        .0
        .list("/spec/dnsConfig/searches")
        .iter()
        .filter_map(|search| search.as_str());
    let host = reference.host();
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
