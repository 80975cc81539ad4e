//! `portolan dns query`: what is answered for a name, and why.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::commands::{Failure, runtime};
use crate::flags::BadValue;

/// How long the running server, or the API, has for what it knows.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest explanation that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

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
    let unreachable = |error: std::io::Error| {
        format!(
            "no DNS server tells its metrics at {}: {error}; name another with --server, or use --kubeconfig",
            flags.server
        )
    };
    let mut stream = TcpStream::connect_timeout(&flags.server, PATIENCE).map_err(unreachable)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let from = flags
        .from
        .map_or_else(String::new, |from| format!("&from={from}"));
    let name = name.to_string();
    let request = format!(
        "GET /explain?name={name}&type={}{from} HTTP/1.0\r\nhost: {}\r\n\r\n",
        flags.kind, flags.server
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or("the server's answer is cut off")?;
    if head.split(' ').nth(1) != Some("200") {
        return Err(format!("the server says: {}", body.trim()).into());
    }
    Ok(body.to_owned())
}
