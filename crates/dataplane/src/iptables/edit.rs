//! Edits: the chains to rewrite, and the input of `iptables-restore` for them.
//!
//! A chain is rewritten as a whole if the hash of its rules differs. After a change of Services, the hashes of the
//! applied rules decide, without a read of the tables. At a synchronization, the saved tables decide. Some hosts print
//! rules in another form than they were written. Their hashes in that form are known, so that they do not differ at
//! each synchronization.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};

use api::object::ObjectKey;
use plan::{Changes, Plan};

use super::base_chains::{self, FixedChain, Jump};
use super::context::Context;
use super::names::{ChainName, HEALTH_CHECKS, SharedChain, Table};
use super::saved::{RulesHash, SavedTables};
use super::service_rules::{Parts, ServiceRules};

/// Chains and number of rules of one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleSummary {
    chains: Box<[(ChainName, u64)]>,
    shared: [u64; SharedChain::ALL.len()],
    /// Number of rules in own chains, and in each shared chain.
    rules: u32,
    shared_rules: [u16; SharedChain::ALL.len()],
}

impl RuleSummary {
    fn of(rules: &ServiceRules) -> Self {
        Self {
            chains: rules
                .chains
                .iter()
                .map(|(name, rules)| (*name, RulesHash::of(rules)))
                .collect(),
            shared: std::array::from_fn(|index| {
                RulesHash::of(rules.shared[index].iter().chain(&rules.last[index]))
            }),
            rules: rules.chains.iter().map(|(_, rules)| rules.len() as u32).sum(),
            shared_rules: std::array::from_fn(|index| {
                (rules.shared[index].len() + rules.last[index].len()) as u16
            }),
        }
    }

    /// Returns the number of rules in a table.
    pub(super) fn rules_in(&self, table: Table) -> u64 {
        let shared = SharedChain::ALL.iter().filter(|chain| chain.table() == table);
        let shared: u64 = shared
            .map(|chain| u64::from(self.shared_rules[*chain as usize]))
            .sum();
        match table {
            Table::Nat => shared + u64::from(self.rules),
            Table::Filter | Table::Mangle => shared,
        }
    }

    fn is_empty(&self) -> bool {
        self.chains.is_empty() && *self == Self::of(&ServiceRules::default())
    }
}

/// Summaries of all applied Services.
pub(super) type RuleSummaries = HashMap<ObjectKey, RuleSummary>;

/// Rules that `iptables-save` of this host prints differently from the form written here. By chain: the hash of
/// the rules as written, and as read back.
pub(super) type ReadBackHashes = HashMap<(Table, Box<str>), (u64, u64)>;

/// Inputs of rules.
#[derive(Clone, Copy)]
pub(super) struct RuleInputs<'a> {
    /// Plan that the rules implement.
    pub plan: &'a Plan,
    /// Settings of the data plane.
    pub context: &'a Context,
    /// Services to leave out, because they were refused.
    pub skipped: &'a BTreeSet<ObjectKey>,
    /// Services whose port ranges to leave out, because they were refused.
    pub without_ranges: &'a BTreeSet<ObjectKey>,
}

impl<'a> RuleInputs<'a> {
    fn services(self) -> impl Iterator<Item = &'a ObjectKey> {
        self.plan
            .services()
            .filter(move |service| !self.skipped.contains(*service))
    }

    fn rules_of(self, service: &ObjectKey) -> ServiceRules {
        if self.skipped.contains(service) {
            ServiceRules::default()
        } else {
            ServiceRules::new(self.plan, service, self.context, self.parts_of(service))
        }
    }

    /// Returns the rules of a Service in shared chains.
    fn shared_rules_of(self, service: &ObjectKey) -> ServiceRules {
        ServiceRules::shared(self.plan, service, self.context, self.parts_of(service))
    }

    /// Returns the Services with port ranges.
    fn services_with_ranges(self) -> impl Iterator<Item = &'a ObjectKey> {
        self.services()
            .filter(move |service| self.plan.ranges_of(service).next().is_some())
    }

    fn parts_of(self, service: &ObjectKey) -> Parts {
        if self.without_ranges.contains(service) {
            Parts::WithoutRanges
        } else {
            Parts::All
        }
    }
}

/// A change of the tables.
#[derive(Debug, Default)]
pub(super) struct Edit {
    fixed: Vec<FixedChain>,
    shared: Vec<SharedChain>,
    /// Services with the chains to rewrite.
    services: Vec<(ObjectKey, Vec<ChainName>)>,
    stale: Vec<ChainName>,
    jumps: Vec<&'static Jump>,
    /// Summaries of the changed Services after the edit.
    pub summaries: Vec<(ObjectKey, RuleSummary)>,
}

impl Edit {
    /// Compares the desired rules with saved tables.
    pub(super) fn from_saved(
        source: RuleInputs<'_>,
        mut saved: SavedTables,
        spellings: &ReadBackHashes,
    ) -> Self {
        let mut edit = Self::default();
        edit.jumps.extend(base_chains::jumps().filter(|jump| {
            let references = &saved.table(jump.table).references;
            !references
                .iter()
                .any(|at| at.from == jump.from && at.to == jump.to)
        }));
        let mut is_there = |table, name: &str, desired: u64| {
            let found = saved.take(table, name);
            found == Some(desired)
                || found.is_some_and(|found| {
                    spellings
                        .get(&(table, name.into()))
                        .is_some_and(|known| *known == (desired, found))
                })
        };
        for chain in base_chains::chains(source.plan, source.context) {
            if !is_there(chain.table, chain.name, RulesHash::of(&chain.rules)) {
                edit.fixed.push(chain);
            }
        }
        let mut shared: [RulesHash; SharedChain::ALL.len()] = Default::default();
        let mut last: [Vec<String>; SharedChain::ALL.len()] = Default::default();
        for service in source.services() {
            let rules = source.rules_of(service);
            for (hash, rules) in shared.iter_mut().zip(&rules.shared) {
                rules.iter().for_each(|rule| hash.add(rule));
            }
            for (last, rules) in last.iter_mut().zip(&rules.last) {
                last.extend_from_slice(rules);
            }
            let summary = RuleSummary::of(&rules);
            let changed = summary
                .chains
                .iter()
                .filter(|(name, desired)| !is_there(Table::Nat, &name.to_string(), *desired));
            edit.rewrite(service, changed.map(|(name, _)| *name).collect());
            edit.summaries.push((service.clone(), summary));
        }
        for ((chain, mut hash), mut last) in SharedChain::ALL.into_iter().zip(shared).zip(last) {
            last.extend(base_chains::last_rules(chain, source.context));
            last.iter().for_each(|rule| hash.add(rule));
            if !is_there(chain.table(), chain.name(), hash.finish()) {
                edit.shared.push(chain);
            }
        }
        let left = saved.table(Table::Nat).chains.keys();
        edit.stale.extend(left.filter_map(|name| ChainName::parse(name)));
        edit
    }

    /// Derives the edit for changed Services from the applied summaries, without reading the tables.
    pub(super) fn from_changes(source: RuleInputs<'_>, changes: &Changes, applied: &RuleSummaries) -> Self {
        let mut edit = Self::default();
        let nothing = RuleSummary::of(&ServiceRules::default());
        if !changes.health_checks.is_empty() {
            let chains = base_chains::chains(source.plan, source.context).into_iter();
            edit.fixed
                .extend(chains.filter(|chain| chain.table == Table::Filter && chain.name == HEALTH_CHECKS));
        }
        for service in &changes.services {
            let summary = RuleSummary::of(&source.rules_of(service));
            let before = applied.get(service).unwrap_or(&nothing);
            // A Service has room for tens of thousands of ports.
            let known: HashSet<&(ChainName, u64)> = before.chains.iter().collect();
            let changed = summary.chains.iter().filter(|chain| !known.contains(chain));
            edit.rewrite(service, changed.map(|(name, _)| *name).collect());
            let left: HashSet<ChainName> = summary.chains.iter().map(|(name, _)| *name).collect();
            let gone = before.chains.iter().map(|(name, _)| *name);
            edit.stale.extend(gone.filter(|name| !left.contains(name)));
            for chain in SharedChain::ALL {
                let index = chain as usize;
                if before.shared[index] != summary.shared[index] && !edit.shared.contains(&chain) {
                    edit.shared.push(chain);
                }
            }
            edit.summaries.push((service.clone(), summary));
        }
        edit
    }

    /// Returns the number of chains and jumps that differ.
    pub(super) fn count(&self) -> usize {
        let service_chains: usize = self.services.iter().map(|(_, chains)| chains.len()).sum();
        self.fixed.len() + self.shared.len() + service_chains + self.stale.len() + self.jumps.len()
    }

    /// Returns the chains to rewrite with the hashes of their rules.
    pub(super) fn rewritten(&self, source: RuleInputs<'_>) -> Vec<(Table, Box<str>, u64)> {
        let mut all: Vec<(Table, Box<str>, u64)> = Vec::new();
        for chain in &self.fixed {
            all.push((chain.table, chain.name.into(), RulesHash::of(&chain.rules)));
        }
        for chain in &self.shared {
            let mut hash = RulesHash::default();
            for service in source.services() {
                let rules = source.shared_rules_of(service);
                rules.shared[*chain as usize]
                    .iter()
                    .for_each(|rule| hash.add(rule));
            }
            for service in source.services_with_ranges() {
                let rules = source.shared_rules_of(service);
                rules.last[*chain as usize].iter().for_each(|rule| hash.add(rule));
            }
            base_chains::last_rules(*chain, source.context)
                .iter()
                .for_each(|rule| hash.add(rule));
            all.push((chain.table(), chain.name().into(), hash.finish()));
        }
        for (service, chains) in &self.services {
            let chains: HashSet<&ChainName> = chains.iter().collect();
            for (name, rules) in &source.rules_of(service).chains {
                if chains.contains(name) {
                    all.push((Table::Nat, name.to_string().into(), RulesHash::of(rules)));
                }
            }
        }
        all
    }

    /// Writes the edit in the language of `iptables-restore`.
    pub(super) fn write(&self, source: RuleInputs<'_>, script: &mut Script<'_>) -> io::Result<()> {
        for table in Table::ALL {
            let fixed = || self.fixed.iter().filter(move |chain| chain.table == table);
            let shared = || self.shared.iter().filter(move |chain| chain.table() == table);
            let jumps = || self.jumps.iter().filter(move |jump| jump.table == table);
            let has_services = table == Table::Nat && !(self.services.is_empty() && self.stale.is_empty());
            if fixed().next().is_none()
                && shared().next().is_none()
                && jumps().next().is_none()
                && !has_services
            {
                continue;
            }
            script.open(table)?;
            for chain in fixed() {
                script.declare(chain.name)?;
            }
            for chain in shared() {
                script.declare(chain.name())?;
            }
            if has_services {
                let chains = self.services.iter().flat_map(|(_, chains)| chains);
                for chain in chains.chain(&self.stale) {
                    script.declare(chain)?;
                }
            }
            for chain in fixed() {
                script.append(chain.name, &chain.rules)?;
            }
            if has_services {
                self.write_services(source, script)?;
            }
            for chain in shared() {
                write_shared(*chain, source, script)?;
            }
            // Each `-I` inserts before the others, so the last one written comes first.
            for jump in jumps().rev() {
                script.line(format_args!("-I {} {}", jump.from, jump.rule()))?;
            }
            if has_services {
                for chain in &self.stale {
                    script.line(format_args!("-X {chain}"))?;
                }
            }
            script.line(format_args!("COMMIT"))?;
        }
        Ok(())
    }

    fn rewrite(&mut self, service: &ObjectKey, chains: Vec<ChainName>) {
        if !chains.is_empty() {
            self.services.push((service.clone(), chains));
        }
    }

    fn write_services(&self, source: RuleInputs<'_>, script: &mut Script<'_>) -> io::Result<()> {
        for (service, chains) in &self.services {
            script.belongs_to(Some(service));
            let chains: HashSet<&ChainName> = chains.iter().collect();
            for (name, rules) in &source.rules_of(service).chains {
                if chains.contains(name) {
                    script.append(name, rules)?;
                }
            }
        }
        script.belongs_to(None);
        Ok(())
    }
}

/// Records the summaries of an applied edit.
pub(super) fn record_summaries(applied: &mut RuleSummaries, summaries: Vec<(ObjectKey, RuleSummary)>) {
    for (service, summary) in summaries {
        if summary.is_empty() {
            applied.remove(&service);
        } else {
            applied.insert(service, summary);
        }
    }
}

fn write_shared(chain: SharedChain, source: RuleInputs<'_>, script: &mut Script<'_>) -> io::Result<()> {
    for service in source.services() {
        let rules = source.shared_rules_of(service);
        let rules = &rules.shared[chain as usize];
        if !rules.is_empty() {
            script.belongs_to(Some(service));
            script.append(chain.name(), rules)?;
        }
    }
    for service in source.services_with_ranges() {
        let rules = source.shared_rules_of(service);
        let rules = &rules.last[chain as usize];
        if !rules.is_empty() {
            script.belongs_to(Some(service));
            script.append(chain.name(), rules)?;
        }
    }
    script.belongs_to(None);
    script.append(chain.name(), &base_chains::last_rules(chain, source.context))
}

/// Input of `iptables-restore`, with the Service of each part.
pub(super) struct Script<'a> {
    out: &'a mut dyn Write,
    lines: usize,
    /// First line of each part, with its Service.
    parts: Vec<(usize, Option<ObjectKey>)>,
    table: Option<Table>,
    /// Number of written rules by table.
    rules: [u64; Table::ALL.len()],
}

impl<'a> Script<'a> {
    /// Creates a script that writes to `out`.
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            lines: 0,
            parts: Vec::new(),
            table: None,
            rules: Default::default(),
        }
    }

    /// Returns the parts, each as first line and Service, and the number of rules by table.
    pub(super) fn into_parts(self) -> (Vec<(usize, Option<ObjectKey>)>, [u64; Table::ALL.len()]) {
        (self.parts, self.rules)
    }

    /// Starts a table.
    pub(super) fn open(&mut self, table: Table) -> io::Result<()> {
        self.table = Some(table);
        self.line(format_args!("*{}", table.name()))
    }

    /// Writes a line.
    pub(super) fn line(&mut self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.lines += 1;
        writeln!(self.out, "{text}")
    }

    /// Creates a chain, or flushes it.
    pub(super) fn declare(&mut self, chain: impl std::fmt::Display) -> io::Result<()> {
        self.line(format_args!(":{chain} - [0:0]"))
    }

    /// Appends rules to a chain.
    fn append(&mut self, chain: impl std::fmt::Display, rules: &[String]) -> io::Result<()> {
        if let Some(table) = self.table {
            self.rules[table as usize] += rules.len() as u64;
        }
        rules
            .iter()
            .try_for_each(|rule| self.line(format_args!("-A {chain} {rule}")))
    }

    fn belongs_to(&mut self, service: Option<&ObjectKey>) {
        self.parts.push((self.lines + 1, service.cloned()));
    }
}

/// Returns the Service of a line.
pub(super) fn owner_of(parts: &[(usize, Option<ObjectKey>)], line: usize) -> Option<ObjectKey> {
    let behind = parts.partition_point(|(first, _)| *first <= line);
    parts.get(behind.checked_sub(1)?)?.1.clone()
}
