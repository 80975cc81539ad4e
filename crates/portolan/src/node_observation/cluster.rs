//! Objects of the cluster that select what is observed: addresses of Services, Pods, endpoints.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use api::object::{EndpointSlice, Node, ObjectKey, Pod, Protocol, Service, ServiceCidr};
use explain::observation::PodName;
use explain::{Kind, WorldBuilder};
use serde::de::DeserializeOwned;

/// Namespace of objects without one, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// Objects of the cluster. An invalid object is left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    /// Services.
    pub services: Vec<Service>,
    /// Service that the command names; `None` for all.
    pub service: Option<ObjectKey>,
    /// EndpointSlices of all Services.
    pub slices: Vec<EndpointSlice>,
    /// Pods with an address of their own.
    pub pods: Vec<PodAddresses>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// ServiceCIDRs.
    pub service_cidrs: Vec<ServiceCidr>,
    /// True if the objects contain Services.
    pub has_services: bool,
}

/// A Pod with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodAddresses {
    /// Namespace and name.
    pub pod: PodName,
    /// Node of the Pod; "" if it has none.
    pub node: String,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
}

impl Cluster {
    /// Reads the objects. `service` is the Service that the command names.
    pub(crate) fn read(builder: &WorldBuilder, service: Option<&ObjectKey>) -> Self {
        let mut services: Vec<Service> = objects(builder, Kind::Service);
        for service in &mut services {
            default_namespace(&mut service.metadata.namespace);
        }
        let mut slices: Vec<EndpointSlice> = objects(builder, Kind::EndpointSlice);
        for slice in &mut slices {
            default_namespace(&mut slice.metadata.namespace);
        }
        let pods: Vec<Pod> = objects(builder, Kind::Pod);
        Self {
            services,
            service: service.cloned(),
            slices,
            pods: pods.into_iter().filter_map(addresses_of).collect(),
            nodes: objects(builder, Kind::Node),
            service_cidrs: objects(builder, Kind::ServiceCidr),
            has_services: builder.has(Kind::Service),
        }
    }

    /// Returns the Node with a name.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.metadata.name == name)
    }

    /// Returns the internal addresses of a Node.
    pub(crate) fn internal_ips(&self, node_name: &str) -> Vec<IpAddr> {
        let addresses = self
            .node(node_name)
            .into_iter()
            .flat_map(|node| &node.status.addresses);
        let internal = addresses.filter(|address| address.kind == "InternalIP");
        internal
            .filter_map(|address| address.address.parse().ok())
            .collect()
    }

    /// Returns the examined Services: the one that the command names, or all.
    pub(crate) fn examined(&self) -> Vec<&Service> {
        let is_examined = |found: &&Service| {
            let name = self.service.as_ref();
            name.is_none_or(|name| found.metadata.key() == *name)
        };
        self.services.iter().filter(is_examined).collect()
    }

    /// Returns the endpoints of a Service, by port and address.
    pub(crate) fn endpoints_of(&self, service: &ObjectKey) -> Vec<ServiceEndpoint> {
        let is_of_service = |slice: &&EndpointSlice| {
            *slice.metadata.namespace == *service.namespace && slice.service_name() == Some(&*service.name)
        };
        self.slices
            .iter()
            .filter(is_of_service)
            .flat_map(endpoints)
            .collect()
    }

    /// Returns the address and port of each endpoint of all Services.
    pub(crate) fn endpoint_addresses(&self) -> HashSet<SocketAddr> {
        let all = self.slices.iter().flat_map(endpoints);
        all.map(|endpoint| endpoint.address).collect()
    }
}

/// An endpoint of a port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEndpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// Name of the Service port.
    pub port_name: String,
    /// Protocol of the port.
    pub protocol: Protocol,
    /// True if the endpoint should serve connections.
    pub is_ready: bool,
    /// Node of the endpoint; "" if it is unknown.
    pub node: String,
    /// Pod of the endpoint.
    pub pod: Option<PodName>,
}

fn endpoints(slice: &EndpointSlice) -> impl Iterator<Item = ServiceEndpoint> + '_ {
    slice.endpoints.iter().flat_map(move |endpoint| {
        let address = endpoint.addresses.first();
        let address = address.and_then(|address| address.parse::<IpAddr>().ok());
        let reference = endpoint
            .target_ref
            .as_ref()
            .filter(|reference| &*reference.kind == "Pod");
        slice.ports.iter().filter_map(move |port| {
            Some(ServiceEndpoint {
                address: SocketAddr::new(address?, port.port?),
                port_name: port.name.clone().unwrap_or_default(),
                protocol: port.protocol.unwrap_or_default(),
                is_ready: endpoint.conditions.ready.unwrap_or(true),
                node: endpoint.node_name.as_deref().unwrap_or_default().to_owned(),
                pod: reference.map(|reference| PodName {
                    namespace: slice.metadata.namespace.clone(),
                    name: reference.name.to_string(),
                }),
            })
        })
    })
}

/// Returns the addresses of a Service: cluster IPs, external IPs, load balancer IPs.
pub(super) fn frontend_addresses(service: &Service) -> Vec<IpAddr> {
    let spec = &service.spec;
    let ingress = &service.status.load_balancer.ingress;
    let texts = spec
        .cluster_ips
        .iter()
        .chain([&spec.cluster_ip])
        .chain(&spec.external_ips)
        .chain(ingress.iter().map(|entry| &entry.ip));
    let mut addresses: Vec<IpAddr> = texts.filter_map(|text| text.parse().ok()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn objects<T: DeserializeOwned>(builder: &WorldBuilder, kind: Kind) -> Vec<T> {
    let trees = builder.trees(kind);
    trees.filter_map(|tree| T::deserialize(tree).ok()).collect()
}

fn addresses_of(pod: Pod) -> Option<PodAddresses> {
    if pod.spec.host_network || pod.is_finished() {
        return None;
    }
    let texts = pod.status.pod_ips.iter().map(|entry| &entry.ip);
    let texts = texts.chain([&pod.status.pod_ip]);
    let mut addresses: Vec<IpAddr> = texts.filter_map(|text| text.parse().ok()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut namespace = pod.metadata.namespace;
    default_namespace(&mut namespace);
    (!addresses.is_empty()).then_some(PodAddresses {
        pod: PodName {
            namespace,
            name: pod.metadata.name,
        },
        node: pod.spec.node_name,
        addresses,
    })
}

fn default_namespace(namespace: &mut String) {
    if namespace.is_empty() {
        DEFAULT_NAMESPACE.clone_into(namespace);
    }
}

#[cfg(test)]
mod tests;
