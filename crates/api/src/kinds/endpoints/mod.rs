//! Rules of Endpoints and EndpointSlices: defaults, validation and warnings.

mod slice;
mod subsets;

use serde_json::Value;

use crate::machinery::tree::omit_zero;

pub use slice::{
    default_slice_on_write, prepare_slice_create, prepare_slice_update, slice_creation_warnings,
    slice_warnings, validate_slice, validate_slice_update,
};
pub use subsets::{
    default_endpoints_on_write, endpoints_warnings, validate_endpoints, validate_endpoints_update,
};

/// Drops the empty fields of the reference from an address to its object.
fn omit_empty_target(address: &mut Value) {
    let fields = [
        "kind",
        "namespace",
        "name",
        "uid",
        "apiVersion",
        "resourceVersion",
        "fieldPath",
    ];
    if let Some(target) = address.get_mut("targetRef") {
        omit_zero(target, &fields);
    }
}

#[cfg(test)]
mod tests;
