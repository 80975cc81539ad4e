use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use api::object::{EndpointSlice, Service};
use netlink::route::Route;
use plan::{PodDetection, Settings};
use serde_json::json;
use testbed::{Backend, Cluster, Member, Topology, skip_inside};

use super::*;
use crate::Dataplane;
use crate::nftables::{NftablesDataplane, Options};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
const FRONTEND: &str = "203.0.113.5";
const CONNECTIONS: usize = 40;
/// Upper bound of waiting for a response; a failed connection is reset much earlier.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A node with its plan, rules and forwarding.
struct Node<'a> {
    member: &'a Member,
    plan: Plan,
    dataplane: NftablesDataplane,
    two_tier: TwoTier,
}

impl<'a> Node<'a> {
    fn start(member: &'a Member) -> Self {
        let name = member.plan.name.clone();
        let plan = Plan::new(Settings {
            node_name: name.clone(),
            pods: PodDetection::Ranges(vec!["10.244.0.0/16".parse().unwrap()]),
            node_addresses: vec![member.plan.address.ipv4.into()],
            supports_two_tier: true,
            ..Settings::default()
        });
        let open = || {
            let dataplane = NftablesDataplane::open(Options::default()).unwrap();
            (dataplane, TwoTier::open(&name).unwrap())
        };
        let (dataplane, two_tier) = member.enter(open).unwrap();
        Self {
            member,
            plan,
            dataplane,
            two_tier,
        }
    }

    /// Replaces the forwarding by that of another process.
    fn restart(&mut self) {
        let name = self.member.plan.name.as_str();
        let opened = self.member.enter(|| TwoTier::open(name)).unwrap();
        self.two_tier = opened.unwrap();
    }

    /// Applies the Service with ready endpoints on these nodes.
    fn apply(&mut self, endpoints: &[&Backend], nodes: &NodeAddresses) -> Result<Vec<PortKey>, TwoTierError> {
        self.plan.apply_service(&service());
        self.plan.apply_slice(&slice(endpoints));
        let Self {
            member,
            plan,
            dataplane,
            two_tier,
        } = self;
        let changes = plan.take_changes();
        let apply = || {
            dataplane.apply(plan, &changes).unwrap();
            two_tier.apply(plan, nodes)
        };
        member.enter(apply).unwrap()
    }
}

fn service() -> Service {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "ns", "name": "web",
            "annotations": {"service.portolan.dev/two-tier-forwarding": "true"},
        },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
            "ipFamilies": ["IPv4"], "ports": [{"port": 80}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": FRONTEND}]}},
    }))
    .unwrap()
}

fn slice(endpoints: &[&Backend]) -> EndpointSlice {
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|backend| json!({"addresses": [backend.address], "nodeName": backend.name}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "", "port": Backend::ECHO_PORT, "protocol": "TCP"}],
        "endpoints": endpoints,
    }))
    .unwrap()
}

/// Opens a connection. Returns it with the name of the node that serves it.
fn connect(outside: &Member) -> (TcpStream, String) {
    let to: SocketAddr = format!("{FRONTEND}:80").parse().unwrap();
    let mut stream = outside
        .enter(|| TcpStream::connect_timeout(&to, TIMEOUT))
        .unwrap()
        .unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"hello\n").unwrap();
    let mut response = [0; "node-1 hello\n".len()];
    stream.read_exact(&mut response).unwrap();
    let text = String::from_utf8(response.to_vec()).unwrap();
    let name = text.strip_suffix(" hello\n").expect("a response of a node");
    (stream, name.to_owned())
}

/// Applies ready endpoints at all nodes.
fn apply_all(nodes: &mut [Node<'_>], endpoints: &[&Backend], addresses: &NodeAddresses) {
    for node in nodes {
        match node.apply(endpoints, addresses) {
            Ok(excess) => assert_eq!(excess, []),
            Err(TwoTierError::Route(error)) if error.errno() == Some(libc::EOPNOTSUPP) => {
                skip_inside(&format!("no VXLAN links: {error}"))
            }
            Err(error) => panic!("{}: {error}", node.member.plan.name),
        }
    }
}

fn serving_nodes(connections: &[(TcpStream, String)]) -> BTreeMap<&str, usize> {
    let mut count = BTreeMap::new();
    for (_, node) in connections {
        *count.entry(node.as_str()).or_default() += 1;
    }
    count
}

fn assert_open(connections: &mut [(TcpStream, String)], when: &str) {
    for (stream, node) in connections {
        let mut response = [0; 5];
        let result = stream
            .write_all(b"again")
            .and_then(|()| stream.read_exact(&mut response));
        assert!(result.is_ok(), "connection to {node}, {when}: {result:?}");
        assert_eq!(&response, b"again");
    }
}

#[test]
fn connections_survive_other_receiving_nodes_and_changed_endpoints() {
    testbed::in_namespace(|| {
        let cluster = Cluster::start(Topology::with_nodes(3).unwrap()).unwrap();
        let outside = cluster.outside().unwrap();
        let members: Vec<&Member> = cluster.nodes().collect();
        let backends: Vec<Backend> = members
            .iter()
            .map(|member| Backend::start(member).unwrap())
            .collect();
        let [first, second, third] = [&backends[0], &backends[1], &backends[2]];
        let addresses: NodeAddresses = members
            .iter()
            .map(|member| {
                (
                    member.plan.name.as_str().into(),
                    member.plan.address.both().to_vec(),
                )
            })
            .collect();
        let mut nodes: Vec<Node<'_>> = members.into_iter().map(Node::start).collect();
        let receive_at = |node: &Backend| {
            let route = Route::via(format!("{FRONTEND}/32").parse().unwrap(), node.address);
            let replace = || Connection::open()?.replace_route(&route);
            outside.enter(replace).unwrap().unwrap();
        };

        // The first node receives all packets and has no endpoint.
        apply_all(&mut nodes, &[second, third], &addresses);
        receive_at(first);
        let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| connect(outside)).collect();
        let nodes_before = serving_nodes(&connections);
        assert_eq!(nodes_before.keys().copied().collect::<Vec<_>>(), NODES[1..]);

        let counted = |node: &Node<'_>| {
            let read = node.member.enter(ForwardedPackets::read).unwrap();
            read.unwrap().unwrap()
        };
        assert!(counted(&nodes[0]).to_current >= CONNECTIONS as u64);
        assert_eq!(counted(&nodes[0]).to_previous, 0);

        receive_at(second);
        assert_open(&mut connections, "received by another node");
        receive_at(third);
        assert_open(&mut connections, "received by a third node");

        receive_at(first);
        assert_eq!(nodes[0].apply(&[second], &addresses).unwrap(), []);
        assert_open(&mut connections, "only the receiving node has applied a change");

        apply_all(&mut nodes, &[second], &addresses);
        assert_open(&mut connections, "an endpoint is not ready");
        let mut added: Vec<_> = (0..CONNECTIONS).map(|_| connect(outside)).collect();
        assert_eq!(serving_nodes(&added), BTreeMap::from([(NODES[1], CONNECTIONS)]));
        connections.append(&mut added);

        apply_all(&mut nodes, &[first, third], &addresses);
        receive_at(first);
        assert_open(&mut connections, "other endpoints are ready");
        assert!(counted(&nodes[0]).to_previous > 0);
        receive_at(second);
        assert_open(
            &mut connections,
            "other endpoints are ready, received by another node",
        );

        nodes.iter_mut().for_each(Node::restart);
        apply_all(&mut nodes, &[first, third], &addresses);
        assert_open(&mut connections, "the processes of all nodes are replaced");
    });
}

#[test]
fn tables_of_differences_equal_those_written_as_a_whole() {
    testbed::in_namespace(|| {
        let cluster = Cluster::start(Topology::with_nodes(2).unwrap()).unwrap();
        let members: Vec<&Member> = cluster.nodes().collect();
        let backends: Vec<Backend> = members
            .iter()
            .map(|member| Backend::start(member).unwrap())
            .collect();
        let addresses: NodeAddresses = members
            .iter()
            .map(|member| {
                (
                    member.plan.name.as_str().into(),
                    member.plan.address.both().to_vec(),
                )
            })
            .collect();
        let mut node = Node::start(members[0]);
        if let Err(error) = node.apply(&[&backends[0], &backends[1]], &addresses) {
            skip_inside(&format!("no two-tier forwarding: {error}"));
        }
        node.apply(&[&backends[1]], &addresses).unwrap();
        let elements = |node: &mut Node<'_>| {
            let mut all = Vec::new();
            for set in ["nodes", "frontends", "current", "previous1"] {
                let table = rules::table_family(Family::V4);
                let read = |element: netlink::nftables::Element<'_>| (set, element.key.to_vec());
                let nftables = &mut node.two_tier.nftables;
                all.extend(
                    nftables
                        .elements_of_family(table, rules::TABLE, set, read)
                        .unwrap(),
                );
            }
            all.sort();
            all
        };
        let by_difference = elements(&mut node);
        let slots = maglev::TABLE_SIZE as usize;
        let count = |set: &str| by_difference.iter().filter(|(of, _)| *of == set).count();
        assert_eq!(
            (count("nodes"), count("frontends"), count("current")),
            (1, 1, slots)
        );
        let frontends = || members[0].enter(forwarded_tcp_frontends).unwrap().unwrap();
        let frontend: SocketAddr = format!("{FRONTEND}:80").parse().unwrap();
        assert_eq!(frontends(), BTreeSet::from([frontend]));

        // Deleted by another program.
        let table = rules::table_family(Family::V4);
        assert!(node.two_tier.nftables.delete_table(table, rules::TABLE).unwrap());
        node.two_tier.verify();
        node.apply(&[&backends[1]], &addresses).unwrap();
        assert_eq!(elements(&mut node), by_difference);

        // No connection is of the other family: its table drops all packets of the links.
        let other = rules::table_family(Family::V6);
        assert!(node.two_tier.nftables.delete_table(other, rules::TABLE).unwrap());

        assert!(members[0].enter(remove).unwrap().unwrap());
        assert_eq!(frontends(), BTreeSet::new());
        assert!(!members[0].enter(remove).unwrap().unwrap());
    });
}

#[test]
fn older_services_have_precedence() {
    let mut plan = Plan::new(Settings {
        supports_two_tier: true,
        ..Settings::default()
    });
    let services = [
        ("a", "2026-05-02T00:00:00Z"),
        ("b", "2026-05-01T00:00:00Z"),
        ("c", "2026-05-02T00:00:00Z"),
    ];
    for (number, (name, created)) in (6..).zip(services) {
        let mut service = service();
        service.metadata.name = name.to_owned();
        service.metadata.creation_timestamp = Some(created.to_owned());
        service.spec.cluster_ip = format!("10.96.0.{number}");
        service.spec.cluster_ips = vec![format!("10.96.0.{number}")];
        service.status.load_balancer.ingress[0].ip = format!("203.0.113.{number}");
        plan.apply_service(&service);
    }
    plan.take_changes();
    let names: Vec<String> = ports_by_age(&plan)
        .into_iter()
        .map(|port| port.key.service.name.to_string())
        .collect();
    assert_eq!(names, ["b", "a", "c"]);
}
