//! PTL-0012.

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::rule::Rule;
use crate::subject::Subject;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("endpoints_missing.md"),
    explained_by: &[Code(13), Code(21)],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(12);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    // Endpoints are mirrored to slices, so slices alone show that there are no endpoints; Endpoints alone do not.
    if service.has_selector() || service.is_external_name() || !subject.has(Kind::EndpointSlice) {
        return Vec::new();
    }
    let has_slice_endpoints = subject
        .slices()
        .iter()
        .any(|slice| slice.endpoints().next().is_some());
    let endpoints = subject.world.endpoints_of(service);
    let has_addresses = endpoints.is_some_and(|endpoints| endpoints.addresses().next().is_some());
    if has_slice_endpoints || has_addresses {
        return Vec::new();
    }
    let state = match (subject.slices().first(), endpoints) {
        (Some(slice), _) => format!("EndpointSlice {} has no endpoint", slice.name),
        (None, Some(endpoints)) => format!("Endpoints {} has no address", endpoints.name),
        (None, None) => "no EndpointSlice or Endpoints names it".to_owned(),
    };
    let message = format!("Service {} has no selector, and {state}", service.name);
    let remedy = format!(
        "Set a selector: kubectl -n {} set selector service {} 'app={}'. For backends outside of the cluster, create an EndpointSlice with the \
         label kubernetes.io/service-name={}",
        service.namespace, service.name, service.name, service.name
    );
    vec![subject.finding(CODE, Severity::Error, "spec.selector", message, remedy)]
}
