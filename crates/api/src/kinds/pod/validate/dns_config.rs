//! Validation of the DNS configuration (upstream's `validatePodDNSConfig`).

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::tree::{child, is_set, items, text, texts};
use crate::machinery::{ip, names};

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
/// Maximum number of characters of all search paths with the spaces between them.
const SEARCH_CHARACTERS_MAX: usize = 2048;

/// Validates the DNS configuration of a Pod at `path`.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let config = child(spec, "dnsConfig");
    let nameservers = texts(config, "nameservers");
    let needs_nameserver = text(spec, "dnsPolicy") == "None";
    if needs_nameserver && !is_set(spec, "dnsConfig") {
        let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
        errors.push(FieldError::required(path, detail));
    } else if needs_nameserver && nameservers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(FieldError::required(&path.child("nameservers"), detail));
    }
    validate_nameservers(errors, nameservers, &path.child("nameservers"));
    validate_searches(errors, texts(config, "searches"), &path.child("searches"));
    for (index, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            let path = path.child("options").index(index);
            errors.push(FieldError::required(&path, "must not be empty"));
        }
    }
}

fn validate_nameservers(errors: &mut FieldErrors, nameservers: Vec<&str>, path: &Path) {
    if nameservers.len() > NAMESERVERS_MAX {
        let fault = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.push(FieldError::invalid(path, nameservers.clone(), fault));
    }
    for (index, nameserver) in nameservers.into_iter().enumerate() {
        errors.extend(ip::validate_new(&path.index(index), nameserver));
    }
}

fn validate_searches(errors: &mut FieldErrors, searches: Vec<&str>, path: &Path) {
    if searches.len() > SEARCHES_MAX {
        let fault = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.push(FieldError::invalid(path, searches.clone(), fault));
    }
    if searches.join(" ").chars().count() > SEARCH_CHARACTERS_MAX {
        let fault = format!(
            "must not have more than {SEARCH_CHARACTERS_MAX} characters (including spaces) in the search list"
        );
        errors.push(FieldError::invalid(path, searches.clone(), fault));
    }
    for (index, search) in searches.into_iter().enumerate() {
        let name = search.strip_suffix('.').unwrap_or(search);
        if search != "." {
            let faults = names::dns_subdomain_with_underscores(name);
            push_faults(errors, &path.index(index), search, faults);
        }
    }
}
