//! Pools select the nodes and links that announce their addresses.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use announcer::{NodeName, rendezvous};
use client::{Config, JSON, MERGE_PATCH};
use http::Method;
use netlink::route::{Connection, LinkChange, LinkIndex, LinkName, Route};
use serde_json::{Value, json};
use testbed::Cluster;

use crate::arp_observer::ArpObserver;
use crate::fixture::{
    ADDRESS, EARLIER, EDGE, EthernetAddress, Fixture, OTHER, POOLS, REQUEST_PERIOD, SERVICES, TIMEOUT,
    link_of, pool, request_api, service, start_announcer, start_with, wait_for_members, wait_for_object,
};

const ADDRESS6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x30, 0, 0, 0, 0, 0, 0x200);
/// A second network, of one node and the client.
const SECOND_LINK: &str = "lan9";

#[test]
fn pools_select_nodes_and_links() {
    testbed::in_namespace(|| {
        let Fixture { cluster, api, .. } = &Fixture::start(3);
        let (config, announcer) = (&api.admin, &api.announcer);
        let names = ["node-1", "node-2", "node-3"];
        let winner = |address: Ipv4Addr| {
            let names = names.map(NodeName::from);
            let winner = rendezvous::winner(address.into(), names.iter()).cloned();
            names
                .iter()
                .position(|name| Some(name) == winner.as_ref())
                .expect("a winner")
        };
        // A candidate that would not own the edge's address has the only edge.
        let with_edge = (winner(EDGE) + 1) % names.len();
        let start = |number: usize| start_with(cluster, announcer, names[number], number == with_edge);
        let announcers = [0, 1, 2].map(start);
        let patch =
            |path: &str, body: Value| request_api(cluster, config, Method::PATCH, path, MERGE_PATCH, &body);
        let create = |path: &str, body: Value| request_api(cluster, config, Method::POST, path, JSON, &body);
        let place = |spec: Value| patch(&format!("{POOLS}/p"), json!({ "spec": spec }));
        let label = |number: usize, role: Value| {
            let labels = json!({"metadata": {"labels": {"role": role}}});
            patch(&format!("/api/v1/nodes/{}", names[number]), labels);
        };
        create(POOLS, pool("q", &[OTHER.into(), EDGE.into()]));
        create(SERVICES, service("b", json!({})));
        let edge_class = json!({"loadBalancerClass": "portolan.dev/edge"});
        await_address(cluster, config, "b", OTHER.into());
        create(SERVICES, service("c", edge_class));
        wait_for_members(cluster, config);
        let mut observer = ArpObserver::start(cluster);
        observer.wait_until_owned(ADDRESS, announcers[winner(ADDRESS)].hardware);
        observer.wait_until_owned(EDGE, announcers[with_edge].hardware);

        // Labels of nodes change.
        let [second, third] = [1, 2].map(|more| (winner(ADDRESS) + more) % names.len());
        place(
            json!({"nodeSelectors": [{"matchLabels": {"role": "edge"}}, {"matchLabels": {"role": "dmz"}}]}),
        );
        observer.wait_until_unanswered();
        await_no_candidates(cluster, config);
        label(second, json!("dmz"));
        observer.wait_until_owned(ADDRESS, announcers[second].hardware);
        label(third, json!("edge"));
        label(second, Value::Null);
        observer.wait_until_owned(ADDRESS, announcers[third].hardware);
        wait_for_object(cluster, config, &format!("{SERVICES}/a"), |service| {
            let conditions = service["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            conditions.iter().all(|condition| condition["status"] == "True")
        });

        // Links: only one node has them, and it alone announces there.
        place(json!({"nodeSelectors": null, "interfaces": ["lan*"]}));
        observer.wait_until_unanswered();
        let (here, there) = connect_directly(cluster, names[second]);
        let mut direct = ArpObserver::on(cluster, SECOND_LINK);
        direct.wait_until_owned(ADDRESS, there);
        observer.wait_until_unanswered();

        // IPv6: the client's kernel finds the address by a multicast group that was joined on that link only.
        let mut linked = pool("six", &[ADDRESS6.into()]);
        linked["spec"]["interfaces"] = json!([SECOND_LINK]);
        create(POOLS, linked);
        create(SERVICES, service("d", json!({"ipFamilies": ["IPv6"]})));
        await_neighbour(cluster, here, there);
        let joined = groups_of(cluster, names[second]);
        assert_eq!(
            joined,
            [SECOND_LINK],
            "links with the solicited-node group of {ADDRESS6}"
        );

        // The flags of the announcers apply again.
        place(json!({"interfaces": null}));
        observer.wait_until_owned(ADDRESS, announcers[winner(ADDRESS)].hardware);
    });
}

/// Without the right to read pools, no address belongs to a pool.
#[test]
fn announcer_without_the_right_to_pools_announces_nothing() {
    testbed::in_namespace(|| {
        let Fixture { cluster, api, .. } = &Fixture::start(1);
        let rules = json!([
            {"apiGroups": [""], "resources": ["nodes", "services"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
             "verbs": ["create", "get", "list", "update", "watch"]},
        ]);
        let create = |kind: &str, mut object: Value| {
            object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
            object["metadata"] = json!({"name": EARLIER});
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{kind}");
            request_api(cluster, &api.admin, Method::POST, &path, JSON, &object);
        };
        create("clusterroles", json!({"kind": "ClusterRole", "rules": rules}));
        create(
            "clusterrolebindings",
            json!({
                "kind": "ClusterRoleBinding",
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": EARLIER},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": EARLIER}],
            }),
        );
        let mut observer = ArpObserver::start(cluster);
        let announcer = start_announcer(cluster, &api.earlier, "node-1");
        observer.observe(Duration::from_secs(5));
        assert!(observer.owners.is_empty(), "{:?}", observer.owners);
        announcer.kill();
        let announcer = start_announcer(cluster, &api.announcer, "node-1");
        observer.wait_until_owned(ADDRESS, announcer.hardware);
    });
}

/// Waits until a Service has an address.
fn await_address(cluster: &Cluster, config: &Config, name: &str, address: IpAddr) {
    wait_for_object(cluster, config, &format!("{SERVICES}/{name}"), |service| {
        service["status"]["loadBalancer"]["ingress"][0]["ip"] == address.to_string()
    });
}

/// Waits until condition and Event report that no node may announce the address.
fn await_no_candidates(cluster: &Cluster, config: &Config) {
    let text = format!(
        "{ADDRESS} is announced by no node: none that takes traffic matches nodeSelectors of AddressPool \"p\""
    );
    wait_for_object(cluster, config, &format!("{SERVICES}/a"), |service| {
        let conditions = service["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut conditions = conditions.iter();
        conditions.any(|condition| {
            condition["type"] == "portolan.dev/AddressAnnounced"
                && condition["status"] == "False"
                && condition["message"] == text.as_str()
        })
    });
    wait_for_object(cluster, config, "/api/v1/namespaces/default/events", |list| {
        let events = list["items"].as_array().cloned().unwrap_or_default();
        let mut events = events.iter();
        events.any(|event| event["reason"] == "UnAvailableLoadBalancer" && event["message"] == text.as_str())
    });
}

/// Connects a node and the client by a network of their own. Returns the client's link and the node's hardware
/// address.
fn connect_directly(cluster: &Cluster, node: &str) -> (LinkIndex, EthernetAddress) {
    let node = cluster.member(node).expect("a member");
    let outside = cluster.outside().expect("the outside");
    let name: LinkName = SECOND_LINK.parse().expect("a name");
    let mut near = Connection::open_in(&node.namespace).expect("a connection");
    let far = Some(outside.namespace.as_fd());
    near.add_veth(&name, &name, far).expect("a pair of links");
    let (here, _) = link_of(&outside.namespace, SECOND_LINK);
    let (there, hardware) = link_of(&node.namespace, SECOND_LINK);
    let mut far = Connection::open_in(&outside.namespace).expect("a connection");
    far.change_link(here, &LinkChange::up())
        .expect("a link that is up");
    near.change_link(there, &LinkChange::up())
        .expect("a link that is up");
    let route = Route::on_link(IpAddr::from(ADDRESS6).into(), here);
    far.add_route(&route).expect("a route");
    (here, hardware)
}

/// Sends to the IPv6 address until the client's kernel has resolved its hardware address.
fn await_neighbour(cluster: &Cluster, link: LinkIndex, hardware: EthernetAddress) {
    let outside = cluster.outside().expect("the outside");
    let end = Instant::now() + TIMEOUT;
    loop {
        let send = || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?.send_to(b"anybody?", (ADDRESS6, 9));
        // Fails until the link has an address of its own.
        drop(outside.enter(send).expect("its namespace"));
        let mut connection = Connection::open_in(&outside.namespace).expect("a connection");
        let found = connection.neighbours().expect("neighbours");
        let found = found.iter().any(|neighbour| {
            (neighbour.link, neighbour.address) == (link, ADDRESS6.into())
                && neighbour.ethernet == Some(hardware)
        });
        if found {
            return;
        }
        assert!(Instant::now() < end, "no node answers for {ADDRESS6}");
        thread::sleep(REQUEST_PERIOD);
    }
}

/// Links on which a node is in the solicited-node group of the IPv6 address.
fn groups_of(cluster: &Cluster, node: &str) -> Vec<String> {
    let read = || fs::read_to_string("/proc/thread-self/net/igmp6").expect("the groups");
    let groups = cluster.member(node).expect("a member").enter(read);
    let groups = groups.expect("its namespace");
    let lines = groups
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let joined = lines.filter(|words| words.get(2) == Some(&"ff0200000000000000000001ff000200"));
    joined.map(|words| words[1].to_owned()).collect()
}
