use std::path::Path;
use std::sync::Mutex;

use client::Client;
use client::events::EventQueue;
use ipnet::IpNet;

use super::*;
use crate::confinement::user_namespaces::IdMaps;
use crate::confinement::user_namespaces::ranges::RangePool;
use crate::containers::environment::Capacity;
use crate::containers::services::Services;
use crate::network::addresses::AddressPool;
use crate::network::resolv_conf::ResolvConf;
use crate::pods::state_directory::StateDirectory;
use crate::resources::cgroups::CgroupError;
use crate::settings::Settings;

pub(crate) const UID: &str = "5c6ef2b8-2f2d-4d35-9d5b-6f7f3f6e9a01";

/// Returns the context of an agent without an API server, whose node has one Pod range.
pub(crate) fn context(directory: &Path) -> Arc<Context> {
    let client = Client::new(client::Config {
        server: "https://192.0.2.1:6443".to_owned(),
        ..client::Config::default()
    })
    .unwrap();
    let range: IpNet = "10.244.0.0/24".parse().unwrap();
    let settings = Settings::new("node-1".to_owned(), directory.to_owned());
    let (services, watch) = Services::watch(&client);
    watch.abort();
    Arc::new(Context {
        services,
        client,
        host_ips: Vec::new(),
        host_resolv_conf: ResolvConf::parse(""),
        addresses: Mutex::new(AddressPool::new(vec![range]).unwrap()),
        host_ports: Arc::default(),
        id_ranges: Mutex::new(RangePool::new(settings.pods_max, &IdMaps::own())),
        settings,
        state: StateDirectory::open(directory).unwrap(),
        events: EventQueue::discarding(),
        cgroups: Err(CgroupError::None),
        capacity: Capacity {
            cpus: 1,
            memory_bytes: 1 << 30,
        },
        probe_tls: Arc::new(trust::client_config_without_verification().unwrap()),
        images: None,
        status_pace: Arc::default(),
    })
}

/// Returns a sync loop with one worker, whose task panics, and the Pod's record on disk.
fn panicking_worker(context: &Arc<Context>) -> (SyncLoop, Record) {
    let record = Record {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: UID.to_owned(),
        addresses: context.addresses().allocate().unwrap(),
        ..Record::default()
    };
    context.state.pod(UID).unwrap().create(&record).unwrap();
    let object = json!({"metadata": {"namespace": "default", "name": "web", "uid": UID}});
    let pod: Pod = serde_json::from_value(object).unwrap();
    let key = pod.metadata().key();
    let mut sync_loop = SyncLoop::new(Arc::clone(context), Leftovers::new());
    let (desired, _) = watch::channel(DesiredState::Present(Arc::new(pod)));
    let task = sync_loop
        .tasks
        .spawn(async { panic!("planted panic of a worker") });
    let worker = Worker {
        key,
        desired,
        task: task.id(),
        has_failed_deletion: false,
    };
    sync_loop.workers.insert(UID.to_owned(), worker);
    (sync_loop, record)
}

#[tokio::test]
async fn panicking_worker_leaves_neither_record_nor_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path());
    let (mut sync_loop, record) = panicking_worker(&context);
    let ended = sync_loop.tasks.join_next().await.unwrap();
    sync_loop.worker_ended(ended);
    // The Pod is deleted from the API, so that it does not start again.
    let key = sync_loop.workers[UID].key.clone();
    sync_loop.remove_pods(&key, None);
    let restarted = sync_loop.tasks.join_next().await.unwrap();
    assert_eq!(restarted.as_deref().unwrap(), UID);
    sync_loop.worker_ended(restarted);
    assert!(sync_loop.workers.is_empty());
    assert!(!context.state.pod(UID).unwrap().path().exists());
    assert!(context.addresses().reserve(&record.addresses));
}

#[tokio::test]
async fn pod_whose_worker_panicked_has_a_worker_again() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path());
    let (mut sync_loop, _) = panicking_worker(&context);
    let ended = sync_loop.tasks.join_next().await.unwrap();
    sync_loop.worker_ended(ended);
    assert_eq!(sync_loop.tasks.len(), 1);
    assert!(!sync_loop.workers[UID].desired.is_closed());
}

#[test]
fn pod_that_has_to_end_does_not_wait_for_its_restart() {
    let present = |metadata| {
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        DesiredState::Present(Arc::new(pod))
    };
    let running = present(json!({"name": "web"}));
    let deleted = present(json!({"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    for is_repeated in [false, true] {
        assert!(!ends_delay(&running, is_repeated));
        assert!(ends_delay(&DesiredState::Removed, is_repeated));
        assert!(ends_delay(&DesiredState::AgentShutdown, is_repeated));
    }
    assert!(ends_delay(&deleted, false));
    // A panic that each deletion repeats costs little.
    assert!(!ends_delay(&deleted, true));
}

#[tokio::test]
async fn second_panic_during_a_deletion_is_a_repeated_one() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path());
    let (mut sync_loop, _) = panicking_worker(&context);
    let object = json!({"metadata": {
        "namespace": "default", "name": "web", "uid": UID, "deletionTimestamp": "2026-01-01T00:00:00Z",
    }});
    let pod: Pod = serde_json::from_value(object).unwrap();
    let worker = &sync_loop.workers[UID];
    worker.desired.send_replace(DesiredState::Present(Arc::new(pod)));
    assert!(!worker.has_failed_deletion);
    let ended = sync_loop.tasks.join_next().await.unwrap();
    sync_loop.worker_ended(ended);
    assert!(sync_loop.workers[UID].has_failed_deletion);
}

#[tokio::test]
async fn finished_pods_leave_their_places_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path());
    let pods_max = context.settings.pods_max;
    let mut sync_loop = SyncLoop::new(context, Leftovers::new());
    let task = sync_loop.tasks.spawn(async { String::new() }).id();
    for number in 0..pods_max {
        let uid = number.to_string();
        let object = json!({"metadata": {"namespace": "default", "name": uid, "uid": uid}});
        let pod: Pod = serde_json::from_value(object).unwrap();
        let worker = Worker {
            key: pod.metadata().key(),
            desired: watch::channel(DesiredState::Present(Arc::new(pod))).0,
            task,
            has_failed_deletion: false,
        };
        sync_loop.workers.insert(uid, worker);
    }
    assert!(sync_loop.is_full());
    let object = json!({
        "metadata": {"namespace": "default", "name": "0", "uid": "0"}, "status": {"phase": "Succeeded"},
    });
    let finished: Pod = serde_json::from_value(object).unwrap();
    let worker = &sync_loop.workers["0"];
    worker
        .desired
        .send_replace(DesiredState::Present(Arc::new(finished)));
    assert!(!sync_loop.is_full());
}
