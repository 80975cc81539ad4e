//! Flags that concern what is answered; shared with `portolan up`.

use std::net::{IpAddr, SocketAddr};

use clap::{Args, ValueEnum};
use dns::forward::{CacheSettings, Policy, Protocol, QueryCase, StubZone};
use dns::records::PodNames;
use dns::wire::Name;

use crate::commands::Failure;
use crate::flags::BadValue;

/// Where the machine's resolvers are named.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Flags that concern what is answered.
#[derive(Clone, Debug, Args)]
pub struct ZoneFlags {
    /// The zone of the cluster
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    pub cluster_domain: String,
    /// Seconds for which answers may be kept, 0 to 3600
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub ttl: u32,
    /// Which names of Pods are answered
    #[arg(long, default_value = "insecure", value_name = "MODE")]
    pub pods: PodMode,
    /// Name endpoints without a host name after their Pods
    #[arg(long)]
    pub endpoint_pod_names: bool,
    /// Namespaces that are served; all if not given
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub namespaces: Vec<String>,
    /// Walk the search list of Pods for them: one question in the place of five. Watches Pods
    #[arg(long)]
    pub server_side_search: bool,
    /// Resolvers for everything outside of the zone, empty for none; those of /etc/resolv.conf if not given
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS[:PORT]")]
    pub forward: Option<Vec<String>>,
    /// Resolvers for one zone; may be given several times
    #[arg(long, value_name = "ZONE=ADDRESS[:PORT],…")]
    pub stub: Vec<String>,
    /// Which resolver is asked first
    #[arg(long, default_value = "random", value_name = "POLICY")]
    pub forward_policy: ForwardPolicy,
    /// Ask resolvers over TCP only
    #[arg(long)]
    pub forward_force_tcp: bool,
    /// Ask resolvers in the client's spelling, not in a random one that is harder to forge an answer to: for resolvers
    /// that change the case of letters and cannot be asked over TCP
    #[arg(long)]
    pub forward_keep_case: bool,
    /// Questions that may be open upstream at once
    #[arg(long, default_value_t = dns::forward::OPEN_QUERIES_MAX, value_name = "NUMBER", value_parser = open_max)]
    pub forward_max_concurrent: usize,
    /// Mebibytes for answers from upstream; 0 for no cache
    #[arg(long, default_value_t = 32, value_name = "MIB")]
    pub cache_size: usize,
    /// Seconds for which answers with records are kept at most
    #[arg(long, default_value_t = 3_600, value_name = "SECONDS")]
    pub cache_success_ttl: u32,
    /// Seconds for which answers without records are kept at most
    #[arg(long, default_value_t = 1_800, value_name = "SECONDS")]
    pub cache_denial_ttl: u32,
    /// Seconds for which answers are given out after their time while upstream fails; 0 for never
    #[arg(long, default_value_t = 3_600, value_name = "SECONDS")]
    pub cache_serve_stale: u32,
    /// Do not fetch names anew that are asked for often before their time is over
    #[arg(long)]
    pub cache_no_prefetch: bool,
}

/// Which names of Pods are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PodMode {
    /// None
    Disabled,
    /// Any address in an existing namespace
    Insecure,
    /// Those of Pods that exist; watches Pods
    Verified,
}

/// Which resolver is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ForwardPolicy {
    /// Any
    Random,
    /// One after the other
    RoundRobin,
    /// As they are given
    Sequential,
}

impl ZoneFlags {
    /// What the DNS server is told, to listen on these addresses.
    pub fn config(&self, listen: Vec<SocketAddr>) -> Result<dns::Config, Failure> {
        let domain = Name::from_text(&self.cluster_domain)
            .map_err(|e| BadValue(format!("--cluster-domain {:?}: {e}", self.cluster_domain)))?;
        if domain == Name::ROOT {
            let message = "--cluster-domain is empty; the whole of DNS cannot be the cluster's";
            return Err(BadValue(message.to_owned()).into());
        }
        let mut config = dns::Config::new(listen, domain.to_lower());
        config.upstreams = match &self.forward {
            None => dns::Upstreams::ResolvConf(RESOLV_CONF.into()),
            Some(texts) => {
                dns::Upstreams::Addresses(resolvers("--forward", texts.iter().map(String::as_str))?)
            }
        };
        config.stubs = self
            .stub
            .iter()
            .map(|text| stub(text))
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

fn open_max(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=100_000).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from 1 to 100000"))
}

/// A zone with its resolvers.
fn stub(text: &str) -> Result<StubZone, BadValue> {
    let wanted = || {
        BadValue(format!(
            "--stub {text:?} is not ZONE=ADDRESS[:PORT],…; an example is corp.example=192.0.2.53"
        ))
    };
    let (zone, addresses) = text.split_once('=').ok_or_else(wanted)?;
    let zone = Name::from_text(zone).map_err(|_| wanted())?;
    let upstreams = resolvers("--stub", addresses.split(','))?;
    if zone == Name::ROOT || upstreams.is_empty() {
        return Err(wanted());
    }
    Ok(StubZone { zone, upstreams })
}

fn resolvers<'t>(flag: &str, texts: impl Iterator<Item = &'t str>) -> Result<Vec<SocketAddr>, BadValue> {
    let given = texts.filter(|text| !text.is_empty());
    given.map(|text| resolver(flag, text)).collect()
}

/// A resolver, port 53 if none is given.
fn resolver(flag: &str, text: &str) -> Result<SocketAddr, BadValue> {
    let with_port = text.parse::<SocketAddr>();
    with_port
        .or_else(|_| {
            text.trim_matches(['[', ']'])
                .parse::<IpAddr>()
                .map(|ip| SocketAddr::new(ip, 53))
        })
        .map_err(|_| {
            let wanted = "is not ADDRESS or ADDRESS:PORT; an example is 192.0.2.53";
            BadValue(format!("{flag} {text:?} {wanted}"))
        })
}
