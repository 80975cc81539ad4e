//! The table of annotations, one module per provider.

mod alibaba;
mod aws;
mod azure;
mod baidu;
mod digital_ocean;
mod google;
mod hetzner;
mod ibm;
mod kube_router;
mod metallb;
mod openstack;
mod oracle;
mod portolan;
mod shared_rows;
mod tencent;

use api::object::Labels;
use api::selector::LabelSelector;
use ipnet::IpNet;

use super::row::{Annotation, ApplyError, Effect, Remedy, Row};
use super::value;
use super::values::AnnotationValues;

/// Project or cloud that defines annotations.
pub(super) struct Provider {
    /// Display name.
    pub name: &'static str,
    /// Prefixes of the names of its load balancer annotations.
    pub prefixes: &'static [&'static str],
    /// Annotations of the table.
    pub rows: &'static [Row],
}

/// All providers, in the order of the documentation.
pub(super) static ALL: [Provider; 14] = [
    portolan::PROVIDER,
    metallb::PROVIDER,
    kube_router::PROVIDER,
    aws::PROVIDER,
    google::PROVIDER,
    azure::PROVIDER,
    ibm::PROVIDER,
    openstack::PROVIDER,
    baidu::PROVIDER,
    tencent::PROVIDER,
    alibaba::PROVIDER,
    oracle::PROVIDER,
    digital_ocean::PROVIDER,
    hetzner::PROVIDER,
];

/// Returns true if the name has the prefix of a load balancer annotation.
pub(super) fn has_known_prefix(name: &str) -> bool {
    let mut prefixes = ALL.iter().flat_map(|provider| provider.prefixes);
    prefixes.any(|prefix| name.starts_with(prefix))
}

/// Substrings of the names of annotations that restrict clients.
const RESTRICTING_PARTS: [&str; 14] = [
    "source-range",
    "ip-range",
    "allow-rule",
    "allow-list",
    "allowlist",
    "whitelist",
    "allowed-",
    "deny",
    "denied",
    "blacklist",
    "block-list",
    "blocklist",
    "security-group",
    "acl-",
];

/// Returns the remedy for an annotation that the table lacks and whose name suggests that it restricts clients.
pub(super) fn restriction_by_name(name: &str) -> Option<Remedy> {
    let name = name.to_ascii_lowercase();
    if !RESTRICTING_PARTS.iter().any(|part| name.contains(part)) {
        return None;
    }
    let denies = ["deny", "denied", "black", "block", "acl"]
        .iter()
        .any(|part| name.contains(part));
    Some(if denies { Remedy::Removal } else { Remedy::Ranges })
}

/// Annotations that another annotation disables in their cloud: the annotation, the switch, and the value
/// that disables.
const SWITCHES: [(&str, &str, &str); 1] = [alibaba::ACCESS_LIST_SWITCH];

/// Returns true if another annotation disables this one.
pub(super) fn is_disabled_by_other(name: &str, annotations: &Labels) -> bool {
    SWITCHES.iter().any(|(of, switch, off)| {
        let value = annotations.get(*switch).map(|value| value.trim());
        *of == name && value.is_some_and(|value| value.eq_ignore_ascii_case(off))
    })
}

/// Adds ranges of clients that may connect. The field of the Service takes precedence.
fn source_ranges(
    values: &mut AnnotationValues,
    annotation: &'static str,
    ranges: Vec<IpNet>,
) -> Result<Effect, ApplyError> {
    if values.clients.has_ranges_in_spec || ranges.is_empty() {
        return Ok(Effect::Unchanged);
    }
    values.clients.ranges_source.get_or_insert(annotation);
    values.clients.source_ranges.extend(ranges);
    Ok(Effect::Changed)
}

/// Sets the host name of the status (LBC-11).
fn hostname(values: &mut AnnotationValues, annotation: Annotation<'_>) -> Result<Effect, ApplyError> {
    values
        .hostname
        .set(annotation, value::hostname(annotation.value)?)
}

/// Restricts the nodes that announce the addresses (LBC-13).
fn nodes(values: &mut AnnotationValues, selector: LabelSelector) -> Result<Effect, ApplyError> {
    values.node_selectors.push(selector);
    Ok(Effect::Changed)
}
