//! SCTP: associations through cluster IPs and node ports, in both IP families.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use api::object::{EndpointSlice, Service};
use plan::{NodePortAddresses, Plan, Settings};
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};

use crate::Mode;
use crate::schedulers::opened;
use crate::world::{Member, World};

const CLIENT: usize = 1;
const CLUSTER_IPS: [&str; 2] = ["10.96.0.1", "fd00:10:96::1"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const PORT: u16 = 80;
const NODE_PORT: u16 = 30_080;
const POD_PORT: u16 = 9_000;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Associations to each address, so that every endpoint serves some of them.
const ASSOCIATIONS_PER_ADDRESS: usize = 24;

/// EPT-24: SCTP has the rules of the other protocols.
pub(crate) fn associations_reach_all_endpoints(mode: Mode) {
    if let Err(error) = socket(IpAddr::from([127, 0, 0, 1])) {
        testbed::skip_inside(&format!("no SCTP in this kernel: {error}"));
    }
    if !mode.has_rules_for_sctp() {
        return;
    }
    let world = World::new();
    let mut dataplane = opened(&world, mode);
    let pods: Vec<&Member> = world
        .members
        .iter()
        .filter(|member| member.name.starts_with("pod-"))
        .collect();
    for pod in &pods {
        pod.addresses.iter().for_each(|address| serve(pod, *address));
    }
    let mut plan = Plan::new(Settings {
        node_name: "node".to_owned(),
        node_addresses: World::node_addresses(),
        node_port_addresses: NodePortAddresses::Within(crate::nets(["0.0.0.0/0", "::/0"])),
        default_scheduler: mode.default_scheduler(),
        ..Settings::default()
    });
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s"},
        "spec": {
            "type": "NodePort", "clusterIP": CLUSTER_IPS[0], "clusterIPs": CLUSTER_IPS, "ipFamilies": FAMILIES,
            "ports": [{"port": PORT, "nodePort": NODE_PORT, "protocol": "SCTP"}],
        },
    }))
    .unwrap();
    plan.apply_service(&service);
    for (family, address_type) in FAMILIES.into_iter().enumerate() {
        let endpoints: Vec<_> = pods
            .iter()
            .map(|pod| json!({"addresses": [pod.addresses[family]]}))
            .collect();
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": address_type, "labels": {"kubernetes.io/service-name": "s"}},
            "addressType": address_type,
            "ports": [{"name": "", "port": POD_PORT, "protocol": "SCTP"}],
            "endpoints": endpoints,
        }))
        .unwrap();
        plan.apply_slice(&slice);
    }
    let changes = plan.take_changes();
    let applied = world.node().enter(|| dataplane.apply(&plan, &changes).unwrap());
    assert_eq!(applied.skipped, []);
    for (cluster_ip, node) in CLUSTER_IPS.into_iter().zip(world.node().addresses) {
        let cluster_ip: IpAddr = cluster_ip.parse().unwrap();
        for to in [
            SocketAddr::new(cluster_ip, PORT),
            SocketAddr::new(node, NODE_PORT),
        ] {
            let mut served: Vec<String> = (0..ASSOCIATIONS_PER_ADDRESS)
                .map(|_| request(&world.members[CLIENT], to))
                .collect();
            served.sort();
            served.dedup();
            assert_eq!(served.len(), pods.len(), "{to}: {served:?}");
        }
    }
}

/// One-to-one sockets of SCTP (RFC 6458 section 4) have the calls of TCP.
fn socket(like: IpAddr) -> std::io::Result<Socket> {
    let domain = Domain::for_address(SocketAddr::new(like, 0));
    Socket::new(domain, Type::STREAM, Some(Protocol::SCTP))
}

fn serve(pod: &Member, address: IpAddr) {
    let listener = pod.enter(|| {
        let listener = socket(address).unwrap();
        listener.bind(&SocketAddr::new(address, POD_PORT).into()).unwrap();
        listener.listen(16).unwrap();
        listener
    });
    let name = pod.name;
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // A client that has already disconnected reports the failure itself.
            TcpStream::from(stream).write_all(name.as_bytes()).ok();
        }
    });
}

fn request(client: &Member, to: SocketAddr) -> String {
    let socket = client.enter(|| socket(to.ip()).unwrap());
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.set_write_timeout(Some(TIMEOUT)).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut text = String::new();
    TcpStream::from(socket).read_to_string(&mut text).unwrap();
    text
}
