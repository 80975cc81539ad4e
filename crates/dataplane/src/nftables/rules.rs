//! Rules written expression by expression.
//!
//! Registers are laid out so that keys of several maps overlap: client, cluster IP, protocol, port, an
//! endpoint's index or number, then the endpoint. An affinity's key is the first four, a member's key the second
//! to fifth.
//!
//! The `nft` program aborts (1.0.6) when it is to show a look-up whose key another look-up brought. So what a
//! look-up brings is shown as the packet's mark: set, loaded, and put back at once, in the same rule. Nobody
//! else sees it.

use netlink::nftables::{
    Comparison, CtKey, Destination, DynsetOperation, Expression, FibAddress, MetaKey, PayloadBase, Register,
    Rejection, Rule, Verdict,
};
use netlink::tcp;
use plan::{Family, PodDetection, Set};

use super::layout::{Map, address_bytes};
use super::treatment::{Choice, Entry};

/// `RTN_LOCAL`: the address is this node's own.
const RTN_LOCAL: u32 = 2;
/// `IPS_DST_NAT`: the connection's destination was rewritten.
const IPS_DST_NAT: u32 = 1 << 5;
/// Bits of a treatment's code that tell who is masqueraded.
pub const MASQUERADE_BITS: u32 = 0b111;

/// `IFNAMSIZ`: a whole name is compared with the zeros behind it.
const INTERFACE_NAME_BYTES: usize = 16;

/// What hashes begin with: any number does, and all nodes must have the same.
const HASH_SEED: u32 = 0x706f_7274;

const START: Register = Register::at(0);

/// A rule being written, for one family or both.
#[derive(Default)]
pub struct Writer {
    expressions: Vec<Expression>,
}

/// How the index of an endpoint comes about.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Of which set.
    pub set: Set,
    /// How many indexes there are.
    pub count: u32,
    /// How one is chosen.
    pub choice: Choice,
}

/// Where a packet's own mark is kept while the mark shows what a look-up brought.
const KEPT_MARK: Register = Register::at(15);

/// Where the parts of keys are.
struct Places {
    client: Register,
    /// Address, protocol and port.
    service: Register,
    /// An endpoint's index or number.
    number: Register,
    endpoint: Register,
    endpoint_port: Register,
}

impl Places {
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

impl Writer {
    /// A rule for both families.
    pub fn any() -> Self {
        Self::default()
    }

    /// A rule for packets of a family.
    pub fn of(family: Family) -> Self {
        let number = match family {
            Family::V4 => libc::NFPROTO_IPV4,
            Family::V6 => libc::NFPROTO_IPV6,
        };
        Self::default()
            .meta(MetaKey::Family, START)
            .compare(START, Comparison::Equal, &[number as u8])
    }

    /// With a comment, done.
    pub fn comment(self, comment: &str) -> Rule {
        Rule {
            expressions: self.expressions,
            comment: comment.to_owned(),
        }
    }

    /// Done.
    pub fn done(self) -> Rule {
        self.comment("")
    }

    /// Decides.
    pub fn verdict(self, verdict: Verdict<String>) -> Self {
        self.push(Expression::Verdict(verdict))
    }

    /// On with another chain for good.
    pub fn goto(self, chain: &str) -> Self {
        self.verdict(Verdict::Goto(chain.to_owned()))
    }

    /// Only TCP.
    pub fn tcp(self) -> Self {
        self.meta(MetaKey::Protocol, START)
            .compare(START, Comparison::Equal, &[tcp::PROTOCOL])
    }

    /// Only what is amid a TCP connection: its first packet alone has SYN, and neither ACK, RST nor FIN.
    pub fn only_amid_tcp(self) -> Self {
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

    /// Refuses.
    pub fn reject(self, rejection: Rejection) -> Self {
        self.push(Expression::Reject(rejection))
    }

    /// Masquerades.
    pub fn masquerade(self) -> Self {
        self.push(Expression::Masquerade)
    }

    /// Only if the source, or destination, is this node's own.
    pub fn only_local(self, address: FibAddress) -> Self {
        self.push(Expression::FibType { address, into: START }).compare(
            START,
            Comparison::Equal,
            &RTN_LOCAL.to_ne_bytes(),
        )
    }

    /// Only if the destination is no loopback address.
    pub fn only_off_loopback(self, family: Family) -> Self {
        let writer = self.destination(family, START);
        match family {
            Family::V4 => writer
                .push(Expression::Mask {
                    from: START,
                    into: START,
                    mask: vec![255, 0, 0, 0],
                })
                .compare(START, Comparison::NotEqual, &[127, 0, 0, 0]),
            Family::V6 => {
                let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
                writer.compare(START, Comparison::NotEqual, &loopback)
            }
        }
    }

    /// Only connections whose destination was rewritten.
    pub fn only_redirected(self) -> Self {
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

    /// Only if the destination is in a set of addresses.
    pub fn only_destination_in(self, map: Map, family: Family) -> Self {
        self.destination(family, START)
            .lookup(map.name(family), START, Destination::Found)
    }

    /// Only if the source is in a set of addresses.
    fn only_source_in(self, map: Map, family: Family) -> Self {
        self.source(family, START)
            .lookup(map.name(family), START, Destination::Found)
    }

    /// Only if the connection is a Pod's.
    pub fn only_from_pods(self, family: Family, pods: &PodDetection) -> Self {
        match pods {
            PodDetection::Ranges(_) => self.only_source_in(Map::Pods, family),
            PodDetection::Interface(name) => {
                let mut padded = [0; INTERFACE_NAME_BYTES];
                for (slot, byte) in padded.iter_mut().zip(name.as_str().bytes()) {
                    *slot = byte;
                }
                self.meta(MetaKey::InputInterface, START)
                    .compare(START, Comparison::Equal, &padded)
            }
            PodDetection::InterfacePrefix(prefix) => self.meta(MetaKey::InputInterface, START).compare(
                START,
                Comparison::Equal,
                prefix.as_str().as_bytes(),
            ),
        }
    }

    /// Only if source and destination are one endpoint on this node.
    pub fn only_hairpin(self, family: Family) -> Self {
        let destination = START.plus(address_bytes(family));
        self.source(family, START)
            .destination(family, destination)
            .lookup(Map::Hairpin.name(family), START, Destination::Found)
    }

    /// Only if the source is in none of the ranges that the frontend has.
    pub fn only_out_of_ranges(self, family: Family) -> Self {
        let source = START.plus(address_bytes(family) + 8);
        self.frontend(family, START).source(family, source).lookup(
            Map::SourceRanges.name(family),
            START,
            Destination::NotFound,
        )
    }

    /// The verdict of the treatment that the packet's destination has as a Service's address.
    pub fn treat_address(self, family: Family, treatments: &str) -> Self {
        self.frontend(family, START)
            .lookup(Map::Services.name(family), START, Destination::Register(START))
            .by_mark(START)
            .lookup(treatments, START, Destination::Verdict)
    }

    /// The verdict of the treatment that the packet's destination has as a node port.
    pub fn treat_node_port(self, family: Family, treatments: &str) -> Self {
        self.node_port(START)
            .lookup(Map::NodePorts.name(family), START, Destination::Register(START))
            .by_mark(START)
            .lookup(treatments, START, Destination::Verdict)
    }

    /// The verdict of the masquerading that the connection's first destination has as a Service's address.
    pub fn masquerade_by_address(self, family: Family, masqueraded: &str) -> Self {
        let (address, protocol) = (START, START.plus(address_bytes(family)));
        let key = match family {
            Family::V4 => CtKey::OriginalIpv4,
            Family::V6 => CtKey::OriginalIpv6,
        };
        self.push(Expression::Ct { key, into: address })
            .original_port(protocol)
            .lookup(Map::Services.name(family), START, Destination::Register(START))
            .masquerade_by_code(masqueraded)
    }

    /// The verdict of the masquerading that the connection's first destination has as a node port.
    pub fn masquerade_by_node_port(self, family: Family, masqueraded: &str) -> Self {
        self.original_port(START)
            .lookup(Map::NodePorts.name(family), START, Destination::Register(START))
            .masquerade_by_code(masqueraded)
    }

    /// Sends the connection to one of so many endpoints of a set.
    pub fn balance(self, family: Family, entry: Entry, number: Number) -> Self {
        let endpoints = match number.set {
            Set::Cluster => Map::ClusterEndpoints,
            Set::Local => Map::LocalEndpoints,
        };
        self.service(family, entry)
            .choose(family, number)
            .find(endpoints, family)
            .destine(family)
    }

    /// Sends the connection to the endpoint that the client is kept at, if it is still one of the set.
    pub fn keep(self, family: Family, entry: Entry, set: Set, seconds: u32) -> Self {
        let places = Places::of(family);
        let number = Destination::Register(places.number);
        self.service(family, entry)
            .source(family, places.client)
            .lookup(Map::Affinity.name(family), places.client, number)
            .by_mark(places.number)
            .find(members(set), family)
            .remember(family, DynsetOperation::Update, seconds)
            .destine(family)
    }

    /// Sends the connection to one of so many endpoints, and keeps the client there. An element for an endpoint
    /// that has left is replaced; adding alone would leave it.
    pub fn balance_and_keep(self, family: Family, entry: Entry, number: Number, seconds: u32) -> Self {
        let places = Places::of(family);
        let numbers = match number.set {
            Set::Cluster => Map::ClusterNumbers,
            Set::Local => Map::LocalNumbers,
        };
        let found = Destination::Register(places.number);
        self.service(family, entry)
            .choose(family, number)
            .source(family, places.client)
            .lookup(numbers.name(family), places.service, found)
            .by_mark(places.number)
            .find(members(number.set), family)
            .remember(family, DynsetOperation::Delete, seconds)
            .remember(family, DynsetOperation::Add, seconds)
            .destine(family)
    }

    /// Loads the index of an endpoint.
    fn choose(self, family: Family, number: Number) -> Self {
        let into = Places::of(family).number;
        let modulus = number.count;
        match number.choice {
            Choice::Random => self.push(Expression::Random { modulus, into }),
            Choice::InTurn(_) => self.push(Expression::InTurn { modulus, into }),
            // What is hashed stands where the index and the endpoint will be.
            Choice::Hash => self
                .source(family, into)
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
        }
    }

    /// Looks up the endpoint of an index or number.
    fn find(self, map: Map, family: Family) -> Self {
        let places = Places::of(family);
        let endpoint = Destination::Register(places.endpoint);
        self.lookup(map.name(family), places.service, endpoint)
    }

    /// Shows a register as the packet's mark, and leaves both as they were.
    fn by_mark(self, register: Register) -> Self {
        self.meta(MetaKey::Mark, KEPT_MARK)
            .push(Expression::SetMark { from: register })
            .meta(MetaKey::Mark, register)
            .push(Expression::SetMark { from: KEPT_MARK })
    }

    fn remember(self, family: Family, operation: DynsetOperation, seconds: u32) -> Self {
        let places = Places::of(family);
        self.push(Expression::Dynset {
            set: Map::Affinity.name(family).to_owned(),
            operation,
            key: places.client,
            data: places.number,
            timeout_ms: u64::from(seconds) * 1000,
        })
    }

    fn destine(self, family: Family) -> Self {
        let places = Places::of(family);
        self.push(Expression::Dnat {
            is_ipv6: family == Family::V6,
            address: places.endpoint,
            port: places.endpoint_port,
        })
    }

    /// Loads the key of the Service port, which is its first frontend. What a map brings begins with a zero,
    /// into the register before; nft goes on to show the packet's destination in the place of what follows.
    fn service(self, family: Family, entry: Entry) -> Self {
        let service = Places::of(family).service;
        let protocol = service.plus(address_bytes(family));
        let before = Destination::Register(service.minus_one());
        let writer = self.frontend(family, service);
        match entry {
            Entry::First => writer,
            Entry::Address => writer.lookup(Map::ServiceOfAddress.name(family), service, before),
            Entry::NodePort => writer.lookup(Map::ServiceOfNodePort.name(family), protocol, before),
        }
    }

    /// Loads destination address, protocol and port.
    fn frontend(self, family: Family, at: Register) -> Self {
        self.destination(family, at)
            .node_port(at.plus(address_bytes(family)))
    }

    /// Loads protocol and destination port.
    fn node_port(self, at: Register) -> Self {
        self.meta(MetaKey::Protocol, at).push(Expression::Payload {
            base: PayloadBase::Transport,
            offset: 2,
            bytes: 2,
            into: at.plus(4),
        })
    }

    /// Loads the connection's protocol and first destination port.
    fn original_port(self, at: Register) -> Self {
        self.meta(MetaKey::Protocol, at).push(Expression::Ct {
            key: CtKey::OriginalPort,
            into: at.plus(4),
        })
    }

    fn masquerade_by_code(self, masqueraded: &str) -> Self {
        self.by_mark(START)
            .push(Expression::Mask {
                from: START,
                into: START,
                mask: MASQUERADE_BITS.to_ne_bytes().to_vec(),
            })
            .lookup(masqueraded, START, Destination::Verdict)
    }

    fn source(self, family: Family, into: Register) -> Self {
        let offset = match family {
            Family::V4 => 12,
            Family::V6 => 8,
        };
        self.network(family, offset, into)
    }

    fn destination(self, family: Family, into: Register) -> Self {
        let offset = match family {
            Family::V4 => 16,
            Family::V6 => 24,
        };
        self.network(family, offset, into)
    }

    fn network(self, family: Family, offset: u32, into: Register) -> Self {
        self.push(Expression::Payload {
            base: PayloadBase::Network,
            offset,
            bytes: address_bytes(family) as u32,
            into,
        })
    }

    fn meta(self, key: MetaKey, into: Register) -> Self {
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

fn members(set: Set) -> Map {
    match set {
        Set::Cluster => Map::ClusterMembers,
        Set::Local => Map::LocalMembers,
    }
}
