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

use api::selector::LabelSelector;
use ipnet::IpNet;

use super::asked::Asked;
use super::row::{Effect, Field, Reach, Refusal, Row};
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

/// Takes in who may connect. The field of the Service counts first, and packets are enough for that.
fn source_ranges(asked: &mut Asked, ranges: Vec<IpNet>) -> Result<Effect, Refusal> {
    if asked.has_ranges_in_spec {
        return Ok(Effect::Plain);
    }
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

/// What an effect of a row that the edge is needed for needs.
fn reach_of(effect: Effect) -> Reach {
    match effect {
        Effect::Plain => Reach::Tunes,
        Effect::More => Reach::Hard,
    }
}
