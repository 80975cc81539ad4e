//! Tables of one IP family: synchronization, repair and counters.

use std::collections::BTreeSet;
use std::fs;

use api::object::ObjectKey;
use netlink::accounting::AccountingConnection;
use plan::{Changes, Family, Plan};

use crate::{Applied, DataplaneError, IptablesCounts, SkippedService, TableCounts};

use super::base_chains;
use super::context::{Context, InvalidPackets};
use super::edit::{Edit, ReadBackHashes, RuleInputs, RuleSummaries, Script, owner_of, record_summaries};
use super::names::Table;
use super::program::{ProgramError, Programs};
use super::{INVALID_DROPPED_COUNTER, Options};

/// Maximum number of attempts of a change, each without one more refused Service: the programs report only the first.
const ROUNDS_MAX: usize = 8;
/// Reason why port ranges are left out.
const RANGES_REFUSED: &str =
    "port ranges are not served: this host refuses their rules, which need the match xt_cluster";
/// Reports that connection tracking accepts out-of-window segments.
const TCP_BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";

/// Tables of one IP family.
#[derive(Debug)]
pub(super) struct FamilyTables {
    family: Family,
    programs: Programs,
    /// Summaries of the applied Services; `None` if they are unknown.
    applied: Option<RuleSummaries>,
    /// Services that are not applied, because they were refused.
    skipped: BTreeSet<ObjectKey>,
    /// Services that are applied without their port ranges, because the ranges of one of them were refused.
    without_ranges: BTreeSet<ObjectKey>,
    spellings: ReadBackHashes,
    /// False if the kernel is known to lack counters by name.
    has_counter_match: bool,
    failures: u64,
    partial_failures: u64,
    /// Rules that the last sync wrote, by table.
    rules_last: [u64; Table::ALL.len()],
    /// Rules that belong to no Service, by table.
    fixed_rules: [u64; Table::ALL.len()],
}

impl FamilyTables {
    /// Creates the state of tables with unknown content.
    pub(super) fn new(family: Family, programs: Programs) -> Self {
        Self {
            family,
            programs,
            applied: None,
            skipped: BTreeSet::new(),
            without_ranges: BTreeSet::new(),
            spellings: ReadBackHashes::new(),
            has_counter_match: true,
            failures: 0,
            partial_failures: 0,
            rules_last: Default::default(),
            fixed_rules: Default::default(),
        }
    }

    /// Applies changes.
    pub(super) fn apply(
        &mut self,
        plan: &Plan,
        changes: &Changes,
        options: &Options,
    ) -> Result<Applied, DataplaneError> {
        if self.applied.is_none() || changes.needs_full_write {
            return self.synchronize(plan, options);
        }
        for service in &changes.services {
            self.skipped.remove(service);
        }
        let context = self.context(plan, options);
        let make = |source: RuleInputs<'_>, tables: &Self| {
            let nothing = RuleSummaries::new();
            Ok(Edit::from_changes(
                source,
                changes,
                tables.applied.as_ref().unwrap_or(&nothing),
            ))
        };
        match self.change(plan, &context, make) {
            Err(error @ (ProgramError::Refused { .. } | ProgramError::Pipe { .. })) => {
                self.partial_failures += 1;
                tracing::warn!(%error, "change failed; reading the tables back");
                self.synchronize(plan, options)
            }
            result => Ok(result?),
        }
    }

    /// Repairs chains and jumps that differ from the plan. Returns the number of changed chains and jumps.
    pub(super) fn repair(&mut self, plan: &Plan, options: &Options) -> Result<usize, DataplaneError> {
        let context = self.context(plan, options);
        let saved = self.programs.save()?;
        let edit = Edit::from_saved(self.source(plan, &context), saved, &self.spellings);
        let count = edit.count();
        if count == 0 {
            return Ok(0);
        }
        let rewritten = edit.rewritten(self.source(plan, &context));
        let applied = self.synchronize(plan, options)?;
        // Rules that differ directly after they were written are only printed differently.
        let mut saved = self.programs.save()?;
        for (table, name, desired) in rewritten {
            if let Some(found) = saved.take(table, &name).filter(|found| *found != desired) {
                self.spellings.insert((table, name), (desired, found));
            }
        }
        Ok(applied.elements)
    }

    /// Returns true if the canaries and the required jumps exist.
    pub(super) fn has_required_jumps(&self) -> Result<bool, ProgramError> {
        for table in Table::ALL {
            if !self.programs.has_canary(table)? {
                return Ok(false);
            }
        }
        for jump in base_chains::required_jumps() {
            if !self
                .programs
                .has_rule(jump.table, jump.from, jump.to, jump.comment)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies the whole plan as differences to the current tables.
    fn synchronize(&mut self, plan: &Plan, options: &Options) -> Result<Applied, DataplaneError> {
        self.applied = None;
        self.skipped.clear();
        self.without_ranges.clear();
        self.has_counter_match = self.has_counter_match && has_counter();
        let make = |source: RuleInputs<'_>, tables: &Self| {
            let saved = tables.programs.save()?;
            Ok(Edit::from_saved(source, saved, &tables.spellings))
        };
        let mut context = self.context(plan, options);
        let mut changed = self.change(plan, &context, make);
        if self.has_counter_match && matches!(changed, Err(ProgramError::Refused { .. })) {
            // The kernel may have counters, but lack the match that adds to them. A second attempt without it shows
            // which Services are refused.
            self.skipped.clear();
            self.without_ranges.clear();
            self.has_counter_match = false;
            context = self.context(plan, options);
            changed = self.change(plan, &context, make);
            self.has_counter_match = changed.is_err();
        }
        self.failures += u64::from(changed.is_err());
        self.fixed_rules = base_chains::counts(plan, &context);
        Ok(changed?)
    }

    /// Returns true if dropped invalid packets are counted.
    #[cfg(test)]
    pub(super) fn counts_invalid_packets(&self) -> bool {
        self.has_counter_match
    }

    /// Returns counters for metrics.
    pub(super) fn counts(&self) -> IptablesCounts {
        let service_rules = |table| {
            let summaries = self.applied.iter().flat_map(|applied| applied.values());
            summaries.map(|summary| summary.rules_in(table)).sum::<u64>()
        };
        let tables = Table::ALL.into_iter().map(|table| TableCounts {
            table: table.name(),
            rules: self.fixed_rules[table as usize] + service_rules(table),
            rules_last: self.rules_last[table as usize],
        });
        IptablesCounts {
            family: self.family,
            failures: self.failures,
            partial_failures: self.partial_failures,
            tables: tables.collect(),
        }
    }

    /// Applies an edit without the Services that are refused.
    fn change(
        &mut self,
        plan: &Plan,
        context: &Context,
        make: impl Fn(RuleInputs<'_>, &Self) -> Result<Edit, ProgramError>,
    ) -> Result<Applied, ProgramError> {
        let mut refused = Vec::new();
        loop {
            let source = self.source(plan, context);
            let edit = make(source, self)?;
            let (mut parts, mut rules) = Default::default();
            let result = match edit.count() {
                0 => Ok(()),
                _ => self.programs.restore(|out| {
                    let mut script = Script::new(out);
                    let written = edit.write(source, &mut script);
                    (parts, rules) = script.into_parts();
                    written
                }),
            };
            match result {
                Ok(()) => {
                    self.rules_last = rules;
                    return Ok(self.record_applied(plan, edit, refused));
                }
                Err(error) => self.exclude_refused(plan, error, &parts, &mut refused)?,
            }
        }
    }

    /// Records an applied edit. Services whose port ranges are left out are refused in part.
    fn record_applied(&mut self, plan: &Plan, edit: Edit, mut refused: Vec<SkippedService>) -> Applied {
        let elements = edit.count();
        let changed = edit.summaries.iter().map(|(service, _)| service);
        let left_out = changed.filter(|service| {
            self.without_ranges.contains(*service)
                && !self.skipped.contains(*service)
                && has_ranges(plan, service)
        });
        refused.extend(left_out.map(|service| SkippedService {
            service: service.clone(),
            reason: RANGES_REFUSED.to_owned(),
        }));
        record_summaries(self.applied.get_or_insert_default(), edit.summaries);
        Applied {
            elements,
            skipped: refused,
        }
    }

    /// Excludes refused rules from the next attempt: all port ranges, or one Service. Fails if neither is the reason of
    /// the refusal.
    fn exclude_refused(
        &mut self,
        plan: &Plan,
        error: ProgramError,
        parts: &[(usize, Option<ObjectKey>)],
        refused: &mut Vec<SkippedService>,
    ) -> Result<(), ProgramError> {
        match refused_service(&error, parts) {
            Some(service)
                if has_ranges(plan, &service)
                    && self.applied.is_none()
                    && !self.without_ranges.contains(&service)
                    && refused.len() < ROUNDS_MAX =>
            {
                // The kernel may lack the match that selects endpoints, for all ranges.
                tracing::warn!(%error, %service, "rules refused; port ranges left out");
                let all = plan.services().filter(|service| has_ranges(plan, service));
                self.without_ranges.extend(all.cloned());
            }
            Some(service)
                if (self.applied.is_none() || !has_ranges(plan, &service))
                    && refused.len() < ROUNDS_MAX
                    && self.skipped.insert(service.clone()) =>
            {
                // Ranges were not the reason.
                if self.without_ranges.contains(&service) {
                    self.without_ranges.clear();
                }
                refused.push(SkippedService {
                    service,
                    reason: error.to_string(),
                });
            }
            _ => {
                self.applied = None;
                return Err(error);
            }
        }
        Ok(())
    }

    fn context(&self, plan: &Plan, options: &Options) -> Context {
        let is_liberal = fs::read_to_string(TCP_BE_LIBERAL).is_ok_and(|value| value.trim() == "1");
        let invalid = match (is_liberal, self.has_counter_match) {
            (true, _) => InvalidPackets::Accepted,
            (false, true) => InvalidPackets::Counted,
            (false, false) => InvalidPackets::Dropped,
        };
        Context::new(self.family, plan.settings(), options, invalid)
    }

    fn source<'a>(&'a self, plan: &'a Plan, context: &'a Context) -> RuleInputs<'a> {
        RuleInputs {
            plan,
            context,
            skipped: &self.skipped,
            without_ranges: &self.without_ranges,
        }
    }
}

fn has_ranges(plan: &Plan, service: &ObjectKey) -> bool {
    plan.ranges_of(service).next().is_some()
}

/// Creates the counter of dropped packets if needed. Returns true if it exists.
fn has_counter() -> bool {
    let made =
        AccountingConnection::open().and_then(|mut accounting| accounting.ensure(INVALID_DROPPED_COUNTER));
    if let Err(error) = &made {
        tracing::info!(%error, "counter of dropped invalid packets not available");
    }
    made.is_ok()
}

fn refused_service(error: &ProgramError, parts: &[(usize, Option<ObjectKey>)]) -> Option<ObjectKey> {
    match error {
        ProgramError::Refused { line: Some(line), .. } => owner_of(parts, *line),
        _ => None,
    }
}
