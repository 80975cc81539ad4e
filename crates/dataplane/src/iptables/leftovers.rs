//! Removal of chains: Portolan's, kube-proxy's, and those of its ipvs mode.
//! The programs start only if the kernel reports chains, because their start takes longer than all other work here.

use std::fs;
use std::io;

use netlink::nftables::{Nftables, TableFamily};
use plan::Family;

use crate::DataplaneError;

use super::edit::Script;
use super::names::{
    CANARY, ChainName, FIREWALL, FORWARD, HEALTH_CHECKS, MARK_MASQ, MARK_OFF_CLUSTER, POSTROUTING, REJECT,
    SharedChain, Table,
};
use super::program::{ProgramError, Programs, Variant};
use super::saved::{PREFIX, SavedTables};

/// Chains of the ipvs mode only (IPV-07).
const IPVS_ONLY: [&str; 5] = [
    "KUBE-NODE-PORT",
    "KUBE-LOAD-BALANCER",
    "KUBE-SOURCE-RANGES-FIREWALL",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
];

/// Chains to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// Own chains, and those of all modes of kube-proxy.
    All,
    /// Own chains. Chains of kube-proxy have the same names, so [`SharedChain::ClusterIps`] must be among them.
    Own,
    /// Chains of kube-proxy's ipvs mode only.
    IpvsOnly,
}

impl Leftovers {
    fn has(self, table: Table, name: &str) -> bool {
        match self {
            Self::All => IPVS_ONLY.contains(&name) || is_of_iptables(table, name),
            Self::Own => is_of_iptables(table, name),
            Self::IpvsOnly => IPVS_ONLY.contains(&name),
        }
    }

    fn concerns(self, saved: &SavedTables) -> bool {
        let mark = SharedChain::ClusterIps;
        self != Self::Own || saved.table(mark.table()).chains.contains_key(mark.name())
    }
}

/// Removes chains and the jumps to them, from legacy and nft tables. Chains that foreign chains jump to stay
/// unchanged. Returns true if there were any.
///
/// # Errors
///
/// An error if a program cannot run or refuses the change.
pub(super) fn clean(leftovers: Leftovers) -> Result<bool, DataplaneError> {
    let mut found = false;
    for family in [Family::V4, Family::V6] {
        let (nft, has_legacy) = (has_nft_chains(family), has_legacy_tables(family));
        let has_nft = nft.unwrap_or(true);
        let mut is_read = false;
        let mut failure = None;
        for (variant, has_any) in [
            (Some(Variant::Nft), has_nft),
            (Some(Variant::Legacy), has_legacy),
            // The default programs have no variant in their names.
            (None, has_nft || has_legacy),
        ] {
            if !has_any {
                continue;
            }
            let programs = Programs::new(family, variant);
            match programs.save() {
                Ok(saved) => {
                    is_read = true;
                    found |= clean_tables(leftovers, &programs, &saved)?;
                }
                Err(error @ ProgramError::NotPermitted { .. }) => return Err(error.into()),
                Err(error) => {
                    tracing::debug!(%error, "chains not read");
                    failure = Some(error);
                }
            }
        }
        // The kernel reports chains of Kubernetes, and no program reads them: their owner is unknown.
        if let Some(error) = failure.filter(|_| nft == Some(true) && !is_read && leftovers == Leftovers::All)
        {
            return Err(error.into());
        }
    }
    Ok(found)
}

/// Reports chains of Kubernetes in the nf_tables tables of iptables. `None` if the kernel does not answer, so that the
/// program decides.
fn has_nft_chains(family: Family) -> Option<bool> {
    let family = match family {
        Family::V4 => TableFamily::Ipv4,
        Family::V6 => TableFamily::Ipv6,
    };
    let names = Nftables::open().ok()?.chain_names(family).ok()?;
    Some(names.iter().any(|name| name.starts_with(PREFIX)))
}

/// Reports tables of ip_tables; a query by the program would create them. If the kernel does not answer, it returns
/// true.
fn has_legacy_tables(family: Family) -> bool {
    let path = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    match fs::read_to_string(path) {
        Ok(names) => !names.is_empty(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn clean_tables(
    leftovers: Leftovers,
    programs: &Programs,
    saved: &SavedTables,
) -> Result<bool, ProgramError> {
    if !leftovers.concerns(saved) {
        return Ok(false);
    }
    let is_leftover = |table, name: &str| leftovers.has(table, name);
    let has_any = Table::ALL.into_iter().any(|table| {
        let mut names = saved.table(table).chains.keys();
        names.any(|name| is_leftover(table, name))
    });
    if has_any {
        programs.restore(|out| write_cleaning(saved, is_leftover, &mut Script::new(out)))?;
    }
    Ok(has_any)
}

fn write_cleaning(
    saved: &SavedTables,
    is_leftover: impl Fn(Table, &str) -> bool,
    script: &mut Script<'_>,
) -> io::Result<()> {
    const KERNELS: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
    for table in Table::ALL {
        let found = saved.table(table);
        let is_kept = |name: &str| {
            let mut others = found.references.iter().filter(|at| !KERNELS.contains(&&*at.from));
            others.any(|at| at.to == *name)
        };
        let going: Vec<&str> = found
            .chains
            .keys()
            .map(|name| &**name)
            .filter(|name| is_leftover(table, name) && !is_kept(name))
            .collect();
        if going.is_empty() {
            continue;
        }
        script.open(table)?;
        for name in &going {
            script.declare(name)?;
        }
        for at in found.references.iter().filter(|at| going.contains(&&*at.to)) {
            script.line(format_args!("-D {} {}", at.from, at.rule))?;
        }
        for name in &going {
            script.line(format_args!("-X {name}"))?;
        }
        script.line(format_args!("COMMIT"))?;
    }
    Ok(())
}

/// Returns true if a chain belongs to iptables mode, kube-proxy's or this one.
fn is_of_iptables(table: Table, name: &str) -> bool {
    let is_shared = SharedChain::ALL
        .iter()
        .any(|shared| shared.table() == table && shared.name() == name);
    let fixed: &[&str] = match table {
        Table::Mangle => &[CANARY],
        Table::Filter => &[CANARY, FORWARD, REJECT, HEALTH_CHECKS, FIREWALL],
        Table::Nat => &[CANARY, MARK_MASQ, MARK_OFF_CLUSTER, POSTROUTING],
    };
    is_shared || fixed.contains(&name) || (table == Table::Nat && ChainName::parse(name).is_some())
}
