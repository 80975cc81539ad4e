//! Deployments and their Pods: events and expected results.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::expected::of;
use crate::history::Plan;
use crate::instance::Instances;
use crate::server::{Faults, Key, Objects, Server};

/// Interval at which agents check their Pods.
const AGENT_PERIOD: Duration = Duration::from_millis(300);
/// Desired Pods of the strictly checked Deployment.
const REPLICAS: i64 = 4;

impl Plan {
    /// Returns a history of Deployments. In every other one only rollouts and network faults occur, so that
    /// the bounds hold strictly.
    pub(crate) fn of_workloads(seed: u64) -> Self {
        let plan = Self::of(seed ^ 0xdeb1_0001);
        let is_strict = seed.is_multiple_of(2);
        Self {
            seed,
            instances: if is_strict { 1 } else { plan.instances },
            // An instance may still shut down when the next one starts.
            has_election: is_strict || plan.has_election,
            has_independent_controllers: false,
            has_workloads: true,
            is_strict,
            faults: Faults {
                // No request outlives its sender for long.
                latency: plan.faults.latency.min(Duration::from_secs(1)),
                ..plan.faults
            },
            ..plan
        }
    }
}

/// Runs the Pods of agents until the end of the history.
pub(crate) fn start_agents(server: &Server, seed: u64) {
    let (server, mut random) = (server.clone(), Rng::with_seed(seed ^ 0xa6e7));
    tokio::spawn(async move {
        loop {
            for ((_, _, name), pod) in of(&server.objects(), "pods") {
                attend(&server, &mut random, name, pod);
            }
            tokio::time::sleep(AGENT_PERIOD).await;
        }
    });
}

fn attend(server: &Server, random: &mut Rng, name: &str, pod: &Value) {
    if random.bool() {
        return;
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        server.put("pods", name, None);
    } else if pod["status"]["phase"].is_null() {
        let status = json!({"phase": "Pending"});
        server.patch(
            "pods",
            name,
            &json!({"spec": {"nodeName": format!("node{}", random.u8(0..3))}, "status": status}),
        );
    } else if pod["status"]["phase"] == "Pending" {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "1970-02-11T16:00:00Z"});
        server.patch(
            "pods",
            name,
            &json!({"status": {"phase": "Running", "conditions": [ready]}}),
        );
    }
}

/// Plays one event.
pub(crate) fn event(plan: &Plan, server: &Server, instances: &mut Instances, random: &mut Rng) {
    let instance = random.usize(0..instances.len());
    match random.u8(0..100) {
        0..40 => roll_out(server, random, plan.is_strict),
        40..48 => server.compact(),
        48..52 => instances.end(instance),
        52..62 => instances.start(instance),
        62..66 => instances.set_clock(instance, random.i64(-7_200..7_200)),
        // The following events break bounds that no controller can keep.
        _ if plan.is_strict => {}
        66..78 => scale(server, random),
        78..88 => pod_ends(server, random),
        88..94 => delete(server, random),
        _ => instances.kill(instance),
    }
}

fn roll_out(server: &Server, random: &mut Rng, is_strict: bool) {
    let number = random.u8(0..2);
    let name = format!("d{number}");
    let image = random.u8(0..4);
    let Some(deployment) = server.object("deployments", &name) else {
        return server.put("deployments", &name, Some(new(&name, image, is_strict, random)));
    };
    if deployment["metadata"]["deletionTimestamp"].is_null() {
        let template = json!({"spec": {"image": image}});
        server.patch("deployments", &name, &json!({"spec": {"template": template}}));
    }
}

fn new(name: &str, image: u8, is_strict: bool, random: &mut Rng) -> Value {
    let rolling = [(1, 0), (0, 1), (2, 1)][random.usize(0..3)];
    let rolling = json!({"maxSurge": rolling.0, "maxUnavailable": rolling.1});
    let strategy = if !is_strict && random.u8(0..4) == 0 {
        json!({"type": "Recreate"})
    } else {
        json!({"type": "RollingUpdate", "rollingUpdate": rolling})
    };
    let labels = json!({ "app": name });
    json!({
        "metadata": {},
        "spec": {
            "replicas": if is_strict { REPLICAS } else { random.i64(0..5) },
            "selector": {"matchLabels": labels},
            "strategy": strategy,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": 60,
            "template": {"metadata": {"labels": labels}, "spec": {"image": image}},
        },
    })
}

fn scale(server: &Server, random: &mut Rng) {
    let replicas = random.i64(0..6);
    let name = format!("d{}", random.u8(0..2));
    server.patch("deployments", &name, &json!({"spec": {"replicas": replicas}}));
}

/// Deletes a Pod or makes it fail.
fn pod_ends(server: &Server, random: &mut Rng) {
    let objects = server.objects();
    let pods: Vec<&Key> = of(&objects, "pods").map(|(key, _)| key).collect();
    let Some((_, _, name)) = random.choice(pods) else {
        return;
    };
    match random.u8(0..3) {
        0 => server.put("pods", name, None),
        1 => server.patch("pods", name, &json!({"status": {"phase": "Failed"}})),
        _ => {
            let failing = json!({"type": "Ready", "status": "False"});
            server.patch(
                "pods",
                name,
                &json!({"status": {"phase": "Pending", "conditions": [failing]}}),
            );
        }
    }
}

fn delete(server: &Server, random: &mut Rng) {
    let propagation = ["Background", "Foreground", "Orphan"][random.usize(0..3)];
    let name = format!("d{}", random.u8(0..2));
    if random.bool() {
        server.delete("deployments", &name, propagation)
    } else {
        let objects = server.objects();
        let sets: Vec<&Key> = of(&objects, "replicasets").map(|(key, _)| key).collect();
        if let Some((_, _, name)) = random.choice(sets) {
            server.delete("replicasets", name, propagation);
        }
    }
}

/// Returns the differences between observed and expected state.
pub(crate) fn differences(objects: &Objects) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((_, _, name), deployment) in of(objects, "deployments") {
        if !deployment["metadata"]["deletionTimestamp"].is_null() {
            wrong.push(format!("{name} is still being deleted"));
            continue;
        }
        let sets =
            || of(objects, "replicasets").filter(|(_, set)| owner_of(set) == deployment["metadata"]["uid"]);
        let of_template =
            |set: &Value| set["spec"]["template"]["spec"] == deployment["spec"]["template"]["spec"];
        let desired = deployment["spec"]["replicas"].as_i64().unwrap_or(0);
        let mut kept = 0;
        for ((_, _, set_name), set) in sets() {
            let pods = active(objects, set).len() as i64;
            let is_newest = of_template(set);
            kept += i64::from(!is_newest);
            let right = if is_newest { desired } else { 0 };
            if pods != right || set["status"]["replicas"] != right {
                wrong.push(format!(
                    "{set_name} has {pods} Pods, not {right}, and facts {}",
                    set["status"]
                ));
            }
        }
        if !sets().any(|(_, set)| of_template(set)) {
            wrong.push(format!("{name} has no ReplicaSet of its template"));
        }
        if kept > 2 {
            wrong.push(format!("{name} keeps {kept} old ReplicaSets"));
        }
        let reported = |field: &str| deployment["status"][field].as_i64().unwrap_or(0);
        if ["replicas", "updatedReplicas", "availableReplicas"]
            .iter()
            .any(|field| reported(field) != desired)
        {
            wrong.push(format!(
                "{name} is to have {desired} Pods and facts {}",
                deployment["status"]
            ));
        }
        if deployment["status"]["observedGeneration"] != deployment["metadata"]["generation"] {
            wrong.push(format!("{name} does not say that it was seen"));
        }
    }
    wrong
}

/// Checks a Pod that a controller creates or, with `is_deleted`, deletes in a strict history.
pub(crate) fn check(objects: &Objects, pod: &Value, is_deleted: bool) -> Option<String> {
    let app = &pod["metadata"]["labels"]["app"];
    let deployment = objects.get(&("deployments".to_owned(), "n".to_owned(), app.as_str()?.to_owned()))?;
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    let pods = || {
        of(objects, "pods")
            .map(|(_, pod)| pod)
            .filter(|pod| pod["metadata"]["labels"]["app"] == *app)
    };
    let live = || pods().filter(|pod| is_active(pod));
    if !is_deleted {
        let most = REPLICAS + rolling["maxSurge"].as_i64().unwrap_or(0);
        let count = live().count() as i64 + 1;
        return (count > most).then(|| format!("{app} gets its Pod number {count} of at most {most}"));
    }
    let is_available = |pod: &&Value| pod["status"]["phase"] == "Running";
    let fewest = REPLICAS - rolling["maxUnavailable"].as_i64().unwrap_or(0);
    let available = live().filter(is_available).count() as i64;
    let falls = is_available(&pod) && is_active(pod) && available <= fewest;
    falls.then(|| format!("{app} loses an available Pod of {available}, and needs {fewest}"))
}

fn active<'a>(objects: &'a Objects, set: &Value) -> Vec<&'a Value> {
    let own = of(objects, "pods").map(|(_, pod)| pod);
    own.filter(|pod| owner_of(pod) == set["metadata"]["uid"] && is_active(pod))
        .collect()
}

fn is_active(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] != "Failed"
}

fn owner_of(object: &Value) -> Value {
    object["metadata"]["ownerReferences"][0]["uid"].clone()
}
