//! iptables mode: the plan through `iptables-restore` (legacy or nft), in the chains and under the names of
//! kube-proxy (IPT). Some kernels and tools need this mode.
//!
//! Differences from kube-proxy:
//! - A change rewrites only the chains that differ. The long shared chains stay while only endpoints change.
//! - The rules reject TCP with a reset. Unknown ports of a cluster IP are rejected, and unassigned cluster IPs are
//!   dropped (chain `KUBE-CLUSTER-IPS`), as in the other modes.
//! - The tables are read back and compared rule by rule, not only probed for a canary.
//!
//! Port ranges follow all Service ports in the shared chains. `xt_cluster` selects their endpoints by a hash of the
//! client's address. If the kernel refuses the rules of a Service with ranges, no range is served until all chains are
//! rewritten. The data plane reports these Services as skipped.
//!
//! A change is one transaction per table. `filter` comes first, so that no rule rejects connections to a Service that
//! has endpoints. If the kernel refuses the rules of a Service, the data plane skips it until it changes, or until all
//! chains are rewritten.

mod base_chains;
mod context;
mod edit;
mod family_tables;
mod leftovers;
mod names;
mod ping;
mod program;
mod rule;
mod saved;
mod service_rules;

use plan::{Changes, Family, Plan};

use crate::{Applied, Counts, Dataplane, DataplaneError};

pub use leftovers::Leftovers;
pub use program::{ProgramError, Variant};

use family_tables::FamilyTables;
use program::Programs;

/// Kernel counter of packets that are dropped in conntrack state INVALID, for both IP families, under upstream's name
/// (IPT-08). Kernels without nfacct have no such counter.
pub const INVALID_DROPPED_COUNTER: &str = "ct_state_invalid_dropped_pkts";

/// Bits of a packet mark.
const MARK_BITS: u8 = 32;

/// Options of the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bit of the packet mark that requests masquerading, 0 to 31 (KPF-17).
    pub masquerade_bit: u8,
    /// Variant of iptables; `None` for the one that this host uses.
    pub variant: Option<Variant>,
    /// Number of repairs that check only canaries and required jumps, between two that compare everything. The cost of
    /// a comparison grows with the tables.
    pub repairs_by_canary: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            masquerade_bit: 14,
            variant: None,
            repairs_by_canary: 9,
        }
    }
}

impl Options {
    fn masquerade_mark(&self) -> u32 {
        1 << (self.masquerade_bit % MARK_BITS)
    }
}

/// An iptables data plane in the network namespace of the calling thread.
#[derive(Debug)]
pub struct IptablesDataplane {
    options: Options,
    /// Tables by IP family, for the families of this host.
    families: Vec<FamilyTables>,
    repairs: usize,
}

impl IptablesDataplane {
    /// Finds the programs and checks privileges; writes no rule yet. IPv6 is left out if the kernel or the programs
    /// lack it.
    ///
    /// # Errors
    ///
    /// [`DataplaneError::NotPermitted`] or [`DataplaneError::Program`] if the tables cannot be read.
    pub fn open(options: Options) -> Result<Self, DataplaneError> {
        let variant = options.variant.or_else(program::detect);
        tracing::debug!(?variant, "iptables variant detected");
        let v4 = Programs::new(Family::V4, variant);
        v4.check()?;
        let mut families = vec![FamilyTables::new(Family::V4, v4)];
        let v6 = Programs::new(Family::V6, variant);
        match v6.check() {
            Ok(()) => families.push(FamilyTables::new(Family::V6, v6)),
            Err(error) => tracing::warn!(%error, "ip6tables not usable; IPv6 Services not implemented"),
        }
        Ok(Self {
            options,
            families,
            repairs: 0,
        })
    }

    /// Removes chains and the jumps to them, from legacy and nft tables. Returns true if there were any.
    ///
    /// # Errors
    ///
    /// An error if a program cannot run or refuses the change.
    pub fn cleanup(leftovers: Leftovers) -> Result<bool, DataplaneError> {
        leftovers::clean(leftovers)
    }
}

impl Dataplane for IptablesDataplane {
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let mut total = Applied::default();
        for tables in &mut self.families {
            let applied = tables.apply(plan, changes, &self.options)?;
            total.elements += applied.elements;
            for skipped in applied.skipped {
                if total.skipped.iter().all(|known| known.service != skipped.service) {
                    total.skipped.push(skipped);
                }
            }
        }
        Ok(total)
    }

    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        let is_complete = self.repairs.is_multiple_of(self.options.repairs_by_canary + 1);
        self.repairs += 1;
        let mut drift = 0;
        for tables in &mut self.families {
            if is_complete || !tables.has_required_jumps()? {
                drift += tables.repair(plan, &self.options)?;
            }
        }
        Ok(drift)
    }

    fn answers_ping(&self) -> bool {
        true
    }

    fn counts(&self) -> Counts {
        Counts {
            iptables: self.families.iter().map(FamilyTables::counts).collect(),
            ..Counts::default()
        }
    }
}

#[cfg(test)]
mod tests;
