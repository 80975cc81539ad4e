//! The events of a history: users, clocks and failures.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::independent_controllers::{self, NodeHealths};
use crate::instance::Instances;
use crate::server::{Faults, Server};
use crate::workloads;

/// The kind of history that a seed selects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub seed: u64,
    pub faults: Faults,
    /// Number of processes that run the controllers.
    pub instances: usize,
    /// True if they elect a leader; two processes without election simulate a misconfiguration.
    pub has_election: bool,
    /// True if the ServiceCIDR, Node and garbage collection controllers run too.
    pub has_independent_controllers: bool,
    /// True if only the Deployment controllers run.
    pub has_workloads: bool,
    /// True if the bounds of rollouts hold strictly.
    pub is_strict: bool,
    /// Number of events.
    pub events: usize,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ 0x5eed);
        let mut some = |most: u8| if random.bool() { random.u8(0..most) } else { 0 };
        let faults = Faults {
            refused: some(20),
            lost: some(20),
            unanswered: some(20),
            cut: some(30),
            lag: Duration::from_millis(u64::from(some(50)) * 100),
            // Less than the time between renew deadline and lease duration; a server that works on a request
            // for longer is not fenced.
            latency: Duration::from_millis(u64::from(some(40)) * 100 + 20),
        };
        let (instances, has_election) = [(1, false), (2, false), (2, true), (3, true)][random.usize(0..4)];
        Self {
            seed,
            faults,
            instances,
            has_election,
            events: random.usize(10..80),
            has_independent_controllers: random.bool(),
            has_workloads: false,
            is_strict: false,
        }
    }
}

/// Plays the history.
pub(crate) async fn play(
    plan: &Plan,
    server: &Server,
    instances: &mut Instances,
    node_healths: &NodeHealths,
) {
    let mut random = Rng::with_seed(plan.seed ^ 0xac7);
    if plan.has_workloads {
        workloads::start_agents(server, plan.seed);
    }
    for name in 0..2 {
        node(server, &mut random, name);
    }
    if plan.has_independent_controllers {
        node_healths.start(server);
    }
    instances.start_all();
    for _ in 0..plan.events {
        if plan.has_workloads {
            workloads::event(plan, server, instances, &mut random);
        } else if plan.has_independent_controllers && random.u8(0..4) == 0 {
            independent_controllers::event(server, node_healths, &mut random);
        } else {
            event(server, instances, &mut random, plan.has_independent_controllers);
        }
        // Usually at once or soon, sometimes after everything has settled.
        let share = random.f64();
        tokio::time::sleep(Duration::from_secs(12).mul_f64(share.powi(4))).await;
    }
}

fn event(server: &Server, instances: &mut Instances, random: &mut Rng, has_independent_controllers: bool) {
    let instance = random.usize(0..instances.len());
    match random.u8(0..100) {
        0..20 => service(server, random, has_independent_controllers),
        20..65 => pod(server, random),
        65..70 => {
            let number = random.u8(0..3);
            node(server, random, number);
        }
        70..78 => endpoints(server, random),
        78..86 => change_as_foreign_client(server, random),
        86..89 => server.compact(),
        89..92 => instances.kill(instance),
        92..94 => instances.end(instance),
        94..98 => instances.start(instance),
        _ => instances.set_clock(instance, random.i64(-7_200..7_200)),
    }
}

fn service(server: &Server, random: &mut Rng, has_independent_controllers: bool) {
    let name = format!("s{}", random.u8(0..3));
    if random.u8(0..5) == 0 {
        let propagation = ["Background", "Foreground", "Orphan"][random.usize(0..3)];
        return if has_independent_controllers {
            server.delete("services", &name, propagation)
        } else {
            // A foreground deletion without a collector would never end.
            server.put("services", &name, None)
        };
    }
    let target = if random.bool() { json!("web") } else { json!(8080) };
    let families = if random.u8(0..3) == 0 {
        json!(["IPv4", "IPv6"])
    } else {
        json!(["IPv4"])
    };
    let mut spec = json!({
        "ports": [{"name": "a", "port": 80, "protocol": "TCP", "targetPort": target}],
        "ipFamilies": families,
        "clusterIP": if random.bool() { "10.96.0.1" } else { "None" },
        "publishNotReadyAddresses": random.u8(0..4) == 0,
    });
    // Odd numbers have manually written Endpoints. A Service never switches, because its slices have no owner
    // then.
    if !name.ends_with('1') {
        spec["selector"] = json!({"app": format!("a{}", random.u8(0..2))});
    }
    let labels = json!({"team": format!("t{}", random.u8(0..2))});
    let known = server.object("services", &name);
    // An object that is being deleted stays so.
    if known.is_none_or(|known| known["metadata"]["deletionTimestamp"].is_null()) {
        let service = json!({"metadata": {"labels": labels}, "spec": spec});
        server.put("services", &name, Some(service));
    }
}

fn pod(server: &Server, random: &mut Rng) {
    let name = format!("p{}", random.u8(0..10));
    if random.u8(0..5) == 0 {
        return server.put("pods", &name, None);
    }
    let number = random.u8(1..200);
    let addresses = match random.u8(0..10) {
        0 => json!([]),
        1 => json!([{"ip": "not-an-address"}]),
        2 => json!([{"ip": ""}]),
        _ => json!([{"ip": format!("10.0.0.{number}")}, {"ip": format!("fd00::{number}")}]),
    };
    let ready = if random.u8(0..3) == 0 { "False" } else { "True" };
    let phase = if random.u8(0..10) == 0 {
        "Failed"
    } else {
        "Running"
    };
    let mut pod = json!({
        "metadata": {"labels": {"app": format!("a{}", random.u8(0..2))}},
        "spec": {
            "nodeName": format!("node{}", random.u8(0..3)),
            "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8000 + u16::from(random.bool())}]}],
        },
        "status": {"phase": phase, "podIPs": addresses, "conditions": [{"type": "Ready", "status": ready}]},
        // Readiness that the agent reports with the Node's next heartbeat.
        "saysReady": ready,
    });
    if random.u8(0..8) == 0 {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    server.put("pods", &name, Some(pod));
}

fn node(server: &Server, random: &mut Rng, number: u8) {
    let name = format!("node{number}");
    let labels = json!({"topology.kubernetes.io/zone": format!("z{}", random.u8(0..2))});
    if random.u8(0..4) == 0 {
        return server.put("nodes", &name, None);
    }
    let metadata = json!({"metadata": {"labels": labels}});
    match server.object("nodes", &name) {
        Some(_) => server.patch("nodes", &name, &metadata),
        None => server.put("nodes", &name, Some(metadata)),
    }
}

/// Writes Endpoints as a user.
fn endpoints(server: &Server, random: &mut Rng) {
    if random.u8(0..4) == 0 {
        return server.put("endpoints", "s1", None);
    }
    let addresses = |random: &mut Rng| {
        let count = random.u8(0..4);
        let one = |i: u8| json!({"ip": format!("192.0.2.{}", i * 10 + 1)});
        (0..count).map(one).collect::<Vec<Value>>()
    };
    let subset = json!({
        "addresses": addresses(random),
        "ports": [{"name": "a", "port": 9000 + u16::from(random.bool()), "protocol": "TCP"}],
    });
    let skips = if random.u8(0..5) == 0 { "true" } else { "false" };
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": skips});
    let object = json!({"metadata": {"labels": labels}, "subsets": [subset]});
    server.put("endpoints", "s1", Some(object));
}

/// Changes or deletes an object of the controllers as a foreign client.
fn change_as_foreign_client(server: &Server, random: &mut Rng) {
    let plural = if random.bool() {
        "endpointslices"
    } else {
        "endpoints"
    };
    let objects = server.objects();
    let found: Vec<_> = objects.iter().filter(|((p, ..), _)| p == plural).collect();
    if found.is_empty() {
        return;
    }
    let ((_, _, name), object) = found[random.usize(0..found.len())];
    if name == "s1" {
        return;
    }
    if random.bool() {
        return server.put(plural, name, None);
    }
    let mut object = object.clone();
    match plural {
        "endpointslices" => object["endpoints"] = json!([{"addresses": ["203.0.113.9"]}]),
        _ => object["subsets"] = json!([]),
    }
    server.put(plural, name, Some(object));
}
