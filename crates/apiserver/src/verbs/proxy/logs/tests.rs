use serde_json::json;

use super::*;

#[test]
fn container_defaults_to_the_only_one() {
    let one = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}});
    assert_eq!(container(&one, "p", ""), Ok("a"));
    assert_eq!(container(&one, "p", "i"), Ok("i"));
    let message =
        |pod: &Value, requested: &str| container(pod, "p", requested).unwrap_err().message().to_owned();
    assert_eq!(message(&one, "b"), "container b is not valid for pod p");
    let two =
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}});
    assert_eq!(
        message(&two, ""),
        "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]"
    );
}
