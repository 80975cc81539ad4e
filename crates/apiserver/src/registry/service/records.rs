//! Allocation records in the store: an IPAddress object per address, and a key per node port.

use std::net::IpAddr;

use api::ip::Family;
use serde_json::{Value, json};
use store::{Index, Key, Write};

/// Key prefix of IPAddress objects.
pub const IP_ADDRESSES_PREFIX: &str = "/networking.k8s.io/ipaddresses/";
/// Key prefix of ServiceCIDR objects.
pub const SERVICE_CIDRS_PREFIX: &str = "/networking.k8s.io/servicecidrs/";
/// Key prefix of node port records, which no kind serves.
pub const NODE_PORTS_PREFIX: &str = "/nodeports/";

/// The Service that holds an address or port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// Returns the key of the record of an address.
pub(super) fn address_key(address: IpAddr) -> Key {
    format!("{IP_ADDRESSES_PREFIX}{address}").into()
}

/// Returns the key of the record of a node port.
pub(super) fn port_key(port: u16) -> Key {
    format!("{NODE_PORTS_PREFIX}{port}").into()
}

/// Returns the write of an address record: an IPAddress object (FAM-14 to FAM-16).
pub(super) fn put_address(address: IpAddr, holder: Holder<'_>, now: jiff::Timestamp) -> Write {
    let object = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": Family::of(address).name(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {
            "parentRef": {"resource": "services", "namespace": holder.namespace, "name": holder.name},
        },
    });
    Write::Put(address_key(address), encode(&object))
}

/// Returns the write of the record of a node port.
pub(super) fn put_port(port: u16, holder: Holder<'_>) -> Write {
    let record = json!({"service": format!("{}/{}", holder.namespace, holder.name)});
    let value = store::Value {
        bytes: record.to_string().into(),
        revision_at: None,
    };
    Write::Put(port_key(port), value)
}

/// Returns the deletion of the record of a node port.
pub(super) fn delete_port(port: u16) -> Write {
    Write::Delete {
        key: port_key(port),
        last: None,
    }
}

/// Returns the deletion of an object. Watchers receive its last state at the revision of the deletion. `None` if the
/// object does not exist.
pub(super) fn delete_object(index: &Index, key: Key) -> Option<Write> {
    let entry = index.get(&key)?;
    // An unreadable object is deleted too; its watchers see the stored bytes.
    let last = serde_json::from_slice::<Value>(&entry.value)
        .ok()
        .map(|object| encode(&object));
    Some(Write::Delete { key, last })
}

fn encode(object: &Value) -> store::Value {
    let (bytes, revision_at) = api::encode::encode(object);
    store::Value {
        bytes: bytes.into(),
        revision_at: Some(revision_at),
    }
}
