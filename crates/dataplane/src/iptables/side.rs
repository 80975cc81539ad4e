//! One family's tables: bringing them to what is wanted, and knowing what they have.

use std::collections::BTreeSet;
use std::fs;

use api::object::ObjectKey;
use netlink::accounting::Accounting;
use plan::{Changes, Family, Plan};

use crate::{Applied, DataplaneError, IptablesCounts, Skipped, TableCounts};

use super::context::{Context, InvalidPackets};
use super::edit::{Edit, Footprints, Script, Source, Spellings, keep, owner_of};
use super::fixed;
use super::names::Table;
use super::program::{ProgramError, Programs};
use super::{INVALID_DROPPED_COUNTER, Options};

/// How often a change is tried again without a Service that was refused. Only one is named at a time.
const ROUNDS_MAX: usize = 8;
/// Whether connection tracking takes packets out of their window.
const TCP_BE_LIBERAL: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";

/// One family's tables.
#[derive(Debug)]
pub struct Side {
    family: Family,
    programs: Programs,
    /// What Services have in the tables, if that is known.
    in_force: Option<Footprints>,
    /// Services that are not in force since they were refused.
    skipped: BTreeSet<ObjectKey>,
    spellings: Spellings,
    /// Whether rules may add to a counter by name, as far as it is known.
    can_count: bool,
    failures: u64,
    partial_failures: u64,
    /// Rules that the last sync wrote, by table.
    rules_last: [u64; Table::ALL.len()],
    /// Rules that belong to no Service, by table.
    rules_of_none: [u64; Table::ALL.len()],
}

impl Side {
    /// Tables of which nothing is known yet.
    pub fn new(family: Family, programs: Programs) -> Self {
        Self {
            family,
            programs,
            in_force: None,
            skipped: BTreeSet::new(),
            spellings: Spellings::new(),
            can_count: true,
            failures: 0,
            partial_failures: 0,
            rules_last: Default::default(),
            rules_of_none: Default::default(),
        }
    }

    /// Brings changes into force.
    pub fn apply(
        &mut self,
        plan: &Plan,
        changes: &Changes,
        options: &Options,
    ) -> Result<Applied, DataplaneError> {
        if self.in_force.is_none() || changes.everything {
            return self.synchronize(plan, options);
        }
        for service in &changes.services {
            self.skipped.remove(service);
        }
        let context = self.context(plan, options);
        let make = |source: Source<'_>, side: &Self| {
            let nothing = Footprints::new();
            Ok(Edit::from_changes(
                source,
                changes,
                side.in_force.as_ref().unwrap_or(&nothing),
            ))
        };
        match self.change(plan, &context, make) {
            Err(error @ (ProgramError::Refused { .. } | ProgramError::Talk { .. })) => {
                self.partial_failures += 1;
                tracing::warn!(%error, "a change failed; the tables are read back");
                self.synchronize(plan, options)
            }
            result => Ok(result?),
        }
    }

    /// Mends what differs from the plan; how much that was.
    pub fn repair(&mut self, plan: &Plan, options: &Options) -> Result<usize, DataplaneError> {
        let context = self.context(plan, options);
        let saved = self.programs.save()?;
        let edit = Edit::from_saved(self.source(plan, &context), saved, &self.spellings);
        let count = edit.count();
        if count == 0 {
            return Ok(0);
        }
        let rewritten = edit.rewritten(self.source(plan, &context));
        let applied = self.synchronize(plan, options)?;
        // What is other than it was written, right after that, is only spelled in another way.
        let mut saved = self.programs.save()?;
        for (table, name, wanted) in rewritten {
            if let Some(found) = saved.take(table, &name).filter(|found| *found != wanted) {
                self.spellings.insert((table, name), (wanted, found));
            }
        }
        Ok(applied.elements)
    }

    /// Whether the canaries and the main ways in are there.
    pub fn is_undisturbed(&self) -> Result<bool, ProgramError> {
        for table in Table::ALL {
            if !self.programs.has_canary(table)? {
                return Ok(false);
            }
        }
        for jump in fixed::main_jumps() {
            if !self
                .programs
                .has_rule(jump.table, jump.from, jump.to, jump.comment)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Brings everything into force, by differences to what is there.
    fn synchronize(&mut self, plan: &Plan, options: &Options) -> Result<Applied, DataplaneError> {
        self.in_force = None;
        self.skipped.clear();
        self.can_count = self.can_count && has_counter();
        let make = |source: Source<'_>, side: &Self| {
            let saved = side.programs.save()?;
            Ok(Edit::from_saved(source, saved, &side.spellings))
        };
        let mut context = self.context(plan, options);
        let mut changed = self.change(plan, &context, make);
        if self.can_count && matches!(changed, Err(ProgramError::Refused { .. })) {
            // The kernel may have counters and no rules that add to them. Without that it is known what else is refused.
            self.skipped.clear();
            self.can_count = false;
            context = self.context(plan, options);
            changed = self.change(plan, &context, make);
            self.can_count = changed.is_err();
        }
        self.failures += u64::from(changed.is_err());
        self.rules_of_none = fixed::counts(plan, &context);
        Ok(changed?)
    }

    /// Whether packets that are dropped as invalid are counted.
    #[cfg(test)]
    pub fn counts_invalid_packets(&self) -> bool {
        self.can_count
    }

    /// What there is to count.
    pub fn counts(&self) -> IptablesCounts {
        let of_services = |table| {
            let footprints = self.in_force.iter().flat_map(|in_force| in_force.values());
            footprints.map(|footprint| footprint.rules_in(table)).sum::<u64>()
        };
        let tables = Table::ALL.into_iter().map(|table| TableCounts {
            table: table.name(),
            rules: self.rules_of_none[table as usize] + of_services(table),
            rules_last: self.rules_last[table as usize],
        });
        IptablesCounts {
            family: self.family,
            failures: self.failures,
            partial_failures: self.partial_failures,
            tables: tables.collect(),
        }
    }

    /// Brings an edit into force, without the Services that are refused.
    fn change(
        &mut self,
        plan: &Plan,
        context: &Context,
        make: impl Fn(Source<'_>, &Self) -> Result<Edit, ProgramError>,
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
            let error = match result {
                Ok(()) => {
                    let elements = edit.count();
                    self.rules_last = rules;
                    keep(self.in_force.get_or_insert_default(), edit.footprints);
                    return Ok(Applied {
                        elements,
                        skipped: refused,
                    });
                }
                Err(error) => error,
            };
            match refused_service(&error, &parts) {
                Some(service) if refused.len() < ROUNDS_MAX && self.skipped.insert(service.clone()) => {
                    refused.push(Skipped {
                        service,
                        reason: error.to_string(),
                    });
                }
                _ => {
                    self.in_force = None;
                    return Err(error);
                }
            }
        }
    }

    fn context(&self, plan: &Plan, options: &Options) -> Context {
        let is_liberal = fs::read_to_string(TCP_BE_LIBERAL).is_ok_and(|value| value.trim() == "1");
        let invalid = match (is_liberal, self.can_count) {
            (true, _) => InvalidPackets::Accepted,
            (false, true) => InvalidPackets::Counted,
            (false, false) => InvalidPackets::Dropped,
        };
        Context::new(self.family, plan.settings(), options, invalid)
    }

    fn source<'a>(&'a self, plan: &'a Plan, context: &'a Context) -> Source<'a> {
        Source {
            plan,
            context,
            skipped: &self.skipped,
        }
    }
}

/// Makes the counter of dropped packets if there is none; whether there is one.
fn has_counter() -> bool {
    let made = Accounting::open().and_then(|mut accounting| accounting.ensure(INVALID_DROPPED_COUNTER));
    if let Err(error) = &made {
        tracing::info!(%error, "packets that are dropped as invalid are not counted");
    }
    made.is_ok()
}

fn refused_service(error: &ProgramError, parts: &[(usize, Option<ObjectKey>)]) -> Option<ObjectKey> {
    match error {
        ProgramError::Refused { line: Some(line), .. } => owner_of(parts, *line),
        _ => None,
    }
}
