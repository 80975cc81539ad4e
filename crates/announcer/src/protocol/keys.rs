//! The keys that members' messages are authenticated with.
//!
//! Each process makes a key pair for X25519 (RFC 7748) when it starts, and keeps the secret half in memory. The public half
//! stands in the record of members, beside the process's incarnation. Two processes share the result of the key agreement;
//! HKDF-SHA-256 (RFC 5869) makes one key for each direction of it, with both names, both incarnations and the cluster. So
//! a reader of the record learns no key, no member can make a message of another one, and a message from or to an earlier
//! process never authenticates.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

use api::announcers::{Member, NodeName, Process, PublicKey, Record};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use x25519_dalek::StaticSecret;

use crate::protocol::message::{Key, Message, MessageError};

#[cfg(test)]
mod tests;

/// What keys are made for; another version of messages has another one.
const PURPOSE: &[u8] = b"portolan announcer 3";
const KEY_BYTES: usize = 32;

/// The secret half of a process's key pair. It never leaves the process.
pub struct Secret(StaticSecret);

impl Secret {
    /// The secret of these random bytes.
    pub fn new(random: [u8; KEY_BYTES]) -> Self {
        Self(StaticSecret::from(random))
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519_dalek::PublicKey::from(&self.0).to_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A process that makes or reads messages.
#[derive(Clone, Copy, Debug)]
struct End<'a> {
    name: &'a str,
    incarnation: u64,
}

/// The keys that this process shares with others.
#[derive(Debug)]
pub struct Keyring {
    name: NodeName,
    incarnation: u64,
    secret: Secret,
    cluster: String,
    pairs: HashMap<NodeName, Pair>,
}

#[derive(Debug)]
struct Pair {
    member: Member,
    keys: Option<Keys>,
}

#[derive(Debug)]
struct Keys {
    outward: Key,
    inward: Key,
}

impl Keyring {
    /// The keys of a process that knows nobody yet.
    pub fn new(name: NodeName, incarnation: u64, secret: Secret) -> Self {
        Self {
            name,
            incarnation,
            secret,
            cluster: String::new(),
            pairs: HashMap::new(),
        }
    }

    /// Shares keys with the processes that the record names, and with no others.
    pub fn follow(&mut self, record: Option<&Record>) {
        let Some(record) = record else {
            self.pairs.clear();
            return;
        };
        if self.cluster != record.cluster {
            self.cluster.clone_from(&record.cluster);
            self.pairs.clear();
        }
        self.pairs.retain(|name, _| record.member(name).is_some());
        for (name, member) in record.everybody() {
            let is_known = self.pairs.get(name).is_some_and(|pair| pair.member == *member);
            if is_known || *name == self.name {
                continue;
            }
            let keys = member
                .process
                .as_ref()
                .and_then(|process| self.keys(name, process));
            if member.process.is_some() && keys.is_none() {
                tracing::warn!(
                    node = &**name,
                    "the member's public key is refused: it is of low order"
                );
            }
            let pair = Pair {
                member: member.clone(),
                keys,
            };
            self.pairs.insert(NodeName::clone(name), pair);
        }
    }

    /// The bytes of a message to a member; `None` if no key is shared with it.
    pub fn seal(&self, message: &Message) -> Option<Vec<u8>> {
        let keys = self.pairs.get(&message.to)?.keys.as_ref()?;
        Some(message.encode(&keys.outward))
    }

    /// Reads a datagram that came from an address. What it says of its sender is true.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub fn open(&self, from: SocketAddr, bytes: &[u8]) -> Result<Message, MessageError> {
        let sender = Message::claimed_sender(bytes)?;
        let pair = self.pairs.get(&sender).ok_or(MessageError::Sender)?;
        let recorded = pair.member.address;
        if (recorded.ip(), recorded.port()) != (from.ip(), from.port()) {
            return Err(MessageError::Source {
                recorded,
                found: from,
            });
        }
        let keys = pair.keys.as_ref().ok_or(MessageError::Sender)?;
        let message = Message::decode(bytes, &keys.inward)?;
        let process = pair.member.process.as_ref().ok_or(MessageError::Sender)?;
        // The key says so already; a sender that says otherwise is broken.
        let is_consistent = message.to == self.name && message.incarnation == process.incarnation;
        is_consistent.then_some(message).ok_or(MessageError::Tag)
    }

    /// The keys that are shared with a process; `None` if its public key is of low order, so that everybody knows what
    /// comes of the agreement.
    fn keys(&self, name: &str, process: &Process) -> Option<Keys> {
        let public = x25519_dalek::PublicKey::from(process.public_key.0);
        let shared = self.secret.0.diffie_hellman(&public);
        if !shared.was_contributory() {
            return None;
        }
        let here = End {
            name: &self.name,
            incarnation: self.incarnation,
        };
        let there = End {
            name,
            incarnation: process.incarnation,
        };
        let key = |from, to| derive(shared.as_bytes(), &self.cluster, from, to);
        Some(Keys {
            outward: key(here, there)?,
            inward: key(there, here)?,
        })
    }
}

struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

/// The key of one direction.
fn derive(shared: &[u8; KEY_BYTES], cluster: &str, from: End<'_>, to: End<'_>) -> Option<Key> {
    let (lengths, numbers) = (
        [cluster.len(), from.name.len(), to.name.len()].map(|length| (length as u64).to_be_bytes()),
        [from.incarnation, to.incarnation].map(u64::to_be_bytes),
    );
    let info = [
        PURPOSE,
        &lengths[0],
        cluster.as_bytes(),
        &lengths[1],
        from.name.as_bytes(),
        &numbers[0],
        &lengths[2],
        to.name.as_bytes(),
        &numbers[1],
    ];
    let mut bytes = [0; KEY_BYTES];
    let material = Salt::new(HKDF_SHA256, &[]).extract(shared);
    // It fails for lengths beyond 255 hashes only.
    material.expand(&info, KeyLength).ok()?.fill(&mut bytes).ok()?;
    Some(Key::new(&bytes))
}
