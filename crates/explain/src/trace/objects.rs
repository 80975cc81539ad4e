//! Objects that affect the decision about a destination: the Services that claim its address or port, with their
//! slices.

use std::net::IpAddr;

use api::ip::parse_legacy;
use api::object::{EndpointSlice, ObjectKey, Service};
use plan::Plan;
use serde::Deserialize;
use serde_json::Value;

use crate::facts::service_plan::{PLACEHOLDERS, with_cluster_ip};
use crate::views;
use crate::world::World;

/// Services and slices for the plans of nodes. A frontend belongs to one of the Services that claim it, so other
/// Services do not matter.
#[derive(Debug)]
pub(super) struct Objects<'w> {
    world: &'w World,
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
    /// Services and slices that proxies cannot read.
    pub unreadable: Vec<crate::finding::ObjectName>,
}

impl<'w> Objects<'w> {
    /// Finds the Services that claim one of the addresses, or the node port. `named` is the Service of the name of
    /// the destination. Without a cluster IP, as in a manifest, it gets the one that DNS assumes.
    pub(super) fn find(
        world: &'w World,
        addresses: &[IpAddr],
        port: u16,
        named: Option<&(String, String)>,
    ) -> Self {
        let is_named = |service: &views::Service<'_>| {
            named.is_some_and(|(namespace, name)| service.namespace == *namespace && service.name == *name)
        };
        let mut found = Self {
            world,
            services: Vec::new(),
            slices: Vec::new(),
            unreadable: Vec::new(),
        };
        let services = world.services().filter(|service| !service.is_external_name());
        for service in services.filter(|service| is_named(service) || claims(*service, addresses, port)) {
            let read = if is_named(&service) {
                with_cluster_ip(service, PLACEHOLDERS[0])
            } else {
                Service::deserialize(service.tree()).ok()
            };
            let Some(mut read) = read else {
                found.unreadable.push(service.object_name());
                continue;
            };
            // An object without a namespace is in the default one.
            read.metadata.namespace.clone_from(&service.namespace);
            found.services.push(read);
            for slice in world.slices_of(service) {
                match EndpointSlice::deserialize(slice.tree()) {
                    Ok(mut read) => {
                        read.metadata.namespace.clone_from(&slice.namespace);
                        found.slices.push(read);
                    }
                    Err(_) => found.unreadable.push(slice.object_name()),
                }
            }
        }
        found
    }

    /// Returns true if no Service claims the destination.
    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty()
    }

    /// Adds the objects to the plan of a node.
    pub(super) fn fill(&self, plan: &mut Plan) {
        for service in &self.services {
            plan.apply_service(service);
        }
        for slice in &self.slices {
            plan.apply_slice(slice);
        }
        plan.take_changes();
    }

    /// Returns a Service of the input.
    pub(super) fn service(&self, key: &ObjectKey) -> Option<views::Service<'w>> {
        self.world.service(&key.namespace, &key.name)
    }

    /// Returns the slices of a Service.
    pub(super) fn slices_of<'o>(&'o self, key: &'o ObjectKey) -> impl Iterator<Item = &'o EndpointSlice> {
        self.slices.iter().filter(move |slice| {
            *slice.metadata.namespace == *key.namespace && slice.service_name() == Some(&*key.name)
        })
    }

    /// Returns the objects of the input.
    pub(super) fn world(&self) -> &'w World {
        self.world
    }
}

/// Returns true if a Service claims one of the addresses, or the node port. Addresses are read as the plan reads them.
fn claims(service: views::Service<'_>, addresses: &[IpAddr], port: u16) -> bool {
    let ingress = service.list("/status/loadBalancer/ingress").iter();
    let texts = ["/spec/clusterIPs", "/spec/externalIPs"]
        .into_iter()
        .flat_map(|list| service.list(list))
        .chain([service.at("/spec/clusterIP")])
        .chain(ingress.map(|entry| &entry["ip"]));
    let mut claimed = texts.filter_map(Value::as_str).filter_map(read_address);
    claimed.any(|address| addresses.contains(&address))
        || service.ports().iter().any(|own| own.node_port == Some(port))
}

/// Reads an address as the plan reads it: octets of IPv4 may have leading zeros.
pub(super) fn read_address(text: &str) -> Option<IpAddr> {
    text.parse()
        .ok()
        .or_else(|| parse_legacy(text).map(|legacy| legacy.address))
}
