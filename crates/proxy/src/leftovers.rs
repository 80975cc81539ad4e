//! Removal of what kube-proxy leaves behind when it stops. It takes place after the first sync, because those rules
//! carry the traffic until then (KPR-09, KPF-03).

use dataplane::iptables::{INVALID_DROPPED_COUNTER, IptablesDataplane, Leftovers};
use netlink::accounting::Accounting;
use netlink::ipset::IpSets;
use netlink::nftables::{Nftables, TableFamily};
use netlink::route::Connection;

/// Tables of kube-proxy's nftables mode (NFT-01).
const TABLES: [(TableFamily, &str); 2] = [
    (TableFamily::Ipv4, "kube-proxy"),
    (TableFamily::Ipv6, "kube-proxy"),
];
/// Link with all Service addresses in ipvs mode (IPV-01).
const IPVS_LINK: &str = "kube-ipvs0";
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

/// Removes what kube-proxy and Portolan's other modes left in this network namespace. Returns descriptions of the
/// removed objects. `mode` is the current mode, whose rules stay; `None` for none. Failures are logged.
pub fn remove_leftovers(mode: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut tables = TABLES.to_vec();
    // Userspace mode uses the same table for its redirects.
    if !matches!(mode, Some("nftables" | "userspace")) {
        tables.push((TableFamily::Inet, OWN_TABLE));
    }
    match Nftables::open() {
        Ok(mut nftables) => {
            for (family, table) in tables {
                match nftables.delete_table(family, table) {
                    Ok(true) => found.push(format!("nftables table {family} {table}")),
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, table, "table not deleted"),
                }
            }
        }
        Err(error) => tracing::warn!(%error, "nftables tables not deleted"),
    }
    // iptables mode has taken over the chains of kube-proxy.
    let chains = match mode {
        Some("iptables") => Leftovers::IpvsOnly,
        _ => Leftovers::All,
    };
    match IptablesDataplane::cleanup(chains) {
        Ok(true) => found.push("chains of iptables".to_owned()),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "iptables chains not deleted"),
    }
    if chains == Leftovers::All {
        remove_counters();
    }
    found.extend(remove_ipvs_sets());
    found.extend(remove_ipvs_link());
    found
}

/// Removes counters that no rule uses. They are not reported.
fn remove_counters() {
    for name in COUNTERS {
        // A kernel without nfacct returns an error.
        if let Err(error) = Accounting::open().and_then(|mut accounting| accounting.remove(name)) {
            tracing::debug!(%error, name, "counter not deleted");
        }
    }
}

/// Removes the sets of ipvs mode, which only its chains use.
fn remove_ipvs_sets() -> Option<String> {
    let mut sets = IpSets::open().ok()?;
    // A kernel without ipset returns an error.
    let names = sets.names().ok()?;
    let going = names
        .iter()
        .filter(|name| IPVS_SETS.contains(&without_family(name)));
    let mut count = 0;
    for name in going {
        match sets.destroy(name) {
            Ok(()) => count += 1,
            Err(error) => tracing::warn!(%error, name, "ipset not deleted"),
        }
    }
    (count > 0).then(|| format!("{count} address sets of ipvs mode"))
}

/// Returns the IPv4 form of a set's name.
fn without_family(name: &str) -> &str {
    const V6: &str = "KUBE-6-";
    let rest = name.strip_prefix(V6).or_else(|| name.strip_prefix("KUBE-"));
    rest.unwrap_or_default()
}

fn remove_ipvs_link() -> Option<String> {
    let name = IPVS_LINK.parse().ok()?;
    let mut connection = Connection::open().ok()?;
    match connection.link(&name) {
        Ok(Some(_)) => {}
        Ok(None) => return None,
        Err(error) => {
            tracing::warn!(%error, "links not listed");
            return None;
        }
    }
    match connection.delete_link(&name) {
        Ok(()) => Some(format!("link {IPVS_LINK}")),
        Err(error) => {
            tracing::warn!(%error, "link {IPVS_LINK} not deleted");
            None
        }
    }
}

#[cfg(test)]
mod tests;
