//! Validation of sysctls (upstream's `validateSysctls`).

use std::collections::HashSet;

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, flag_if_set, items, text};

/// Maximum number of bytes of a name.
const NAME_BYTES_MAX: usize = 253;
/// Form of a name, in messages.
const FORM: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// Prefixes of sysctls in the IPC namespace.
const IPC_PREFIXES: [&str; 4] = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];

/// Validates the sysctls of a Pod.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let path = path.child("securityContext").child("sysctls");
    let mut seen = HashSet::new();
    for (index, sysctl) in items(child(spec, "securityContext"), "sysctls")
        .iter()
        .enumerate()
    {
        let (name, path) = (text(sysctl, "name"), path.index(index).child("name"));
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !is_name(name) {
            let fault = format!("must have at most {NAME_BYTES_MAX} characters and match regex {FORM}");
            errors.push(FieldError::invalid(&path, name, fault));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        let dotted = name.replace('/', ".");
        let shares = |field: &str| flag_if_set(spec, field) == Some(true);
        let shared = if dotted.starts_with("net.") && shares("hostNetwork") {
            "hostNetwork"
        } else if IPC_PREFIXES.iter().any(|prefix| dotted.starts_with(prefix)) && shares("hostIPC") {
            "hostIPC"
        } else {
            continue;
        };
        let fault = format!("may not be specified when '{shared}' is true");
        errors.push(FieldError::invalid(&path, name, fault));
    }
}

fn is_name(name: &str) -> bool {
    let is_alphanumeric =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        is_alphanumeric(bytes.first())
            && is_alphanumeric(bytes.last())
            && bytes
                .iter()
                .all(|byte| is_alphanumeric(Some(byte)) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= NAME_BYTES_MAX && name.split(['.', '/']).all(is_segment)
}
