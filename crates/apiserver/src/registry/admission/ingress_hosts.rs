//! Admission of changes of Ingresses: a change takes no host from another namespace.
//!
//! In a class of Portolan, a host belongs to the namespace of the oldest Ingress that names it. A new Ingress is the
//! youngest one and takes no host. An older one must not name the host of a younger one later. Its namespace would
//! receive the requests, and could obtain certificates for the host.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use api::ingress;
use api::kind;
use api::object::{Ingress, IngressClass};
use serde::Deserialize as _;
use serde_json::Value;
use store::Index;

use super::WriteAttempt;
use crate::failure::Failure;

/// Hosts that the message names; it counts the others.
const NAMED_MAX: usize = 3;

/// Admits an update of an Ingress.
pub(super) fn admit(index: &Index, attempt: &WriteAttempt<'_>, object: &Value) -> Result<(), Failure> {
    // Edges ignore an Ingress that is not readable.
    let stored = attempt
        .stored
        .and_then(|stored| Ingress::deserialize(stored).ok());
    let (Some(stored), Ok(updated)) = (stored, Ingress::deserialize(object)) else {
        return Ok(());
    };
    let Some(class) = updated.class().filter(|class| is_own_class(index, class)) else {
        return Ok(());
    };
    let mut added = updated.hosts();
    if stored.class() == Some(class) {
        let before = stored.hosts();
        added.retain(|host| !before.contains(host));
    }
    if added.is_empty() {
        return Ok(());
    }
    let taken = taken_hosts(index, attempt, class, &stored, &added)?;
    if taken.is_empty() {
        return Ok(());
    }
    let further = taken.len().saturating_sub(NAMED_MAX);
    let named = taken.iter().take(NAMED_MAX).map(|host| match host.as_str() {
        "" => "rules without a host".to_owned(),
        host => host.to_owned(),
    });
    let mut named = named.collect::<Vec<_>>().join(", ");
    if further > 0 {
        named.push_str(&format!(" and {further} more"));
    }
    let message = format!(
        "hosts belong to other namespaces, from whose younger Ingresses this one would take them: {named}; use other hosts, or \
         delete those Ingresses first"
    );
    let target = attempt.target;
    Err(Failure::forbidden(target.kind, target.name(), &message))
}

/// Returns those of the `added` hosts that an update of the Ingress `stored` takes from another namespace.
fn taken_hosts(
    index: &Index,
    attempt: &WriteAttempt<'_>,
    class: &str,
    stored: &Ingress,
    added: &BTreeSet<String>,
) -> Result<Vec<String>, Failure> {
    let listing = index.list(&attempt.target.kind.store_prefix(None), None, None, None);
    let listing = listing.map_err(|error| Failure::of_read(&error))?;
    let own = precedence(stored);
    let others = listing.entries.iter().filter_map(|entry| {
        let other = serde_json::from_slice::<Ingress>(&entry.value).ok()?;
        let is_served = other.metadata.deletion_timestamp.is_none() && other.class() == Some(class);
        (is_served && other.metadata.uid != stored.metadata.uid).then_some(other)
    });
    // The oldest other Ingress of each host. An Ingress can have as many hosts as its size allows.
    let mut owners: BTreeMap<String, Rc<[String; 3]>> = BTreeMap::new();
    for other in others {
        let other_order = Rc::new(precedence(&other));
        for host in other.hosts().intersection(added) {
            if owners.get(host).is_none_or(|owner| other_order < *owner) {
                owners.insert(host.clone(), Rc::clone(&other_order));
            }
        }
    }
    let taken = owners.into_iter().filter(|(_, owner)| {
        let [_, namespace, _] = &**owner;
        *namespace != stored.metadata.namespace && own < **owner
    });
    Ok(taken.map(|(host, _)| host).collect())
}

/// Returns the order of an Ingress among those that name a host: creation, namespace and name.
fn precedence(ingress: &Ingress) -> [String; 3] {
    let (created, namespace, name) = ingress.precedence();
    [created, namespace, name].map(str::to_owned)
}

/// Returns true if Portolan serves the class.
fn is_own_class(index: &Index, name: &str) -> bool {
    let class = || {
        let kind = kind::find(ingress::GROUP, "v1", "ingressclasses")?;
        let entry = index.get(&kind.store_key("", name))?;
        serde_json::from_slice::<IngressClass>(&entry.value).ok()
    };
    class().is_some_and(|class| class.is_own())
}
