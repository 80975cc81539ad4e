//! Addresses that a Service requests, by its fields and by the annotations of the table ([`crate::annotations`]).

use std::net::IpAddr;

use api::object::{Labels, Service};
use ipam::pools::{Family, FamilyPolicy, PortUse, Sharing};

use super::IngressMode;
use crate::annotations::row::{AnnotationMeaning, Row};
use crate::annotations::{PORT_RANGES_ANNOTATION, rows};

/// Addresses that a Service requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRequest {
    /// Families, in order of preference.
    pub families: Vec<Family>,
    /// Number of families that suffices.
    pub family_policy: FamilyPolicy,
    /// Specific addresses; empty for any.
    pub addresses: Vec<IpAddr>,
    /// Specific pool; `None` for any eligible one.
    pub pool: Option<String>,
    /// True for an internal load balancer.
    pub is_internal: bool,
    /// Services that may share the addresses.
    pub sharing: Sharing,
}

/// Invalid request; the Service has to be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The value of an annotation is invalid.
    #[error("annotation {annotation} has the value {value:?}, expected {allowed}")]
    InvalidValue {
        /// Name of the annotation.
        annotation: &'static str,
        /// Value of the annotation.
        value: String,
        /// Description of the allowed values.
        allowed: String,
    },
    /// `spec.loadBalancerIP` is not an address.
    #[error("spec.loadBalancerIP is {0:?}, expected an address such as 192.0.2.10")]
    InvalidLoadBalancerIp(String),
    /// Two annotations, or an annotation and a field, request different things.
    #[error("{first} and {second} have different values: remove one of them")]
    Conflict {
        /// Annotation or field.
        first: &'static str,
        /// Annotation or field with another value.
        second: &'static str,
    },
}

impl AddressRequest {
    /// Returns the request of a Service.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn of(service: &Service) -> Result<Self, RequestError> {
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
            family_policy: if is_preference {
                FamilyPolicy::Any
            } else {
                FamilyPolicy::All
            },
            addresses: addresses(service)?,
            pool: common_value(annotations, |meaning| matches!(meaning, AnnotationMeaning::Pool))?
                .map(|(_, pool)| pool.to_owned()),
            is_internal: is_internal(annotations)?,
            sharing: sharing(service)?,
        })
    }
}

/// Returns the condition for sharing the addresses with other Services. MetalLB's rules: the same key, no common port,
/// and either all nodes take the traffic of both, or both have the same backends. Unlike MetalLB's, these are of one
/// namespace: equal selectors of two namespaces select other Pods.
///
/// # Errors
/// Annotations with different sharing keys.
pub(super) fn sharing(service: &Service) -> Result<Sharing, RequestError> {
    let key = common_value(&service.metadata.annotations, |meaning| {
        matches!(meaning, AnnotationMeaning::SharingKey)
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
        let selector = pairs.collect::<Vec<_>>().join(",");
        format!("{}/{selector}", service.metadata.namespace)
    });
    Ok(Sharing::new(key.map(|(_, key)| key.to_owned()), ports, backends))
}

/// Returns the use of the ports of a Service. Nodes forward no port ranges of a Service of the edge.
pub(super) fn port_use(service: &Service, mode: IngressMode) -> PortUse {
    match mode {
        IngressMode::Proxy => PortUse::Process,
        IngressMode::Vip if service.metadata.annotations.contains_key(PORT_RANGES_ANNOTATION) => {
            PortUse::Ranges
        }
        IngressMode::Vip => PortUse::Listed,
    }
}

/// Returns the requested addresses, by the field or by annotations.
fn addresses(service: &Service) -> Result<Vec<IpAddr>, RequestError> {
    let annotations = &service.metadata.annotations;
    let field = service.spec.load_balancer_ip.trim();
    let all = common_value(annotations, |meaning| {
        matches!(meaning, AnnotationMeaning::Addresses)
    })?;
    let (annotation, addresses) = match all {
        Some((annotation, value)) => (annotation, parse(annotation, value)?),
        None => match family_addresses(annotations)? {
            Some(found) => found,
            None if field.is_empty() => return Ok(Vec::new()),
            None => {
                let address = field
                    .parse()
                    .map_err(|_| RequestError::InvalidLoadBalancerIp(field.to_owned()))?;
                return Ok(vec![address]);
            }
        },
    };
    // The field holds one address. Manifests for several load balancers set both the field and an annotation.
    if !field.is_empty() && !addresses.iter().any(|address| address.to_string() == field) {
        return Err(RequestError::Conflict {
            first: annotation,
            second: "spec.loadBalancerIP",
        });
    }
    Ok(addresses)
}

/// Returns the first address of each family. Annotations of clouds list one address per network.
fn family_addresses(annotations: &Labels) -> Result<Option<(&'static str, Vec<IpAddr>)>, RequestError> {
    let mut found: Option<(&'static str, Vec<IpAddr>)> = None;
    for family in [Family::V4, Family::V6] {
        let is_of_family = |meaning: &AnnotationMeaning| matches!(meaning, AnnotationMeaning::FamilyAddress(of) if *of == family);
        let Some((annotation, value)) = common_value(annotations, is_of_family)? else {
            continue;
        };
        let first = value.split(',').next().unwrap_or_default();
        let addresses = parse(annotation, first)?;
        let are_of_family = addresses
            .iter()
            .all(|address| address.is_ipv4() == (family == Family::V4));
        if !are_of_family {
            return Err(RequestError::InvalidValue {
                annotation,
                value: value.to_owned(),
                allowed: format!("addresses of family {}", family.name()),
            });
        }
        found.get_or_insert((annotation, Vec::new())).1.extend(addresses);
    }
    Ok(found)
}

fn parse(annotation: &'static str, value: &str) -> Result<Vec<IpAddr>, RequestError> {
    let addresses: Result<Vec<IpAddr>, _> = value.split(',').map(|text| text.trim().parse()).collect();
    let addresses = addresses
        .ok()
        .filter(|all| !all.iter().any(IpAddr::is_unspecified));
    addresses.ok_or_else(|| RequestError::InvalidValue {
        annotation,
        value: value.to_owned(),
        allowed: "addresses separated by commas, such as 192.0.2.10,2001:db8::10".to_owned(),
    })
}

/// Returns true if annotations request an internal address. Contradictions are errors.
fn is_internal(annotations: &Labels) -> Result<bool, RequestError> {
    let mut found: Option<(&'static str, bool)> = None;
    for row in rows() {
        let AnnotationMeaning::Scope { internal, external } = row.meaning else {
            continue;
        };
        let Some(value) = value_of(annotations, row) else {
            continue;
        };
        let is_one_of = |values: &[&str]| {
            let mut values = values.iter();
            values.any(|allowed| *allowed == "*" || allowed.eq_ignore_ascii_case(value))
        };
        let is_internal = is_one_of(internal);
        if !is_internal && !is_one_of(external) {
            return Err(RequestError::InvalidValue {
                annotation: row.name,
                value: value.to_owned(),
                allowed: [internal, external].concat().join(" or "),
            });
        }
        match found {
            Some((first, value)) if value != is_internal => {
                return Err(RequestError::Conflict {
                    first,
                    second: row.name,
                });
            }
            _ => found = Some((row.name, is_internal)),
        }
    }
    Ok(found.is_some_and(|(_, is_internal)| is_internal))
}

/// Returns the common value of all annotations with a meaning, and the first of them.
fn common_value(
    annotations: &Labels,
    has_meaning: impl Fn(&AnnotationMeaning) -> bool,
) -> Result<Option<(&'static str, &str)>, RequestError> {
    let mut found: Option<(&'static str, &str)> = None;
    for row in rows().filter(|row| has_meaning(&row.meaning)) {
        let Some(value) = value_of(annotations, row) else {
            continue;
        };
        match found {
            Some((first, present)) if present != value => {
                return Err(RequestError::Conflict {
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

/// Returns the trimmed value of an annotation; `None` if it is absent or empty.
fn value_of<'s>(annotations: &'s Labels, row: &Row) -> Option<&'s str> {
    let value = annotations.get(row.name)?.trim();
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
