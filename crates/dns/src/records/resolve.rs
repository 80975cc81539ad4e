//! From a query to the records of its answer, as the `kubernetes` plugin of CoreDNS 1.13 gives them
//! (with `pods insecure`, and `fallthrough` for the reverse zones).

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;

use super::Index;
use super::grammar::{self, Asked, Part};
use super::pod;
use super::reverse::{address_of_v4_name, address_of_v6_name};
use super::select::{Endpoints, Selection, select};
use super::service::{FactsKind, Label, Port};
use crate::wire::{Full, Name, NameRef, Reply, ResponseCode, Section, kind};

/// The DNS schema that the names follow (DNS-04).
const SCHEMA_VERSION: &str = "1.1.0";
/// Seconds for which the schema's version may be kept (DNS-04).
const SCHEMA_TTL_SECONDS: u32 = 28_800;
/// ExternalName Services that one answer may lead through. Ends loops among them.
const CHAIN_MAX: u8 = 8;
/// Where the question's name begins in every message.
const QUESTION_AT: u16 = 12;
/// `in-addr.arpa`.
const V4_ZONE: &[u8] = b"\x07in-addr\x04arpa\0";
/// `ip6.arpa`.
const V6_ZONE: &[u8] = b"\x03ip6\x04arpa\0";

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
    seen: HashSet<u64>,
    hasher: RandomState,
    turn: usize,
}

impl Scratch {
    fn is_new(&mut self, item: impl Hash) -> bool {
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
        let mut answering = Answering {
            index: self,
            zone_at,
            ttl: self.settings.ttl_seconds,
            reply,
            scratch,
        };
        let found = match cluster_at {
            Some(_) => answering.cluster(&name, query.kind),
            None => answering.reverse(&name, query.kind),
        };
        answering.conclude(found)
    }

    /// The zone's name servers, as labels in front of the zone with their addresses: the Services that
    /// this server is an endpoint of, or else the server itself (DNS-18).
    fn name_servers(&self) -> Vec<(Vec<u8>, IpAddr)> {
        let own = &self.settings.own_addresses;
        let mut servers = Vec::new();
        for address in own {
            let services: Vec<_> = self.endpoints.read(*address, |owners| {
                owners.iter().map(|owner| owner.service.clone()).collect()
            });
            for service in services {
                let below = |label: &[u8]| [label, service.labels(), b"\x03svc"].concat();
                self.with_entry(service.labels(), |entry| {
                    let Some(facts) = entry.and_then(|entry| entry.service.as_ref()) else {
                        return;
                    };
                    let cluster_ips = facts.cluster_ips().iter().map(|address| (below(&[]), *address));
                    servers.extend(cluster_ips);
                    if let (FactsKind::Headless, Some(entry)) = (&facts.kind, entry)
                        && let Selection::Endpoints(endpoints) = select(entry, Part::Whole)
                    {
                        let named = endpoints
                            .iter()
                            .map(|(_, e)| (below(e.label().as_wire()), e.address));
                        servers.extend(named);
                    }
                });
            }
        }
        if servers.is_empty() {
            servers.extend(own.iter().map(|address| (b"\x02ns\x03dns".to_vec(), *address)));
        }
        servers
    }
}

/// What was found.
enum Found {
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
struct Answering<'a, 'r, 'b> {
    index: &'a Index,
    /// Where the zone begins in the name asked for.
    zone_at: usize,
    ttl: u32,
    reply: &'r mut Reply<'b>,
    scratch: &'r mut Scratch,
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
            (kind::A | kind::AAAA, _) => self.addresses(name, asked, QUESTION_AT, 0),
            (kind::SRV, Asked::Service { key, at, part }) => self.services(key, at, part),
            (kind::CNAME, Asked::Service { key, part, .. }) => self.alias(key, part),
            _ => self.existence(asked),
        }
    }

    /// Whether a name exists, for types that it has no record of.
    fn existence(&self, asked: Asked<'_>) -> Found {
        let exists = match asked {
            Asked::Apex | Asked::Branch | Asked::NameServer => true,
            Asked::Version | Asked::Nothing => false,
            Asked::Namespace(label) => self.index.has_namespace(label),
            Asked::Pod { label, namespace } => {
                pod::address_of_label(label).is_some() && self.index.has_namespace(namespace)
            }
            Asked::Service { key, part, .. } => self.index.with_entry(key, |entry| {
                entry.is_some_and(|e| !matches!(select(e, part), Selection::Nothing))
            }),
        };
        if exists { Found::NoData } else { Found::NoName }
    }

    /// Answers A or AAAA for `name`, which stands at `owner` in the reply.
    fn addresses(&mut self, name: &Name, asked: Asked<'_>, owner: u16, chain: u8) -> Found {
        let owner = NameRef::At(owner);
        let one = |a: &mut Self, address: IpAddr| a.reply.address(Section::Answer, owner, a.ttl, address);
        match asked {
            Asked::Service { key, part, .. } => {
                let (index, mut target) = (self.index, Name::ROOT);
                let found = index.with_entry(key, |entry| match entry.map(|entry| select(entry, part)) {
                    None | Some(Selection::Nothing) => Some(Found::NoName),
                    Some(Selection::ClusterIps(addresses, _)) => {
                        let first = addresses.iter().copied().find(|address| self.wants(*address));
                        Some(first.map_or(Found::NoData, |first| self.all(|a| one(a, first))))
                    }
                    Some(Selection::Endpoints(endpoints)) => Some(self.endpoint_addresses(endpoints, owner)),
                    Some(Selection::External(name)) => target.push_wire(name).err().map(|_| Found::NoName),
                });
                // The alias is followed after the Service is unlocked, for it may lead to another one.
                found.unwrap_or_else(|| self.follow(name, &target, owner, chain))
            }
            Asked::Pod { label, namespace } => match pod::address_of_label(label) {
                Some(address) if self.index.has_namespace(namespace) && self.wants(address) => {
                    self.all(|a| one(a, address))
                }
                _ => self.existence(asked),
            },
            Asked::NameServer => {
                let servers = self.index.name_servers();
                let mut wanted = servers
                    .iter()
                    .map(|(_, address)| *address)
                    .filter(|a| self.wants(*a))
                    .peekable();
                if wanted.peek().is_none() {
                    return Found::NoData;
                }
                let wanted: Vec<_> = wanted.collect();
                self.all(|a| wanted.into_iter().try_for_each(|address| one(a, address)))
            }
            _ => self.existence(asked),
        }
    }

    /// Adds the alias of `name` and what is at its end. An alias that leads nowhere is left out.
    fn follow(&mut self, name: &Name, target: &Name, owner: NameRef<'_>, chain: u8) -> Found {
        let lower = target.to_lower();
        if lower.is_within(name) || chain >= CHAIN_MAX {
            return Found::NoData;
        }
        let Some(zone_at) = lower.suffix_offset(&self.index.settings.cluster_domain) else {
            let written = self.put_alias(owner, NameRef::Whole(target.as_wire()));
            return if written.is_some() {
                Found::External(Box::new(*target))
            } else {
                Found::Records
            };
        };
        let mark = self.reply.mark();
        let labels = target.as_wire().get(..zone_at).unwrap_or_default();
        let Some(at) = self.put_alias(owner, NameRef::below_question(labels, self.zone_at)) else {
            return Found::Records;
        };
        match self.addresses(&lower, grammar::read(&lower, zone_at), at, chain + 1) {
            found @ (Found::Records | Found::External(_)) => found,
            _ => {
                self.reply.rollback(mark);
                Found::NoData
            }
        }
    }

    fn endpoint_addresses(&mut self, endpoints: Endpoints<'_>, owner: NameRef<'_>) -> Found {
        self.scratch.seen.clear();
        let count = endpoints.iter().count();
        let mut found = Found::NoData;
        for (_, endpoint) in endpoints.iter_from(self.scratch.turn, count) {
            if !self.wants(endpoint.address) || !self.scratch.is_new(endpoint.address) {
                continue;
            }
            found = Found::Records;
            if self
                .reply
                .address(Section::Answer, owner, self.ttl, endpoint.address)
                .is_err()
            {
                self.reply.set_truncated();
                break;
            }
        }
        found
    }

    /// Answers SRV for a Service whose name begins at `at`.
    fn services(&mut self, key: &[u8], at: usize, part: Part<'_>) -> Found {
        let index = self.index;
        index.with_entry(key, |entry| match entry.map(|entry| select(entry, part)) {
            None | Some(Selection::Nothing) => Found::NoName,
            Some(Selection::External(_) | Selection::ClusterIps([], _)) => Found::NoData,
            Some(Selection::ClusterIps(addresses, ports)) => {
                let meant = ports.iter().filter(|port| part.admits(port));
                let weight = weight(meant.clone().count() * addresses.len());
                let found = self.cluster_ip_services(at, weight, meant);
                for address in addresses {
                    self.put_additional(NameRef::in_question(at), *address);
                }
                found
            }
            Some(Selection::Endpoints(endpoints)) => self.endpoint_services(at, part, endpoints),
        })
    }

    fn cluster_ip_services<'p>(
        &mut self,
        at: usize,
        weight: u16,
        ports: impl Iterator<Item = &'p Port>,
    ) -> Found {
        self.scratch.seen.clear();
        let target = self.spelled_below(&[], at);
        let mut found = Found::NoData;
        for number in ports.filter_map(|port| port.number) {
            if self.scratch.is_new(number) {
                found = Found::Records;
                if self
                    .reply
                    .srv(NameRef::QUESTION, self.ttl, weight, number, &target)
                    .is_err()
                {
                    self.reply.set_truncated();
                }
            }
        }
        found
    }

    fn endpoint_services(&mut self, at: usize, part: Part<'_>, endpoints: Endpoints<'_>) -> Found {
        let meant = |ports: &'_ [Port]| ports.iter().filter(|port| part.admits(port)).count();
        let weight = weight(endpoints.iter().map(|(slice, _)| meant(&slice.ports)).sum());
        let count = endpoints.iter().count();
        self.scratch.seen.clear();
        let mut found = Found::NoData;
        'records: for (slice, endpoint) in endpoints.iter_from(self.scratch.turn, count) {
            let label = endpoint.label();
            let ports = slice.ports.iter().filter(|port| part.admits(port));
            for number in ports.filter_map(|port| port.number) {
                if !self.scratch.is_new((label.as_wire(), number)) {
                    continue;
                }
                found = Found::Records;
                let target = self.spelled_below(label.as_wire(), at);
                if self
                    .reply
                    .srv(NameRef::QUESTION, self.ttl, weight, number, &target)
                    .is_err()
                {
                    self.reply.set_truncated();
                    break 'records;
                }
            }
        }
        if matches!(found, Found::Records) {
            self.scratch.seen.clear();
            for (slice, endpoint) in endpoints.iter_from(self.scratch.turn, count) {
                let label = endpoint.label();
                let has_port = slice
                    .ports
                    .iter()
                    .any(|port| port.number.is_some() && part.admits(port));
                if has_port && self.scratch.is_new((label.as_wire(), endpoint.address)) {
                    let owner = NameRef::below_question(label.as_wire(), at);
                    if !self.put_additional(owner, endpoint.address) {
                        break;
                    }
                }
            }
        }
        found
    }

    /// Answers CNAME.
    fn alias(&mut self, key: &[u8], part: Part<'_>) -> Found {
        let index = self.index;
        index.with_entry(key, |entry| match entry.map(|entry| select(entry, part)) {
            None | Some(Selection::Nothing) => Found::NoName,
            Some(Selection::External(target)) => {
                self.put_alias(NameRef::QUESTION, NameRef::Whole(target));
                Found::Records
            }
            Some(_) => Found::NoData,
        })
    }

    /// Answers for a name in a reverse zone. What has no name here may have one upstream.
    fn reverse(&mut self, name: &Name, kind: u16) -> Found {
        match kind {
            kind::AXFR | kind::IXFR => Found::Refused,
            kind::SOA if self.zone_at == 0 => self.all(|a| a.put_soa(Section::Answer)),
            kind::SOA | kind::TXT => Found::NoData,
            _ if self.zone_at == 0 => Found::NoData,
            kind::PTR => {
                let v4 =
                    address_of_v4_name(name, self.zone_at).filter(|_| is_zone(name, self.zone_at, V4_ZONE));
                let v6 =
                    address_of_v6_name(name, self.zone_at).filter(|_| is_zone(name, self.zone_at, V6_ZONE));
                v4.or(v6).map_or(Found::Elsewhere, |address| self.names(address))
            }
            _ => Found::Elsewhere,
        }
    }

    /// Answers PTR: the Service that has the address, else every endpoint that has it (DNS-07, DNS-11, DNS-19).
    fn names(&mut self, address: IpAddr) -> Found {
        let index = self.index;
        let zone = index.settings.cluster_domain.as_wire();
        let mut put = |label: &[u8], service: &[u8]| {
            let mut name = Name::ROOT;
            let whole = [label, service, b"\x03svc", zone]
                .into_iter()
                .try_for_each(|part| name.push_wire(part));
            let target = NameRef::Whole(name.as_wire());
            // A Service whose names would be too long for DNS has none.
            if whole.is_ok()
                && self
                    .reply
                    .target(Section::Answer, NameRef::QUESTION, kind::PTR, self.ttl, target)
                    .is_err()
            {
                self.reply.set_truncated();
            }
        };
        let is_service = index.cluster_ips.read(address, |owners| {
            owners
                .first()
                .map(|owner| put(&[], owner.service.labels()))
                .is_some()
        });
        if is_service {
            return Found::Records;
        }
        index.endpoints.read(address, |owners| {
            for owner in owners {
                let label = Label::of_endpoint(owner.hostname.as_deref(), address);
                put(label.as_wire(), owner.service.labels());
            }
            if owners.is_empty() {
                Found::Elsewhere
            } else {
                Found::Records
            }
        })
    }

    fn put_name_servers(&mut self) -> Found {
        let servers = self.index.name_servers();
        if servers.is_empty() {
            return Found::NoData;
        }
        let (zone_at, ttl) = (self.zone_at, self.ttl);
        self.scratch.seen.clear();
        let found = self.all(|a| {
            servers
                .iter()
                .filter(|(labels, _)| a.scratch.is_new(labels))
                .try_for_each(|(labels, _)| {
                    let target = NameRef::below_question(labels, zone_at);
                    a.reply
                        .target(Section::Answer, NameRef::QUESTION, kind::NS, ttl, target)
                        .map(|_| ())
                })
        });
        for (labels, address) in &servers {
            self.put_additional(NameRef::below_question(labels, zone_at), *address);
        }
        found
    }

    fn put_soa(&mut self, section: Section) -> Result<(), Full> {
        let serial = self.index.serial.load(std::sync::atomic::Ordering::Relaxed);
        self.reply.soa(section, self.zone_at, self.ttl, serial)
    }

    /// Adds a CNAME; returns where its target stands, or nothing if the reply is full.
    fn put_alias(&mut self, owner: NameRef<'_>, target: NameRef<'_>) -> Option<u16> {
        let written = self
            .reply
            .target(Section::Answer, owner, kind::CNAME, self.ttl, target);
        if written.is_err() {
            self.reply.set_truncated();
        }
        written.ok()
    }

    /// Adds an address that was not asked for; one that does not fit is left out without a word.
    fn put_additional(&mut self, owner: NameRef<'_>, address: IpAddr) -> bool {
        self.reply
            .address(Section::Additional, owner, self.ttl, address)
            .is_ok()
    }

    /// Records that must all be in the reply.
    fn all(&mut self, put: impl FnOnce(&mut Self) -> Result<(), Full>) -> Found {
        if put(self).is_err() {
            self.reply.set_truncated();
        }
        Found::Records
    }

    /// Labels in front of the part of the name asked for that begins at `at`, spelled as it was asked.
    fn spelled_below(&self, labels: &[u8], at: usize) -> Name {
        let mut name = Name::ROOT;
        let asked = self.reply.query().name.from_offset(at);
        match name.push_wire(labels).and_then(|()| name.push_wire(asked)) {
            Ok(()) => name,
            Err(_) => Name::ROOT,
        }
    }

    /// Whether an address is of the family asked for.
    fn wants(&self, address: IpAddr) -> bool {
        match self.reply.query().kind {
            kind::A => address.is_ipv4(),
            kind::AAAA => address.is_ipv6(),
            _ => false,
        }
    }
}

/// The weight of each of so many SRV records, which share 100 among them, each at least 1.
fn weight(records: usize) -> u16 {
    const SHARED: usize = 100;
    let each = SHARED.checked_div(records).unwrap_or(SHARED).max(1);
    u16::try_from(each).unwrap_or(1)
}

fn reverse_zone_offset(name: &Name) -> Option<usize> {
    let wire = name.as_wire();
    let zone = [V4_ZONE, V6_ZONE].into_iter().find(|zone| wire.ends_with(zone))?;
    let at = wire.len() - zone.len();
    // A label may end with the octets of a zone's name; only a label's start makes it a zone.
    name.labels().any(|(start, _)| start == at).then_some(at)
}

fn is_zone(name: &Name, at: usize, zone: &[u8]) -> bool {
    name.from_offset(at) == zone
}
