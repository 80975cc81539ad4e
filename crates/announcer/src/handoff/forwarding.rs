//! The kernel's part of leading connections to the node that knows them: a table of nftables of its own in each family, the
//! same whatever proxy there is.
//!
//! Between connection tracking and the proxies' rewriting, what belongs to no known connection and begins none is looked at:
//! TCP without SYN that is new here or, where it ends a connection, invalid, and ICMP errors about connections that are not
//! known. If it is for an address that is led, a copy goes to the other node, as it is, and the packet itself is gone, before
//! it could be taken for a new connection. The copy lives one hop less. What comes from a machine that is led to
//! was sent on before, and is never led. For an address of which it is not known yet where it is led, the packet is dropped:
//! TCP sends it again.
//!
//! A table that nobody tends would lead packets astray one day. So its elements expire, and are given their time anew
//! as long as the process lives. It begins with an empty table, and takes it away when it ends. What does not expire is which
//! addresses were answered for: so a process learns what was not given up by the one before, if that was killed.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use netlink::nftables::{CommitError, Nftables};
use netlink::route::LinkIndex;

use crate::Time;
use crate::handoff::previous_owners::VOTE_PATIENCE;

mod rules;
#[cfg(test)]
mod tests;

use rules::Family;
pub use rules::Wanted;

/// Most addresses that are led at a time: bounds what the kernel looks up, and what tending costs. Those beyond are not led.
pub const LED_MAX: usize = 4_096;
/// How long the kernel leads without being tended.
const UNTENDED_LASTS: Duration = Duration::from_secs(60);
/// How long the kernel drops for addresses that are not settled: a little longer than the core wants, which takes them away
/// itself.
const UNSETTLED_LASTS: Duration = VOTE_PATIENCE.saturating_add(Duration::from_secs(1));
/// How often it is tended.
const TEND_PERIOD: Duration = Duration::from_secs(20);
/// `mangle` of `netfilter_ipv4.h`: behind connection tracking, and before addresses are rewritten.
const PRIORITY: i32 = -150;
/// The loopback link's number everywhere. No address is led there: a rule with it shows whether the kernel has what it takes.
const LOOPBACK: LinkIndex = LinkIndex(1);

/// What the kernel leads.
#[derive(Debug)]
pub struct Leads {
    nftables: Option<Nftables>,
    families: [OfFamily; 2],
    tend_at: Time,
    /// What a process of before answered for that did not take its tables away.
    left: BTreeSet<IpAddr>,
}

#[derive(Debug)]
struct OfFamily {
    family: Family,
    /// Why the kernel cannot lead.
    refusal: Option<String>,
    /// What is in force; nothing is known of it after a failure.
    in_force: Option<Wanted>,
    /// The links that the table has rules for.
    links: BTreeSet<LinkIndex>,
}

impl Leads {
    /// Begins with nothing to lead, whatever a process of before left. What the kernel lacks is told by [`Leads::refusals`].
    pub fn start(now: Time) -> Self {
        let (nftables, refusal) = match Nftables::open() {
            Ok(nftables) => (Some(nftables), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let of = |family: Family| OfFamily {
            family,
            refusal: refusal.clone(),
            in_force: None,
            links: BTreeSet::new(),
        };
        let mut this = Self {
            nftables,
            families: [of(Family::Ipv4), of(Family::Ipv6)],
            tend_at: now,
            left: BTreeSet::new(),
        };
        let Some(nftables) = &mut this.nftables else {
            return this;
        };
        for part in &mut this.families {
            let left = Wanted {
                held: part.left(nftables).into_iter().collect(),
                ..Wanted::default()
            };
            this.left.extend(&left.held);
            // It stays written down until this process has made it its own.
            part.refusal = part.write(nftables, &left).err().map(|error| {
                // A part of it may be in force that was before.
                if let Err(left) = nftables.delete_table(part.family.table_family(), rules::TABLE) {
                    tracing::debug!(error = %left, within = ?UNTENDED_LASTS, "a table of before runs empty, if there is one");
                }
                error.to_string()
            });
        }
        this
    }

    /// The addresses that a process of before answered for when it was killed, [`LED_MAX`] of each family at most.
    pub fn left(&self) -> &BTreeSet<IpAddr> {
        &self.left
    }

    /// Why the kernel does not lead packets of a family, for the families for which it does not.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.families
            .iter()
            .filter_map(|part| Some((part.family.name(), part.refusal.as_deref()?)))
    }

    /// Leads these addresses, and no others.
    pub fn lead(&mut self, now: Time, wanted: &Wanted) {
        let is_due = now >= self.tend_at;
        if is_due {
            self.tend_at = now + TEND_PERIOD;
        }
        let Some(nftables) = &mut self.nftables else {
            return;
        };
        for part in &mut self.families {
            if part.refusal.is_some() {
                continue;
            }
            let wanted = wanted.of(part.family);
            if part.in_force.as_ref() == Some(&wanted) && (!is_due || wanted.lasts()) {
                continue;
            }
            // A change finds out that the table is not as it was left.
            let changed = part.in_force.is_some() && !is_due && part.change(nftables, &wanted).is_ok();
            if changed {
                continue;
            }
            if let Err(error) = part.write(nftables, &wanted) {
                // The next look at the links, or the next change, tries again.
                tracing::warn!(
                    family = part.family.name(), %error,
                    "connections through nodes that addresses moved away from may be lost"
                );
            }
        }
    }

    /// Leads nothing any more.
    pub fn end(mut self) {
        let Some(nftables) = &mut self.nftables else {
            return;
        };
        for part in self.families.iter().filter(|part| part.refusal.is_none()) {
            if let Err(error) = nftables.delete_table(part.family.table_family(), rules::TABLE) {
                tracing::warn!(%error, within = ?UNTENDED_LASTS, "the table of led addresses stays and runs empty");
            }
        }
    }
}

impl OfFamily {
    /// The addresses that the table of a process of before says it answered for.
    fn left(&self, nftables: &mut Nftables) -> Vec<IpAddr> {
        let family = self.family.table_family();
        let read = nftables.elements_of_family(family, rules::TABLE, rules::HELD, |element| {
            rules::address(element.key)
        });
        match read {
            Ok(left) => left.into_iter().flatten().collect(),
            // There is none, most likely.
            Err(error) => {
                tracing::debug!(%error, "no table of before");
                Vec::new()
            }
        }
    }

    /// Changes what has to be, if the table has all rules that it takes.
    fn change(&mut self, nftables: &mut Nftables, wanted: &Wanted) -> Result<(), CommitError> {
        let has_rules = wanted.led.values().all(|way| self.links.contains(&way.link));
        match self.in_force.take().filter(|_| has_rules) {
            Some(before) => nftables.commit(rules::changes(self.family, &before, wanted))?,
            None => return self.write(nftables, wanted),
        }
        self.in_force = Some(wanted.clone());
        Ok(())
    }

    /// Puts the table there anew, in one transaction.
    fn write(&mut self, nftables: &mut Nftables, wanted: &Wanted) -> Result<(), CommitError> {
        self.in_force = None;
        self.links = wanted
            .led
            .values()
            .map(|way| way.link)
            .chain([LOOPBACK])
            .collect();
        let table = rules::table(self.family, &self.links, wanted, is_loose());
        nftables.commit(table)?;
        self.in_force = Some(wanted.clone());
        Ok(())
    }
}

/// Whether connection tracking takes packets in the middle of a connection for new ones (`nf_conntrack_tcp_loose` of the
/// kernel's `nf_conntrack-sysctl`), as it does unless told otherwise.
fn is_loose() -> bool {
    let setting = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_tcp_loose");
    setting.map_or(true, |text| text.trim() != "0")
}
