//! Authentication keys of the members' messages.
//!
//! Each process creates an X25519 key pair (RFC 7748) at startup and keeps the secret key in memory. The member list
//! holds the public key alongside the incarnation of the process. HKDF-SHA-256 (RFC 5869) derives one key per
//! direction from the shared secret of two processes. The key is bound to both names, both incarnations and the
//! cluster. Therefore a reader of the member list gets no key, and no member can forge messages of another one.
//! Messages from or to earlier processes fail authentication.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

use api::announcers::{Member, NodeName, Process, PublicKey, Record};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use x25519_dalek::StaticSecret;

use crate::protocol::message::{Key, Message, MessageError};

#[cfg(test)]
mod tests;

/// HKDF context; each version of the message format has its own.
const PURPOSE: &[u8] = b"portolan announcer 3";
const KEY_BYTES: usize = 32;

/// Secret key of a process. It never leaves the process.
pub struct SecretKey(StaticSecret);

impl SecretKey {
    /// Creates a secret key from random bytes.
    pub fn new(random: [u8; KEY_BYTES]) -> Self {
        Self(StaticSecret::from(random))
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519_dalek::PublicKey::from(&self.0).to_bytes())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

/// One side of a key agreement.
#[derive(Clone, Copy, Debug)]
struct AgreementSide<'a> {
    name: &'a str,
    incarnation: u64,
}

/// Keys that this process shares with the other members.
#[derive(Debug)]
pub struct Keyring {
    name: NodeName,
    incarnation: u64,
    secret: SecretKey,
    cluster: String,
    members: HashMap<NodeName, MemberKeys>,
}

/// Member with the keys of its messages.
#[derive(Debug)]
struct MemberKeys {
    member: Member,
    keys: Option<Keys>,
}

/// Keys of the two directions between two members.
#[derive(Debug)]
struct Keys {
    sending: Key,
    receiving: Key,
}

impl Keyring {
    /// Creates a keyring without members.
    pub fn new(name: NodeName, incarnation: u64, secret: SecretKey) -> Self {
        Self {
            name,
            incarnation,
            secret,
            cluster: String::new(),
            members: HashMap::new(),
        }
    }

    /// Derives the keys of all processes in the member list and drops all others.
    pub fn update(&mut self, record: Option<&Record>) {
        let Some(record) = record else {
            self.members.clear();
            return;
        };
        if self.cluster != record.cluster {
            self.cluster.clone_from(&record.cluster);
            self.members.clear();
        }
        self.members.retain(|name, _| record.member(name).is_some());
        for (name, member) in record.members_and_joining() {
            let is_known = self
                .members
                .get(name)
                .is_some_and(|entry| entry.member == *member);
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
                    "public key of a member rejected; its point has a low order"
                );
            }
            let entry = MemberKeys {
                member: member.clone(),
                keys,
            };
            self.members.insert(NodeName::clone(name), entry);
        }
    }

    /// Encodes and authenticates a message. Returns `None` if no key is shared with its receiver.
    pub fn seal(&self, message: &Message) -> Option<Vec<u8>> {
        let keys = self.members.get(&message.to)?.keys.as_ref()?;
        Some(message.encode(&keys.sending))
    }

    /// Authenticates and decodes a datagram from a source address.
    ///
    /// # Errors
    /// Returns an error if the sender is unknown, the source is not its recorded address, or the message is not
    /// authentic.
    pub fn open(&self, from: SocketAddr, bytes: &[u8]) -> Result<Message, MessageError> {
        let sender = Message::claimed_sender(bytes)?;
        let entry = self.members.get(&sender).ok_or(MessageError::UnknownSender)?;
        let recorded = entry.member.address;
        if (recorded.ip(), recorded.port()) != (from.ip(), from.port()) {
            return Err(MessageError::WrongSource {
                recorded,
                found: from,
            });
        }
        let keys = entry.keys.as_ref().ok_or(MessageError::UnknownSender)?;
        let message = Message::decode(bytes, &keys.receiving)?;
        let process = entry.member.process.as_ref().ok_or(MessageError::UnknownSender)?;
        // The key is bound to both already; other values are a bug of the sender.
        let is_consistent = message.to == self.name && message.incarnation == process.incarnation;
        is_consistent
            .then_some(message)
            .ok_or(MessageError::Authentication)
    }

    /// Derives the keys shared with a process. Returns `None` for a public key of low order, whose shared
    /// secret is public.
    fn keys(&self, name: &str, process: &Process) -> Option<Keys> {
        let public = x25519_dalek::PublicKey::from(process.public_key.0);
        let shared = self.secret.0.diffie_hellman(&public);
        if !shared.was_contributory() {
            return None;
        }
        let own_side = AgreementSide {
            name: &self.name,
            incarnation: self.incarnation,
        };
        let peer_side = AgreementSide {
            name,
            incarnation: process.incarnation,
        };
        let key = |from, to| derive_key(shared.as_bytes(), &self.cluster, from, to);
        Some(Keys {
            sending: key(own_side, peer_side)?,
            receiving: key(peer_side, own_side)?,
        })
    }
}

/// Length of a key, for its derivation.
struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

/// Derives the key of one direction.
fn derive_key(
    shared: &[u8; KEY_BYTES],
    cluster: &str,
    from: AgreementSide<'_>,
    to: AgreementSide<'_>,
) -> Option<Key> {
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
    // Expansion fails only for lengths beyond 255 hashes.
    material.expand(&info, KeyLength).ok()?.fill(&mut bytes).ok()?;
    Some(Key::new(&bytes))
}
