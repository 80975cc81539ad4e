//! Request of two-tier forwarding, by a Service or by the pool of its addresses.
//!
//! The assigner records the request of the pools at the Service. Node proxies and announcers watch Services for other
//! reasons. They therefore need neither watches nor rights for pools, and MetalLB's kinds may be absent. The assigner
//! has the right to patch Services, because it records the names of the pools in the same way.

use api::object::{ObjectMeta, Service};

/// Annotation of a Service or of a pool, with `true` or `false`. That of the Service takes precedence.
pub const TWO_TIER_ANNOTATION: &str = "service.portolan.dev/two-tier-forwarding";
/// Annotation of a Service with the value `true`, which the assigner writes: a pool of its addresses requests the
/// forwarding. Node proxies read it, too.
pub const POOL_TWO_TIER_ANNOTATION: &str = "service.portolan.dev/two-tier-forwarding-from-pool";

/// Returns true if a Service requests two-tier forwarding, or a pool of its addresses does and the Service does not
/// decline.
pub fn requests(service: &Service) -> bool {
    let flag =
        |name: &str| annotation_value(&service.metadata, name).and_then(|text| text.parse::<bool>().ok());
    flag(TWO_TIER_ANNOTATION)
        .or_else(|| flag(POOL_TWO_TIER_ANNOTATION))
        .unwrap_or(false)
}

/// Returns true if the annotation of a pool requests two-tier forwarding.
pub(crate) fn requested_by_pool(pool: &ObjectMeta) -> bool {
    annotation_value(pool, TWO_TIER_ANNOTATION) == Some("true")
}

/// Returns the value of a pool's annotation that is neither `true` nor `false`.
pub(crate) fn invalid_value(pool: &ObjectMeta) -> Option<&str> {
    annotation_value(pool, TWO_TIER_ANNOTATION).filter(|text| !["true", "false"].contains(text))
}

fn annotation_value<'m>(object: &'m ObjectMeta, name: &str) -> Option<&'m str> {
    object.annotations.get(name).map(|text| text.trim())
}

#[cfg(test)]
mod tests;
