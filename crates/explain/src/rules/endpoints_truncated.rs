//! PTL-0015: the Endpoints object does not hold all addresses.

use crate::finding::{Code, Finding, Severity};
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("endpoints_truncated.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(15);
/// Annotation of Endpoints whose addresses do not fit.
const OVER_CAPACITY_ANNOTATION: &str = "endpoints.kubernetes.io/over-capacity";
/// Maximum number of addresses of an Endpoints object, and of a mirrored subset (upstream: `maxCapacity`).
const ADDRESSES_MAX: usize = 1_000;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(endpoints) = subject.world.endpoints_of(subject.service) else {
        return Vec::new();
    };
    let count = endpoints.addresses().count();
    let annotation = endpoints.0.annotation(OVER_CAPACITY_ANNOTATION);
    let (field, state) = match annotation {
        Some(value) => (
            format!("metadata.annotations[{OVER_CAPACITY_ANNOTATION}]"),
            format!(
                "is {value}: it has {count} addresses of at most {ADDRESSES_MAX}, and the others are missing"
            ),
        ),
        None if count > ADDRESSES_MAX => (
            "subsets".to_owned(),
            format!("has {count} addresses; EndpointSlices mirror at most {ADDRESSES_MAX} of a subset"),
        ),
        None if count == ADDRESSES_MAX && endpoints_in_slices(subject) > count => (
            "subsets".to_owned(),
            format!(
                "has {count} addresses, the most that it can have, and the EndpointSlices have {}",
                endpoints_in_slices(subject)
            ),
        ),
        None => return Vec::new(),
    };
    let message = format!("Endpoints {} {state}", endpoints.name);
    let remedy = format!(
        "Let clients read EndpointSlices, which have no such limit: kubectl -n {} get endpointslices -l kubernetes.io/service-name={}",
        endpoints.namespace, endpoints.name
    );
    vec![finding_about(
        endpoints.0,
        CODE,
        Severity::Warning,
        field,
        message,
        remedy,
    )]
}

/// Returns the number of endpoints in the slices of the controller.
fn endpoints_in_slices(subject: &Subject<'_>) -> usize {
    let slices = subject
        .slices()
        .iter()
        .filter(|slice| subject.is_from_selector(**slice));
    slices.map(|slice| slice.endpoints().count()).sum()
}
