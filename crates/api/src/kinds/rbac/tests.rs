use serde_json::{Value, json};

use super::*;
use crate::machinery::field::FieldErrors;

fn causes(errors: &FieldErrors) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{} {}", error.reason.as_str(), error.path))
        .collect()
}

fn rule(rule: Value) -> PolicyRule {
    serde_json::from_value(rule).unwrap()
}

fn action<'a>(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> Action<'a> {
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
fn rule_allows_actions_that_all_lists_contain() {
    let pods = rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]}));
    assert!(pods.allows(&action("get", "", "pods", "a")));
    assert!(pods.allows(&action("get", "", "services/status", "a")));
    assert!(!pods.allows(&action("get", "", "services", "a")));
    assert!(!pods.allows(&action("watch", "", "pods", "")));
    assert!(!pods.allows(&action("get", "apps", "pods", "a")));
    assert!(!pods.allows(&action("get", "", "pods/log", "a")));
    let everything = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    assert!(everything.allows(&action("escalate", "x", "pods/log", "a")));
    assert!(!everything.allows(&Action::Path {
        verb: "get",
        path: "/metrics"
    }));
}

#[test]
fn rule_restricts_names_and_paths() {
    let one = rule(json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}));
    assert!(one.allows(&action("delete", "", "pods", "a")));
    assert!(!one.allows(&action("delete", "", "pods", "b")));
    assert!(!one.allows(&action("list", "", "pods", "")));
    let paths = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/apis/*"]}));
    let get = |path| paths.allows(&Action::Path { verb: "get", path });
    assert!(get("/healthz") && get("/apis/a/b"));
    assert!(!get("/healthz/ping") && !get("/apis"));
    assert!(!paths.allows(&action("get", "", "pods", "")));
}

#[test]
fn reports_uncovered_rights() {
    let owner = rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]}));
    let named =
        rule(json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}));
    let missing = |requested: Value| {
        let requested = [rule(requested)];
        let texts: Vec<String> = compact(uncovered_rights(&[&owner, &named], &requested))
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

/// The rights of one rule repeat its longest texts.
#[test]
fn uncovered_rights_are_bounded_in_number_and_size() {
    let numbered = |count: usize| -> Vec<String> { (0..count).map(|number| number.to_string()).collect() };
    let size = |group: &str, resources: usize| {
        let wide = PolicyRule {
            verbs: vec!["get".to_owned()],
            api_groups: vec![group.to_owned()],
            resources: numbered(resources),
            ..PolicyRule::default()
        };
        let missing = uncovered_rights(&[], [&wide]);
        let bytes: usize = missing.iter().map(|right| right.api_groups[0].len()).sum();
        (missing.len(), bytes)
    };
    assert_eq!(size("", 20_000), (10_000, 0));
    let long = "x".repeat(100_000);
    assert_eq!(size(&long, 2_000), (6, 600_000));
    // The first one is always there.
    assert_eq!(size(&"x".repeat(1_000_000), 2), (1, 1_000_000));
}

#[test]
fn comparisons_of_rules_are_bounded() {
    let numbered = |count: usize| -> Vec<String> { (0..count).map(|number| number.to_string()).collect() };
    let everything = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    let nothing = rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": []}));
    let wide = PolicyRule {
        verbs: vec!["get".to_owned()],
        api_groups: vec![String::new()],
        resources: numbered(10_000),
        ..PolicyRule::default()
    };
    let owned = |others: usize| {
        let mut owned = vec![&nothing; others];
        owned.push(&everything);
        owned
    };
    assert!(uncovered_rights(&owned(100), [&wide]).is_empty());
    assert!(!uncovered_rights(&owned(1_000), [&wide]).is_empty());
    // Long texts count more.
    let long = PolicyRule {
        api_groups: vec!["x".repeat(100_000)],
        ..wide
    };
    assert!(!uncovered_rights(&owned(10), [&long]).is_empty());
}

#[test]
fn rule_without_verbs_has_no_rights() {
    let many: Vec<String> = (0..60_000).map(|number| number.to_string()).collect();
    let rule = PolicyRule {
        api_groups: many.clone(),
        resources: many,
        ..PolicyRule::default()
    };
    assert!(uncovered_rights(&[], [&rule]).is_empty());
}

#[test]
fn validates_the_rules_of_roles() {
    let role = |rules: Value| json!({"metadata": {"name": "system:r", "namespace": "n"}, "rules": rules});
    let causes_of = |rules: Value| causes(&validate_role(&role(rules)));
    assert!(causes_of(json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])).is_empty());
    assert_eq!(
        causes_of(json!([{"verbs": []}])),
        [
            "FieldValueRequired rules[0].verbs",
            "FieldValueRequired rules[0].apiGroups",
            "FieldValueRequired rules[0].resources"
        ]
    );
    assert_eq!(
        causes_of(json!([{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}])),
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
fn validates_roles_and_subjects_of_bindings() {
    let mut valid = json!({"metadata": {"name": "b", "namespace": "n"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "s"}]});
    default_binding_on_write(&mut valid);
    assert_eq!(valid["roleRef"]["apiGroup"], GROUP);
    assert_eq!(valid["subjects"][0]["apiGroup"], GROUP);
    assert!(valid["subjects"][1].get("apiGroup").is_none());
    assert!(validate_role_binding(&valid).is_empty());

    let mut changed = valid.clone();
    changed["roleRef"]["name"] = "edit".into();
    assert_eq!(
        causes(&validate_role_binding_update(&changed, &valid)),
        ["FieldValueInvalid roleRef"]
    );

    let mut cluster_binding = valid.clone();
    cluster_binding["metadata"] = json!({"name": "b"});
    assert_eq!(
        causes(&validate_cluster_role_binding(&cluster_binding)),
        ["FieldValueRequired subjects[1].namespace"]
    );
    cluster_binding["roleRef"] = json!({"kind": "Role", "name": ""});
    cluster_binding["subjects"] = json!([{"kind": "Robot"}]);
    assert_eq!(
        causes(&validate_cluster_role_binding(&cluster_binding)),
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
fn compacts_many_verbs_in_linear_time() {
    let right = |verb: usize| PolicyRule {
        verbs: vec![format!("v{verb}")],
        api_groups: vec![String::new()],
        resources: vec!["pods".to_owned()],
        ..PolicyRule::default()
    };
    let count = 50_000;
    // Each verb occurs twice. A quadratic comparison would take hours.
    let rights = (0..2 * count).map(|verb| right(verb % count)).collect();
    let compacted = compact(rights);
    assert_eq!(compacted.len(), 1);
    assert_eq!(compacted[0].verbs.len(), count);
    assert_eq!(compacted[0].verbs[1], "v1");
}

// The expectations are responses of kube-apiserver 1.36.2; the rules are in upstream's `pkg/apis/rbac`.
#[test]
fn aggregation_rules_have_valid_selectors() {
    let role = json!({"metadata": {"name": "r"}, "aggregationRule": {"clusterRoleSelectors": [
        {"matchLabels": {"a": "b"}}, {"matchExpressions": [{"key": "a", "operator": "In"}]}]}});
    assert_eq!(
        causes(&validate_cluster_role(&role)),
        [
            "FieldValueRequired aggregationRule.clusterRoleSelectors[1].matchExpressions[0].values",
            "FieldValueInvalid aggregationRule.clusterRoleSelectors[1]",
        ]
    );
}

#[test]
fn absent_rules_and_references_have_defaults() {
    let mut role = json!({"metadata": {"name": "r"}, "rules": []});
    default_role_on_write(&mut role);
    assert_eq!(role["rules"], Value::Null);
    let mut binding = json!({"metadata": {"name": "b", "namespace": "n"}});
    default_binding_on_write(&mut binding);
    assert_eq!(
        causes(&validate_role_binding(&binding)),
        [
            "FieldValueNotSupported roleRef.kind",
            "FieldValueRequired roleRef.name"
        ]
    );
}
