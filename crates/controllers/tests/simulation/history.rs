//! What happens in a history: users, clocks and accidents, one thing after the other.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::instance::Instances;
use crate::keepers::{self, Hearts};
use crate::server::{Faults, Server};
use crate::workloads;

/// What kind of history a seed gives.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub faults: Faults,
    /// How many processes run the controllers.
    pub instances: usize,
    /// Whether they elect a leader; two that do not are there by mistake.
    pub is_led: bool,
    /// Whether those that look after ServiceCIDRs, Nodes and garbage run too.
    pub has_keepers: bool,
    /// Whether they look after Deployments, and after nothing else.
    pub has_workloads: bool,
    /// Whether the bounds of roll-outs are to hold strictly.
    pub is_strict: bool,
    /// Things that happen.
    pub events: usize,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ 0x5eed);
        let mut some = |most: u8| if random.bool() { random.u8(0..most) } else { 0 };
        let faults = Faults {
            refused: some(20),
            lost: some(20),
            unanswered: some(20),
            cut: some(30),
            lag: Duration::from_millis(u64::from(some(50)) * 100),
            // Less than between the renew deadline and the lease duration, beyond which a server
            // that still works on a request is not fenced.
            latency: Duration::from_millis(u64::from(some(40)) * 100 + 20),
        };
        let (instances, is_led) = [(1, false), (2, false), (2, true), (3, true)][random.usize(0..4)];
        Self {
            seed,
            faults,
            instances,
            is_led,
            events: random.usize(10..80),
            has_keepers: random.bool(),
            has_workloads: false,
            is_strict: false,
        }
    }
}

/// Lets it happen.
pub async fn play(plan: &Plan, server: &Server, instances: &mut Instances, hearts: &Hearts) {
    let mut random = Rng::with_seed(plan.seed ^ 0xac7);
    if plan.has_workloads {
        workloads::start_agents(server, plan.seed);
    }
    for name in 0..2 {
        node(server, &mut random, name);
    }
    if plan.has_keepers {
        hearts.start(server);
    }
    instances.start_all();
    for _ in 0..plan.events {
        if plan.has_workloads {
            workloads::event(plan, server, instances, &mut random);
        } else if plan.has_keepers && random.u8(0..4) == 0 {
            keepers::event(server, hearts, &mut random);
        } else {
            event(server, instances, &mut random, plan.has_keepers);
        }
        // Most often at once or soon, now and then after all has settled.
        let share = random.f64();
        tokio::time::sleep(Duration::from_secs(12).mul_f64(share.powi(4))).await;
    }
}

fn event(server: &Server, instances: &mut Instances, random: &mut Rng, has_keepers: bool) {
    let instance = random.usize(0..instances.len());
    match random.u8(0..100) {
        0..20 => service(server, random, has_keepers),
        20..65 => pod(server, random),
        65..70 => {
            let number = random.u8(0..3);
            node(server, random, number);
        }
        70..78 => endpoints(server, random),
        78..86 => meddle(server, random),
        86..89 => server.compact(),
        89..92 => instances.kill(instance),
        92..94 => instances.end(instance),
        94..98 => instances.start(instance),
        _ => instances.set_clock(instance, random.i64(-7_200..7_200)),
    }
}

fn service(server: &Server, random: &mut Rng, has_keepers: bool) {
    let name = format!("s{}", random.u8(0..3));
    if random.u8(0..5) == 0 {
        let propagation = ["Background", "Foreground", "Orphan"][random.usize(0..3)];
        return match has_keepers {
            true => server.delete("services", &name, propagation),
            // Nobody would do what the others wait for.
            false => server.put("services", &name, None),
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
    // Those whose number is odd have Endpoints of their own. A Service does not change sides: what its
    // slices say is then nobody's business.
    if !name.ends_with('1') {
        spec["selector"] = json!({"app": format!("a{}", random.u8(0..2))});
    }
    let labels = json!({"team": format!("t{}", random.u8(0..2))});
    let known = server.object("services", &name);
    // One that is being deleted goes on being so.
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
        // What its Node's agent says of it whenever it is heard.
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

/// Endpoints that a user writes.
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

/// Somebody changes or deletes what the controllers wrote.
fn meddle(server: &Server, random: &mut Rng) {
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
