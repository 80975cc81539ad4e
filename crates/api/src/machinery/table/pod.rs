//! Tables of Pods, with the status that kubectl derives from conditions and container statuses.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, or, wide};
use crate::kinds::object::is_final_phase;
use crate::machinery::tree::{child, flag_if_set, is_set, items, number, text};

pub(super) static POD: Layout = Layout {
    columns: &[
        NAME,
        column("Ready", "Number of ready containers and all containers."),
        column("Status", "Phase, or reason of the current state."),
        column(
            "Restarts",
            "Number of container restarts, and time since the last one.",
        ),
        AGE,
        wide("IP", "Address of the Pod."),
        wide("Node", "Node of the Pod."),
        wide("Nominated Node", "Nominated Node."),
        wide(
            "Readiness Gates",
            "Number of true readiness gates and all readiness gates.",
        ),
    ],
    cells: |pod, now| {
        let (spec, status) = (child(pod, "spec"), child(pod, "status"));
        let state = State::of(pod);
        let address = items(status, "podIPs")
            .first()
            .map_or("", |entry| text(entry, "ip"));
        vec![
            name(pod),
            format!("{}/{}", state.ready, state.containers).into(),
            state.reason.clone().into(),
            state.format_restarts(now).into(),
            age::of(pod, now),
            or(or(address, text(status, "podIP")), NONE).into(),
            or(text(spec, "nodeName"), NONE).into(),
            or(text(status, "nominatedNodeName"), NONE).into(),
            readiness_gates(spec, status).into(),
        ]
    },
};

/// Status of a Pod, computed from its container statuses.
#[derive(Default)]
struct State {
    reason: String,
    containers: usize,
    ready: usize,
    restarts: Restarts,
}

/// Number of container restarts, and end of the last terminated one. RFC 3339 timestamps in UTC sort as strings.
#[derive(Clone, Default)]
struct Restarts {
    count: i64,
    last: String,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += number(status, "restartCount");
        let ended = child(child(status, "lastState"), "terminated");
        let ended = text(ended, "finishedAt");
        if ended > self.last.as_str() {
            self.last = ended.to_owned();
        }
    }
}

impl State {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (child(pod, "spec"), child(pod, "status"));
        let sidecars = items(spec, "initContainers")
            .iter()
            .filter(|container| is_sidecar(container))
            .count();
        let mut state = Self {
            reason: or(text(status, "reason"), text(status, "phase")).to_owned(),
            containers: items(spec, "containers").len() + sidecars,
            ..Self::default()
        };
        if condition(status, "PodScheduled")
            .is_some_and(|scheduled| text(scheduled, "reason") == "SchedulingGated")
        {
            "SchedulingGated".clone_into(&mut state.reason);
        }
        let (is_initializing, sidecar_restarts) = state.read_init_containers(spec, status);
        if !is_initializing || is_true(condition(status, "Initialized")) {
            state.restarts = sidecar_restarts;
            state.read_containers(status);
        }
        if is_set(child(pod, "metadata"), "deletionTimestamp") {
            if text(status, "reason") == "NodeLost" {
                "Unknown".clone_into(&mut state.reason);
            } else if !is_final_phase(text(status, "phase")) {
                "Terminating".clone_into(&mut state.reason);
            }
        }
        state
    }

    /// Reads init containers up to the first one that is not complete. Returns true if there is one, and the restarts
    /// of sidecars.
    fn read_init_containers(&mut self, spec: &Value, status: &Value) -> (bool, Restarts) {
        let specs = items(spec, "initContainers");
        // A set, because a node can report as many statuses as a Pod has containers.
        let sidecars: HashSet<&str> = specs
            .iter()
            .filter(|spec| is_sidecar(spec))
            .map(|spec| text(spec, "name"))
            .collect();
        let mut sidecar_restarts = Restarts::default();
        for (index, container) in items(status, "initContainerStatuses").iter().enumerate() {
            self.restarts.add(container);
            let is_sidecar_status = sidecars.contains(text(container, "name"));
            if is_sidecar_status {
                sidecar_restarts.add(container);
            }
            let state = child(container, "state");
            let (terminated, waiting) = (child(state, "terminated"), child(state, "waiting"));
            let waiting_reason = text(waiting, "reason");
            if !terminated.is_null() && number(terminated, "exitCode") == 0 {
                continue;
            }
            if is_sidecar_status && flag_if_set(container, "started") == Some(true) {
                self.ready += usize::from(flag_if_set(container, "ready") == Some(true));
                continue;
            }
            self.reason = if !terminated.is_null() {
                format!("Init:{}", termination_reason(terminated))
            } else if !waiting_reason.is_empty() && waiting_reason != "PodInitializing" {
                format!("Init:{waiting_reason}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return (true, sidecar_restarts);
        }
        (false, sidecar_restarts)
    }

    fn read_containers(&mut self, status: &Value) {
        let mut is_running = false;
        for container in items(status, "containerStatuses").iter().rev() {
            self.restarts.add(container);
            let state = child(container, "state");
            let (terminated, waiting_reason) = (
                child(state, "terminated"),
                text(child(state, "waiting"), "reason"),
            );
            if !waiting_reason.is_empty() {
                waiting_reason.clone_into(&mut self.reason);
            } else if !terminated.is_null() {
                self.reason = termination_reason(terminated);
            } else if flag_if_set(container, "ready") == Some(true) && is_set(state, "running") {
                is_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && is_running {
            let ready = is_true(condition(status, "Ready"));
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn format_restarts(&self, now: Timestamp) -> String {
        let Restarts { count, last } = &self.restarts;
        if *count == 0 || last.is_empty() {
            count.to_string()
        } else {
            format!("{count} ({} ago)", age::since(last, now))
        }
    }
}

/// Returns true for sidecars: init containers that keep running alongside the other containers.
fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn termination_reason(terminated: &Value) -> String {
    match (text(terminated, "reason"), number(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn condition<'s>(status: &'s Value, kind: &str) -> Option<&'s Value> {
    items(status, "conditions")
        .iter()
        .find(|condition| text(condition, "type") == kind)
}

fn is_true(condition: Option<&Value>) -> bool {
    condition.is_some_and(|condition| text(condition, "status") == "True")
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = items(spec, "readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    // A map, because a Pod can have as many gates as conditions. The first condition of a type counts.
    let mut conditions: HashMap<&str, &Value> = HashMap::new();
    for condition in items(status, "conditions") {
        conditions.entry(text(condition, "type")).or_insert(condition);
    }
    let is_satisfied = |gate: &&Value| is_true(conditions.get(text(gate, "conditionType")).copied());
    format!("{}/{}", gates.iter().filter(is_satisfied).count(), gates.len())
}
