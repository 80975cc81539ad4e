//! Load balancers and endpoints that implement a plan (WIN-01).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol, Service};
use plan::{EndpointSet, Family, Frontend, FrontendKind, Origin, Plan, ServicePortPlan, Target};

use crate::balancer::{Balancer, BalancerKey, BalancerKind};
use crate::endpoints::EndpointIndex;
use crate::features::Features;
use crate::flags::FlagFacts;
use crate::mac::MacAddress;
use crate::member_choice::{Fault, Member, MemberChoice, Members};
use crate::network::{HnsNetwork, NetworkKind};
use crate::schema::{DISTRIBUTION_CONNECTION, DISTRIBUTION_SOURCE_IP};
use crate::settings::Settings;

/// Annotation of Services whose load balancer IPs stay the destination of packets: `true`.
const PRESERVE_DESTINATION_ANNOTATION: &str = "preserve-destination";

/// Returns true if a Service requests that packets keep its load balancer IP as their destination.
pub fn preserves_destination(service: &Service) -> bool {
    let value = service.metadata.annotations.get(PRESERVE_DESTINATION_ANNOTATION);
    value.is_some_and(|value| value == "true")
}

/// An endpoint that HNS lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEndpoint {
    /// Address.
    pub address: IpAddr,
    /// MAC address.
    pub mac: MacAddress,
    /// Host of a remote endpoint in an overlay network.
    pub provider_address: Option<IpAddr>,
    /// True for an endpoint on another host.
    pub is_remote: bool,
}

/// State of HNS that implements a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Endpoints that HNS lacks, local ones first.
    pub new_endpoints: Vec<NewEndpoint>,
    /// Addresses whose endpoints are in use.
    pub used_addresses: BTreeSet<IpAddr>,
    /// Load balancers.
    pub balancers: BTreeMap<BalancerKey, Balancer>,
    /// Parts of Services that are not served as the plan states.
    pub faults: BTreeSet<Fault>,
}

/// Inputs besides the plan.
pub struct Planner<'a> {
    /// Settings, which [`Settings::check`] accepts.
    pub settings: &'a Settings,
    /// Network of the Pods.
    pub network: &'a HnsNetwork,
    /// Features of HNS.
    pub features: Features,
    /// Observed endpoints.
    pub endpoints: &'a EndpointIndex<'a>,
}

impl Planner<'_> {
    /// Returns the state for a plan. `preserving` has the Services that preserve the destination
    /// ([`preserves_destination`]).
    pub fn desired(&self, plan: &Plan, preserving: &HashSet<ObjectKey>) -> Desired {
        let mut desired = Desired::default();
        let mut health_checks = Vec::new();
        for port in plan.ports() {
            if !self.settings.serves(port.key.family, self.network, self.features) {
                continue;
            }
            let preserves = preserving.contains(&port.key.service) && self.features.dsr;
            for frontend in &port.frontends {
                let Some(balancer) = self.balancer(port, frontend, preserves, &mut desired.faults) else {
                    continue;
                };
                health_checks.extend(self.health_check(plan, &balancer, preserves));
                desired.balancers.entry(balancer.key).or_insert(balancer);
            }
            self.record_faults(port, &mut desired.faults);
        }
        for port in plan.ranges() {
            let service = port.key.service.clone();
            desired.faults.insert(Fault::PortRangesNotSupported { service });
        }
        // The port of a Service precedes that of a health check.
        for check in health_checks {
            desired.balancers.entry(check.key).or_insert(check);
        }
        self.add_endpoints(plan, &mut desired);
        desired
    }

    /// Returns the load balancer of a frontend; `None` if it has no endpoint. HNS rejects and drops no packets, so that
    /// such connections are not answered.
    fn balancer(
        &self,
        port: &ServicePortPlan,
        frontend: &Frontend,
        preserves: bool,
        faults: &mut BTreeSet<Fault>,
    ) -> Option<Balancer> {
        let (kind, origin) = match frontend.kind {
            FrontendKind::ClusterIp => (BalancerKind::ClusterIp, Origin::Pod),
            FrontendKind::NodePort => (BalancerKind::NodePort, Origin::Outside),
            FrontendKind::ExternalIp => (BalancerKind::ExternalIp, Origin::Outside),
            FrontendKind::LoadBalancerIp => (BalancerKind::LoadBalancerIp, Origin::Outside),
        };
        let Target::Balance { set, .. } = frontend.target(origin) else {
            return None;
        };
        let is_local = set == EndpointSet::Local;
        let keeps_destination = matches!(kind, BalancerKind::NodePort | BalancerKind::LoadBalancerIp);
        let choice = MemberChoice {
            service: &port.key.service,
            network: self.network,
            endpoints: self.endpoints,
            node_ips: &self.settings.node_ips,
            is_local,
            excludes_remote: is_local || (preserves && keeps_destination),
        };
        let Members {
            addresses,
            port: internal_port,
            has_host,
        } = choice.choose(port.backends(set), faults)?;
        let flags = self.flags(kind, port.key.family, is_local, preserves);
        Some(Balancer {
            service: port.key.service.clone(),
            kind,
            key: BalancerKey {
                family: port.key.family,
                vip: frontend.address,
                protocol: u32::from(port.key.protocol.number()),
                port: frontend.port,
            },
            internal_port,
            members: addresses.into_iter().map(Member::Address).collect(),
            source_vip: self.source_vip(port.key.family, has_host),
            flags: flags.of_balancer(),
            mapping_flags: flags.of_mapping(),
            distribution: match port.affinity_seconds {
                Some(_) if self.features.session_affinity => DISTRIBUTION_SOURCE_IP,
                _ => DISTRIBUTION_CONNECTION,
            },
        })
    }

    fn flags(&self, kind: BalancerKind, family: Family, is_local: bool, preserves: bool) -> FlagFacts {
        FlagFacts {
            kind,
            family,
            is_local,
            preserves_destination: preserves,
            enable_dsr: self.settings.enable_dsr,
            supports_dsr: self.features.dsr,
        }
    }

    /// Returns the source address of forwarded packets. In overlay networks, other hosts answer to the node's address
    /// only.
    fn source_vip(&self, family: Family, has_host: bool) -> Option<IpAddr> {
        match self.network.kind {
            NetworkKind::Overlay if has_host => self.settings.node_ip(family),
            NetworkKind::Overlay => self.settings.source_vip,
            NetworkKind::Bridged => None,
        }
    }

    /// Returns the load balancer that forwards health checks of a load balancer IP to the host.
    fn health_check(&self, plan: &Plan, balancer: &Balancer, preserves: bool) -> Option<Balancer> {
        if balancer.kind != BalancerKind::LoadBalancerIp || !self.settings.forward_health_check_vip {
            return None;
        }
        let host = self.endpoints.named(&self.settings.root_endpoint_name)?;
        let own = plan.health_check(&balancer.service);
        let port = own.map_or(self.settings.healthz_port, |check| check.port);
        let flags = self.flags(BalancerKind::HealthCheck, balancer.key.family, false, preserves);
        Some(Balancer {
            kind: BalancerKind::HealthCheck,
            key: BalancerKey {
                protocol: u32::from(Protocol::Tcp.number()),
                port,
                ..balancer.key
            },
            internal_port: port,
            members: BTreeSet::from([Member::Endpoint(host.id.clone())]),
            flags: flags.of_balancer(),
            mapping_flags: flags.of_mapping(),
            distribution: DISTRIBUTION_CONNECTION,
            ..balancer.clone()
        })
    }

    fn record_faults(&self, port: &ServicePortPlan, faults: &mut BTreeSet<Fault>) {
        let service = &port.key.service;
        if port.affinity_seconds.is_some() && !self.features.session_affinity {
            let service = service.clone();
            faults.insert(Fault::AffinityNotSupported { service });
        }
        if port
            .frontends
            .iter()
            .any(|frontend| !frontend.source_ranges.is_empty())
        {
            let service = service.clone();
            faults.insert(Fault::SourceRangesNotSupported { service });
        }
    }

    /// Adds the endpoints of all load balancers. Adds those of an overlay network, too: its source address, and its
    /// cluster IPs as remote endpoints of this host.
    fn add_endpoints(&self, plan: &Plan, desired: &mut Desired) {
        let mut endpoints = BTreeMap::new();
        let members = desired.balancers.values().flat_map(|balancer| &balancer.members);
        for member in members {
            if let Member::Address(address) = member {
                endpoints.insert(*address, self.remote_endpoint(*address));
            }
        }
        if let (NetworkKind::Overlay, Some(mac)) = (self.network.kind, self.settings.host_mac) {
            let served = plan
                .ports()
                .filter(|port| self.settings.serves(port.key.family, self.network, self.features));
            let cluster_ips = served
                .flat_map(|port| &port.frontends)
                .filter(|frontend| frontend.kind == FrontendKind::ClusterIp);
            for address in cluster_ips.filter_map(|frontend| frontend.address) {
                endpoints.insert(
                    address,
                    NewEndpoint {
                        address,
                        mac,
                        provider_address: self.settings.node_ip(Family::of(address)),
                        is_remote: true,
                    },
                );
            }
            if let Some(address) = self.settings.source_vip {
                endpoints.insert(
                    address,
                    NewEndpoint {
                        address,
                        mac,
                        provider_address: None,
                        is_remote: false,
                    },
                );
            }
        }
        desired.used_addresses = endpoints.keys().copied().collect();
        let lacking = endpoints
            .into_values()
            .filter(|endpoint| self.endpoints.at(endpoint.address).is_none());
        desired.new_endpoints = lacking.collect();
        desired.new_endpoints.sort_by_key(|endpoint| endpoint.is_remote);
    }

    fn remote_endpoint(&self, address: IpAddr) -> NewEndpoint {
        let provider_address = match self.network.kind {
            NetworkKind::Overlay => self
                .network
                .provider_address(address)
                .or_else(|| self.settings.node_ip(Family::of(address))),
            NetworkKind::Bridged => None,
        };
        NewEndpoint {
            address,
            mac: MacAddress::of_remote_endpoint(address),
            provider_address,
            is_remote: true,
        }
    }
}

#[cfg(test)]
mod tests;
