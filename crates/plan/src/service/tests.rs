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
