//! Which addresses a Service asks for: by fields, and by the annotations of the table ([`crate::annotations`]) that are
//! about addresses, so that manifests from elsewhere go on to work.

use std::net::IpAddr;

use api::object::{Labels, Service};
use ipam::pools::{Family, Need, Sharing};

use crate::annotations::row::{Means, Row};
use crate::annotations::rows;

/// What a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Addresses of these families, in this order.
    pub families: Vec<Family>,
    /// Whether some of them are enough.
    pub need: Need,
    /// These addresses, if there are any.
    pub addresses: Vec<IpAddr>,
    /// This pool.
    pub pool: Option<String>,
    /// Whether an internal load balancer is meant.
    pub is_internal: bool,
    /// With whom the addresses are shared.
    pub sharing: Sharing,
}

/// What a Service asks for cannot be understood; the Service must be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    /// An annotation has a value that means nothing.
    #[error("annotation {annotation} has the value {value:?}, expected {allowed}")]
    Value {
        /// The annotation.
        annotation: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// `spec.loadBalancerIP` is not an address.
    #[error("spec.loadBalancerIP is {0:?}, expected an address such as 192.0.2.10")]
    Field(String),
    /// Two places say different things.
    #[error("{first} and {second} say different things: remove one of them")]
    Contradiction {
        /// The one.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
}

impl Wish {
    /// What `service` asks for.
    ///
    /// # Errors
    /// See [`WishError`].
    pub fn of(service: &Service) -> Result<Self, WishError> {
        let annotations = &service.metadata.annotations;
        let families = service.spec.ip_families.iter();
        let families: Vec<Family> = families
            .filter_map(|name| match name.as_str() {
                "IPv4" => Some(Family::V4),
                "IPv6" => Some(Family::V6),
                _ => None,
            })
            .collect();
        let is_preference = service.spec.ip_family_policy.as_deref() == Some("PreferDualStack");
        Ok(Self {
            families: if families.is_empty() {
                vec![Family::V4]
            } else {
                families
            },
            need: if is_preference { Need::Any } else { Need::All },
            addresses: addresses(service)?,
            pool: one_of(annotations, |means| matches!(means, Means::Pool))?.map(|(_, pool)| pool.to_owned()),
            is_internal: is_internal(annotations)?,
            sharing: sharing(service)?,
        })
    }
}

/// How the Service shares its addresses (MetalLB's rules: one key, no port in common, and either all nodes take the
/// traffic of both or their backends are the same).
pub fn sharing(service: &Service) -> Result<Sharing, WishError> {
    let key = one_of(&service.metadata.annotations, |means| {
        matches!(means, Means::Sharing)
    })?;
    let ports = service
        .spec
        .ports
        .iter()
        .map(|port| (port.protocol.number(), port.port));
    let is_local = service.spec.external_traffic_policy == "Local";
    let backends = is_local.then(|| {
        let pairs = service
            .spec
            .selector
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(",")
    });
    Ok(Sharing::new(key.map(|(_, key)| key.to_owned()), ports, backends))
}

/// The addresses that are asked for, by the field or by annotations.
fn addresses(service: &Service) -> Result<Vec<IpAddr>, WishError> {
    let annotations = &service.metadata.annotations;
    let field = service.spec.load_balancer_ip.trim();
    let all = one_of(annotations, |means| matches!(means, Means::Addresses))?;
    let (annotation, addresses) = match all {
        Some((annotation, value)) => (annotation, parse(annotation, value)?),
        None => match of_families(annotations)? {
            Some(found) => found,
            None if field.is_empty() => return Ok(Vec::new()),
            None => {
                let address = field.parse().map_err(|_| WishError::Field(field.to_owned()))?;
                return Ok(vec![address]);
            }
        },
    };
    // The field is older and holds one address; manifests that are to work with both have both.
    if !field.is_empty() && !addresses.iter().any(|address| address.to_string() == field) {
        return Err(WishError::Contradiction {
            first: annotation,
            second: "spec.loadBalancerIP",
        });
    }
    Ok(addresses)
}

/// The first address of each family whose annotations name any, as clouds have them: they name one a network.
fn of_families(annotations: &Labels) -> Result<Option<(&'static str, Vec<IpAddr>)>, WishError> {
    let mut found: Option<(&'static str, Vec<IpAddr>)> = None;
    for family in [Family::V4, Family::V6] {
        let is_of_family = |means: &Means| matches!(means, Means::AddressOf(of) if *of == family);
        let Some((annotation, value)) = one_of(annotations, is_of_family)? else {
            continue;
        };
        let first = value.split(',').next().unwrap_or_default();
        let addresses = parse(annotation, first)?;
        let is_right = addresses
            .iter()
            .all(|address| address.is_ipv4() == (family == Family::V4));
        if !is_right {
            return Err(WishError::Value {
                annotation,
                value: value.to_owned(),
                allowed: format!("addresses of family {}", family.name()),
            });
        }
        found.get_or_insert((annotation, Vec::new())).1.extend(addresses);
    }
    Ok(found)
}

fn parse(annotation: &'static str, value: &str) -> Result<Vec<IpAddr>, WishError> {
    let addresses: Result<Vec<IpAddr>, _> = value.split(',').map(|text| text.trim().parse()).collect();
    let addresses = addresses
        .ok()
        .filter(|all| !all.iter().any(IpAddr::is_unspecified));
    addresses.ok_or_else(|| WishError::Value {
        annotation,
        value: value.to_owned(),
        allowed: "addresses separated by commas, such as 192.0.2.10,2001:db8::10".to_owned(),
    })
}

fn is_internal(annotations: &Labels) -> Result<bool, WishError> {
    let mut found: Option<(&'static str, bool)> = None;
    for row in rows() {
        let Means::Scope { internal, external } = row.means else {
            continue;
        };
        let Some(value) = value_of(annotations, row) else {
            continue;
        };
        let is_one_of = |values: &[&str]| {
            let mut values = values.iter();
            values.any(|allowed| *allowed == "*" || allowed.eq_ignore_ascii_case(value))
        };
        let says_internal = is_one_of(internal);
        if !says_internal && !is_one_of(external) {
            return Err(WishError::Value {
                annotation: row.name,
                value: value.to_owned(),
                allowed: [internal, external].concat().join(" or "),
            });
        }
        match found {
            Some((first, said)) if said != says_internal => {
                return Err(WishError::Contradiction {
                    first,
                    second: row.name,
                });
            }
            _ => found = Some((row.name, says_internal)),
        }
    }
    Ok(found.is_some_and(|(_, is_internal)| is_internal))
}

/// The value that the annotations of a meaning have in common, and the first that has it.
fn one_of(
    annotations: &Labels,
    is_meant: impl Fn(&Means) -> bool,
) -> Result<Option<(&'static str, &str)>, WishError> {
    let mut found: Option<(&'static str, &str)> = None;
    for row in rows().filter(|row| is_meant(&row.means)) {
        let Some(value) = value_of(annotations, row) else {
            continue;
        };
        match found {
            Some((first, said)) if said != value => {
                return Err(WishError::Contradiction {
                    first,
                    second: row.name,
                });
            }
            Some(_) => {}
            None => found = Some((row.name, value)),
        }
    }
    Ok(found)
}

/// The value of an annotation; an empty one counts as none.
fn value_of<'s>(annotations: &'s Labels, row: &Row) -> Option<&'s str> {
    let value = annotations.get(row.name)?.trim();
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
