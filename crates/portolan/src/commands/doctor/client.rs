//! Client whose connections the findings concern.

use std::net::IpAddr;

use api::object::ObjectKey;
use explain::trace::ClientName;
use explain::{Kind, WorldBuilder};
use serde_json::Value;

use crate::error::UsageError;

/// Client whose connections the findings concern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExaminedClient {
    /// Node on which its connections begin; `None` for all nodes.
    pub node: Option<String>,
    /// Pod from which probes are sent; `None` for processes of the node, and for Pods in its network.
    pub pod: Option<ObjectKey>,
}

impl ExaminedClient {
    /// Returns a client on a node; `None` for all nodes.
    pub(super) fn on(node: Option<String>) -> Self {
        Self { node, pod: None }
    }

    /// Finds a client among the objects. An address of a Pod or Node stands for that Pod or Node.
    ///
    /// # Errors
    ///
    /// A [`UsageError`] if the objects do not have the client, or it runs on no node.
    pub(super) fn find(objects: &WorldBuilder, requested: &ClientName) -> Result<Self, UsageError> {
        let absent = || UsageError(format!("--from: the input has no {requested}"));
        match requested {
            ClientName::Pod { namespace, name } => {
                let is_wanted = |pod: &&Value| namespace_of(pod) == namespace && name_of(pod) == name;
                let pod = objects.trees(Kind::Pod).find(is_wanted).ok_or_else(absent)?;
                Self::of_pod(pod).ok_or_else(|| UsageError(format!("--from: {requested} runs on no node yet")))
            }
            ClientName::Node(name) => {
                let mut nodes = objects.trees(Kind::Node);
                let node = nodes.find(|node| name_of(node) == name).ok_or_else(absent)?;
                Ok(Self::on(Some(name_of(node).to_owned())))
            }
            ClientName::Address(address) => Self::at(objects, *address).ok_or_else(|| {
                UsageError(format!(
                    "--from: no Pod and no Node has the address {address}; for a client outside of the cluster, name the \
                     node that its packets reach with --node"
                ))
            }),
        }
    }

    fn of_pod(pod: &Value) -> Option<Self> {
        let node = text(pod, "/spec/nodeName");
        let has_own_network = pod.pointer("/spec/hostNetwork") != Some(&Value::Bool(true));
        (!node.is_empty()).then(|| Self {
            node: Some(node.to_owned()),
            pod: has_own_network.then(|| ObjectKey::new(namespace_of(pod), name_of(pod))),
        })
    }

    fn at(objects: &WorldBuilder, address: IpAddr) -> Option<Self> {
        let is_active = |pod: &Value| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let mut pods = objects.trees(Kind::Pod).filter(|pod| is_active(pod));
        let found = pods.find_map(|pod| {
            let client = Self::of_pod(pod)?;
            let has_address = addresses(pod, "/status/podIPs", "ip").any(|own| own == address);
            (client.pod.is_some() && has_address).then_some(client)
        });
        found.or_else(|| {
            let mut nodes = objects.trees(Kind::Node);
            let node = nodes
                .find(|node| addresses(node, "/status/addresses", "address").any(|own| own == address))?;
            Some(Self::on(Some(name_of(node).to_owned())))
        })
    }
}

fn text<'t>(tree: &'t Value, pointer: &str) -> &'t str {
    tree.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn name_of(tree: &Value) -> &str {
    text(tree, "/metadata/name")
}

/// Returns the namespace of an object; objects without one are in `default`, as for kubectl.
fn namespace_of(tree: &Value) -> &str {
    match text(tree, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    }
}

/// Returns the addresses in a list of objects.
fn addresses<'t>(tree: &'t Value, list: &str, field: &'t str) -> impl Iterator<Item = IpAddr> + 't {
    let entries = tree.pointer(list).and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(move |entry| entry[field].as_str()?.parse().ok())
}

#[cfg(test)]
mod tests;
