//! Validation of resource claims (upstream's `validatePodResourceClaims`).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, text};

/// Sources of a claim.
const SOURCES: [&str; 2] = ["resourceClaimName", "resourceClaimTemplateName"];

/// Validates the resource claims of a Pod at `path`, and returns their names.
pub(super) fn validate<'a>(errors: &mut FieldErrors, spec: &'a Value, path: &Path) -> HashSet<&'a str> {
    let mut known = HashSet::new();
    for (index, claim) in items(spec, "resourceClaims").iter().enumerate() {
        let (name, path) = (text(claim, "name"), path.index(index));
        let at = path.child("name");
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if known.insert(name) {
            push_faults(errors, &at, name, names::dns_label(name));
        } else {
            errors.push(FieldError::duplicate(&at, name));
        }
        validate_sources(errors, claim, &path);
    }
    known
}

fn validate_sources(errors: &mut FieldErrors, claim: &Value, path: &Path) {
    let fault = match SOURCES.iter().filter(|source| is_set(claim, source)).count() {
        0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        1 => "",
        _ => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
    };
    if !fault.is_empty() {
        // As upstream, which shows the internal type.
        let shown = json!({
            "Name": text(claim, "name"),
            "ResourceClaimName": child(claim, SOURCES[0]),
            "ResourceClaimTemplateName": child(claim, SOURCES[1]),
        });
        errors.push(FieldError::invalid(path, shown, fault));
    }
    for source in SOURCES {
        let name = text(claim, source);
        if is_set(claim, source) {
            push_faults(errors, &path.child(source), name, names::dns_subdomain(name));
        }
    }
}
