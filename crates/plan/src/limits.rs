//! Limits of one Service, which [`crate::Fault`] names.

/// Maximum number of endpoints of a Service in one family, added up over its ports. A slice can have 1,000 endpoints
/// with 20,000 ports each, which would exhaust the memory of every node.
pub(crate) const PORT_ENDPOINTS_MAX: usize = 500_000;

/// Maximum number of elements of a Service at load balancer IPs and external IPs. An element is a port at an address,
/// at load balancer IPs for one source range. The lists of an object of a megabyte can make a billion.
pub(crate) const EXTERNAL_ELEMENTS_MAX: usize = 65_536;
