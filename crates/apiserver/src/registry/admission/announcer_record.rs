//! Admission of the announcer record ([`api::announcers`]). Each announcer changes its own entry only, and removes a
//! member only if the Node of the member does not exist. While the Lease exists, a compromised node therefore cannot vote
//! for others.
//!
//! Announcers on nodes are users of their own, `system:portolan-announcer:NODE`. Other users with the right to
//! write the Lease, such as administrators, are not restricted here.

use std::collections::BTreeMap;

use api::announcers::{ANNOTATION, Member, NAME, NAMESPACE, NodeName, Record, TieBreaker};
use api::kind;
use api::tree::{child, clear, text, text_if_set};
use serde_json::Value;
use store::Index;

use super::WriteAttempt;
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::route::Target;

#[cfg(test)]
mod tests;

const USER_PREFIX: &str = "system:portolan-announcer:";
/// Metadata that announcers may not write. Owners and finalizers determine the lifetime of the object.
const FOREIGN_METADATA: [&str; 3] = ["labels", "ownerReferences", "finalizers"];

/// Returns the node of an announcer; `None` for other users.
pub(super) fn announcer_of(requester: Option<&Identity>) -> Option<&str> {
    requester?.user.strip_prefix(USER_PREFIX)
}

/// Admits a write of the Lease by the announcer of `node`.
pub(super) fn admit(
    node: &str,
    index: &Index,
    attempt: &WriteAttempt<'_>,
    lease: &Value,
) -> Result<(), Failure> {
    let target = attempt.target;
    let name = match target.name() {
        "" => text(child(lease, "metadata"), "name"),
        name => name,
    };
    let refused = |message: String| {
        let message = format!("the announcer of node {node:?} {message}");
        Failure::forbidden(target.kind, name, &message)
    };
    if (target.namespace(), name) != (NAMESPACE, NAME) {
        return Err(refused(format!("can only write lease {NAMESPACE}/{NAME}")));
    }
    let stored = attempt.stored;
    if foreign_metadata(lease) != stored.map(foreign_metadata).unwrap_or_default() {
        return Err(refused(format!("can only write the annotation {ANNOTATION:?}")));
    }
    let after =
        parse_record(lease).map_err(|message| refused(format!("wrote an invalid record: {message}")))?;
    let is_gone = |name: &str| {
        let key = kind::find("", "v1", "nodes").map(|kind| Target::object(kind, "", name).key());
        key.is_some_and(|key| index.get(&key).is_none())
    };
    let decision = match stored {
        None => check_first_record(node, &after),
        // An unreadable record can only be deleted, by an administrator.
        Some(stored) => match parse_record(stored) {
            Ok(before) => check_change(node, &before, &after, is_gone),
            Err(message) => Err(format!("cannot replace an invalid record: {message}")),
        },
    };
    decision.map_err(refused)
}

/// Checks that a first record has its writer as the only member, or is the last list of the writer after a deletion of the
/// Lease. The server has no copy of that list. A compromised node gains nothing by a false one: with a record of its own
/// it would be the only member, too. The counters are bounded, so that other nodes can write after it.
fn check_first_record(node: &str, after: &Record) -> Result<(), String> {
    let is_own = after.members_and_joining().map(|(name, _)| &**name).eq([node]);
    let is_first = (after.sequence, after.epoch) == (1, 1) && after.tie_breaker.is_none();
    let is_last = after.is_created_again() && after.member(node).is_some();
    ((is_own && is_first) || is_last).then_some(()).ok_or_else(|| {
        "can only create a record with itself as the only member, or with its last list".to_owned()
    })
}

/// Checks that a change keeps the entries of other members.
fn check_change(
    node: &str,
    before: &Record,
    after: &Record,
    is_gone: impl Fn(&str) -> bool,
) -> Result<(), String> {
    if before.cluster != after.cluster {
        return Err("cannot change the cluster of the record".to_owned());
    }
    if after.sequence != before.sequence + 1 || !(before.epoch..=before.epoch + 1).contains(&after.epoch) {
        return Err("can only add one to sequence and epoch".to_owned());
    }
    let are_same_lists =
        names(&before.members).eq(names(&after.members)) && names(&before.joining).eq(names(&after.joining));
    if are_same_lists != (before.epoch == after.epoch) {
        return Err("must add one to the epoch if the lists of members change, and only then".to_owned());
    }
    let mut added = after
        .members_and_joining()
        .filter(|(name, _)| before.member(name).is_none());
    if let Some((name, _)) = added.find(|(name, _)| ***name != *node || after.members.contains_key(*name)) {
        return Err(format!(
            "cannot add node {name:?}: a node can only add itself, to those that join"
        ));
    }
    // All nodes that join become members in one change.
    let is_listed_twice = |name: &&NodeName| after.joining.contains_key(*name);
    let is_promoting = after.members.keys().any(|name| before.joining.contains_key(name));
    if after.members.keys().any(|name| is_listed_twice(&name))
        || (is_promoting && !after.joining.is_empty())
        || before.members.keys().any(|name| is_listed_twice(&name))
    {
        return Err("can only add members by promoting all nodes that join".to_owned());
    }
    for (name, entry) in before.members_and_joining() {
        match after.member(name) {
            None if is_gone(name) => {}
            None => return Err(format!("cannot remove node {name:?}: its Node exists")),
            Some(entry_after) if **name != *node && entry_after != entry => {
                return Err(format!("cannot change the entry of node {name:?}"));
            }
            Some(_) => {}
        }
    }
    check_tie_breaker(node, before.tie_breaker.as_ref(), after.tie_breaker.as_ref())
}

/// Checks that the writer takes, renews or releases the tie-breaker for itself only.
fn check_tie_breaker(
    node: &str,
    before: Option<&TieBreaker>,
    after: Option<&TieBreaker>,
) -> Result<(), String> {
    let is_own = |tie_breaker: &TieBreaker| {
        let holder = tie_breaker.holder.rsplit_once('/');
        holder.is_some_and(|(name, _)| name == node)
    };
    if before == after || after.is_some_and(is_own) || (after.is_none() && before.is_some_and(is_own)) {
        return Ok(());
    }
    Err("cannot change the tie-breaker of another node".to_owned())
}

fn names(list: &BTreeMap<NodeName, Member>) -> impl Iterator<Item = &str> {
    list.keys().map(|name| &**name)
}

/// Parses the record of a Lease.
fn parse_record(lease: &Value) -> Result<Record, String> {
    let annotations = child(child(lease, "metadata"), "annotations");
    let text = text_if_set(annotations, ANNOTATION).ok_or("the annotation is missing")?;
    Record::from_json(text).map_err(|error| error.to_string())
}

/// Returns metadata that announcers may not change, including other annotations.
fn foreign_metadata(lease: &Value) -> Vec<(usize, Value)> {
    let metadata = child(lease, "metadata");
    let mut annotations = child(metadata, "annotations").clone();
    clear(&mut annotations, ANNOTATION);
    let fields = FOREIGN_METADATA.map(|field| child(metadata, field).clone());
    let fields = fields.into_iter().chain([annotations]).enumerate();
    let is_empty = |value: &Value| match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        value => value.is_null(),
    };
    fields.filter(|(_, value)| !is_empty(value)).collect()
}
