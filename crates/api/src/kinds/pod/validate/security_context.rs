//! Validation of security contexts (upstream's `ValidateSecurityContext` and `ValidatePodSecurityContext`). Users and
//! groups are in `ids`, and `sysctls` have a module of their own.

use serde_json::{Value, json};

use super::references::validate_descending_path;
use crate::kinds::pod::ALL_CONTAINER_LISTS;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, flag_if_set, is_set, items, text, text_if_set, texts};

const CONTEXT: &str = "securityContext";
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// Maximum number of bytes of the name of an AppArmor profile.
const APP_ARMOR_BYTES_MAX: usize = 4095;
/// Fields of a Pod with a value from a fixed set.
const CHOICES: [(&str, &[&str]); 3] = [
    ("fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
    // Upstream's feature gate for `MountOption` is off.
    ("seLinuxChangePolicy", &["Recursive"]),
    ("supplementalGroupsPolicy", &["Merge", "Strict"]),
];

/// Validates the security contexts of a Pod and of its containers.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let (pod_context, at) = (child(spec, CONTEXT), path.child(CONTEXT));
    for (field, allowed) in CHOICES {
        validate_choice_if_set(errors, pod_context, field, allowed, &at);
    }
    validate_profiles(errors, pod_context, &at);
    let mut runs_on_host = runs_host_process(pod_context);
    for list in ALL_CONTAINER_LISTS {
        for (index, container) in items(spec, list).iter().enumerate() {
            let path = path.child(list).index(index).child(CONTEXT);
            let context = child(container, CONTEXT);
            validate_choice_if_set(errors, context, "procMount", &["Default", "Unmasked"], &path);
            validate_escalation(errors, context, &path);
            validate_profiles(errors, context, &path);
            runs_on_host |= runs_host_process(context);
        }
    }
    if runs_on_host && flag_if_set(spec, "hostNetwork") != Some(true) {
        let fault = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(&path.child("hostNetwork"), false, fault));
    }
}

fn validate_choice_if_set(
    errors: &mut FieldErrors,
    context: &Value,
    field: &str,
    allowed: &[&str],
    path: &Path,
) {
    let value = text(context, field);
    if is_set(context, field) && !allowed.contains(&value) {
        errors.push(FieldError::not_supported(&path.child(field), value, allowed));
    }
}

fn validate_escalation(errors: &mut FieldErrors, context: &Value, path: &Path) {
    if flag_if_set(context, "allowPrivilegeEscalation") != Some(false) {
        return;
    }
    let mut reject = |right: &str| {
        let fault = format!("cannot set `allowPrivilegeEscalation` to false and {right}");
        errors.push(FieldError::invalid(path, context.clone(), fault));
    };
    if flag_if_set(context, "privileged") == Some(true) {
        reject("`privileged` to true");
    }
    if texts(child(context, "capabilities"), "add").contains(&"CAP_SYS_ADMIN") {
        reject("`capabilities.Add` CAP_SYS_ADMIN");
    }
}

fn validate_profiles(errors: &mut FieldErrors, context: &Value, path: &Path) {
    if is_set(context, "seccompProfile") {
        validate_seccomp(
            errors,
            child(context, "seccompProfile"),
            &path.child("seccompProfile"),
        );
    }
    if is_set(context, "windowsOptions") {
        validate_windows(
            errors,
            child(context, "windowsOptions"),
            &path.child("windowsOptions"),
        );
    }
    if is_set(context, "appArmorProfile") {
        validate_app_armor(
            errors,
            child(context, "appArmorProfile"),
            &path.child("appArmorProfile"),
        );
    }
}

/// Validates the type of a profile; returns false if it is invalid.
fn validate_type(errors: &mut FieldErrors, kind: &str, field: &str, path: &Path) -> bool {
    let path = path.child("type");
    if kind.is_empty() {
        let detail = format!("type is required when {field} is set");
        errors.push(FieldError::required(&path, detail));
    } else if !PROFILE_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&path, kind, &PROFILE_TYPES));
    } else {
        return true;
    }
    false
}

fn validate_seccomp(errors: &mut FieldErrors, profile: &Value, path: &Path) {
    let kind = text(profile, "type");
    if !validate_type(errors, kind, "seccompProfile", path) {
        return;
    }
    let path = path.child("localhostProfile");
    match (kind, text_if_set(profile, "localhostProfile")) {
        ("Localhost", None) => {
            let detail = "must be set when seccomp type is Localhost";
            errors.push(FieldError::required(&path, detail));
        }
        ("Localhost", Some(file)) => validate_descending_path(errors, file, &path),
        (_, Some(file)) => {
            let fault = "can only be set when seccomp type is Localhost";
            let shown = json!({"Type": kind, "LocalhostProfile": file});
            errors.push(FieldError::invalid(&path, shown, fault));
        }
        (_, None) => {}
    }
}

fn validate_app_armor(errors: &mut FieldErrors, profile: &Value, path: &Path) {
    let kind = text(profile, "type");
    if !validate_type(errors, kind, "appArmorProfile", path) {
        return;
    }
    let path = path.child("localhostProfile");
    let name = text_if_set(profile, "localhostProfile");
    if kind != "Localhost" {
        if let Some(name) = name {
            let fault = "can only be set when AppArmor type is Localhost";
            errors.push(FieldError::invalid(&path, name, fault));
        }
        return;
    }
    let name = name.unwrap_or_default();
    if name.trim() != name {
        let fault = "must not be padded with whitespace";
        errors.push(FieldError::invalid(&path, name, fault));
    } else if name.is_empty() {
        let detail = "must be set when AppArmor type is Localhost";
        errors.push(FieldError::required(&path, detail));
    }
    if name.len() > APP_ARMOR_BYTES_MAX {
        errors.push(FieldError::too_long(&path, APP_ARMOR_BYTES_MAX));
    }
}

fn validate_windows(errors: &mut FieldErrors, options: &Value, path: &Path) {
    const NAME: &str = "gmsaCredentialSpecName";
    if let Some(name) = text_if_set(options, NAME) {
        push_faults(errors, &path.child(NAME), name, names::dns_subdomain(name));
    }
    for field in ["gmsaCredentialSpec", "runAsUserName"] {
        if text_if_set(options, field) == Some("") {
            let fault = format!("{field} cannot be an empty string");
            errors.push(FieldError::invalid(&path.child(field), "", fault));
        }
    }
}

fn runs_host_process(context: &Value) -> bool {
    flag_if_set(child(context, "windowsOptions"), "hostProcess") == Some(true)
}
