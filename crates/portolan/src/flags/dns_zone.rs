//! Zone, forwarding and cache of the DNS server.

use std::net::{IpAddr, SocketAddr};

use clap::{Args, ValueEnum};
use dns::forward::{CacheSettings, Policy, Protocol, QueryCase, StubZone};
use dns::records::PodNames;
use dns::wire::Name;

use crate::error::{InvalidValue, UsageError};

/// File with the resolvers of this host.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Flags of the zone, forwarding and cache of the DNS server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "DNS zone")]
pub(crate) struct DnsZoneFlags {
    /// Zone of the cluster
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    pub cluster_domain: String,
    /// Zone of the Services that the clusters of a set export, such as clusterset.local [default: none]
    #[arg(long, value_name = "DOMAIN")]
    pub clusterset_domain: Option<String>,
    /// TTL of records in seconds, 0 to 3600
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub ttl: u32,
    /// Pod records: disabled, insecure (any address) or verified (existing Pods; watches Pods)
    #[arg(
        long,
        default_value = "insecure",
        value_name = "MODE",
        hide_possible_values = true
    )]
    pub pods: PodMode,
    /// Name endpoints without a host name after their Pods
    #[arg(long)]
    pub endpoint_pod_names: bool,
    /// Namespaces to serve [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub namespaces: Vec<String>,
    /// Try the search list of a Pod in the server: one query instead of five; watches Pods; up, join: always with
    /// --node-local
    #[arg(long)]
    pub server_side_search: bool,
    /// Resolvers for names outside the zone; empty for none [default: those of /etc/resolv.conf]
    #[arg(
        long,
        help_heading = "DNS forwarding and cache",
        value_delimiter = ',',
        value_name = "ADDRESS[:PORT]"
    )]
    pub forward: Option<Vec<String>>,
    /// Resolvers for another zone; can be repeated
    #[arg(
        long,
        help_heading = "DNS forwarding and cache",
        value_name = "ZONE=ADDRESS[:PORT],…"
    )]
    pub stub: Vec<String>,
    /// Order of the resolvers
    #[arg(
        long,
        help_heading = "DNS forwarding and cache",
        default_value = "random",
        value_name = "POLICY"
    )]
    pub forward_policy: ForwardPolicy,
    /// Query resolvers over TCP only
    #[arg(long, help_heading = "DNS forwarding and cache")]
    pub forward_force_tcp: bool,
    /// Keep the case of query names, for resolvers that change it and lack TCP; random case resists forgery
    #[arg(long, help_heading = "DNS forwarding and cache")]
    pub forward_keep_case: bool,
    /// Maximum number of concurrent queries to resolvers
    #[arg(long, help_heading = "DNS forwarding and cache", default_value_t = dns::forward::OPEN_QUERIES_MAX, value_name = "N", value_parser = concurrent_queries)]
    pub forward_max_concurrent: usize,
    /// Size of the cache in MiB; 0 disables it
    #[arg(
        long,
        help_heading = "DNS forwarding and cache",
        default_value_t = 32,
        value_name = "MIB"
    )]
    pub cache_size: usize,
    /// Maximum seconds to cache responses with records
    #[arg(
        long,
        help_heading = "DNS forwarding and cache",
        default_value_t = 3_600,
        value_name = "SECONDS"
    )]
    pub cache_success_ttl: u32,
    /// Maximum seconds to cache responses without records
    #[arg(
        long,
        help_heading = "DNS forwarding and cache",
        default_value_t = 1_800,
        value_name = "SECONDS"
    )]
    pub cache_denial_ttl: u32,
    /// Seconds to serve expired responses while resolvers fail (RFC 8767); 0 disables this
    #[arg(
        long,
        help_heading = "DNS forwarding and cache",
        default_value_t = 3_600,
        value_name = "SECONDS"
    )]
    pub cache_serve_stale: u32,
    /// Do not refresh frequently queried names before they expire
    #[arg(long, help_heading = "DNS forwarding and cache")]
    pub cache_no_prefetch: bool,
}

/// Records of Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PodMode {
    /// No records
    Disabled,
    /// Any address in an existing namespace
    Insecure,
    /// Addresses of existing Pods
    Verified,
}

/// Order of the resolvers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ForwardPolicy {
    /// Random order
    Random,
    /// Each resolver in turn
    RoundRobin,
    /// Order of the flag
    Sequential,
}

impl DnsZoneFlags {
    /// Returns the configuration of a DNS server with these listen addresses.
    ///
    /// # Errors
    ///
    /// [`UsageError`] that names the flag.
    pub(crate) fn config(&self, listen: Vec<SocketAddr>) -> Result<dns::Config, UsageError> {
        let domain = domain("--cluster-domain", &self.cluster_domain)?;
        let mut config = dns::Config::new(listen, domain);
        if let Some(text) = &self.clusterset_domain {
            let clusterset_domain = self::domain("--clusterset-domain", text)?;
            if clusterset_domain.is_within(&domain) || domain.is_within(&clusterset_domain) {
                return Err(UsageError(format!(
                    "expected zones that do not overlap, found --clusterset-domain {text:?} and --cluster-domain {:?}; use for example clusterset.local",
                    self.cluster_domain
                )));
            }
            config.clusterset_domain = Some(clusterset_domain);
        }
        config.upstreams = match &self.forward {
            None => dns::Upstreams::ResolvConf(RESOLV_CONF.into()),
            Some(texts) => {
                dns::Upstreams::Addresses(resolvers("--forward", texts.iter().map(String::as_str))?)
            }
        };
        config.stubs = self
            .stub
            .iter()
            .map(|text| stub_zone(text))
            .collect::<Result<_, _>>()?;
        config.ttl_seconds = self.ttl;
        config.pods = match self.pods {
            PodMode::Disabled => PodNames::Disabled,
            PodMode::Insecure => PodNames::Insecure,
            PodMode::Verified => PodNames::Verified,
        };
        config.endpoint_pod_names = self.endpoint_pod_names;
        config.namespaces.clone_from(&self.namespaces);
        config.server_side_search = self.server_side_search;
        config.forward_policy = match self.forward_policy {
            ForwardPolicy::Random => Policy::Random,
            ForwardPolicy::RoundRobin => Policy::RoundRobin,
            ForwardPolicy::Sequential => Policy::Sequential,
        };
        if self.forward_force_tcp {
            config.forward_protocol = Protocol::Tcp;
        }
        if self.forward_keep_case {
            config.forward_query_case = QueryCase::Client;
        }
        config.forward_open_queries_max = self.forward_max_concurrent;
        config.cache = CacheSettings {
            bytes_max: self.cache_size << 20,
            success_seconds_max: self.cache_success_ttl,
            denial_seconds_max: self.cache_denial_ttl,
            stale_seconds_max: self.cache_serve_stale,
            prefetch: !self.cache_no_prefetch,
        };
        Ok(config)
    }
}

/// Parses the domain of a zone, in lower case.
fn domain(flag: &str, text: &str) -> Result<Name, UsageError> {
    let name = Name::from_text(text).map_err(|error| UsageError(format!("{flag} {text:?}: {error}")))?;
    if name == Name::ROOT {
        return Err(UsageError(format!(
            "{flag} is empty; name a domain such as cluster.local"
        )));
    }
    Ok(name.to_lower())
}

fn concurrent_queries(text: &str) -> Result<usize, InvalidValue> {
    let number = text.parse().ok().filter(|number| (1..=100_000).contains(number));
    number.ok_or_else(|| InvalidValue::new(text, "a number from 1 to 100000"))
}

/// Parses a zone with its resolvers.
fn stub_zone(text: &str) -> Result<StubZone, UsageError> {
    let invalid = || {
        UsageError(format!(
            "--stub {text:?} is not ZONE=ADDRESS[:PORT],…; an example is corp.example=192.0.2.53"
        ))
    };
    let (zone, addresses) = text.split_once('=').ok_or_else(invalid)?;
    let zone = Name::from_text(zone).map_err(|_| invalid())?;
    let upstreams = resolvers("--stub", addresses.split(','))?;
    if zone == Name::ROOT || upstreams.is_empty() {
        return Err(invalid());
    }
    Ok(StubZone { zone, upstreams })
}

fn resolvers<'t>(flag: &str, texts: impl Iterator<Item = &'t str>) -> Result<Vec<SocketAddr>, UsageError> {
    let texts = texts.filter(|text| !text.is_empty());
    texts.map(|text| resolver(flag, text)).collect()
}

/// Parses the address of a resolver. The default port is 53.
fn resolver(flag: &str, text: &str) -> Result<SocketAddr, UsageError> {
    let with_port = text.parse::<SocketAddr>();
    with_port
        .or_else(|_| {
            text.trim_matches(['[', ']'])
                .parse::<IpAddr>()
                .map(|ip| SocketAddr::new(ip, 53))
        })
        .map_err(|_| {
            UsageError(format!(
                "{flag}: expected ADDRESS or ADDRESS:PORT, such as 192.0.2.53, found {text:?}"
            ))
        })
}
