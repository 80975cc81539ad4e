//! Selection of `ipFamilyPolicy` and `ipFamilies` where the client left them open (FAM-01 to FAM-08, VAL-61 to
//! VAL-64).

use serde_json::{Value, json};

use super::validate::validate_cluster_ips;
use super::{HEADLESS, View};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::ip::{self, Family};
use crate::machinery::tree::{object_mut, set};

/// IP families of the cluster's ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfiguredFamilies {
    /// Family of the first range, the default of Services.
    pub primary: Family,
    /// True if there is a range of the other family too.
    pub is_dual_stack: bool,
}

impl ConfiguredFamilies {
    /// Returns true if the cluster has a range of `family`.
    pub fn contains(self, family: Family) -> bool {
        self.is_dual_stack || family == self.primary
    }
}

/// Sets policy and families of `new`, and drops the second address and family on a change to `SingleStack`.
///
/// # Errors
/// The response to the client: neither allocation nor validation follows.
pub fn initialize_families(
    new: &mut Value,
    old: Option<&Value>,
    configured: ConfiguredFamilies,
) -> Result<(), FieldErrors> {
    if View::of(new).is_external_name() {
        return Ok(());
    }
    if old.is_some_and(|old| keeps_prefer_dual_stack(new, old)) {
        return Ok(());
    }
    default_policy(new, old);
    let faults = validate_cluster_ips(View::of(new), old.map(View::of));
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut errors = Vec::new();
    if let Some(old) = old {
        reduce(&mut errors, new, old);
    }
    check_single_stack(&mut errors, View::of(new));
    infer_from_cluster_ips(&mut errors, new, configured);
    if !errors.is_empty() {
        return Err(errors);
    }
    if View::of(new).is_headless_without_selector() {
        fill_headless_without_selector(new, configured);
        return Ok(());
    }
    check_configured(View::of(new), configured)?;
    fill(new, configured);
    Ok(())
}

/// Returns true if an unchanged `PreferDualStack` Service keeps its families after a change of the cluster's
/// ranges (FAM-07).
pub fn keeps_prefer_dual_stack(new: &Value, old: &Value) -> bool {
    let (new, old) = (View::of(new), View::of(old));
    let prefers = |policy: Option<&str>| policy == Some("PreferDualStack");
    new.kind() == old.kind()
        && matches!(new.kind(), "ClusterIP" | "NodePort" | "LoadBalancer")
        && prefers(new.ip_family_policy())
        && (old.ip_family_policy().is_none() || prefers(old.ip_family_policy()))
        && new.cluster_ips() == old.cluster_ips()
        && new.ip_families() == old.ip_families()
}

fn default_policy(new: &mut Value, old: Option<&Value>) {
    let view = View::of(new);
    if view.ip_family_policy().is_some() {
        return;
    }
    let policy = match old.and_then(|old| View::of(old).ip_family_policy()) {
        Some(policy) => policy,
        None if view.is_headless_without_selector() => "RequireDualStack",
        None => "SingleStack",
    };
    set_spec(new, "ipFamilyPolicy", policy.into());
}

/// Drops the second address and family on a change to `SingleStack`; otherwise reports their removal.
fn reduce(errors: &mut FieldErrors, new: &mut Value, old: &Value) {
    let (view, old) = (View::of(new), View::of(old));
    let (ips, families) = (view.cluster_ips(), view.ip_families());
    let (old_ips, old_families) = (old.cluster_ips(), old.ip_families());
    if view.ip_family_policy() == Some("SingleStack") {
        let first_ip = (ips == old_ips && ips.len() > 1).then(|| json!([ips[0]]));
        let first_family = (families == old_families && families.len() > 1).then(|| json!([families[0]]));
        if let Some(first) = first_ip {
            set_spec(new, "clusterIPs", first);
        }
        if let Some(first) = first_family {
            set_spec(new, "ipFamilies", first);
        }
        return;
    }
    let is_reduced = |before: &[&str], after: &[&str]| !after.is_empty() && after.len() < before.len();
    for (reduced, subject) in [
        (is_reduced(&old_ips, &ips), "cluster IP"),
        (is_reduced(&old_families, &families), "IP family"),
    ] {
        if reduced {
            let fault = format!("must be 'SingleStack' to release the secondary {subject}");
            errors.push(policy_error(view, fault));
        }
    }
}

fn check_single_stack(errors: &mut FieldErrors, service: View<'_>) {
    if service.ip_family_policy() != Some("SingleStack") {
        return;
    }
    for (count, subject) in [
        (service.cluster_ips().len(), "cluster IPs"),
        (service.ip_families().len(), "IP families"),
    ] {
        if count == 2 {
            let fault = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {subject} are specified"
            );
            errors.push(policy_error(service, fault));
        }
    }
}

fn infer_from_cluster_ips(errors: &mut FieldErrors, new: &mut Value, configured: ConfiguredFamilies) {
    let view = View::of(new);
    let ips = view.cluster_ips();
    let mut families = view.ip_families();
    let given = families.len();
    for (index, address) in ips.iter().enumerate() {
        if *address == HEADLESS {
            break;
        }
        let Some(family) = ip::family_of(address) else {
            continue;
        };
        if index < families.len() {
            continue;
        }
        if configured.contains(family) {
            families.push(family.name());
        } else {
            let path = Path::new("spec").child("clusterIPs").index(index);
            let fault = format!("{} is not configured on this cluster", family.name());
            errors.push(FieldError::invalid(&path, ips.clone(), fault));
        }
    }
    if families.len() > given {
        let families = json!(families);
        set_spec(new, "ipFamilies", families);
    }
}

fn fill_headless_without_selector(new: &mut Value, configured: ConfiguredFamilies) {
    let view = View::of(new);
    let mut families = view.ip_families();
    if families.is_empty() {
        families.push(configured.primary.name());
    }
    if families.len() < 2 && view.ip_family_policy() != Some("SingleStack") {
        families.push(
            Family::from_name(families[0])
                .unwrap_or(configured.primary)
                .other()
                .name(),
        );
    }
    let families = json!(families);
    set_spec(new, "ipFamilies", families);
}

fn check_configured(service: View<'_>, configured: ConfiguredFamilies) -> Result<(), FieldErrors> {
    let mut errors = Vec::new();
    if service.ip_family_policy() == Some("RequireDualStack") && !configured.is_dual_stack {
        errors.push(policy_error(
            service,
            "this cluster is not configured for dual-stack services".to_owned(),
        ));
    }
    for (index, name) in service.ip_families().into_iter().enumerate() {
        if !Family::from_name(name).is_some_and(|family| configured.contains(family)) {
            let path = Path::new("spec").child("ipFamilies").index(index);
            errors.push(FieldError::invalid(&path, name, "not configured on this cluster"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn fill(new: &mut Value, configured: ConfiguredFamilies) {
    let view = View::of(new);
    let mut families = view.ip_families();
    if families.is_empty() {
        families.push(configured.primary.name());
    }
    if view.ip_family_policy() != Some("SingleStack")
        && families.len() == 1
        && configured.is_dual_stack
        && let Some(first) = Family::from_name(families[0])
    {
        families.push(first.other().name());
    }
    let families = json!(families);
    set_spec(new, "ipFamilies", families);
}

fn policy_error(service: View<'_>, fault: String) -> FieldError {
    let path = Path::new("spec").child("ipFamilyPolicy");
    FieldError::invalid(&path, service.ip_family_policy().unwrap_or_default(), fault)
}

fn set_spec(service: &mut Value, field: &str, value: Value) {
    object_mut(service, "spec");
    if let Some(spec) = service.get_mut("spec") {
        set(spec, field, value);
    }
}
