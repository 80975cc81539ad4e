//! Validated settings of the manifests.

use std::collections::BTreeSet;
use std::net::IpAddr;

use client::Config;
use controllers::multicluster::ClusterId;
use serde_json::{Value, json};

use super::flags::{Flags, Part, Predecessor, ProxyMode, PullPolicy, SYSTEM_NAMESPACE, value_name};
use super::server::Server;
use crate::error::UsageError;
use crate::flags::administrator::default_kubeconfig;

/// Suffix of the tag of images with the iptables programs.
const IPTABLES_SUFFIX: &str = "-iptables";

/// Settings of all parts.
#[derive(Debug)]
pub(super) struct Settings {
    /// Selected parts, in the order of the output.
    pub parts: BTreeSet<Part>,
    /// Image of all parts but the proxy.
    pub image: String,
    /// Image of the proxy.
    pub proxy_image: String,
    /// Pull policy of both images.
    pub pull_policy: &'static str,
    /// Namespace of all parts but the DNS servers.
    pub namespace: String,
    /// Address of the API server, if a part connects to it without a Service.
    pub server: Option<Server>,
    /// Components that the parts replace.
    pub takeover_from: Vec<Predecessor>,
    /// Pods of each Deployment.
    pub replicas: u32,
    /// Mode of the proxy.
    pub proxy_mode: ProxyMode,
    /// Pod CIDRs.
    pub cluster_cidr: Vec<String>,
    /// Zone of the cluster.
    pub cluster_domain: String,
    /// Cluster IPs of the Service kube-dns.
    pub cluster_dns: Vec<IpAddr>,
    /// Resolvers for names outside of the zone.
    pub forward: Vec<String>,
    /// True if announcers also run BGP sessions.
    pub speaks_bgp: bool,
    /// Blocks of the first pool.
    pub addresses: Vec<String>,
    /// Interfaces of the first pool.
    pub interfaces: Vec<String>,
    /// Membership in a set of clusters.
    pub set: Option<ClusterSet>,
}

/// Membership in a set of clusters.
#[derive(Debug)]
pub(super) struct ClusterSet {
    /// Name of this cluster.
    pub cluster_id: ClusterId,
    /// Names of the other clusters.
    pub others: Vec<ClusterId>,
}

impl Settings {
    /// Validates the flags.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if flags contradict each other or the address of the API server is missing.
    pub(super) fn of(flags: &Flags) -> Result<Self, UsageError> {
        let parts = selected_parts(flags)?;
        check_pool(flags, &parts)?;
        check_cluster_dns(&flags.dns.cluster_dns)?;
        if flags.balancer.bgp && !flags.takeover_from.contains(&Predecessor::Metallb) {
            return Err(UsageError::new(
                "--bgp needs --takeover-from=metallb: routers are BGPPeers of MetalLB in such a cluster",
            ));
        }
        let replaces_kube_proxy = flags.takeover_from.contains(&Predecessor::KubeProxy);
        if replaces_kube_proxy && (flags.proxy.proxy_mode.is_some() || !flags.proxy.cluster_cidr.is_empty()) {
            return Err(UsageError::new(
                "--takeover-from=kube-proxy excludes --proxy-mode and --cluster-cidr: the ConfigMap of kube-proxy has them",
            ));
        }
        let in_other_namespace = flags.namespace != SYSTEM_NAMESPACE;
        if replaces_kube_proxy && in_other_namespace {
            return Err(UsageError::new(
                "--takeover-from=kube-proxy needs --namespace=kube-system: the ConfigMap of kube-proxy is there",
            ));
        }
        let proxy_mode = flags.proxy.proxy_mode.unwrap_or_default();
        let needs_iptables = replaces_kube_proxy || proxy_mode == ProxyMode::Iptables;
        Ok(Self {
            image: flags.image.clone(),
            proxy_image: proxy_image(flags, needs_iptables && parts.contains(&Part::Proxy))?,
            pull_policy: match flags.image_pull_policy {
                PullPolicy::Always => "Always",
                PullPolicy::IfNotPresent => "IfNotPresent",
                PullPolicy::Never => "Never",
            },
            namespace: flags.namespace.clone(),
            server: server(flags, &parts)?,
            takeover_from: flags.takeover_from.clone(),
            replicas: flags.replicas,
            proxy_mode,
            cluster_cidr: flags.proxy.cluster_cidr.iter().map(ToString::to_string).collect(),
            cluster_domain: flags.dns.cluster_domain.clone(),
            cluster_dns: flags.dns.cluster_dns.clone(),
            forward: flags.dns.forward.clone(),
            speaks_bgp: flags.balancer.bgp,
            addresses: flags.pool.addresses.clone(),
            interfaces: flags.pool.interfaces.clone(),
            set: cluster_set(flags, &parts)?,
            parts,
        })
    }

    /// Returns true if the parts replace a component.
    pub(super) fn replaces(&self, predecessor: Predecessor) -> bool {
        self.takeover_from.contains(&predecessor)
    }

    /// Returns the address with which servers in Pods listen on all addresses of the cluster's IP families.
    pub(super) fn any_address(&self) -> &'static str {
        if self.cluster_dns.iter().any(IpAddr::is_ipv6) {
            "[::]"
        } else {
            "0.0.0.0"
        }
    }

    /// Returns the Namespace of the parts, unless every cluster has it. Pods that change the network of their node
    /// need the Pod Security level `privileged`.
    pub(super) fn namespace_object(&self) -> Vec<Value> {
        if self.namespace == SYSTEM_NAMESPACE {
            return Vec::new();
        }
        vec![json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": self.namespace,
                "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
            },
        })]
    }
}

/// Returns the selected parts, with those of `all`, and with those that a takeover needs.
fn selected_parts(flags: &Flags) -> Result<BTreeSet<Part>, UsageError> {
    let mut parts: BTreeSet<Part> = flags.parts.iter().copied().collect();
    if parts.remove(&Part::All) {
        parts.extend([Part::Proxy, Part::Dns, Part::Balancer]);
    }
    for predecessor in &flags.takeover_from {
        let part = predecessor.part();
        if !parts.contains(&part) {
            return Err(UsageError(format!(
                "--takeover-from={} needs the part {}",
                value_name(*predecessor),
                value_name(part)
            )));
        }
    }
    Ok(parts)
}

fn check_pool(flags: &Flags, parts: &BTreeSet<Part>) -> Result<(), UsageError> {
    let has_part = parts.contains(&Part::Pool);
    if has_part == flags.pool.addresses.is_empty() {
        return Err(UsageError::new(
            "the part pool and --addresses need each other; apply the pool after the balancer, which defines its kind",
        ));
    }
    if !has_part && !flags.pool.interfaces.is_empty() {
        return Err(UsageError::new("--interfaces needs the part pool"));
    }
    Ok(())
}

/// Returns the membership in a set of clusters.
fn cluster_set(flags: &Flags, parts: &BTreeSet<Part>) -> Result<Option<ClusterSet>, UsageError> {
    let has_part = parts.contains(&Part::Multicluster);
    let Some(cluster_id) = flags.set.cluster_id.clone() else {
        return if has_part {
            Err(UsageError::new("the part multicluster needs --cluster-id"))
        } else {
            Ok(None)
        };
    };
    if !has_part && !parts.contains(&Part::Dns) && !parts.contains(&Part::NodeLocalDns) {
        return Err(UsageError::new(
            "--cluster-id needs the part multicluster, dns or node-local-dns",
        ));
    }
    let others = flags.set.clusterset.clone();
    let names: BTreeSet<&str> = others
        .iter()
        .chain([&cluster_id])
        .map(ClusterId::as_str)
        .collect();
    if names.len() != others.len() + 1 {
        return Err(UsageError::new(
            "expected distinct names in --cluster-id and --clusterset; give each cluster a name of its own",
        ));
    }
    if !others.is_empty() && !has_part {
        return Err(UsageError::new("--clusterset needs the part multicluster"));
    }
    Ok(Some(ClusterSet { cluster_id, others }))
}

fn check_cluster_dns(addresses: &[IpAddr]) -> Result<(), UsageError> {
    let families: BTreeSet<bool> = addresses.iter().map(IpAddr::is_ipv6).collect();
    if families.len() != addresses.len() {
        return Err(UsageError::new(
            "--cluster-dns has at most one address of each IP family",
        ));
    }
    Ok(())
}

/// Returns the image of the proxy.
fn proxy_image(flags: &Flags, needs_iptables: bool) -> Result<String, UsageError> {
    if let Some(image) = &flags.proxy_image {
        return Ok(image.clone());
    }
    if !needs_iptables {
        return Ok(flags.image.clone());
    }
    let has_tag = flags
        .image
        .rsplit('/')
        .next()
        .is_some_and(|name| name.contains(':'));
    if flags.image.contains('@') || !has_tag {
        return Err(UsageError(format!(
            "expected an --image with a tag, to which {IPTABLES_SUFFIX} is appended for the proxy, found {}; set --proxy-image",
            flags.image
        )));
    }
    Ok(format!("{}{IPTABLES_SUFFIX}", flags.image))
}

/// Returns the address of the API server for parts that run before Services work, or on the network of the node.
fn server(flags: &Flags, parts: &BTreeSet<Part>) -> Result<Option<Server>, UsageError> {
    let uses_config_map_of_kube_proxy = flags.takeover_from.contains(&Predecessor::KubeProxy);
    let needs_server = parts.iter().any(|part| match part {
        Part::Proxy => !uses_config_map_of_kube_proxy,
        Part::NodeLocalDns | Part::Controllers | Part::Balancer | Part::Multicluster => true,
        Part::Dns | Part::Pool | Part::All => false,
    });
    if !needs_server {
        return Ok(None);
    }
    if let Some(server) = &flags.server {
        return Ok(Some(server.clone()));
    }
    let path = flags.kubeconfig.clone().or_else(default_kubeconfig);
    let path = path.ok_or_else(|| {
        UsageError::new("expected --server, or a kubeconfig with the URL of the API server")
    })?;
    let config =
        Config::from_kubeconfig(&path).map_err(|error| UsageError(format!("{error}; set --server")))?;
    let server = config
        .server
        .parse::<Server>()
        .map_err(|error| UsageError(format!("server in {}: {error}; set --server", path.display())))?;
    Ok(Some(server))
}
