//! Planned moves of an address: open connections continue through the node at which they were opened.

use std::sync::Arc;

use client::{Config, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{Cluster, Topology};

use crate::connections::{ADDRESS6, Connections, serve};
use crate::fixture::{
    Announcer, Api, POOLS, SERVICES, Signal, pool, request_api, service, set_link, start_announcer,
    start_api, wait_for_members,
};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// Three nodes, with an address of each family whose candidates a label selects.
struct Moves {
    cluster: Arc<Cluster>,
    api: Api,
    announcers: Vec<Announcer>,
    _directory: TempDir,
}

impl Moves {
    /// Starts with the addresses at the first node.
    fn start() -> Self {
        let topology = Topology::with_nodes(NODES.len()).expect("three nodes");
        let cluster = Arc::new(Cluster::start(topology).expect("a cluster"));
        let directory = tempfile::tempdir().expect("a directory");
        let api = start_api(&cluster, &directory);
        let create =
            |path: &str, body: Value| request_api(&cluster, &api.admin, Method::POST, path, JSON, &body);
        create(POOLS, pool("six", &[ADDRESS6.into()]));
        create(SERVICES, service("six", json!({"ipFamilies": ["IPv6"]})));
        for pool in ["p", "six"] {
            let spec = json!({"spec": {"nodeSelectors": [{"matchLabels": {"takes": "traffic"}}]}});
            let path = format!("{POOLS}/{pool}");
            request_api(&cluster, &api.admin, Method::PATCH, &path, MERGE_PATCH, &spec);
        }
        for name in NODES {
            serve(&cluster, name);
        }
        let announcers = NODES.map(|name| start_announcer(&cluster, &api.announcer, name));
        wait_for_members(&cluster, &api.admin);
        label(&cluster, &api.admin, NODES[0], true);
        Self {
            cluster,
            api,
            announcers: announcers.into(),
            _directory: directory,
        }
    }

    /// Opens connections as soon as new ones reach that node.
    fn open(&self, node: &str) -> Connections {
        Connections::open(&self.cluster, node)
    }

    /// Moves the addresses to a node.
    fn move_to(&self, to: &str, from: &str) {
        self.label(to, true);
        self.label(from, false);
    }

    /// Sets if a node is a candidate for the addresses.
    fn label(&self, node: &str, takes_traffic: bool) {
        label(&self.cluster, &self.api.admin, node, takes_traffic);
    }
}

fn label(cluster: &Cluster, config: &Config, node: &str, takes_traffic: bool) {
    let value = takes_traffic.then_some("traffic");
    let body = json!({"metadata": {"labels": {"takes": value}}});
    let path = format!("/api/v1/nodes/{node}");
    request_api(cluster, config, Method::PATCH, &path, MERGE_PATCH, &body);
}

#[test]
fn connections_continue_through_their_first_node() {
    testbed::in_namespace(|| {
        let moves = Moves::start();
        let [first, second, _] = NODES;
        let mut opened_first = moves.open(first);
        opened_first.send("hello");

        // After the move, open connections stay at their node, idle ones included.
        let idle = moves.open(first);
        moves.move_to(second, first);
        let mut opened_second = moves.open(second);
        opened_first.send("after the move");
        opened_first.send_bulk();
        opened_second.send("first line");
        idle.close();

        // Back again: now the connections of the other node are forwarded.
        moves.move_to(first, second);
        let mut opened_third = moves.open(first);
        for connections in [&mut opened_first, &mut opened_second, &mut opened_third] {
            connections.send("back");
            connections.send_bulk();
        }

        // The process shuts down; its node keeps running.
        moves.label(second, true);
        moves.announcers[0]
            .signals
            .send(Signal::ShutDown)
            .expect("a running announcer");
        let mut opened_fourth = moves.open(second);
        for connections in [
            &mut opened_first,
            &mut opened_second,
            &mut opened_third,
            &mut opened_fourth,
        ] {
            connections.send("after the shutdown");
        }
        for connections in [opened_first, opened_second, opened_third, opened_fourth] {
            connections.close();
        }
    });
}

/// The returning owner has conntrack entries of other connections with the same ports.
#[test]
fn connections_reuse_ports_of_closed_ones() {
    testbed::in_namespace(|| {
        let moves = Moves::start();
        let [first, second, _] = NODES;
        let ended = moves.open(first);
        let ports = ended.ports();
        ended.close_from_server();
        // Open and half-closed connections continue.
        let mut opened_first = moves.open(first);
        moves.move_to(second, first);
        moves.open(second).close();
        let mut again = Connections::reopen(&moves.cluster, second, &ports);
        again.send("hello");
        moves.move_to(first, second);
        moves.open(first).close();
        again.send("after the move");
        again.send_bulk();
        opened_first.send("after the move");
        again.close();
        opened_first.close();
    });
}

/// The returning owner had lost the addresses, and has conntrack entries of connections that the other node has
/// closed since.
#[test]
fn connections_reuse_ports_of_broken_ones() {
    testbed::in_namespace(|| {
        let mut moves = Moves::start();
        let [first, second, _] = NODES;
        for is_killed in [false, true] {
            let mut broken = moves.open(first);
            let ports = broken.ports();
            broken.send("hello");
            set_link(&moves.cluster, 1, false);
            if is_killed {
                moves.announcers[0]
                    .signals
                    .send(Signal::Kill)
                    .expect("a running announcer");
            }
            broken.abandon();
            moves.move_to(second, first);
            moves.open(second).close();
            let mut again = Connections::reopen(&moves.cluster, second, &ports);
            again.send("hello");
            set_link(&moves.cluster, 1, true);
            if is_killed {
                moves.announcers[0] = start_announcer(&moves.cluster, &moves.api.announcer, first);
            }
            moves.move_to(first, second);
            moves.open(first).close();
            again.send("after the move");
            again.send_bulk();
            again.close();
        }
    });
}
