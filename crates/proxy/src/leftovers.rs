//! Removal of the rules and links that kube-proxy leaves when it exits. The removal follows the first sync, because the
//! rules of kube-proxy forward the connections until then (KPR-09, KPF-03).

use std::io;

use dataplane::iptables::{INVALID_DROPPED_COUNTER, IptablesDataplane, Leftovers};
use dataplane::ipvs::{self, CleanupError};
use netlink::accounting::AccountingConnection;
use netlink::ipset::IpSets;
use netlink::nftables::{CommitError, Nftables, TableFamily};
use rustix::io::Errno;

/// Tables of kube-proxy's nftables mode (NFT-01).
const TABLES: [(TableFamily, &str); 2] = [
    (TableFamily::Ipv4, "kube-proxy"),
    (TableFamily::Ipv6, "kube-proxy"),
];
/// Sets of ipvs mode, without `KUBE-` or `KUBE-6-` (IPV-06).
const IPVS_SETS: [&str; 17] = [
    "CLUSTER-IP",
    "LOOP-BACK",
    "EXTERNAL-IP",
    "EXTERNAL-IP-LOCAL",
    "LOAD-BALANCER",
    "LOAD-BALANCER-LOCAL",
    "LOAD-BALANCER-FW",
    "LOAD-BALANCER-SOURCE-IP",
    "LOAD-BALANCER-SOURCE-CIDR",
    "NODE-PORT-TCP",
    "NODE-PORT-LOCAL-TCP",
    "NODE-PORT-UDP",
    "NODE-PORT-LOCAL-UDP",
    "NODE-PORT-SCTP-HASH",
    "NODE-PORT-LOCAL-SCTP-HASH",
    "HEALTH-CHECK-NODE-PORT",
    "IPVS-IPS",
];
/// Counters of iptables mode (IPT-08, IPT-10).
const COUNTERS: [&str; 2] = [INVALID_DROPPED_COUNTER, "localhost_nps_accepted_pkts"];
/// Portolan's table, which another mode leaves behind.
const OWN_TABLE: &str = "portolan";

/// Owners of the rules to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverScope {
    /// Portolan's other modes only. Chains of iptables mode count if `KUBE-CLUSTER-IPS` is among them, which kube-proxy
    /// lacks.
    OwnModes,
    /// Portolan's other modes, and all modes of kube-proxy.
    KubeProxyToo,
}

/// Result of a removal, as descriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Removed objects.
    pub removed: Vec<String>,
    /// Objects that stay, with the reason.
    pub failures: Vec<String>,
}

impl Removal {
    /// Records the result of one removal. `Ok(false)` means that the object did not exist.
    fn record(&mut self, object: &str, result: Result<bool, impl std::fmt::Display>) {
        match result {
            Ok(true) => self.removed.push(object.to_owned()),
            Ok(false) => {}
            Err(error) => self.failures.push(format!("{object}: {error}")),
        }
    }
}

/// Removes the rules and links that kube-proxy and Portolan's other modes left in this network namespace. `mode` is the
/// current mode, whose rules stay; `None` if no mode runs.
pub fn remove_leftovers(mode: Option<&str>, scope: LeftoverScope) -> Removal {
    let mut removal = Removal::default();
    remove_tables(mode, scope, &mut removal);
    // iptables mode has taken over the chains of kube-proxy.
    let chains = match (mode, scope) {
        (Some("iptables"), LeftoverScope::OwnModes) => None,
        (Some("iptables"), LeftoverScope::KubeProxyToo) => Some(Leftovers::IpvsOnly),
        (_, LeftoverScope::OwnModes) => Some(Leftovers::Own),
        (_, LeftoverScope::KubeProxyToo) => Some(Leftovers::All),
    };
    if mode != Some("ebpf") {
        let pins = dataplane::ebpf::default_pins();
        removal.record("programs of eBPF mode", dataplane::ebpf::remove_pins(&pins));
    }
    if !matches!(mode, Some("nftables" | "ebpf")) {
        removal.record(
            "tables and links of two-tier forwarding",
            dataplane::two_tier::remove(),
        );
    }
    if let Some(chains) = chains {
        removal.record("chains of iptables", IptablesDataplane::cleanup(chains));
    }
    if chains == Some(Leftovers::All) {
        remove_counters();
    }
    if scope == LeftoverScope::KubeProxyToo {
        remove_ipvs_sets(&mut removal);
    }
    if mode != Some("ipvs") {
        removal.record("link kube-ipvs0", remove_ipvs(mode, scope));
    }
    removal
}

fn remove_tables(mode: Option<&str>, scope: LeftoverScope, removal: &mut Removal) {
    let mut tables = match scope {
        LeftoverScope::OwnModes => Vec::new(),
        LeftoverScope::KubeProxyToo => TABLES.to_vec(),
    };
    // eBPF and IPVS mode use the same table, and userspace mode does for its redirects.
    if !matches!(mode, Some("nftables" | "ebpf" | "ipvs" | "userspace")) {
        tables.push((TableFamily::Inet, OWN_TABLE));
    }
    if tables.is_empty() {
        return;
    }
    match Nftables::open() {
        Ok(mut nftables) => {
            for (family, table) in tables {
                let deleted = match nftables.delete_table(family, table) {
                    // Without nf_tables there are no tables.
                    Err(error) if is_unsupported(&error) => Ok(false),
                    deleted => deleted,
                };
                removal.record(&format!("nftables table {family} {table}"), deleted);
            }
        }
        Err(error) => removal.failures.push(format!("nftables tables: {error}")),
    }
}

/// Returns true if the kernel lacks nf_tables, or the IP family in it.
fn is_unsupported(error: &CommitError) -> bool {
    let is_unsupported = |error: io::Error| {
        matches!(
            Errno::from_io_error(&error),
            Some(Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT)
        )
    };
    match error {
        CommitError::Socket { source } => source
            .raw_os_error()
            .is_some_and(|code| is_unsupported(io::Error::from_raw_os_error(code))),
        CommitError::Refused { refusals } => refusals
            .iter()
            .all(|refusal| is_unsupported(io::Error::from_raw_os_error(refusal.errno))),
        CommitError::NotPermitted | CommitError::Changed => false,
    }
}

/// Removes counters that no rule uses. They are not reported.
fn remove_counters() {
    for name in COUNTERS {
        // A kernel without nfacct returns an error.
        if let Err(error) = AccountingConnection::open().and_then(|mut accounting| accounting.remove(name)) {
            tracing::debug!(%error, name, "counter not deleted");
        }
    }
}

/// Removes the link of ipvs mode. Virtual servers are removed with Portolan's link, and by a complete removal with that of
/// kube-proxy.
fn remove_ipvs(mode: Option<&str>, scope: LeftoverScope) -> Result<bool, CleanupError> {
    match (mode, scope) {
        (None, LeftoverScope::KubeProxyToo) => ipvs::cleanup(),
        (Some(_), LeftoverScope::KubeProxyToo) => Ok(ipvs::cleanup_own()? || ipvs::remove_link()?),
        (_, LeftoverScope::OwnModes) => ipvs::cleanup_own(),
    }
}

/// Removes the sets of ipvs mode, which only its chains use.
fn remove_ipvs_sets(removal: &mut Removal) {
    // A kernel without ipset returns an error.
    let Some((mut sets, names)) = IpSets::open()
        .ok()
        .and_then(|mut sets| sets.names().ok().map(|names| (sets, names)))
    else {
        return;
    };
    let going = names
        .iter()
        .filter(|name| IPVS_SETS.contains(&without_family(name)));
    for name in going {
        removal.record(&format!("ipset {name}"), sets.destroy(name).map(|()| true));
    }
}

/// Returns the IPv4 form of a set's name.
fn without_family(name: &str) -> &str {
    const V6: &str = "KUBE-6-";
    let rest = name.strip_prefix(V6).or_else(|| name.strip_prefix("KUBE-"));
    rest.unwrap_or_default()
}

#[cfg(test)]
mod tests;
