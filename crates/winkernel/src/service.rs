//! The Host Networking Service.

use crate::schema::{Endpoint, HnsId, HnsVersion, LoadBalancer, Network};

/// Failures of a call.
#[derive(Debug, thiserror::Error)]
pub enum HnsError {
    /// The object does not exist.
    #[error("{call}: no such object")]
    NotFound {
        /// Function that was called.
        call: &'static str,
    },
    /// This version of HNS lacks the function.
    #[error("{call}: not implemented by this Windows")]
    NotImplemented {
        /// Function that was called.
        call: &'static str,
    },
    /// HNS refused the call. A retry may help.
    #[error("{call}: error {code:#010x}: {reason}")]
    Refused {
        /// Function that was called.
        call: &'static str,
        /// HRESULT.
        code: u32,
        /// Error record of HNS; may be empty.
        reason: String,
    },
    /// A request or response is not valid JSON of the schema.
    #[error("{call}: {source}")]
    Json {
        /// Function that was called.
        call: &'static str,
        /// Error of the decoder.
        #[source]
        source: serde_json::Error,
    },
    /// An identifier is not a GUID.
    #[error("{call}: {source}")]
    Identifier {
        /// Function that was called.
        call: &'static str,
        /// Error of the parser.
        #[source]
        source: crate::guid::GuidError,
    },
}

/// Calls of HNS. Windows implements them; tests use a model.
pub trait HostNetworkService {
    /// Returns the version.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn version(&mut self) -> Result<HnsVersion, HnsError>;

    /// Returns all networks.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn networks(&mut self) -> Result<Vec<Network>, HnsError>;

    /// Returns the endpoints of all networks.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn endpoints(&mut self) -> Result<Vec<Endpoint>, HnsError>;

    /// Returns all load balancers.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn load_balancers(&mut self) -> Result<Vec<LoadBalancer>, HnsError>;

    /// Creates an endpoint in the network that it names. Returns its identifier.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn create_endpoint(&mut self, endpoint: &Endpoint) -> Result<HnsId, HnsError>;

    /// Deletes an endpoint.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn delete_endpoint(&mut self, id: &HnsId) -> Result<(), HnsError>;

    /// Creates a load balancer. Returns its identifier.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn create_load_balancer(&mut self, balancer: &LoadBalancer) -> Result<HnsId, HnsError>;

    /// Replaces the settings of the load balancer with its identifier.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn modify_load_balancer(&mut self, balancer: &LoadBalancer) -> Result<(), HnsError>;

    /// Deletes a load balancer.
    ///
    /// # Errors
    ///
    /// The [`HnsError`] of the call.
    fn delete_load_balancer(&mut self, id: &HnsId) -> Result<(), HnsError>;
}
