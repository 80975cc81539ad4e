//! What a Service's annotations ask of its load balancer: one table for Portolan's own annotations, those of MetalLB and
//! kube-vip, and those of the clouds, by what they ask for (LBC-01 … LBC-16).
//!
//! Every annotation is in one of three states. It is in force: the assigner ([`crate::wish`]), the announcer or the edge
//! does what it says. It has no meaning without its cloud, or none without the edge: then it is named once. Or it is unknown, though its name
//! begins as a load balancer's: then it is named, too. A value that means nothing is a [`Fault`] with what it may be, and
//! leaves everything else in force.
//!
//! - [`row`]: what a row of the table is
//! - [`value`]: how values are written
//! - `clouds`: the table itself, a module for each place that annotations come from
//! - [`wish`]: what all annotations together ask of the edge
//! - [`restrictions`]: annotations that restrict clients, and when they withhold a Service's address

mod asked;
mod clouds;
pub mod restrictions;
pub mod row;
#[cfg(test)]
mod tests;
pub mod value;
pub mod wish;

use std::collections::HashMap;
use std::sync::LazyLock;

use api::object::Service;
use api::selector::LabelSelector;

use asked::Asked;
use restrictions::Restrictions;
use row::{Effect, Field, Means, Reach, Refusal, Row};
use wish::EdgeWish;

/// The class of Services that the edge serves, whatever their annotations ask for.
pub use api::edge_secret::EDGE_CLASS;

/// The rows of the table by name.
static BY_NAME: LazyLock<HashMap<&'static str, &'static Row>> =
    LazyLock::new(|| rows().map(|row| (row.name, row)).collect());

/// All rows, those of a place together.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    clouds::ALL.iter().flat_map(|place| place.rows)
}

/// The places that annotations come from, with their rows, in the order of the documentation.
pub fn places() -> impl Iterator<Item = (&'static str, &'static [Row])> {
    clouds::ALL.iter().map(|place| (place.name, place.rows))
}

/// An annotation that is not in force, or not as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It has a value that means nothing.
    #[error("annotation {annotation} has the value {value:?}, expected {allowed}")]
    Value {
        /// The annotation.
        annotation: String,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// Two say different things; the one whose name comes first counts.
    #[error("annotations {first} and {second} say different things: {first} counts, remove one of them")]
    Contradiction {
        /// The one that counts.
        first: String,
        /// The other.
        second: String,
    },
    /// The annotation restricts clients in a way that cannot be applied.
    #[error("annotation {annotation} restricts clients by what nothing here knows: {remedy}")]
    Unenforceable {
        /// The annotation.
        annotation: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// What is asked for lacks something that it needs.
    #[error("{0}")]
    Incomplete(String),
}

/// Longest part of a value that a fault quotes: conditions and Events hold little.
const QUOTED_BYTES_MAX: usize = 256;

impl Fault {
    fn value(annotation: &str, value: &str, allowed: String) -> Self {
        let mut value = value.to_owned();
        if value.len() > QUOTED_BYTES_MAX {
            let end = (0..=QUOTED_BYTES_MAX)
                .rev()
                .find(|end| value.is_char_boundary(*end));
            value.truncate(end.unwrap_or(0));
            value.push('…');
        }
        Self::Value {
            annotation: annotation.to_owned(),
            value,
            allowed,
        }
    }
}

/// What the annotations of a Service say.
#[derive(Debug, Default)]
pub struct Reading {
    /// What the edge is to do; `None` if what is asked for is done with packets.
    pub edge: Option<EdgeWish>,
    /// The name that is told in the status beside the address (LBC-11).
    pub hostname: Option<String>,
    /// Which nodes take the traffic: all of these match their labels (LBC-13).
    pub nodes: Vec<LabelSelector>,
    /// What is not in force because of a mistake.
    pub faults: Vec<Fault>,
    /// Annotations that restrict clients.
    pub restrictions: Restrictions,
    /// Annotations that have no meaning without their cloud.
    pub without_meaning: Vec<&'static str>,
    /// Annotations that the edge would do, which nothing asks to serve the Service.
    pub without_edge: Vec<&'static str>,
    /// Annotations that nobody knows, though their names begin as those of load balancers.
    pub unknown: Vec<String>,
}

/// Reads the annotations of a Service.
pub fn read(service: &Service) -> Reading {
    let mut reading = Reading::default();
    let mut asked = Asked {
        has_ranges_in_spec: !service.spec.load_balancer_source_ranges.is_empty(),
        ..Asked::default()
    };
    for (name, text) in &service.metadata.annotations {
        let Some(row) = BY_NAME.get(name.as_str()) else {
            if clouds::is_of_load_balancer(name) {
                let remedy = clouds::restriction_by_name(name).filter(|_| !text.trim().is_empty());
                match remedy {
                    Some(remedy) => reading.restrictions.cannot_enforce(name, remedy),
                    None => reading.unknown.push(name.clone()),
                }
            }
            continue;
        };
        let text = text.trim();
        // Manifests that are made from templates hold empty values for what is not set.
        if text.is_empty() {
            continue;
        }
        if clouds::is_turned_off(name, &service.metadata.annotations) {
            reading.without_meaning.push(row.name);
            continue;
        }
        take(row, text, &mut asked, &mut reading);
    }
    reading.hostname = asked.hostname.get().cloned();
    reading.nodes = std::mem::take(&mut asked.nodes);
    reading
        .faults
        .extend(reading.restrictions.settle(&asked, service));
    if asked.ranges_by.is_some() {
        asked.reach = Reach::Hard;
    }
    let (wish, faults) = wish::resolve(&asked, service);
    let is_of_class = service.spec.load_balancer_class.as_deref() == Some(EDGE_CLASS);
    if is_of_class || asked.needs_edge() {
        reading.edge = Some(wish);
        reading.faults.extend(faults);
        reading.without_edge.clear();
    }
    reading
}

fn take(row: &'static Row, text: &str, asked: &mut Asked, reading: &mut Reading) {
    let outcome = match row.means {
        // The assigner reads it, which gives no address until its mistakes are mended.
        Means::Scope { .. } | Means::Addresses | Means::AddressOf(_) | Means::Pool | Means::Sharing => return,
        Means::Nothing(check) => {
            reading.without_meaning.push(row.name);
            check.map_or(Ok(Effect::Plain), |check| {
                check(text).map(|()| Effect::Plain).map_err(Refusal::Value)
            })
        }
        Means::Asks(_, apply) => apply(asked, Field { name: row.name, text }),
        Means::Restricts(apply) => {
            if let Err(Refusal::Value(allowed)) = apply(asked, Field { name: row.name, text }) {
                let fault = Fault::value(row.name, text, allowed);
                reading.restrictions.unreadable(fault);
            }
            return;
        }
        Means::Unenforceable(remedy) => {
            reading.restrictions.cannot_enforce(row.name, remedy);
            return;
        }
        Means::AtEdge(apply) => {
            reading.without_edge.push(row.name);
            apply(asked, Field { name: row.name, text }).map(|_| Effect::Plain)
        }
    };
    match outcome {
        Ok(Effect::Plain) => {}
        Ok(Effect::More) => {
            let reach = match row.means {
                Means::Asks(reach, _) => reach,
                _ => Reach::Tunes,
            };
            asked.reach = asked.reach.max(reach);
        }
        Err(Refusal::Value(allowed)) => reading.faults.push(Fault::value(row.name, text, allowed)),
        Err(Refusal::Contradicts(first)) => reading.faults.push(Fault::Contradiction {
            first: first.to_owned(),
            second: row.name.to_owned(),
        }),
    }
}
