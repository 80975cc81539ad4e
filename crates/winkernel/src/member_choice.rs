//! Endpoints of one load balancer, among the endpoints that the plan chose.
//!
//! A load balancer of HNS has one port for all its endpoints. The first backend that is used determines the port, and
//! backends with another port are left out. So is a Pod of this node without an endpoint in HNS: a remote endpoint with
//! its address would take the address from the Pod. Both are reported as a [`Fault`].

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use api::object::ObjectKey;
use plan::Backend;

use crate::endpoints::EndpointIndex;
use crate::network::HnsNetwork;
use crate::schema::HnsId;

/// An endpoint of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// Endpoint of the network with this address. It may not exist yet.
    Address(IpAddr),
    /// Endpoint that exists.
    Endpoint(HnsId),
}

/// A part of a Service that HNS does not serve as the plan states.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// HNS has no endpoint for a Pod of this node; the plugin of the network creates it. The endpoint is left out.
    LocalEndpointMissing {
        /// Service.
        service: ObjectKey,
        /// Address of the Pod.
        address: IpAddr,
    },
    /// A load balancer has one port for all its endpoints. The endpoint has another one and is left out.
    OtherPort {
        /// Service.
        service: ObjectKey,
        /// Address and port of the endpoint.
        endpoint: SocketAddr,
        /// Port of the load balancer.
        expected: u16,
    },
    /// HNS does not distribute by the client's address. It distributes by connection.
    AffinityNotSupported {
        /// Service.
        service: ObjectKey,
    },
    /// HNS has no source ranges. Clients of all addresses are admitted, as with kube-proxy.
    SourceRangesNotSupported {
        /// Service.
        service: ObjectKey,
    },
    /// HNS has no port ranges. They are not served.
    PortRangesNotSupported {
        /// Service.
        service: ObjectKey,
    },
}

/// Endpoints of a load balancer.
pub(crate) struct Members {
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Port of all endpoints.
    pub(crate) port: u16,
    /// True if an endpoint is another host, or is outside of the cluster. Overlay networks need another source address
    /// for it.
    pub(crate) has_host: bool,
}

/// Inputs of the choice for one frontend.
pub(crate) struct MemberChoice<'a> {
    pub(crate) service: &'a ObjectKey,
    pub(crate) network: &'a HnsNetwork,
    pub(crate) endpoints: &'a EndpointIndex<'a>,
    /// Addresses of this node.
    pub(crate) node_ips: &'a [IpAddr],
    /// True if all backends are on this node.
    pub(crate) is_local: bool,
    /// True if only endpoints that HNS has on this node are used.
    pub(crate) excludes_remote: bool,
}

impl MemberChoice<'_> {
    /// Chooses among sorted backends; `None` if none is left. The first one determines the port.
    pub(crate) fn choose(&self, backends: &[Backend], faults: &mut BTreeSet<Fault>) -> Option<Members> {
        let mut members: Option<Members> = None;
        for backend in backends {
            let address = backend.address.ip();
            let is_remote = self.endpoints.at(address).map(|found| found.is_remote());
            match is_remote {
                Some(true) if self.excludes_remote => continue,
                None if self.is_expected_here(backend) => {
                    faults.insert(Fault::LocalEndpointMissing {
                        service: self.service.clone(),
                        address,
                    });
                    continue;
                }
                None if self.excludes_remote => continue,
                _ => {}
            }
            let port = backend.address.port();
            let members = members.get_or_insert_with(|| Members {
                addresses: BTreeSet::new(),
                port,
                has_host: false,
            });
            if members.port != port {
                faults.insert(Fault::OtherPort {
                    service: self.service.clone(),
                    endpoint: backend.address,
                    expected: members.port,
                });
                continue;
            }
            members.addresses.insert(address);
            members.has_host |= is_remote != Some(false) && self.is_host(address);
        }
        members
    }

    /// Returns true if a Pod of this node has the address. A remote endpoint with it would take it from the Pod.
    fn is_expected_here(&self, backend: &Backend) -> bool {
        let address = backend.address.ip();
        let may_be_here = self.network.may_be_local(address) || self.node_ips.contains(&address);
        self.is_local || (backend.can_be_local && may_be_here)
    }

    /// Returns true if an address is another host, or is outside of the cluster.
    fn is_host(&self, address: IpAddr) -> bool {
        self.network
            .provider_address(address)
            .is_none_or(|host| host == address)
    }
}
