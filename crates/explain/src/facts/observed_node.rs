//! A node under examination: its observation alongside the objects.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::finding::{Code, Finding, ObjectName, Severity};
use crate::kind::Kind;
use crate::observation::{Link, NodeObservation, NodeProxy, Table};
use crate::views::{Node, Pod, Service};
use crate::world::World;

/// Program name of Portolan.
pub(crate) const PORTOLAN: &str = "portolan";
/// Modes of kube-proxy.
const KUBE_PROXY_MODES: [&str; 3] = ["nftables", "iptables", "ipvs"];
/// Family and name of Portolan's table.
pub(crate) const PORTOLAN_TABLE: (&str, &str) = ("inet", "portolan");
/// Name of kube-proxy's tables (NFT-01).
pub(crate) const KUBE_PROXY_TABLE: &str = "kube-proxy";
/// Chain of kube-proxy and of Portolan's iptables mode (IPT-01).
const SERVICES_CHAIN: &str = "KUBE-SERVICES";
/// Link with all Service addresses in ipvs mode (IPV-01).
pub(crate) const IPVS_LINK: &str = "kube-ipvs0";
/// Names of bridges for Pods.
const POD_BRIDGES: [&str; 3] = ["cni0", "cbr0", "kube-bridge"];
/// Prefixes of the names of links of networks that serve Services without kube-proxy.
const OTHER_DATAPLANE_LINKS: [&str; 6] = ["cilium_", "lxc", "antrea-", "ovn-k8s", "bpfin.cali", "kube-dummy"];
/// Prefixes of the names of their Pods, and of Pods with an embedded node proxy.
const OTHER_DATAPLANE_PODS: [&str; 6] = [
    "cilium",
    "antrea",
    "ovnkube",
    "ovs-",
    "calico-node",
    "kube-router",
];
/// Label of Services for another proxy (API-48).
const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";

/// A node with its observation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedNode<'w> {
    /// All objects.
    pub world: &'w World,
    /// Observation of the node.
    pub observation: &'w NodeObservation,
}

/// Rules for Services in the kernel, by the proxy and mode that write them. `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSets {
    /// Table of Portolan's nftables and userspace modes.
    pub portolan: Option<bool>,
    /// Tables of kube-proxy's nftables mode.
    pub kube_proxy: Option<bool>,
    /// Chains of the iptables modes, and of ipvs mode.
    pub iptables: Option<bool>,
    /// Virtual servers of ipvs mode.
    pub ipvs: Option<bool>,
}

impl RuleSets {
    /// Returns true if any rules exist, and `None` if some are unknown and none are known to exist.
    pub(crate) fn any(self) -> Option<bool> {
        let required = [self.portolan, self.kube_proxy, self.iptables];
        if required.contains(&Some(true)) || self.ipvs == Some(true) {
            return Some(true);
        }
        required.iter().all(Option::is_some).then_some(false)
    }
}

/// Returns the observed nodes.
pub(crate) fn observed_nodes(world: &World) -> impl Iterator<Item = ObservedNode<'_>> {
    let observations = world.observations().all().iter();
    observations.map(|observation| ObservedNode { world, observation })
}

/// Returns true if a node proxy serves the Service at a cluster IP.
pub(crate) fn is_served(service: Service<'_>) -> bool {
    !service.cluster_ips().is_empty() && service.label(PROXY_NAME_LABEL).is_none()
}

impl<'w> ObservedNode<'w> {
    /// Returns the name of the Node.
    pub(crate) fn name(self) -> &'w str {
        &self.observation.metadata.name
    }

    /// Returns the Node, if the world has it.
    pub(crate) fn node(self) -> Option<Node<'w>> {
        self.world.node(self.name())
    }

    /// Returns a finding about the Node. `field` is a path in the observation.
    pub(crate) fn finding(
        self,
        code: Code,
        severity: Severity,
        field: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            code,
            severity,
            object: ObjectName {
                kind: Kind::Node.name().to_owned(),
                namespace: String::new(),
                name: self.name().to_owned(),
            },
            field: field.into(),
            message: message.into(),
            remedy: remedy.into(),
            evidence: Vec::new(),
        }
    }

    /// Returns a remedy that is a command on the node.
    pub(crate) fn run(self, command: &str) -> String {
        format!("On Node {}: {command}", self.name())
    }

    /// Returns the node proxies; none if they are unknown.
    pub(crate) fn proxies(self) -> &'w [NodeProxy] {
        self.observation.proxies.as_deref().unwrap_or_default()
    }

    /// Returns true if Portolan is known to run.
    pub(crate) fn runs_portolan(self) -> bool {
        self.proxies().iter().any(|proxy| proxy.name == PORTOLAN)
    }

    /// Returns a running kube-proxy, or a program that embeds it.
    pub(crate) fn kube_proxy(self) -> Option<&'w NodeProxy> {
        let is_mode = |mode: Option<&str>| mode.is_some_and(|mode| KUBE_PROXY_MODES.contains(&mode));
        let is_kube_proxy = |proxy: &&NodeProxy| {
            proxy.name == KUBE_PROXY_TABLE || (proxy.name != PORTOLAN && is_mode(proxy.mode.as_deref()))
        };
        self.proxies().iter().find(is_kube_proxy)
    }

    /// Returns true if an eBPF program serves Services, so that netfilter does not decide about their packets.
    pub(crate) fn has_ebpf_proxy(self) -> bool {
        let mut proxies = self.proxies().iter();
        proxies.any(|proxy| proxy.mode.as_deref() == Some("ebpf"))
    }

    /// Returns true if a network may serve Services without a node proxy that observations show.
    pub(crate) fn may_have_other_dataplane(self) -> bool {
        let is_of =
            |name: &str, beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
        let links = self.links().iter();
        let mut pods = self.pods();
        self.has_ebpf_proxy()
            || links
                .into_iter()
                .any(|link| is_of(&link.name, &OTHER_DATAPLANE_LINKS))
            || pods.any(|pod| is_of(&pod.name, &OTHER_DATAPLANE_PODS))
    }

    /// Returns the Pods on the node.
    pub(crate) fn pods(self) -> impl Iterator<Item = Pod<'w>> {
        self.world.pods_on(self.name()).filter(|pod| pod.is_active())
    }

    /// Returns the links; none if they are unknown.
    pub(crate) fn links(self) -> &'w [Link] {
        self.observation.links.as_deref().unwrap_or_default()
    }

    /// Returns the addresses of the links.
    pub(crate) fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let prefixes = self
            .links()
            .iter()
            .flat_map(|link| link.addresses.iter().flatten());
        prefixes.map(IpNet::addr)
    }

    /// Returns the ranges of the Pods on the node, as the Node has them.
    pub(crate) fn pod_ranges(self) -> Vec<IpNet> {
        self.node().map(Node::pod_ranges).unwrap_or_default()
    }

    /// Bridges whose ports are Pods: they have a known name, or an address in the node's Pod range.
    pub(crate) fn pod_bridges(self) -> Vec<&'w Link> {
        let ranges = self.pod_ranges();
        let is_pod_bridge = |link: &&Link| {
            let mut addresses = link.addresses.iter().flatten().map(IpNet::addr);
            link.kind.as_deref() == Some("bridge")
                && (POD_BRIDGES.contains(&link.name.as_str())
                    || addresses.any(|address| ranges.iter().any(|range| range.contains(&address))))
        };
        self.links().iter().filter(is_pod_bridge).collect()
    }

    /// Returns the ports of a bridge.
    pub(crate) fn ports_of(self, bridge: &str) -> impl Iterator<Item = &'w Link> {
        let links = self.links().iter();
        links.filter(move |link| link.master.as_deref() == Some(bridge))
    }

    /// Returns the value of a kernel parameter.
    pub(crate) fn sysctl(self, name: &str) -> Option<&'w str> {
        let sysctls = self.observation.sysctls.as_ref()?;
        sysctls.get(name).map(|value| value.trim())
    }

    /// Returns the tables of nftables; `None` if they are unknown or not complete.
    pub(crate) fn tables(self) -> Option<&'w [Table]> {
        let tables = self.observation.tables.as_deref();
        tables.filter(|_| !self.observation.is_truncated("tables"))
    }

    /// Returns the tables with a name.
    pub(crate) fn tables_named(self, name: &str) -> impl Iterator<Item = &'w Table> {
        let tables = self.observation.tables.iter().flatten();
        tables.filter(move |table| table.name == name)
    }

    /// Returns Portolan's table.
    pub(crate) fn portolan_table(self) -> Option<&'w Table> {
        let (family, name) = PORTOLAN_TABLE;
        let mut tables = self.tables_named(name);
        tables.find(|table| table.family == family)
    }

    /// Returns the rules for Services.
    pub(crate) fn rule_sets(self) -> RuleSets {
        RuleSets {
            portolan: self.tables().map(|_| self.portolan_table().is_some()),
            kube_proxy: self
                .tables()
                .map(|_| self.tables_named(KUBE_PROXY_TABLE).next().is_some()),
            iptables: self.has_services_chain(),
            ipvs: self.has_virtual_servers(),
        }
    }

    fn has_services_chain(self) -> Option<bool> {
        let services = self
            .observation
            .iptables
            .as_ref()
            .and_then(|iptables| iptables.services.as_ref());
        let is_in = |table: &Table| {
            let mut chains = table.chains.iter().flatten();
            chains.any(|chain| chain.name == SERVICES_CHAIN)
        };
        let is_in_nft = self.tables_named("nat").any(is_in);
        let in_variants = services.map(|variants| !variants.is_empty());
        if is_in_nft { Some(true) } else { in_variants }
    }

    fn has_virtual_servers(self) -> Option<bool> {
        let number = self.observation.ipvs_services.map(|number| number > 0);
        let has_link = self.links().iter().any(|link| link.name == IPVS_LINK);
        number.or(has_link.then_some(true))
    }

    /// Returns the command that prints the log of a node proxy.
    pub(crate) fn log_of(self, proxy: &str) -> String {
        let pod = self.pods().find(|pod| pod.name.starts_with(proxy));
        match pod {
            Some(pod) => format!("kubectl -n {} logs {}", pod.namespace, pod.name),
            None => self.run(&format!("journalctl | grep {}", crate::kubectl::word(proxy))),
        }
    }
}
