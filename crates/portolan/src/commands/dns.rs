//! `portolan dns`.

mod clients;
mod query;
mod zone;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use api::selector::LabelSelector;
use clap::{Args, Subcommand};
use ipnet::IpNet;

pub use clients::ClientsFlags;
pub use zone::ZoneFlags;

use super::{ClientFlags, Failure, runtime};
use crate::flags::{BadValue, OptionalAddress, cidr, optional_address};

/// The address that NodeLocal DNSCache has on every node (DNS-30).
pub const NODE_LOCAL_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10));

/// Flags of `portolan dns`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Flags {
    #[command(subcommand)]
    command: Option<DnsCommand>,
    #[command(flatten)]
    client: ClientFlags,
    #[command(flatten)]
    listen: ListenFlags,
    #[command(flatten)]
    clients: ClientsFlags,
    #[command(flatten)]
    status: StatusFlags,
    #[command(flatten)]
    zone: ZoneFlags,
    #[command(flatten)]
    objects: ObjectFlags,
}

/// Flags that say which objects have names.
#[derive(Clone, Debug, Args)]
struct ObjectFlags {
    /// Label selector of the Services, their EndpointSlices, and Pods that have names; all if not given
    #[arg(long, value_name = "SELECTOR", value_parser = label_selector)]
    labels: Option<String>,
    /// Label selector of the namespaces that are served; all if not given
    #[arg(long, value_name = "SELECTOR", value_parser = label_selector, conflicts_with = "namespaces")]
    namespace_labels: Option<String>,
    /// Do not watch EndpointSlices: neither endpoints nor headless Services have names
    #[arg(long)]
    no_endpoints: bool,
    /// Deny the name of a cluster IP while its Service has no ready endpoint
    #[arg(long, conflicts_with = "no_endpoints")]
    ignore_empty_services: bool,
}

/// What else `portolan dns` does.
#[derive(Debug, Subcommand)]
enum DnsCommand {
    /// Explain what is answered for a name, and where the answer comes from
    Query(query::Flags),
}

/// Flags that say where and to whom.
#[derive(Clone, Debug, Args)]
struct ListenFlags {
    /// Where questions are answered, UDP and TCP; 0.0.0.0:53 if not given, with --node-local only its addresses
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Serve this node's Pods on a link of its own, past connection tracking
    #[arg(long)]
    node_local: bool,
    /// Addresses on that link, at port 53; add the cluster IP of kube-dns to take its traffic
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "169.254.20.10",
        value_name = "ADDRESS"
    )]
    local_ip: Vec<IpAddr>,
    /// Leave the link and its rules behind at the end, for a successor
    #[arg(long)]
    skip_teardown: bool,
    /// Name of this Node, whose Pods are watched for --server-side-search; the host's name with --node-local,
    /// all Pods otherwise
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Where DNS over TLS is answered
    #[arg(
        long,
        value_delimiter = ',',
        requires = "tls_cert_file",
        value_name = "ADDRESS:PORT"
    )]
    tls_listen: Vec<SocketAddr>,
    /// Certificate chain for DNS over TLS, PEM
    #[arg(long, requires = "tls_private_key_file", value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// Networks that may have the whole zone (AXFR)
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    transfer_to: Vec<IpNet>,
}

/// Flags that say what is told about the server.
#[derive(Clone, Debug, Args)]
struct StatusFlags {
    /// Where /metrics and /explain are served; empty for nowhere
    #[arg(long, default_value = "127.0.0.1:9153", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    metrics_bind_address: OptionalAddress,
    /// Where /health is served; empty for nowhere
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    health_bind_address: OptionalAddress,
    /// Where /ready is served; empty for nowhere
    #[arg(long, default_value = "0.0.0.0:8181", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    ready_bind_address: OptionalAddress,
    /// Seconds for which queries are still answered after SIGTERM, while /health says that the end is near
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    lameduck: u64,
    /// File in which the last good state is kept, to be served when the API is away at start; none if not given
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Seconds after which that state is not served any more
    #[arg(long, default_value_t = 86_400, value_name = "SECONDS")]
    state_max_age: u64,
    /// Log every query
    #[arg(long)]
    log_queries: bool,
}

/// Answers until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    if let Some(DnsCommand::Query(flags)) = flags.command {
        return query::run(flags);
    }
    let config = config(&flags)?;
    crate::rlimit::raise_open_files();
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?.named("portolan-dns");
        dns::run(config, Some(client), crate::signal::asked_to_end()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn config(flags: &Flags) -> Result<dns::Config, Failure> {
    let ListenFlags { listen, .. } = &flags.listen;
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 53));
    let plain = match listen.as_slice() {
        [] if flags.listen.node_local => Vec::new(),
        [] => vec![everywhere],
        given => given.to_vec(),
    };
    let mut config = flags.zone.config(plain)?;
    let (listen, status) = (&flags.listen, &flags.status);
    let objects = &flags.objects;
    config.labels = objects.labels.clone().unwrap_or_default();
    config.namespace_labels = objects.namespace_labels.clone().unwrap_or_default();
    config.no_endpoints = objects.no_endpoints;
    config.ignore_empty_services = objects.ignore_empty_services;
    if listen.node_local {
        config.node_local.clone_from(&listen.local_ip);
        config.skip_teardown = listen.skip_teardown;
        config.node_name = Some(crate::flags::host_name());
    }
    if listen.node_name.is_some() {
        config.node_name.clone_from(&listen.node_name);
    }
    config.tls = match (&listen.tls_cert_file, &listen.tls_private_key_file) {
        (Some(certificates), Some(key)) if !listen.tls_listen.is_empty() => Some((
            listen.tls_listen.clone(),
            dns::TlsFiles {
                certificates: certificates.clone(),
                key: key.clone(),
            },
        )),
        (Some(_), Some(_)) => return Err(BadValue("--tls-cert-file needs --tls-listen".to_owned()).into()),
        _ => None,
    };
    config.transfer_to.clone_from(&listen.transfer_to);
    flags.clients.apply(&mut config);
    config.log_queries = status.log_queries;
    config.metrics_address = status.metrics_bind_address.0;
    config.health_address = status.health_bind_address.0;
    config.ready_address = status.ready_bind_address.0;
    config.lameduck = Duration::from_secs(status.lameduck);
    config.snapshot = status.state_file.as_ref().map(|path| dns::SnapshotSettings {
        path: path.clone(),
        age_seconds_max: status.state_max_age,
    });
    Ok(config)
}

/// A label selector, checked here so that a mistake is not told by the API server, again and again.
fn label_selector(text: &str) -> Result<String, String> {
    let parsed = LabelSelector::parse(text).map_err(|error| error.to_string())?;
    match parsed.is_empty() {
        true => Err("it selects everything; leave the flag out for that".to_owned()),
        false => Ok(text.to_owned()),
    }
}
