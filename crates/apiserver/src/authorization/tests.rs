use api::rbac::{Action, PolicyRule};
use serde_json::{Value, json};

use super::default_roles;
use super::policy::{Decision, Policy, Rules, Subject};
use super::reconcile::completed;
use crate::authentication::Identity;

fn rules(rules: Value) -> Rules {
    let rules: Vec<PolicyRule> = serde_json::from_value(rules).unwrap();
    Rules::Of(rules.into())
}

fn somebody(user: &str, groups: &[&str]) -> Identity {
    Identity {
        user: user.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Identity::default()
    }
}

fn on(verb: &'static str, resource: &'static str) -> Action<'static> {
    Action::Resource {
        verb,
        group: "",
        resource,
        subresource: "",
        name: "",
    }
}

fn is_allowed(policy: &Policy, user: &Identity, namespace: &str, action: &Action<'_>) -> bool {
    matches!(policy.decide(user, namespace, action), Decision::Allowed(_))
}

#[test]
fn bindings_count_where_they_are_and_for_whom_they_name() {
    let mut policy = Policy::default();
    let read = rules(json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]));
    policy.grant(
        "a",
        &Subject::User("ann".into()),
        read.clone(),
        "RoleBinding \"r/a\"",
    );
    policy.grant(
        "",
        &Subject::Group("ops".into()),
        read.clone(),
        "ClusterRoleBinding \"r\"",
    );
    let account = Subject::ServiceAccount {
        namespace: "n".into(),
        name: "s".into(),
    };
    policy.grant("b", &account, read, "RoleBinding \"s/b\"");
    let (ann, bob) = (somebody("ann", &[]), somebody("bob", &["ops"]));
    let list = on("list", "pods");
    assert!(is_allowed(&policy, &ann, "a", &list));
    assert!(!is_allowed(&policy, &ann, "b", &list));
    assert!(!is_allowed(&policy, &ann, "", &list));
    assert!(!is_allowed(&policy, &ann, "a", &on("delete", "pods")));
    assert!(is_allowed(&policy, &bob, "", &list) && is_allowed(&policy, &bob, "x", &list));
    let robot = somebody("system:serviceaccount:n:s", &[]);
    assert!(is_allowed(&policy, &robot, "b", &list));
    assert!(!is_allowed(&policy, &robot, "n", &list));
    assert_eq!(
        policy.decide(&robot, "b", &list),
        Decision::Allowed(r#"RBAC: allowed by RoleBinding "s/b" to ServiceAccount "s/n""#.into())
    );
}

#[test]
fn a_role_that_is_bound_and_missing_is_told() {
    let mut policy = Policy::default();
    let missing = Rules::Missing("role.rbac.authorization.k8s.io \"r\" not found".into());
    policy.grant("a", &Subject::User("ann".into()), missing, "RoleBinding");
    let decision = policy.decide(&somebody("ann", &[]), "a", &on("get", "pods"));
    assert!(matches!(decision, Decision::Undecided(roles) if roles.len() == 1));
}

#[test]
fn the_default_roles_are_whole() {
    let all = default_roles::all();
    let names: Vec<&str> = all
        .iter()
        .map(|(_, object)| object["metadata"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"cluster-admin") && names.contains(&"system:node-proxier"));
    for (plural, object) in &all {
        let mut object = object.clone();
        let errors = match *plural {
            "clusterroles" => {
                assert!(
                    !default_roles::rules_of_role(object["metadata"]["name"].as_str().unwrap()).is_empty()
                );
                api::rbac::validate_cluster_role(&object)
            }
            _ => {
                let role = object["roleRef"]["name"].as_str().unwrap().to_owned();
                assert!(!default_roles::rules_of_role(&role).is_empty(), "{role}");
                api::rbac::default_binding_on_write(&mut object);
                api::rbac::validate_cluster_role_binding(&object)
            }
        };
        assert_eq!(errors, vec![], "{}", object["metadata"]["name"]);
    }
}

#[test]
fn whoever_may_edit_sees_more_than_whoever_may_view() {
    let may = |role: &str, verb, group, resource, subresource| {
        let action = Action::Resource {
            verb,
            group,
            resource,
            subresource,
            name: "",
        };
        let mut policy = Policy::default();
        let rules = Rules::Of(default_roles::rules_of_role(role).into());
        policy.grant("a", &Subject::User("ann".into()), rules, "RoleBinding \"r/a\"");
        is_allowed(&policy, &somebody("ann", &[]), "a", &action)
    };
    for (group, resource, subresource) in [
        ("", "events", ""),
        ("events.k8s.io", "events", ""),
        ("apps", "deployments", ""),
        ("apps", "deployments", "scale"),
        ("apps", "replicasets", ""),
    ] {
        for role in ["admin", "edit", "view"] {
            assert!(
                may(role, "list", group, resource, subresource),
                "{role} {group} {resource}"
            );
            let writes = role != "view";
            assert_eq!(
                may(role, "update", group, resource, subresource),
                writes,
                "{role} {resource}"
            );
        }
    }
    assert!(!may("edit", "update", "apps", "deployments", "status"));
    assert!(may("view", "get", "", "pods", "log"));
    assert!(!may("view", "list", "", "secrets", ""));
}

#[test]
fn what_people_have_added_stays_and_what_is_missing_comes_back() {
    let wanted = json!({"metadata": {"labels": {"l": "1"}}, "rules": [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]});
    assert_eq!(completed(&wanted, &wanted), None);
    let found = json!({"metadata": {"labels": {"mine": "1"}}, "rules": [
        {"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods", "nodes"]}]});
    let expected = json!({"metadata": {"labels": {"mine": "1", "l": "1"}}, "rules": [
        {"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods", "nodes"]},
        {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]});
    assert_eq!(completed(&found, &wanted), Some(expected));
    let binding = json!({"subjects": [{"kind": "User", "name": "a"}]});
    let more = json!({"subjects": [{"kind": "User", "name": "b"}]});
    let both = json!({"subjects": [{"kind": "User", "name": "a"}, {"kind": "User", "name": "b"}]});
    assert_eq!(completed(&binding, &more), Some(both));
}
