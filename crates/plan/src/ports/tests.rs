use api::object::{EndpointSlice, ObjectKey, Service};
use serde_json::json;

use crate::fault::Fault;
use crate::plan::Plan;
use crate::service::{POOL_TWO_TIER_ANNOTATION, TWO_TIER_ANNOTATION};
use crate::settings::{PodDetection, Settings};
use crate::types::{EndpointSet, FrontendKind, Origin, ServicePortPlan, Target};

fn plan(supports_two_tier: bool, annotation: &str) -> Plan {
    plan_with(supports_two_tier, &json!({TWO_TIER_ANNOTATION: annotation}))
}

fn plan_with(supports_two_tier: bool, annotations: &serde_json::Value) -> Plan {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "web", "annotations": annotations},
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.5", "externalIPs": ["198.51.100.5"],
            "ports": [{"port": 80, "nodePort": 30_080}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.5"}]}},
    }))
    .expect("a Service");
    let mut plan = Plan::new(Settings {
        node_name: "node-a".to_owned(),
        pods: PodDetection::Ranges(vec!["10.244.0.0/16".parse().expect("a range")]),
        supports_two_tier,
        ..Settings::default()
    });
    plan.apply_service(&service);
    plan
}

/// Applies endpoints with their node and whether they are ready. The others serve and terminate.
fn apply(plan: &mut Plan, endpoints: &[(&str, bool)]) {
    let endpoints: Vec<_> = (1..)
        .zip(endpoints)
        .map(|(number, (node, is_ready))| {
            json!({
                "addresses": [format!("10.244.0.{number}")], "nodeName": node,
                "conditions": {"ready": is_ready, "serving": true, "terminating": !is_ready},
            })
        })
        .collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    }))
    .expect("a slice");
    plan.apply_slice(&slice);
    plan.take_changes();
}

fn serving_nodes(plan: &Plan) -> Option<Vec<(&str, u32)>> {
    let port = plan.ports().next().expect("a port");
    let nodes = port.serving_nodes.as_ref()?.iter();
    Some(nodes.map(|node| (&*node.name, node.endpoints)).collect())
}

fn from_outside(port: &ServicePortPlan) -> Vec<(FrontendKind, Target)> {
    let frontends = port.frontends.iter();
    frontends
        .map(|frontend| (frontend.kind, frontend.target(Origin::Outside)))
        .collect()
}

#[test]
fn two_tier_forwarding_counts_ready_endpoints_of_each_node() {
    let mut plan = plan(true, "true");
    apply(
        &mut plan,
        &[
            ("node-b", true),
            ("node-a", true),
            ("node-b", true),
            ("node-c", false),
        ],
    );
    assert_eq!(
        serving_nodes(&plan),
        Some(vec![("node-a", 1), ("node-b", 2), ("node-c", 0)])
    );
    apply(&mut plan, &[("node-b", false), ("node-c", false)]);
    assert_eq!(serving_nodes(&plan), Some(vec![("node-b", 1), ("node-c", 1)]));
    apply(&mut plan, &[]);
    assert_eq!(serving_nodes(&plan), Some(vec![]));
}

#[test]
fn two_tier_forwarding_serves_load_balancer_ips_by_local_endpoints() {
    let mut plan = plan(true, "true");
    apply(&mut plan, &[("node-a", true), ("node-b", true)]);
    let of_cluster = Target::Balance {
        set: EndpointSet::Cluster,
        masquerade: true,
    };
    let of_node = Target::Balance {
        set: EndpointSet::Local,
        masquerade: false,
    };
    let port = plan.ports().next().expect("a port");
    assert_eq!(
        from_outside(port),
        [
            (FrontendKind::ClusterIp, of_cluster),
            (FrontendKind::LoadBalancerIp, of_node),
            (FrontendKind::ExternalIp, of_cluster),
            (FrontendKind::NodePort, of_cluster),
        ]
    );
    let balanced = port.frontends.get(1).expect("a frontend");
    assert!(matches!(
        balanced.target(Origin::Pod),
        Target::Balance {
            set: EndpointSet::Cluster,
            ..
        }
    ));

    apply(&mut plan, &[("node-b", true)]);
    let port = plan.ports().next().expect("a port");
    assert_eq!(from_outside(port)[1].1, Target::Drop);
    assert_eq!(plan.totals(crate::Family::V4).external_without_local, 0);
}

#[test]
fn port_has_no_serving_nodes_without_request_or_support() {
    for (supports, annotation, is_requested) in [
        (true, "false", false),
        (false, "true", true),
        (true, "yes", false),
    ] {
        let mut plan = plan(supports, annotation);
        apply(&mut plan, &[("node-b", true)]);
        let service = plan.services().next().expect("a Service").clone();
        assert_eq!(plan.requests_two_tier(&service), is_requested);
        assert_eq!(plan.faults_of(&service).count(), usize::from(annotation == "yes"));
        assert_eq!(serving_nodes(&plan), None);
        let port = plan.ports().next().expect("a port");
        assert!(matches!(
            from_outside(port)[1].1,
            Target::Balance {
                set: EndpointSet::Cluster,
                ..
            }
        ));
    }
}

#[test]
fn service_precedes_the_request_of_its_pool() {
    for (annotations, is_forwarded) in [
        (json!({POOL_TWO_TIER_ANNOTATION: "true"}), true),
        (
            json!({POOL_TWO_TIER_ANNOTATION: "true", TWO_TIER_ANNOTATION: "false"}),
            false,
        ),
        (
            json!({POOL_TWO_TIER_ANNOTATION: "true", TWO_TIER_ANNOTATION: "yes"}),
            true,
        ),
    ] {
        let mut plan = plan_with(true, &annotations);
        apply(&mut plan, &[("node-b", true)]);
        assert_eq!(serving_nodes(&plan).is_some(), is_forwarded, "{annotations}");
    }
}

#[test]
fn ports_with_too_many_endpoints_together_are_served_without_them() {
    let ports = (1..=501).map(|port| json!({"name": format!("p{port}"), "port": port}));
    let ports: Vec<_> = ports.collect();
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "web"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.5", "ports": ports},
    }))
    .expect("a Service");
    let slice = |endpoint_count: usize| -> EndpointSlice {
        let endpoints = (0..endpoint_count).map(|number| {
            let address = format!("10.244.{}.{}", number / 250, number % 250);
            json!({"addresses": [address], "conditions": {"ready": true}})
        });
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": ports, "endpoints": endpoints.collect::<Vec<_>>(),
        }))
        .expect("a slice")
    };
    let key = ObjectKey {
        namespace: "ns".into(),
        name: "web".into(),
    };
    let mut plan = Plan::new(Settings::default());
    plan.apply_service(&service);
    for (endpoint_count, ports) in [(1_000, 1), (998, 0), (1_000, 1)] {
        plan.apply_slice(&slice(endpoint_count));
        plan.take_changes();
        let unserved = plan.ports().filter(|port| port.cluster.is_empty());
        assert_eq!(unserved.count(), ports);
        let fault = Fault::PortEndpoints { ports };
        assert_eq!(plan.faults_of(&key).any(|found| *found == fault), ports > 0);
        let last = plan.ports().last().expect("a port");
        let frontend = last.frontends.first().expect("a frontend");
        assert_eq!(frontend.target(Origin::Outside) == Target::Reject, ports > 0);
    }
}

/// As in kube-proxy, where each family has a proxier with a health check server of its own (`NewDualStackProxier` in
/// `pkg/proxy/nftables/proxier.go`).
#[test]
fn health_check_counts_the_endpoints_of_each_family() {
    let counts = |families: &[&str], addresses: &[&str]| {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "web"},
            "spec": {
                "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31_000,
                "clusterIP": addresses[0], "clusterIPs": addresses, "ipFamilies": families,
                "ports": [{"port": 80, "nodePort": 30_080}],
            },
        }))
        .expect("a Service");
        let mut plan = Plan::new(Settings {
            node_name: "node-a".to_owned(),
            ..Settings::default()
        });
        plan.apply_service(&service);
        apply(&mut plan, &[("node-a", true), ("node-a", true), ("node-b", true)]);
        let (_, check) = plan.health_checks().next().expect("a health check");
        check.local_endpoints
    };
    let dual = counts(&["IPv4", "IPv6"], &["10.96.0.5", "fd00:10:96::5"]);
    assert_eq!(dual, [Some(2), Some(0)]);
    assert_eq!(counts(&["IPv4"], &["10.96.0.5"]), [Some(2), None]);
    assert_eq!(counts(&["IPv6"], &["fd00:10:96::5"]), [None, Some(0)]);
}
