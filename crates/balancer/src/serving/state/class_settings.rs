//! Settings of a class that depend on its plan and on single objects only: listeners, policies, names, and the texts of
//! Events. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::object::{ObjectKey, Protocol, Service, ServiceBackendPort, ServicePort};
use edge::settings::{
    BackendProtocol, Certificate, Frontend, Listener, Policy, ServiceName, Stickiness, Tls,
};

use super::ServedService;
use crate::ingress::class_plan::{ClassPlan, HostPlan, Problem};
use crate::ingress::class_service::{HTTP_PORT, HTTPS_PORT};

/// Frontend of HTTP without a redirect.
pub(super) const HTTP: Frontend = Frontend::Http {
    redirects_to_https: None,
};

/// Returns the listeners of a class: HTTP, and HTTPS if there is a certificate.
pub(super) fn listeners(
    served: &ServedService,
    plan: &ClassPlan,
    certificates: &BTreeMap<String, Arc<Certificate>>,
) -> Vec<Listener> {
    let listener = |name: &str, port, frontend| Listener {
        name: name.into(),
        port,
        frontend,
        backend_protocol: BackendProtocol::Http,
        backends: Vec::new(),
    };
    let mut listeners = vec![listener("http", HTTP_PORT, HTTP)];
    if certificates.is_empty() {
        return listeners;
    }
    let by_source: BTreeMap<&Arc<str>, &Arc<Certificate>> = certificates
        .values()
        .map(|certificate| (&certificate.source, certificate))
        .collect();
    let hosts_with_certificate = certificates
        .iter()
        .map(|(host, certificate)| (host.as_str().into(), Some(Arc::clone(&certificate.source))));
    let hosts_without_certificate = plan.hosts.iter().filter(|(host, host_plan)| {
        !certificates.contains_key(*host) && is_below_foreign_wildcard(plan, host, host_plan)
    });
    let hosts_without_certificate = hosts_without_certificate.map(|(host, _)| (host.as_str().into(), None));
    let tls = Tls {
        certificates: by_source.into_values().cloned().collect(),
        policy: served.spec.tls_policy,
        alpn: served.spec.alpn,
        hosts: Some(hosts_with_certificate.chain(hosts_without_certificate).collect()),
    };
    listeners.push(listener("https", HTTPS_PORT, Frontend::Https(tls)));
    listeners
}

/// Returns true if a wildcard of another namespace covers the host. Its certificate is not for this host.
fn is_below_foreign_wildcard(plan: &ClassPlan, host: &str, host_plan: &HostPlan) -> bool {
    let wildcard = host
        .split_once('.')
        .and_then(|(_, parent)| plan.hosts.get(&format!("*.{parent}")));
    wildcard.is_some_and(|wildcard| wildcard.namespace != host_plan.namespace)
}

/// Returns the policy towards the backends of a Service: that of the class, with the session affinity of the Service.
/// Several Services may share a host, so each has a cookie of its own.
pub(super) fn target_policy(class: &Policy, service: &Service) -> Policy {
    let mut policy = Policy {
        source_ranges: Vec::new(),
        proxy_protocol_from: Vec::new(),
        ..class.clone()
    };
    if let Stickiness::Cookie { name, .. } = &mut policy.stickiness {
        *name = format!("{name}-{}", service.metadata.name).into();
    }
    if let (Stickiness::None, Some(seconds)) = (&policy.stickiness, service.spec.affinity_timeout_seconds()) {
        policy.stickiness = Stickiness::Source {
            timeout: Duration::from_secs(seconds.into()),
        };
    }
    policy
}

/// Returns the name of the Service of a class in the settings.
pub(super) fn service_name(class: &ObjectKey) -> ServiceName {
    ServiceName {
        namespace: Arc::clone(&class.namespace),
        name: Arc::clone(&class.name),
    }
}

/// Returns the name of a Service in the settings as a target of a class. No Service has such a name.
pub(super) fn target_name(class: &ObjectKey, service: &ObjectKey) -> ServiceName {
    ServiceName {
        namespace: Arc::clone(&service.namespace),
        name: format!("{}@{}", service.name, class.name).into(),
    }
}

/// Returns the TCP port of a Service that a backend names.
pub(super) fn find_port<'s>(service: &'s Service, port: &ServiceBackendPort) -> Option<&'s ServicePort> {
    let ports = service.spec.ports.iter();
    let mut tcp_ports = ports.filter(|candidate| candidate.protocol == Protocol::Tcp);
    tcp_ports.find(|candidate| {
        if port.name.is_empty() {
            candidate.port == port.number
        } else {
            candidate.name == port.name
        }
    })
}

/// Returns reason and message of the Event about a problem.
pub(super) fn describe_problem(problem: &Problem) -> (&'static str, String) {
    match problem {
        Problem::HostConflict(host) => {
            let shown = if host.is_empty() {
                "\"\" (any host)"
            } else {
                host.as_str()
            };
            let message = format!(
                "host {shown} belongs to another namespace; the rules of this Ingress for it are not served"
            );
            ("HostConflict", message)
        }
        Problem::TooManyRoutes(host) => {
            let message =
                format!("host {host:?}: expected at most 1,000 paths, found more; the others are not served");
            ("TooManyPaths", message)
        }
        Problem::TooManySecrets => {
            let message = "the Ingresses of the namespace name more than 1,000 Secrets; further hosts are served \
                           without TLS";
            ("TooManySecrets", message.to_owned())
        }
        Problem::ResourceBackend => {
            let message = "a backend of kind resource is not served; its requests get status 503".to_owned();
            ("BackendNotServed", message)
        }
    }
}
