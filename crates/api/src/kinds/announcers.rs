//! The member list of announcers: the nodes that answer for load balancer IPs on the local network, and whose votes
//! count. The annotation [`ANNOTATION`] of one Lease holds the list; each change is a compare-and-swap.
//!
//! A change could allow two owners if two lists were in use and each had a majority of its own. So new nodes are
//! `joining` first: a majority of the members is needed, and a majority of both lists together. They become members
//! when a majority of the members leases no more votes to nodes with an older list. Members whose Node object is
//! deleted are removed at once. A deleted Node does not return, and a node that does not vote is part of no majority.
//!
//! An entry holds the address of the member's process and its public key, which authenticates its messages. Only the
//! member itself changes its entry; Portolan's API server rejects other changes. The list contains no secret.
//!
//! If somebody deletes the Lease, its members keep their last list, and one of them creates the Lease again with that
//! list. Half of the members, and half of both lists together, have to use this list or an earlier one. Then no node that
//! this list does not name is a member by the deleted list. Each quorum of the new list therefore shares a node with each
//! quorum of the deleted one. The epoch of the new list exceeds the epochs of the lists that other nodes may know. The
//! tie-breaking vote stays reserved for its last holder.
//!
//! Earlier versions kept a shared secret in the list. Such a list is readable, and the first write converts it, with
//! the same members and the same tie-breaker. Processes of earlier versions cannot read the result. They keep their
//! last list, and each node has one vote in either list, so there are never two majorities.

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

/// Namespace of the Lease.
pub const NAMESPACE: &str = "kube-system";
/// Name of the Lease.
pub const NAME: &str = "portolan-announcer";
/// Annotation of the Lease that holds the list as JSON.
pub const ANNOTATION: &str = "portolan.dev/announcers";
/// Maximum number of members. Each node sends ten probes per second to each other node.
pub const MEMBERS_MAX: usize = 128;
/// Version of the list and of the messages.
const VERSION: u64 = 3;
/// Epoch of a list without any change of the membership.
const FOUNDING_EPOCH: u64 = 1;
/// Least increase of the counters in a list that is created again. No list changes as often between two reads by a
/// running process.
const RECREATION_STEP: u64 = 1 << 20;
/// Holder of the tie-breaking vote in a list that is created again, until a node takes the vote.
const RESERVED_HOLDER: &str = "reserved";
/// Bound of the counters. No sequence of valid writes comes near it; a greater number is a fault or an attack.
const NUMBER_MAX: u64 = 1 << 53;
/// Bound of the counters in a list that is created again. Members need the numbers above it for their next writes.
const RECREATED_NUMBER_MAX: u64 = NUMBER_MAX / 4 * 3;

/// Name of a Node.
pub type NodeName = Arc<str>;

/// The member list with the tie-breaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of the format.
    version: u64,
    /// Identity of the list, in hexadecimal digits. A list that is created again has another one.
    pub cluster: String,
    /// Number of writes so far.
    pub sequence: u64,
    /// Number of changes of the membership: a node joined, became a member or was removed.
    pub epoch: u64,
    /// Members by Node name.
    pub members: BTreeMap<NodeName, Member>,
    /// Nodes that are joining.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub joining: BTreeMap<NodeName, Member>,
    /// Holder of the tie-breaking vote.
    #[serde(rename = "witness", default, skip_serializing_if = "Option::is_none")]
    pub tie_breaker: Option<TieBreaker>,
}

/// Entry of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Source and destination address of its probes.
    pub address: SocketAddr,
    /// Current process; `None` if it is of a version without keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// Process of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Process {
    /// Number that is unique among the node's processes.
    pub incarnation: u64,
    /// Public half of its key pair.
    pub public_key: PublicKey,
}

/// Public half of a process's X25519 key pair.
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

/// Holder of the tie-breaking vote, which makes half of an even number of members a majority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TieBreaker {
    /// Process: node name and incarnation. "reserved" in a list that was created again.
    pub holder: String,
    /// Sequence number of the last renewal.
    pub renewal: u64,
}

/// Error of a member list that cannot be used. A retry does not help; deletion of the Lease does.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not JSON, or with unknown fields.
    #[error("expected the members as JSON: {source}")]
    Json {
        /// JSON error.
        source: serde_json::Error,
    },
    /// Too many members.
    #[error("expected at most {MEMBERS_MAX} members, found {found}")]
    TooMany {
        /// Number of entries.
        found: usize,
    },
    /// No member, so no majority is possible.
    #[error("expected at least one member")]
    Empty,
    /// Format of a later version.
    #[error("expected version {VERSION}, found {found}")]
    Version {
        /// Version in the list.
        found: u64,
    },
    /// Counter above the bound: no sequence of valid writes produces it.
    #[error("expected sequence and epoch below {NUMBER_MAX}, found {found}")]
    Number {
        /// Greater counter of the two.
        found: u64,
    },
}

/// Format of versions without keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnkeyedRecord {
    sequence: u64,
    epoch: u64,
    key: String,
    members: BTreeMap<NodeName, SocketAddr>,
    #[serde(default)]
    joining: BTreeMap<NodeName, SocketAddr>,
    #[serde(rename = "witness", default)]
    tie_breaker: Option<TieBreaker>,
}

impl From<UnkeyedRecord> for Record {
    fn from(former: UnkeyedRecord) -> Self {
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
        // A digest of the shared secret: every reader derives the same identity.
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
            tie_breaker: former.tie_breaker,
        }
    }
}

impl Record {
    /// Returns the list of a cluster whose first member is `member`.
    pub fn founded_by(name: NodeName, member: Member, cluster: String) -> Self {
        Self {
            version: VERSION,
            cluster,
            sequence: 1,
            epoch: FOUNDING_EPOCH,
            members: BTreeMap::from([(name, member)]),
            joining: BTreeMap::new(),
            tie_breaker: None,
        }
    }

    /// Returns the list for a Lease that replaces a deleted one. Other nodes may know later changes of the deleted list,
    /// up to the epoch `known_epoch`, which a faulty node may exaggerate. Another node may use its tie-breaking vote,
    /// unless `holder` does. Two processes that create different lists pass different random numbers.
    pub fn created_again(&self, known_epoch: u64, holder: Option<&str>, random: u64) -> Self {
        let step = RECREATION_STEP + random % RECREATION_STEP;
        let sequence = self.sequence + step;
        let tie_breaker = TieBreaker {
            holder: holder.unwrap_or(RESERVED_HOLDER).to_owned(),
            renewal: sequence,
        };
        Self {
            sequence,
            epoch: self.epoch.max(known_epoch.min(NUMBER_MAX / 2)) + step,
            tie_breaker: Some(tie_breaker),
            ..self.clone()
        }
    }

    /// Returns true for lists that [`Record::created_again`] returns, with counters that leave numbers for later writes.
    pub fn is_created_again(&self) -> bool {
        let tie_breaker = self.tie_breaker.as_ref();
        let possible = RECREATION_STEP + 1..RECREATED_NUMBER_MAX;
        possible.contains(&self.epoch)
            && possible.contains(&self.sequence)
            && tie_breaker.is_some_and(|vote| vote.renewal == self.sequence)
    }

    /// Reads the output of [`Record::to_json`], or the format of versions without keys.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn from_json(text: &str) -> Result<Self, RecordError> {
        let record: Self = match serde_json::from_str::<UnkeyedRecord>(text) {
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

    /// Returns the list as JSON.
    ///
    /// # Errors
    /// None in practice: all fields have a form in JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Returns the members and joining nodes.
    pub fn members_and_joining(&self) -> impl Iterator<Item = (&NodeName, &Member)> {
        self.members.iter().chain(&self.joining)
    }

    /// Returns the entry of a node, member or joining.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.get(name).or_else(|| self.joining.get(name))
    }

    /// Returns true if the list has never contained a node other than `name`.
    pub fn never_had_other_than(&self, name: &str) -> bool {
        // A node joins, becomes a member or is removed only with a new epoch.
        self.epoch == FOUNDING_EPOCH && self.members_and_joining().all(|(member, _)| **member == *name)
    }

    /// Returns true if the nodes for which `has_vote` holds are a quorum, in each list that counts.
    pub fn is_quorum(&self, has_vote: impl Fn(&NodeName) -> bool, has_tie_breaker: bool) -> bool {
        self.lists().all(|(size, list)| {
            let votes = list.filter(|name| has_vote(name)).count();
            2 * votes > size || (2 * votes == size && has_tie_breaker)
        })
    }

    /// Returns true if the tie-breaking vote decides among the nodes for which `is_reachable` holds.
    pub fn is_tie(&self, is_reachable: impl Fn(&NodeName) -> bool) -> bool {
        self.lists()
            .any(|(size, list)| 2 * list.filter(|name| is_reachable(name)).count() == size)
    }

    /// Returns true if at least half of the nodes know no later list, in each list that counts. Then no node that this list
    /// does not name is a member by a later list. The joining nodes of this list may have become members. After that, a
    /// node becomes a member only when a majority of both lists together knows a later list: see [`Record::is_settled`].
    pub fn is_last_of_half(&self, knows_no_later: impl Fn(&NodeName) -> bool) -> bool {
        self.lists().all(|(size, list)| {
            let count = list.filter(|name| knows_no_later(name)).count();
            2 * count >= size
        })
    }

    /// Returns true if the nodes for which `is_settled` holds are a majority of the members without the
    /// tie-breaking vote.
    pub fn is_settled(&self, is_settled: impl Fn(&NodeName) -> bool) -> bool {
        2 * self.members.keys().filter(|name| is_settled(name)).count() > self.members.len()
    }

    /// Returns the list with a joining node, or with a node's new entry; `None` if the list is full.
    pub fn with(&self, name: &NodeName, member: Member) -> Option<Self> {
        if self.member(name).is_none() {
            let mut next = self.next_epoch();
            next.joining.insert(NodeName::clone(name), member);
            return (self.members_and_joining().count() < MEMBERS_MAX).then_some(next);
        }
        let mut next = self.clone();
        next.sequence += 1;
        let lists = [&mut next.members, &mut next.joining];
        for entry in lists.into_iter().filter_map(|list| list.get_mut(name)) {
            entry.clone_from(&member);
        }
        Some(next)
    }

    /// Returns the list with all joining nodes as members.
    pub fn with_joined(&self) -> Self {
        let mut next = self.next_epoch();
        let joined = std::mem::take(&mut next.joining);
        next.members.extend(joined);
        next
    }

    /// Returns the list without the nodes for which `is_gone` holds; `None` if no node remains.
    pub fn without(&self, is_gone: impl Fn(&NodeName) -> bool) -> Option<Self> {
        let mut next = self.next_epoch();
        next.members.retain(|name, _| !is_gone(name));
        next.joining.retain(|name, _| !is_gone(name));
        if next.members.is_empty() {
            next.members = std::mem::take(&mut next.joining);
        }
        (!next.members.is_empty()).then_some(next)
    }

    /// Returns the list with the tie-breaking vote at another holder, or renewed.
    pub fn with_tie_breaker(&self, holder: Option<&str>) -> Self {
        let renewal = self.sequence + 1;
        Self {
            sequence: renewal,
            tie_breaker: holder.map(|holder| TieBreaker {
                holder: holder.to_owned(),
                renewal,
            }),
            ..self.clone()
        }
    }

    fn next_epoch(&self) -> Self {
        Self {
            sequence: self.sequence + 1,
            epoch: self.epoch + 1,
            ..self.clone()
        }
    }

    /// Lists in which a majority is needed, with their sizes.
    fn lists(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = &NodeName>)> {
        let both = (!self.joining.is_empty()).then_some(self.joining.len());
        std::iter::once(0).chain(both).map(|joining| {
            let size = self.members.len() + joining;
            (size, self.members.keys().chain(self.joining.keys().take(joining)))
        })
    }
}
