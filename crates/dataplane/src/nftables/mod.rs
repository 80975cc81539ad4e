//! nftables mode: the plan in one table, written by netlink.
//!
//! The table is `inet portolan`. A new connection passes these steps. Each one is a lookup, regardless of the number
//! of Services:
//!
//! 1. `services`: the destination maps to a verdict code, as an address (`services4`) or as a node port
//!    (`node-ports4`). The map `verdicts` leads from the code to a chain.
//! 2. That chain distinguishes the origins of connections, if needed, and goes to a chain `…-clusterN` or `…-localN`.
//!    There, a random number below N selects an endpoint of the Service (`cluster-endpoints4`) for DNAT. Other chains
//!    reject or drop.
//! 3. Before the connection leaves the node, chain `redirected` finds the code again by the original destination. The
//!    last bits of the code select the origins to masquerade. Masquerading needs no mark. Some rules use the packet mark
//!    for a lookup and restore it within the rule, so other programs see no change.
//!
//! Port ranges are elements of the interval map `port-ranges4`, which is consulted after `services4`. They keep the port
//! of the client, and a hash of the client's address selects the endpoint. Echo requests to addresses in `pings4` go to
//! an address of this node, which answers.
//!
//! Other schedulers replace the random number. Round robin uses a counter, which belongs to a rule and so needs a
//! chain per Service port. Maglev uses a hash of the client's address and port.
//!
//! A Service consists of map elements, and of one chain for each port that uses round robin. All other chains are shared,
//! one for each kind of verdict.

mod affinities;
mod applied;
mod base_ruleset;
mod bytes;
mod delegation;
mod drift;
mod indexed_endpoints;
mod layout;
mod ledger;
mod local_redirects;
mod map_element;
mod port;
mod ranges;
mod repair;
mod rule_builder;
mod snapshot;
mod synchronize;
mod transaction;
mod verdict_chain;
mod verdict_codes;
mod verify;

use std::collections::HashSet;
use std::net::SocketAddr;

use api::object::ObjectKey;
use netlink::nftables::{Batch, Chain, Change, CommitError, ExternalChange, Monitor, Nftables, Rule};
use plan::{Changes, Plan, PortKey, Scheduler};

use crate::{Applied, Counts, Dataplane, DataplaneError, SkippedService};

use applied::AppliedServices;
use bytes::MapBytes;
use delegation::Delegation;
use layout::FAMILIES;
use ledger::Ledger;
use local_redirects::LocalRedirects;
use map_element::{MapElement, difference};
use port::Port;
use transaction::{NO_OWNER, Transaction, write_chains, write_elements};
use verdict_codes::VerdictCodes;

pub use drift::Drift;

pub(crate) use delegation::virtual_set;

/// Services that one transaction of the first load contains. It bounds memory: about 200 KB of messages with ten
/// endpoints each.
const SERVICES_PER_TRANSACTION: usize = 256;
/// Maximum number of attempts of a transaction, each without the Services that the kernel refused before. The kernel
/// reports all refusals at once, so a third attempt is rare.
const ROUNDS_MAX: usize = 8;

/// Options of the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the table, in family `inet`.
    pub table: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: "portolan".to_owned(),
        }
    }
}

/// An nftables table in the network namespace in which it was opened.
#[derive(Debug)]
pub struct NftablesDataplane {
    nftables: Nftables,
    table: String,
    /// True if the fields below match the kernel's state.
    is_in_sync: bool,
    /// Transactions since the table was last verified.
    ledger: Ledger,
    /// Index of the map to verify next, and the number of maps not verified since the last external transaction.
    next_map: usize,
    unverified_maps: usize,
    applied: AppliedServices,
    codes: VerdictCodes,
    chains: Vec<(Chain, Vec<Rule>)>,
    ranges: Vec<MapElement>,
    cleanup_failures: u64,
    delegation: Delegation,
}

impl NftablesDataplane {
    /// Connects to the kernel and checks privileges; reads and writes no rule yet.
    ///
    /// # Errors
    ///
    /// [`DataplaneError::NotPermitted`] without CAP_NET_ADMIN, [`DataplaneError::Connect`] without netfilter.
    pub fn open(options: Options) -> Result<Self, DataplaneError> {
        let mut nftables = Nftables::open().map_err(|source| DataplaneError::Connect { source })?;
        // Opening the socket needs no privilege; the first request does.
        nftables.generation()?;
        Ok(Self {
            nftables,
            table: options.table,
            is_in_sync: false,
            ledger: Ledger::default(),
            next_map: 0,
            unverified_maps: 0,
            applied: AppliedServices::default(),
            codes: VerdictCodes::default(),
            chains: Vec::new(),
            ranges: Vec::new(),
            cleanup_failures: 0,
            delegation: Delegation::None,
        })
    }

    /// Opens a data plane for userspace mode: connections go to listeners on this node, not to endpoints.
    pub(crate) fn open_for_local_redirects(options: Options) -> Result<Self, DataplaneError> {
        Ok(Self {
            delegation: Delegation::Listeners(LocalRedirects::default()),
            ..Self::open(options)?
        })
    }

    /// Sets the listeners of a Service port; `[None; 2]` removes the port. This has to precede changes of its Service.
    pub(crate) fn set_local_redirects(&mut self, port: &PortKey, local_redirects: [Option<SocketAddr>; 2]) {
        if let Delegation::Listeners(listeners) = &mut self.delegation {
            listeners.set(port, local_redirects);
        }
    }

    /// Lets virtual servers choose endpoints, or the rules. The next change writes all Services.
    pub(crate) fn delegate_to_virtual_servers(&mut self, is_delegated: bool) {
        if self.delegation.has_virtual_servers() != is_delegated {
            self.delegation = if is_delegated {
                Delegation::VirtualServers
            } else {
                Delegation::None
            };
            self.is_in_sync = false;
        }
    }

    /// Deletes the table with its content. Returns true if it existed.
    ///
    /// # Errors
    ///
    /// An error if the kernel refuses; the table is unchanged then.
    pub fn cleanup(&mut self) -> Result<bool, DataplaneError> {
        self.is_in_sync = false;
        if self.nftables.table(&self.table)?.is_none() {
            return Ok(false);
        }
        let mut batch = Batch::new(&self.table, None);
        batch.table(Change::Delete, &base_ruleset::table(&self.table), NO_OWNER);
        self.commit(batch)?;
        Ok(true)
    }

    /// Commits a transaction and records it in the ledger.
    fn commit(&mut self, batch: Batch) -> Result<(), CommitError> {
        if batch.is_empty() {
            return Ok(());
        }
        let result = self.nftables.commit(batch);
        match &result {
            Ok(()) => self.ledger.record_own(),
            // The transaction may or may not be committed.
            Err(CommitError::Socket { .. }) => self.ledger.invalidate(),
            Err(_) => {}
        }
        result
    }

    /// Returns true if the ledger explains the kernel's state, so that no verification is needed.
    fn is_accounted_for(&mut self) -> Result<bool, DataplaneError> {
        if !self.is_in_sync {
            return Ok(false);
        }
        let now = self.nftables.generation()?;
        Ok(self.ledger.accounts_for(now))
    }

    /// Applies the settings of the plan.
    fn apply_settings(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        let chains = base_ruleset::chains(plan, self.delegation.has_virtual_servers());
        let ranges = ranges::elements(plan.settings());
        let mut batch = Batch::new(&self.table, None);
        let changed: Vec<_> = chains
            .iter()
            .filter(|chain| !self.chains.contains(chain))
            .cloned()
            .collect();
        for (chain, _) in &changed {
            batch.flush_chain(&chain.name, NO_OWNER);
        }
        write_chains(&mut batch, &changed);
        let (removed, added) = difference(self.ranges.clone(), ranges.clone());
        write_elements(&mut batch, Change::Delete, &removed, NO_OWNER);
        write_elements(&mut batch, Change::Add, &added, NO_OWNER);
        self.commit(batch)?;
        self.chains = chains;
        self.ranges = ranges;
        Ok(removed.len() + added.len())
    }

    /// Applies Services as one transaction. Services that the kernel refuses are skipped.
    fn apply_services(&mut self, plan: &Plan, services: &[ObjectKey]) -> Result<Applied, DataplaneError> {
        let mut skipped: Vec<SkippedService> = Vec::new();
        let mut rounds = 0;
        loop {
            rounds += 1;
            let remaining = services
                .iter()
                .filter(|service| skipped.iter().all(|skipped| skipped.service != **service));
            let transaction = Transaction::new(
                plan,
                remaining,
                &self.delegation,
                &mut self.applied,
                &mut self.codes,
            );
            self.copy_affinities(&transaction);
            let error = match self.commit(transaction.batch(&self.table, &self.codes)) {
                Ok(()) => {
                    let elements = transaction.elements();
                    self.expire_affinities(&transaction);
                    transaction.mark_applied(&mut self.codes);
                    return Ok(Applied { elements, skipped });
                }
                Err(error) => error,
            };
            let refused = transaction.refused(&error);
            transaction.roll_back(&mut self.applied);
            match refused {
                Some(refused) if rounds < ROUNDS_MAX => {
                    for (service, reason) in refused {
                        if skipped.iter().all(|skipped| skipped.service != service) {
                            skipped.push(SkippedService { service, reason });
                        }
                    }
                }
                _ => return Err(error.into()),
            }
        }
    }

    /// Copies the affinities of Service ports whose first frontend changes, before rules use the new one (EPT-11). The
    /// cost grows with the number of affinities. After a failure clients get another endpoint.
    fn copy_affinities(&mut self, transaction: &Transaction) {
        for family in FAMILIES {
            let moved = transaction.moved_members(&self.applied, family);
            if moved.is_empty() {
                continue;
            }
            let copies = affinities::copies(&mut self.nftables, &self.table, family, &moved);
            let result = copies.map_err(DataplaneError::from).and_then(|copies| {
                if copies.is_empty() {
                    return Ok(());
                }
                Ok(self.commit(affinities::batch(&self.table, family, &copies))?)
            });
            if let Err(error) = result {
                tracing::debug!(%error, "affinities of a changed Service port not copied");
            }
        }
    }

    /// Deletes affinities to endpoints that have left, so that clients do not return to these later (EPT-12). The
    /// cost grows with the number of affinities, and arises only if such an endpoint has left. A failure has no other
    /// effect.
    fn expire_affinities(&mut self, transaction: &Transaction) {
        for family in FAMILIES {
            let departed_endpoints = transaction.departed_endpoints(&self.applied, family);
            if departed_endpoints.is_empty() {
                continue;
            }
            let is_stale = |member: &MapBytes| departed_endpoints.contains(member);
            let stale = snapshot::stale_affinities(&mut self.nftables, &self.table, family, is_stale);
            let result = stale.map_err(DataplaneError::from).and_then(|stale| {
                let mut batch = Batch::new(&self.table, None);
                write_elements(&mut batch, Change::Delete, &stale, NO_OWNER);
                Ok(self.commit(batch)?)
            });
            if let Err(error) = result {
                self.cleanup_failures += 1;
                tracing::debug!(%error, "affinities to removed endpoints not deleted");
            }
        }
    }

    /// Deletes verdict codes and chains that no Service uses. A failure only costs kernel memory until the next
    /// repair.
    fn delete_unused(&mut self) {
        let used: HashSet<u32> = self
            .applied
            .services()
            .flat_map(|(_, ports)| ports.iter().flat_map(Port::codes))
            .collect();
        let unused: Vec<u32> = self.codes.applied().filter(|code| !used.contains(code)).collect();
        if unused.is_empty() {
            return;
        }
        let elements: Vec<MapElement> = unused
            .iter()
            .filter_map(|code| self.codes.element(*code))
            .collect();
        let chains = self.codes.remove_applied(&unused);
        let mut batch = Batch::new(&self.table, None);
        write_elements(&mut batch, Change::Delete, &elements, NO_OWNER);
        // Kernels before 6.2 cannot delete an element and the chain that it refers to in one transaction (NFT-21).
        let result = self.commit(batch).and_then(|()| self.delete_chains(&chains));
        if let Err(error) = result {
            self.cleanup_failures += 1;
            tracing::debug!(%error, "unused verdicts not deleted before the next repair");
        }
    }

    /// Deletes chains in this order.
    fn delete_chains(&mut self, names: &[String]) -> Result<(), CommitError> {
        let mut batch = Batch::new(&self.table, None);
        for name in names {
            batch.flush_chain(name, NO_OWNER);
        }
        for name in names {
            let chain = Chain {
                name: name.clone(),
                base: None,
                comment: String::new(),
            };
            batch.chain(Change::Delete, &chain, NO_OWNER);
        }
        self.commit(batch)
    }

    fn apply_changes(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let mut elements = 0;
        let mut services = changes.services.clone();
        if changes.needs_full_write && self.codes.set_pods(&plan.settings().pods) {
            return self.synchronize(plan);
        }
        if changes.needs_full_write {
            elements += self.apply_settings(plan)?;
            services.extend(self.applied.services().map(|(service, _)| service.clone()));
            services.extend(plan.services().cloned());
            services.sort_unstable();
            services.dedup();
        }
        let mut applied = self.apply_services(plan, &services)?;
        applied.elements += elements;
        if self.codes.needs_sweep() {
            self.delete_unused();
        }
        Ok(applied)
    }
}

impl Dataplane for NftablesDataplane {
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        if !self.is_in_sync {
            return self.synchronize(plan);
        }
        match self.apply_changes(plan, changes) {
            Err(DataplaneError::Commit { source }) if is_drift(&source) => {
                tracing::warn!(error = %source, "table differs from the applied state; reading it back");
                self.is_in_sync = false;
                self.synchronize(plan)
            }
            result => result,
        }
    }

    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        if !self.is_accounted_for()? {
            return self.read_back(plan);
        }
        self.delete_unused();
        self.verify_next(plan)
    }

    fn watch(&mut self) -> std::io::Result<Option<Monitor>> {
        let own_port = self.nftables.port()?;
        Monitor::open(&self.table, own_port).map(Some)
    }

    fn repair_external(&mut self, plan: &Plan, changes: &[ExternalChange]) -> Result<usize, DataplaneError> {
        self.repair_changes(plan, changes)
    }

    fn counts(&self) -> Counts {
        Counts {
            cleanup_failures: self.cleanup_failures,
            ..Counts::default()
        }
    }

    fn supports_two_tier(&self) -> bool {
        true
    }

    fn answers_ping(&self) -> bool {
        true
    }

    /// Rules cannot count connections, so the least loaded endpoint is unknown.
    fn supports(&self, scheduler: Scheduler) -> bool {
        !matches!(scheduler, Scheduler::LeastConnections | Scheduler::Ipvs(_))
    }
}

/// Reports that the kernel's state differs from the state for which the transaction was built.
fn is_drift(error: &CommitError) -> bool {
    match error {
        CommitError::Refused { refusals } => refusals.iter().any(|refusal| refusal.is_drift()),
        CommitError::Changed => true,
        CommitError::Socket { .. } | CommitError::NotPermitted => false,
    }
}

#[cfg(test)]
mod tests;
