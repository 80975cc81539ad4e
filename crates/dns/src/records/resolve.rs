//! From a query to the records of its answer, as the `kubernetes` plugin of CoreDNS 1.13 gives them
//! (with `fallthrough` for the reverse zones).

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;

use super::grammar::{self, Asked};
use super::names::reverse_zone_offset;
use super::pod;
use super::select::Selection;
use super::{Index, PodNames};
use crate::wire::{Full, Name, NameRef, Reply, ResponseCode, Section, kind};

/// The DNS schema that the names follow (DNS-04).
pub(super) const SCHEMA_VERSION: &str = "1.1.0";
/// Seconds for which the schema's version may be kept (DNS-04).
pub(super) const SCHEMA_TTL_SECONDS: u32 = 28_800;

/// What is to be done with a reply after [`Index::resolve`].
#[derive(Debug)]
pub enum Resolution {
    /// It is complete, with this code.
    Complete(ResponseCode),
    /// The name is none of the cluster's: ask upstream.
    Elsewhere,
    /// It has the names up to this one, which is none of the cluster's: its addresses are to be added.
    External(Box<Name>),
}

/// What one thread keeps from query to query, so that answering does not allocate.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Hashes of what one section has already. They are keyed and have 64 bits: two different records
    /// of an answer are taken for one less than once in 10^12 answers of 5,000.
    pub(super) seen: HashSet<u64>,
    hasher: RandomState,
    /// Grows with every query.
    pub(super) turn: usize,
}

impl Scratch {
    /// Whether an item of this section is the first of its kind.
    pub(super) fn is_new(&mut self, item: impl Hash) -> bool {
        self.seen.insert(self.hasher.hash_one(item))
    }
}

impl Index {
    /// Writes the answer to the query of `reply`, as far as the cluster's records go.
    pub fn resolve(&self, reply: &mut Reply<'_>, scratch: &mut Scratch) -> Resolution {
        let query = reply.query();
        let name = query.name.to_lower();
        let cluster_at = name.suffix_offset(&self.settings.cluster_domain);
        let reverse_at = || reverse_zone_offset(&name);
        let Some(zone_at) = cluster_at.or_else(reverse_at) else {
            return Resolution::Elsewhere;
        };
        if !self.is_synced() {
            return Resolution::Complete(ResponseCode::ServerFailure);
        }
        scratch.turn = scratch.turn.wrapping_add(1);
        let mut answering = self.answering(zone_at, reply, scratch);
        let found = match cluster_at {
            Some(_) => answering.cluster(&name, query.kind),
            None => answering.reverse(&name, query.kind),
        };
        answering.conclude(found)
    }
}

impl Index {
    /// Writes that the name asked for, which is in the zone, is an alias of `target`, with the target's
    /// addresses. Nothing if the target does not exist.
    pub fn lead_to(&self, reply: &mut Reply<'_>, scratch: &mut Scratch, target: &Name) -> Option<Resolution> {
        let zone_at = reply
            .query()
            .name
            .to_lower()
            .suffix_offset(&self.settings.cluster_domain)?;
        let mut answering = self.answering(zone_at, reply, scratch);
        match answering.lead_to(target) {
            Found::NoName => None,
            found => Some(answering.conclude(found)),
        }
    }

    /// Writes that the name asked for, which is in the zone, does not exist.
    pub fn deny(&self, reply: &mut Reply<'_>, scratch: &mut Scratch) -> ResponseCode {
        let zone_at = reply
            .query()
            .name
            .to_lower()
            .suffix_offset(&self.settings.cluster_domain);
        let mut answering = self.answering(zone_at.unwrap_or(0), reply, scratch);
        answering.conclude(Found::NoName);
        ResponseCode::NameError
    }

    /// Whether an address may be given out as that of a Pod of a namespace (a label in wire form).
    pub(super) fn has_pod(&self, address: IpAddr, namespace: &[u8]) -> bool {
        match self.settings.pods {
            PodNames::Disabled => false,
            PodNames::Insecure => self.has_namespace(namespace),
            PodNames::Verified => {
                let is_served = !self.settings.only_known_namespaces || self.has_namespace(namespace);
                is_served && self.pods.has(address, namespace)
            }
        }
    }

    fn answering<'r, 'b>(
        &self,
        zone_at: usize,
        reply: &'r mut Reply<'b>,
        scratch: &'r mut Scratch,
    ) -> Answering<'_, 'r, 'b> {
        Answering {
            index: self,
            zone_at,
            ttl: self.settings.ttl_seconds,
            reply,
            scratch,
        }
    }

    fn has_no_pod_names(&self) -> bool {
        self.settings.pods == PodNames::Disabled
    }
}

/// What was found.
pub(super) enum Found {
    /// Records, which are in the reply (possibly not all of them, which the reply then says).
    Records,
    /// The name, but no record of the type.
    NoData,
    /// Not even the name.
    NoName,
    /// Something that is not given out.
    Refused,
    /// A name that others may know.
    Elsewhere,
    /// An alias of this name, which others may know.
    External(Box<Name>),
}

/// One query being answered.
pub(super) struct Answering<'a, 'r, 'b> {
    pub(super) index: &'a Index,
    /// Where the zone begins in the name asked for.
    pub(super) zone_at: usize,
    pub(super) ttl: u32,
    pub(super) reply: &'r mut Reply<'b>,
    pub(super) scratch: &'r mut Scratch,
}

impl Answering<'_, '_, '_> {
    fn conclude(&mut self, found: Found) -> Resolution {
        let code = match found {
            Found::Elsewhere => return Resolution::Elsewhere,
            Found::Refused => return Resolution::Complete(ResponseCode::Refused),
            Found::External(name) => {
                self.reply.set_authoritative();
                return Resolution::External(name);
            }
            Found::Records | Found::NoData => ResponseCode::NoError,
            Found::NoName => ResponseCode::NameError,
        };
        self.reply.set_authoritative();
        if !matches!(found, Found::Records) && self.put_soa(Section::Authority).is_err() {
            self.reply.set_truncated();
        }
        Resolution::Complete(code)
    }

    fn cluster(&mut self, name: &Name, kind: u16) -> Found {
        let asked = grammar::read(name, self.zone_at);
        match (kind, asked) {
            (kind::AXFR | kind::IXFR, _) => Found::Refused,
            (kind::SOA, Asked::Apex) => self.all(|a| a.put_soa(Section::Answer)),
            (kind::TXT, Asked::Version) => self.all(|a| {
                a.reply
                    .text(NameRef::QUESTION, SCHEMA_TTL_SECONDS, SCHEMA_VERSION)
            }),
            // CoreDNS does not ask whether the name exists for these two.
            (kind::SOA | kind::TXT, _) => Found::NoData,
            (kind::NS, Asked::Apex) => self.put_name_servers(),
            (kind::A | kind::AAAA, _) => self.addresses(name, asked, NameRef::QUESTION, 0),
            (kind::SRV, Asked::Service { key, at, part }) => self.services(key, at, part),
            (kind::CNAME, Asked::Service { key, part, .. }) => self.alias(key, part),
            _ => self.existence(asked),
        }
    }

    /// Whether a name exists, for types that it has no record of.
    pub(super) fn existence(&self, asked: Asked<'_>) -> Found {
        let exists = match asked {
            Asked::Branch(b"pod") | Asked::Namespace(_, b"pod") if self.index.has_no_pod_names() => false,
            Asked::Apex | Asked::Branch(_) | Asked::NameServer => true,
            Asked::Version | Asked::Nothing => false,
            Asked::Namespace(label, _) => self.index.has_namespace(label),
            Asked::Pod { label, namespace } => {
                pod::address_of_label(label).is_some_and(|address| self.index.has_pod(address, namespace))
            }
            Asked::Service { key, part, .. } => self
                .index
                .with_selection(key, part, |selection| !matches!(selection, Selection::Nothing)),
        };
        if exists { Found::NoData } else { Found::NoName }
    }

    pub(super) fn put_soa(&mut self, section: Section) -> Result<(), Full> {
        let serial = self.index.serial.load(std::sync::atomic::Ordering::Relaxed);
        self.reply.soa(section, self.zone_at, self.ttl, serial)
    }

    /// Adds an address that was not asked for; one that does not fit is left out without a word.
    pub(super) fn put_additional(&mut self, owner: NameRef<'_>, address: IpAddr) -> bool {
        self.reply
            .address(Section::Additional, owner, self.ttl, address)
            .is_ok()
    }

    /// Records that must all be in the reply.
    pub(super) fn all(&mut self, put: impl FnOnce(&mut Self) -> Result<(), Full>) -> Found {
        if put(self).is_err() {
            self.reply.set_truncated();
        }
        Found::Records
    }

    /// Whether an address is of the family asked for.
    pub(super) fn wants(&self, address: IpAddr) -> bool {
        match self.reply.query().kind {
            kind::A => address.is_ipv4(),
            kind::AAAA => address.is_ipv6(),
            _ => false,
        }
    }
}
