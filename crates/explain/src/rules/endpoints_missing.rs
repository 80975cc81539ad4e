//! PTL-0012: the Service has neither a selector nor endpoints.

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Endpoints, Pod, Service, Target};

use super::selector_matches_no_pod::{CONTROL_PLANE, SYSTEM_NAMESPACE};
use super::{service_terminating, slice_without_service};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("endpoints_missing.md"),
    explained_by: &[slice_without_service::CODE, service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(12);
/// Labels that name the application of Pods.
const NAME_LABELS: [&str; 3] = ["app", "app.kubernetes.io/name", "run"];
/// Namespace and name of the Service of the API server.
const API_SERVER: (&str, &str) = ("default", "kubernetes");
/// Ends of the keys of labels with the role of an instance, and values of the role of a leader.
const ROLES: [&str; 2] = ["-role", "/role"];
const LEADERS: [&str; 3] = ["master", "primary", "leader"];
/// Label of Endpoints that the mirroring controller leaves out (EPM-02).
const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    // Endpoints are mirrored to slices, so slices alone show that there are no endpoints; Endpoints alone do not.
    if service.has_selector()
        || service.is_external_name()
        || service.ports().is_empty()
        || is_of_ingress_class(service)
        || is_of_control_plane(service)
        || !are_endpoints_known(subject)
    {
        return Vec::new();
    }
    let has_slice_endpoints = subject
        .slices()
        .iter()
        .any(|slice| slice.endpoints().next().is_some());
    if has_slice_endpoints {
        return Vec::new();
    }
    let endpoints = subject.world.endpoints_of(service);
    if let Some(endpoints) = endpoints.filter(|endpoints| endpoints.addresses().next().is_some()) {
        return unmirrored_endpoints(subject, endpoints).into_iter().collect();
    }
    let state = match (subject.slices().first(), endpoints) {
        (Some(slice), _) => format!("EndpointSlice {} has no endpoint", slice.name),
        (None, Some(endpoints)) => format!("Endpoints {} has no address", endpoints.name),
        (None, None) => match misnamed_endpoints(subject) {
            Some(other) => format!(
                "Endpoints {} has another name than the Service: only Endpoints of the same name count",
                other.name
            ),
            None => "no EndpointSlice or Endpoints names it".to_owned(),
        },
    };
    let message = format!("Service {} has no selector, and {state}", service.name);
    let remedy = remedy(service);
    vec![subject.finding(CODE, Severity::Error, "spec.selector", message, remedy)]
}

/// Reports that the Endpoints have addresses, and a label excludes them from the slices that proxies read.
fn unmirrored_endpoints(subject: &Subject<'_>, endpoints: Endpoints<'_>) -> Option<Finding> {
    let is_excluded = endpoints.label(SKIP_MIRROR_LABEL) == Some("true");
    if !is_excluded || !subject.has(Kind::EndpointSlice) || is_of_api_server(subject.service) {
        return None;
    }
    let message = format!(
        "Service {} has no selector, and Endpoints {} has the label {SKIP_MIRROR_LABEL}: no EndpointSlice has its addresses, and proxies read slices only",
        subject.service.name, endpoints.name
    );
    let remedy = format!("{} {SKIP_MIRROR_LABEL}-", kubectl::command("label", endpoints.0));
    let field = format!("metadata.labels[{SKIP_MIRROR_LABEL}]");
    Some(finding_about(
        endpoints.0,
        CODE,
        Severity::Error,
        field,
        message,
        remedy,
    ))
}

fn remedy(service: Service<'_>) -> String {
    if is_of_api_server(service) {
        return "The API server writes these endpoints: start it with an --advertise-address that Pods reach"
            .to_owned();
    }
    format!(
        "Set a selector: kubectl -n {} set selector service {} 'app={}'. For backends outside of the cluster, create an EndpointSlice with the \
         label kubernetes.io/service-name={}",
        service.namespace, service.name, service.name, service.name
    )
}

/// An input with slices, or with the Endpoints of the Service, shows that endpoints are missing. An input without both
/// kinds shows it if some Pods probably belong to the Service. Such Pods have the name of the Service in a label, or they
/// declare its target port and no Service selects them. An input of Services alone shows it in a manifest, and if it is
/// about this Service.
fn are_endpoints_known(subject: &Subject<'_>) -> bool {
    let world = subject.world;
    let service = subject.service;
    let has_endpoints = || world.endpoints_of(service).is_some() || misnamed_endpoints(subject).is_some();
    if subject.has(Kind::EndpointSlice) || has_endpoints() {
        return true;
    }
    // A controller that owns the Service can write its endpoints.
    if is_of_api_server(service) || service.controller().is_some() || is_of_leader(service) {
        return false;
    }
    let is_meant = |key: &&str| {
        let labels = [(*key, service.0.name.as_str())];
        !world.pods_with(&service.namespace, &labels).is_empty()
    };
    let mut unselected = world.unselected_pods(&service.namespace);
    let has_pods = NAME_LABELS.iter().any(is_meant) || unselected.any(|pod| declares_target(service, pod));
    let is_manifest = service.text("/metadata/uid").is_empty() && service.text("/spec/clusterIP").is_empty();
    let is_single = world.all(Kind::Service).nth(1).is_none();
    let is_alone = world.has_only_kind(Kind::Service) && (subject.is_named || is_single || is_manifest);
    has_pods && !service.is_headless() || is_alone || subject.is_named && subject.has(Kind::Endpoints)
}

/// Returns true if the labels of a Service are those of the leader of a database, which writes the endpoints itself, as
/// Patroni does. The key `role` alone is common.
fn is_of_leader(service: Service<'_>) -> bool {
    let is_role = |key: &str| ROLES.iter().any(|end| key.ends_with(end));
    let mut labels = service.0.labels();
    labels.any(|(key, value)| is_role(key) && LEADERS.contains(&value))
}

/// Returns true if a Pod declares the target of a port of the Service.
fn declares_target(service: Service<'_>, pod: Pod<'_>) -> bool {
    let declared = pod.ports();
    service.ports().iter().any(|port| {
        let mut same_protocol = declared
            .iter()
            .filter(|declared| declared.protocol == port.protocol);
        same_protocol.any(|declared| match port.target {
            Target::Number(number) => declared.number == number,
            Target::Name(name) => declared.name == name,
        })
    })
}

/// Returns Endpoints whose name is that of no Service, with a port of this Service.
fn misnamed_endpoints<'w>(subject: &Subject<'w>) -> Option<Endpoints<'w>> {
    let (world, service) = (subject.world, subject.service);
    let ports = service.ports();
    let has_port = |endpoints: &Endpoints<'w>| {
        endpoints.ports().any(|(.., number)| {
            number.is_some_and(|number| ports.iter().any(|port| port.target == Target::Number(number)))
        })
    };
    let mut unused = world
        .in_namespace(Kind::Endpoints, &service.0.namespace)
        .map(Endpoints)
        .filter(|endpoints| world.service(&endpoints.namespace, &endpoints.name).is_none());
    unused.find(|endpoints| endpoints.addresses().next().is_some() && has_port(endpoints))
}

/// Returns true for a headless Service for a component of the control plane that the cluster does not run as a Pod.
fn is_of_control_plane(service: Service<'_>) -> bool {
    service.is_headless()
        && service.0.namespace == SYSTEM_NAMESPACE
        && CONTROL_PLANE.contains(&service.0.name.as_str())
}

/// Returns true for the Service of an IngressClass: its requests go to the endpoints of other Services.
fn is_of_ingress_class(service: Service<'_>) -> bool {
    service
        .controller()
        .is_some_and(|(kind, _)| kind == "IngressClass")
}

/// Returns true for the Service of the API servers, which write its endpoints themselves.
fn is_of_api_server(service: Service<'_>) -> bool {
    (service.namespace.as_str(), service.name.as_str()) == API_SERVER
}
