use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::pods::leftovers;
use crate::pods::state_directory::Record;
use crate::pods::sync_loop::tests::{UID, context};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// Pod with one container and the restart policy.
fn pod(restart_policy: &str) -> Arc<Pod> {
    let object = json!({
        "metadata": {"namespace": "default", "name": "web", "uid": UID},
        "spec": {"restartPolicy": restart_policy, "containers": [{"name": "a", "image": "shell"}]},
        "status": {"phase": "Running"},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

/// Writes the record of the Pod and the checkpoint of its running container.
fn write_state(context: &Context, pod: &Pod) {
    let directory = context.state.pod(UID).unwrap();
    let record = Record {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: UID.to_owned(),
        addresses: context.addresses().allocate().unwrap(),
        ..Record::default()
    };
    directory.create(&record).unwrap();
    let mut containers = track_containers(pod, at(0));
    containers.mark_started("a", at(0));
    directory.write_checkpoint(&containers.checkpoint()).unwrap();
}

#[tokio::test]
async fn pod_without_restarts_does_not_run_again_after_a_panic_of_its_worker() {
    for (policy, phase, restarts) in [("Never", Phase::Failed, false), ("Always", Phase::Running, true)] {
        let directory = tempfile::tempdir().unwrap();
        let (context, pod) = (context(directory.path()), pod(policy));
        write_state(&context, &pod);
        let (record, leftover) = leftovers::stop_after_panic(&context, UID).await.unwrap();
        assert_eq!(leftover.addresses, record.addresses);
        let mut worker = PodWorker::new(Arc::clone(&context), pod, None).unwrap();
        worker.adopt(leftover).await;
        assert_eq!(worker.containers.phase(), phase, "{policy}");
        assert_eq!(worker.containers.next_due().is_some(), restarts, "{policy}");
        // The Pod keeps its addresses.
        assert_eq!(worker.sandbox.addresses, record.addresses);
        assert!(!context.addresses().reserve(&record.addresses));
    }
}

#[tokio::test]
async fn container_that_started_after_the_last_checkpoint_counts_as_started() {
    let directory = tempfile::tempdir().unwrap();
    let (context, pod) = (context(directory.path()), pod("Never"));
    let mut worker = PodWorker::new(context, pod, None).unwrap();
    let leftover = Leftover {
        sandbox: None,
        containers: BTreeMap::from([("a".to_owned(), ContainerState::Running { started_at: at(0) })]),
        addresses: Vec::new(),
        users: None,
        runs_images: false,
        control_groups: Vec::new(),
    };
    worker.adopt(leftover).await;
    assert_eq!(worker.containers.phase(), Phase::Failed);
    assert_eq!(worker.containers.next_due(), None);
}
