use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use api::object::{EndpointSlice, Service};
use netlink::route::{Connection, Route};
use serde_json::json;

use super::*;

mod listeners;

const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const NODE: &str = "192.0.2.1";
const SERVICE: &str = "10.96.0.1:80";

/// A host that is node, client and endpoint, with a data plane and a Service `ns/a`.
struct TestHost {
    plan: Plan,
    dataplane: UserspaceDataplane,
}

impl TestHost {
    fn new(protocol: &str, annotations: serde_json::Value) -> Self {
        Self::with_options(protocol, annotations, Options::default())
    }

    fn with_options(protocol: &str, annotations: serde_json::Value, options: Options) -> Self {
        let mut connection = Connection::open().unwrap();
        let loopback = connection.link_index(&"lo".parse().unwrap()).unwrap();
        connection
            .add_address(loopback, format!("{NODE}/32").parse().unwrap())
            .unwrap();
        connection
            .add_route(&Route::on_link("10.96.0.0/16".parse().unwrap(), loopback))
            .unwrap();
        let mut plan = Plan::new(Settings {
            node_name: "node-a".to_owned(),
            service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
            node_addresses: vec![NODE.parse().unwrap()],
            ..Settings::default()
        });
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "a", "annotations": annotations},
            "spec": {
                "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
                "ports": [{"name": "p", "port": 80, "protocol": protocol}],
            },
        }))
        .unwrap();
        plan.apply_service(&service);
        Self {
            plan,
            dataplane: UserspaceDataplane::open(options).unwrap(),
        }
    }

    fn endpoints(&mut self, protocol: &str, endpoints: &[SocketAddr]) {
        let slices = endpoints.iter().enumerate().map(|(number, endpoint)| {
            json!({
                "metadata": {
                    "namespace": "ns", "name": format!("a-{number}"),
                    "labels": {"kubernetes.io/service-name": "a"},
                },
                "addressType": "IPv4",
                "ports": [{"name": "p", "port": endpoint.port(), "protocol": protocol}],
                "endpoints": [{"addresses": [endpoint.ip()]}],
            })
        });
        for number in 0..4 {
            self.plan
                .remove_slice(&ObjectKey::new("ns", &format!("a-{number}")));
        }
        for slice in slices {
            let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
            self.plan.apply_slice(&slice);
        }
        self.apply();
    }

    fn apply(&mut self) {
        let changes = self.plan.take_changes();
        let applied = self.dataplane.apply(&self.plan, &changes).unwrap();
        assert_eq!(applied.skipped, []);
    }
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect(SERVICE).unwrap();
    stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
    stream
}

/// Starts an endpoint that sends its address after the client's data, when the client has closed its side.
fn echo() -> SocketAddr {
    echo_after(b"")
}

/// Starts such an endpoint that sends a greeting first.
fn echo_after(greeting: &'static [u8]) -> SocketAddr {
    endpoint(move |mut stream, address| {
        stream.write_all(greeting).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        stream.write_all(&received).unwrap();
        stream.write_all(address.to_string().as_bytes()).unwrap();
    })
}

/// Starts an endpoint that echoes data at once.
fn echo_at_once() -> SocketAddr {
    endpoint(|mut stream, _| {
        let mut speaker = stream.try_clone().unwrap();
        std::io::copy(&mut stream, &mut speaker).unwrap();
    })
}

/// Starts an endpoint that handles each connection by `serve`, which receives its address.
fn endpoint(serve: impl Fn(TcpStream, SocketAddr) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream.unwrap(), address));
        }
    });
    address
}

/// Returns an address without a listener.
fn unused_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn received_from(mut stream: TcpStream, payload: &[u8]) -> Vec<u8> {
    thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        scope.spawn(move || {
            writer.write_all(payload).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    })
}

#[test]
fn directions_end_independently_without_loss() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let endpoint = echo();
        host.endpoints("TCP", &[endpoint]);
        // More than all buffers on the path hold.
        let payload: Vec<u8> = (0..8 << 20).map(|index: u32| (index % 251) as u8).collect();
        let received = received_from(connect(), &payload);
        let (echoed, address) = received.split_at(payload.len());
        assert!(echoed == payload, "the echoed bytes differ from the sent ones");
        assert_eq!(address, endpoint.to_string().as_bytes());
    });
}

#[test]
fn stream_alternates_between_bulk_and_sparse() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let endpoint = echo();
        host.endpoints("TCP", &[endpoint]);
        let much: Vec<u8> = (0..4 << 20).map(|index: u32| (index % 251) as u8).collect();
        let mut stream = connect();
        let mut sent = Vec::new();
        for _ in 0..3 {
            stream.write_all(&much).unwrap();
            sent.extend_from_slice(&much);
            for little in 0..64 {
                stream.write_all(&[little]).unwrap();
                sent.push(little);
                thread::sleep(Duration::from_millis(1));
            }
        }
        stream.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert!(
            received.starts_with(&sent),
            "the echoed bytes differ from the sent ones"
        );
        assert_eq!(received[sent.len()..], *endpoint.to_string().as_bytes());
    });
}

#[test]
fn sequential_connections_do_not_mix_data() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let one_who_ends_first = endpoint(|mut stream, _| {
            let mut received = [0; 8];
            stream.read_exact(&mut received).unwrap();
            stream.write_all(&received).unwrap();
        });
        let many = |first: u64| {
            for number in first..first + 200 {
                let payload = number.to_be_bytes();
                let mut stream = connect();
                stream.write_all(&payload).unwrap();
                let mut received = Vec::new();
                match number % 3 {
                    // The client closes first, or last, or aborts.
                    0 => received = received_from(stream, b""),
                    1 => drop(stream.read_to_end(&mut received).unwrap()),
                    _ => continue,
                }
                assert!(received.starts_with(&payload), "{received:?} for {payload:?}");
            }
        };
        for endpoint in [one_who_ends_first, echo()] {
            host.endpoints("TCP", &[endpoint]);
            if endpoint == one_who_ends_first {
                thread::scope(|scope| {
                    (0..4).for_each(|client| drop(scope.spawn(move || many(client << 32))))
                });
            }
            for number in 0..100_u64 {
                let received = received_from(connect(), &number.to_be_bytes());
                assert!(
                    received.starts_with(&number.to_be_bytes()),
                    "{received:?} for {number}"
                );
            }
        }
    });
}

#[test]
fn relays_data_after_urgent_data() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let endpoint = echo_after(b"!");
        host.endpoints("TCP", &[endpoint]);
        for _ in 0..20 {
            let mut stream = connect();
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"before").unwrap();
            socket2::SockRef::from(&stream).send_out_of_band(b"u").unwrap();
            assert_eq!(
                received_from(stream, b"behind"),
                format!("beforebehind{endpoint}").into_bytes()
            );
        }
    });
}

#[test]
fn aborted_response_resets_client() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let endpoint = endpoint(|mut stream, _| {
            let mut first = [0];
            stream.read_exact(&mut first).unwrap();
            if first == *b"e" {
                stream.read_to_end(&mut Vec::new()).unwrap();
            }
            stream.write_all(b"half of").unwrap();
            socket2::SockRef::from(&stream)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
        });
        host.endpoints("TCP", &[endpoint]);
        // The client has closed its side by then, or not.
        for payload in [b"w", b"e"].repeat(20) {
            let mut stream = connect();
            stream.write_all(payload).unwrap();
            if payload == b"e" {
                stream.shutdown(Shutdown::Write).unwrap();
            }
            let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    });
}

#[test]
fn aborted_request_resets_endpoint() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let (telling, receiver) = std::sync::mpsc::sync_channel(1);
        let endpoint = endpoint(move |mut stream, _| {
            stream.write_all(b"!").unwrap();
            let result = stream.read_to_end(&mut Vec::new());
            telling.send(result.map_err(|error| error.kind())).unwrap();
        });
        host.endpoints("TCP", &[endpoint]);
        for _ in 0..20 {
            let mut stream = connect();
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"half of").unwrap();
            socket2::SockRef::from(&stream)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            drop(stream);
            let result = receiver.recv_timeout(REPLY_TIMEOUT).unwrap();
            assert_eq!(result, Err(ErrorKind::ConnectionReset));
        }
    });
}

#[test]
fn unresponsive_endpoint_is_replaced() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({"service.portolan.dev/scheduler": "rr"}));
        let endpoint = echo();
        host.endpoints("TCP", &[unused_address(), endpoint, unused_address()]);
        for _ in 0..6 {
            assert_eq!(
                received_from(connect(), b"words"),
                format!("words{endpoint}").into_bytes()
            );
            assert_eq!(received_from(connect(), b""), endpoint.to_string().as_bytes());
        }
    });
}

#[test]
fn client_gets_reset_without_endpoint() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        host.endpoints("TCP", &[unused_address()]);
        let error = connect().read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn direct_connections_to_listener_are_reset() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        host.endpoints("TCP", &[echo()]);
        let listener = &host.dataplane.listeners[&ObjectKey::new("ns", "a")][0];
        let mut stream = TcpStream::connect(listener.address).unwrap();
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn open_connection_survives_removal_from_plan() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let endpoint = echo_after(b"!");
        host.endpoints("TCP", &[endpoint]);
        let mut stream = connect();
        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        host.endpoints("TCP", &[echo()]);
        host.plan.remove_service(&ObjectKey::new("ns", "a"));
        host.apply();
        assert!(host.dataplane.listeners.is_empty());
        assert_eq!(received_from(stream, b"b"), format!("ab{endpoint}").into_bytes());
    });
}

#[test]
fn connections_to_lost_endpoint_are_reset_and_others_continue() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        host.endpoints("TCP", &[echo_at_once()]);
        let mut client = connect();
        let exchange = |client: &mut TcpStream| {
            client.write_all(b"x")?;
            client.read_exact(&mut [0])
        };
        exchange(&mut client).unwrap();
        let of = |service: &str, address: &str| {
            HashSet::from([(ObjectKey::new("ns", service), address.parse().unwrap())])
        };
        for (service, address) in [("a", "127.0.0.2"), ("other", "127.0.0.1")] {
            host.dataplane.end_connections(&of(service, address));
            exchange(&mut client).unwrap();
        }
        host.dataplane.end_connections(&of("a", "127.0.0.1"));
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        testbed::wait_until("the count", REPLY_TIMEOUT, || {
            (host.dataplane.counts().reset_connections == 1).then_some(())
        });
    });
}

/// Opens a connection that an endpoint has accepted.
fn accepted() -> TcpStream {
    let mut client = connect();
    assert!(is_relayed(&mut client));
    client
}

/// Returns true if an endpoint that echoes at once replies.
fn is_relayed(client: &mut TcpStream) -> bool {
    client
        .write_all(b"x")
        .and_then(|()| client.read_exact(&mut [0]))
        .is_ok()
}

#[test]
fn connection_is_reset_at_its_maximum_age() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new(
            "TCP",
            json!({"service.portolan.dev/max-connection-age-seconds": "10"}),
        );
        host.endpoints("TCP", &[echo_at_once()]);
        assert!(host.dataplane.checks_ages);
        // The annotation permits no age as short as that of this test.
        let service = ObjectKey::new("ns", "a");
        host.dataplane.listeners[&service][0].age_limit.set(Some(1));
        let error = accepted().read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        testbed::wait_until("the count", REPLY_TIMEOUT, || {
            (host.dataplane.counts().aged_connections == 1).then_some(())
        });
        host.plan.remove_service(&service);
        host.apply();
        assert!(!host.dataplane.checks_ages);
    });
}

#[test]
fn connections_to_drained_endpoint_are_reset_and_others_continue() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({"service.portolan.dev/drain-seconds": "1"}));
        let endpoint = echo_at_once();
        host.endpoints("TCP", &[endpoint]);
        let mut client = accepted();
        let other_port = SocketAddr::new(endpoint.ip(), endpoint.port() ^ 1);
        let of = |service: &str, endpoint| HashSet::from([(ObjectKey::new("ns", service), endpoint)]);
        for others in [of("a", other_port), of("other", endpoint)] {
            assert!(host.dataplane.end_drained(&others));
            assert!(is_relayed(&mut client));
        }
        assert!(host.dataplane.end_drained(&of("a", endpoint)));
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        testbed::wait_until("the count", REPLY_TIMEOUT, || {
            (host.dataplane.counts().drained_connections == 1).then_some(())
        });
    });
}

#[test]
fn oldest_connections_are_reset_after_scale_out() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({"service.portolan.dev/rebalance-percent": "50"}));
        let endpoint = echo_at_once();
        host.endpoints("TCP", &[endpoint]);
        let mut clients: Vec<TcpStream> = (0..8).map(|_| accepted()).collect();
        host.endpoints("TCP", &[endpoint, echo_at_once()]);
        let service = ObjectKey::new("ns", "a");
        let ports = host.plan.ports_of(&service);
        let ports: BTreeSet<PortKey> = ports.map(|port| port.key.clone()).collect();
        assert!(host.dataplane.rebalance(&ports));
        testbed::wait_until("the count", REPLY_TIMEOUT, || {
            (host.dataplane.counts().rebalanced_connections == 4).then_some(())
        });
        let open: Vec<bool> = clients.iter_mut().map(is_relayed).collect();
        assert_eq!(open, [false, false, false, false, true, true, true, true]);
    });
}

#[test]
fn backlog_is_accepted_when_service_is_deleted() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        let endpoint = echo();
        host.endpoints("TCP", &[endpoint]);
        let streams: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
        host.plan.remove_service(&ObjectKey::new("ns", "a"));
        host.apply();
        for stream in streams {
            assert_eq!(received_from(stream, b""), endpoint.to_string().as_bytes());
        }
    });
}

#[test]
fn connection_without_permit_waits_for_another_to_end() {
    testbed::in_namespace(|| {
        let mut host = TestHost::with_options(
            "TCP",
            json!({}),
            Options {
                connections_max: 2,
                ..Options::default()
            },
        );
        let endpoint = echo_after(b"!");
        host.endpoints("TCP", &[endpoint]);
        let mut open: Vec<TcpStream> = (0..2).map(|_| connect()).collect();
        for stream in &mut open {
            stream.read_exact(&mut [0]).unwrap();
        }
        let waiting: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
        drop(open);
        for stream in waiting {
            assert_eq!(received_from(stream, b"a"), format!("!a{endpoint}").into_bytes());
        }
    });
}

#[test]
fn connection_above_the_share_of_its_client_is_reset() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        host.dataplane.permits = ConnectionPermits::with_shares(10, 10, 2);
        host.endpoints("TCP", &[echo_after(b"!")]);
        let mut open: Vec<TcpStream> = (0..2).map(|_| connect()).collect();
        for stream in &mut open {
            stream.read_exact(&mut [0]).unwrap();
        }
        let error = connect().read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let refusals = host.dataplane.counts().permit_refusals.unwrap();
        assert_eq!((refusals.client, refusals.service, refusals.process), (1, 0, 0));
        for stream in open {
            assert!(received_from(stream, b"a").starts_with(b"a"));
        }
    });
}

#[test]
fn long_lived_connections_spread_over_workers_without_loss() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({}));
        host.endpoints("TCP", &[echo_at_once()]);
        let send_and_receive = |stream: &mut TcpStream, word: u8| {
            stream.write_all(&[word]).unwrap();
            let mut received = [0];
            stream.read_exact(&mut received).unwrap();
            assert_eq!(received, [word]);
        };
        // Sequential connections: the same worker is idle each time and accepts all of them.
        let mut open: Vec<TcpStream> = (0..32)
            .map(|number| {
                let mut stream = connect();
                send_and_receive(&mut stream, number);
                stream
            })
            .collect();
        for round in 0..32 {
            for stream in &mut open {
                send_and_receive(stream, round);
            }
        }
        let deadline = Instant::now() + REPLY_TIMEOUT;
        loop {
            let loads = host.dataplane.workers.loads();
            assert_eq!(loads.len(), WORKERS);
            if loads.iter().sum::<usize>() == open.len() {
                assert!(loads.iter().all(|load| *load >= 8), "{loads:?}");
                break;
            }
            assert!(Instant::now() < deadline, "{loads:?}");
            thread::yield_now();
        }
        let payload: Vec<u8> = (0..1_u32 << 20).map(|number| (number % 251) as u8).collect();
        thread::scope(|scope| {
            for stream in open {
                scope.spawn(|| assert!(received_from(stream, &payload) == payload));
            }
        });
    });
}

#[test]
fn udp_flow_keeps_endpoint_until_it_leaves() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("UDP", json!({"service.portolan.dev/scheduler": "rr"}));
        let endpoints: [UdpSocket; 2] = std::array::from_fn(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [one, other] = [0, 1].map(|index: usize| endpoints[index].local_addr().unwrap());
        for socket in endpoints {
            thread::spawn(move || {
                let mut buffer = [0; 64];
                while let Ok((_, peer)) = socket.recv_from(&mut buffer) {
                    let name = socket.local_addr().unwrap().to_string();
                    socket.send_to(name.as_bytes(), peer).unwrap();
                }
            });
        }
        host.endpoints("UDP", &[one, other]);
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        client.connect(SERVICE).unwrap();
        client.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        let request = || {
            let mut buffer = [0; 64];
            client.send(b"?").unwrap();
            let bytes = client.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..bytes])
                .parse::<SocketAddr>()
                .unwrap()
        };
        let first = request();
        for _ in 0..5 {
            assert_eq!(request(), first);
        }
        let left = if first == one { other } else { one };
        host.endpoints("UDP", &[left]);
        assert_eq!(request(), left);
    });
}

/// Rules restrict the clients of a Service, for example to source ranges. They do not restrict the listener's own port.
#[test]
fn udp_listener_serves_no_client_that_bypasses_the_rules() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("UDP", json!({}));
        let endpoint = UdpSocket::bind("127.0.0.1:0").unwrap();
        endpoint.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        host.endpoints("UDP", &[endpoint.local_addr().unwrap()]);
        let mut listeners = host.dataplane.listeners.values().flatten();
        let listener = listeners.next().unwrap().address;
        let [direct, redirected] = [0, 1].map(|_| UdpSocket::bind((NODE, 0)).unwrap());
        direct.send_to(b"direct", listener).unwrap();
        redirected.send_to(b"redirected", SERVICE).unwrap();
        let mut buffer = [0; 64];
        let (bytes, _) = endpoint.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], b"redirected");
    });
}

#[test]
fn connection_to_port_range_keeps_client_address_and_survives_process() {
    testbed::in_namespace(|| {
        let mut host = TestHost::new("TCP", json!({"service.portolan.dev/port-ranges": "1024-65535"}));
        let mut connection = Connection::open().unwrap();
        let loopback = connection.link_index(&"lo".parse().unwrap()).unwrap();
        connection
            .add_address(loopback, "192.0.2.2/32".parse().unwrap())
            .unwrap();
        let listener = TcpListener::bind("192.0.2.2:0").unwrap();
        let endpoint = listener.local_addr().unwrap();
        host.endpoints("TCP", &[endpoint]);
        assert_eq!(host.dataplane.repair(&host.plan).unwrap(), 0);
        let mut client = TcpStream::connect(("10.96.0.1", endpoint.port())).unwrap();
        client.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        let (mut accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        drop(host);
        accepted.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
    });
}
