//! `portolan dns query`: what is answered for a name, and why.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::commands::page::{self, PageError};
use crate::commands::{Failure, runtime};
use crate::flags::BadValue;

/// How long the running server, or the API, has for what it knows.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flags of `portolan dns query`.
#[derive(Debug, Args)]
pub struct Flags {
    /// The name; a dot at the end changes nothing, since no search list is used
    name: String,
    /// The type: A, AAAA, SRV, PTR, …, or a number
    #[arg(default_value = "A")]
    kind: String,
    /// Where the running server serves its metrics
    #[arg(
        long,
        default_value = "127.0.0.1:9153",
        value_name = "ADDRESS:PORT",
        conflicts_with = "kubeconfig"
    )]
    server: SocketAddr,
    /// Ask the API server of this kubeconfig file instead, and work the answer out here
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The zone of the cluster, with --kubeconfig
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    cluster_domain: String,
    /// The client on whose behalf is asked: matters for --server-side-search
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
}

/// Prints the explanation.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    let name = dns::wire::Name::from_text(&flags.name)
        .map_err(|error| BadValue(format!("{:?} is no name: {error}", flags.name)))?;
    let kind = dns::kind_of_text(&flags.kind).ok_or_else(|| {
        BadValue(format!(
            "{:?} is no type; examples are A, AAAA and SRV",
            flags.kind
        ))
    })?;
    let explanation = match &flags.kubeconfig {
        Some(path) => compute(&flags, path, &name, kind)?,
        None => ask(&flags, &name)?,
    };
    crate::cli::say(&explanation);
    Ok(ExitCode::SUCCESS)
}

fn compute(
    flags: &Flags,
    kubeconfig: &std::path::Path,
    name: &dns::wire::Name,
    kind: u16,
) -> Result<String, Failure> {
    let domain = dns::wire::Name::from_text(&flags.cluster_domain)
        .map_err(|error| BadValue(format!("--cluster-domain {:?}: {error}", flags.cluster_domain)))?;
    let config = dns::Config::new(Vec::new(), domain.to_lower());
    runtime(1)?.block_on(async {
        let client = client::Client::new(client::Config::from_kubeconfig(kubeconfig)?)?;
        let explained = dns::explain_from_api(config, &client, name, kind, flags.from, PATIENCE).await?;
        explained.ok_or_else(|| format!("{} did not tell its objects in time", client.server()).into())
    })
}

fn ask(flags: &Flags, name: &dns::wire::Name) -> Result<String, Failure> {
    let from = flags
        .from
        .map_or_else(String::new, |from| format!("&from={from}"));
    let path = format!("/explain?name={name}&type={}{from}", flags.kind);
    page::read_text(flags.server, &path, PATIENCE).map_err(|error| match error {
        PageError::Unreachable(error) => format!(
            "no DNS server tells its metrics at {}: {error}; name another with --server, or use --kubeconfig",
            flags.server
        )
        .into(),
        PageError::Refused { body, .. } => format!("the server says: {}", body.trim()).into(),
        other => other.into(),
    })
}
