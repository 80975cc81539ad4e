//! Builder of rules, one expression at a time.
//!
//! The register layout lets keys of several maps overlap: client, cluster IP, protocol, port, index or number of an
//! endpoint, endpoint. The affinity key is fields one to four, the member key fields two to five.
//!
//! `nft` 1.0.6 aborts when it prints a lookup whose key is the result of another lookup. A rule therefore writes such a
//! result to the packet mark, loads it from there, and restores the mark. No other program sees the change.

use std::net::IpAddr;

use netlink::nftables::{
    Comparison, CtKey, Destination, DynsetOperation, Expression, FibAddress, MetaKey, PayloadBase, Register,
    Rejection, Rule, Verdict,
};
use netlink::tcp;
use plan::{EndpointSet, Family, PodDetection};

use super::layout::{Map, address_bytes};
use super::verdict_chain::{Choice, KeyLookup};

/// `RTN_LOCAL`: the address belongs to this node.
const RTN_LOCAL: u32 = 2;
/// `IPS_DST_NAT`: the destination of the connection was translated.
const IPS_DST_NAT: u32 = 1 << 5;
/// `IP_CT_DIR_REPLY` of `enum ip_conntrack_dir`.
const IP_CT_DIR_REPLY: u8 = 1;
/// Types of echo requests: `ICMP_ECHO` (RFC 792) and `ICMPV6_ECHO_REQUEST` (RFC 4443).
const ICMP_ECHO_REQUEST: u8 = 8;
const ICMPV6_ECHO_REQUEST: u8 = 128;
/// Bits of a verdict code that select the origins to masquerade.
pub(super) const MASQUERADE_BITS: u32 = 0b111;

/// `IFNAMSIZ`: a complete name is compared including its trailing zeros.
const INTERFACE_NAME_BYTES: usize = 16;

/// Seed of hashes. All nodes need the same number; its value is arbitrary.
const HASH_SEED: u32 = 0x706f_7274;

const START: Register = Register::at(0);

/// Builder of a rule for one or both IP families.
#[derive(Default)]
pub(super) struct RuleBuilder {
    expressions: Vec<Expression>,
}

/// Parameters of the expression that computes the index of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointIndex {
    /// Set of endpoints.
    pub set: EndpointSet,
    /// Number of indexes.
    pub count: u32,
    /// Choice of the index.
    pub choice: Choice,
}

/// Register that holds the packet mark while the mark shows the result of a lookup.
const SAVED_MARK: Register = Register::at(15);

/// Registers of the parts of keys.
struct Registers {
    client: Register,
    /// Address, protocol and port.
    service: Register,
    /// Index or number of an endpoint.
    number: Register,
    endpoint: Register,
    endpoint_port: Register,
}

impl Registers {
    fn of(family: Family) -> Self {
        let address = address_bytes(family);
        let service = START.plus(address);
        let number = service.plus(address + 8);
        let endpoint = number.plus(4);
        Self {
            client: START,
            service,
            number,
            endpoint,
            endpoint_port: endpoint.plus(address),
        }
    }
}

impl RuleBuilder {
    /// Starts a rule for both families.
    pub(super) fn any_family() -> Self {
        Self::default()
    }

    /// Starts a rule for packets of one family.
    pub(super) fn for_family(family: Family) -> Self {
        let number = match family {
            Family::V4 => libc::NFPROTO_IPV4,
            Family::V6 => libc::NFPROTO_IPV6,
        };
        Self::default()
            .load_meta(MetaKey::Family, START)
            .compare(START, Comparison::Equal, &[number as u8])
    }

    /// Returns the rule with a comment.
    pub(super) fn comment(self, comment: &str) -> Rule {
        Rule {
            expressions: self.expressions,
            comment: comment.to_owned(),
        }
    }

    /// Returns the rule.
    pub(super) fn finish(self) -> Rule {
        self.comment("")
    }

    /// Appends a verdict.
    pub(super) fn verdict(self, verdict: Verdict<String>) -> Self {
        self.push(Expression::Verdict(verdict))
    }

    /// Appends a goto to a chain.
    pub(super) fn goto(self, chain: &str) -> Self {
        self.verdict(Verdict::Goto(chain.to_owned()))
    }

    /// Matches TCP.
    pub(super) fn tcp(self) -> Self {
        self.load_meta(MetaKey::Protocol, START)
            .compare(START, Comparison::Equal, &[tcp::PROTOCOL])
    }

    /// Matches echo requests of one family.
    pub(super) fn match_ping(self, family: Family) -> Self {
        let (protocol, echo_request) = match family {
            Family::V4 => (libc::IPPROTO_ICMP, ICMP_ECHO_REQUEST),
            Family::V6 => (libc::IPPROTO_ICMPV6, ICMPV6_ECHO_REQUEST),
        };
        self.load_meta(MetaKey::Protocol, START)
            .compare(START, Comparison::Equal, &[protocol as u8])
            .push(Expression::Payload {
                base: PayloadBase::Transport,
                offset: 0,
                bytes: 1,
                into: START,
            })
            .compare(START, Comparison::Equal, &[echo_request])
    }

    /// Matches TCP segments that do not open a connection. A first segment has SYN, but neither ACK, RST nor FIN.
    pub(super) fn match_mid_stream_tcp(self) -> Self {
        self.tcp()
            .push(Expression::Payload {
                base: PayloadBase::Transport,
                offset: tcp::FLAGS_OFFSET,
                bytes: 1,
                into: START,
            })
            .push(Expression::Mask {
                from: START,
                into: START,
                mask: vec![tcp::FIN | tcp::SYN | tcp::RST | tcp::ACK],
            })
            .compare(START, Comparison::NotEqual, &[tcp::SYN])
    }

    /// Rejects the packet.
    pub(super) fn reject(self, rejection: Rejection) -> Self {
        self.push(Expression::Reject(rejection))
    }

    /// Masquerades the connection.
    pub(super) fn masquerade(self) -> Self {
        self.push(Expression::Masquerade)
    }

    /// Matches packets whose source, or destination, belongs to this node.
    pub(super) fn match_local(self, address: FibAddress) -> Self {
        self.push(Expression::FibType { address, into: START }).compare(
            START,
            Comparison::Equal,
            &RTN_LOCAL.to_ne_bytes(),
        )
    }

    /// Matches packets whose destination is not a loopback address.
    pub(super) fn exclude_loopback(self, family: Family) -> Self {
        let builder = self.load_destination(family, START);
        match family {
            Family::V4 => builder
                .push(Expression::Mask {
                    from: START,
                    into: START,
                    mask: vec![255, 0, 0, 0],
                })
                .compare(START, Comparison::NotEqual, &[127, 0, 0, 0]),
            Family::V6 => {
                let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
                builder.compare(START, Comparison::NotEqual, &loopback)
            }
        }
    }

    /// Matches packets of the server. A chain of type `nat` sees only those that answer the first packet of a client:
    /// resets and ICMP errors.
    pub(super) fn match_reply(self) -> Self {
        self.push(Expression::Ct {
            key: CtKey::Direction,
            into: START,
        })
        .compare(START, Comparison::Equal, &[IP_CT_DIR_REPLY])
    }

    /// Matches connections whose destination was translated.
    pub(super) fn match_dnat(self) -> Self {
        self.push(Expression::Ct {
            key: CtKey::Status,
            into: START,
        })
        .push(Expression::Mask {
            from: START,
            into: START,
            mask: IPS_DST_NAT.to_ne_bytes().to_vec(),
        })
        .compare(START, Comparison::NotEqual, &[0; 4])
    }

    /// Matches packets whose destination is in a set of addresses.
    pub(super) fn match_destination_in(self, map: Map, family: Family) -> Self {
        self.load_destination(family, START)
            .lookup(map.name(family), START, Destination::Found)
    }

    /// Matches packets whose source is in a set of addresses.
    fn match_source_in(self, map: Map, family: Family) -> Self {
        self.load_source(family, START)
            .lookup(map.name(family), START, Destination::Found)
    }

    /// Matches connections from Pods.
    pub(super) fn match_pods(self, family: Family, pods: &PodDetection) -> Self {
        match pods {
            PodDetection::Ranges(_) => self.match_source_in(Map::Pods, family),
            PodDetection::Interface(name) => {
                let mut padded = [0; INTERFACE_NAME_BYTES];
                for (slot, byte) in padded.iter_mut().zip(name.as_str().bytes()) {
                    *slot = byte;
                }
                self.load_meta(MetaKey::InputInterface, START)
                    .compare(START, Comparison::Equal, &padded)
            }
            PodDetection::InterfacePrefix(prefix) => self.load_meta(MetaKey::InputInterface, START).compare(
                START,
                Comparison::Equal,
                prefix.as_str().as_bytes(),
            ),
        }
    }

    /// Matches packets whose source and destination are the same endpoint on this node.
    pub(super) fn match_hairpin(self, family: Family) -> Self {
        let destination = START.plus(address_bytes(family));
        self.load_source(family, START)
            .load_destination(family, destination)
            .lookup(Map::Hairpin.name(family), START, Destination::Found)
    }

    /// Matches packets whose source is in none of the source ranges of the frontend.
    pub(super) fn match_outside_source_ranges(self, family: Family, key_lookup: KeyLookup) -> Self {
        let (loaded, source, map) = match key_lookup {
            KeyLookup::Ping => {
                let loaded = self.load_destination(family, START);
                (loaded, START.plus(address_bytes(family)), Map::PingSources)
            }
            KeyLookup::First | KeyLookup::Address | KeyLookup::NodePort | KeyLookup::Range => {
                let loaded = self.load_frontend(family, START);
                let map = match key_lookup {
                    KeyLookup::Range => Map::RangeSources,
                    _ => Map::SourceRanges,
                };
                (loaded, START.plus(address_bytes(family) + 8), map)
            }
        };
        loaded
            .load_source(family, source)
            .lookup(map.name(family), START, Destination::NotFound)
    }

    /// Applies the verdict for the destination address and port.
    pub(super) fn verdict_by_address(self, family: Family, verdict_map: &str) -> Self {
        self.load_frontend(family, START)
            .lookup(Map::Services.name(family), START, Destination::Register(START))
            .show_as_mark(START)
            .lookup(verdict_map, START, Destination::Verdict)
    }

    /// Applies the verdict for the port range with the destination.
    pub(super) fn verdict_by_range(self, family: Family, verdict_map: &str) -> Self {
        self.load_frontend(family, START)
            .lookup(Map::PortRanges.name(family), START, Destination::Register(START))
            .show_as_mark(START)
            .lookup(verdict_map, START, Destination::Verdict)
    }

    /// Applies the verdict for echo requests to the destination address.
    pub(super) fn verdict_by_ping(self, family: Family, verdict_map: &str) -> Self {
        self.load_destination(family, START)
            .lookup(Map::Pings.name(family), START, Destination::Register(START))
            .show_as_mark(START)
            .lookup(verdict_map, START, Destination::Verdict)
    }

    /// Applies the verdict for the destination port as a node port.
    pub(super) fn verdict_by_node_port(self, family: Family, verdict_map: &str) -> Self {
        self.load_node_port(START)
            .lookup(Map::NodePorts.name(family), START, Destination::Register(START))
            .show_as_mark(START)
            .lookup(verdict_map, START, Destination::Verdict)
    }

    /// Applies the masquerade verdict for the original destination of the connection.
    pub(super) fn masquerade_by_address(self, family: Family, masqueraded: &str) -> Self {
        self.masquerade_by(Map::Services, family, masqueraded)
    }

    /// Applies the masquerade verdict for the port range with the original destination of the connection.
    pub(super) fn masquerade_by_range(self, family: Family, masqueraded: &str) -> Self {
        self.masquerade_by(Map::PortRanges, family, masqueraded)
    }

    /// Matches connections whose original destination is in a set of addresses.
    pub(super) fn match_original_destination_in(self, map: Map, family: Family) -> Self {
        self.load_original_address(family, START)
            .lookup(map.name(family), START, Destination::Found)
    }

    fn masquerade_by(self, codes: Map, family: Family, masqueraded: &str) -> Self {
        let protocol = START.plus(address_bytes(family));
        self.load_original_address(family, START)
            .load_original_port(protocol)
            .lookup(codes.name(family), START, Destination::Register(START))
            .masquerade_by_code(masqueraded)
    }

    /// Applies the masquerade verdict for the original destination port as a node port.
    pub(super) fn masquerade_by_node_port(self, family: Family, masqueraded: &str) -> Self {
        self.load_original_port(START)
            .lookup(Map::NodePorts.name(family), START, Destination::Register(START))
            .masquerade_by_code(masqueraded)
    }

    /// Translates the destination to an endpoint of a set.
    pub(super) fn balance(self, family: Family, key_lookup: KeyLookup, number: EndpointIndex) -> Self {
        let endpoints = match number.set {
            EndpointSet::Cluster => Map::ClusterEndpoints,
            EndpointSet::Local => Map::LocalEndpoints,
        };
        self.load_service_key(family, key_lookup)
            .load_index(family, number)
            .load_endpoint(endpoints, family)
            .dnat(family, key_lookup)
    }

    /// Translates the destination to an address; the port stays.
    pub(super) fn translate_to(self, address: IpAddr) -> Self {
        let value = match address {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        self.push(Expression::Load { value, into: START })
            .push(Expression::Dnat {
                is_ipv6: address.is_ipv6(),
                address: START,
                port: None,
            })
    }

    /// Translates the destination to the endpoint that the client has affinity to, if that is still in the set.
    pub(super) fn reuse_affinity(
        self,
        family: Family,
        key_lookup: KeyLookup,
        set: EndpointSet,
        seconds: u32,
    ) -> Self {
        let registers = Registers::of(family);
        let number = Destination::Register(registers.number);
        self.load_service_key(family, key_lookup)
            .load_source(family, registers.client)
            .lookup(Map::Affinity.name(family), registers.client, number)
            .show_as_mark(registers.number)
            .load_endpoint(members(set), family)
            .update_affinity(family, DynsetOperation::Update, seconds)
            .dnat(family, key_lookup)
    }

    /// Translates the destination to an endpoint of a set and records the affinity. The element is deleted first,
    /// because adding alone would keep an element for an endpoint that has left.
    pub(super) fn balance_and_record(
        self,
        family: Family,
        key_lookup: KeyLookup,
        number: EndpointIndex,
        seconds: u32,
    ) -> Self {
        let registers = Registers::of(family);
        let numbers = match number.set {
            EndpointSet::Cluster => Map::ClusterNumbers,
            EndpointSet::Local => Map::LocalNumbers,
        };
        let found = Destination::Register(registers.number);
        self.load_service_key(family, key_lookup)
            .load_index(family, number)
            .load_source(family, registers.client)
            .lookup(numbers.name(family), registers.service, found)
            .show_as_mark(registers.number)
            .load_endpoint(members(number.set), family)
            .update_affinity(family, DynsetOperation::Delete, seconds)
            .update_affinity(family, DynsetOperation::Add, seconds)
            .dnat(family, key_lookup)
    }

    /// Loads the index of an endpoint.
    fn load_index(self, family: Family, number: EndpointIndex) -> Self {
        let into = Registers::of(family).number;
        let modulus = number.count;
        match number.choice {
            Choice::Random => self.push(Expression::Random { modulus, into }),
            Choice::RoundRobin(_) => self.push(Expression::Increment { modulus, into }),
            // The hash input uses the registers of index and endpoint, which are written later.
            Choice::Hash => self
                .load_source(family, into)
                .push(Expression::Payload {
                    base: PayloadBase::Transport,
                    offset: 0,
                    bytes: 2,
                    into: into.plus(address_bytes(family)),
                })
                .push(Expression::Hash {
                    from: into,
                    bytes: address_bytes(family) as u32 + 4,
                    modulus,
                    seed: HASH_SEED,
                    into,
                }),
            Choice::ClientHash => self.load_source(family, into).push(Expression::Hash {
                from: into,
                bytes: address_bytes(family) as u32,
                modulus,
                seed: HASH_SEED,
                into,
            }),
        }
    }

    /// Loads the endpoint of an index or number.
    fn load_endpoint(self, map: Map, family: Family) -> Self {
        let registers = Registers::of(family);
        let endpoint = Destination::Register(registers.endpoint);
        self.lookup(map.name(family), registers.service, endpoint)
    }

    /// Passes a register through the packet mark; both keep their values.
    fn show_as_mark(self, register: Register) -> Self {
        self.load_meta(MetaKey::Mark, SAVED_MARK)
            .push(Expression::SetMark { from: register })
            .load_meta(MetaKey::Mark, register)
            .push(Expression::SetMark { from: SAVED_MARK })
    }

    fn update_affinity(self, family: Family, operation: DynsetOperation, seconds: u32) -> Self {
        let registers = Registers::of(family);
        self.push(Expression::Dynset {
            set: Map::Affinity.name(family).to_owned(),
            operation,
            key: registers.client,
            data: registers.number,
            timeout_milliseconds: u64::from(seconds) * 1000,
        })
    }

    /// Translates the destination to the loaded endpoint. A port range keeps the port of the client.
    fn dnat(self, family: Family, key_lookup: KeyLookup) -> Self {
        let registers = Registers::of(family);
        self.push(Expression::Dnat {
            is_ipv6: family == Family::V6,
            address: registers.endpoint,
            port: (key_lookup != KeyLookup::Range).then_some(registers.endpoint_port),
        })
    }

    /// Loads the key of the Service port, which is its first frontend. A value from a map begins with a zero, which
    /// goes to the previous register. `nft` then shows the next fields as the destination of the packet.
    fn load_service_key(self, family: Family, key_lookup: KeyLookup) -> Self {
        let service = Registers::of(family).service;
        let protocol = service.plus(address_bytes(family));
        let before = Destination::Register(service.minus_one());
        let builder = self.load_frontend(family, service);
        match key_lookup {
            KeyLookup::First | KeyLookup::Ping => builder,
            KeyLookup::Range => builder.lookup(Map::ServiceOfRange.name(family), service, before),
            KeyLookup::Address => builder.lookup(Map::ServiceOfAddress.name(family), service, before),
            KeyLookup::NodePort => builder.lookup(Map::ServiceOfNodePort.name(family), protocol, before),
        }
    }

    /// Loads destination address, protocol and port.
    fn load_frontend(self, family: Family, at: Register) -> Self {
        self.load_destination(family, at)
            .load_node_port(at.plus(address_bytes(family)))
    }

    /// Loads protocol and destination port.
    fn load_node_port(self, at: Register) -> Self {
        self.load_meta(MetaKey::Protocol, at).push(Expression::Payload {
            base: PayloadBase::Transport,
            offset: 2,
            bytes: 2,
            into: at.plus(4),
        })
    }

    /// Loads the original destination address of the connection.
    fn load_original_address(self, family: Family, into: Register) -> Self {
        let key = match family {
            Family::V4 => CtKey::OriginalIpv4,
            Family::V6 => CtKey::OriginalIpv6,
        };
        self.push(Expression::Ct { key, into })
    }

    /// Loads protocol and original destination port of the connection.
    fn load_original_port(self, at: Register) -> Self {
        self.load_meta(MetaKey::Protocol, at).push(Expression::Ct {
            key: CtKey::OriginalPort,
            into: at.plus(4),
        })
    }

    fn masquerade_by_code(self, masqueraded: &str) -> Self {
        self.show_as_mark(START)
            .push(Expression::Mask {
                from: START,
                into: START,
                mask: MASQUERADE_BITS.to_ne_bytes().to_vec(),
            })
            .lookup(masqueraded, START, Destination::Verdict)
    }

    fn load_source(self, family: Family, into: Register) -> Self {
        let offset = match family {
            Family::V4 => 12,
            Family::V6 => 8,
        };
        self.load_network_header(family, offset, into)
    }

    fn load_destination(self, family: Family, into: Register) -> Self {
        let offset = match family {
            Family::V4 => 16,
            Family::V6 => 24,
        };
        self.load_network_header(family, offset, into)
    }

    fn load_network_header(self, family: Family, offset: u32, into: Register) -> Self {
        self.push(Expression::Payload {
            base: PayloadBase::Network,
            offset,
            bytes: address_bytes(family) as u32,
            into,
        })
    }

    fn load_meta(self, key: MetaKey, into: Register) -> Self {
        self.push(Expression::Meta { key, into })
    }

    fn compare(self, register: Register, comparison: Comparison, value: &[u8]) -> Self {
        self.push(Expression::Compare {
            register,
            comparison,
            value: value.to_vec(),
        })
    }

    fn lookup(self, set: &str, key: Register, into: Destination) -> Self {
        self.push(Expression::Lookup {
            set: set.to_owned(),
            key,
            into,
        })
    }

    fn push(mut self, expression: Expression) -> Self {
        self.expressions.push(expression);
        self
    }
}

fn members(set: EndpointSet) -> Map {
    match set {
        EndpointSet::Cluster => Map::ClusterMembers,
        EndpointSet::Local => Map::LocalMembers,
    }
}
