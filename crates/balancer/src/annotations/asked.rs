//! What the annotations of a Service ask for, one by one, before they are put together.

use std::sync::Arc;
use std::time::Duration;

use api::selector::LabelSelector;
use edge::settings::{Alpn, Balance, LogFormat, ProxyVersion, TlsPolicy};
use ipnet::IpNet;

use super::row::{Effect, Field, Reach, Refusal};
use super::value::{PortRef, PortSet, SecretName};

/// Something that annotations say once.
#[derive(Debug)]
pub struct Slot<T>(Option<(&'static str, T)>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> Slot<T> {
    /// Takes in what an annotation says.
    pub fn put(&mut self, field: Field<'_>, value: T) -> Result<Effect, Refusal> {
        match &self.0 {
            Some((first, known)) if *known != value => Err(Refusal::Contradicts(first)),
            _ => {
                self.0 = Some((field.name, value));
                Ok(Effect::More)
            }
        }
    }

    /// Takes in what an annotation says; `plain` is what holds anyway.
    pub fn put_unless(&mut self, field: Field<'_>, value: T, plain: T) -> Result<Effect, Refusal> {
        let is_plain = value == plain;
        let effect = self.put(field, value)?;
        Ok(if is_plain { Effect::Plain } else { effect })
    }

    /// What was said.
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }

    /// Which annotation said it.
    pub fn by(&self) -> Option<&'static str> {
        self.0.as_ref().map(|(by, _)| *by)
    }
}

/// What a listener of a Service speaks, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Bytes.
    Tcp,
    /// Bytes in TLS.
    Ssl,
    /// HTTP.
    Http,
    /// HTTP in TLS.
    Https,
}

/// How a backend is asked, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// By a connection.
    Tcp,
    /// By a TLS handshake.
    Ssl,
    /// By a GET.
    Http,
    /// By a GET in TLS.
    Https,
}

/// Which clients stay with their backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sticks {
    /// None.
    Never,
    /// Those of one address.
    BySource,
    /// Those with a cookie.
    ByCookie,
}

/// Everything that can be asked for.
#[derive(Debug, Default)]
pub struct Asked {
    /// What the annotations need at most.
    pub reach: Reach,
    /// Whether a balancer is asked for that passes packets on.
    pub passes_packets: Slot<bool>,
    pub certificates: Slot<Vec<SecretName>>,
    pub tls_ports: Slot<PortSet>,
    pub tls_policy: Slot<TlsPolicy>,
    pub alpn: Slot<Alpn>,
    /// What all ports speak that nothing else is said of.
    pub speaks: Slot<Speaks>,
    /// What single ports speak, and what said so.
    pub ports_speak: Vec<(&'static str, PortRef, Speaks)>,
    pub tls_passes_through: Slot<bool>,
    pub backends_speak: Slot<Speaks>,
    pub redirects_to_https: Slot<bool>,
    pub proxy_to_backends: Slot<Option<ProxyVersion>>,
    /// The version of the PROXY protocol, where something else says whether it is spoken.
    pub proxy_version: Slot<ProxyVersion>,
    pub proxy_from: Slot<Vec<IpNet>>,
    /// Whether the Service says in its spec who may connect.
    pub has_ranges_in_spec: bool,
    pub source_ranges: Vec<IpNet>,
    /// The first annotation that gave [`Self::source_ranges`].
    pub ranges_by: Option<&'static str>,
    pub balance: Slot<Balance>,
    pub sticks: Slot<Sticks>,
    pub sticky_timeout: Slot<Duration>,
    pub cookie_name: Slot<Arc<str>>,
    pub cookie_max_age: Slot<Duration>,
    pub is_checked: Slot<bool>,
    pub check: Slot<Asks>,
    pub check_port: Slot<Option<u16>>,
    pub check_path: Slot<Arc<str>>,
    pub check_host: Slot<Arc<str>>,
    pub check_interval: Slot<Duration>,
    pub check_timeout: Slot<Duration>,
    pub check_healthy: Slot<u32>,
    pub check_unhealthy: Slot<u32>,
    pub check_statuses: Slot<Vec<(u16, u16)>>,
    pub idle_timeout: Slot<Duration>,
    pub connect_timeout: Slot<Duration>,
    pub drains: Slot<bool>,
    pub draining_timeout: Slot<Duration>,
    pub connections_max: Slot<u32>,
    pub connections_per_client: Slot<u32>,
    pub connections_per_second: Slot<u32>,
    pub received_bytes_per_second: Slot<u64>,
    pub sent_bytes_per_second: Slot<u64>,
    pub both_bytes_per_second: Slot<u64>,
    pub is_cross_zone: Slot<bool>,
    pub is_logged: Slot<bool>,
    pub log_interval: Slot<Duration>,
    pub log_bucket: Slot<Arc<str>>,
    pub log_prefix: Slot<Arc<str>>,
    pub log_format: Slot<LogFormat>,
    pub hostname: Slot<String>,
    pub nodes: Vec<LabelSelector>,
}

impl Asked {
    /// Whether packets are not enough.
    pub fn needs_edge(&self) -> bool {
        let passes_packets = self.passes_packets.get().copied().unwrap_or(false);
        self.reach >= if passes_packets { Reach::Hard } else { Reach::Soft }
    }
}
