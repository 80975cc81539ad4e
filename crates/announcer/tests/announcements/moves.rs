//! An address moves on purpose, and connections that are open go on: through the node that they were opened at.

use std::sync::Arc;

use client::{Config, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{Cluster, Topology};

use crate::setting::{
    Announcer, Api, Order, POOLS, SERVICES, ask_api, await_members, pool, service, set_link, start_announcer,
    start_api,
};
use crate::talks::{ADDRESS6, Talks, serve};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// Three nodes with an address of each family, which is where a label says.
struct Moves {
    cluster: Arc<Cluster>,
    api: Api,
    announcers: Vec<Announcer>,
    _directory: TempDir,
}

impl Moves {
    /// With the addresses at the first node.
    fn start() -> Self {
        let topology = Topology::with_nodes(NODES.len()).expect("three nodes");
        let cluster = Arc::new(Cluster::start(topology).expect("a cluster"));
        let directory = tempfile::tempdir().expect("a directory");
        let api = start_api(&cluster, &directory);
        let create = |path: &str, body: Value| ask_api(&cluster, &api.admin, Method::POST, path, JSON, &body);
        create(POOLS, pool("six", &[ADDRESS6.into()]));
        create(SERVICES, service("six", json!({"ipFamilies": ["IPv6"]})));
        for pool in ["p", "six"] {
            let spec = json!({"spec": {"nodeSelectors": [{"matchLabels": {"takes": "traffic"}}]}});
            let path = format!("{POOLS}/{pool}");
            ask_api(&cluster, &api.admin, Method::PATCH, &path, MERGE_PATCH, &spec);
        }
        for name in NODES {
            serve(&cluster, name);
        }
        let announcers = NODES.map(|name| start_announcer(&cluster, &api.announcer, name));
        await_members(&cluster, &api.admin);
        label(&cluster, &api.admin, NODES[0], true);
        Self {
            cluster,
            api,
            announcers: announcers.into(),
            _directory: directory,
        }
    }

    /// Opens connections, as soon as new ones come to that node.
    fn open(&self, node: &str) -> Talks {
        Talks::open(&self.cluster, node)
    }

    /// Moves the addresses to a node.
    fn move_to(&self, to: &str, from: &str) {
        self.label(to, true);
        self.label(from, false);
    }

    /// Whether a node may have the addresses.
    fn label(&self, node: &str, takes_traffic: bool) {
        label(&self.cluster, &self.api.admin, node, takes_traffic);
    }
}

fn label(cluster: &Cluster, config: &Config, node: &str, takes_traffic: bool) {
    let value = takes_traffic.then_some("traffic");
    let body = json!({"metadata": {"labels": {"takes": value}}});
    let path = format!("/api/v1/nodes/{node}");
    ask_api(cluster, config, Method::PATCH, &path, MERGE_PATCH, &body);
}

#[test]
fn connections_go_on_through_the_node_that_they_were_opened_at() {
    testbed::in_namespace(|| {
        let moves = Moves::start();
        let [first, second, _] = NODES;
        let mut opened_first = moves.open(first);
        opened_first.say("hello");

        // It moves, and connections that are open are where they were, also those that are silent until they end.
        let silent = moves.open(first);
        moves.move_to(second, first);
        let mut opened_second = moves.open(second);
        opened_first.say("still here");
        opened_first.say_much();
        opened_second.say("new here");
        silent.end();

        // Back: now it is the other ones who are forwarded.
        moves.move_to(first, second);
        let mut opened_third = moves.open(first);
        for talks in [&mut opened_first, &mut opened_second, &mut opened_third] {
            talks.say("back");
            talks.say_much();
        }

        // The process ends, and its machine goes on.
        moves.label(second, true);
        moves.announcers[0].orders.send(Order::End).expect("it runs");
        let mut opened_fourth = moves.open(second);
        for talks in [
            &mut opened_first,
            &mut opened_second,
            &mut opened_third,
            &mut opened_fourth,
        ] {
            talks.say("without it");
        }
        for talks in [opened_first, opened_second, opened_third, opened_fourth] {
            talks.end();
        }
    });
}

/// The node that gets the addresses back remembers other connections from the same ports.
#[test]
fn connections_from_ports_of_ended_ones_go_on() {
    testbed::in_namespace(|| {
        let moves = Moves::start();
        let [first, second, _] = NODES;
        let ended = moves.open(first);
        let ports = ended.ports();
        ended.end_there_first();
        // What is open goes on all the same, and so does what is half closed.
        let mut opened_first = moves.open(first);
        moves.move_to(second, first);
        moves.open(second).end();
        let mut again = Talks::open_again(&moves.cluster, second, &ports);
        again.say("hello");
        moves.move_to(first, second);
        moves.open(first).end();
        again.say("still here");
        again.say_much();
        opened_first.say("still here");
        again.end();
        opened_first.end();
    });
}

/// The node that gets the addresses back had lost them, and remembers connections that the other one has ended since.
#[test]
fn connections_from_ports_of_broken_ones_go_on() {
    testbed::in_namespace(|| {
        let mut moves = Moves::start();
        let [first, second, _] = NODES;
        for is_killed in [false, true] {
            let mut broken = moves.open(first);
            let ports = broken.ports();
            broken.say("hello");
            set_link(&moves.cluster, 1, false);
            if is_killed {
                moves.announcers[0].orders.send(Order::Die).expect("it runs");
            }
            broken.abandon();
            moves.move_to(second, first);
            moves.open(second).end();
            let mut again = Talks::open_again(&moves.cluster, second, &ports);
            again.say("hello");
            set_link(&moves.cluster, 1, true);
            if is_killed {
                moves.announcers[0] = start_announcer(&moves.cluster, &moves.api.announcer, first);
            }
            moves.move_to(first, second);
            moves.open(first).end();
            again.say("still here");
            again.say_much();
            again.end();
        }
    });
}
