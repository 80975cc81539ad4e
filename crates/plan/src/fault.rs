//! Faults: parts of objects that the plan skips. It serves all other parts.

use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};

use crate::limits::{EXTERNAL_ELEMENTS_MAX, PORT_ENDPOINTS_MAX};
use crate::port_ranges::RANGE_ELEMENTS_MAX;

/// Reasons why a part of a Service is skipped. A retry does not help; a change of the object does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The cluster IP is invalid: the Service is not served in that family.
    #[error("cluster IP {value:?} is not an IP address")]
    ClusterIp {
        /// Value in the Service.
        value: String,
    },
    /// An external IP is invalid; the others are served.
    #[error("external IP {value:?} is not an IP address")]
    ExternalIp {
        /// Value in the Service.
        value: String,
    },
    /// A load balancer IP is invalid; the others are served.
    #[error("load balancer ingress IP {value:?} is not an IP address")]
    Ingress {
        /// Value in the status.
        value: String,
    },
    /// A source range is invalid. It admits no client; if it is the only range, no client is admitted.
    #[error("load balancer source range {value:?} is not a CIDR")]
    SourceRange {
        /// Value in the Service.
        value: String,
    },
    /// Addresses of a slice contradict its address type; its other endpoints are used.
    #[error(
        "slice {slice}: {count} endpoints without an address of the slice's type, the first has {value:?}"
    )]
    Endpoint {
        /// Name of the slice.
        slice: String,
        /// First invalid address.
        value: String,
        /// Number of invalid addresses.
        count: usize,
    },
    /// Another Service, or another port of this one, owns the frontend.
    #[error("{frontend} is taken by Service {by}", frontend = describe(*.address, *.port, *.protocol))]
    Conflict {
        /// Address; `None` for a node port.
        address: Option<IpAddr>,
        /// Port of the frontend.
        port: u16,
        /// Protocol of the frontend.
        protocol: Protocol,
        /// Owner of the frontend.
        by: ObjectKey,
    },
    /// Another Service owns ports of a range at an address; the range is not served there.
    #[error(
        "ports {first}-{last}/{protocol} at {address} overlap a range of Service {by}",
        protocol = .protocol.as_str()
    )]
    RangeConflict {
        /// Address.
        address: IpAddr,
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
        /// Protocol of the range.
        protocol: Protocol,
        /// Owner of the overlapping range.
        by: ObjectKey,
    },
    /// The port ranges of the Service need too many elements; none of them is served.
    #[error(
        "port ranges are not served: they need {elements} elements (ranges, times addresses, times source ranges), more than the maximum of {most}; use fewer ranges or source ranges",
        most = RANGE_ELEMENTS_MAX
    )]
    RangeElements {
        /// Number of elements.
        elements: usize,
    },
    /// The load balancer IPs and external IPs of the Service need too many elements; none of them is served.
    #[error(
        "load balancer IPs and external IPs are not served: they need {elements} elements (ports, times addresses, times source ranges), more than the maximum of {most}; use fewer of them, or several Services",
        most = EXTERNAL_ELEMENTS_MAX
    )]
    ExternalElements {
        /// Number of elements.
        elements: usize,
    },
    /// The ports of the Service have too many endpoints together; the last ports are served without endpoints.
    #[error(
        "{ports} ports are served without endpoints: the ports of the Service have more than {most} endpoints together; use fewer ports or endpoints, or several Services",
        most = PORT_ENDPOINTS_MAX
    )]
    PortEndpoints {
        /// Number of ports without endpoints, counted for each family.
        ports: usize,
    },
    /// An external address is one of a node: port ranges would take its ports away from the node.
    #[error(
        "port ranges are not served at {address}, which is an address of a node; use an address that no node has"
    )]
    RangeAtNode {
        /// Address.
        address: IpAddr,
    },
    /// The value of a Portolan annotation is invalid; it is ignored.
    #[error("annotation {name} is {value:?} and has no effect; expected {expected}", expected = expected_value(.name))]
    Annotation {
        /// Name of the annotation.
        name: &'static str,
        /// Value of the annotation.
        value: String,
    },
    /// A load balancer with external policy Local has no health check node port (KPR-20).
    #[error("externalTrafficPolicy is Local and healthCheckNodePort is not set: no health check is answered")]
    NoHealthCheckPort,
}

/// Describes the values of an annotation.
fn expected_value(name: &str) -> &'static str {
    match name.rsplit('/').next().unwrap_or_default() {
        "scheduler" => "the name of a scheduler, such as random, rr, lc or maglev",
        "drain-seconds" => "a number of seconds",
        "max-connection-age-seconds" => "a number of seconds, at least 10",
        "keep-unready-flows" | "two-tier-forwarding" | "two-tier-forwarding-from-pool" => "true or false",
        "rebalance-percent" => "a number from 1 to 100",
        "port-ranges" => "at most 128 ranges such as 5060-5160/UDP,7000/TCP, or all",
        _ => "another value",
    }
}

fn describe(address: Option<IpAddr>, port: u16, protocol: Protocol) -> String {
    let protocol = protocol.as_str();
    match address {
        Some(address) => format!("{} {protocol}", std::net::SocketAddr::new(address, port)),
        None => format!("node port {port} {protocol}"),
    }
}
