//! The record of announcers ([`api::announcers`]). Each announcer may change its own entry and nothing that is another's; a
//! member is taken out only if its Node is gone. So a machine that somebody has taken over speaks for itself alone.
//!
//! Announcers on machines have users of their own, `system:portolan-announcer:NODE`. Others who may write the Lease, as
//! administrators, are not restricted here.

use std::collections::BTreeMap;

use api::announcers::{ANNOTATION, Member, NAME, NAMESPACE, NodeName, Record, TieBreaker};
use api::kind;
use api::tree::{child, clear, text, text_if_set};
use serde_json::Value;
use store::Index;

use super::Attempt;
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::route::Target;

#[cfg(test)]
mod tests;

const USER_PREFIX: &str = "system:portolan-announcer:";
/// Metadata that announcers do not write. Owners and finalizers decide over the life of the object.
const FOREIGN_METADATA: [&str; 3] = ["labels", "ownerReferences", "finalizers"];

/// The Node whose announcer this is.
pub(super) fn announcer_of(requester: Option<&Identity>) -> Option<&str> {
    requester?.user.strip_prefix(USER_PREFIX)
}

/// Checks that the announcer of a node may write this Lease.
pub(super) fn admit(node: &str, index: &Index, attempt: &Attempt<'_>, lease: &Value) -> Result<(), Failure> {
    let target = attempt.target;
    let name = match target.name() {
        "" => text(child(lease, "metadata"), "name"),
        name => name,
    };
    let refused = |why: String| {
        let why = format!("the announcer of node {node:?} {why}");
        Failure::forbidden(target.kind, name, &why)
    };
    if (target.namespace(), name) != (NAMESPACE, NAME) {
        return Err(refused(format!("can only write lease {NAMESPACE}/{NAME}")));
    }
    let stored = attempt.stored;
    if foreign_metadata(lease) != stored.map(foreign_metadata).unwrap_or_default() {
        return Err(refused(format!("can only write the annotation {ANNOTATION:?}")));
    }
    let after = record(lease).map_err(|why| refused(format!("wrote a record that cannot be read: {why}")))?;
    let is_gone = |name: &str| {
        let key = kind::find("", "v1", "nodes").map(|kind| Target::object(kind, "", name).key());
        key.is_some_and(|key| index.get(&key).is_none())
    };
    let checked = match stored {
        None => founding(node, &after),
        // One that nobody can read is an administrator's to delete.
        Some(stored) => match record(stored) {
            Ok(before) => change(node, &before, &after, is_gone),
            Err(why) => Err(format!("cannot replace a record that cannot be read: {why}")),
        },
    };
    checked.map_err(refused)
}

/// Checks that a first record has one member.
fn founding(node: &str, after: &Record) -> Result<(), String> {
    let is_own = after.members_and_joining().map(|(name, _)| &**name).eq([node]);
    let is_first = (after.sequence, after.epoch) == (1, 1) && after.tie_breaker.is_none();
    (is_own && is_first)
        .then_some(())
        .ok_or_else(|| "can only found a record of itself".to_owned())
}

/// Checks that a change leaves the entries of other members as they are.
fn change(node: &str, before: &Record, after: &Record, is_gone: impl Fn(&str) -> bool) -> Result<(), String> {
    if before.cluster != after.cluster {
        return Err("cannot make the record one of another cluster".to_owned());
    }
    if after.sequence != before.sequence + 1 || !(before.epoch..=before.epoch + 1).contains(&after.epoch) {
        return Err("can only add one to sequence and epoch".to_owned());
    }
    let are_same_lists =
        names(&before.members).eq(names(&after.members)) && names(&before.joining).eq(names(&after.joining));
    if are_same_lists != (before.epoch == after.epoch) {
        return Err("adds one to the epoch exactly if the lists change".to_owned());
    }
    let mut added = after
        .members_and_joining()
        .filter(|(name, _)| before.member(name).is_none());
    if let Some((name, _)) = added.find(|(name, _)| ***name != *node || after.members.contains_key(*name)) {
        return Err(format!("cannot add node {name:?} but to have itself join"));
    }
    // Who joins becomes a member when all do.
    let is_listed_twice = |name: &&NodeName| after.joining.contains_key(*name);
    let is_promoting = after.members.keys().any(|name| before.joining.contains_key(name));
    if after.members.keys().any(|name| is_listed_twice(&name))
        || (is_promoting && !after.joining.is_empty())
        || before.members.keys().any(|name| is_listed_twice(&name))
    {
        return Err("cannot change who is a member but by making all members who join".to_owned());
    }
    for (name, entry) in before.members_and_joining() {
        match after.member(name) {
            None if is_gone(name) => {}
            None => return Err(format!("cannot take node {name:?} out, whose Node exists")),
            Some(still) if **name != *node && still != entry => {
                return Err(format!("cannot change the entry of node {name:?}"));
            }
            Some(_) => {}
        }
    }
    casting_vote(node, before.tie_breaker.as_ref(), after.tie_breaker.as_ref())
}

/// Checks that the writer takes, confirms or gives back the casting vote for itself.
fn casting_vote(node: &str, before: Option<&TieBreaker>, after: Option<&TieBreaker>) -> Result<(), String> {
    let is_own = |tie_breaker: &TieBreaker| {
        let holder = tie_breaker.holder.rsplit_once('/');
        holder.is_some_and(|(name, _)| name == node)
    };
    if before == after || after.is_some_and(is_own) || (after.is_none() && before.is_some_and(is_own)) {
        return Ok(());
    }
    Err("cannot give or take the casting vote of another node".to_owned())
}

fn names(list: &BTreeMap<NodeName, Member>) -> impl Iterator<Item = &str> {
    list.keys().map(|name| &**name)
}

/// The record in a Lease.
fn record(lease: &Value) -> Result<Record, String> {
    let annotations = child(child(lease, "metadata"), "annotations");
    let text = text_if_set(annotations, ANNOTATION).ok_or("there is none")?;
    Record::from_json(text).map_err(|error| error.to_string())
}

/// Metadata that is not announcers', with all annotations but theirs.
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
