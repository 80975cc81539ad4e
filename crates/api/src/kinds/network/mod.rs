//! Rules of ServiceCIDRs and IPAddresses.

mod ip_address;
mod service_cidr;

pub use ip_address::{default_ip_address_on_write, validate_ip_address, validate_ip_address_update};
pub use service_cidr::{
    default_service_cidr_on_write, prepare_service_cidr_create, prepare_service_cidr_status_update,
    prepare_service_cidr_update, validate_service_cidr, validate_service_cidr_update,
};

#[cfg(test)]
mod tests;
