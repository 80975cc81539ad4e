//! Validation of cluster IPs, families, external IPs and source ranges (VAL-21 to VAL-33, VAL-38 to VAL-40).

use std::collections::HashSet;

use crate::kinds::service::{HEADLESS, SOURCE_RANGES_ANNOTATION, View};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::ip::{self, Family};
use crate::machinery::tree::texts;

/// Maximum number of cluster IPs of a Service: one per family.
const CLUSTER_IPS_MAX: usize = 2;

/// Validates `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` against each other. Also runs before the
/// selection of families.
pub(crate) fn validate_cluster_ips(service: View<'_>, old: Option<View<'_>>) -> FieldErrors {
    let mut errors = Vec::new();
    if service.is_external_name() {
        return errors;
    }
    let spec = Path::new("spec");
    let path = spec.child("clusterIPs");
    let ips = service.cluster_ips();
    match (service.cluster_ip(), ips.first()) {
        ("", Some(_)) => {
            let fault = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(&path, ips.clone(), fault));
        }
        ("", None) => {}
        (_, None) => errors.push(FieldError::required(&path, "")),
        (single, Some(first)) if *first != single => {
            errors.push(FieldError::invalid(
                &path,
                ips.clone(),
                "first value must match `clusterIP`",
            ));
        }
        _ => {}
    }
    validate_families(&mut errors, service, &spec);
    let mut has_invalid_ip = false;
    let existing = old.map(View::cluster_ips).unwrap_or_default();
    let existing: HashSet<&str> = existing.into_iter().collect();
    for (index, address) in ips.iter().enumerate() {
        if index == 0 && *address == HEADLESS {
            if ips.len() > 1 {
                has_invalid_ip = true;
                errors.push(FieldError::invalid(
                    &path,
                    ips.clone(),
                    "'None' must be the first and only value",
                ));
            }
            continue;
        }
        let faults = ip::validate(&path.index(index), address, &existing);
        has_invalid_ip |= !faults.is_empty();
        errors.extend(faults);
    }
    if ips.len() > CLUSTER_IPS_MAX {
        let fault = format!("may only hold up to {CLUSTER_IPS_MAX} values");
        errors.push(FieldError::invalid(&path, ips.clone(), fault));
    }
    if !has_invalid_ip {
        validate_family_match(&mut errors, service, &ips, &path);
    }
    errors
}

fn validate_families(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    let path = spec.child("ipFamilies");
    let mut seen = HashSet::new();
    for (index, family) in service.ip_families().into_iter().enumerate() {
        if Family::from_name(family).is_none() {
            errors.push(FieldError::not_supported(
                &path.index(index),
                family,
                &["IPv4", "IPv6"],
            ));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(&path.index(index), family));
        }
    }
    const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if let Some(policy) = service.ip_family_policy()
        && !POLICIES.contains(&policy)
    {
        errors.push(FieldError::not_supported(
            &spec.child("ipFamilyPolicy"),
            policy,
            &POLICIES,
        ));
    }
}

/// Checks that the addresses have one family each, in the order of `ipFamilies` (VAL-29, VAL-30).
fn validate_family_match(errors: &mut FieldErrors, service: View<'_>, ips: &[&str], path: &Path) {
    let families: Vec<Option<Family>> = ips.iter().map(|address| ip::family_of(address)).collect();
    if ips.len() > 1 {
        let has_both = families.contains(&Some(Family::V4)) && families.contains(&Some(Family::V6));
        if !has_both {
            let fault = "may specify no more than one IP for each IP family";
            errors.push(FieldError::invalid(path, ips.to_vec(), fault));
        }
    }
    if service.is_headless() {
        return;
    }
    for (index, (requested, actual)) in service.ip_families().iter().zip(families).enumerate() {
        let (Some(requested), Some(actual)) = (Family::from_name(requested), actual) else {
            continue;
        };
        if requested != actual {
            let fault = format!(
                "expected an {} value as indicated by `ipFamilies[{index}]`",
                requested.name()
            );
            errors.push(FieldError::invalid(&path.index(index), ips[index], fault));
        }
    }
}

/// Validates external IPs, which must be reachable from outside (VAL-32, VAL-33).
pub(super) fn validate_external_ips(
    errors: &mut FieldErrors,
    service: View<'_>,
    old: Option<View<'_>>,
    spec: &Path,
) {
    let existing = old.map(|old| texts(old.spec, "externalIPs")).unwrap_or_default();
    let existing: HashSet<&str> = existing.into_iter().collect();
    let path = spec.child("externalIPs");
    for (index, address) in texts(service.spec, "externalIPs").into_iter().enumerate() {
        let path = path.index(index);
        let mut faults = ip::validate(&path, address, &existing);
        if faults.is_empty() {
            faults = ip::validate_endpoint(&path, address);
        }
        errors.extend(faults);
    }
}

/// Validates source ranges in the field or, if absent, in the annotation (VAL-38 to VAL-40).
pub(super) fn validate_source_ranges(
    errors: &mut FieldErrors,
    service: View<'_>,
    old: Option<View<'_>>,
    spec: &Path,
) {
    const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";
    let ranges = texts(service.spec, "loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // Upstream writes this path with a capital letter.
        let path = spec.child("LoadBalancerSourceRanges");
        if !service.is_load_balancer() {
            errors.push(FieldError::forbidden(&path, ONLY_BALANCERS));
        }
        let existing = old
            .map(|old| texts(old.spec, "loadBalancerSourceRanges"))
            .unwrap_or_default();
        let existing: HashSet<&str> = existing.into_iter().map(str::trim).collect();
        for (index, range) in ranges.into_iter().enumerate() {
            errors.extend(ip::validate_cidr(&path.index(index), range.trim(), &existing));
        }
    } else if let Some(value) = service.annotation(SOURCE_RANGES_ANNOTATION) {
        let path = Path::new("metadata")
            .child("annotations")
            .key(SOURCE_RANGES_ANNOTATION);
        if !service.is_load_balancer() {
            errors.push(FieldError::forbidden(&path, ONLY_BALANCERS));
        }
        let is_unchanged = old.is_some_and(|old| old.annotation(SOURCE_RANGES_ANNOTATION) == Some(value));
        if !is_unchanged && !value.trim().is_empty() {
            for range in value.split(',') {
                errors.extend(ip::validate_new_cidr(&path, range.trim()));
            }
        }
    }
}
