//! `portolan dns`: the DNS server of a cluster.

mod query;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use api::selector::{LabelSelector, SelectorError};
use clap::{Args, Subcommand};
use ipnet::IpNet;

use crate::error::{CommandError, UsageError};
use crate::flags::client::ClientFlags;
use crate::flags::dns_clients::DnsClientFlags;
use crate::flags::dns_zone::DnsZoneFlags;
use crate::flags::values::{OptionalAddress, cidr, hostname, optional_address};
use crate::{rlimit, runtime, shutdown};

/// Default listen address.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 53);

/// Flags of `portolan dns`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Option<DnsCommand>,
    #[command(flatten)]
    client: ClientFlags,
    #[command(flatten)]
    listen: ListenFlags,
    #[command(flatten)]
    status: StatusFlags,
    #[command(flatten)]
    zone: DnsZoneFlags,
    #[command(flatten)]
    objects: ObjectFlags,
    #[command(flatten, next_help_heading = "Clients and limits")]
    clients: DnsClientFlags,
}

/// Flags of the objects that have records.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "DNS zone")]
struct ObjectFlags {
    /// Label selector of Services, EndpointSlices and Pods with records [default: all]
    #[arg(long, value_name = "SELECTOR", value_parser = label_selector)]
    labels: Option<String>,
    /// Label selector of the namespaces to serve [default: all]
    #[arg(long, value_name = "SELECTOR", value_parser = label_selector, conflicts_with = "namespaces")]
    namespace_labels: Option<String>,
    /// Do not watch EndpointSlices; endpoints and headless Services then have no records
    #[arg(long)]
    no_endpoints: bool,
    /// Respond with NXDOMAIN for Services without a ready endpoint
    #[arg(long, conflicts_with = "no_endpoints")]
    ignore_empty_services: bool,
}

/// Subcommands of `portolan dns`.
#[derive(Debug, Subcommand)]
enum DnsCommand {
    /// Explain the response for a name, and its source
    Query(query::Flags),
}

/// Flags of listen addresses.
#[derive(Clone, Debug, Args)]
struct ListenFlags {
    /// Listen addresses, UDP and TCP [default: 0.0.0.0:53; with --node-local only its addresses]
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Serve local Pods on a dummy interface, without connection tracking (NodeLocal DNSCache)
    #[arg(long, help_heading = "Node-local mode")]
    node_local: bool,
    /// Addresses of that interface; add the cluster IP of kube-dns to receive its traffic
    #[arg(
        long,
        help_heading = "Node-local mode",
        value_delimiter = ',',
        default_value = "169.254.20.10",
        value_name = "ADDRESS"
    )]
    local_ip: Vec<IpAddr>,
    /// Keep the interface and its rules at shutdown, for a successor
    #[arg(long, help_heading = "Node-local mode")]
    skip_teardown: bool,
    /// Node whose Pods are watched for --server-side-search [default: all; with --node-local the host name]
    #[arg(long, help_heading = "Node-local mode", value_name = "NAME")]
    node_name: Option<String>,
    /// Listen addresses of DNS over TLS
    #[arg(
        long,
        help_heading = "DNS over TLS",
        value_delimiter = ',',
        requires = "tls_cert_file",
        value_name = "ADDRESS:PORT"
    )]
    tls_listen: Vec<SocketAddr>,
    /// PEM file of the certificate chain for DNS over TLS
    #[arg(
        long,
        help_heading = "DNS over TLS",
        requires = "tls_private_key_file",
        value_name = "FILE"
    )]
    tls_cert_file: Option<PathBuf>,
    /// PEM file of the key of that certificate
    #[arg(long, help_heading = "DNS over TLS", value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// Networks that may transfer the zone (AXFR)
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    transfer_to: Vec<IpNet>,
}

/// Flags of health, metrics and stored state.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Health, metrics and state")]
struct StatusFlags {
    /// Address of /metrics and /explain; empty disables the server
    #[arg(long, default_value = "127.0.0.1:9153", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    metrics_bind_address: OptionalAddress,
    /// Address of /health; empty disables the server
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    health_bind_address: OptionalAddress,
    /// Address of /ready; empty disables the server
    #[arg(long, default_value = "0.0.0.0:8181", value_name = "ADDRESS:PORT", value_parser = optional_address)]
    ready_bind_address: OptionalAddress,
    /// Seconds to serve queries after SIGTERM, while /health and /ready report the shutdown
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    lameduck: u64,
    /// File of the last state, from which the server answers if the API server does not respond at the start [default:
    /// none]
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Age in seconds after which the server does not use that state
    #[arg(long, default_value_t = 86_400, value_name = "SECONDS")]
    state_max_age: u64,
    /// Log every query
    #[arg(long)]
    log_queries: bool,
}

/// Serves DNS until a signal requests shutdown.
///
/// # Errors
///
/// An error if a flag is invalid or the server fails.
pub(crate) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    if let Some(DnsCommand::Query(flags)) = flags.command {
        return query::run(flags);
    }
    let config = config(&flags)?;
    rlimit::raise_open_files();
    runtime::of_component(2)?.block_on(async {
        let client = flags.client.client()?.named("portolan-dns");
        dns::run(config, Some(client), shutdown::signal_received()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn config(flags: &Flags) -> Result<dns::Config, CommandError> {
    let (listen, status, objects) = (&flags.listen, &flags.status, &flags.objects);
    let mut config = flags.zone.config(match listen.listen.as_slice() {
        [] if listen.node_local => Vec::new(),
        [] => vec![LISTEN],
        given => given.to_vec(),
    })?;
    config.labels = objects.labels.clone().unwrap_or_default();
    config.namespace_labels = objects.namespace_labels.clone().unwrap_or_default();
    config.no_endpoints = objects.no_endpoints;
    config.ignore_empty_services = objects.ignore_empty_services;
    if listen.node_local {
        config.node_local.clone_from(&listen.local_ip);
        config.skip_teardown = listen.skip_teardown;
        config.node_name = Some(hostname());
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
        (Some(_), Some(_)) => return Err(UsageError::new("--tls-cert-file needs --tls-listen").into()),
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

/// Error of a label selector.
#[derive(Debug, thiserror::Error)]
enum LabelSelectorError {
    #[error("{0}")]
    Invalid(#[from] SelectorError),
    #[error("the selector matches all objects; omit the flag for that")]
    Empty,
}

/// Checks a label selector. The API server would reject an invalid one at each watch.
fn label_selector(text: &str) -> Result<String, LabelSelectorError> {
    if LabelSelector::parse(text)?.is_empty() {
        return Err(LabelSelectorError::Empty);
    }
    Ok(text.to_owned())
}
