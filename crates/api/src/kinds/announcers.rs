//! The record of announcers, the nodes that answer for load balancers' addresses on the local network: whose votes count. It
//! stands in the annotation [`ANNOTATION`] of one Lease, and every change of it is a compare-and-swap.
//!
//! A change by which two lists could both be in use, each with a majority of its own, would allow two owners. So new
//! nodes are `joining` first: then a majority of the members is needed, and also a majority of both together.
//! They become members when a majority of the members lends no more votes to nodes that know an older list. Members whose Node object is deleted are taken out at once: to delete it says that the machine is
//! gone, and who does not vote cannot be part of any majority.
//!
//! A member's entry says where its process is and which public key it has, by which its messages are authenticated; it is the member's own, and
//! Portolan's API server refuses those that another announcer changes. Everybody may read the record: nothing in it is secret.
//!
//! Versions before this one kept a secret in the record that all shared. Their record is read, and the first write makes it one
//! of this version, with the same members and the same casting vote. They cannot read that: they keep the list that they know,
//! and the votes of each node count once in it, for whichever version its process is. So there are never two majorities.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

#[cfg(test)]
mod tests;

/// The namespace of the Lease.
pub const NAMESPACE: &str = "kube-system";
/// The name of the Lease.
pub const NAME: &str = "portolan-announcer";
/// The annotation of the Lease that holds the record as JSON.
pub const ANNOTATION: &str = "portolan.dev/announcers";
/// Most members. Every node sends every other one ten probes a second.
pub const MEMBERS_MAX: usize = 128;
/// The version of the record, which is that of messages too.
const VERSION: u64 = 3;
/// Numbers of a record that are in order stay far below it: a greater one is a fault or an attack.
const NUMBER_MAX: u64 = 1 << 53;

/// The name of a Node.
pub type NodeName = Arc<str>;

/// The list of members, and who has the casting vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of the record.
    version: u64,
    /// The founding of the cluster, in hexadecimal digits: a record that is made anew has another one.
    pub cluster: String,
    /// Grows with every write.
    pub sequence: u64,
    /// Grows whenever somebody joins, becomes a member or is taken out.
    pub epoch: u64,
    /// The members.
    pub members: BTreeMap<NodeName, Member>,
    /// Nodes that join.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub joining: BTreeMap<NodeName, Member>,
    /// Holder of the casting vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
}

/// A member's entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Address of its probes, as source and destination.
    pub address: SocketAddr,
    /// Its present process; `None` if that is of a version before keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// A process of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Process {
    /// A number that no other process of the node ever had.
    pub incarnation: u64,
    /// The public half of its key pair.
    pub public_key: PublicKey,
}

/// The public half of a process's X25519 key pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", STANDARD_NO_PAD.encode(self.0))
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD_NO_PAD.decode(&text).ok();
        let key = bytes.and_then(|bytes| bytes.try_into().ok());
        key.map(Self)
            .ok_or_else(|| de::Error::custom("expected 32 bytes in base64 without padding"))
    }
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
    /// The record has an unknown format.
    #[error("expected the members as JSON: {source}")]
    Json {
        /// The defect.
        source: serde_json::Error,
    },
    /// More than can be served.
    #[error("expected at most {MEMBERS_MAX} members, found {found}")]
    TooMany {
        /// Number of entries.
        found: usize,
    },
    /// Nobody could ever vote.
    #[error("expected at least one member")]
    Empty,
    /// A later version wrote it.
    #[error("expected version {VERSION}, found {found}")]
    Version {
        /// The version.
        found: u64,
    },
    /// The record is inconsistent: no sequence of announcers' writes yields it.
    #[error("expected sequence and epoch below {NUMBER_MAX}, found {found}")]
    Number {
        /// The greater of them.
        found: u64,
    },
}

/// The record of versions before keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Former {
    sequence: u64,
    epoch: u64,
    key: String,
    members: BTreeMap<NodeName, SocketAddr>,
    #[serde(default)]
    joining: BTreeMap<NodeName, SocketAddr>,
    #[serde(default)]
    witness: Option<Witness>,
}

impl From<Former> for Record {
    fn from(former: Former) -> Self {
        let entries = |list: BTreeMap<NodeName, SocketAddr>| {
            let entries = list.into_iter().map(|(name, address)| {
                let member = Member {
                    address,
                    process: None,
                };
                (name, member)
            });
            entries.collect()
        };
        // All who read it make the same of it.
        let cluster = Sha256::digest(former.key.as_bytes());
        Self {
            version: VERSION,
            cluster: cluster
                .iter()
                .take(16)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            sequence: former.sequence,
            epoch: former.epoch,
            members: entries(former.members),
            joining: entries(former.joining),
            witness: former.witness,
        }
    }
}

impl Record {
    /// The record of a cluster whose first member this is.
    pub fn founded_by(name: NodeName, member: Member, cluster: String) -> Self {
        Self {
            version: VERSION,
            cluster,
            sequence: 1,
            epoch: 1,
            members: BTreeMap::from([(name, member)]),
            joining: BTreeMap::new(),
            witness: None,
        }
    }

    /// Reads what [`Record::to_json`] wrote, or what a version before keys wrote.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn from_json(text: &str) -> Result<Self, RecordError> {
        let record: Self = match serde_json::from_str::<Former>(text) {
            Ok(former) => former.into(),
            Err(_) => serde_json::from_str(text).map_err(|source| RecordError::Json { source })?,
        };
        record.checked()
    }

    fn checked(self) -> Result<Self, RecordError> {
        let record = self;
        if record.version != VERSION {
            return Err(RecordError::Version {
                found: record.version,
            });
        }
        let found = record.sequence.max(record.epoch);
        if found >= NUMBER_MAX {
            return Err(RecordError::Number { found });
        }
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
    pub fn everybody(&self) -> impl Iterator<Item = (&NodeName, &Member)> {
        self.members.iter().chain(&self.joining)
    }

    /// The entry of a node, if it is on the list.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.get(name).or_else(|| self.joining.get(name))
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

    /// With a node that joins, or with its new entry; nothing if there is no room.
    pub fn with(&self, name: &NodeName, member: Member) -> Option<Self> {
        if self.member(name).is_none() {
            let mut next = self.changed();
            next.joining.insert(NodeName::clone(name), member);
            return (self.everybody().count() < MEMBERS_MAX).then_some(next);
        }
        let mut next = self.clone();
        next.sequence += 1;
        let lists = [&mut next.members, &mut next.joining];
        for entry in lists.into_iter().filter_map(|list| list.get_mut(name)) {
            entry.clone_from(&member);
        }
        Some(next)
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
