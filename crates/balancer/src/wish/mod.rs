//! What a Service asks of its load balancer: fields, Portolan's annotations, and those of MetalLB, kube-vip and the
//! clouds for the same things, so that manifests go on to work.

use std::net::IpAddr;

use api::object::{Labels, Service};
use ipam::pools::{Family, Need, Sharing};

/// Annotations that name addresses, separated by commas.
pub const ADDRESS_ANNOTATIONS: [&str; 4] = [
    "portolan.dev/load-balancer-ips",
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
    "kube-vip.io/loadbalancerIPs",
];
/// Annotations that name a pool.
pub const POOL_ANNOTATIONS: [&str; 3] = [
    "portolan.dev/address-pool",
    "metallb.io/address-pool",
    "metallb.universe.tf/address-pool",
];
/// Annotations that name the key under which addresses are shared.
pub const SHARING_ANNOTATIONS: [&str; 3] = [
    "portolan.dev/allow-shared-ip",
    "metallb.io/allow-shared-ip",
    "metallb.universe.tf/allow-shared-ip",
];
/// Annotations that ask for an internal load balancer (LBC-01): values for internal, values for external.
pub const SCOPE_ANNOTATIONS: [(&str, &[&str], &[&str]); 6] = [
    ("portolan.dev/load-balancer-scope", &["Internal"], &["External"]),
    (
        "service.beta.kubernetes.io/aws-load-balancer-internal",
        &["true", "0.0.0.0/0"],
        &["false"],
    ),
    (
        "service.beta.kubernetes.io/aws-load-balancer-scheme",
        &["internal"],
        &["internet-facing"],
    ),
    (
        "service.beta.kubernetes.io/azure-load-balancer-internal",
        &["true"],
        &["false"],
    ),
    (
        "service.beta.kubernetes.io/openstack-internal-load-balancer",
        &["true"],
        &["false"],
    ),
    (
        "networking.gke.io/load-balancer-type",
        &["Internal"],
        &["External"],
    ),
];

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
            pool: one_of(annotations, &POOL_ANNOTATIONS)?.map(|(_, pool)| pool.to_owned()),
            is_internal: is_internal(annotations)?,
            sharing: sharing(service)?,
        })
    }
}

/// How the Service shares its addresses (MetalLB's rules: one key, no port in common, and either all nodes take the
/// traffic of both or their backends are the same).
pub fn sharing(service: &Service) -> Result<Sharing, WishError> {
    let key = one_of(&service.metadata.annotations, &SHARING_ANNOTATIONS)?;
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

fn addresses(service: &Service) -> Result<Vec<IpAddr>, WishError> {
    let field = service.spec.load_balancer_ip.trim();
    let Some((annotation, value)) = one_of(&service.metadata.annotations, &ADDRESS_ANNOTATIONS)? else {
        if field.is_empty() {
            return Ok(Vec::new());
        }
        return match field.parse() {
            Ok(address) => Ok(vec![address]),
            Err(_) => Err(WishError::Field(field.to_owned())),
        };
    };
    let addresses: Result<Vec<IpAddr>, _> = value.split(',').map(|text| text.trim().parse()).collect();
    let addresses = addresses
        .ok()
        .filter(|all| !all.iter().any(IpAddr::is_unspecified));
    let addresses = addresses.ok_or_else(|| WishError::Value {
        annotation,
        value: value.to_owned(),
        allowed: "addresses separated by commas, such as 192.0.2.10,2001:db8::10".to_owned(),
    })?;
    // The field is older and holds one address; manifests that are to work with both have both.
    if !field.is_empty() && !addresses.iter().any(|address| address.to_string() == field) {
        return Err(WishError::Contradiction {
            first: annotation,
            second: "spec.loadBalancerIP",
        });
    }
    Ok(addresses)
}

fn is_internal(annotations: &Labels) -> Result<bool, WishError> {
    let mut found: Option<(&'static str, bool)> = None;
    for (annotation, internal, external) in SCOPE_ANNOTATIONS {
        let Some(value) = annotations.get(annotation).map(|value| value.trim()) else {
            continue;
        };
        let is_one_of = |values: &[&str]| values.iter().any(|allowed| allowed.eq_ignore_ascii_case(value));
        let says_internal = is_one_of(internal);
        if !says_internal && !is_one_of(external) {
            return Err(WishError::Value {
                annotation,
                value: value.to_owned(),
                allowed: [internal, external].concat().join(" or "),
            });
        }
        match found {
            Some((first, said)) if said != says_internal => {
                return Err(WishError::Contradiction {
                    first,
                    second: annotation,
                });
            }
            _ => found = Some((annotation, says_internal)),
        }
    }
    Ok(found.is_some_and(|(_, is_internal)| is_internal))
}

/// The value that the annotations have in common, and the first that has it; empty values count as none.
fn one_of<'s>(
    annotations: &'s Labels,
    names: &[&'static str],
) -> Result<Option<(&'static str, &'s str)>, WishError> {
    let mut found: Option<(&'static str, &str)> = None;
    for name in names {
        let Some(value) = annotations
            .get(*name)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
        else {
            continue;
        };
        match found {
            Some((first, said)) if said != value => {
                return Err(WishError::Contradiction { first, second: name });
            }
            Some(_) => {}
            None => found = Some((name, value)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
