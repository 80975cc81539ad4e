//! Files that only their owner may read, for keys and tokens ([`private_file`]); TLS configurations of clients.
//! Clients of probes and backends do not verify the certificates of servers.
//!
//! ```
//! # fn main() -> Result<(), rustls::Error> {
//! // A probe connects to a Pod, whose certificate is not issued for its address.
//! let tls = trust::client_config_without_verification()?;
//! assert!(tls.alpn_protocols.is_empty());
//! # Ok(())
//! # }
//! ```

pub mod private_file;
mod unverified;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, ClientConfig};

pub use unverified::AcceptAnyServerCert;

/// Returns the TLS primitives of this project's clients. AES with 128 bits comes first, as in Go's TLS, which kubectl
/// and most other clients of the API use. Watches encrypt and decrypt all day, and the shorter key costs less.
pub fn client_crypto_provider() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

/// Returns a TLS client configuration that accepts every server certificate, for backends and Pods that are probed.
///
/// # Errors
/// The error of rustls if the provider supports no common protocol version.
pub fn client_config_without_verification() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(client_crypto_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyServerCert::new(provider)))
        .with_no_client_auth();
    Ok(config)
}
