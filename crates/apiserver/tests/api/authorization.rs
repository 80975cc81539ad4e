//! Authorization by RBAC and for nodes, through the server.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Api, config_map, config_maps};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";

/// Returns the headers with which the administrator impersonates a user.
fn as_user(user: &str) -> [(&str, &str); 2] {
    [("impersonate-user", user), ("content-type", "application/json")]
}

async fn status(api: &Api, user: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let reply = api.send(method, path, &as_user(user), body).await;
    (reply.code.as_u16(), reply.json())
}

async fn message(api: &Api, user: &str, path: &str) -> String {
    let (code, status) = status(api, user, Method::GET, path, &Value::Null).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{status}");
    status["message"].as_str().unwrap_or_default().to_owned()
}

fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": role},
           "subjects": [{"kind": "User", "name": user}]})
}

#[tokio::test]
async fn refusals_have_upstreams_messages() {
    let api = Api::start().await;
    assert_eq!(
        message(&api, "ann", "/api/v1/namespaces/x/services").await,
        r#"services is forbidden: User "ann" cannot list resource "services" in API group "" in the namespace "x""#
    );
    assert_eq!(
        message(&api, "ann", "/apis/discovery.k8s.io/v1/endpointslices?watch=true").await,
        "endpointslices.discovery.k8s.io is forbidden: User \"ann\" cannot watch resource \"endpointslices\" in \
         API group \"discovery.k8s.io\" at the cluster scope"
    );
    assert_eq!(
        message(&api, "ann", "/api/v1/namespaces/x/pods/p/status").await,
        r#"pods "p" is forbidden: User "ann" cannot get resource "pods/status" in API group "" in the namespace "x""#
    );
    assert_eq!(
        message(&api, "ann", "/api/v1/namespaces/x").await,
        r#"namespaces "x" is forbidden: User "ann" cannot get resource "namespaces" in API group "" in the namespace "x""#
    );
    assert_eq!(
        message(&api, "ann", "/metrics").await,
        r#"forbidden: User "ann" cannot get path "/metrics""#
    );
    // Resources that are not served are refused with 403, not 404.
    assert_eq!(
        message(&api, "ann", "/apis/apps/v1/namespaces/x/deployments").await,
        "deployments.apps is forbidden: User \"ann\" cannot list resource \"deployments\" in API group \"apps\" \
         in the namespace \"x\""
    );
}

#[tokio::test]
async fn default_roles_are_reconciled_at_start() {
    let api = Api::start().await;
    let role = api.get(&format!("{RBAC}/clusterroles/view")).await.expect(200);
    assert_eq!(
        (&role["kind"], &role["apiVersion"]),
        (&json!("ClusterRole"), &json!("rbac.authorization.k8s.io/v1"))
    );
    let path = format!("{RBAC}/clusterrolebindings/system:node-proxier");
    let binding = api.get(&path).await.expect(200);
    assert_eq!(binding["subjects"][0]["name"], "system:kube-proxy");
    // A restart restores removed subjects and keeps added ones.
    let reduced =
        json!({"subjects": [{"kind": "User", "name": "me", "apiGroup": "rbac.authorization.k8s.io"}]});
    api.merge(&path, &reduced).await.expect(200);
    let api = Api::start_in(api.stop().await).await;
    let binding = api.get(&path).await.expect(200);
    let subjects = binding["subjects"].as_array().expect("subjects of the binding");
    for subject in ["me", "system:kube-proxy", "system:portolan:proxies"] {
        assert!(subjects.iter().any(|found| found["name"] == subject), "{subject}");
    }
}

#[tokio::test]
async fn anonymous_users_see_health_and_version_only() {
    let api = Api::start().await;
    let anonymous = [("authorization", "")];
    let code = async |path: &str| api.send(Method::GET, path, &anonymous, "").await.code.as_u16();
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(code(path).await, 200, "{path}");
    }
    for path in [
        "/",
        "/api",
        "/apis",
        "/metrics",
        "/openapi/v3",
        "/api/v1/namespaces",
    ] {
        assert_eq!(code(path).await, 403, "{path}");
    }
    let refused = api.send(Method::GET, "/api/v1/namespaces", &anonymous, "").await;
    assert_eq!(
        refused.json()["message"],
        r#"namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in API group "" at the cluster scope"#
    );
}

#[tokio::test]
async fn bindings_take_effect_before_the_response() {
    let api = Api::start().await;
    api.post(&config_maps(""), &config_map("c", json!({})))
        .await
        .expect(201);
    let path = config_maps("c");
    let get = async || status(&api, "ann", Method::GET, &path, &Value::Null).await.0;
    assert_eq!(get().await, 403);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let created = api
        .post(&bindings, &binding("ann", "view", "ann"))
        .await
        .expect(201);
    assert_eq!(created["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(get().await, 200);
    let delete = status(&api, "ann", Method::DELETE, &path, &Value::Null).await;
    assert_eq!(delete.0, 403);
    assert_eq!(
        status(&api, "ann", Method::GET, "/api/v1/configmaps", &Value::Null)
            .await
            .0,
        403
    );
    let mut changed = created;
    changed["roleRef"]["name"] = "edit".into();
    let refused = api.put(&format!("{bindings}/ann"), &changed).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "roleRef");
    api.delete(&format!("{bindings}/ann")).await.expect(200);
    assert_eq!(get().await, 403);
}

#[tokio::test]
async fn resource_names_permit_lists_selected_by_name() {
    let api = Api::start().await;
    let role = json!({"metadata": {"name": "one"}, "rules": [{"verbs": ["get", "list", "watch"], "apiGroups": [""],
                      "resources": ["configmaps"], "resourceNames": ["c"]}]});
    api.post(&format!("{RBAC}/clusterroles"), &role).await.expect(201);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    api.post(&bindings, &binding("ann", "one", "ann"))
        .await
        .expect(201);
    let list = async |query: &str| {
        let path = format!("{}{query}", config_maps(""));
        status(&api, "ann", Method::GET, &path, &Value::Null).await.0
    };
    assert_eq!(list("?fieldSelector=metadata.name%3Dc").await, 200);
    assert_eq!(list("?fieldSelector=metadata.name%3Dd").await, 403);
    assert_eq!(list("").await, 403);
}

#[tokio::test]
async fn users_cannot_grant_permissions_they_do_not_hold() {
    let api = Api::start().await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    api.post(&bindings, &binding("ann", "admin", "ann"))
        .await
        .expect(201);
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |verb: &str| {
        json!({"metadata": {"name": format!("r-{verb}")},
               "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods", "nodes"]}]})
    };
    let post = async |path: &str, body: &Value| status(&api, "ann", Method::POST, path, body).await;
    let (code, refused) = post(&roles, &role("get")).await;
    assert_eq!(code, 403, "{refused}");
    assert_eq!(
        refused["message"],
        "roles.rbac.authorization.k8s.io \"r-get\" is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is \
         attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], \
         Verbs:[\"get\"]}"
    );
    assert_eq!(post(&bindings, &binding("b", "view", "bob")).await.0, 201);
    assert_eq!(
        post(&bindings, &binding("c", "cluster-admin", "bob")).await.0,
        403
    );
    let (code, missing) = post(&bindings, &binding("d", "nonsense", "bob")).await;
    assert_eq!((code, &missing["reason"]), (404, &json!("NotFound")));
    // The verb `escalate` permits it.
    let escalate = json!({"metadata": {"name": "escalator"}, "rules": [
        {"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}]});
    api.post(&roles, &escalate).await.expect(201);
    let mut bound = binding("escalator", "escalator", "ann");
    bound["roleRef"]["kind"] = "Role".into();
    api.post(&bindings, &bound).await.expect(201);
    assert_eq!(post(&roles, &role("get")).await.0, 201);
}

#[tokio::test]
async fn access_reviews_report_the_rights_of_the_user() {
    let api = Api::start().await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    api.post(&bindings, &binding("ann", "view", "ann"))
        .await
        .expect(201);
    let review_of = |verb: &str| json!({"spec": {"resourceAttributes": {"namespace": "default", "verb": verb, "resource": "pods"}}});
    let own = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let review = async |verb: &str| status(&api, "ann", Method::POST, &own, &review_of(verb)).await;
    let (code, allowed) = review("list").await;
    assert_eq!((code, &allowed["status"]["allowed"]), (201, &json!(true)));
    assert_eq!(
        allowed["status"]["reason"],
        r#"RBAC: allowed by RoleBinding "ann/default" of ClusterRole "view" to User "ann""#
    );
    assert_eq!(review("delete").await.1["status"], json!({"allowed": false}));

    let rules = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let body = json!({"spec": {"namespace": "default"}});
    let (_, rules_review) = status(&api, "ann", Method::POST, &rules, &body).await;
    let all = rules_review["status"]["resourceRules"].as_array().unwrap();
    assert!(
        all.iter().any(|rule| rule["resources"][0] == "configmaps"),
        "{all:?}"
    );
    assert_eq!(rules_review["status"]["incomplete"], false);

    let mut other_review = review_of("list");
    other_review["spec"]["user"] = "ann".into();
    let reviews = format!("{AUTHORIZATION}/subjectaccessreviews");
    let decided = api.post(&reviews, &other_review).await.expect(201);
    assert_eq!(decided["status"]["allowed"], true);
    assert_eq!(
        status(&api, "ann", Method::POST, &reviews, &other_review).await.0,
        403
    );
    other_review["spec"]["extra"] = json!({"keys": ["x", "y"]});
    let definition = "io.k8s.api.authorization.v1.SubjectAccessReview";
    let protobuf = "application/vnd.kubernetes.protobuf";
    let response = api
        .send(
            Method::POST,
            &reviews,
            &[("content-type", protobuf), ("accept", protobuf)],
            api::protobuf::write(&other_review, definition).unwrap(),
        )
        .await;
    assert_eq!(response.code, 201);
    assert_eq!(response.headers["content-type"], protobuf);
    let decided = api::protobuf::open(&response.body)
        .unwrap()
        .object(definition)
        .unwrap();
    assert_eq!(decided["status"]["allowed"], true);
    assert_eq!(decided["spec"]["extra"], json!({"keys": ["x", "y"]}));
    other_review["spec"].as_object_mut().unwrap().remove("extra");
    let local = format!("{AUTHORIZATION}/namespaces/kube-system/localsubjectaccessreviews");
    let refused = api.post(&local, &other_review).await.expect(422);
    assert_eq!(
        refused["details"]["causes"][0]["field"],
        "spec.resourceAttributes.namespace"
    );

    let review_path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let (_, me) = status(&api, "ann", Method::POST, &review_path, &json!({})).await;
    assert_eq!(
        me["status"]["userInfo"],
        json!({"username": "ann", "groups": ["system:authenticated"]})
    );
}

#[tokio::test]
async fn nodes_read_secrets_of_their_pods_and_write_their_own_objects() {
    let api = Api::start().await;
    let node = [
        ("impersonate-user", "system:node:n1"),
        ("impersonate-group", "system:nodes"),
        ("content-type", "application/json"),
    ];
    let as_node = async |method, path: &str, body: Value| {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        api.send(method, path, &node, body).await.code.as_u16()
    };
    let named = |name: &str| json!({"metadata": {"name": name}});
    assert_eq!(as_node(Method::POST, "/api/v1/nodes", named("n1")).await, 201);
    assert_eq!(as_node(Method::POST, "/api/v1/nodes", named("n2")).await, 403);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    assert_eq!(as_node(Method::POST, leases, named("n1")).await, 201);
    assert_eq!(as_node(Method::POST, leases, named("n2")).await, 403);
    for secret in ["used", "other"] {
        api.post("/api/v1/namespaces/default/secrets", &named(secret))
            .await
            .expect(201);
    }
    let pod = |name: &str, node: &str, secret: &str| {
        json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i",
               "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]}]}})
    };
    for pod in [pod("p", "n1", "used"), pod("q", "n2", "other")] {
        api.post("/api/v1/namespaces/default/pods", &pod)
            .await
            .expect(201);
    }
    let secret = |name: &str| format!("/api/v1/namespaces/default/secrets/{name}");
    assert_eq!(as_node(Method::GET, &secret("used"), Value::Null).await, 200);
    assert_eq!(as_node(Method::GET, &secret("other"), Value::Null).await, 403);
    let list = "/api/v1/namespaces/default/secrets";
    assert_eq!(as_node(Method::GET, list, Value::Null).await, 403);
    assert_eq!(as_node(Method::GET, "/api/v1/pods", Value::Null).await, 403);
    let own = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1";
    assert_eq!(as_node(Method::GET, own, Value::Null).await, 200);
    let selected = format!("{list}?fieldSelector=metadata.name%3Dused");
    assert_eq!(as_node(Method::GET, &selected, Value::Null).await, 200);
    let delete = |pod: &str| format!("/api/v1/namespaces/default/pods/{pod}");
    assert_eq!(as_node(Method::DELETE, &delete("q"), Value::Null).await, 403);
    assert_eq!(as_node(Method::DELETE, &delete("p"), Value::Null).await, 200);
}

#[tokio::test]
async fn writes_that_create_require_the_verb_create() {
    let api = Api::start().await;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["get", "patch", "update"]});
    let role = json!({"metadata": {"name": "writer"}, "rules": [rule]});
    api.post(&format!("{RBAC}/clusterroles"), &role).await.expect(201);
    api.post(
        &format!("{RBAC}/clusterrolebindings"),
        &binding("writer", "writer", "ann"),
    )
    .await
    .expect(201);
    let apply = [
        ("impersonate-user", "ann"),
        ("content-type", "application/apply-patch+yaml"),
    ];
    let path = "/api/v1/namespaces/default/configmaps/new";
    let object =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}}"#;
    let reply = api
        .send(Method::PATCH, &format!("{path}?fieldManager=ann"), &apply, object)
        .await;
    let message = reply.expect(403)["message"].as_str().unwrap().to_owned();
    assert_eq!(
        message,
        "configmaps \"new\" is forbidden: User \"ann\" cannot create resource \"configmaps\" in API group \"\" in the \
         namespace \"default\""
    );
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "new"},
                         "spec": {"ports": [{"port": 80}]}});
    let put = "/api/v1/namespaces/default/services/new";
    let (code, _) = status(&api, "ann", Method::PUT, put, &service).await;
    assert_eq!(code, 403);
    for path in [path, put] {
        assert_eq!(api.get(path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn field_selectors_do_not_name_the_object_to_create() {
    let api = Api::start().await;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"], "resourceNames": ["one"]});
    let role = json!({"metadata": {"name": "creator"}, "rules": [rule]});
    api.post(&format!("{RBAC}/clusterroles"), &role).await.expect(201);
    api.post(
        &format!("{RBAC}/clusterrolebindings"),
        &binding("creator", "creator", "ann"),
    )
    .await
    .expect(201);
    let other = json!({"metadata": {"name": "other"}});
    let path = "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Done";
    let (code, _) = status(&api, "ann", Method::POST, path, &other).await;
    assert_eq!(code, 403);
}

#[tokio::test]
async fn node_rewrites_a_bounded_number_of_bytes_and_renews_its_lease() {
    const NODE_BYTES: usize = 200_000;
    let api = Api::start().await;
    let node = |content_type| {
        [
            ("impersonate-user", "system:node:n1"),
            ("impersonate-group", "system:nodes"),
            ("content-type", content_type),
        ]
    };
    let created = [
        (
            "/api/v1/nodes",
            json!({"metadata": {"name": "n1", "annotations": {"a": "x".repeat(NODE_BYTES)}}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
            json!({"metadata": {"name": "n1"}}),
        ),
    ];
    for (path, object) in created {
        let response = api
            .send(Method::POST, path, &node("application/json"), object.to_string())
            .await;
        assert_eq!(response.code.as_u16(), 201, "{path}");
    }
    let patch = async |path: &str, body: Value| {
        let headers = node("application/merge-patch+json");
        let response = api.send(Method::PATCH, path, &headers, body.to_string()).await;
        response.code.as_u16()
    };
    let mut refused = false;
    // A hundred changes have more bytes than the burst. The rate permits some more.
    for number in 0..1_000 {
        let change = json!({"metadata": {"annotations": {"number": number.to_string()}}});
        refused = patch("/api/v1/nodes/n1", change).await == 429;
        if refused {
            break;
        }
    }
    assert!(refused);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1";
    let renewal = json!({"spec": {"leaseDurationSeconds": 40}});
    assert_eq!(patch(lease, renewal).await, 200);
}
