//! What kube-proxy leaves behind when it stops, taken away once our rules are in force: until then it carries
//! the traffic, so that there is no gap (KPR-09, KPF-03).

use dataplane::iptables::{INVALID_DROPPED_COUNTER, IptablesDataplane, Leftovers};
use netlink::accounting::Accounting;
use netlink::ipset::IpSets;
use netlink::nftables::{Nftables, TableFamily};
use netlink::route::Connection;

/// The tables of its nftables mode (NFT-01).
const TABLES: [(TableFamily, &str); 2] = [
    (TableFamily::Ipv4, "kube-proxy"),
    (TableFamily::Ipv6, "kube-proxy"),
];
/// The link that holds all addresses of Services in its ipvs mode (IPV-01).
const IPVS_LINK: &str = "kube-ipvs0";
/// The address sets of that mode, without `KUBE-` or `KUBE-6-` (IPV-06).
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
/// Counters that rules of its iptables mode add to (IPT-08, IPT-10).
const COUNTERS: [&str; 2] = [INVALID_DROPPED_COUNTER, "localhost_nps_accepted_pkts"];
/// Our own table, which another mode leaves behind.
const OWN_TABLE: &str = "portolan";

/// Takes away what kube-proxy left in this network namespace, and what our other modes left; what was found, in words.
/// `mode` is the one that is in force by now, whose rules stay; `None` for none. What cannot be taken away is said in
/// the log and stays.
pub fn remove_leftovers(mode: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut tables = TABLES.to_vec();
    // Mode userspace leads connections to itself by the same table.
    if !matches!(mode, Some("nftables" | "userspace")) {
        tables.push((TableFamily::Inet, OWN_TABLE));
    }
    match Nftables::open() {
        Ok(mut nftables) => {
            for (family, table) in tables {
                match nftables.delete_table(family, table) {
                    Ok(true) => found.push(format!("nftables table {family:?} {table}")),
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, table, "a table stays"),
                }
            }
        }
        Err(error) => tracing::warn!(%error, "tables of nftables stay, if there are any"),
    }
    // Mode iptables has kube-proxy's chains, and made them its own.
    let chains = match mode {
        Some("iptables") => Leftovers::IpvsOnly,
        _ => Leftovers::All,
    };
    match IptablesDataplane::cleanup(chains) {
        Ok(true) => found.push("chains of iptables".to_owned()),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "chains of iptables stay, if there are any"),
    }
    if chains == Leftovers::All {
        remove_counters();
    }
    found.extend(remove_ipvs_sets());
    found.extend(remove_ipvs_link());
    found
}

/// The counters that no rule adds to any more. They are not worth a word.
fn remove_counters() {
    for name in COUNTERS {
        // A kernel without counters by name says so.
        if let Err(error) = Accounting::open().and_then(|mut accounting| accounting.remove(name)) {
            tracing::debug!(%error, name, "a counter stays");
        }
    }
}

/// The address sets of its ipvs mode, which only its chains use.
fn remove_ipvs_sets() -> Option<String> {
    let mut sets = IpSets::open().ok()?;
    // A kernel without sets of this kind says so.
    let names = sets.names().ok()?;
    let going = names
        .iter()
        .filter(|name| IPVS_SETS.contains(&without_family(name)));
    let mut count = 0;
    for name in going {
        match sets.destroy(name) {
            Ok(()) => count += 1,
            Err(error) => tracing::warn!(%error, name, "an address set stays"),
        }
    }
    (count > 0).then(|| format!("{count} address sets of ipvs mode"))
}

/// A set's name as it is for IPv4.
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
            tracing::warn!(%error, "cannot look for {IPVS_LINK}");
            return None;
        }
    }
    match connection.delete_link(&name) {
        Ok(()) => Some(format!("link {IPVS_LINK}")),
        Err(error) => {
            tracing::warn!(%error, "{IPVS_LINK} stays");
            None
        }
    }
}

#[cfg(test)]
mod tests;
