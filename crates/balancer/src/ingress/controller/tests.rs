use std::time::Duration;

use reconcile::queue::BackOff;

use super::*;

struct Fixture {
    controller: IngressController,
    queue: Queue<Subject>,
    now: Instant,
}

impl Fixture {
    fn new() -> Self {
        let back_off = BackOff {
            first: Duration::from_millis(5),
            max: Duration::from_secs(1),
        };
        Self {
            controller: IngressController::default(),
            queue: Queue::new(back_off),
            now: Instant::now(),
        }
    }

    fn apply(&mut self, change: Change) {
        self.controller.apply_change(change, &mut self.queue, self.now);
    }

    /// Reconciles everything in the queue and returns the jobs.
    fn jobs(&mut self) -> Vec<Job> {
        let mut jobs = Vec::new();
        while let Some((key, _)) = self.queue.take(self.now) {
            if let Action::Run(job) = self.controller.reconcile(&key, self.now) {
                jobs.push(job);
            }
            self.queue.done(&key, self.now);
        }
        jobs
    }
}

fn class(controller: &str) -> IngressClass {
    serde_json::from_value(json!({
        "metadata": {"name": "portolan", "uid": "1"}, "spec": {"controller": controller},
    }))
    .expect("a class")
}

fn ingress(status: Value) -> Ingress {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "2"},
        "spec": {"ingressClassName": "portolan"},
        "status": {"loadBalancer": {"ingress": status}},
    }))
    .expect("an Ingress")
}

/// Service of the class with an address, whose owner has this UID.
fn service(uid: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"namespace": "kube-system", "name": "ingress-portolan",
                     "ownerReferences": [{"kind": "IngressClass", "name": "portolan", "uid": uid}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "Proxy"}]}},
    }))
    .expect("a Service")
}

fn status_patch(entries: Value) -> Job {
    Job::Patch {
        path: "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web/status".to_owned(),
        patch: json!({"metadata": {"uid": "2"}, "status": {"loadBalancer": {"ingress": entries}}}),
    }
}

#[test]
fn class_with_ingresses_gets_a_service_that_belongs_to_it() {
    let mut fixture = Fixture::new();
    fixture.apply(Change::Class(Event::Applied(class(api::ingress::CONTROLLER))));
    assert_eq!(fixture.jobs(), [], "no Ingress needs an address");
    fixture.apply(Change::Ingress(Event::Applied(ingress(json!([])))));
    let jobs = fixture.jobs();
    let [Job::Create { collection, object }] = &jobs[..] else {
        panic!("{jobs:?}")
    };
    assert_eq!(collection, "/api/v1/namespaces/kube-system/services");
    assert_eq!(object["metadata"]["name"], "ingress-portolan");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "1");
    let mut without_address = service("1");
    without_address.status = api::object::ServiceStatus::default();
    fixture.apply(Change::Service(Event::Applied(without_address)));
    assert_eq!(fixture.jobs(), []);
}

#[test]
fn class_of_another_controller_gets_no_objects() {
    let mut fixture = Fixture::new();
    fixture.apply(Change::Class(Event::Applied(class("example.com/other"))));
    fixture.apply(Change::Ingress(Event::Applied(ingress(
        json!([{"ip": "198.51.100.1"}]),
    ))));
    assert_eq!(fixture.jobs(), []);
}

#[test]
fn foreign_service_is_reported_once_and_stays() {
    let mut fixture = Fixture::new();
    fixture.apply(Change::Service(Event::Applied(service("other"))));
    fixture.apply(Change::Class(Event::Applied(class(api::ingress::CONTROLLER))));
    let jobs = fixture.jobs();
    let [Job::Report { regarding, events }] = &jobs[..] else {
        panic!("{jobs:?}")
    };
    assert_eq!(regarding.kind, "IngressClass");
    assert_eq!(events[0].reason, "ServiceConflict");
    fixture.apply(Change::Service(Event::Applied(service("other"))));
    assert_eq!(fixture.jobs(), []);
}

#[test]
fn ingress_has_the_addresses_of_its_class_until_the_class_is_deleted() {
    let mut fixture = Fixture::new();
    fixture.apply(Change::Class(Event::Applied(class(api::ingress::CONTROLLER))));
    fixture.apply(Change::Service(Event::Applied(service("1"))));
    fixture.apply(Change::Ingress(Event::Applied(ingress(json!([])))));
    let address = json!([{"ip": "192.0.2.1"}]);
    assert_eq!(fixture.jobs(), [status_patch(address.clone())]);
    fixture.apply(Change::Ingress(Event::Applied(ingress(address))));
    assert_eq!(fixture.jobs(), []);
    fixture.apply(Change::Class(Event::Deleted(ObjectKey::new("", "portolan"))));
    assert_eq!(fixture.jobs(), [status_patch(json!([]))]);
    // Addresses of another controller stay.
    fixture.apply(Change::Ingress(Event::Applied(ingress(
        json!([{"ip": "198.51.100.1"}]),
    ))));
    assert_eq!(fixture.jobs(), []);
}

#[test]
fn first_ingress_without_any_pool_gets_one_of_node_addresses() {
    let mut fixture = Fixture::new();
    fixture.controller = IngressController::new(true);
    fixture.apply(Change::Class(Event::Applied(class(api::ingress::CONTROLLER))));
    fixture.apply(Change::Service(Event::Applied(service("1"))));
    assert_eq!(fixture.jobs(), [], "no Ingress needs an address");
    fixture.apply(Change::Ingress(Event::Applied(ingress(
        json!([{"ip": "192.0.2.1"}]),
    ))));
    let pool = Job::Create {
        collection: "/apis/portolan.dev/v1alpha1/addresspools".to_owned(),
        object: class_service::node_pool(),
    };
    assert_eq!(fixture.jobs(), [pool]);
    let Fixture {
        controller,
        queue,
        now,
    } = &mut fixture;
    controller.on_success(&Subject::NodePool, (), queue, *now);
    fixture.apply(Change::Ingress(Event::Applied(ingress(
        json!([{"ip": "192.0.2.1"}]),
    ))));
    assert_eq!(fixture.jobs(), [], "a deleted pool stays deleted");
}

#[test]
fn pool_of_a_user_prevents_one_of_node_addresses() {
    let mut fixture = Fixture::new();
    fixture.controller = IngressController::new(true);
    let pool = json!({"metadata": {"name": "default"}, "spec": {"addresses": ["192.0.2.0/28"]}});
    let pool = serde_json::from_value(pool).expect("a pool");
    fixture.apply(Change::Pool(Event::Applied(pool)));
    fixture.apply(Change::Class(Event::Applied(class(api::ingress::CONTROLLER))));
    fixture.apply(Change::Service(Event::Applied(service("1"))));
    fixture.apply(Change::Ingress(Event::Applied(ingress(
        json!([{"ip": "192.0.2.1"}]),
    ))));
    assert_eq!(fixture.jobs(), []);
}
