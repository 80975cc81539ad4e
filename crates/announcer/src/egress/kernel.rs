//! Tables, policy rules and routes in the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink::nftables::{CommitError, Nftables};
use netlink::route::{Action, Connection, Route, RouteError, Rule, RuleFamily, RuleMark};
use rustix::io::Errno;

use super::state::{ANY_OWNER, EgressState, OwnerNumber, TABLE_WITHOUT_OWNER};
use super::table;

#[cfg(test)]
mod tests;

const FAMILIES: [RuleFamily; 2] = [RuleFamily::V4, RuleFamily::V6];
/// Priority of the policy rules: before those by which CNI plugins select a table for single Pods.
const RULE_PRIORITY: u32 = 400;
/// Priority of the rules that drop packets to an owner without a route: the kernel deletes routes of a link that goes down.
const DROP_PRIORITY: u32 = 401;
/// Routing protocol number of Portolan's rules and routes, as `ip route` shows it.
const PROTOCOL: u8 = 112;

/// Reasons why the kernel does not match the desired state.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// nftables is not reachable.
    #[error("cannot use nftables: {0}")]
    Nftables(#[source] io::Error),
    /// The kernel refused a table. It needs NFT_NAT and NFT_CT.
    #[error("cannot write the egress table: {0}")]
    Table(#[from] CommitError),
    /// The kernel refused a policy rule or a route.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// Egress in the kernel, in the namespace of the thread that applies it.
#[derive(Debug, Default)]
pub(crate) struct EgressKernel {
    /// State that the kernel holds; `None` at start and after a failure.
    applied: Option<EgressState>,
}

impl EgressKernel {
    /// Makes the next call write everything: another program may have changed it.
    pub(crate) fn write_again(&mut self) {
        self.applied = None;
    }

    /// Writes the desired state. Routes precede the marks that select them. The removal of earlier states follows.
    /// Returns the owners whose route the kernel refuses: packets to them are dropped, and the next call writes
    /// everything again.
    ///
    /// # Errors
    /// An [`EgressError`]; the next call writes everything again.
    pub(crate) fn apply(&mut self, desired: &EgressState) -> Result<Vec<OwnerNumber>, EgressError> {
        if self.applied.as_ref() == Some(desired) {
            return Ok(Vec::new());
        }
        let before = self.applied.take();
        let mut nftables = Nftables::open().map_err(EgressError::Nftables)?;
        let mut refused = Vec::new();
        if desired.is_empty() {
            for family in FAMILIES {
                nftables.delete_table(table::table_family(family), table::TABLE)?;
            }
            remove_other_routes(&BTreeMap::new())?;
        } else {
            if before.is_none_or(|before| before.routes != desired.routes) {
                refused = add_routes(&desired.routes)?;
            }
            for family in FAMILIES {
                nftables.commit(table::table(family, desired))?;
            }
            remove_other_routes(&desired.routes)?;
        }
        if refused.is_empty() {
            self.applied = Some(desired.clone());
        }
        Ok(refused)
    }
}

/// Removes tables, policy rules and routes of egress. Returns descriptions of the removed tables.
///
/// # Errors
/// An [`EgressError`] if the kernel refuses.
pub fn remove_egress() -> Result<Vec<String>, EgressError> {
    let mut nftables = Nftables::open().map_err(EgressError::Nftables)?;
    let mut removed = Vec::new();
    for family in FAMILIES {
        let family = table::table_family(family);
        if nftables.delete_table(family, table::TABLE)? {
            removed.push(format!("nftables table {family} {}", table::TABLE));
        }
    }
    remove_other_routes(&BTreeMap::new())?;
    Ok(removed)
}

/// Adds rules and routes. Returns the owners whose route the kernel refuses.
fn add_routes(routes: &BTreeMap<(RuleFamily, OwnerNumber), Action>) -> Result<Vec<OwnerNumber>, EgressError> {
    let mut connection = Connection::open()?;
    let present = connection.rules()?;
    let families: BTreeSet<RuleFamily> = routes.keys().map(|(family, _)| *family).collect();
    for family in families {
        let drop = default_route(family, Action::Blackhole);
        connection.replace_route_of(TABLE_WITHOUT_OWNER, &drop)?;
        add_rule(&mut connection, &present, &drop_rule(family))?;
    }
    let mut refused = Vec::new();
    for ((family, number), action) in routes {
        let route = default_route(*family, *action);
        if let Err(error) = connection.replace_route_of(number.table(), &route) {
            tracing::debug!(%error, "route to the owner of an address not written");
            refused.push(*number);
        }
        add_rule(&mut connection, &present, &rule(*family, *number))?;
    }
    Ok(refused)
}

/// Adds a rule that `present` lacks.
fn add_rule(connection: &mut Connection, present: &[Rule], rule: &Rule) -> Result<(), RouteError> {
    if present.contains(rule) {
        return Ok(());
    }
    match connection.add_rule(rule) {
        Err(error) if !error.is_already_present() => Err(error),
        _ => Ok(()),
    }
}

/// Removes the rules and routes of owners that `kept` lacks.
fn remove_other_routes(kept: &BTreeMap<(RuleFamily, OwnerNumber), Action>) -> Result<(), EgressError> {
    let mut connection = Connection::open()?;
    let rules = match connection.rules() {
        // A kernel without policy rules has none of an earlier process.
        Err(error) if kept.is_empty() && error.errno() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
            return Ok(());
        }
        rules => rules?,
    };
    for rule in rules.into_iter().filter(|rule| rule.protocol == PROTOCOL) {
        let is_kept = match OwnerNumber::of_table(rule.table) {
            Some(number) => kept.contains_key(&(rule.family, number)),
            None => {
                rule.table != TABLE_WITHOUT_OWNER || kept.keys().any(|(family, _)| *family == rule.family)
            }
        };
        if is_kept {
            continue;
        }
        ignore_absent(connection.delete_rule(&rule))?;
        for route in connection.routes_of(rule.table)? {
            if RuleFamily::of(route.destination.addr()) == rule.family {
                ignore_absent(connection.delete_route_of(rule.table, &route))?;
            }
        }
    }
    Ok(())
}

/// Returns the rule for packets to any owner.
fn drop_rule(family: RuleFamily) -> Rule {
    Rule {
        family,
        priority: DROP_PRIORITY,
        source: None,
        mark: Some(ANY_OWNER),
        table: TABLE_WITHOUT_OWNER,
        protocol: PROTOCOL,
    }
}

fn rule(family: RuleFamily, number: OwnerNumber) -> Rule {
    Rule {
        family,
        priority: RULE_PRIORITY,
        source: None,
        mark: Some(RuleMark {
            value: number.mark(),
            mask: u32::MAX,
        }),
        table: number.table(),
        protocol: PROTOCOL,
    }
}

fn default_route(family: RuleFamily, action: Action) -> Route {
    let destination = match family {
        RuleFamily::V4 => IpNet::V4(Ipv4Net::default()),
        RuleFamily::V6 => IpNet::V6(Ipv6Net::default()),
    };
    Route {
        protocol: PROTOCOL,
        ..Route::new(destination, action)
    }
}

fn ignore_absent(result: Result<(), RouteError>) -> Result<(), RouteError> {
    match result {
        Err(error) if error.is_absent() => Ok(()),
        other => other,
    }
}
