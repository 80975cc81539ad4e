//! Probes and their outcomes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::lenient_parsing::valid;
use super::socket::PodName;

/// A probe and the response to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Kind.
    pub kind: ProbeKind,
    /// Network namespace or host that sent the probe.
    pub from: ProbeSource,
    /// Address and port, such as `10.244.1.2:8080`; an address for arp, ndp, ping and path-mtu; a name for dns.
    pub target: String,
    /// Service that the target belongs to.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// Outcome.
    pub outcome: Outcome,
    /// Time until the outcome.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// Status code of an HTTP response.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Content of the response: link-layer addresses for arp and ndp, addresses for dns, names of the certificate for tls.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub answers: Option<Vec<String>>,
    /// Host name of the request of http and tls.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// RFC 3339 time of expiry of the certificate of tls.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// True if the probe sent a header of the PROXY protocol first.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<bool>,
    /// Size of the IP packet of path-mtu, which must not be fragmented.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Text for readers.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeKind {
    /// TCP connection, without data.
    Tcp,
    /// UDP datagram.
    Udp,
    /// HTTP/1.1 request.
    Http,
    /// TLS handshake.
    Tls,
    /// DNS query.
    Dns,
    /// ARP request.
    Arp,
    /// Neighbour solicitation.
    Ndp,
    /// ICMP echo request.
    Ping,
    /// ICMP echo request with [`Probe::bytes`] that must not be fragmented.
    PathMtu,
    /// Another kind.
    #[serde(other)]
    Other,
}

/// Outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A response of the expected protocol; for tcp the connection is open.
    Answered,
    /// A reset or ICMP port unreachable instead of a connection.
    Refused,
    /// No response.
    Timeout,
    /// A reset after the connection was open.
    Reset,
    /// The connection was closed without a response.
    Closed,
    /// ICMP host or network unreachable, or no route.
    Unreachable,
    /// A response of another protocol: http got TLS, tls got HTTP.
    OtherProtocol,
    /// path-mtu: ICMP reports that the packet is too large.
    TooLarge,
    /// dns: the name does not exist.
    Nxdomain,
    /// dns: the server failed.
    Servfail,
    /// Another outcome.
    #[serde(other)]
    Other,
}

/// Origin of a probe. The text form is `node`, `outside` or `pod NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeSource {
    /// Network namespace of the observed node.
    Node,
    /// Network namespace of a Pod on the observed node.
    Pod(PodName),
    /// Host outside of the cluster.
    Outside,
}

/// Namespace and name of a Service. The text form is `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Text that is not a source of a probe or name of a Service. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName(String);

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is invalid: expected NAMESPACE/NAME; for the source of a probe, node, outside or pod NAMESPACE/NAME",
            self.0
        )
    }
}

impl std::error::Error for InvalidName {}

impl Probe {
    /// Returns the address of the target, with or without a port.
    pub fn address(&self) -> Option<IpAddr> {
        let target = self.target.as_str();
        let socket = target.parse::<SocketAddr>().map(|socket| socket.ip());
        socket.ok().or_else(|| target.parse().ok())
    }

    /// Returns the port of the target.
    pub fn port(&self) -> Option<u16> {
        let socket = self.target.parse::<SocketAddr>().ok()?;
        Some(socket.port())
    }
}

impl fmt::Display for ProbeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => f.write_str("node"),
            Self::Pod(pod) => write!(f, "pod {pod}"),
            Self::Outside => f.write_str("outside"),
        }
    }
}

impl FromStr for ProbeSource {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text {
            "node" => Ok(Self::Node),
            "outside" => Ok(Self::Outside),
            _ => {
                let invalid = || InvalidName(text.to_owned());
                let pod = text.strip_prefix("pod ").ok_or_else(invalid)?;
                let (namespace, name) = pod.split_once('/').ok_or_else(invalid)?;
                Ok(Self::Pod(PodName {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                }))
            }
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ServiceName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| InvalidName(text.to_owned()))?;
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl Serialize for ProbeSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProbeSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for ServiceName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ServiceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
