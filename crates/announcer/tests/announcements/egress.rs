//! Pods of a Service with egress leave the cluster with its address, or not at all (LBK-05).

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use client::{Config, JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkName, NetworkNamespace, Route};
use serde_json::{Value, json};
use testbed::{Cluster, wait_until};

use crate::connections::ADDRESS6;
use crate::fixture::{
    ADDRESS, Fixture, POOLS, SERVICES, TIMEOUT, link_of, pool, request_api, service, start_announcer,
    wait_for_members, wait_for_object,
};

/// Port of the server outside of the cluster, and of Pods.
const PORT: u16 = 8_081;
/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// Slices of EndpointSlices.
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// A Pod, with an address of each family.
struct Pod {
    namespace: NetworkNamespace,
    addresses: [IpAddr; 2],
}

impl Pod {
    /// Connects a Pod with a node.
    fn start(cluster: &Cluster, number: usize) -> Self {
        let plan = &cluster.topology.nodes[number];
        let addresses = plan.pods.both().map(|range| host(range, 7));
        let gateways = plan.pods.both().map(|range| host(range, 1));
        let namespace = NetworkNamespace::create().expect("a namespace");
        namespace.enter(enable_ipv6).expect("the namespace");
        let member = cluster.member(NODES[number]).expect("a member");
        let mut node = Connection::open_in(&member.namespace).expect("a socket");
        let (near, far): (LinkName, LinkName) = (name("pod7"), name("eth0"));
        node.add_veth(&near, &far, Some(namespace.as_fd()))
            .expect("a link");
        let near = node.link_index(&near).expect("a link");
        let mut inside = Connection::open_in(&namespace).expect("a socket");
        let far = inside.link_index(&far).expect("a link");
        node.change_link(near, &LinkChange::up())
            .expect("a link that is up");
        inside
            .change_link(far, &LinkChange::up())
            .expect("a link that is up");
        for (address, gateway) in addresses.into_iter().zip(gateways) {
            inside.add_address(far, IpNet::from(address)).expect("an address");
            inside
                .add_route(&Route::on_link(IpNet::from(gateway), far))
                .expect("a route");
            inside
                .add_route(&Route::default_via(gateway))
                .expect("a default route");
            node.add_address(near, IpNet::from(gateway)).expect("an address");
            node.add_route(&Route::on_link(IpNet::from(address), near))
                .expect("a route");
        }
        Self { namespace, addresses }
    }

    /// Returns the source address that a server sees; `None` without a connection.
    fn source_at(&self, server: IpAddr) -> Option<IpAddr> {
        let connect = || -> std::io::Result<String> {
            let address = SocketAddr::new(server, PORT);
            let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
            stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
            let mut seen = String::new();
            stream.read_to_string(&mut seen)?;
            Ok(seen)
        };
        let seen = self.namespace.enter(connect).expect("its namespace").ok()?;
        seen.parse().ok()
    }
}

/// Server that sends each client its address, and keeps all addresses.
#[derive(Clone, Default)]
struct Sources(Arc<Mutex<BTreeSet<IpAddr>>>);

impl Sources {
    fn serve(&self, namespace: &NetworkNamespace) {
        let listen = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).expect("a listener");
        let listener = namespace.enter(listen).expect("its namespace");
        let seen = Arc::clone(&self.0);
        thread::spawn(move || {
            while let Ok((mut stream, client)) = listener.accept() {
                let client = client.ip().to_canonical();
                seen.lock().expect("a lock").insert(client);
                // The client may have given up.
                stream.write_all(client.to_string().as_bytes()).ok();
            }
        });
    }

    fn take(&self) -> BTreeSet<IpAddr> {
        std::mem::take(&mut *self.0.lock().expect("a lock"))
    }
}

#[test]
fn pods_leave_with_the_address_of_their_service() {
    testbed::in_namespace(|| {
        let Fixture { cluster, api, .. } = &Fixture::start(3);
        let (config, announcer) = (&api.admin, &api.announcer);
        let pods: Vec<Pod> = (0..NODES.len())
            .map(|number| Pod::start(cluster, number))
            .collect();
        configure(cluster, config, &pods);
        let outside = cluster.outside().expect("the outside");
        let servers = outside.plan.address.both();
        let sources = Sources::default();
        sources.serve(&outside.namespace);
        Sources::default().serve(&pods[1].namespace);
        let mut announcers: Vec<_> = NODES
            .iter()
            .map(|name| start_announcer(cluster, announcer, name))
            .collect();
        wait_for_members(cluster, config);
        let balanced: [IpAddr; 2] = [ADDRESS.into(), ADDRESS6.into()];
        let leaves_with_address = |pod: &Pod| {
            for (server, address) in servers.into_iter().zip(balanced) {
                let subject = format!("{:?} leaves with {address}", pod.addresses);
                wait_until(&subject, TIMEOUT, || {
                    pod.source_at(server).filter(|seen| *seen == address)
                });
            }
        };
        pods.iter().for_each(leaves_with_address);

        // Destinations inside of the cluster see the Pod itself.
        for (number, address) in pods[1].addresses.into_iter().enumerate() {
            let seen = wait_until("a Pod answers", TIMEOUT, || pods[0].source_at(address));
            assert_eq!(seen, pods[0].addresses[number]);
        }
        // Replies that reach another node go on to the owner, as those of routers that spread packets over the nodes.
        let member = &outside.namespace;
        let link = link_of(member, "eth0").0;
        let mut neighbours = Connection::open_in(member).expect("a socket");
        for node in &announcers {
            neighbours
                .replace_neighbour(link, ADDRESS.into(), node.hardware)
                .expect("a neighbour");
            assert_eq!(pods[0].source_at(servers[0]), Some(ADDRESS.into()));
        }
        neighbours
            .delete_neighbour(link, ADDRESS.into())
            .expect("no neighbour");
        // A Service without an address has an Event, and its Pods reach nothing outside.
        wait_for_event(cluster, config, "waiting", "EgressBlocked");
        for name in ["a", "six"] {
            wait_for_event(cluster, config, name, "EgressApplied");
        }

        // From here on, no connection comes from another address, whatever happens.
        sources.take();
        announcers.remove(0).kill();
        for pod in &pods[1..] {
            leaves_with_address(pod);
        }
        // One of three members has no majority, so no node owns an address.
        announcers.remove(0).kill();
        let last = &pods[2];
        for server in servers {
            wait_until("packets are dropped", TIMEOUT, || {
                last.source_at(server).is_none().then_some(())
            });
        }
        let expected = BTreeSet::from(balanced);
        let seen = sources.take();
        assert!(seen.is_subset(&expected), "{seen:?}");

        // Without the annotation, Pods leave with their own address.
        for name in ["a", "six"] {
            annotate(cluster, config, name, Value::Null);
        }
        for (server, address) in servers.into_iter().zip(last.addresses) {
            wait_until("the Pod's own address", TIMEOUT, || {
                last.source_at(server).filter(|seen| *seen == address)
            });
        }
    });
}

/// Pod ranges, a Service of each family with the Pods, and one without an address.
fn configure(cluster: &Cluster, config: &Config, pods: &[Pod]) {
    for plan in &cluster.topology.nodes {
        let ranges = plan.pods.both().map(|range| range.to_string());
        let spec = json!({"spec": {"podCIDR": ranges[0], "podCIDRs": ranges}});
        let path = format!("/api/v1/nodes/{}", plan.member.name);
        request_api(cluster, config, Method::PATCH, &path, MERGE_PATCH, &spec);
    }
    let create = |path: &str, body: Value| request_api(cluster, config, Method::POST, path, JSON, &body);
    create(POOLS, pool("six", &[ADDRESS6.into()]));
    create(SERVICES, service("six", json!({"ipFamilies": ["IPv6"]})));
    create(SERVICES, service("waiting", json!({})));
    for (name, number) in [("a", 0), ("six", 1)] {
        let addresses: Vec<IpAddr> = pods.iter().map(|pod| pod.addresses[number]).collect();
        create(SLICES, slice(name, &addresses));
        annotate(cluster, config, name, json!("true"));
    }
    let absent = host(cluster.topology.nodes[0].pods.both()[0], 9);
    create(SLICES, slice("waiting", &[absent]));
    annotate(cluster, config, "waiting", json!("true"));
}

fn annotate(cluster: &Cluster, config: &Config, service: &str, value: Value) {
    let annotations = json!({"metadata": {"annotations": {"service.portolan.dev/egress": value}}});
    let path = format!("{SERVICES}/{service}");
    request_api(cluster, config, Method::PATCH, &path, MERGE_PATCH, &annotations);
}

fn slice(service: &str, addresses: &[IpAddr]) -> Value {
    let endpoint = |address: &IpAddr| {
        json!({
            "addresses": [address],
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "pod"},
        })
    };
    let is_ipv4 = addresses.iter().all(IpAddr::is_ipv4);
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
        "addressType": if is_ipv4 { "IPv4" } else { "IPv6" },
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [{"port": 80}],
    })
}

fn wait_for_event(cluster: &Cluster, config: &Config, service: &str, reason: &str) {
    wait_for_object(cluster, config, "/api/v1/namespaces/default/events", |events| {
        let mut events = events["items"].as_array().into_iter().flatten();
        events.any(|event| event["reason"] == reason && event["involvedObject"]["name"] == service)
    });
}

/// Returns the address with this number in a range.
fn host(range: IpNet, number: u8) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => IpAddr::V4((first.to_bits() + u32::from(number)).into()),
        IpAddr::V6(first) => IpAddr::V6((first.to_bits() + u128::from(number)).into()),
    }
}

fn name(text: &str) -> LinkName {
    text.parse().expect("a name")
}

/// Settings of a Pod's namespace: IPv6 addresses are usable at once.
fn enable_ipv6() {
    for (setting, value) in [
        ("all/disable_ipv6", "0"),
        ("default/accept_dad", "0"),
        ("all/accept_dad", "0"),
    ] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{setting}"), value).expect(setting);
    }
}
