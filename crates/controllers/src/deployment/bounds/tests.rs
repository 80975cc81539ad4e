use serde_json::{Value, json};

use super::*;

fn bounds(replicas: i64, surge: Value, unavailable: Value) -> (i64, i64) {
    let deployment: Deployment = serde_json::from_value(json!({"spec": {"replicas": replicas, "strategy": {
        "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}}))
    .expect("a Deployment");
    let bounds = Bounds::of(&deployment);
    (bounds.total_max(), bounds.available_min())
}

#[test]
fn surge_is_rounded_up_and_unavailable_down() {
    assert_eq!(bounds(3, json!("25%"), json!("25%")), (4, 3));
    assert_eq!(bounds(10, json!("25%"), json!("25%")), (13, 8));
    assert_eq!(bounds(10, json!(0), json!(3)), (10, 7));
    assert_eq!(bounds(0, json!("25%"), json!(1)), (0, 0));
    assert_eq!(bounds(2, json!(1), json!(5)), (3, 0));
}

#[test]
fn rounded_bounds_allow_progress() {
    assert_eq!(bounds(3, json!("0%"), json!("10%")), (3, 2));
}
