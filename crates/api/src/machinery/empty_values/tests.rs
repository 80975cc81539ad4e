use serde_json::json;

use super::*;

#[test]
fn empty_lists_and_maps_are_omitted_and_objects_are_kept() {
    let mut spec = json!({
        "containers": [{"name": "c", "volumeDevices": [], "resources": {"limits": {}, "claims": []}}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "nodeSelector": {}, "securityContext": {"sysctls": []}, "unknown": [],
    });
    omit_empty_collections(&mut spec, "io.k8s.api.core.v1.PodSpec", &[]);
    let expected = json!({
        "containers": [{"name": "c", "resources": {}}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "securityContext": {}, "unknown": [],
    });
    assert_eq!(spec, expected);
    let mut empty = json!({"containers": []});
    omit_empty_collections(&mut empty, "io.k8s.api.core.v1.PodSpec", &["containers"]);
    assert_eq!(empty, json!({"containers": []}));
}
