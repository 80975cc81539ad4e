use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::object::{EndpointSlice, ObjectKey, Protocol, Service};
use plan::{Plan, Settings};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const SYN_SENT: State = State::Tcp(TcpState::SynSent);
const ESTABLISHED: State = State::Tcp(TcpState::Established);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and port")
}

/// Returns a plan with Services `shop/web` (TCP 80, node port 30080), `shop/dns` (UDP 53) and an endpoint on the node.
fn plan() -> Plan {
    let mut plan = Plan::new(Settings {
        node_name: "node-a".to_owned(),
        node_addresses: vec!["192.0.2.10".parse().expect("an address")],
        ..Settings::default()
    });
    for (name, ip, protocol, port, node_port) in [
        ("web", "10.96.0.5", "TCP", 80, 30_080),
        ("dns", "10.96.0.10", "UDP", 53, 0),
        ("host", "10.96.0.11", "TCP", 443, 0),
    ] {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"type": "NodePort", "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"],
                "ports": [{"port": port, "protocol": protocol, "nodePort": node_port}]}}))
        .expect("a Service");
        plan.apply_service(&service);
    }
    for (name, addresses, protocol, port) in [
        ("web", vec!["10.244.1.2", "10.244.2.2"], "TCP", 8080),
        ("dns", vec!["10.244.1.3"], "UDP", 5353),
        ("host", vec!["192.0.2.10"], "TCP", 6443),
    ] {
        let endpoints: Vec<_> = addresses.iter().map(|ip| json!({"addresses": [ip]})).collect();
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "", "port": port, "protocol": protocol}], "endpoints": endpoints}))
        .expect("a slice");
        plan.apply_slice(&slice);
    }
    plan.take_changes();
    plan
}

fn attribution() -> Attribution {
    Attribution::of(&plan(), &Selection::All)
}

/// Returns an entry of a TCP connection to `shop/web`.
fn entry(id: u32, client: &str, endpoint: &str, state: State) -> Entry {
    Entry {
        id,
        zone: 0,
        protocol: Protocol::Tcp,
        original: Direction {
            source: at(client),
            destination: at("10.96.0.5:80"),
        },
        frontend: None,
        reply: Direction {
            source: at(endpoint),
            destination: at(client),
        },
        state,
        is_replied: state != SYN_SENT,
        bytes: Some([100, 1_000]),
        reply_packets: Some(u64::from(state != SYN_SENT)),
        expires_in: seconds(120),
        age: None,
    }
}

fn sample(tracker: &mut Tracker, at: Duration, entries: &[Entry]) {
    tracker.begin_sample(at);
    for entry in entries {
        tracker.observe(entry, &attribution());
    }
    tracker.end_sample();
}

fn report(tracker: &Tracker) -> NodeFlows {
    let rows = RowSelection {
        rows_max: 100,
        ..RowSelection::default()
    };
    tracker.report(&Limits::default(), &rows)
}

fn web(report: &NodeFlows) -> TrafficStatistics {
    let found = report.services.iter().find(|service| service.name == "web");
    found.map(|service| service.statistics).unwrap_or_default()
}

#[test]
fn attribution_has_frontend_and_endpoint() {
    let attribution = attribution();
    let mut node_port = entry(1, "203.0.113.9:4000", "10.244.1.2:8080", ESTABLISHED);
    node_port.original.destination = at("192.0.2.10:30080");
    let found = attribution.attribute(&node_port).expect("a Service");
    assert_eq!(found.frontend.kind, FrontendKind::NodePort);
    assert_eq!(found.frontend.service.to_string(), "shop/web");
    assert_eq!(found.endpoint, Some(at("10.244.1.2:8080")));
    for (destination, protocol) in [
        ("10.96.0.5:81", Protocol::Tcp),
        ("10.96.0.5:80", Protocol::Udp),
        ("203.0.113.1:30080", Protocol::Tcp),
        ("10.244.1.2:8080", Protocol::Tcp),
    ] {
        let mut other = node_port;
        other.original.destination = at(destination);
        other.protocol = protocol;
        assert_eq!(attribution.attribute(&other), None, "{destination}");
    }
}

/// The packets lead to the endpoint from the start, so only the socket of the client contains the frontend.
#[test]
fn connection_by_ebpf_has_frontend_and_endpoint() {
    let mut direct = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", ESTABLISHED);
    direct.original.destination = at("10.244.1.2:8080");
    assert_eq!(attribution().attribute(&direct), None);
    direct.frontend = Some(at("10.96.0.5:80"));
    let found = attribution().attribute(&direct).expect("a Service");
    assert_eq!(found.frontend.kind, FrontendKind::ClusterIp);
    assert_eq!(found.endpoint, Some(at("10.244.1.2:8080")));
}

/// A sample contains the frontend only while the socket is open, and the entry outlives it.
#[test]
fn connection_by_ebpf_keeps_its_frontend() {
    let mut tracker = Tracker::default();
    let mut direct = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", ESTABLISHED);
    direct.original.destination = at("10.244.1.2:8080");
    let known = Entry {
        frontend: Some(at("10.96.0.5:80")),
        ..direct
    };
    sample(&mut tracker, seconds(0), &[known]);
    sample(&mut tracker, seconds(1), &[direct]);
    let flows = report(&tracker).flows;
    assert_eq!(flows.len(), 1);
    assert_eq!(
        (flows[0].name.as_str(), flows[0].state.as_str()),
        ("web", "ESTABLISHED")
    );
}

#[test]
fn relayed_connection_has_no_endpoint() {
    let relayed = entry(1, "10.244.1.9:4000", "192.0.2.10:38111", ESTABLISHED);
    let found = attribution().attribute(&relayed).expect("a Service");
    assert_eq!(found.endpoint, None, "the proxy of the node answers");
    let mut accepted = relayed;
    accepted.reply.source = accepted.original.destination;
    assert_eq!(
        attribution().attribute(&accepted).expect("a Service").endpoint,
        None
    );
    let mut on_host = entry(1, "10.244.1.9:4000", "192.0.2.10:6443", ESTABLISHED);
    on_host.original.destination = at("10.96.0.11:443");
    let found = attribution().attribute(&on_host).expect("a Service");
    assert_eq!(
        found.endpoint,
        Some(at("192.0.2.10:6443")),
        "an endpoint on the node's network"
    );
}

#[test]
fn selection_limits_services() {
    let select = |selection| Attribution::of(&plan(), &selection).len();
    assert_eq!(select(Selection::All), 4);
    assert_eq!(select(Selection::Namespace("shop".to_owned())), 4);
    assert_eq!(select(Selection::Namespace("sho".to_owned())), 0);
    assert_eq!(select(Selection::Service(ObjectKey::new("shop", "web"))), 2);
}

#[test]
fn first_sample_counts_no_begin_and_no_bytes() {
    let mut tracker = Tracker::default();
    let open = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", ESTABLISHED);
    sample(&mut tracker, seconds(10), &[open]);
    let mut later = open;
    later.bytes = Some([150, 4_000]);
    let new = entry(2, "10.244.1.9:4001", "10.244.2.2:8080", ESTABLISHED);
    sample(&mut tracker, seconds(12), &[later, new]);
    let found = report(&tracker);
    assert_eq!(found.interval_seconds, 2.0);
    let expected = TrafficStatistics {
        open: 2,
        opened: 1,
        bytes_to_endpoints: 150,
        bytes_to_clients: 4_000,
        ..TrafficStatistics::default()
    };
    assert_eq!(web(&found), expected);
    tracker.begin_interval();
    sample(&mut tracker, seconds(13), &[later, new]);
    let expected = TrafficStatistics {
        open: 2,
        ..TrafficStatistics::default()
    };
    assert_eq!(web(&report(&tracker)), expected, "no event occurred");
}

#[test]
fn events_count_short_connections_with_their_bytes() {
    let mut tracker = Tracker::default();
    sample(&mut tracker, seconds(0), &[]);
    let begun = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", SYN_SENT);
    let attribution = attribution();
    tracker.started(&begun, &attribution, seconds(1));
    let mut over = entry(
        1,
        "10.244.1.9:4000",
        "10.244.1.2:8080",
        State::Tcp(TcpState::Close),
    );
    over.bytes = Some([500, 700]);
    tracker.ended(&over, seconds(1));
    sample(&mut tracker, seconds(1), &[]);
    let expected = TrafficStatistics {
        opened: 1,
        bytes_to_endpoints: 500,
        bytes_to_clients: 700,
        ..TrafficStatistics::default()
    };
    assert_eq!(web(&report(&tracker)), expected);
    assert_eq!(report(&tracker).flows[0].state, "ENDED");
}

#[test]
fn reset_after_syn_is_refused_and_expiry_is_not() {
    for (reply_packets, end_at, refused, expired) in [
        (Some(1), 1, 1, 0),
        (Some(0), 1, 0, 1),
        (None, 1, 1, 0),
        (None, 121, 0, 1),
        (Some(0), 121, 0, 1),
    ] {
        let mut tracker = Tracker::default();
        sample(&mut tracker, seconds(0), &[]);
        let begun = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", SYN_SENT);
        tracker.started(&begun, &attribution(), seconds(0));
        let mut over = begun;
        over.reply_packets = reply_packets;
        over.expires_in = Duration::ZERO;
        tracker.ended(&over, seconds(end_at));
        sample(&mut tracker, seconds(end_at), &[]);
        let found = web(&report(&tracker));
        assert_eq!(
            (found.refused, found.expired),
            (refused, expired),
            "{reply_packets:?} {end_at}"
        );
        assert_eq!(found.failed(), 1);
    }
}

#[test]
fn entry_without_end_event_ends_with_the_sample() {
    let mut tracker = Tracker::default();
    let waiting = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", SYN_SENT);
    sample(&mut tracker, seconds(0), &[waiting]);
    sample(&mut tracker, seconds(1), &[]);
    assert_eq!(
        web(&report(&tracker)).refused,
        1,
        "the entry left before its timeout"
    );
    tracker.begin_interval();
    sample(&mut tracker, seconds(2), &[]);
    assert_eq!(
        report(&tracker).services,
        [],
        "the next interval does not contain it"
    );
}

#[test]
fn unanswered_needs_a_second_without_reply() {
    let mut tracker = Tracker::default();
    let waiting = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", SYN_SENT);
    sample(&mut tracker, seconds(0), &[waiting]);
    sample(&mut tracker, Duration::from_millis(900), &[waiting]);
    assert_eq!(web(&report(&tracker)).unanswered, 0);
    sample(&mut tracker, seconds(1), &[waiting]);
    assert_eq!(web(&report(&tracker)).unanswered, 1);
    let mut known = entry(2, "10.244.1.9:4001", "10.244.1.2:8080", SYN_SENT);
    known.age = Some(seconds(3));
    sample(&mut tracker, seconds(1), &[known]);
    assert_eq!(web(&report(&tracker)).unanswered, 1, "the kernel knows the age");
}

#[test]
fn closed_connections_are_not_open() {
    let mut tracker = Tracker::default();
    for (state, open) in [
        (SYN_SENT, 0),
        (State::Tcp(TcpState::SynReceived), 1),
        (ESTABLISHED, 1),
        (State::Tcp(TcpState::FinWait), 1),
        (State::Tcp(TcpState::CloseWait), 1),
        (State::Tcp(TcpState::LastAck), 1),
        (State::Tcp(TcpState::TimeWait), 0),
        (State::Tcp(TcpState::Close), 0),
    ] {
        let found = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", state);
        sample(&mut tracker, seconds(1), &[found]);
        assert_eq!(web(&report(&tracker)).open, open, "{}", state.name());
    }
}

#[test]
fn limits_keep_the_busiest_rows_with_a_note() {
    let mut tracker = Tracker::default();
    let entries: Vec<Entry> = (0..30_u16)
        .map(|number| {
            let client = format!("10.244.1.{}:4000", number % 10);
            let endpoint = if number % 3 == 0 {
                "10.244.1.2:8080"
            } else {
                "10.244.2.2:8080"
            };
            let mut found = entry(u32::from(number), &client, endpoint, ESTABLISHED);
            found.original.source.set_port(5_000 + number);
            found
        })
        .collect();
    sample(&mut tracker, seconds(1), &entries);
    let limits = Limits {
        clients_per_service: 4,
        endpoints_per_service: 1,
        ..Limits::default()
    };
    let rows = RowSelection {
        rows_max: 2,
        clients: vec!["10.244.1.3/32".parse().expect("a CIDR")],
        protocol: Some(Protocol::Tcp),
    };
    let found = tracker.report(&limits, &rows);
    assert_eq!(found.truncated, ["endpoints", "clients", "flowRows"]);
    let service = &found.services[0];
    assert_eq!((service.clients.len(), service.clients_omitted), (4, 6));
    assert_eq!((service.endpoints.len(), service.endpoints_omitted), (1, 1));
    assert_eq!(service.endpoints[0].address, Some(at("10.244.2.2:8080")));
    assert_eq!(service.statistics.open, 30, "sums contain the omitted rows");
    assert_eq!(found.flows.len(), 2);
    assert!(
        found
            .flows
            .iter()
            .all(|flow| flow.client.ip() == at("10.244.1.3:1").ip())
    );
}

#[test]
fn report_reads_back_from_json() {
    let mut tracker = Tracker::default();
    sample(
        &mut tracker,
        seconds(1),
        &[entry(1, "10.244.1.9:4000", "10.244.1.2:8080", ESTABLISHED)],
    );
    let found = report(&tracker);
    let text = serde_json::to_string(&found).expect("JSON");
    assert_eq!(serde_json::from_str::<NodeFlows>(&text).expect("a report"), found);
    let sparse: NodeFlows = serde_json::from_str(r#"{"kind": "NodeFlows"}"#).expect("a report");
    assert!(sparse.services.is_empty() && sparse.events == Events::Off);
}

#[test]
fn merge_sums_nodes_and_names_addresses() {
    let mut tracker = Tracker::default();
    sample(&mut tracker, seconds(0), &[]);
    let entries = [
        entry(1, "10.244.1.9:4000", "10.244.1.2:8080", ESTABLISHED),
        entry(2, "203.0.113.9:4000", "10.244.2.2:8080", ESTABLISHED),
    ];
    sample(&mut tracker, seconds(2), &entries);
    let counting = NodeFlows {
        counts_bytes: true,
        ..report(&tracker)
    };
    let mut names = Names::default();
    names.add_node("node-a", ["192.0.2.10".parse().expect("an address")]);
    names.add_pod(
        "shop",
        "cart",
        "node-b",
        ["10.244.1.9", "192.0.2.10"].map(|ip| ip.parse().expect("an address")),
    );
    names.add_pod_range("10.244.0.0/16".parse().expect("a CIDR"));
    let results = vec![
        ("node-c".to_owned(), Err("timeout".to_owned())),
        ("node-b".to_owned(), Ok(report(&tracker))),
        ("node-a".to_owned(), Ok(counting)),
    ];
    let merged = ClusterTraffic::merge(results, &names);
    let states: Vec<(&str, bool)> = merged
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.error.is_some()))
        .collect();
    assert_eq!(states, [("node-a", false), ("node-b", false), ("node-c", true)]);
    let web = &merged.services[0];
    assert_eq!(
        (web.rates.connections, web.rates.connections_per_second),
        (4, 2.0)
    );
    assert_eq!(
        web.rates.bytes_to_clients_per_second,
        Some(1_000.0),
        "of the node that counts"
    );
    let clients: Vec<String> = web.clients.iter().map(|client| client.peer.to_string()).collect();
    assert_eq!(clients, ["pod/shop/cart", "external"]);
    assert_eq!(web.clients[0].endpoints[0].connections, 2);
    let endpoints: Vec<String> = web
        .endpoints
        .iter()
        .flat_map(|row| &row.peer)
        .map(Peer::to_string)
        .collect();
    assert_eq!(
        endpoints,
        ["pod, deleted", "pod, deleted"],
        "in the range, without a Pod"
    );
    assert_eq!(
        names.peer("192.0.2.10".parse().expect("an address")).kind,
        PeerKind::Node
    );
    assert_eq!(merged.flows.len(), 4);
    assert_eq!(merged.totals(), web.rates);
}

/// Action of the simulated kernel.
#[derive(Clone, Copy, Debug)]
enum Action {
    Begin {
        client: u8,
        endpoint: u8,
    },
    Reply {
        index: u8,
    },
    End {
        index: u8,
    },
    /// The reader drains the queue of events.
    Drain,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (any::<u8>(), 0..3_u8).prop_map(|(client, endpoint)| Action::Begin { client, endpoint }),
        3 => any::<u8>().prop_map(|index| Action::Reply { index }),
        3 => any::<u8>().prop_map(|index| Action::End { index }),
        1 => Just(Action::Drain),
    ]
}

/// Connection tracking of a simulated kernel, with its queue of events.
#[derive(Default)]
struct Kernel {
    live: BTreeMap<u32, Entry>,
    queue: VecDeque<(bool, Entry)>,
    ids: u32,
    begun: u64,
    refused: u64,
}

impl Kernel {
    fn nth(&self, index: u8) -> Option<u32> {
        let count = self.live.len().max(1);
        self.live.keys().nth(usize::from(index) % count).copied()
    }

    fn act(&mut self, action: Action, tracker: &mut Tracker) {
        match action {
            Action::Begin { client, endpoint } => {
                self.ids += 1;
                self.begun += 1;
                let client = format!("10.244.{client}.9:{}", self.ids);
                let mut begun = entry(self.ids, &client, &format!("10.244.1.{endpoint}:8080"), SYN_SENT);
                begun.bytes = Some([60, 0]);
                self.live.insert(self.ids, begun);
                self.queue.push_back((true, begun));
            }
            Action::Reply { index } => {
                if let Some(found) = self.nth(index).and_then(|id| self.live.get_mut(&id)) {
                    found.state = ESTABLISHED;
                    found.is_replied = true;
                    found.reply_packets = Some(1);
                    let [to_endpoint, to_client] = found.bytes.unwrap_or_default();
                    found.bytes = Some([to_endpoint + 10, to_client + 70]);
                }
            }
            Action::End { index } => {
                if let Some(mut over) = self.nth(index).and_then(|id| self.live.remove(&id)) {
                    if !over.is_replied {
                        over.reply_packets = Some(1);
                        self.refused += 1;
                    }
                    self.queue.push_back((false, over));
                }
            }
            Action::Drain => self.drain(tracker),
        }
    }

    fn drain(&mut self, tracker: &mut Tracker) {
        let attribution = attribution();
        for (is_begin, event) in self.queue.drain(..) {
            if is_begin {
                tracker.started(&event, &attribution, seconds(0));
            } else {
                tracker.ended(&event, seconds(0));
            }
        }
    }

    /// Lists the entries, with actions between the entries.
    fn dump(&mut self, during: &[Action], tracker: &mut Tracker) {
        let attribution = attribution();
        tracker.begin_sample(seconds(0));
        let listed: Vec<u32> = self.live.keys().copied().collect();
        let mut during = during.iter();
        for id in listed {
            if let Some(found) = self.live.get(&id) {
                tracker.observe(found, &attribution);
            }
            if let Some(action) = during.next() {
                let is_drain = matches!(action, Action::Drain);
                if !is_drain {
                    self.act(*action, tracker);
                }
            }
        }
        self.drain(tracker);
        tracker.end_sample();
    }
}

fn sums<'f>(statistics: impl Iterator<Item = &'f TrafficStatistics>) -> TrafficStatistics {
    statistics.fold(TrafficStatistics::default(), |mut sum, statistics| {
        sum.add(statistics);
        sum
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn connections_count_once(
        intervals in prop::collection::vec(
            (prop::collection::vec(action(), 0..40), prop::collection::vec(action(), 0..20)), 1..5)
    ) {
        let mut kernel = Kernel::default();
        let mut tracker = Tracker::default();
        kernel.dump(&[], &mut tracker);
        for (before, during) in intervals {
            tracker.begin_interval();
            (kernel.begun, kernel.refused) = (0, 0);
            for action in before {
                kernel.act(action, &mut tracker);
            }
            kernel.dump(&during, &mut tracker);
            let found = web(&report(&tracker));
            prop_assert_eq!(found.opened, kernel.begun);
            prop_assert_eq!(found.refused, kernel.refused);
            prop_assert_eq!(found.expired, 0);
            let flows = report(&tracker).flows;
            let live = flows.iter().filter(|flow| !["ENDED", "REFUSED"].contains(&flow.state.as_str()));
            let live: BTreeSet<SocketAddr> = live.map(|flow| flow.client).collect();
            let expected: BTreeSet<SocketAddr> = kernel.live.values().map(|entry| entry.original.source).collect();
            prop_assert!(flows.len() == 100 || live == expected);
        }
    }

    #[test]
    fn sums_of_parts_are_the_sum_of_the_service(actions in prop::collection::vec(action(), 0..120)) {
        let mut kernel = Kernel::default();
        let mut tracker = Tracker::default();
        kernel.dump(&[], &mut tracker);
        for action in actions {
            kernel.act(action, &mut tracker);
        }
        kernel.dump(&[], &mut tracker);
        let found = tracker.report(&Limits::default(), &RowSelection { rows_max: 1_000, ..RowSelection::default() });
        for service in &found.services {
            prop_assert_eq!(sums(service.endpoints.iter().map(|row| &row.statistics)), service.statistics);
            prop_assert_eq!(sums(service.clients.iter().map(|row| &row.statistics)), service.statistics);
            prop_assert_eq!(sums(service.frontends.iter().map(|row| &row.statistics)), service.statistics);
            let connections = service.clients.iter().flat_map(|client| &client.endpoints);
            prop_assert_eq!(connections.map(|row| row.connections).sum::<u64>(), service.statistics.open);
        }
        let of_services = sums(found.services.iter().map(|service| &service.statistics));
        prop_assert_eq!(sums(found.flows.iter().map(|flow| &flow.statistics)), of_services);
    }

    #[test]
    fn endpoint_of_entry_is_the_source_of_replies(client in any::<[u8; 4]>(), endpoint in any::<[u8; 4]>()) {
        let endpoint = SocketAddr::new(IpAddr::from(endpoint), 8080);
        let mut found = entry(1, "10.244.1.9:4000", "10.244.1.2:8080", ESTABLISHED);
        found.original.source.set_ip(IpAddr::from(client));
        found.reply.source = endpoint;
        let attributed = attribution().attribute(&found).expect("a Service");
        let is_own = endpoint.ip().is_loopback() || endpoint.ip() == at("192.0.2.10:1").ip();
        prop_assert_eq!(attributed.endpoint, Some(endpoint).filter(|_| !is_own));
    }
}
