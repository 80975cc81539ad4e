//! `portolan trace`: the path of a connection, from the name that a client uses to the endpoints.
//!
//! - [`text`]: human-readable form
//! - [`live`]: packets that are sent

mod live;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use explain::trace::live::Live;
use explain::trace::{
    CLUSTER_DOMAIN_DEFAULT, ClientName, Destination, NodePorts, Nodes, ProxySettings, Request, Trace,
    Verdict, trace,
};
use ipnet::IpNet;
use plan::PodDetection;
use proxy::configuration::KubeProxyConfiguration;
use proxy::{NodePortSelection, PodSelection};

use super::doctor::source::Source;
use crate::error::{CommandError, UsageError};
use crate::flags::administrator::AdministratorFlags;
use crate::flags::node_proxy::mode_and_config;
use crate::flags::values::cidr;
use crate::node_observation::Cluster;
use crate::{output, runtime};
use live::LiveFlags;

/// Exit code if the connection cannot be traced.
const EXIT_NOT_TRACED: u8 = 2;

/// Flags of `portolan trace`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Destination: tcp://HOST:PORT, udp://HOST:PORT, sctp://HOST:PORT, http://HOST, https://HOST or ping://HOST; HOST is a
    /// name, an IPv4 address, or an IPv6 address in brackets
    #[arg(value_name = "URL")]
    destination: Destination,
    /// Client: pod/NAMESPACE/NAME, node/NAME, or the IP address of a host outside of the cluster
    #[arg(long, value_name = "CLIENT")]
    from: ClientName,
    /// Node that packets of a client outside of the cluster reach [default: the node with the address, or else all nodes]
    #[arg(long, value_name = "NAME", conflicts_with = "all_nodes")]
    node: Option<String>,
    /// Compare the decisions of all nodes
    #[arg(long)]
    all_nodes: bool,
    /// File with objects as JSON or YAML, as `kubectl get -o json` prints them, or - for standard input; repeatable
    /// [default: the objects of the API server]
    #[arg(long, value_name = "FILE")]
    from_file: Vec<PathBuf>,
    /// Output format
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    administrator: AdministratorFlags,
    #[command(flatten)]
    live: LiveFlags,
    #[command(flatten)]
    names: NameFlags,
    #[command(flatten)]
    proxy: ProxyFlags,
}

/// Settings of names.
#[derive(Debug, Args)]
#[command(next_help_heading = "Names")]
struct NameFlags {
    /// Zone of the cluster
    #[arg(long, default_value = CLUSTER_DOMAIN_DEFAULT, value_name = "DOMAIN")]
    cluster_domain: String,
    /// Search domains in the resolv.conf of the nodes, which Pods inherit [default: none]
    #[arg(long, value_delimiter = ',', value_name = "DOMAIN,…")]
    node_search_domains: Vec<String>,
}

/// Settings of the node proxies, with the names that `portolan proxy` gives them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node proxies")]
struct ProxyFlags {
    /// Pod CIDRs, one per IP family; traffic to cluster IPs from outside these ranges is masqueraded [default: those of
    /// all Nodes]
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    cluster_cidr: Vec<IpNet>,
    /// Addresses of node ports: CIDRs, or `primary` for those of the Node [default: primary]
    #[arg(long, value_delimiter = ',', value_name = "CIDRs")]
    nodeport_addresses: Vec<String>,
    /// Masquerade all traffic to cluster IPs
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    masquerade_all: bool,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// JSON object
    Json,
    /// The same in YAML
    Yaml,
}

/// Traces a connection and prints its path. The exit code is 0 if the connection reaches an endpoint, 1 if it does not or if
/// the kernel differs, and 2 if the connection cannot be traced or sent.
///
/// # Errors
///
/// An error if a flag is invalid, or the output cannot be encoded.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let request = request(flags)?;
    let not_traced = |error: &dyn std::fmt::Display| {
        eprintln!("portolan: {error}");
        Ok(ExitCode::from(EXIT_NOT_TRACED))
    };
    let source = match read(flags) {
        Ok(source) => source,
        Err(error) => return not_traced(&error),
    };
    for problem in source.problems(None) {
        eprintln!("portolan: warning: {problem}");
    }
    let cluster = Cluster::read(&source.builder, None);
    let found = match trace(&source.builder.build(), &request) {
        Ok(found) => found,
        Err(error) => return not_traced(&error),
    };
    let sent = match flags
        .live
        .live
        .then(|| flags.live.run(&found, &cluster))
        .transpose()
    {
        Ok(sent) => sent,
        Err(error) => return not_traced(&error),
    };
    print(flags.output, &found, sent.as_ref())?;
    let agrees = !sent.is_some_and(|sent| sent.has_disagreement());
    Ok(if found.verdict == Verdict::Reaches && agrees {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints a trace with the packets that were sent.
fn print(format: Format, found: &Trace, sent: Option<&Live>) -> Result<(), CommandError> {
    let tree = || -> Result<serde_json::Value, serde_json::Error> {
        let mut tree = serde_json::to_value(found)?;
        if let Some(sent) = sent {
            tree["live"] = serde_json::to_value(sent)?;
        }
        Ok(tree)
    };
    output::print(&match format {
        Format::Text => text::render(found) + &sent.map(live::render).unwrap_or_default(),
        Format::Json => format!("{:#}\n", tree()?),
        Format::Yaml => serde_saphyr::to_string(&tree()?)?,
    });
    Ok(())
}

fn read(flags: &Flags) -> Result<Source, CommandError> {
    if flags.from_file.is_empty() {
        let client = flags.administrator.client()?;
        return runtime::multi_thread(1)?.block_on(Source::from_api(&client));
    }
    Source::from_files(&flags.from_file)
}

fn request(flags: &Flags) -> Result<Request, UsageError> {
    let is_outside = matches!(flags.from, ClientName::Address(_));
    let nodes = match &flags.node {
        Some(_) if !is_outside => {
            return Err(UsageError::new(
                "--node needs a client outside of the cluster: connections of a Pod or node begin on its own node",
            ));
        }
        Some(name) => Nodes::Named(name.clone()),
        None if flags.all_nodes => Nodes::All,
        None => Nodes::OfClient,
    };
    if flags.live.live && flags.destination.is_ping() {
        return Err(UsageError::new(
            "--live sends no echo requests: use the program ping, or name a port as in tcp://HOST:PORT",
        ));
    }
    let cluster_domain = flags.names.cluster_domain.trim_matches('.').to_ascii_lowercase();
    if cluster_domain.is_empty() {
        return Err(UsageError::new(
            "--cluster-domain is empty; name a domain such as cluster.local",
        ));
    }
    Ok(Request {
        nodes,
        cluster_domain,
        host_searches: flags.names.node_search_domains.clone(),
        proxy: flags.proxy.settings()?,
        ..Request::new(flags.destination.clone(), flags.from.clone())
    })
}

impl ProxyFlags {
    /// Checks the flags as the proxy does.
    fn settings(&self) -> Result<ProxySettings, UsageError> {
        let cidrs: Vec<String> = self.cluster_cidr.iter().map(ToString::to_string).collect();
        let mut configuration = KubeProxyConfiguration {
            cluster_cidr: cidrs.join(","),
            node_port_addresses: self.nodeport_addresses.clone(),
            ..KubeProxyConfiguration::default()
        };
        configuration.nftables.masquerade_all = self.masquerade_all;
        configuration.set_default_ports();
        let (_, config) = mode_and_config(&configuration)?;
        let pods = match config.pods {
            PodSelection::Given(PodDetection::Ranges(ranges)) if ranges.is_empty() => None,
            PodSelection::Given(detection) => Some(detection),
            PodSelection::NodeCidrs => None,
        };
        Ok(ProxySettings {
            pods,
            interface: None,
            masquerade_all: config.masquerade_all,
            node_ports: match config.node_port_addresses {
                NodePortSelection::Primary => NodePorts::Primary,
                NodePortSelection::All => NodePorts::All,
                NodePortSelection::Within(nets) => NodePorts::Within(nets),
            },
        })
    }
}

#[cfg(test)]
mod tests;
