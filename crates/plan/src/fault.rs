//! What cannot be used of an object, while the rest of it and all others go on.

use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};

/// Why a part of a Service is skipped. Trying again does not help; a change of the object does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The cluster IP is not an address: the Service is not served in that family.
    #[error("cluster IP {value:?} is not an IP address")]
    ClusterIp {
        /// What the Service says.
        value: String,
    },
    /// An external IP is not an address; the others are served.
    #[error("external IP {value:?} is not an IP address")]
    ExternalIp {
        /// What the Service says.
        value: String,
    },
    /// A load balancer ingress address is not an address; the others are served.
    #[error("load balancer ingress IP {value:?} is not an IP address")]
    Ingress {
        /// What the status says.
        value: String,
    },
    /// A source range is not a range. It lets nobody in; if it is the only one, nobody gets in.
    #[error("load balancer source range {value:?} is not a CIDR")]
    SourceRange {
        /// What the Service says.
        value: String,
    },
    /// Addresses of a slice are not of its address type; its other endpoints are used.
    #[error(
        "slice {slice}: {count} endpoints without an address of the slice's type, the first has {value:?}"
    )]
    Endpoint {
        /// The slice.
        slice: String,
        /// The first bad address.
        value: String,
        /// How many there are.
        count: usize,
    },
    /// Another Service, or another port of this one, had the same frontend first.
    #[error("{frontend} is taken by Service {by}", frontend = describe(*.address, *.port, *.protocol))]
    Taken {
        /// The address; `None` for a node port.
        address: Option<IpAddr>,
        /// The port.
        port: u16,
        /// The protocol.
        protocol: Protocol,
        /// Who has it.
        by: ObjectKey,
    },
    /// An annotation of ours cannot be read; it is as if it were not there.
    #[error("annotation {name} is {value:?}, which is not understood")]
    Annotation {
        /// Which.
        name: &'static str,
        /// What it says.
        value: String,
    },
    /// A load balancer with external policy Local has no health check node port (KPR-20).
    #[error("externalTrafficPolicy is Local and healthCheckNodePort is not set: no health check is answered")]
    NoHealthCheckPort,
}

fn describe(address: Option<IpAddr>, port: u16, protocol: Protocol) -> String {
    let protocol = protocol.as_str();
    match address {
        Some(address) => format!("{} {protocol}", std::net::SocketAddr::new(address, port)),
        None => format!("node port {port} {protocol}"),
    }
}
