//! What kube-proxy leaves behind when it stops, taken away once our rules are in force: until then it carries
//! the traffic, so that there is no gap (KPR-09, KPF-03).

use std::io::Write;
use std::process::{Command, Stdio};

use netlink::nftables::{Nftables, TableFamily};
use netlink::route::Connection;

/// The tables of its nftables mode (NFT-01).
const TABLES: [(TableFamily, &str); 2] = [
    (TableFamily::Ipv4, "kube-proxy"),
    (TableFamily::Ipv6, "kube-proxy"),
];
/// The link that holds all addresses of Services in its ipvs mode (IPV-01).
const IPVS_LINK: &str = "kube-ipvs0";
/// The programs of each kind of iptables, for both families. The kernel keeps what each wrote apart.
const IPTABLES: [&str; 4] = [
    "iptables-legacy",
    "ip6tables-legacy",
    "iptables-nft",
    "ip6tables-nft",
];
const IPTABLES_TABLES: [&str; 3] = ["nat", "filter", "mangle"];
/// How the names of its chains begin (IPT-01, IPT-02, IPV-07). The kubelet's are not among them.
const CHAIN_PREFIXES: [&str; 16] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-NODE-PORT",
    "KUBE-POSTROUTING",
    "KUBE-MARK-MASQ",
    "KUBE-FORWARD",
    "KUBE-PROXY-",
    "KUBE-LOAD-BALANCER",
    "KUBE-SOURCE-RANGES-FIREWALL",
    "KUBE-IPVS-",
    "KUBE-SVC-",
    "KUBE-SVL-",
    "KUBE-SEP-",
    "KUBE-EXT-",
    "KUBE-FW-",
];

/// Takes away what kube-proxy left in this network namespace; what was found, in words. What cannot be taken
/// away is said in the log and stays.
pub fn remove_kube_proxy() -> Vec<String> {
    let mut found = Vec::new();
    match Nftables::open() {
        Ok(mut nftables) => {
            for (family, table) in TABLES {
                match nftables.delete_table(family, table) {
                    Ok(true) => found.push(format!("nftables table {family:?} {table}")),
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, table, "a table of kube-proxy's stays"),
                }
            }
        }
        Err(error) => tracing::warn!(%error, "tables of kube-proxy's stay, if there are any"),
    }
    for program in IPTABLES {
        for table in IPTABLES_TABLES {
            found.extend(remove_chains(program, table));
        }
    }
    found.extend(remove_ipvs_link());
    found
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

/// Takes its chains out of a table of iptables. Nothing where the program is not installed, or knows of none.
fn remove_chains(program: &str, table: &str) -> Option<String> {
    let saved = Command::new(format!("{program}-save"))
        .args(["-t", table])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let (script, count) = removal(table, &String::from_utf8_lossy(&saved.stdout))?;
    let restored = restore(program, &script);
    match restored {
        Ok(status) if status.success() => Some(format!("{count} chains of {program} in {table}")),
        Ok(status) => {
            tracing::warn!(program, table, %status, "chains of kube-proxy's stay");
            None
        }
        Err(error) => {
            tracing::warn!(program, table, %error, "chains of kube-proxy's stay");
            None
        }
    }
}

fn restore(program: &str, script: &str) -> std::io::Result<std::process::ExitStatus> {
    let mut child = Command::new(format!("{program}-restore"))
        .args(["--noflush", "--wait=5"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    child.wait()
}

/// What makes `iptables-restore` take kube-proxy's chains away, and how many there are: the rules elsewhere
/// that lead to them, then their own rules, then the chains. `None` if there are none.
fn removal(table: &str, saved: &str) -> Option<(String, usize)> {
    let chains: Vec<&str> = saved
        .lines()
        .filter_map(|line| line.strip_prefix(':')?.split_whitespace().next())
        .filter(|chain| is_kube_proxys(chain))
        .collect();
    if chains.is_empty() {
        return None;
    }
    let mut script = format!("*{table}\n");
    for chain in &chains {
        script.push_str(&format!(":{chain} - [0:0]\n"));
    }
    for rule in saved.lines().filter_map(|line| line.strip_prefix("-A ")) {
        let mut words = rule.split_whitespace();
        let is_own = words.next().is_some_and(is_kube_proxys);
        let leads_there = words.any(|word| chains.contains(&word));
        if !is_own && leads_there {
            script.push_str(&format!("-D {rule}\n"));
        }
    }
    for chain in &chains {
        script.push_str(&format!("-X {chain}\n"));
    }
    script.push_str("COMMIT\n");
    Some((script, chains.len()))
}

fn is_kube_proxys(chain: &str) -> bool {
    CHAIN_PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

#[cfg(test)]
mod tests;
