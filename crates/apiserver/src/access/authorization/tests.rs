use std::sync::Arc;

use api::rbac::{Action, PolicyRule};
use serde_json::{Value, json};

use super::default_roles;
use super::policy::{Policy, RbacDecision, Rules, Subject};
use super::reconcile::completed;
use crate::access::authentication::Identity;

fn rules(rules: Value) -> Rules {
    let rules: Vec<PolicyRule> = serde_json::from_value(rules).unwrap();
    Rules::Found(rules.into())
}

fn user(user: &str, groups: &[&str]) -> Identity {
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
    matches!(policy.decide(user, namespace, action), RbacDecision::Allowed(_))
}

#[test]
fn subjects_of_a_binding_share_its_description() {
    let mut policy = Policy::default();
    let description: Arc<str> = "RoleBinding \"b/a\"".into();
    let rules = Rules::Missing("no role".into());
    for number in 0..10 {
        let subject = Subject::User(format!("user-{number}"));
        policy.grant("a", &subject, rules.clone(), description.clone());
    }
    assert_eq!(Arc::strong_count(&description), 11);
}

#[test]
fn bindings_grant_rights_in_their_namespace_to_their_subjects() {
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
    let (ann, bob) = (user("ann", &[]), user("bob", &["ops"]));
    let list = on("list", "pods");
    assert!(is_allowed(&policy, &ann, "a", &list));
    assert!(!is_allowed(&policy, &ann, "b", &list));
    assert!(!is_allowed(&policy, &ann, "", &list));
    assert!(!is_allowed(&policy, &ann, "a", &on("delete", "pods")));
    assert!(is_allowed(&policy, &bob, "", &list) && is_allowed(&policy, &bob, "x", &list));
    let robot = user("system:serviceaccount:n:s", &[]);
    assert!(is_allowed(&policy, &robot, "b", &list));
    assert!(!is_allowed(&policy, &robot, "n", &list));
    assert_eq!(
        policy.decide(&robot, "b", &list),
        RbacDecision::Allowed(r#"RBAC: allowed by RoleBinding "s/b" to ServiceAccount "s/n""#.into())
    );
}

#[test]
fn reports_bound_roles_that_do_not_exist() {
    let mut policy = Policy::default();
    let missing = Rules::Missing("role.rbac.authorization.k8s.io \"r\" not found".into());
    policy.grant("a", &Subject::User("ann".into()), missing, "RoleBinding");
    let decision = policy.decide(&user("ann", &[]), "a", &on("get", "pods"));
    assert!(matches!(decision, RbacDecision::Undecided(roles) if roles.len() == 1));
}

#[test]
fn decision_names_a_bounded_number_of_missing_roles() {
    let mut policy = Policy::default();
    for number in 0..100 {
        let missing = Rules::Missing(format!("role {number} not found").into());
        policy.grant("a", &Subject::User("ann".into()), missing, "RoleBinding");
    }
    let ann = user("ann", &[]);
    let decision = policy.decide(&ann, "a", &on("get", "pods"));
    assert!(matches!(decision, RbacDecision::Undecided(roles) if roles.len() == 10));
    assert_eq!(policy.rules_of(&ann, "a").1.len(), 10);
}

#[test]
fn default_roles_are_valid_and_complete() {
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
            "roles" => api::rbac::validate_role(&object),
            "rolebindings" => {
                let role = object["roleRef"]["name"].as_str().unwrap();
                let namespace = &object["metadata"]["namespace"];
                let mut roles = all.iter().filter(|(plural, _)| *plural == "roles");
                assert!(
                    roles.any(|(_, found)| found["metadata"]["name"] == role
                        && found["metadata"]["namespace"] == *namespace),
                    "{role}"
                );
                api::rbac::default_binding_on_write(&mut object);
                api::rbac::validate_role_binding(&object)
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
fn edit_and_admin_may_write_and_view_may_read() {
    let may = |role: &str, verb, group, resource, subresource| {
        let action = Action::Resource {
            verb,
            group,
            resource,
            subresource,
            name: "",
        };
        let mut policy = Policy::default();
        let rules = Rules::Found(default_roles::rules_of_role(role).into());
        policy.grant("a", &Subject::User("ann".into()), rules, "RoleBinding \"r/a\"");
        is_allowed(&policy, &user("ann", &[]), "a", &action)
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
    for report in ["observation", "flows"] {
        for role in ["admin", "edit", "view", "system:node", "system:node-proxier"] {
            assert!(!may(role, "get", "", "nodes", report), "{role} {report}");
        }
        assert!(may("cluster-admin", "get", "", "nodes", report));
    }
}

#[test]
fn update_keeps_additions_and_restores_missing_entries() {
    let desired = json!({"metadata": {"labels": {"l": "1"}}, "rules": [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]});
    assert_eq!(completed(&desired, &desired), None);
    let found = json!({"metadata": {"labels": {"mine": "1"}}, "rules": [
        {"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods", "nodes"]}]});
    let expected = json!({"metadata": {"labels": {"mine": "1", "l": "1"}}, "rules": [
        {"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods", "nodes"]},
        {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]});
    assert_eq!(completed(&found, &desired), Some(expected));
    let binding = json!({"subjects": [{"kind": "User", "name": "a"}]});
    let more = json!({"subjects": [{"kind": "User", "name": "b"}]});
    let both = json!({"subjects": [{"kind": "User", "name": "a"}, {"kind": "User", "name": "b"}]});
    assert_eq!(completed(&binding, &more), Some(both));
}

#[test]
fn withdraws_rights_of_users_that_all_nodes_shared() {
    let secrets = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]});
    let role = |rules: Value| json!({"metadata": {"name": "system:portolan-edge"}, "rules": rules});
    assert_eq!(
        completed(&role(json!([secrets])), &role(json!([]))),
        Some(role(json!([])))
    );
    for name in ["system:portolan-edge", "system:portolan-announcer"] {
        let user = |user: &str| json!({"kind": "User", "name": user});
        let binding =
            |subjects: Value| json!({"metadata": {"name": name}, "roleRef": {}, "subjects": subjects});
        let found = binding(json!([user(name), user("ann")]));
        let kept = binding(json!([user("ann")]));
        assert_eq!(completed(&found, &binding(json!([]))), Some(kept.clone()));
        assert_eq!(completed(&kept, &binding(json!([]))), None);
        let objects = default_roles::all();
        let default = objects
            .iter()
            .find(|(plural, object)| *plural == "clusterrolebindings" && object["metadata"]["name"] == name);
        let subjects = default.unwrap().1["subjects"].as_array().unwrap();
        assert!(
            !subjects.iter().any(|subject| subject["name"] == name),
            "{subjects:?}"
        );
    }
}

#[test]
fn withdraws_rules_of_earlier_versions() {
    let services = json!({"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]});
    let withdrawn = json!({"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]});
    let added_by_administrator =
        json!({"apiGroups": [""], "resources": ["services/status"], "verbs": ["get", "patch"]});
    let role = |name: &str, rules: Vec<&Value>| json!({"metadata": {"name": name}, "rules": rules});
    let desired = role("system:portolan-edge", vec![&services]);
    let found = role(
        "system:portolan-edge",
        vec![&services, &withdrawn, &added_by_administrator],
    );
    let kept = completed(&found, &desired).expect("completed role");
    assert_eq!(kept["rules"], json!([services, added_by_administrator]));
    assert_eq!(completed(&kept, &desired), None);
    let other = role("others", vec![&services, &withdrawn]);
    assert_eq!(completed(&other, &role("others", vec![&services])), None);
}
