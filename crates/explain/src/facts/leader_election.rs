//! Applications of which only the elected leader is ready, by design.

use serde_json::Value;

use crate::kind::Kind;
use crate::subject::Subject;
use crate::views::{Pod, list};

/// Parts of flags and variables of applications that elect a leader, in lower case.
const ELECTION_FLAGS: [&str; 3] = ["leader-elect", "leaderelect", "leader_elect"];

/// Returns true if exactly one selected Pod is ready and the application elects a leader. A Lease names the ready Pod,
/// or the containers have a flag of an election.
pub(crate) fn is_leader_only(subject: &Subject<'_>) -> bool {
    let mut ready = subject.active().filter(|pod| pod.is_ready());
    let (Some(leader), None) = (ready.next(), ready.next()) else {
        return false;
    };
    let never_restarted = subject.active().all(|pod| {
        let mut statuses = pod.container_statuses();
        statuses.all(|status| status["restartCount"].as_i64().unwrap_or_default() == 0)
    });
    never_restarted && (holds_lease(subject, leader) || subject.active().all(elects_leader))
}

fn holds_lease(subject: &Subject<'_>, pod: Pod<'_>) -> bool {
    let mut leases = subject.world.in_namespace(Kind::Lease, &pod.0.namespace);
    leases.any(|lease| lease.text("/spec/holderIdentity").starts_with(&pod.0.name))
}

fn elects_leader(pod: Pod<'_>) -> bool {
    let is_flag = |text: &str| {
        let text = text.to_ascii_lowercase();
        ELECTION_FLAGS.iter().any(|flag| text.contains(flag)) && !text.ends_with("=false")
    };
    pod.containers().any(|container| {
        let arguments = ["command", "args"].map(|field| list(container, field));
        let names = list(container, "env").iter().map(|variable| &variable["name"]);
        let mut texts = arguments
            .into_iter()
            .flatten()
            .chain(names)
            .filter_map(Value::as_str);
        texts.any(is_flag)
    })
}
