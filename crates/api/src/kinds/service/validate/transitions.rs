//! Validation of immutable fields (VAL-43, VAL-48, VAL-51 to VAL-55).

use crate::kinds::service::View;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::child;

use super::traffic::validate_class;

/// Validates the change from the old Service to the new one.
pub(super) fn validate(errors: &mut FieldErrors, new: View<'_>, old: View<'_>) {
    let spec = Path::new("spec");
    if !new.is_external_name() && !old.is_external_name() {
        validate_cluster_ips(errors, new, old, &spec);
        validate_ip_families(errors, new, old, &spec);
    }
    let class = "loadBalancerClass";
    if new.is_load_balancer() && old.is_load_balancer() && child(new.spec, class) != child(old.spec, class) {
        let value = child(new.spec, class).clone();
        errors.push(FieldError::invalid(
            &spec.child(class),
            value,
            "may not change once set",
        ));
    }
    validate_class(errors, new, &spec);
    if old.needs_health_check_node_port()
        && new.needs_health_check_node_port()
        && old.health_check_node_port() != new.health_check_node_port()
    {
        errors.push(FieldError::forbidden(
            &spec.child("healthCheckNodePort"),
            "field is immutable",
        ));
    }
}

/// Validates a change of cluster IPs: the first is immutable; the second can be added, and removed with
/// `SingleStack`.
fn validate_cluster_ips(errors: &mut FieldErrors, new: View<'_>, old: View<'_>, spec: &Path) {
    if new.is_headless() && old.is_headless() {
        return;
    }
    let (before, after) = (old.cluster_ips(), new.cluster_ips());
    let path = spec.child("clusterIPs");
    if before.len() == after.len() {
        for (index, (was, is)) in before.iter().zip(&after).enumerate() {
            if was != is {
                let fault = "may not change once set";
                errors.push(FieldError::invalid(&path.index(index), after.clone(), fault));
            }
        }
        return;
    }
    validate_resized(errors, new, &before, &after, &path.index(0), "clusterIP");
}

/// Validates a change of families by the same rule. Upstream reports each at the first index.
fn validate_ip_families(errors: &mut FieldErrors, new: View<'_>, old: View<'_>, spec: &Path) {
    if new.is_headless() || old.is_headless() {
        return;
    }
    let (before, after) = (old.ip_families(), new.ip_families());
    let path = spec.child("ipFamilies").index(0);
    if before.len() == after.len() {
        for _ in before.iter().zip(&after).filter(|(was, is)| was != is) {
            errors.push(FieldError::invalid(
                &path,
                after.clone(),
                "may not change once set",
            ));
        }
        return;
    }
    validate_resized(errors, new, &before, &after, &path, "ipFamily");
}

fn validate_resized(
    errors: &mut FieldErrors,
    new: View<'_>,
    before: &[&str],
    after: &[&str],
    path: &Path,
    subject: &str,
) {
    match (before.first(), after.first()) {
        (_, None) => {
            errors.push(FieldError::invalid(
                path,
                after.to_vec(),
                format!("primary {subject} can not be unset"),
            ));
        }
        (Some(was), Some(is)) if was != is => {
            errors.push(FieldError::invalid(
                path,
                after.to_vec(),
                "may not change once set",
            ));
        }
        _ => {}
    }
    let is_released = after.len() == 1 && before.len() > 1;
    if is_released && new.ip_family_policy() != Some("SingleStack") {
        let path = Path::new("spec").child("ipFamilyPolicy");
        let fault = format!("must be set to 'SingleStack' when releasing the secondary {subject}");
        errors.push(FieldError::invalid(
            &path,
            new.ip_family_policy().unwrap_or_default(),
            fault,
        ));
    }
}
