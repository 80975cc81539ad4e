//! Rules of ports that Services and Endpoints share (VAL-12, VAL-13, EPV-06).

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{is_set, items_mut, number, omit_null, set, text, text_if_set};

/// Protocols of Services and endpoints.
pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Validates `port` and `protocol`, both of which are required.
pub(crate) fn validate_number_and_protocol(errors: &mut FieldErrors, port: &Value, path: &Path) {
    let value = number(port, "port");
    for fault in names::port_number(value) {
        errors.push(FieldError::invalid(&path.child("port"), value, fault));
    }
    match text(port, "protocol") {
        "" => errors.push(FieldError::required(&path.child("protocol"), "")),
        protocol if PROTOCOLS.contains(&protocol) => {}
        protocol => errors.push(FieldError::not_supported(
            &path.child("protocol"),
            protocol,
            &PROTOCOLS,
        )),
    }
}

/// Validates the optional `appProtocol`.
pub(crate) fn validate_app_protocol(errors: &mut FieldErrors, port: &Value, path: &Path) {
    if let Some(protocol) = text_if_set(port, "appProtocol") {
        let faults = names::qualified_name(protocol);
        push_faults(errors, &path.child("appProtocol"), protocol, faults);
    }
}

/// Sets the fields that each port in the status of a load balancer's address has.
pub(crate) fn complete_port_status(address: &mut Value) {
    for port in items_mut(address, "ports") {
        omit_null(port, &["error"]);
        if !is_set(port, "port") {
            set(port, "port", 0);
        }
        if !is_set(port, "protocol") {
            set(port, "protocol", "");
        }
    }
}
