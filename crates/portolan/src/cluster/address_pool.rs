//! AddressPool of the flag `--load-balancer-addresses`.

use std::str::FromStr;

use api::address_pool::AddressBlock;
use api::object::{AddressPool, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde_json::json;

/// Name of the pool.
const NAME: &str = "default";

/// Value of the flag that selects the addresses of the nodes.
pub(crate) const NODES: &str = "nodes";

/// Text that is not an address block.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} {source}; examples are 192.0.2.0/28 and 192.0.2.200-192.0.2.220, or `nodes` alone")]
pub(crate) struct InvalidBlock {
    text: String,
    source: <AddressBlock as FromStr>::Err,
}

/// Checks one block of a pool's addresses, or the value [`NODES`], and returns its text.
///
/// # Errors
///
/// [`InvalidBlock`] if the text is neither a CIDR nor a range of addresses.
pub(crate) fn parse_block(text: &str) -> Result<String, InvalidBlock> {
    let text = text.trim().to_owned();
    if text == NODES {
        return Ok(text);
    }
    match text.parse::<AddressBlock>() {
        Ok(_) => Ok(text),
        Err(source) => Err(InvalidBlock { text, source }),
    }
}

/// Creates the pool, or replaces the addresses of an existing one. [`NODES`] alone selects the addresses of nodes.
///
/// # Errors
///
/// [`ClientError`] if a request fails.
pub(crate) async fn publish(client: &Client, addresses: &[String]) -> Result<(), ClientError> {
    let collection = AddressPool::collection(None);
    let spec = if addresses.iter().any(|text| text == NODES) {
        json!({"spec": {"nodeAddresses": {"type": "InternalIP"}, "addresses": null}})
    } else {
        json!({"spec": {"addresses": addresses, "nodeAddresses": null}})
    };
    let path = format!("{collection}/{NAME}");
    match client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&spec))
        .await
    {
        Err(error) if error.is_not_found() => {}
        patched => return patched.map(drop),
    }
    let mut pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": NAME},
    });
    pool["spec"] = spec["spec"].clone();
    client
        .request(Method::POST, &collection, JSON, Some(&pool))
        .await
        .map(drop)
}
