//! `portolan dns query`: explanation of the response for a name.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::error::{CommandError, UsageError};
use crate::status_client::{self, StatusError};
use crate::{output, runtime};

/// Time for a response of the DNS server, or for the objects of the API server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Flags of `portolan dns query`.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Domain name; the search list is not used
    name: String,
    /// Record type: A, AAAA, SRV, PTR, …, or a number
    #[arg(default_value = "A")]
    kind: String,
    /// Address of the DNS server's metrics
    #[arg(
        long,
        default_value = "127.0.0.1:9153",
        value_name = "ADDRESS:PORT",
        conflicts_with = "kubeconfig"
    )]
    server: SocketAddr,
    /// Compute the response from the objects of this kubeconfig's API server, without a DNS server
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Zone of the cluster, with --kubeconfig
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    cluster_domain: String,
    /// Address of the client, for --server-side-search
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
}

/// Prints the explanation.
///
/// # Errors
///
/// An error if the name or type is invalid, or the server does not respond.
pub(super) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    let name = dns::wire::Name::from_text(&flags.name)
        .map_err(|error| UsageError(format!("invalid name {:?}: {error}", flags.name)))?;
    let kind = dns::query_type_of(&flags.kind).ok_or_else(|| {
        UsageError(format!(
            "{:?} is not a record type; examples are A, AAAA and SRV",
            flags.kind
        ))
    })?;
    let explanation = match &flags.kubeconfig {
        Some(path) => compute(&flags, path, &name, kind)?,
        None => query_server(&flags, &name)?,
    };
    output::print(&explanation);
    Ok(ExitCode::SUCCESS)
}

fn compute(
    flags: &Flags,
    kubeconfig: &std::path::Path,
    name: &dns::wire::Name,
    kind: u16,
) -> Result<String, CommandError> {
    let domain = dns::wire::Name::from_text(&flags.cluster_domain)
        .map_err(|error| UsageError(format!("--cluster-domain {:?}: {error}", flags.cluster_domain)))?;
    let config = dns::Config::new(Vec::new(), domain.to_lower());
    runtime::multi_thread(1)?.block_on(async {
        let client = client::Client::new(client::Config::from_kubeconfig(kubeconfig)?)?;
        let explained = dns::explain_from_api(config, &client, name, kind, flags.from, TIMEOUT).await?;
        explained
            .ok_or_else(|| format!("objects of {} not received within {TIMEOUT:?}", client.server()).into())
    })
}

fn query_server(flags: &Flags, name: &dns::wire::Name) -> Result<String, CommandError> {
    let from = flags
        .from
        .map_or_else(String::new, |from| format!("&from={from}"));
    let path = format!("/explain?name={name}&type={}{from}", flags.kind);
    status_client::read_text(flags.server, &path, TIMEOUT).map_err(|error| match error {
        StatusError::Connect(error) => format!(
            "no DNS server with metrics at {}: {error}; name another address with --server, or use --kubeconfig",
            flags.server
        )
        .into(),
        StatusError::Rejected { body, .. } => format!("query rejected: {}", body.trim()).into(),
        other => other.into(),
    })
}
