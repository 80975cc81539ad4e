//! The list of members: whose votes count. It is one object in the API, and every change of it is a compare-and-swap.
//!
//! A change by which two lists could both be in use, each with a majority of its own, would allow two owners. So new
//! nodes are `joining` first: then a majority of the members is needed, and also a majority of both together.
//! They become members when a majority of the members lends no more votes to nodes that know an older list
//! ([`super::core`]). Members whose Node object is deleted are taken out at once: to delete it says that the machine is
//! gone, and who does not vote cannot be part of any majority.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{MEMBERS_MAX, NodeName};

#[cfg(test)]
mod tests;

/// The list of members, and who has the casting vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Grows with every write.
    pub sequence: u64,
    /// Grows with every change of `members` and `joining`.
    pub epoch: u64,
    /// What the members' messages are authenticated with, in hexadecimal digits. It keeps away strays, and what comes
    /// from another cluster on the same network.
    pub key: String,
    /// The members, and where their probes go.
    pub members: BTreeMap<NodeName, SocketAddr>,
    /// Those who are to become members.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub joining: BTreeMap<NodeName, SocketAddr>,
    /// Who has the casting vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
}

/// Who has the casting vote: it makes half of an even number of members a majority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// A process: the node's name and the incarnation.
    pub holder: String,
    /// Grows with every renewal.
    pub renewal: u64,
}

/// A record that cannot be used. Trying again does not help; deleting the object does.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is not what this version writes.
    #[error("expected the members as JSON: {source}")]
    Json {
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// More than can be served.
    #[error("expected at most {MEMBERS_MAX} members, found {found}")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// Nobody could ever vote.
    #[error("expected at least one member")]
    Empty,
}

impl Record {
    /// The record of a cluster whose first member this is.
    pub fn founded_by(name: NodeName, address: SocketAddr, key: String) -> Self {
        Self {
            sequence: 1,
            epoch: 1,
            key,
            members: BTreeMap::from([(name, address)]),
            joining: BTreeMap::new(),
            witness: None,
        }
    }

    /// Reads what [`Record::to_json`] wrote.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn from_json(text: &str) -> Result<Self, RecordError> {
        let record: Self = serde_json::from_str(text).map_err(|source| RecordError::Json { source })?;
        let found = record.members.len() + record.joining.len();
        if found > MEMBERS_MAX {
            return Err(RecordError::TooMany { found });
        }
        if record.members.is_empty() {
            return Err(RecordError::Empty);
        }
        Ok(record)
    }

    /// As it stands in the API.
    ///
    /// # Errors
    /// None in practice: there is nothing in it that JSON has not.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Members and those who join.
    pub fn everybody(&self) -> impl Iterator<Item = (&NodeName, &SocketAddr)> {
        self.members.iter().chain(&self.joining)
    }

    /// Where the probes of a node go, if it is on the list.
    pub fn address_of(&self, name: &str) -> Option<SocketAddr> {
        self.members.get(name).or_else(|| self.joining.get(name)).copied()
    }

    /// Whether those whose vote `has_vote` knows are enough.
    pub fn is_quorum(&self, has_vote: impl Fn(&NodeName) -> bool, has_witness: bool) -> bool {
        self.lists().all(|(size, list)| {
            let votes = list.filter(|name| has_vote(name)).count();
            2 * votes > size || (2 * votes == size && has_witness)
        })
    }

    /// Whether the casting vote would decide if those whom `is_heard` knows vote.
    pub fn is_tie(&self, is_heard: impl Fn(&NodeName) -> bool) -> bool {
        self.lists()
            .any(|(size, list)| 2 * list.filter(|name| is_heard(name)).count() == size)
    }

    /// Whether those whom `is_settled` knows are a majority of the members without the casting vote.
    pub fn is_settled(&self, is_settled: impl Fn(&NodeName) -> bool) -> bool {
        2 * self.members.keys().filter(|name| is_settled(name)).count() > self.members.len()
    }

    /// With a node that joins, or its new address; nothing if there is no room.
    pub fn with(&self, name: &NodeName, address: SocketAddr) -> Option<Self> {
        let mut next = self.changed();
        if let Some(known) = next.members.get_mut(name) {
            *known = address;
            return Some(next);
        }
        let is_new = next.joining.insert(NodeName::clone(name), address).is_none();
        (!is_new || self.everybody().count() < MEMBERS_MAX).then_some(next)
    }

    /// With those who were joining as members.
    pub fn with_joined(&self) -> Self {
        let mut next = self.changed();
        let joined = std::mem::take(&mut next.joining);
        next.members.extend(joined);
        next
    }

    /// Without the nodes whom `is_gone` knows; nothing if nobody would be left.
    pub fn without(&self, is_gone: impl Fn(&NodeName) -> bool) -> Option<Self> {
        let mut next = self.changed();
        next.members.retain(|name, _| !is_gone(name));
        next.joining.retain(|name, _| !is_gone(name));
        if next.members.is_empty() {
            next.members = std::mem::take(&mut next.joining);
        }
        (!next.members.is_empty()).then_some(next)
    }

    /// With the casting vote in other hands, or confirmed.
    pub fn with_witness(&self, holder: Option<&str>) -> Self {
        let renewal = self.sequence + 1;
        Self {
            sequence: renewal,
            witness: holder.map(|holder| Witness {
                holder: holder.to_owned(),
                renewal,
            }),
            ..self.clone()
        }
    }

    fn changed(&self) -> Self {
        Self {
            sequence: self.sequence + 1,
            epoch: self.epoch + 1,
            ..self.clone()
        }
    }

    /// The lists in which a majority is needed, with their sizes.
    fn lists(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = &NodeName>)> {
        let both = (!self.joining.is_empty()).then_some(self.joining.len());
        std::iter::once(0).chain(both).map(|joining| {
            let size = self.members.len() + joining;
            (size, self.members.keys().chain(self.joining.keys().take(joining)))
        })
    }
}
