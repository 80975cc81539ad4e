//! Frontends of a Service: addresses and ports that clients use.

use api::object::{Service, ServicePort};

use super::rows::{Frontend, FrontendKind, ServiceType};

/// Maximum number of frontends of a row: a Service with 100 ports has several hundred.
pub const FRONTENDS_MAX: usize = 100;
/// Maximum number of bytes of an address or name (RFC 1035, section 2.3.4).
const ADDRESS_BYTES_MAX: usize = 253;

/// Returns the frontends of a Service, in the order of its ports.
pub fn frontends(service: &Service) -> Vec<Frontend> {
    let spec = &service.spec;
    if ServiceType::of(&spec.kind) == ServiceType::ExternalName {
        return external_name(service);
    }
    let cluster_ips = if spec.cluster_ips.is_empty() {
        std::slice::from_ref(&spec.cluster_ip)
    } else {
        &spec.cluster_ips[..]
    };
    let cluster_ips = cluster_ips.iter().map(String::as_str);
    let cluster_ips = cluster_ips.filter(|address| !matches!(*address, "" | "None"));
    let external_ips = spec.external_ips.iter().map(String::as_str);
    let ingress = service.status.load_balancer.ingress.iter();
    let balancers = ingress.map(|entry| match entry.ip.as_str() {
        "" => entry.hostname.as_str(),
        address => address,
    });
    let addresses: Vec<(FrontendKind, &str)> = cluster_ips
        .map(|address| (FrontendKind::ClusterIp, address))
        .chain(external_ips.map(|address| (FrontendKind::ExternalIp, address)))
        .chain(balancers.map(|address| (FrontendKind::LoadBalancer, address)))
        .collect();
    let frontends_of_port = |port: &ServicePort| {
        let mut found: Vec<Frontend> = addresses
            .iter()
            .map(|(kind, address)| frontend(*kind, address, port.port, port))
            .collect();
        if port.node_port != 0 {
            found.push(frontend(FrontendKind::NodePort, "", port.node_port, port));
        }
        found
    };
    spec.ports
        .iter()
        .flat_map(frontends_of_port)
        .take(FRONTENDS_MAX)
        .collect()
}

fn external_name(service: &Service) -> Vec<Frontend> {
    let name = &service.spec.external_name;
    let frontend_of_port = |port: &ServicePort| frontend(FrontendKind::ExternalName, name, port.port, port);
    if service.spec.ports.is_empty() {
        return vec![frontend_of_port(&ServicePort::default())];
    }
    let ports = service.spec.ports.iter();
    ports.map(frontend_of_port).take(FRONTENDS_MAX).collect()
}

fn frontend(kind: FrontendKind, address: &str, number: u16, port: &ServicePort) -> Frontend {
    Frontend {
        kind,
        address: super::truncate(address, ADDRESS_BYTES_MAX).to_owned(),
        port: number,
        protocol: port.protocol.as_str(),
        port_name: super::truncate(&port.name, ADDRESS_BYTES_MAX).to_owned(),
    }
}
