//! Rows of Pods: the one word that tells how a Pod is doing takes some finding.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, or, wide};
use crate::kinds::object::is_final_phase;
use crate::machinery::tree::{child, flag_if_set, is_set, items, number, text};

pub(super) static POD: Layout = Layout {
    columns: &[
        NAME,
        column("Ready", "Containers that are ready, of all."),
        column("Status", "How the Pod is doing."),
        column("Restarts", "Restarts of containers, and the last one."),
        AGE,
        wide("IP", "The Pod's address."),
        wide("Node", "The Node that the Pod runs on."),
        wide("Nominated Node", "The Node that is being freed for the Pod."),
        wide("Readiness Gates", "Readiness gates that hold, of all."),
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
            state.restarts_shown(now).into(),
            age::of(pod, now),
            or(or(address, text(status, "podIP")), NONE).into(),
            or(text(spec, "nodeName"), NONE).into(),
            or(text(status, "nominatedNodeName"), NONE).into(),
            readiness_gates(spec, status).into(),
        ]
    },
};

/// What is counted and found while the container statuses are read.
#[derive(Default)]
struct State {
    reason: String,
    containers: usize,
    ready: usize,
    restarts: Restarts,
}

/// Restarts of containers, and when the last of them ended; RFC 3339 texts in UTC compare as times.
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
            .filter(|c| is_sidecar(c))
            .count();
        let mut state = Self {
            reason: or(text(status, "reason"), text(status, "phase")).to_owned(),
            containers: items(spec, "containers").len() + sidecars,
            ..Self::default()
        };
        if condition(status, "PodScheduled").is_some_and(|c| text(c, "reason") == "SchedulingGated") {
            "SchedulingGated".clone_into(&mut state.reason);
        }
        let (initializing, sidecar_restarts) = state.read_init_containers(spec, status);
        if !initializing || is_true(condition(status, "Initialized")) {
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

    /// Reads init containers up to the first that is not done. Says whether there is such a one, and how often
    /// sidecars restarted.
    fn read_init_containers(&mut self, spec: &Value, status: &Value) -> (bool, Restarts) {
        let specs = items(spec, "initContainers");
        let mut sidecar_restarts = Restarts::default();
        for (index, container) in items(status, "initContainerStatuses").iter().enumerate() {
            self.restarts.add(container);
            let sidecar = specs
                .iter()
                .any(|c| text(c, "name") == text(container, "name") && is_sidecar(c));
            if sidecar {
                sidecar_restarts.add(container);
            }
            let state = child(container, "state");
            let (terminated, waiting) = (child(state, "terminated"), child(state, "waiting"));
            let waits_for = text(waiting, "reason");
            if !terminated.is_null() && number(terminated, "exitCode") == 0 {
                continue;
            }
            if sidecar && flag_if_set(container, "started") == Some(true) {
                self.ready += usize::from(flag_if_set(container, "ready") == Some(true));
                continue;
            }
            self.reason = if !terminated.is_null() {
                format!("Init:{}", ended_because(terminated))
            } else if !waits_for.is_empty() && waits_for != "PodInitializing" {
                format!("Init:{waits_for}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return (true, sidecar_restarts);
        }
        (false, sidecar_restarts)
    }

    fn read_containers(&mut self, status: &Value) {
        let mut runs = false;
        for container in items(status, "containerStatuses").iter().rev() {
            self.restarts.add(container);
            let state = child(container, "state");
            let (terminated, waits_for) = (
                child(state, "terminated"),
                text(child(state, "waiting"), "reason"),
            );
            if !waits_for.is_empty() {
                waits_for.clone_into(&mut self.reason);
            } else if !terminated.is_null() {
                self.reason = ended_because(terminated);
            } else if flag_if_set(container, "ready") == Some(true) && is_set(state, "running") {
                runs = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && runs {
            let ready = is_true(condition(status, "Ready"));
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn restarts_shown(&self, now: Timestamp) -> String {
        let Restarts { count, last } = &self.restarts;
        if *count == 0 || last.is_empty() {
            count.to_string()
        } else {
            format!("{count} ({} ago)", age::since(last, now))
        }
    }
}

/// An init container that keeps running beside the others.
fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn ended_because(terminated: &Value) -> String {
    match (text(terminated, "reason"), number(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn condition<'s>(status: &'s Value, kind: &str) -> Option<&'s Value> {
    items(status, "conditions")
        .iter()
        .find(|c| text(c, "type") == kind)
}

fn is_true(condition: Option<&Value>) -> bool {
    condition.is_some_and(|c| text(c, "status") == "True")
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = items(spec, "readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let holds = |gate: &&Value| is_true(condition(status, text(gate, "conditionType")));
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}
