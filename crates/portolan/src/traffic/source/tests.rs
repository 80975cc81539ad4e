use api::object::ObjectKey;
use serde_json::json;

use super::*;

#[test]
fn missing_service_is_rejected() {
    let mut objects = World::builder();
    objects.add(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
    }));
    let check = |namespace: &str, name: &str| {
        check_selection(&objects, &Selection::Service(ObjectKey::new(namespace, name)))
    };
    check("shop", "web").expect("a Service");
    let error = check("default", "web").expect_err("no Service");
    assert_eq!(error.to_string(), "services \"web\" not found");
    check_selection(&objects, &Selection::All).expect("all Services");
}
