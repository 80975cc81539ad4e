//! Rules of ports that Services and Endpoints share (VAL-12, VAL-13, EPV-06).

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{number, text, text_if_set};

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
