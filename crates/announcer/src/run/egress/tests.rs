use api::object::{ObjectKey, Service};
use serde_json::json;

use super::*;
use crate::egress::plan::EgressFault;
use crate::egress::reports::EgressReport;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Service `shop/web` with egress.
fn objects() -> EgressObjects {
    let service = json!({
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "u",
            "annotations": {"service.portolan.dev/egress": "true"},
        },
        "spec": {"type": "LoadBalancer"},
    });
    let service: Service = serde_json::from_value(service).expect("a Service");
    let mut objects = EgressObjects::default();
    objects.apply_service(&service);
    objects
}

fn samples(metrics: &Metrics) -> Vec<String> {
    let text = metrics.render();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("portolan_announcer_egress"));
    lines.map(str::to_owned).collect()
}

#[test]
fn refused_plan_is_a_fault_and_leaves_the_counts_of_pods() {
    let (objects, metrics) = (objects(), Metrics::default());
    let mut control = EgressControl::new(NodeName::from("n1"));
    let mut plan = EgressPlan::default();
    plan.pods.insert(ip("10.244.1.7"), PodEgress::Blocked);
    control.publish(Time::ZERO, &plan, &objects, &metrics);
    let accepted = [
        "portolan_announcer_egress_pods{state=\"translated\"} 0",
        "portolan_announcer_egress_pods{state=\"routed\"} 0",
        "portolan_announcer_egress_pods{state=\"blocked\"} 1",
        "portolan_announcer_egress_ready{namespace=\"shop\",service=\"web\"} 1",
    ];
    assert_eq!(samples(&metrics), accepted);
    control.last_error = Some("no memory".to_owned());
    let translated = PodEgress::Translated(ip("192.0.2.100"));
    plan.pods.insert(ip("10.244.1.8"), translated);
    control.publish(Time::ZERO, &plan, &objects, &metrics);
    let after = samples(&metrics);
    assert_eq!(after[..3], accepted[..3]);
    assert_eq!(
        after[3],
        "portolan_announcer_egress_ready{namespace=\"shop\",service=\"web\"} 0"
    );
    let fault = EgressFault::Kernel("no memory".to_owned());
    assert_eq!(
        control.reports.take_due(Time::from_secs(60)),
        [(ObjectKey::new("shop", "web"), EgressReport::Fault(fault))]
    );
}
