use super::*;
use crate::access::authentication::Identity;
use api::rbac::Action;

const HEAD: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";

fn read(rules: &str) -> AuditPolicy {
    AuditPolicy::read(&format!("{HEAD}{rules}")).expect("policy")
}

fn error_of(rules: &str) -> String {
    let error = AuditPolicy::read(&format!("{HEAD}{rules}")).expect_err("invalid policy");
    error.to_string()
}

fn user(name: &str, group: &str) -> Identity {
    Identity {
        user: name.to_owned(),
        groups: vec![group.to_owned()],
        ..Identity::default()
    }
}

/// Returns the level of a request by `ann`. `path` is GROUP/RESOURCE/SUBRESOURCE.
fn level(policy: &AuditPolicy, verb: &str, path: &str, name: &str, namespace: &str) -> Level {
    let parts: Vec<&str> = path.split('/').collect();
    let action = Action::Resource {
        verb,
        group: parts[0],
        resource: parts[1],
        subresource: parts.get(2).copied().unwrap_or_default(),
        name,
    };
    decide(policy, Some(&user("ann", "staff")), namespace, &action).level
}

fn decide(policy: &AuditPolicy, user: Option<&Identity>, namespace: &str, action: &Action<'_>) -> Decision {
    policy.decide(&Subject {
        user,
        namespace,
        action,
    })
}

#[test]
fn first_matching_rule_applies() {
    let policy = read(
        "rules:\n- {level: None, users: [ann], verbs: [watch]}\n- {level: Request, userGroups: [staff]}\n- level: Metadata\n",
    );
    assert_eq!(level(&policy, "watch", "/pods", "", "n"), Level::None);
    assert_eq!(level(&policy, "get", "/pods", "p", "n"), Level::Request);
    let action = Action::Path {
        verb: "get",
        path: "/version",
    };
    assert_eq!(decide(&policy, None, "", &action).level, Level::Metadata);
}

#[test]
fn unmatched_requests_are_not_recorded() {
    let policy = read("rules:\n- {level: Metadata, users: [bob]}\n");
    assert_eq!(level(&policy, "get", "/pods", "p", "n"), Level::None);
}

#[test]
fn matches_resources_subresources_and_names() {
    let policy = read(
        "rules:\n\
         - {level: Metadata, resources: [{group: '', resources: [pods/log, '*/status']}]}\n\
         - {level: Request, resources: [{group: apps, resources: ['deployments/*']}]}\n\
         - {level: RequestResponse, resources: [{group: '', resources: [configmaps], resourceNames: [leader]}]}\n\
         - {level: Metadata, namespaces: [''], resources: [{group: rbac.authorization.k8s.io}]}\n",
    );
    for (path, name, namespace, expected) in [
        ("/pods/log", "p", "n", Level::Metadata),
        ("/pods", "p", "n", Level::None),
        ("/services/status", "s", "n", Level::Metadata),
        ("apps/deployments/scale", "d", "n", Level::Request),
        ("apps/deployments", "d", "n", Level::Request),
        ("apps/replicasets", "d", "n", Level::None),
        ("/configmaps", "leader", "n", Level::RequestResponse),
        ("/configmaps", "other", "n", Level::None),
        ("rbac.authorization.k8s.io/clusterroles", "r", "", Level::Metadata),
        ("rbac.authorization.k8s.io/roles", "r", "n", Level::None),
    ] {
        assert_eq!(
            level(&policy, "get", path, name, namespace),
            expected,
            "{path} {name}"
        );
    }
}

#[test]
fn matches_paths_with_a_trailing_wildcard() {
    let policy = read("rules:\n- {level: Metadata, nonResourceURLs: ['/healthz*', /version]}\n");
    let level_of = |path| {
        let action = Action::Path { verb: "get", path };
        decide(&policy, None, "", &action).level
    };
    assert_eq!(level_of("/healthz/ping"), Level::Metadata);
    assert_eq!(level_of("/version"), Level::Metadata);
    assert_eq!(level_of("/versions"), Level::None);
}

#[test]
fn omits_stages_of_policy_and_rule() {
    let policy = read(
        "omitStages: [RequestReceived]\nomitManagedFields: true\n\
         rules:\n- {level: Metadata, users: [ann], omitStages: [Panic], omitManagedFields: false}\n- level: Metadata\n",
    );
    let action = Action::Path {
        verb: "get",
        path: "/",
    };
    let for_ann = decide(&policy, Some(&user("ann", "")), "", &action);
    assert!(for_ann.omits(Stage::RequestReceived) && for_ann.omits(Stage::Panic));
    assert!(!for_ann.omits(Stage::ResponseComplete) && !for_ann.omits_managed_fields);
    let for_others = decide(&policy, None, "", &action);
    assert!(for_others.omits(Stage::RequestReceived) && !for_others.omits(Stage::Panic));
    assert!(for_others.omits_managed_fields);
}

#[test]
fn reports_invalid_values_with_upstream_messages() {
    assert_eq!(
        error_of("rules: [{level: ''}]\n"),
        "rules[0].level: Required value"
    );
    assert_eq!(
        error_of("rules: [{level: All}]\n"),
        "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \
         \"RequestResponse\""
    );
    assert_eq!(
        error_of("omitStages: [Never]\nrules: [{level: None}]\n"),
        "omitStages[0]: Invalid value: \"Never\": allowed stages are \
         RequestReceived,ResponseStarted,ResponseComplete,Panic"
    );
    assert_eq!(
        error_of("rules: [{level: None, nonResourceURLs: [version, '/a*b']}]\n"),
        "[rules[0].nonResourceURLs[0]: Invalid value: \"version\": non-resource URL rules must begin with a '/' \
         character, rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the \
         final character of the rule]"
    );
    assert!(
        error_of("rules: [{level: None, nonResourceURLs: [/], namespaces: [a]}]\n")
            .ends_with("rules cannot apply to both regular resources and non-resource URLs")
    );
    assert!(
        error_of("rules: [{level: None, resources: [{resourceNames: [a]}]}]\n")
            .ends_with("using resourceNames requires at least one resource")
    );
    assert!(
        error_of("rules: [{level: None, resources: [{group: apps/v1}]}]\n")
            .starts_with("rules[0].resources.group: Invalid")
    );
}

#[test]
fn rejects_empty_policies_unknown_fields_and_other_kinds() {
    assert_eq!(error_of("rules: []\n"), "loaded illegal policy with 0 rules");
    assert!(error_of("rules: [{level: None, user: [ann]}]\n").starts_with("failed decoding: "));
    let error = AuditPolicy::read("apiVersion: v1\nkind: Pod\n").expect_err("invalid policy");
    assert!(
        error
            .to_string()
            .starts_with("unknown group version field v1, Kind=Pod in policy"),
        "{error}"
    );
}
