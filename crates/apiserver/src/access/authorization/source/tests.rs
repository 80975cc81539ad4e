use serde_json::{Value, json};

use super::*;
use crate::access::authentication::Identity;

fn binding(name: &str, role: &str) -> Value {
    json!({
        "kind": "RoleBinding", "metadata": {"name": name, "namespace": "a"},
        "roleRef": {"kind": "Role", "name": role},
        "subjects": [{"kind": "User", "name": "ann"}, {"kind": "User", "name": "ann"}],
    })
}

/// Each decision examines all grants of the user.
#[test]
fn further_bindings_to_a_role_grant_nothing_more() {
    let mut source = Source::default();
    let mut put = |key: &str, object: &Value| source.put(key, object.to_string().as_bytes());
    for role in ["one", "two"] {
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": [role]});
        put(&format!("/{GROUP}/roles/a/{role}"), &json!({"rules": [rule]}));
    }
    for number in 0..100 {
        let (name, role) = (format!("b{number}"), if number == 50 { "two" } else { "one" });
        put(&format!("/{GROUP}/rolebindings/a/{name}"), &binding(&name, role));
    }
    let ann = Identity {
        user: "ann".to_owned(),
        ..Identity::default()
    };
    let policy = source.policy();
    assert_eq!(policy.rules_of(&ann, "a").0.len(), 2);
    assert!(policy.rules_of(&ann, "b").0.is_empty());
}
