use serde_json::json;

use super::*;

fn read(annotations: &serde_json::Value) -> ServiceRecord {
    let service = json!({
        "metadata": {"namespace": "ns", "name": "web", "annotations": annotations},
        "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}]},
    });
    let service = serde_json::from_value(service).expect("a Service");
    ServiceRecord::read(&service, &Settings::default(), &mut Interner::default()).expect("a record")
}

#[test]
fn reads_annotations_of_connections() {
    let record = read(&json!({
        DRAIN_ANNOTATION: "5",
        KEEP_UNREADY_FLOWS_ANNOTATION: " true ",
        CONNECTION_AGE_ANNOTATION: "600",
        REBALANCE_ANNOTATION: "25",
    }));
    assert_eq!(record.drain_seconds, Some(5));
    assert!(record.keeps_unready_flows);
    assert_eq!(record.connection_age_max_seconds, Some(600));
    assert_eq!(record.rebalance_percent, Some(25));
    assert_eq!(*record.faults, []);
}

#[test]
fn connections_stay_without_annotations() {
    let record = read(&json!({}));
    assert!(!record.keeps_unready_flows);
    assert_eq!(record.connection_age_max_seconds, None);
    assert_eq!(record.rebalance_percent, None);
}

#[test]
fn invalid_annotation_is_a_fault_and_ignored() {
    for (name, value) in [
        (KEEP_UNREADY_FLOWS_ANNOTATION, "yes"),
        (KEEP_UNREADY_FLOWS_ANNOTATION, ""),
        (CONNECTION_AGE_ANNOTATION, "9"),
        (CONNECTION_AGE_ANNOTATION, "-10"),
        (CONNECTION_AGE_ANNOTATION, "10m"),
        (CONNECTION_AGE_ANNOTATION, "4294967296"),
        (REBALANCE_ANNOTATION, "0"),
        (REBALANCE_ANNOTATION, "101"),
        (REBALANCE_ANNOTATION, "5%"),
    ] {
        let record = read(&json!({name: value}));
        let value = value.to_owned();
        assert_eq!(*record.faults, [Fault::Annotation { name, value }]);
        let message = record.faults[0].to_string();
        assert!(
            message.contains("expected a number") || message.ends_with("expected true or false"),
            "{message}"
        );
        assert!(!record.keeps_unready_flows, "{name}");
        assert_eq!(record.connection_age_max_seconds, None);
        assert_eq!(record.rebalance_percent, None);
    }
}

#[test]
fn external_addresses_with_too_many_elements_are_not_served() {
    for (port_count, is_served) in [(64, true), (65, false)] {
        let ports: Vec<_> = (1..=port_count)
            .map(|port| json!({"name": format!("p{port}"), "port": port}))
            .collect();
        let external_ips: Vec<_> = (0..512)
            .map(|index| format!("198.51.{}.{}", 100 + index / 256, index % 256))
            .collect();
        let source_ranges: Vec<_> = (0..256).map(|index| format!("10.{index}.0.0/16")).collect();
        let service = json!({
            "metadata": {"namespace": "ns", "name": "web"},
            "spec": {"clusterIP": "10.96.0.5", "type": "LoadBalancer", "ports": ports,
                "externalIPs": external_ips, "loadBalancerSourceRanges": source_ranges},
            "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.6"}, {"ip": "203.0.113.7"}]}},
        });
        let service = serde_json::from_value(service).expect("a Service");
        let record = ServiceRecord::read(&service, &Settings::default(), &mut Interner::default());
        let record = record.expect("a record");
        assert_eq!(record.ports.len(), port_count);
        let family = &record.families[0];
        assert_eq!(family.external_ips.len(), if is_served { 512 } else { 0 });
        assert_eq!(family.ingress_ips.len(), if is_served { 2 } else { 0 });
        let elements = port_count * (512 + 2 * 256);
        let fault = Fault::ExternalElements { elements };
        assert_eq!(record.faults.contains(&fault), !is_served);
    }
}
