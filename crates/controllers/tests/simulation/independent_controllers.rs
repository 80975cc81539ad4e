//! Events of Nodes, ServiceCIDRs and owners, and their expected results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::expected::{of, ranges, would_orphan};
use crate::invariants::ready_of;
use crate::server::{Objects, Server};

/// Interval between heartbeats of a Node.
const BEAT_PERIOD: Duration = Duration::from_secs(5);
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Ranges of ServiceCIDRs, some of them nested.
const RANGES: [&str; 3] = ["10.96.0.0/28", "10.96.0.0/24", "10.97.0.0/28"];

/// Health of each Node.
#[derive(Clone, Default)]
pub(crate) struct NodeHealths(Arc<Mutex<BTreeMap<String, bool>>>);

impl NodeHealths {
    /// Sends heartbeats until the end of the history.
    pub(crate) fn start(&self, server: &Server) {
        let (node_healths, server) = (self.clone(), server.clone());
        tokio::spawn(async move {
            for number in 0_u64.. {
                for name in node_healths.living() {
                    beat(&server, &name, number);
                }
                tokio::time::sleep(BEAT_PERIOD).await;
            }
        });
    }

    /// Returns true if a Node is alive; most are from the start.
    fn lives(&self, name: &str) -> bool {
        let node_healths = self.0.lock().expect("mutex is not poisoned");
        node_healths.get(name).copied().unwrap_or(true)
    }

    fn living(&self) -> Vec<String> {
        let names = (0..3).map(|number| format!("node{number}"));
        names.filter(|name| self.lives(name)).collect()
    }

    fn set(&self, name: &str, lives: bool) {
        self.0
            .lock()
            .expect("mutex is not poisoned")
            .insert(name.to_owned(), lives);
    }
}

/// Renews the Lease of a Node and reports the status of the Node and its Pods.
fn beat(server: &Server, name: &str, number: u64) {
    let Some(node) = server.object("nodes", name) else {
        return;
    };
    let lease =
        json!({"metadata": {}, "spec": {"holderIdentity": name, "renewTime": format!("beat {number}")}});
    server.beat(name, lease);
    let facts = |status: &Value| {
        let heartbeat = format!("beat {number}");
        json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}]}})
    };
    if ready_of(&node) != "True" {
        server.patch("nodes", name, &facts(&"True".into()));
    }
    for ((_, _, pod), object) in of(&server.objects(), "pods") {
        let is_other = object["status"]["conditions"][0]["status"] != object["saysReady"];
        if object["spec"]["nodeName"] == name && is_other {
            let status =
                json!({"status": {"conditions": [{"type": "Ready", "status": object["saysReady"]}]}});
            server.patch("pods", pod, &status);
        }
    }
}

/// Plays one event.
pub(crate) fn event(server: &Server, node_healths: &NodeHealths, random: &mut Rng) {
    match random.u8(0..3) {
        0 => node_healths.set(&format!("node{}", random.u8(0..3)), random.u8(0..3) > 0),
        1 => cidr(server, random),
        _ => address(server, random),
    }
}

fn cidr(server: &Server, random: &mut Rng) {
    let number = random.usize(0..RANGES.len());
    let name = format!("c{number}");
    match server.object("servicecidrs", &name) {
        Some(_) => server.delete("servicecidrs", &name, "Background"),
        None => server.put(
            "servicecidrs",
            &name,
            Some(json!({"metadata": {}, "spec": {"cidrs": [RANGES[number]]}})),
        ),
    }
}

/// Adds or removes the address of a Service in an active range.
fn address(server: &Server, random: &mut Rng) {
    let address = format!("10.{}.0.{}", 96 + random.u8(0..2), random.u8(1..30));
    if server.object("ipaddresses", &address).is_some() {
        return server.put("ipaddresses", &address, None);
    }
    let ip: std::net::IpAddr = address.parse().expect("an address");
    let gives = |cidr: &Value| {
        let is_kept = cidr["metadata"]["deletionTimestamp"].is_null();
        is_kept && ranges(cidr).any(|range| range.contains(&ip))
    };
    if of(&server.objects(), "servicecidrs").any(|(_, cidr)| gives(cidr)) {
        let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
        server.put(
            "ipaddresses",
            &address,
            Some(json!({"metadata": {"labels": labels}})),
        );
    }
}

/// Returns the differences between observed and expected state.
pub(crate) fn differences(objects: &Objects, node_healths: &NodeHealths) -> Vec<String> {
    let mut wrong = Vec::new();
    check_nodes(&mut wrong, objects, node_healths);
    check_cidrs(&mut wrong, objects);
    let uids: BTreeSet<&str> = objects
        .values()
        .filter_map(|owner| owner["metadata"]["uid"].as_str())
        .collect();
    for (key, object) in objects {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let gone = owners
            .into_iter()
            .flatten()
            .filter_map(|owner| owner["uid"].as_str());
        for uid in gone.filter(|uid| !uids.contains(uid)) {
            wrong.push(format!("{key:?} names {uid} as its owner, which does not exist"));
        }
        if key.0 == "services" && !object["metadata"]["deletionTimestamp"].is_null() {
            wrong.push(format!("{key:?} is still being deleted"));
        }
    }
    wrong
}

fn check_nodes(wrong: &mut Vec<String>, objects: &Objects, node_healths: &NodeHealths) {
    let anybody_lives = of(objects, "nodes").any(|((_, _, name), _)| node_healths.lives(name));
    for ((_, _, name), node) in of(objects, "nodes") {
        let ready = ready_of(node);
        let taints = node["spec"]["taints"].as_array();
        let effects: Vec<&str> = taints
            .into_iter()
            .flatten()
            .filter(|taint| taint["key"] == UNREACHABLE)
            .filter_map(|taint| taint["effect"].as_str())
            .collect();
        if node_healths.lives(name) && (ready != "True" || !effects.is_empty()) {
            wrong.push(format!("{name} lives and is {ready} with {effects:?}"));
        }
        if !node_healths.lives(name) && (ready != "Unknown" || !effects.contains(&"NoSchedule")) {
            wrong.push(format!(
                "{name} sends no heartbeat and is {ready} with {effects:?}"
            ));
        }
        let is_out = effects.contains(&"NoExecute");
        if !node_healths.lives(name) && anybody_lives && !is_out {
            wrong.push(format!("{name} sends no heartbeat and is still in traffic"));
        }
        let serves = |pod: &Value| pod["spec"]["nodeName"] == *name && ready_of(pod) == "True";
        for ((_, _, pod), _) in of(objects, "pods").filter(|(_, pod)| is_out && serves(pod)) {
            wrong.push(format!("{name} is out of traffic and its Pod {pod} is ready"));
        }
    }
}

fn check_cidrs(wrong: &mut Vec<String>, objects: &Objects) {
    for ((_, _, name), cidr) in of(objects, "servicecidrs") {
        let meta = &cidr["metadata"];
        let is_held = meta["finalizers"][0] == "networking.k8s.io/service-cidr-finalizer";
        let (expected, is_right) = if meta["deletionTimestamp"].is_null() {
            ("True", true)
        } else {
            ("False", would_orphan(objects, cidr))
        };
        if !is_held || ready_of(cidr) != expected || !is_right {
            wrong.push(format!("{name} should be {expected}, or deleted: {cidr}"));
        }
    }
}
