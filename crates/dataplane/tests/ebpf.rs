//! eBPF mode on one host. Clients are served while processes of the proxy are killed and replaced. After every
//! failure of eBPF, the rules of nftables apply.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use api::object::{EndpointSlice, ObjectKey, Service};
use dataplane::ebpf::{
    ClientConnections, ConnectionEvents, EbpfDataplane, EventError, Limits, Options, default_pins,
};
use dataplane::{ClientSocket, Dataplane};
use netlink::bpf::{BpfError, Hook, Instruction, Program};
use netlink::route::{Connection, LinkChange, Route};
use netlink::socket_diagnostics::SocketDiagnostics;
use plan::{Plan, Settings};
use serde_json::json;
use testbed::ControlGroup;

/// Frontend with endpoints.
const FRONTEND: &str = "10.96.0.1:80";
/// The same as an IPv6 address.
const MAPPED_FRONTEND: &str = "[::ffff:10.96.0.1]:80";
/// Frontend without endpoints.
const EMPTY_FRONTEND: &str = "10.96.0.2:80";
/// Endpoints that the plans alternate between.
const ENDPOINTS: [&[&str]; 2] = [&["10.244.0.1", "10.244.0.2"], &["10.244.0.2", "10.244.0.3"]];
/// An endpoint of former plans that those of `assert_falls_back` lack.
const FORMER_ENDPOINT: &str = "10.244.0.2";
const ENDPOINT_PORT: u16 = 8080;
/// Name of the control group.
const GROUP: &str = "clients";
/// Environment variable with the directory of the control group: the other test started this one as the writer.
const WRITER: &str = "PORTOLAN_TEST_WRITER";
/// Kills of the writer while clients connect.
const KILLS: u64 = 60;
/// Concurrent clients.
const CLIENTS: usize = 2;

/// Enters a control group with all endpoints in this network namespace, and returns its options.
fn set_up() -> Options {
    serve_endpoints();
    let group = match ControlGroup::create(&process(), GROUP) {
        Ok(group) => group,
        Err(error) => testbed::skip_inside(&format!("no control group for the test: {error}")),
    };
    group.enter().unwrap();
    Options {
        control_group: Some(group.path().to_owned()),
        ..Options::default()
    }
}

/// Serves all endpoints in the network namespace of the calling thread.
fn serve_endpoints() {
    let mut connection = Connection::open().unwrap();
    let loopback = connection.link_index(&"lo".parse().unwrap()).unwrap();
    connection.change_link(loopback, &LinkChange::up()).unwrap();
    connection
        .add_route(&Route::on_link("10.96.0.0/16".parse().unwrap(), loopback))
        .unwrap();
    let mut addresses: Vec<&str> = ENDPOINTS.concat();
    addresses.sort_unstable();
    addresses.dedup();
    for address in addresses {
        connection
            .add_address(loopback, format!("{address}/32").parse().unwrap())
            .unwrap();
        let listener = TcpListener::bind((address, ENDPOINT_PORT)).unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // A client that has disconnected reports the failure itself.
                stream.write_all(address.as_bytes()).ok();
            }
        });
    }
}

/// Returns the number of this network namespace, which no other test has.
fn process() -> String {
    let link = std::fs::read_link("/proc/self/ns/net").unwrap();
    let digits = link.to_str().unwrap().chars().filter(char::is_ascii_digit);
    digits.collect()
}

fn plan(endpoints: &[&str]) -> Plan {
    let mut plan = Plan::new(Settings::default());
    for (name, ip) in [("web", "10.96.0.1"), ("empty", "10.96.0.2")] {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name},
            "spec": {"clusterIP": ip, "ports": [{"port": 80}]},
        }))
        .unwrap();
        plan.apply_service(&service);
    }
    plan.apply_slice(&slice(endpoints));
    plan
}

fn slice(endpoints: &[&str]) -> EndpointSlice {
    let endpoints: Vec<_> = endpoints.iter().map(|ip| json!({"addresses": [ip]})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": ENDPOINT_PORT}], "endpoints": endpoints,
    }))
    .unwrap()
}

/// Opens a data plane and applies a plan. Without permission, the test is skipped.
fn applied(options: Options, plan: &mut Plan) -> EbpfDataplane {
    let mut dataplane = EbpfDataplane::open(options).unwrap();
    let changes = plan.take_changes();
    assert_eq!(dataplane.apply(plan, &changes).unwrap().skipped, []);
    if let Some(fault) = dataplane.fault()
        && (fault.contains("not permitted") || fault.contains("does not support"))
    {
        testbed::skip_inside(fault);
    }
    dataplane
}

/// Connects, and returns the address of the endpoint that answers. The peer is the frontend in any case.
fn request(frontend: &str) -> std::io::Result<String> {
    let frontend: SocketAddr = frontend.parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&frontend, Duration::from_secs(5))?;
    assert_eq!(stream.peer_addr()?, frontend);
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn assert_served() {
    assert!(ENDPOINTS.concat().contains(&&*request(FRONTEND).unwrap()));
    assert_eq!(
        request(EMPTY_FRONTEND).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
}

#[test]
fn clients_get_endpoints_when_they_connect() {
    testbed::in_namespace(|| {
        let mut plan = plan(ENDPOINTS[0]);
        let mut dataplane = applied(set_up(), &mut plan);
        assert_served();
        request(MAPPED_FRONTEND).unwrap();
        let counts = dataplane.connection_counts().unwrap();
        assert_eq!(counts[&ObjectKey::new("ns", "web")].accepted, 2);
        assert_eq!(counts[&ObjectKey::new("ns", "empty")].refused, 1);
        assert_eq!(dataplane.counts().connect.unwrap().frontends, 2);
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        plan.apply_slice(&slice(&["10.244.0.3"]));
        let changes = plan.take_changes();
        dataplane.apply(&plan, &changes).unwrap();
        assert_eq!(request(FRONTEND).unwrap(), "10.244.0.3");
        ControlGroup::remove_all(&process()).unwrap();
    });
}

/// `--ebpf-pods=false`: clients of another network namespace are left to nftables.
#[test]
fn only_clients_of_own_namespace_are_served() {
    testbed::in_namespace(|| {
        let options = Options {
            serves_pods: false,
            ..set_up()
        };
        let dataplane = applied(options, &mut plan(ENDPOINTS[0]));
        let pod = netlink::route::NetworkNamespace::create().unwrap();
        // Nothing leads to the frontend from there.
        pod.enter(|| request(FRONTEND).unwrap_err()).unwrap();
        let counts = |name| {
            let counts = dataplane.connection_counts().unwrap();
            counts[&ObjectKey::new("ns", name)]
        };
        assert_eq!(counts("web").accepted, 0);
        assert_served();
        assert_eq!(counts("web").accepted, 1);
        ControlGroup::remove_all(&process()).unwrap();
    });
}

/// Skips the test if the kernel does not destroy sockets.
fn require_destruction() {
    if let Err(error) = SocketDiagnostics::open().and_then(|mut diagnostics| diagnostics.probe()) {
        testbed::skip_inside(&error.to_string());
    }
}

fn error_of(stream: &TcpStream) -> Option<ErrorKind> {
    stream.take_error().unwrap().map(|error| error.kind())
}

/// Destroys the selected sockets, and compares their number.
fn destroy(
    dataplane: &mut EbpfDataplane,
    expected: usize,
    mut is_selected: impl FnMut(&ClientSocket) -> bool,
) {
    let (sender, receiver) = mpsc::channel();
    let done = Box::new(move |count: usize| sender.send(count).unwrap());
    dataplane.destroy_client_sockets(&mut is_selected, done).unwrap();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(expected));
}

#[test]
fn selected_sockets_of_clients_are_destroyed() {
    testbed::in_namespace(|| {
        let mut dataplane = applied(set_up(), &mut plan(ENDPOINTS[0]));
        require_destruction();
        let streams = [(); 2].map(|()| TcpStream::connect(FRONTEND).unwrap());
        let cookies = streams
            .each_ref()
            .map(|stream| rustix::net::sockopt::socket_cookie(stream).unwrap());
        let mut found = Vec::new();
        dataplane
            .client_sockets(&mut |socket| found.push((socket.cookie, socket.frontend)))
            .unwrap();
        let frontend: SocketAddr = FRONTEND.parse().unwrap();
        found.sort_unstable();
        let mut expected = cookies.map(|cookie| (cookie, frontend));
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert!(dataplane.counts().connect.unwrap().destroys_sockets);
        destroy(&mut dataplane, 1, |socket| socket.cookie == cookies[0]);
        assert_eq!(error_of(&streams[0]), Some(ErrorKind::ConnectionAborted));
        assert_eq!(error_of(&streams[1]), None);
        ControlGroup::remove_all(&process()).unwrap();
    });
}

#[test]
fn sockets_in_namespaces_of_pods_are_destroyed() {
    testbed::in_namespace(|| {
        let mut dataplane = applied(set_up(), &mut plan(&["10.244.0.1"]));
        require_destruction();
        let pod = netlink::route::NetworkNamespace::create().unwrap();
        let (sender, connected) = mpsc::channel();
        let (destroyed, receiver) = mpsc::channel::<()>();
        let work = move || {
            serve_endpoints();
            let stream = TcpStream::connect(FRONTEND).unwrap();
            sender.send(()).unwrap();
            receiver.recv().unwrap();
            error_of(&stream)
        };
        let client = thread::spawn(move || pod.enter(work).unwrap());
        connected.recv().unwrap();
        destroy(&mut dataplane, 1, |_| true);
        destroyed.send(()).unwrap();
        assert_eq!(client.join().unwrap(), Some(ErrorKind::ConnectionAborted));
        ControlGroup::remove_all(&process()).unwrap();
    });
}

/// Opens the reader of events. Without pins, the test is skipped.
fn events() -> ConnectionEvents {
    match ConnectionEvents::open(&default_pins()) {
        Ok(events) => events,
        Err(error @ EventError::NotPinned { .. }) => testbed::skip_inside(&error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn events_name_client_frontend_and_endpoint() {
    testbed::in_namespace(|| {
        let options = set_up();
        let group = options.control_group.clone().unwrap();
        let dataplane = applied(options, &mut plan(ENDPOINTS[0]));
        request(FRONTEND).unwrap();
        let mut reader = events();
        assert!(matches!(
            ConnectionEvents::open(&default_pins()),
            Err(EventError::InUse)
        ));
        let stream = TcpStream::connect(FRONTEND).unwrap();
        let cookie = rustix::net::sockopt::socket_cookie(&stream).unwrap();
        request(EMPTY_FRONTEND).unwrap_err();
        let mut found = Vec::new();
        reader.read(|event| found.push(*event));
        assert_eq!(found[0].socket_cookie, cookie);
        let endpoint = found[0].endpoint.unwrap();
        assert!(ENDPOINTS[0].contains(&&*endpoint.ip().to_string()), "{endpoint}");
        let frontends: Vec<String> = found.iter().map(|event| event.frontend.to_string()).collect();
        assert_eq!(frontends, [FRONTEND, EMPTY_FRONTEND]);
        assert_eq!(found[1].endpoint, None);
        let namespace = netlink::bpf::namespace_cookie().unwrap();
        let inode = std::fs::metadata(group).unwrap().ino();
        for event in &found {
            assert_eq!((event.namespace_cookie, event.control_group), (namespace, inode));
            assert!(event.at <= netlink::clock::since_boot());
        }
        assert_eq!(dataplane.counts().connect.unwrap().lost_events, Some(0));
        ControlGroup::remove_all(&process()).unwrap();
    });
}

#[test]
fn open_connections_have_their_frontends() {
    testbed::in_namespace(|| {
        let _dataplane = applied(set_up(), &mut plan(ENDPOINTS[0]));
        // Skips the test without pins.
        drop(events());
        let connections = ClientConnections::new(&default_pins()).unwrap();
        let stream = TcpStream::connect(FRONTEND).unwrap();
        let found: Vec<_> = connections.read().unwrap().into_iter().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        let ((client, endpoint), frontend) = found[0];
        assert_eq!(client, stream.local_addr().unwrap());
        assert!(ENDPOINTS[0].contains(&&*endpoint.ip().to_string()), "{endpoint}");
        assert_eq!(frontend, FRONTEND.parse().unwrap());
        drop(stream);
        assert!(connections.read().unwrap().is_empty());
        ControlGroup::remove_all(&process()).unwrap();
    });
}

#[test]
fn events_without_room_are_counted_as_lost() {
    const CONNECTIONS: usize = 2_800;
    testbed::in_namespace(|| {
        let dataplane = applied(set_up(), &mut plan(ENDPOINTS[0]));
        let mut reader = events();
        for count in 0..CONNECTIONS {
            if count % 100 == 0 {
                reader.request().unwrap();
            }
            request(EMPTY_FRONTEND).unwrap_err();
        }
        let mut read = 0;
        reader.read(|_| read += 1);
        let lost = dataplane.counts().connect.unwrap().lost_events.unwrap();
        assert!(lost > 0);
        assert_eq!(read + lost, CONNECTIONS as u64);
        // There is room again.
        request(EMPTY_FRONTEND).unwrap_err();
        reader.read(|_| read += 1);
        assert_eq!(read + lost, CONNECTIONS as u64 + 1);
        ControlGroup::remove_all(&process()).unwrap();
    });
}

/// A process of an earlier version pinned no maps for events.
#[test]
fn missing_maps_of_events_are_added_in_place() {
    testbed::in_namespace(|| {
        let options = set_up();
        drop(applied(options.clone(), &mut plan(ENDPOINTS[0])));
        drop(events());
        let stream = TcpStream::connect(FRONTEND).unwrap();
        let pins = default_pins().join(format!("net-{}", process())).join("v1");
        for name in ["events", "event_requests", "event_losses"] {
            std::fs::remove_file(pins.join(name)).unwrap();
        }
        let dataplane = applied(options, &mut plan(ENDPOINTS[0]));
        assert_eq!(dataplane.fault(), None);
        let mut reader = events();
        assert_served();
        let mut count = 0;
        reader.read(|_| count += 1);
        assert_eq!(count, 2);
        let counts = dataplane.connection_counts().unwrap();
        assert_eq!(counts[&ObjectKey::new("ns", "web")].accepted, 2);
        assert_eq!(stream.peer_addr().unwrap(), FRONTEND.parse().unwrap());
        ControlGroup::remove_all(&process()).unwrap();
    });
}

#[test]
fn nftables_serves_without_a_control_group() {
    testbed::in_namespace(|| {
        let options = Options {
            control_group: Some("/does/not/exist".into()),
            ..set_up()
        };
        assert_falls_back(options, "/does/not/exist");
    });
}

#[test]
fn nftables_serves_after_a_rejected_program() {
    testbed::in_namespace(|| {
        let options = Options {
            load: |hook: Hook, instructions: &[Instruction]| {
                Program::load(hook, &instructions[..instructions.len() - 1])
            },
            ..set_up()
        };
        assert_falls_back(options, "verifier");
    });
}

/// A lockdown refuses bpf(2) as missing capabilities do.
#[test]
fn nftables_serves_under_a_kernel_lockdown() {
    testbed::in_namespace(|| {
        let options = set_up();
        // Skips the test where eBPF is not permitted for another reason.
        drop(applied(options.clone(), &mut plan(ENDPOINTS[0])));
        let mut plan = plan(&["10.244.0.3", "10.244.0.1"]);
        let mut dataplane = EbpfDataplane::open(Options {
            load: |_: Hook, _: &[Instruction]| {
                let operation = "loading an eBPF program";
                Err(BpfError::NotPermitted { operation })
            },
            ..options
        })
        .unwrap();
        let changes = plan.take_changes();
        assert_eq!(dataplane.apply(&plan, &changes).unwrap().skipped, []);
        assert_fell_back(&dataplane, "lockdown");
    });
}

#[test]
fn nftables_serves_with_a_full_map() {
    testbed::in_namespace(|| {
        let options = Options {
            limits: Limits {
                endpoints: 1,
                ..Limits::default()
            },
            ..set_up()
        };
        assert_falls_back(options, "full");
    });
}

/// A process that falls back ends the programs of the former process, which would serve former endpoints.
#[test]
fn failure_ends_programs_of_former_process() {
    testbed::in_namespace(|| {
        let options = set_up();
        drop(applied(options.clone(), &mut plan(ENDPOINTS[0])));
        let options = Options {
            limits: Limits {
                endpoints: 1,
                ..Limits::default()
            },
            ..options
        };
        assert_falls_back(options, "full");
    });
}

/// Waits until connections have the frontend as their peer and do not reach the endpoint of the former plan. The kernel
/// detaches programs in the background, those of `connect()` and of `getpeername()` one after the other. While both are
/// attached, the peer is the frontend, too.
fn wait_for_detachment() {
    const CONNECTIONS: usize = 50;
    let frontend: SocketAddr = FRONTEND.parse().unwrap();
    let is_detached = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&frontend, Duration::from_secs(5))?;
        let peer = stream.peer_addr()?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut endpoint = String::new();
        stream.read_to_string(&mut endpoint)?;
        Ok(peer == frontend && endpoint != FORMER_ENDPOINT)
    };
    testbed::wait_until("the detachment", Duration::from_secs(20), || {
        (0..CONNECTIONS)
            .all(|_| is_detached().is_ok_and(|is_detached| is_detached))
            .then_some(())
    });
}

fn assert_falls_back(options: Options, reason: &str) {
    let mut plan = plan(&["10.244.0.3", "10.244.0.1"]);
    let dataplane = applied(options, &mut plan);
    assert_fell_back(&dataplane, reason);
}

fn assert_fell_back(dataplane: &EbpfDataplane, reason: &str) {
    let fault = dataplane.fault().expect("a fault");
    assert!(fault.contains(reason), "{fault}");
    assert!(!dataplane.counts().connect.unwrap().is_attached);
    wait_for_detachment();
    assert_served();
    assert_ne!(request(FRONTEND).unwrap(), FORMER_ENDPOINT);
    ControlGroup::remove_all(&process()).unwrap();
}

/// New connections go on while the process is away, and the next one replaces its programs in place.
#[test]
fn no_connection_fails_while_processes_are_killed() {
    testbed::in_namespace(|| {
        let options = set_up();
        drop(applied(options.clone(), &mut plan(ENDPOINTS[0])));
        let is_over = AtomicBool::new(false);
        let connections = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        request(FRONTEND).unwrap_or_else(|error| {
                            is_over.store(true, Ordering::Relaxed);
                            panic!("a connection failed: {error}")
                        });
                        connections.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for kill in 0..KILLS {
                let mut writer = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "write_until_killed", "--nocapture"])
                    .env(WRITER, options.control_group.as_ref().unwrap())
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap();
                thread::sleep(Duration::from_micros(2_000 + 997 * (kill % 40)));
                writer.kill().unwrap();
                writer.wait().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(connections.into_inner() > 0);
        let mut plan = plan(ENDPOINTS[0]);
        let mut dataplane = applied(options, &mut plan);
        assert_eq!(dataplane.fault(), None);
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        ControlGroup::remove_all(&process()).unwrap();
    });
}

/// The process that the other test starts.
#[test]
fn write_until_killed() {
    let Some(group) = std::env::var_os(WRITER) else {
        return;
    };
    let mut plan = plan(ENDPOINTS[0]);
    let options = Options {
        control_group: Some(group.into()),
        ..Options::default()
    };
    let mut dataplane = EbpfDataplane::open(options).unwrap();
    for turn in 1.. {
        let changes = plan.take_changes();
        dataplane.apply(&plan, &changes).unwrap();
        assert_eq!(dataplane.fault(), None);
        plan.apply_slice(&slice(ENDPOINTS[turn % 2]));
    }
}
