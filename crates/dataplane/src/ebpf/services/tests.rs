use api::object::{EndpointSlice, Service};
use serde_json::json;

use super::*;
use crate::tests::test_plans::settings;

/// KernelFeatures of current kernels.
const KERNEL_FEATURES: KernelFeatures = KernelFeatures {
    can_refuse: true,
    can_destroy: true,
};

fn put(plan: &mut Plan, name: &str, ip: &str, endpoints: &[&str]) -> ObjectKey {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 80}]},
    }))
    .unwrap();
    plan.apply_service(&service);
    let endpoints: Vec<_> = endpoints.iter().map(|ip| json!({"addresses": [ip]})).collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    }))
    .unwrap();
    plan.apply_slice(&slice);
    plan.take_changes();
    ObjectKey::new("ns", name)
}

/// Writes an edit as the kernel does, and checks after each step that every frontend has all of its endpoints.
fn write(kernel: &mut KernelState, edit: &Edit) {
    kernel.counters.extend(&edit.added_counters);
    kernel.endpoints.extend(edit.added_endpoints.iter().copied());
    for (at, value) in &edit.changed_frontends {
        kernel.frontends.insert(*at, *value);
        assert_complete(kernel);
    }
    kernel
        .frontends
        .retain(|at, _| !edit.deleted_frontends.contains(at));
    kernel
        .endpoints
        .retain(|key, _| !edit.deleted_endpoints.contains(key));
    assert_complete(kernel);
    kernel
        .counters
        .retain(|counter| !edit.deleted_counters.contains(counter));
}

fn load(kernel: &mut KernelState, services: &mut Services, plan: &Plan) {
    let edit = services.reconcile(plan, kernel);
    write(kernel, &edit);
}

fn assert_complete(kernel: &KernelState) {
    for (at, (packed, counter)) in &kernel.frontends {
        let mut indexes = 0..packed.count();
        assert!(
            indexes.all(|index| kernel.endpoints.contains_key(&packed.endpoint_key(index))),
            "{at} lacks endpoints"
        );
        assert!(kernel.counters.contains(counter), "{at} lacks its counter");
    }
}

fn endpoints_of(kernel: &KernelState, frontend: &str) -> Vec<SocketAddr> {
    let (packed, _) = kernel.frontends[&frontend.parse().unwrap()];
    (0..packed.count())
        .map(|index| kernel.endpoints[&packed.endpoint_key(index)])
        .collect()
}

#[test]
fn changed_endpoints_get_a_new_generation() {
    let mut plan = Plan::new(settings());
    let mut services = Services::new(KERNEL_FEATURES);
    let mut kernel = KernelState::default();
    let web = put(&mut plan, "web", "10.96.0.1", &["10.244.0.1", "10.244.0.2"]);
    write(&mut kernel, &services.change(&plan, [&web]));
    let before = kernel.frontends.clone();
    put(&mut plan, "web", "10.96.0.1", &["10.244.0.2", "10.244.0.3"]);
    write(&mut kernel, &services.change(&plan, [&web]));
    assert_ne!(kernel.frontends, before);
    assert_eq!(
        endpoints_of(&kernel, "10.96.0.1:80"),
        [
            "10.244.0.2:8080".parse().unwrap(),
            "10.244.0.3:8080".parse().unwrap()
        ]
    );
    assert_eq!(kernel.endpoints.len(), 2, "former endpoints are deleted");
    assert_eq!(kernel.counters.len(), 1, "the counter goes on");
}

#[test]
fn deleted_service_leaves_no_entries() {
    let mut plan = Plan::new(settings());
    let mut services = Services::new(KERNEL_FEATURES);
    let mut kernel = KernelState::default();
    let web = put(&mut plan, "web", "10.96.0.1", &["10.244.0.1"]);
    write(&mut kernel, &services.change(&plan, [&web]));
    plan.remove_service(&web);
    plan.take_changes();
    write(&mut kernel, &services.change(&plan, [&web]));
    assert_eq!(kernel, KernelState::default());
}

#[test]
fn service_without_remaining_endpoints_refuses_connections() {
    let mut plan = Plan::new(settings());
    let mut services = Services::new(KERNEL_FEATURES);
    let mut kernel = KernelState::default();
    let web = put(&mut plan, "web", "10.96.0.1", &["10.244.0.1"]);
    write(&mut kernel, &services.change(&plan, [&web]));
    put(&mut plan, "web", "10.96.0.1", &[]);
    write(&mut kernel, &services.change(&plan, [&web]));
    assert_eq!(
        kernel.frontends[&"10.96.0.1:80".parse().unwrap()].0,
        PackedGeneration::REFUSE
    );
    assert_eq!(kernel.endpoints.len(), 0);
}

#[test]
fn kernel_without_refusals_has_no_frontend_without_endpoints() {
    let mut plan = Plan::new(settings());
    let web = put(&mut plan, "web", "10.96.0.1", &[]);
    let edit = Services::new(KernelFeatures::default()).change(&plan, [&web]);
    assert_eq!(edit, Edit::default());
}

#[test]
fn frontend_of_a_deleted_service_passes_to_another_one() {
    let mut plan = Plan::new(settings());
    let mut services = Services::new(KERNEL_FEATURES);
    let mut kernel = KernelState::default();
    let first = put(&mut plan, "first", "10.96.0.1", &["10.244.0.1"]);
    write(&mut kernel, &services.change(&plan, [&first]));
    plan.remove_service(&first);
    let second = put(&mut plan, "second", "10.96.0.1", &["10.244.0.2"]);
    for services_in_order in [[&second, &first], [&first, &second]] {
        let mut services = Services::new(KERNEL_FEATURES);
        let mut kernel = kernel.clone();
        load(&mut kernel, &mut services, &plan);
        write(&mut kernel, &services.change(&plan, services_in_order));
        assert_eq!(
            endpoints_of(&kernel, "10.96.0.1:80"),
            ["10.244.0.2:8080".parse().unwrap()]
        );
    }
}

#[test]
fn next_process_takes_over_without_a_change() {
    let mut plan = Plan::new(settings());
    let mut kernel = KernelState::default();
    put(&mut plan, "web", "10.96.0.1", &["10.244.0.1", "10.244.0.2"]);
    put(&mut plan, "empty", "10.96.0.2", &[]);
    load(&mut kernel, &mut Services::new(KERNEL_FEATURES), &plan);
    let mut next = Services::new(KERNEL_FEATURES);
    assert_eq!(next.reconcile(&plan, &kernel).elements(), 0);
    let web = put(&mut plan, "web", "10.96.0.1", &["10.244.0.3"]);
    write(&mut kernel, &next.change(&plan, [&web]));
    assert_eq!(
        endpoints_of(&kernel, "10.96.0.1:80"),
        ["10.244.0.3:8080".parse().unwrap()]
    );
}

#[test]
fn foreign_changes_are_repaired() {
    let mut plan = Plan::new(settings());
    let mut kernel = KernelState::default();
    put(&mut plan, "web", "10.96.0.1", &["10.244.0.1"]);
    let mut services = Services::new(KERNEL_FEATURES);
    load(&mut kernel, &mut services, &plan);
    let key = *kernel.endpoints.keys().next().unwrap();
    kernel.endpoints.insert(key, "192.0.2.1:1".parse().unwrap());
    kernel
        .frontends
        .insert("10.96.0.9:80".parse().unwrap(), (PackedGeneration::REFUSE, 99));
    kernel.counters.insert(99);
    let edit = services.reconcile(&plan, &kernel);
    write(&mut kernel, &edit);
    assert!(edit.elements() > 0);
    assert_eq!(
        endpoints_of(&kernel, "10.96.0.1:80"),
        ["10.244.0.1:8080".parse().unwrap()]
    );
    assert_eq!(kernel.frontends.len(), 1);
    assert_eq!(services.reconcile(&plan, &kernel).elements(), 0);
}
