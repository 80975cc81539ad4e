use std::time::Instant;

use api::object::ObjectMeta;
use reconcile::queue::BackOff;

use super::*;
use crate::multicluster::desired::Import;
use crate::multicluster::tests::{Source, export, service, slice};

struct Fixture {
    controller: MultiClusterController,
    queue: Queue<ObjectKey>,
    now: Instant,
}

impl Fixture {
    /// Clusters `east`, which is this one and is synced, and `west`, which is not.
    fn new() -> Self {
        let id = |name: &str| name.parse::<ClusterId>().expect("a name");
        let mut fixture = Self {
            controller: MultiClusterController::new(
                WallClock::system(),
                id("east"),
                [id("west")].into_iter(),
            ),
            queue: Queue::new(BackOff::default()),
            now: Instant::now(),
        };
        fixture.sync(0);
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: "shop".to_owned(),
                ..ObjectMeta::default()
            },
        };
        fixture.apply(Change::Namespace(Event::Applied(namespace)));
        fixture.apply(Change::Namespace(Event::Synced));
        fixture.apply(Change::Import(Event::Synced));
        assert!(!fixture.controller.is_synced());
        fixture.apply(Change::Mirrored(Event::Synced));
        assert!(
            fixture.controller.is_synced(),
            "other clusters are not waited for"
        );
        assert!(fixture.taken().is_empty());
        fixture
    }

    fn sync(&mut self, number: ClusterNumber) {
        self.apply(Change::Export(number, Event::Synced));
        self.apply(Change::Service(number, Event::Synced));
        self.apply(Change::Slice(number, Event::Synced));
    }

    fn apply(&mut self, change: Change) {
        self.controller.apply_change(change, &mut self.queue, self.now);
    }

    /// Takes all keys from the queue.
    fn taken(&mut self) -> Vec<String> {
        let mut keys = Vec::new();
        while let Some((key, _)) = self.queue.take(self.now) {
            self.queue.done(&key, self.now);
            keys.push(key.to_string());
        }
        keys
    }

    fn job(&mut self) -> Option<DesiredImport> {
        match self
            .controller
            .reconcile(&ObjectKey::new("shop", "web"), self.now)
        {
            Action::Run(desired) => Some(desired),
            Action::Done => None,
            Action::RequeueAfter(_) => panic!("no delay is needed"),
        }
    }
}

#[test]
fn only_exported_services_are_reconciled() {
    let mut fixture = Fixture::new();
    fixture.sync(1);
    fixture.apply(Change::Service(1, Event::Applied(service(&[("http", 80)]))));
    fixture.apply(Change::Slice(1, Event::Applied(slice(&[1]))));
    assert!(fixture.taken().is_empty());
    fixture.apply(Change::Export(1, Event::Applied(export(1))));
    assert_eq!(fixture.taken(), ["shop/web"]);
    fixture.apply(Change::Slice(1, Event::Applied(slice(&[1, 2]))));
    assert_eq!(fixture.taken(), ["shop/web"]);
    let desired = fixture.job().expect("a job");
    assert!(matches!(desired.import, Import::Present(_)));
}

#[test]
fn import_is_held_until_its_cluster_is_read() {
    let mut fixture = Fixture::new();
    let mut import = ServiceImport::default();
    import.metadata.namespace = "shop".to_owned();
    import.metadata.name = "web".to_owned();
    import.status.clusters = vec![api::object::ClusterStatus {
        cluster: "west".to_owned(),
    }];
    fixture.apply(Change::Import(Event::Applied(import)));
    let held = fixture
        .controller
        .desired(&ObjectKey::new("shop", "web"))
        .expect("a decision");
    assert!(matches!(held.import, Import::Held { .. }));
    fixture.taken();
    fixture.sync(1);
    assert_eq!(fixture.taken(), ["shop/web"]);
    let read = fixture
        .controller
        .desired(&ObjectKey::new("shop", "web"))
        .expect("a decision");
    assert_eq!(read.import, Import::Absent);
}

#[test]
fn events_of_namespaces_and_clusters_concern_their_imports() {
    let mut fixture = Fixture::new();
    fixture.apply(Change::Export(0, Event::Applied(export(1))));
    fixture.taken();
    fixture.apply(Change::Namespace(Event::Deleted(ObjectKey::new("", "other"))));
    assert!(fixture.taken().is_empty());
    fixture.apply(Change::Namespace(Event::Deleted(ObjectKey::new("", "shop"))));
    assert_eq!(fixture.taken(), ["shop/web"]);
    fixture.apply(Change::Reachability(1, Reachability::Unreachable));
    assert_eq!(fixture.taken(), ["shop/web"]);
}

#[test]
fn changed_derived_service_concerns_its_import() {
    let mut fixture = Fixture::new();
    let source = Source::exporting("east", 1, &[]);
    let mut derived = source.service.expect("a Service");
    derived.metadata.name = "derived-web".to_owned();
    let label = SERVICE_NAME_LABEL.to_owned();
    derived.metadata.labels.insert(label, "web".to_owned());
    fixture.apply(Change::Service(0, Event::Applied(derived.clone())));
    assert_eq!(fixture.taken(), ["shop/web"]);
    fixture.apply(Change::Service(0, Event::Deleted(derived.metadata.key())));
    assert_eq!(fixture.taken(), ["shop/web"]);
}
