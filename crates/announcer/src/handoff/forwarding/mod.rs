//! Forwarding of packets of unknown connections to previous owners, by one nftables table per IP family. The table is
//! independent of the proxy mode.
//!
//! The hook runs after conntrack and before DNAT (priority mangle). It matches packets that neither belong to a tracked
//! connection nor open one: TCP without SYN in state `new`, or `invalid` for FIN and RST, and ICMP errors. For a
//! forwarded address it duplicates the packet unchanged to the previous owner (`dup to`, TTL − 1) and drops the
//! original. Conntrack never creates an entry for it. Packets from the Ethernet address of a previous owner are not
//! forwarded again. For a pending address the packet is dropped; TCP retransmits it.
//!
//! A stale table would misdirect packets. Its elements therefore expire, and a running process refreshes them. A
//! process starts with an empty table and deletes it at exit. The set of owned addresses does not expire. From this
//! set, the next process reads the addresses that a killed process did not release.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use netlink::nftables::{CommitError, Nftables};
use netlink::route::LinkIndex;

use crate::Time;
use crate::handoff::previous_owners::ATTRIBUTION_TIMEOUT;

mod rules;
#[cfg(test)]
mod tests;

use rules::Family;
pub(crate) use rules::ForwardingState;

/// Maximum number of forwarded addresses per family. It bounds the kernel's lookups and the cost of a refresh. Further
/// addresses are not forwarded.
pub(crate) const FORWARDED_MAX: usize = 4_096;
/// Lifetime of elements without a refresh.
const ELEMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Lifetime of pending addresses in the kernel. It slightly exceeds their lifetime in the state machine, which
/// removes them itself.
const PENDING_TIMEOUT: Duration = ATTRIBUTION_TIMEOUT.saturating_add(Duration::from_secs(1));
/// Period of refreshes.
const REFRESH_PERIOD: Duration = Duration::from_secs(20);
/// `NF_IP_PRI_MANGLE` of `netfilter_ipv4.h`: after conntrack and before DNAT.
const PRIORITY: i32 = -150;
/// Index of the loopback link in every network namespace. No address is forwarded there; a rule with it proves that the
/// kernel supports all expressions.
const LOOPBACK: LinkIndex = LinkIndex(1);

/// The nftables tables of both families.
#[derive(Debug)]
pub(crate) struct ConnectionForwarding {
    nftables: Option<Nftables>,
    families: [FamilyTable; 2],
    refresh_at: Time,
    /// Addresses that a killed process owned.
    recovered: BTreeSet<IpAddr>,
}

/// Table of one IP family.
#[derive(Debug)]
struct FamilyTable {
    family: Family,
    /// Reason why the kernel does not support forwarding.
    unsupported: Option<String>,
    /// State that the kernel holds; `None` after a failure.
    applied: Option<ForwardingState>,
    /// Links with rules in the table.
    links: BTreeSet<LinkIndex>,
}

impl ConnectionForwarding {
    /// Replaces the tables of an earlier process by empty ones. [`ConnectionForwarding::unsupported`] reports
    /// missing kernel support.
    pub(crate) fn start(now: Time) -> Self {
        let (nftables, unsupported) = match Nftables::open() {
            Ok(nftables) => (Some(nftables), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let table = |family: Family| FamilyTable {
            family,
            unsupported: unsupported.clone(),
            applied: None,
            links: BTreeSet::new(),
        };
        let mut this = Self {
            nftables,
            families: [table(Family::Ipv4), table(Family::Ipv6)],
            refresh_at: now,
            recovered: BTreeSet::new(),
        };
        let Some(nftables) = &mut this.nftables else {
            return this;
        };
        for table in &mut this.families {
            let recovered = ForwardingState {
                held: table.recover(nftables).into_iter().collect(),
                ..ForwardingState::default()
            };
            this.recovered.extend(&recovered.held);
            // The addresses stay recorded until this process has taken them over: it may be killed first.
            table.unsupported = table.write(nftables, &recovered).err().map(|error| {
                // A part of an earlier table may still be active.
                if let Err(error) = nftables.delete_table(table.family.table_family(), rules::TABLE) {
                    tracing::debug!(%error, within = ?ELEMENT_TIMEOUT, "forwarding table not deleted; its elements expire");
                }
                error.to_string()
            });
        }
        this
    }

    /// Returns the addresses that a killed process owned, at most [`FORWARDED_MAX`] per family.
    pub(crate) fn recovered(&self) -> &BTreeSet<IpAddr> {
        &self.recovered
    }

    /// Returns the families without kernel support, and the reasons.
    pub(crate) fn unsupported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.families
            .iter()
            .filter_map(|table| Some((table.family.name(), table.unsupported.as_deref()?)))
    }

    /// Writes the desired state to the kernel and refreshes its elements if the period has passed.
    pub(crate) fn apply(&mut self, now: Time, desired: &ForwardingState) {
        let is_due = now >= self.refresh_at;
        if is_due {
            self.refresh_at = now + REFRESH_PERIOD;
        }
        let Some(nftables) = &mut self.nftables else {
            return;
        };
        for table in &mut self.families {
            if table.unsupported.is_some() {
                continue;
            }
            let desired = desired.of_family(table.family);
            if table.applied.as_ref() == Some(&desired) && (!is_due || desired.never_expires()) {
                continue;
            }
            // An incremental change fails if the table was altered by others; then it is written as a whole.
            let is_updated = table.applied.is_some() && !is_due && table.update(nftables, &desired).is_ok();
            if is_updated {
                continue;
            }
            if let Err(error) = table.write(nftables, &desired) {
                // The next refresh of links or the next change tries again.
                tracing::warn!(
                    family = table.family.name(), %error,
                    "forwarding table not written; connections through previous owners may be lost"
                );
            }
        }
    }

    /// Deletes the tables. The kernel takes milliseconds to close the connection to it afterwards, so that is left to the
    /// caller.
    pub(crate) fn delete(&mut self) {
        let Some(nftables) = &mut self.nftables else {
            return;
        };
        let supported = self.families.iter().filter(|table| table.unsupported.is_none());
        for table in supported {
            if let Err(error) = nftables.delete_table(table.family.table_family(), rules::TABLE) {
                tracing::warn!(%error, within = ?ELEMENT_TIMEOUT, "forwarding table not deleted; its elements expire");
            }
        }
    }
}

impl FamilyTable {
    /// Reads the owned addresses from the table of an earlier process.
    fn recover(&self, nftables: &mut Nftables) -> Vec<IpAddr> {
        let family = self.family.table_family();
        let read = nftables.elements_of_family(family, rules::TABLE, rules::HELD, |element| {
            rules::address(element.key)
        });
        match read {
            Ok(addresses) => addresses.into_iter().flatten().collect(),
            // Most likely the table does not exist.
            Err(error) => {
                tracing::debug!(%error, "forwarding table of an earlier process not found");
                Vec::new()
            }
        }
    }

    /// Applies the difference to the current state if the table has rules for all links.
    fn update(&mut self, nftables: &mut Nftables, desired: &ForwardingState) -> Result<(), CommitError> {
        let has_rules = desired
            .forwarded
            .values()
            .all(|next_hop| self.links.contains(&next_hop.link));
        match self.applied.take().filter(|_| has_rules) {
            Some(applied) => nftables.commit(rules::difference(self.family, &applied, desired))?,
            None => return self.write(nftables, desired),
        }
        self.applied = Some(desired.clone());
        Ok(())
    }

    /// Replaces the table in one transaction.
    fn write(&mut self, nftables: &mut Nftables, desired: &ForwardingState) -> Result<(), CommitError> {
        self.applied = None;
        self.links = desired
            .forwarded
            .values()
            .map(|next_hop| next_hop.link)
            .chain([LOOPBACK])
            .collect();
        let table = rules::table(self.family, &self.links, desired, is_conntrack_loose());
        nftables.commit(table)?;
        self.applied = Some(desired.clone());
        Ok(())
    }
}

/// Returns true if conntrack picks up established connections (`nf_conntrack_tcp_loose` of the kernel's
/// `nf_conntrack-sysctl`), which is the default.
fn is_conntrack_loose() -> bool {
    let setting = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_tcp_loose");
    setting.map_or(true, |text| text.trim() != "0")
}
