//! Resolution of a query into the records of its answer, as in the `kubernetes` plugin of CoreDNS 1.13 (with
//! `fallthrough` for the reverse zones).

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;

use super::grammar::{self, QueryTarget};
use super::pod_label;
use super::reverse::reverse_zone_offset;
use super::selection::Selection;
use super::{Index, PodNames, ZoneKind};
use crate::wire::{Name, NameRef, Reply, ResponseCode, ResponseFull, Section, kind};

/// Version of the DNS schema (DNS-04).
pub(super) const SCHEMA_VERSION: &str = "1.1.0";
/// Version of the DNS schema of a set (KEP-1645).
const SET_SCHEMA_VERSION: &str = "1.0.0";
/// TTL of the schema version in seconds (DNS-04).
pub(super) const SCHEMA_TTL_SECONDS: u32 = 28_800;

/// Result of [`Index::resolve`].
#[derive(Debug)]
pub enum Resolution {
    /// The reply is complete, with this response code.
    Complete(ResponseCode),
    /// The name is outside of the zones: forward it.
    OutsideZone,
    /// The reply ends with an alias of this name, which is outside of the zones; its addresses are missing.
    External(Box<Name>),
}

/// State that a thread reuses for each query, so that resolution does not allocate.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Hashes of the records of the current section. They are keyed and have 64 bits: a collision drops a record
    /// less than once in 10^12 answers of 5,000 records.
    pub(super) seen: HashSet<u64>,
    /// Offsets of the targets of SRV records in the reply, by the hash of their labels.
    targets: HashMap<u64, u16>,
    hasher: RandomState,
    /// Counter of queries, which rotates the order of endpoints.
    pub(super) rotation: usize,
}

impl Scratch {
    /// Returns true if the section does not contain the item yet, and adds it.
    pub(super) fn is_new(&mut self, item: impl Hash) -> bool {
        self.seen.insert(self.hasher.hash_one(item))
    }

    /// Removes the offsets of all targets.
    pub(super) fn clear_targets(&mut self) {
        self.targets.clear();
    }

    /// Records the offset of the target of an SRV record, if a compression pointer can reach it.
    pub(super) fn record_target(&mut self, labels: &[u8], at: Option<u16>) {
        if let Some(at) = at {
            self.targets.insert(self.hasher.hash_one(labels), at);
        }
    }

    /// Returns the offset of the target with these labels.
    pub(super) fn target(&self, labels: &[u8]) -> Option<u16> {
        self.targets.get(&self.hasher.hash_one(labels)).copied()
    }
}

impl Index {
    /// Writes the records of the cluster that answer the query of `reply`.
    pub fn resolve(&self, reply: &mut Reply<'_>, scratch: &mut Scratch) -> Resolution {
        let query = reply.query();
        let name = query.name.to_lower();
        let cluster_at = name.suffix_offset(&self.settings.cluster_domain);
        // The zone of a set has no reverse zones: a derived Service has the clusterset IP in that of the cluster.
        let has_reverse_zones = self.settings.kind == ZoneKind::Cluster;
        let reverse_at = || reverse_zone_offset(&name).filter(|_| has_reverse_zones);
        let Some(zone_at) = cluster_at.or_else(reverse_at) else {
            return Resolution::OutsideZone;
        };
        if !self.is_synced() {
            return Resolution::Complete(ResponseCode::ServerFailure);
        }
        scratch.rotation = scratch.rotation.wrapping_add(1);
        let mut resolver = self.resolver(zone_at, reply, scratch);
        let result = match cluster_at {
            Some(_) => resolver.cluster(&name, query.kind),
            None => resolver.reverse(&name, query.kind),
        };
        resolver.finish(result)
    }
}

impl Index {
    /// Writes that the query name, which is in the zone, is an alias of `target`, with the addresses of the target.
    /// Returns `None` if the target does not exist.
    pub fn answer_with_alias(
        &self,
        reply: &mut Reply<'_>,
        scratch: &mut Scratch,
        target: &Name,
    ) -> Option<Resolution> {
        let zone_at = reply
            .query()
            .name
            .to_lower()
            .suffix_offset(&self.settings.cluster_domain)?;
        let mut resolver = self.resolver(zone_at, reply, scratch);
        match resolver.answer_with_alias(target) {
            LookupResult::NameError => None,
            result => Some(resolver.finish(result)),
        }
    }

    /// Writes the negative answer for the query name, which is in the zone.
    pub fn deny(&self, reply: &mut Reply<'_>, scratch: &mut Scratch) -> ResponseCode {
        let zone_at = reply
            .query()
            .name
            .to_lower()
            .suffix_offset(&self.settings.cluster_domain);
        let mut resolver = self.resolver(zone_at.unwrap_or(0), reply, scratch);
        resolver.finish(LookupResult::NameError);
        ResponseCode::NameError
    }

    /// Returns true if the Pod name of an address in a namespace (a label in wire form) exists.
    pub(super) fn has_pod(&self, address: IpAddr, namespace: &[u8]) -> bool {
        match self.settings.pods {
            PodNames::Disabled => false,
            PodNames::Insecure => self.has_namespace(namespace),
            PodNames::Verified => {
                let is_served = !self.settings.only_known_namespaces || self.has_namespace(namespace);
                is_served && self.pods.contains(address, namespace)
            }
        }
    }

    fn resolver<'r, 'b>(
        &self,
        zone_at: usize,
        reply: &'r mut Reply<'b>,
        scratch: &'r mut Scratch,
    ) -> Resolver<'_, 'r, 'b> {
        Resolver {
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

/// Result of a lookup.
pub(super) enum LookupResult {
    /// Records, which are in the reply; the reply is marked as truncated if some are missing.
    Records,
    /// The name exists without records of the type.
    NoData,
    /// The name does not exist.
    NameError,
    /// The server refuses the query.
    Refused,
    /// The name may exist at a resolver.
    OutsideZone,
    /// An alias of this name, which may exist at a resolver.
    External(Box<Name>),
}

/// The lookup of one query, which writes into its reply.
pub(super) struct Resolver<'a, 'r, 'b> {
    pub(super) index: &'a Index,
    /// Offset of the zone in the query name.
    pub(super) zone_at: usize,
    pub(super) ttl: u32,
    pub(super) reply: &'r mut Reply<'b>,
    pub(super) scratch: &'r mut Scratch,
}

impl Resolver<'_, '_, '_> {
    fn finish(&mut self, result: LookupResult) -> Resolution {
        let code = match result {
            LookupResult::OutsideZone => return Resolution::OutsideZone,
            LookupResult::Refused => return Resolution::Complete(ResponseCode::Refused),
            LookupResult::External(name) => {
                self.reply.set_authoritative();
                return Resolution::External(name);
            }
            LookupResult::Records | LookupResult::NoData => ResponseCode::NoError,
            LookupResult::NameError => ResponseCode::NameError,
        };
        self.reply.set_authoritative();
        if !matches!(result, LookupResult::Records) && self.put_soa(Section::Authority).is_err() {
            self.reply.set_truncated();
        }
        Resolution::Complete(code)
    }

    fn cluster(&mut self, name: &Name, kind: u16) -> LookupResult {
        let target = grammar::read(name, self.zone_at, self.index.settings.kind);
        match (kind, target) {
            (kind::AXFR | kind::IXFR, _) => LookupResult::Refused,
            (kind::SOA, QueryTarget::Apex) => self.all(|resolver| resolver.put_soa(Section::Answer)),
            (kind::TXT, QueryTarget::Version) => self.all(|resolver| {
                let version = match resolver.index.settings.kind {
                    ZoneKind::Cluster => SCHEMA_VERSION,
                    ZoneKind::ClusterSet => SET_SCHEMA_VERSION,
                };
                resolver
                    .reply
                    .text(NameRef::QUESTION, SCHEMA_TTL_SECONDS, version)
            }),
            // CoreDNS does not check the existence of the name for this type.
            (kind::SOA, _) => LookupResult::NoData,
            // As CoreDNS: names without records of their own do not exist for TXT, nor the name server for PTR (DNS-15).
            (kind::TXT, QueryTarget::Service { .. } | QueryTarget::Pod { .. }) => self.existence(target),
            (kind::TXT, _) | (kind::PTR, QueryTarget::NameServer) => LookupResult::NameError,
            (kind::NS, QueryTarget::Apex) => self.put_name_servers(),
            (kind::A | kind::AAAA, _) => self.addresses(name, target, NameRef::QUESTION, 0),
            (kind::SRV, QueryTarget::Service { key, at, part }) => self.services(key, at, part),
            (kind::SRV, QueryTarget::Pod { label, namespace }) => self.pod_location(label, namespace),
            (kind::CNAME, QueryTarget::Service { key, part, .. }) => self.alias(key, part),
            _ => self.existence(target),
        }
    }

    /// Checks the existence of a name, for types without records.
    pub(super) fn existence(&self, target: QueryTarget<'_>) -> LookupResult {
        let exists = match target {
            QueryTarget::Branch(b"pod") | QueryTarget::Namespace(_, b"pod")
                if self.index.has_no_pod_names() =>
            {
                false
            }
            QueryTarget::Apex | QueryTarget::Branch(_) | QueryTarget::NameServer => true,
            QueryTarget::Version | QueryTarget::Invalid => false,
            QueryTarget::Namespace(label, _) => self.index.has_namespace(label),
            QueryTarget::Pod { label, namespace } => pod_label::address_of_label(label)
                .is_some_and(|address| self.index.has_pod(address, namespace)),
            QueryTarget::Service { key, part, .. } => self
                .index
                .with_selection(key, part, |selection| !matches!(selection, Selection::Nothing)),
        };
        if exists {
            LookupResult::NoData
        } else {
            LookupResult::NameError
        }
    }

    pub(super) fn put_soa(&mut self, section: Section) -> Result<(), ResponseFull> {
        let serial = self.index.serial.load(std::sync::atomic::Ordering::Relaxed);
        self.reply.soa(section, self.zone_at, self.ttl, serial)
    }

    /// Adds an address to the additional section. As in CoreDNS (`Msg.Truncate` of miekg/dns), one that does not fit
    /// marks the reply as truncated.
    pub(super) fn put_additional(&mut self, owner: NameRef<'_>, address: IpAddr) -> bool {
        let written = self.reply.address(Section::Additional, owner, self.ttl, address);
        if written.is_err() {
            self.reply.set_truncated();
        }
        written.is_ok()
    }

    /// Writes records that the reply must contain completely.
    pub(super) fn all(&mut self, put: impl FnOnce(&mut Self) -> Result<(), ResponseFull>) -> LookupResult {
        if put(self).is_err() {
            self.reply.set_truncated();
        }
        LookupResult::Records
    }

    /// Returns true if an address has the family of the query type.
    pub(super) fn matches_query_type(&self, address: IpAddr) -> bool {
        match self.reply.query().kind {
            kind::A => address.is_ipv4(),
            kind::AAAA => address.is_ipv6(),
            _ => false,
        }
    }
}
