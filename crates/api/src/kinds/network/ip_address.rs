//! Rules of IPAddresses, each of which reserves an address for an object (CIDR-12, CIDR-13).

use serde_json::{Value, json};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm, push_faults};
use crate::machinery::names;
use crate::machinery::tree::{child, omit_zero, text};

/// Drops empty fields.
pub fn default_ip_address_on_write(address: &mut Value) {
    metadata::omit_empty(address);
    if let Some(parent) = address.get_mut("spec").and_then(|spec| spec.get_mut("parentRef")) {
        omit_zero(parent, &["group", "resource", "namespace", "name"]);
    }
}

/// Validates a new IPAddress.
pub fn validate_ip_address(address: &Value) -> FieldErrors {
    let mut errors = metadata::validate(address, NameForm::IpAddress, false);
    validate_parent(&mut errors, child(child(address, "spec"), "parentRef"));
    errors
}

fn validate_parent(errors: &mut FieldErrors, parent: &Value) {
    let path = Path::new("spec").child("parentRef");
    if parent.is_null() {
        errors.push(FieldError::required(&path, ""));
        return;
    }
    let group = text(parent, "group");
    if !group.is_empty() {
        push_faults(errors, &path.child("group"), group, names::dns_subdomain(group));
    }
    for (field, is_required) in [("resource", true), ("name", true), ("namespace", false)] {
        let value = text(parent, field);
        let path = path.child(field);
        if !value.is_empty() {
            push_faults(errors, &path, value, names::path_segment(value));
        } else if is_required {
            errors.push(FieldError::required(&path, ""));
        }
    }
}

/// Validates an update. The parent is immutable.
pub fn validate_ip_address_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let parent = |address| child(child(address, "spec"), "parentRef");
    validate_parent(&mut errors, parent(new));
    if parent(new) != parent(old) {
        let path = Path::new("spec").child("parentRef");
        errors.push(FieldError::invalid(
            &path,
            format_parent(parent(new)),
            "field is immutable",
        ));
    }
    errors
}

/// Returns a parent as upstream's messages show it: the internal type, with all fields.
fn format_parent(parent: &Value) -> Value {
    if parent.is_null() {
        return Value::Null;
    }
    json!({
        "Group": text(parent, "group"),
        "Resource": text(parent, "resource"),
        "Namespace": text(parent, "namespace"),
        "Name": text(parent, "name"),
    })
}
