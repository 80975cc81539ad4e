//! CertificateSigningRequests of nodes.

use api::certificates::{NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER, NODE_USER_PREFIX, Request};
use api::tree::{child, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Refusal;

/// Admits a new CertificateSigningRequest. With the signers of kubelets, a node requests certificates for its own
/// name only.
pub(super) fn admit(node: &str, object: &Value) -> Result<(), Refusal> {
    let spec = child(object, "spec");
    if ![NODE_SERVING_SIGNER, NODE_CLIENT_SIGNER].contains(&text(spec, "signerName")) {
        return Ok(());
    }
    let pem = STANDARD
        .decode(text(spec, "request"))
        .map_err(|error| format!("unable to parse csr: {error}"))?;
    let request = Request::parse(&pem).map_err(|error| format!("unable to parse csr: {error}"))?;
    let own = format!("{NODE_USER_PREFIX}{node}");
    if request.common_name() == Some(&own) {
        Ok(())
    } else {
        Err(format!("can only create a node CSR with CN={own}").into())
    }
}
