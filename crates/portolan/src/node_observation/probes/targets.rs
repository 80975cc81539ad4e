//! Selection of the addresses, names and Pods that are probed.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use api::object::{ObjectKey, Protocol, Service, ServicePort};
use dns::wire::kind;
use explain::observation::{Link, Outcome, PodName, Probe, ProbeKind, ProbeSource, ServiceName};
use ipnet::IpNet;
use netlink::route::LinkIndex;

use super::super::cluster::{Cluster, ServiceEndpoint};

/// Maximum number of probes of one command.
const JOBS_MAX: usize = 256;
/// Maximum number of probed endpoints of each port, if the command names one Service.
const ENDPOINTS_MAX: usize = 16;
/// Maximum number of probed endpoints of each port, if the command examines all Services.
const ENDPOINTS_OF_MANY_MAX: usize = 2;
/// Maximum number of Pods on this node from which a cluster IP is probed.
const SOURCE_PODS_MAX: usize = 2;
/// Maximum number of Nodes to which the path MTU is probed.
const PATHS_MAX: usize = 4;
/// Size of a packet that each network carries: the minimum MTU of IPv6 (RFC 8200).
const SMALL_BYTES: u32 = 1_280;
/// Port of DNS.
const DNS_PORT: u16 = 53;
/// Namespace and name of the cluster DNS Service.
const DNS_SERVICE: (&str, &str) = ("kube-system", "kube-dns");
/// Part of the names of annotations for the PROXY protocol.
const PROXY_PROTOCOL: &str = "proxy-protocol";

/// Servers of clouds with credentials of the host, at addresses that are not link-local: Alibaba Cloud, Azure, Oracle
/// Cloud, and AWS (IPv6).
const CLOUD_SERVERS: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// A probe to send. The outcome of `probe` is filled in.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Probe without its outcome.
    pub probe: Probe,
    /// Packets to send.
    pub request: Request,
}

/// Packets of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// TCP connection.
    Tcp(SocketAddr),
    /// HTTP request.
    Http {
        /// Address and port.
        target: SocketAddr,
        /// Host name of the request.
        host: String,
        /// True if a header of the PROXY protocol comes first.
        has_proxy_header: bool,
    },
    /// TLS handshake.
    Tls(SocketAddr),
    /// Empty datagram.
    Udp(SocketAddr),
    /// DNS query.
    Dns {
        /// Address and port of the server.
        server: SocketAddr,
        /// Name.
        name: String,
        /// Type of the records.
        kind: u16,
    },
    /// ICMP echo request that is not fragmented.
    PathMtu {
        /// Address.
        target: IpAddr,
        /// Size of the IP packet.
        bytes: u32,
    },
    /// ARP request.
    Arp {
        /// Link.
        link: LinkIndex,
        /// Ethernet address of the link.
        own: [u8; 6],
        /// Address of this node on the link.
        requester: Ipv4Addr,
        /// Address to resolve.
        target: Ipv4Addr,
    },
}

impl Request {
    /// Returns false for targets that objects must not name. Servers of the host and of its cloud, which trust the
    /// node, listen at loopback, link-local and some other addresses. Resolvers may have such addresses.
    pub(super) fn is_permitted(&self) -> bool {
        let target = match self {
            Self::Tcp(target) | Self::Tls(target) | Self::Udp(target) | Self::Http { target, .. } => {
                target.ip()
            }
            Self::PathMtu { target, .. } => *target,
            Self::Dns { .. } | Self::Arp { .. } => return true,
        };
        let is_link_local = match target.to_canonical() {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let target = target.to_canonical();
        let is_of_cloud = is_link_local || CLOUD_SERVERS.contains(&target);
        !(is_of_cloud || target.is_loopback() || target.is_unspecified() || target.is_multicast())
    }
}

/// Facts that select probes.
#[derive(Clone, Debug)]
pub(crate) struct Selection<'a> {
    /// Objects.
    pub cluster: &'a Cluster,
    /// Name of the Node.
    pub node_name: &'a str,
    /// Domain of the cluster, such as `cluster.local`.
    pub cluster_domain: &'a str,
    /// Pods whose network namespaces are known, with the MTU of their links.
    pub pods: Vec<(PodName, u32)>,
    /// Links of the node.
    pub links: &'a [Link],
    /// Indexes and Ethernet addresses of the links, by name.
    pub ethernet: Vec<(String, LinkIndex, [u8; 6])>,
}

impl Selection<'_> {
    /// Returns the probes of the examined Services. Probes with the longest timeout come first.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        let services = self.cluster.examined();
        let is_one = services.len() == 1;
        for service in &services {
            self.add_service(service, is_one, &mut jobs);
        }
        self.add_paths(&services, &mut jobs);
        jobs.retain(|job| job.request.is_permitted());
        let mut seen = BTreeSet::new();
        jobs.retain(|job| {
            let probe = &job.probe;
            seen.insert((
                probe.kind,
                probe.from.clone(),
                probe.target.clone(),
                probe.service.clone(),
                (probe.bytes, probe.proxy_protocol, kind_of(&job.request)),
            ))
        });
        jobs.truncate(JOBS_MAX);
        jobs.sort_by_key(|job| job.probe.kind != ProbeKind::Http);
        jobs
    }

    fn add_service(&self, service: &Service, is_one: bool, jobs: &mut Vec<Job>) {
        let key = service.metadata.key();
        let name = service_name(&key);
        let endpoints = self.cluster.endpoints_of(&key);
        let most = if is_one {
            ENDPOINTS_MAX
        } else {
            ENDPOINTS_OF_MANY_MAX
        };
        for port in &service.spec.ports {
            let is_of_port = |endpoint: &&ServiceEndpoint| {
                endpoint.is_ready && endpoint.port_name == port.name && endpoint.protocol == port.protocol
            };
            let targets: Vec<&ServiceEndpoint> = endpoints.iter().filter(is_of_port).collect();
            for endpoint in targets.iter().take(most) {
                self.add_target(&name, service, port, endpoint.address, is_one, jobs);
            }
            // Without a ready endpoint, nothing answers at the addresses of the Service.
            if !targets.is_empty() {
                self.add_frontends(&name, service, port, &targets, is_one, jobs);
            }
        }
        self.add_names(&name, service, jobs);
        if is_one {
            self.add_resolutions(&name, service, jobs);
        }
    }

    /// Adds the probes of an endpoint or a frontend from this node.
    fn add_target(
        &self,
        name: &ServiceName,
        service: &Service,
        port: &ServicePort,
        target: SocketAddr,
        is_one: bool,
        jobs: &mut Vec<Job>,
    ) {
        let probe = |kind: ProbeKind| Probe {
            service: Some(name.clone()),
            ..probe(kind, ProbeSource::Node, target.to_string())
        };
        match port.protocol {
            Protocol::Tcp => {
                jobs.push(Job {
                    probe: probe(ProbeKind::Tcp),
                    request: Request::Tcp(target),
                });
                if is_one {
                    self.add_application(probe, name, service, port, target, jobs);
                }
            }
            Protocol::Udp if target.port() == DNS_PORT || port.port == DNS_PORT => jobs.push(Job {
                probe: Probe {
                    target: target.to_string(),
                    ..probe(ProbeKind::Dns)
                },
                request: Request::Dns {
                    server: target,
                    name: format!("kubernetes.default.svc.{}", self.cluster_domain),
                    kind: kind::A,
                },
            }),
            Protocol::Udp => jobs.push(Job {
                probe: probe(ProbeKind::Udp),
                request: Request::Udp(target),
            }),
            Protocol::Sctp => {}
        }
    }

    /// Adds requests of the application protocol that a port declares.
    fn add_application(
        &self,
        probe: impl Fn(ProbeKind) -> Probe,
        name: &ServiceName,
        service: &Service,
        port: &ServicePort,
        target: SocketAddr,
        jobs: &mut Vec<Job>,
    ) {
        let host = format!("{}.{}", name.name, name.namespace);
        match declared_probe_kind(port) {
            Some(ProbeKind::Http) => {
                let annotations = &service.metadata.annotations;
                let has_header = annotations.keys().any(|key| key.contains(PROXY_PROTOCOL));
                let variants: &[bool] = if has_header { &[false, true] } else { &[false] };
                jobs.extend(variants.iter().map(|has_proxy_header| Job {
                    probe: Probe {
                        server_name: Some(host.clone()),
                        proxy_protocol: has_proxy_header.then_some(true),
                        ..probe(ProbeKind::Http)
                    },
                    request: Request::Http {
                        target,
                        host: host.clone(),
                        has_proxy_header: *has_proxy_header,
                    },
                }));
            }
            Some(kind) => jobs.push(Job {
                probe: probe(kind),
                request: Request::Tls(target),
            }),
            None => {}
        }
    }

    /// Adds the cluster IPs, the load balancer IPs and the node port of a Service port.
    fn add_frontends(
        &self,
        name: &ServiceName,
        service: &Service,
        port: &ServicePort,
        targets: &[&ServiceEndpoint],
        is_one: bool,
        jobs: &mut Vec<Job>,
    ) {
        let has_family = |address: &IpAddr| {
            let mut targets = targets.iter();
            targets.any(|endpoint| endpoint.address.is_ipv4() == address.is_ipv4())
        };
        let parse = |texts: &[String]| -> Vec<IpAddr> {
            let addresses = texts.iter().filter_map(|text| text.parse().ok());
            addresses.filter(has_family).collect()
        };
        let cluster_ips = parse(&service.spec.cluster_ips);
        for address in &cluster_ips {
            let target = SocketAddr::new(*address, port.port);
            self.add_target(name, service, port, target, false, jobs);
            if is_one && port.protocol == Protocol::Tcp {
                let pods = self.pods.iter().take(SOURCE_PODS_MAX);
                jobs.extend(pods.map(|(pod, _)| Job {
                    probe: Probe {
                        service: Some(name.clone()),
                        ..probe(ProbeKind::Tcp, ProbeSource::Pod(pod.clone()), target.to_string())
                    },
                    request: Request::Tcp(target),
                }));
            }
        }
        if !is_one {
            return;
        }
        let ingress = service.status.load_balancer.ingress.iter();
        let ingress: Vec<String> = ingress.map(|entry| entry.ip.clone()).collect();
        for address in parse(&ingress) {
            self.add_target(
                name,
                service,
                port,
                SocketAddr::new(address, port.port),
                false,
                jobs,
            );
        }
        if port.node_port != 0 {
            for address in self.cluster.internal_ips(self.node_name) {
                let target = SocketAddr::new(address, port.node_port);
                self.add_target(name, service, port, target, false, jobs);
            }
        }
    }

    /// Adds DNS queries for the name of a Service to the cluster DNS.
    fn add_names(&self, name: &ServiceName, service: &Service, jobs: &mut Vec<Job>) {
        let Some(server) = self.dns_server() else { return };
        let domain_name = format!("{}.{}.svc.{}", name.name, name.namespace, self.cluster_domain);
        let families = &service.spec.ip_families;
        let types: Vec<u16> = [("IPv4", kind::A), ("IPv6", kind::AAAA)]
            .into_iter()
            .filter(|(family, _)| families.iter().any(|found| found == family))
            .map(|(_, kind)| kind)
            .collect();
        let types = if types.is_empty() { vec![kind::A] } else { types };
        jobs.extend(types.into_iter().map(|kind| Job {
            probe: Probe {
                service: Some(name.clone()),
                ..probe(ProbeKind::Dns, ProbeSource::Node, domain_name.clone())
            },
            request: Request::Dns {
                server,
                name: domain_name.clone(),
                kind,
            },
        }));
    }

    /// Returns the address of the cluster DNS.
    fn dns_server(&self) -> Option<SocketAddr> {
        let (namespace, name) = DNS_SERVICE;
        let key = ObjectKey::new(namespace, name);
        let mut services = self.cluster.services.iter();
        let service = services.find(|service| service.metadata.key() == key)?;
        let address = service.spec.cluster_ip.parse().ok()?;
        Some(SocketAddr::new(address, DNS_PORT))
    }

    /// Adds ARP requests for the load balancer IPs and external IPs in a subnet of this node.
    fn add_resolutions(&self, name: &ServiceName, service: &Service, jobs: &mut Vec<Job>) {
        let ingress = service.status.load_balancer.ingress.iter().map(|entry| &entry.ip);
        let addresses = ingress.chain(&service.spec.external_ips);
        for target in addresses.filter_map(|text| text.parse::<Ipv4Addr>().ok()) {
            let found = self.links.iter().find_map(|link| {
                let requester = requester(link, target)?;
                let mut ethernet = self.ethernet.iter();
                let (_, index, own) = ethernet.find(|(name, _, _)| *name == link.name)?;
                Some((requester, *index, *own))
            });
            let Some((requester, link, own)) = found else {
                continue;
            };
            jobs.push(Job {
                probe: Probe {
                    service: Some(name.clone()),
                    ..probe(ProbeKind::Arp, ProbeSource::Node, target.to_string())
                },
                request: Request::Arp {
                    link,
                    own,
                    requester,
                    target,
                },
            });
        }
    }

    /// Adds packets of the largest size to an endpoint, or another Pod, on each other node. A Pod sends them, because
    /// packets of Pods have this size.
    fn add_paths(&self, services: &[&Service], jobs: &mut Vec<Job>) {
        let Some((pod, mtu)) = self.pods.iter().find(|(_, mtu)| *mtu > SMALL_BYTES) else {
            return;
        };
        let service_targets = services.iter().flat_map(|service| {
            let key = service.metadata.key();
            let endpoints = self.cluster.endpoints_of(&key);
            endpoints.into_iter().filter_map(move |endpoint| {
                let is_pod = endpoint.pod.is_some() && endpoint.is_ready;
                is_pod.then(|| (endpoint.node, endpoint.address.ip(), Some(service_name(&key))))
            })
        });
        let others = self.cluster.pods.iter();
        let others = others.flat_map(|pod| {
            pod.addresses
                .iter()
                .map(|address| (pod.node.clone(), *address, None))
        });
        let others = others.filter(|_| services.len() != 1);
        let own_addresses = self.cluster.pods.iter().find(|found| found.pod == *pod);
        let own_addresses = own_addresses.map_or(&[][..], |found| &found.addresses);
        let mut nodes: BTreeSet<String> = BTreeSet::new();
        for (node, target, service) in service_targets.chain(others) {
            let has_family = own_addresses.iter().any(|own| own.is_ipv4() == target.is_ipv4());
            let is_elsewhere = !node.is_empty() && node != self.node_name;
            if !has_family || !is_elsewhere || nodes.len() >= PATHS_MAX || !nodes.insert(node) {
                continue;
            }
            jobs.extend([SMALL_BYTES, *mtu].map(|bytes| Job {
                probe: Probe {
                    service: service.clone(),
                    bytes: Some(bytes),
                    ..probe(
                        ProbeKind::PathMtu,
                        ProbeSource::Pod(pod.clone()),
                        target.to_string(),
                    )
                },
                request: Request::PathMtu { target, bytes },
            }));
        }
    }
}

/// Returns the number of the record type of a DNS query, because probes of two types have the same target.
fn kind_of(request: &Request) -> u16 {
    match request {
        Request::Dns { kind, .. } => *kind,
        _ => 0,
    }
}

/// Returns the kind of probe for the application protocol that a port declares by its name or `appProtocol`.
fn declared_probe_kind(port: &ServicePort) -> Option<ProbeKind> {
    let declared = port.app_protocol.as_deref().unwrap_or_else(|| {
        let first = port.name.split('-').next();
        first.unwrap_or_default()
    });
    match declared.to_ascii_lowercase().as_str() {
        "http" => Some(ProbeKind::Http),
        "https" | "tls" => Some(ProbeKind::Tls),
        _ => None,
    }
}

/// Returns the address of this node on a link whose subnet contains an address; `None` if the address is its own.
fn requester(link: &Link, target: Ipv4Addr) -> Option<Ipv4Addr> {
    let addresses = || link.addresses.iter().flatten();
    let is_own = addresses().any(|network| network.addr() == IpAddr::V4(target));
    let mut networks = addresses().filter_map(|network| match network {
        IpNet::V4(network) => Some(network),
        IpNet::V6(_) => None,
    });
    let found = networks.find(|network| network.prefix_len() < 32 && network.contains(&target))?;
    (!is_own && link.up == Some(true)).then(|| found.addr())
}

pub(super) fn service_name(key: &ObjectKey) -> ServiceName {
    ServiceName {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
    }
}

/// Returns a probe whose outcome is not known yet.
pub(super) fn probe(kind: ProbeKind, from: ProbeSource, target: String) -> Probe {
    Probe {
        kind,
        from,
        target,
        service: None,
        outcome: Outcome::Other,
        milliseconds: None,
        status: None,
        answers: None,
        server_name: None,
        expires: None,
        proxy_protocol: None,
        bytes: None,
        detail: None,
    }
}

#[cfg(test)]
mod tests;
