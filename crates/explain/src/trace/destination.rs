//! Destination of a connection, as a URL.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use api::object::Protocol;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// Maximum number of bytes of a name (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;
/// Maximum number of bytes of a label (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// Schemes with their protocol and default port.
const SCHEMES: [(&str, Protocol, Option<u16>); 6] = [
    ("tcp", Protocol::Tcp, None),
    ("udp", Protocol::Udp, None),
    ("sctp", Protocol::Sctp, None),
    ("http", Protocol::Tcp, Some(80)),
    ("https", Protocol::Tcp, Some(443)),
    (PING, Protocol::Tcp, Some(0)),
];
/// Scheme of echo requests, which have no port and no transport protocol.
const PING: &str = "ping";

/// Host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// Name in lower case. A final dot stays: such a name is complete.
    Name(String),
    /// Address.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Destination of a connection: `tcp://web.shop:80`, `udp://10.96.0.10:53`, `https://[2001:db8::1]/`; or of echo requests:
/// `ping://web.shop`.
///
/// ```
/// use explain::trace::Destination;
///
/// let destination: Destination = "http://web.shop/cart".parse()?;
/// assert_eq!(destination.port, 80);
/// assert_eq!(destination.to_string(), "http://web.shop:80");
/// # Ok::<(), explain::trace::InvalidDestination>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    scheme: &'static str,
    /// Transport protocol; without a meaning for echo requests.
    pub protocol: Protocol,
    /// Host.
    pub host: Host,
    /// Port; 0 for echo requests.
    pub port: u16,
}

/// Text that is not the URL of a destination. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDestination {
    text: String,
    expected: &'static str,
}

impl fmt::Display for InvalidDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, expected } = self;
        write!(f, "{text:?} is not a destination: expected {expected}")
    }
}

impl std::error::Error for InvalidDestination {}

impl FromStr for Destination {
    type Err = InvalidDestination;

    fn from_str(text: &str) -> Result<Self, InvalidDestination> {
        let invalid = |expected| InvalidDestination {
            text: text.to_owned(),
            expected,
        };
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| invalid("a URL such as tcp://web.shop:80"))?;
        let (scheme, protocol, default_port) = SCHEMES
            .into_iter()
            .find(|(name, ..)| name.eq_ignore_ascii_case(scheme))
            .ok_or_else(|| invalid("the scheme tcp, udp, sctp, http, https or ping"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = split_port(authority).ok_or_else(|| invalid("an IPv6 address in brackets"))?;
        let port = match port {
            Some(_) if scheme == PING => {
                return Err(invalid("no port after the host, because ping has none"));
            }
            Some(text) => text.parse().ok().filter(|port| *port != 0),
            None => default_port,
        };
        let port = port.ok_or_else(|| invalid("a port from 1 to 65535 after the host"))?;
        let host = read_host(host)
            .ok_or_else(|| invalid("a host name, an IPv4 address, or an IPv6 address in brackets"))?;
        Ok(Self {
            scheme,
            protocol,
            host,
            port,
        })
    }
}

/// Returns host and port of an authority. Brackets stay; `None` if a bracket is not closed.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if !authority.starts_with('[') {
        return Some(match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        });
    }
    let end = authority.find(']')? + 1;
    let (host, rest) = authority.split_at(end);
    match rest.strip_prefix(':') {
        Some(port) => Some((host, Some(port))),
        None => rest.is_empty().then_some((host, None)),
    }
}

fn read_host(text: &str) -> Option<Host> {
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return Some(Host::Address(IpAddr::V6(address.parse().ok()?)));
    }
    if let Ok(address) = text.parse() {
        return Some(Host::Address(IpAddr::V4(address)));
    }
    is_name(text).then(|| Host::Name(text.to_ascii_lowercase()))
}

/// Returns true if a text is a name that resolvers send. A name of digits and dots is an address with an error.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(is_name_byte)
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_address = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    name.len() <= NAME_BYTES_MAX && !is_address && name.split('.').all(is_label)
}

impl Destination {
    /// Returns true for echo requests.
    pub fn is_ping(&self) -> bool {
        self.scheme == PING
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, port) = (self.scheme, self.port);
        match &self.host {
            Host::Address(IpAddr::V6(address)) if self.is_ping() => write!(f, "{scheme}://[{address}]"),
            host if self.is_ping() => write!(f, "{scheme}://{host}"),
            Host::Name(name) => write!(f, "{scheme}://{name}:{port}"),
            Host::Address(address) => write!(f, "{scheme}://{}", SocketAddr::new(*address, port)),
        }
    }
}

/// The form has the fields `url`, `protocol`, `host` and `port`.
impl Serialize for Destination {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Destination", 4)?;
        fields.serialize_field("url", &self.to_string())?;
        let protocol = if self.is_ping() {
            "ICMP"
        } else {
            self.protocol.as_str()
        };
        fields.serialize_field("protocol", protocol)?;
        fields.serialize_field("host", &self.host.to_string())?;
        fields.serialize_field("port", &self.port)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests;
