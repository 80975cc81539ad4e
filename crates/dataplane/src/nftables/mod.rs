//! The plan in nftables, written by netlink.
//!
//! One table, `inet portolan`. A new connection takes this way; every step is a look-up, whatever the number
//! of Services:
//!
//! 1. `services`: its destination, as an address (`services4`) or a node port (`node-ports4`), has the code of
//!    a *treatment*; the map `treatments` leads on from there.
//! 2. The treatment's chain looks at where the connection comes from, if that matters, and goes on to a chain
//!    `…-clusterN` or `…-localN`: take a random number below N, look up the endpoint of the Service with that
//!    index (`cluster-endpoints4`), and send the connection there. Or to `reject`, or nowhere.
//! 3. When it leaves the node, `redirected` finds the treatment again by the connection's first destination;
//!    the last bits of the code tell who is masqueraded. No packet mark is needed, so none of other people's
//!    is touched.
//!
//! Other schedulers than random choose another number: the rule's counter (a chain for each Service port, since
//! the counter is the rule's), or a hash of the client's address and port, of as many numbers as a Maglev table has
//! places.
//!
//! A Service is nothing but elements of data maps. Chains are there for treatments only: a few dozen.

mod bytes;
mod codes;
mod draft;
mod in_force;
mod item;
mod layout;
mod ledger;
mod mend;
mod port;
mod ranges;
mod rules;
mod skeleton;
mod slots;
mod snapshot;
mod stand_ins;
mod synchronize;
mod treatment;
mod verify;

use std::collections::HashSet;

use api::object::ObjectKey;
use netlink::nftables::{Batch, Chain, Change, CommitError, Monitor, Nftables, Rule, Touched};
use plan::{Changes, Plan, Scheduler};

use crate::{Applied, Counts, Dataplane, DataplaneError, Skipped};

use bytes::Bytes;
use codes::Codes;
use draft::{Draft, NOBODY, write_chains, write_items};
use in_force::InForce;
use item::{Item, difference};
use layout::FAMILIES;
use ledger::Ledger;
use port::Port;

pub(crate) use stand_ins::StandIns;

/// Services that are loaded with one transaction when there is nothing yet. Bounds memory: about 200 KB of
/// messages with ten endpoints each.
const SERVICES_PER_TRANSACTION: usize = 256;
/// How often a transaction is tried again without the Services that the kernel refused. It names all of them
/// at once, so that a second time is rare.
const ROUNDS_MAX: usize = 8;

/// How the dataplane is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The table's name, in family `inet`.
    pub table: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: "portolan".to_owned(),
        }
    }
}

/// A plan in force in the nftables of the network namespace that it was opened in.
#[derive(Debug)]
pub struct NftablesDataplane {
    nftables: Nftables,
    table: String,
    /// Whether what is below is what the kernel has.
    is_known: bool,
    /// What has been done to nftables since it was known to be right.
    ledger: Ledger,
    /// Whose turn it is to be compared, and how many places were not since others last wrote.
    turn: usize,
    unverified: usize,
    in_force: InForce,
    codes: Codes,
    chains: Vec<(Chain, Vec<Rule>)>,
    ranges: Vec<Item>,
    cleanup_failures: u64,
    /// What is written in the place of endpoints, if they are not to be.
    stand_ins: Option<StandIns>,
}

impl NftablesDataplane {
    /// Connects to the kernel and finds out whether it lets us in; no rule is read or written yet.
    pub fn open(options: Options) -> Result<Self, DataplaneError> {
        let mut nftables = Nftables::open().map_err(|source| DataplaneError::Connect { source })?;
        // Anybody can open the socket; only the first request is refused.
        nftables.generation()?;
        Ok(Self {
            nftables,
            table: options.table,
            is_known: false,
            ledger: Ledger::default(),
            turn: 0,
            unverified: 0,
            in_force: InForce::default(),
            codes: Codes::default(),
            chains: Vec::new(),
            ranges: Vec::new(),
            cleanup_failures: 0,
            stand_ins: None,
        })
    }

    /// The same for connections that a process on this node takes: they go to stand-ins, not to endpoints.
    pub(crate) fn open_for_stand_ins(options: Options) -> Result<Self, DataplaneError> {
        Ok(Self {
            stand_ins: Some(StandIns::default()),
            ..Self::open(options)?
        })
    }

    /// The stand-ins, to be set before changes of their Services are applied.
    pub(crate) fn stand_ins(&mut self) -> &mut StandIns {
        self.stand_ins.get_or_insert_default()
    }

    /// Takes the table away, with all that is in it. Whether there was one.
    pub fn cleanup(&mut self) -> Result<bool, DataplaneError> {
        self.is_known = false;
        if self.nftables.table(&self.table)?.is_none() {
            return Ok(false);
        }
        let mut batch = Batch::new(&self.table, None);
        batch.table(Change::Delete, &skeleton::table(&self.table), NOBODY);
        self.commit(batch)?;
        Ok(true)
    }

    /// Does a transaction, and keeps account of it.
    fn commit(&mut self, batch: Batch) -> Result<(), CommitError> {
        if batch.is_empty() {
            return Ok(());
        }
        let result = self.nftables.commit(batch);
        match &result {
            Ok(()) => self.ledger.note_own(),
            // It may be done or not.
            Err(CommitError::Socket { .. }) => self.ledger.lose(),
            Err(_) => {}
        }
        result
    }

    /// Whether the table is as it should be by all that is known: what others did to nftables since was told, and
    /// mended.
    fn is_accounted_for(&mut self) -> Result<bool, DataplaneError> {
        if !self.is_known {
            return Ok(false);
        }
        let now = self.nftables.generation()?;
        Ok(self.ledger.accounts_for(now))
    }

    /// Brings what settings ask for into force.
    fn apply_settings(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        let chains = skeleton::chains(plan.settings());
        let ranges = ranges::items(plan.settings());
        let mut batch = Batch::new(&self.table, None);
        let changed: Vec<_> = chains
            .iter()
            .filter(|chain| !self.chains.contains(chain))
            .cloned()
            .collect();
        for (chain, _) in &changed {
            batch.flush_chain(&chain.name, NOBODY);
        }
        write_chains(&mut batch, &changed);
        let (going, coming) = difference(self.ranges.clone(), ranges.clone());
        write_items(&mut batch, Change::Delete, &going, NOBODY);
        write_items(&mut batch, Change::Add, &coming, NOBODY);
        self.commit(batch)?;
        self.chains = chains;
        self.ranges = ranges;
        Ok(going.len() + coming.len())
    }

    /// Brings Services into force with one transaction, but for those that the kernel refuses.
    fn apply_services(&mut self, plan: &Plan, services: &[ObjectKey]) -> Result<Applied, DataplaneError> {
        let mut skipped: Vec<Skipped> = Vec::new();
        let mut rounds = 0;
        loop {
            rounds += 1;
            let wanted = services
                .iter()
                .filter(|service| skipped.iter().all(|skipped| skipped.service != **service));
            let draft = Draft::new(
                plan,
                wanted,
                self.stand_ins.as_ref(),
                &mut self.in_force,
                &mut self.codes,
            );
            let error = match self.commit(draft.batch(&self.table, &self.codes)) {
                Ok(()) => {
                    let elements = draft.elements();
                    self.let_go(&draft);
                    draft.keep(&mut self.codes);
                    return Ok(Applied { elements, skipped });
                }
                Err(error) => error,
            };
            let refused = draft.refused(&error);
            draft.undo(&mut self.in_force);
            match refused {
                Some(refused) if rounds < ROUNDS_MAX => {
                    for (service, reason) in refused {
                        if skipped.iter().all(|skipped| skipped.service != service) {
                            skipped.push(Skipped { service, reason });
                        }
                    }
                }
                _ => return Err(error.into()),
            }
        }
    }

    /// Forgets clients that were kept at endpoints that have left, so that they are not sent back there when those
    /// return (EPT-12). Costs as much as there are clients that are kept, and only if such an endpoint has left. A
    /// failure does no harm but that.
    fn let_go(&mut self, draft: &Draft) {
        for family in FAMILIES {
            let departed = draft.departed(&self.in_force, family);
            if departed.is_empty() {
                continue;
            }
            let is_stale = |member: &Bytes| departed.contains(member);
            let stale = snapshot::stale_affinities(&mut self.nftables, &self.table, family, is_stale);
            let result = stale.map_err(DataplaneError::from).and_then(|stale| {
                let mut batch = Batch::new(&self.table, None);
                write_items(&mut batch, Change::Delete, &stale, NOBODY);
                Ok(self.commit(batch)?)
            });
            if let Err(error) = result {
                self.cleanup_failures += 1;
                tracing::debug!(%error, "clients of endpoints that have left are still kept there");
            }
        }
    }

    /// Takes treatments away that no Service has any more. A failure costs nothing but memory of the kernel's; the
    /// next repair finds them.
    fn sweep(&mut self) {
        let used: HashSet<u32> = self
            .in_force
            .services()
            .flat_map(|(_, ports)| ports.iter().flat_map(Port::codes))
            .collect();
        let unused: Vec<u32> = self
            .codes
            .in_force()
            .filter(|code| !used.contains(code))
            .collect();
        if unused.is_empty() {
            return;
        }
        let items: Vec<Item> = unused.iter().filter_map(|code| self.codes.item(*code)).collect();
        let chains = self.codes.take_out_of_force(&unused);
        let mut elements = Batch::new(&self.table, None);
        write_items(&mut elements, Change::Delete, &items, NOBODY);
        // Kernels before 6.2 cannot delete an element and the chain that it leads to at once (NFT-21).
        let result = self.commit(elements).and_then(|()| self.delete_chains(&chains));
        if let Err(error) = result {
            self.cleanup_failures += 1;
            tracing::debug!(%error, "unused treatments stay until the next repair");
        }
    }

    /// Takes chains away, in this order.
    fn delete_chains(&mut self, names: &[String]) -> Result<(), CommitError> {
        let mut batch = Batch::new(&self.table, None);
        for name in names {
            batch.flush_chain(name, NOBODY);
        }
        for name in names {
            let chain = Chain {
                name: name.clone(),
                base: None,
                comment: String::new(),
            };
            batch.chain(Change::Delete, &chain, NOBODY);
        }
        self.commit(batch)
    }

    fn apply_changes(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let mut elements = 0;
        let mut services = changes.services.clone();
        if changes.everything && self.codes.set_pods(&plan.settings().pods) {
            return self.synchronize(plan);
        }
        if changes.everything {
            elements += self.apply_settings(plan)?;
            services.extend(self.in_force.services().map(|(service, _)| service.clone()));
            services.extend(plan.services().cloned());
            services.sort_unstable();
            services.dedup();
        }
        let mut applied = self.apply_services(plan, &services)?;
        applied.elements += elements;
        if self.codes.is_crowded() {
            self.sweep();
        }
        Ok(applied)
    }
}

impl Dataplane for NftablesDataplane {
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        if !self.is_known {
            return self.synchronize(plan);
        }
        match self.apply_changes(plan, changes) {
            Err(DataplaneError::Commit { source }) if is_drift(&source) => {
                tracing::warn!(error = %source, "the table is not what was written; reading it back");
                self.is_known = false;
                self.synchronize(plan)
            }
            result => result,
        }
    }

    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        if !self.is_accounted_for()? {
            return self.read_back(plan);
        }
        self.sweep();
        self.verify_some(plan)
    }

    fn watch(&mut self) -> std::io::Result<Option<Monitor>> {
        let own_port = self.nftables.port()?;
        Monitor::open(&self.table, own_port).map(Some)
    }

    fn mend(&mut self, plan: &Plan, touched: &[Touched]) -> Result<usize, DataplaneError> {
        self.mend_touched(plan, touched)
    }

    fn counts(&self) -> Counts {
        Counts {
            cleanup_failures: self.cleanup_failures,
            ..Counts::default()
        }
    }

    /// Rules cannot count connections, so that the least loaded endpoint is not known.
    fn supports(&self, scheduler: Scheduler) -> bool {
        scheduler != Scheduler::LeastConnections
    }
}

/// Whether the kernel's state is not what the transaction was made for.
fn is_drift(error: &CommitError) -> bool {
    match error {
        CommitError::Refused { refusals } => refusals.iter().any(|refusal| refusal.is_drift()),
        CommitError::Changed => true,
        CommitError::Socket { .. } | CommitError::NotPermitted => false,
    }
}

#[cfg(test)]
mod tests;
