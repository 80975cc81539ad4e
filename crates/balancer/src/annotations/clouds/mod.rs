//! The table, a module for each place that annotations come from.

mod alibaba;
mod alike;
mod aws;
mod azure;
mod baidu;
mod digital_ocean;
mod google;
mod hetzner;
mod ibm;
mod migration;
mod openstack;
mod oracle;
mod portolan;
mod tencent;

use api::object::Labels;
use api::selector::LabelSelector;
use ipnet::IpNet;

use super::asked::Asked;
use super::row::{Effect, Field, Refusal, Remedy, Row};
use super::value;

/// A place that annotations come from.
pub(super) struct Place {
    /// Its name, for people.
    pub name: &'static str,
    /// What the names of its load balancers' annotations begin with.
    pub prefixes: &'static [&'static str],
    /// Its rows.
    pub rows: &'static [Row],
}

/// All places.
pub(super) static ALL: [Place; 13] = [
    portolan::PLACE,
    migration::PLACE,
    aws::PLACE,
    google::PLACE,
    azure::PLACE,
    ibm::PLACE,
    openstack::PLACE,
    baidu::PLACE,
    tencent::PLACE,
    alibaba::PLACE,
    oracle::PLACE,
    digital_ocean::PLACE,
    hetzner::PLACE,
];

/// Whether a name is one of a load balancer's annotations, as far as can be told from how it begins.
pub(super) fn is_of_load_balancer(name: &str) -> bool {
    let mut prefixes = ALL.iter().flat_map(|place| place.prefixes);
    prefixes.any(|prefix| name.starts_with(prefix))
}

/// Parts of the names of annotations that restrict clients.
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

/// Whether the name of an annotation that the table lacks says that it restricts clients; and whether by naming those
/// that may not connect.
pub(super) fn restriction_by_name(name: &str) -> Option<Remedy> {
    let name = name.to_ascii_lowercase();
    if !RESTRICTING_PARTS.iter().any(|part| name.contains(part)) {
        return None;
    }
    let refuses = ["deny", "denied", "black", "block", "acl"]
        .iter()
        .any(|part| name.contains(part));
    Some(if refuses { Remedy::Removal } else { Remedy::Ranges })
}

/// Annotations that have no effect in their cloud while another one turns them off: the annotation, the switch, and the
/// value that turns off.
const SWITCHES: [(&str, &str, &str); 1] = [alibaba::ACCESS_LIST_SWITCH];

/// Returns true if another annotation disables this one.
pub(super) fn is_turned_off(name: &str, annotations: &Labels) -> bool {
    SWITCHES.iter().any(|(of, switch, off)| {
        let value = annotations.get(*switch).map(|value| value.trim());
        *of == name && value.is_some_and(|value| value.eq_ignore_ascii_case(off))
    })
}

/// Takes in who may connect, as the annotation `by` has it. The field of the Service counts first.
fn source_ranges(asked: &mut Asked, by: &'static str, ranges: Vec<IpNet>) -> Result<Effect, Refusal> {
    if asked.has_ranges_in_spec || ranges.is_empty() {
        return Ok(Effect::Plain);
    }
    asked.ranges_by.get_or_insert(by);
    asked.source_ranges.extend(ranges);
    Ok(Effect::More)
}

/// Takes in the name that the status tells (LBC-11).
fn hostname(asked: &mut Asked, field: Field<'_>) -> Result<Effect, Refusal> {
    asked.hostname.put(field, value::hostname(field.text)?)
}

/// Takes in which nodes take the traffic (LBC-13).
fn nodes(asked: &mut Asked, selector: LabelSelector) -> Result<Effect, Refusal> {
    asked.nodes.push(selector);
    Ok(Effect::More)
}
