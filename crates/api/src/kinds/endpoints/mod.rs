//! Rules of Endpoints and EndpointSlices: defaults, validation and warnings.

mod slice;
mod subsets;

pub use slice::{
    default_slice_on_write, prepare_slice_create, prepare_slice_update, slice_creation_warnings,
    slice_warnings, validate_slice, validate_slice_update,
};
pub use subsets::{
    default_endpoints_on_write, endpoints_warnings, validate_endpoints, validate_endpoints_update,
};

#[cfg(test)]
mod tests;
