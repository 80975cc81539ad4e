//! `portolan dns`.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use clap::Args;

use super::{ClientFlags, Failure, runtime};
use crate::flags::BadValue;

/// Flags of `portolan dns`.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    /// Where questions are answered, UDP and TCP
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.0.0.0:53",
        value_name = "ADDRESS:PORT"
    )]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    zone: ZoneFlags,
}

/// Flags that concern what is answered.
#[derive(Clone, Debug, Args)]
pub struct ZoneFlags {
    /// The zone of the cluster
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    pub cluster_domain: String,
    /// Seconds for which answers may be kept, 0 to 3600
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub ttl: u32,
    /// Resolvers for everything outside of the zone, empty for none; those of /etc/resolv.conf if not given
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS[:PORT]")]
    pub forward: Option<Vec<String>>,
}

impl ZoneFlags {
    /// What the DNS server is told, to listen on these addresses.
    pub fn config(&self, listen: Vec<SocketAddr>) -> Result<dns::Config, Failure> {
        let domain = dns::wire::Name::from_text(&self.cluster_domain)
            .map_err(|e| BadValue(format!("--cluster-domain {:?}: {e}", self.cluster_domain)))?;
        if domain == dns::wire::Name::ROOT {
            let message = "--cluster-domain is empty; the whole of DNS cannot be the cluster's";
            return Err(BadValue(message.to_owned()).into());
        }
        let upstreams = match &self.forward {
            None => dns::Upstreams::ResolvConf(RESOLV_CONF.into()),
            Some(resolvers) => {
                let addresses: Result<_, BadValue> = resolvers
                    .iter()
                    .filter(|text| !text.is_empty())
                    .map(|text| resolver(text))
                    .collect();
                dns::Upstreams::Addresses(addresses?)
            }
        };
        Ok(dns::Config {
            listen,
            cluster_domain: domain.to_lower(),
            upstreams,
            ttl_seconds: self.ttl,
        })
    }
}

/// Answers until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    let config = flags.zone.config(flags.listen)?;
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?;
        tokio::select! {
            ended = dns::run(config, Some(client)) => ended?,
            () = crate::signal::asked_to_end() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Where the machine's resolvers are named.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// A resolver, port 53 if none is given.
fn resolver(text: &str) -> Result<SocketAddr, BadValue> {
    let with_port = text.parse::<SocketAddr>();
    with_port
        .or_else(|_| {
            text.trim_matches(['[', ']'])
                .parse::<IpAddr>()
                .map(|ip| SocketAddr::new(ip, 53))
        })
        .map_err(|_| {
            let wanted = "is not ADDRESS or ADDRESS:PORT; an example is 192.0.2.53";
            BadValue(format!("--forward {text:?} {wanted}"))
        })
}
