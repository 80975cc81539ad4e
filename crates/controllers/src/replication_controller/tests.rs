use super::*;
use crate::workload::tests::model::Model;

fn model(replicas: i64) -> Model {
    Model::new(json!({
        "replicas": replicas,
        "selector": {"app": "web"},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": 1}},
    }))
}

#[test]
fn keeps_the_desired_number_of_pods() {
    let mut model = model(3);
    model.converge::<ReplicationController>();
    assert_eq!((model.pods.len(), model.counted("availableReplicas")), (3, 3));
    model.workload["spec"]["replicas"] = json!(1);
    model.converge::<ReplicationController>();
    assert_eq!((model.pods.len(), model.counted("replicas")), (1, 1));
}

#[test]
fn releases_pods_that_it_no_longer_selects() {
    let mut model = model(1);
    model.converge::<ReplicationController>();
    let name = model.pods.keys().next().expect("a Pod").clone();
    model.pods.get_mut(&name).expect("a Pod")["metadata"]["labels"] = json!({"app": "other"});
    model.converge::<ReplicationController>();
    assert_eq!(model.pods.len(), 2);
    assert_eq!(model.pods[&name]["metadata"]["ownerReferences"], json!([]));
}
