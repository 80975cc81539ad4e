use serde_json::{Value, json};

use super::*;
use crate::machinery::field::FieldErrors;

fn causes(errors: &FieldErrors) -> Vec<String> {
    errors
        .iter()
        .map(|e| format!("{} {}", e.reason.as_str(), e.path))
        .collect()
}

fn rule(rule: Value) -> PolicyRule {
    serde_json::from_value(rule).unwrap()
}

fn on<'a>(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> Action<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Action::Resource {
        verb,
        group,
        resource,
        subresource,
        name,
    }
}

#[test]
fn a_rule_allows_what_all_of_its_lists_have() {
    let pods = rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]}));
    assert!(pods.allows(&on("get", "", "pods", "a")));
    assert!(pods.allows(&on("get", "", "services/status", "a")));
    assert!(!pods.allows(&on("get", "", "services", "a")));
    assert!(!pods.allows(&on("watch", "", "pods", "")));
    assert!(!pods.allows(&on("get", "apps", "pods", "a")));
    assert!(!pods.allows(&on("get", "", "pods/log", "a")));
    let everything = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    assert!(everything.allows(&on("escalate", "x", "pods/log", "a")));
    assert!(!everything.allows(&Action::Path {
        verb: "get",
        path: "/metrics"
    }));
}

#[test]
fn names_and_paths() {
    let one = rule(json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}));
    assert!(one.allows(&on("delete", "", "pods", "a")));
    assert!(!one.allows(&on("delete", "", "pods", "b")));
    assert!(!one.allows(&on("list", "", "pods", "")));
    let paths = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/apis/*"]}));
    let get = |path| paths.allows(&Action::Path { verb: "get", path });
    assert!(get("/healthz") && get("/apis/a/b"));
    assert!(!get("/healthz/ping") && !get("/apis"));
    assert!(!paths.allows(&on("get", "", "pods", "")));
}

#[test]
fn what_is_not_covered_is_told_right_by_right() {
    let owner = rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]}));
    let named =
        rule(json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}));
    let missing = |wanted: Value| {
        let wanted = [rule(wanted)];
        let texts: Vec<String> = compacted(uncovered(&[&owner, &named], &wanted))
            .iter()
            .map(ToString::to_string)
            .collect();
        texts.join("\n")
    };
    assert_eq!(
        missing(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "x/status"]})),
        ""
    );
    assert_eq!(
        missing(json!({"verbs": ["get", "watch", "delete"], "apiGroups": [""], "resources": ["pods"]})),
        r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}"#
    );
    assert_eq!(
        missing(
            json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", "b"]})
        ),
        r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["delete"]}"#
    );
    assert_eq!(
        missing(json!({"verbs": ["get"], "nonResourceURLs": ["/x"]})),
        r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#
    );
    assert_eq!(
        missing(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})),
        r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#
    );
}

#[test]
fn roles_are_checked_rule_by_rule() {
    let role = |rules: Value| json!({"metadata": {"name": "system:r", "namespace": "n"}, "rules": rules});
    let of = |rules: Value| causes(&validate_role(&role(rules)));
    assert!(of(json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])).is_empty());
    assert_eq!(
        of(json!([{"verbs": []}])),
        [
            "FieldValueRequired rules[0].verbs",
            "FieldValueRequired rules[0].apiGroups",
            "FieldValueRequired rules[0].resources"
        ]
    );
    assert_eq!(
        of(json!([{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}])),
        [
            "FieldValueInvalid rules[0].nonResourceURLs",
            "FieldValueInvalid rules[0].nonResourceURLs"
        ]
    );
    let mut empty = json!({"metadata": {"name": "r"}});
    default_role_on_write(&mut empty);
    assert_eq!(empty["rules"], Value::Null);
    assert!(validate_cluster_role(&empty).is_empty());
    empty["aggregationRule"] = json!({});
    assert_eq!(
        causes(&validate_cluster_role(&empty)),
        ["FieldValueRequired aggregationRule.clusterRoleSelectors"]
    );
}

#[test]
fn bindings_name_a_role_and_subjects() {
    let mut good = json!({"metadata": {"name": "b", "namespace": "n"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "s"}]});
    default_binding_on_write(&mut good);
    assert_eq!(good["roleRef"]["apiGroup"], GROUP);
    assert_eq!(good["subjects"][0]["apiGroup"], GROUP);
    assert!(good["subjects"][1].get("apiGroup").is_none());
    assert!(validate_role_binding(&good).is_empty());

    let mut changed = good.clone();
    changed["roleRef"]["name"] = "edit".into();
    assert_eq!(
        causes(&validate_role_binding_update(&changed, &good)),
        ["FieldValueInvalid roleRef"]
    );

    let mut of_cluster = good.clone();
    of_cluster["metadata"] = json!({"name": "b"});
    assert_eq!(
        causes(&validate_cluster_role_binding(&of_cluster)),
        ["FieldValueRequired subjects[1].namespace"]
    );
    of_cluster["roleRef"] = json!({"kind": "Role", "name": ""});
    of_cluster["subjects"] = json!([{"kind": "Robot"}]);
    assert_eq!(
        causes(&validate_cluster_role_binding(&of_cluster)),
        [
            "FieldValueNotSupported roleRef.apiGroup",
            "FieldValueNotSupported roleRef.kind",
            "FieldValueRequired roleRef.name",
            "FieldValueRequired subjects[0].name",
            "FieldValueNotSupported subjects[0].kind"
        ]
    );
}

#[test]
fn brings_many_verbs_on_one_thing_together_in_linear_time() {
    let right = |verb: usize| PolicyRule {
        verbs: vec![format!("v{verb}")],
        api_groups: vec![String::new()],
        resources: vec!["pods".to_owned()],
        ..PolicyRule::default()
    };
    let count = 50_000;
    // Each verb twice. Comparing each with all others would take hours.
    let rights = (0..2 * count).map(|verb| right(verb % count)).collect();
    let compacted = compacted(rights);
    assert_eq!(compacted.len(), 1);
    assert_eq!(compacted[0].verbs.len(), count);
    assert_eq!(compacted[0].verbs[1], "v1");
}
