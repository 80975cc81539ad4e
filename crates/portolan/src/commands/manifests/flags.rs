//! Flags of `portolan manifests`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use controllers::multicluster::ClusterId;
use ipnet::IpNet;

use super::server::Server;
use crate::cluster::address_pool::parse_block;
use crate::flags::values::cidr;

/// Namespace of the Service kube-dns, of the Leases, and by default of all parts.
pub(super) const SYSTEM_NAMESPACE: &str = "kube-system";
/// Repository of the images that `tools/image` builds.
const IMAGE: &str = concat!("localhost/portolan:", env!("CARGO_PKG_VERSION"));

/// Flags of `portolan manifests`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Parts to install
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<Part>,
    /// Image of all parts
    #[arg(long, default_value = IMAGE, value_name = "NAME:TAG")]
    pub image: String,
    /// Image of the proxy [default: --image; with the suffix -iptables in its tag in iptables mode, and for a takeover
    /// from kube-proxy]
    #[arg(long, value_name = "NAME:TAG")]
    pub proxy_image: Option<String>,
    /// Pull policy of the images
    #[arg(long, value_enum, default_value = "IfNotPresent", value_name = "POLICY")]
    pub image_pull_policy: PullPolicy,
    /// Namespace of all parts but the DNS servers: the Service kube-dns selects Pods of kube-system
    #[arg(long, default_value = SYSTEM_NAMESPACE, value_name = "NAME")]
    pub namespace: String,
    /// URL of the API server, at an address that nodes reach without Services [default: the one in --kubeconfig]
    #[arg(long, value_name = "URL")]
    pub server: Option<Server>,
    /// kubeconfig file whose URL of the API server is used [default: first of $KUBECONFIG,
    /// /var/lib/portolan/admin.conf and ~/.kube/config that exists]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Components that the parts replace; the output then starts with the steps of the takeover
    #[arg(long, value_delimiter = ',', value_name = "COMPONENTS")]
    pub takeover_from: Vec<Predecessor>,
    /// Pods of the DNS server, of the controllers, and of the assigner
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub replicas: u32,
    #[command(flatten)]
    pub proxy: ProxyFlags,
    #[command(flatten)]
    pub dns: DnsFlags,
    #[command(flatten)]
    pub balancer: BalancerFlags,
    #[command(flatten)]
    pub pool: PoolFlags,
    #[command(flatten)]
    pub set: SetFlags,
}

/// Flags of the proxy.
#[derive(Debug, Args)]
#[command(next_help_heading = "Proxy")]
pub(crate) struct ProxyFlags {
    /// Kernel interface that implements Services [default: nftables]
    #[arg(long, value_name = "MODE")]
    pub proxy_mode: Option<ProxyMode>,
    /// Pod CIDRs, one per IP family; traffic to cluster IPs from outside these ranges is masqueraded
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    pub cluster_cidr: Vec<IpNet>,
}

/// Flags of the DNS servers.
#[derive(Debug, Args)]
#[command(next_help_heading = "DNS")]
pub(crate) struct DnsFlags {
    /// Zone of the cluster
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    pub cluster_domain: String,
    /// Cluster IPs of the Service kube-dns, one per IP family, as `clusterDNS` of the kubelets
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10.96.0.10",
        value_name = "ADDRESSES"
    )]
    pub cluster_dns: Vec<IpAddr>,
    /// Resolvers for names outside the zone [default: those in /etc/resolv.conf of the nodes]
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS[:PORT]")]
    pub forward: Vec<String>,
}

/// Flags of the balancer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Balancer")]
pub(crate) struct BalancerFlags {
    /// Announce addresses by BGP, too, with the BGPPeers and BGPAdvertisements of MetalLB; requires --takeover-from=metallb
    #[arg(long)]
    pub bgp: bool,
}

/// Flags of the first pool of addresses.
#[derive(Debug, Args)]
#[command(next_help_heading = "Address pool")]
pub(crate) struct PoolFlags {
    /// CIDRs and ranges of the AddressPool `default`
    #[arg(long, value_delimiter = ',', value_name = "BLOCKS", value_parser = parse_block)]
    pub addresses: Vec<String>,
    /// Interfaces that announce these addresses, such as eth0 or en* [default: all but those of Pods]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub interfaces: Vec<String>,
}

/// Flags of the membership in a set of clusters.
#[derive(Debug, Args)]
#[command(next_help_heading = "Multi-cluster Services")]
pub(crate) struct SetFlags {
    /// Name of this cluster in its set, a DNS label
    #[arg(long, value_name = "NAME")]
    pub cluster_id: Option<ClusterId>,
    /// Names of the other clusters; the Secret portolan-clusterset has a kubeconfig under each name
    #[arg(long, value_delimiter = ',', value_name = "NAMES", requires = "cluster_id")]
    pub clusterset: Vec<ClusterId>,
}

/// Part that the command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    /// The proxy, on every node
    Proxy,
    /// The DNS server behind the Service kube-dns
    Dns,
    /// A DNS server on every node, in node-local mode
    NodeLocalDns,
    /// The endpoint controllers; disable those of kube-controller-manager
    Controllers,
    /// Assigner and announcers of load-balancer addresses
    Balancer,
    /// The AddressPool of --addresses; apply it after `balancer`, which defines its kind
    Pool,
    /// The kinds and the controller of multi-cluster Services, for the cluster --cluster-id
    Multicluster,
    /// The parts that need no change of kubelet and kube-controller-manager: proxy, dns and balancer
    All,
}

/// Mode of the proxy in a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyMode {
    /// Rules of nftables
    #[default]
    Nftables,
    /// Chains of kube-proxy, by `iptables-restore`
    Iptables,
}

/// Pull policy of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum PullPolicy {
    /// Pull at each start of a container
    Always,
    /// Pull images that the node does not have
    IfNotPresent,
    /// Use images of the node
    Never,
}

/// Component that a part replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Predecessor {
    /// DaemonSet kube-system/kube-proxy of kubeadm; its ConfigMap configures the proxy
    KubeProxy,
    /// Deployment kube-system/coredns; the Service kube-dns stays
    Coredns,
    /// MetalLB in L2 mode; its IPAddressPools and L2Advertisements stay
    Metallb,
    /// Endpoint controllers of kube-controller-manager
    KubeControllerManager,
}

impl Predecessor {
    /// Returns the part that replaces the component.
    pub(crate) fn part(self) -> Part {
        match self {
            Self::KubeProxy => Part::Proxy,
            Self::Coredns => Part::Dns,
            Self::Metallb => Part::Balancer,
            Self::KubeControllerManager => Part::Controllers,
        }
    }
}

/// Returns the name of a value on the command line.
pub(super) fn value_name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map(|value| value.get_name().to_owned()).unwrap_or_default()
}
