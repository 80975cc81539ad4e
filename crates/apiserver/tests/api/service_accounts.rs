//! ServiceAccounts and their tokens, through the server.

use http::Method;
use serde_json::{Value, json};

use crate::harness::Api;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

async fn token(api: &Api, account: &str, spec: Value) -> Value {
    let path = format!("{ACCOUNTS}/{account}/token");
    api.post(&path, &json!({"spec": spec})).await.expect(201)
}

/// Returns the status code of a request with a token whose user is not authorized: 403 if the token is valid.
async fn code_with(api: &Api, token: &str) -> u16 {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    api.send(Method::GET, "/api/v1/nodes", &headers, "")
        .await
        .code
        .as_u16()
}

#[tokio::test]
async fn namespaces_have_a_service_account_and_the_cluster_ca() {
    let api = Api::start().await;
    let namespace = json!({"metadata": {"name": "n"}});
    api.post("/api/v1/namespaces", &namespace).await.expect(201);
    api.get("/api/v1/namespaces/n/serviceaccounts/default")
        .await
        .expect(200);
    let path = "/api/v1/namespaces/n/configmaps/kube-root-ca.crt";
    let map = api.get(path).await.expect(200);
    assert!(
        map["data"]["ca.crt"]
            .as_str()
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE")
    );
    let mut watch = api
        .watch("/api/v1/namespaces/n/serviceaccounts?watch=true&resourceVersion=0")
        .await;
    assert_eq!(watch.next_named().await.0, "ADDED");
    api.delete("/api/v1/namespaces/n/serviceaccounts/default")
        .await
        .expect(200);
    assert_eq!(watch.next_named().await.0, "DELETED");
    assert_eq!(
        watch.next_named().await,
        ("ADDED".to_owned(), "default".to_owned())
    );
}

#[tokio::test]
async fn pods_require_an_existing_service_account() {
    let api = Api::start().await;
    let created = api.post(PODS, &pod("p")).await.expect(201);
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    let mut other = pod("q");
    other["spec"]["serviceAccountName"] = "nobody".into();
    let refused = api.post(PODS, &other).await.expect(403);
    assert_eq!(
        refused["message"],
        "pods \"q\" is forbidden: error looking up service account default/nobody: serviceaccount \"nobody\" not found"
    );
}

#[tokio::test]
async fn tokens_are_mounted_unless_opted_out() {
    let api = Api::start().await;
    let mut with_mount = pod("p");
    let own = json!({"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    let mut second = with_mount["spec"]["containers"][0].clone();
    second["name"] = "second".into();
    second["volumeMounts"] = json!([own]);
    with_mount["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(second);
    with_mount["spec"]["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    let created = api.post(PODS, &with_mount).await.expect(201);
    let volume = &created["spec"]["volumes"][1];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-"), "{name}");
    let token = json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}});
    assert_eq!(volume["projected"]["sources"][0], token);
    assert_eq!(volume["projected"]["sources"].as_array().unwrap().len(), 3);
    let mount = json!([{"name": name, "readOnly": true, "mountPath": own["mountPath"]}]);
    assert_eq!(created["spec"]["containers"][0]["volumeMounts"], mount);
    assert_eq!(created["spec"]["containers"][1]["volumeMounts"], json!([own]));

    let opted_out = json!({"metadata": {"name": "opted-out"}, "automountServiceAccountToken": false});
    api.post(ACCOUNTS, &opted_out).await.expect(201);
    let mut opted_out_pod = pod("q");
    opted_out_pod["spec"]["serviceAccountName"] = "opted-out".into();
    let created = api.post(PODS, &opted_out_pod).await.expect(201);
    assert!(created["spec"].get("volumes").is_none(), "{created}");
    // The setting of the Pod takes precedence over that of the ServiceAccount.
    opted_out_pod["metadata"]["name"] = "r".into();
    opted_out_pod["spec"]["automountServiceAccountToken"] = true.into();
    let created = api.post(PODS, &opted_out_pod).await.expect(201);
    assert_eq!(created["spec"]["volumes"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn tokens_are_invalid_after_deletion_of_their_bound_object() {
    let api = Api::start().await;
    api.post(ACCOUNTS, &json!({"metadata": {"name": "robot"}}))
        .await
        .expect(201);
    let mut with_robot = pod("p");
    with_robot["spec"]["serviceAccountName"] = "robot".into();
    api.post(PODS, &with_robot).await.expect(201);
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}});
    let free = token(&api, "robot", json!({})).await["status"]["token"].clone();
    let bound = token(&api, "robot", bound).await["status"]["token"].clone();
    let (free, bound) = (free.as_str().unwrap(), bound.as_str().unwrap());
    assert_eq!(
        (code_with(&api, free).await, code_with(&api, bound).await),
        (403, 403)
    );

    let review_path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let authorization = format!("Bearer {bound}");
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
    ];
    let me = api
        .send(Method::POST, review_path, &headers, "{}")
        .await
        .expect(201);
    let user = &me["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ];
    assert_eq!(user["groups"], json!(groups));
    assert_eq!(
        user["extra"]["authentication.kubernetes.io/pod-name"],
        json!(["p"])
    );

    let options = json!({"gracePeriodSeconds": 0});
    api.send(
        Method::DELETE,
        &format!("{PODS}/p"),
        &[("content-type", "application/json")],
        options.to_string(),
    )
    .await
    .expect(200);
    assert_eq!(
        (code_with(&api, free).await, code_with(&api, bound).await),
        (403, 401)
    );
    api.delete(&format!("{ACCOUNTS}/robot")).await.expect(200);
    api.post(ACCOUNTS, &json!({"metadata": {"name": "robot"}}))
        .await
        .expect(201);
    assert_eq!(
        code_with(&api, free).await,
        401,
        "a new ServiceAccount of the same name"
    );
}

#[tokio::test]
async fn tokens_of_a_pod_are_invalid_after_the_removal_of_its_node() {
    let api = Api::start().await;
    let create_node = async |annotations: Value| {
        let node = json!({"metadata": {"name": "n", "annotations": annotations}});
        api.post("/api/v1/nodes", &node).await.expect(201);
    };
    create_node(json!({})).await;
    let mut on_node = pod("p");
    on_node["spec"]["nodeName"] = "n".into();
    api.post(PODS, &on_node).await.expect(201);
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}});
    let bound = token(&api, "default", bound).await["status"]["token"].clone();
    let bound = bound.as_str().unwrap();
    assert_eq!(code_with(&api, bound).await, 403);
    api.delete("/api/v1/nodes/n").await.expect(200);
    assert_eq!(code_with(&api, bound).await, 401, "a removed Node");
    create_node(json!({"portolan.dev/incarnation": "request"})).await;
    assert_eq!(code_with(&api, bound).await, 401, "another host has joined");
    api.delete("/api/v1/nodes/n").await.expect(200);
    create_node(json!({})).await;
    assert_eq!(
        code_with(&api, bound).await,
        403,
        "the agent has registered its Node again"
    );
}

#[tokio::test]
async fn tokens_have_audience_and_expiration() {
    let api = Api::start().await;
    let response = token(
        &api,
        "default",
        json!({"audiences": ["vault"], "expirationSeconds": 600}),
    )
    .await;
    let for_vault = response["status"]["token"].as_str().unwrap();
    assert_eq!(response["spec"]["expirationSeconds"], 600);
    assert_eq!(code_with(&api, for_vault).await, 401);
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = async |audiences: Value| {
        let review = json!({"spec": {"token": for_vault, "audiences": audiences}});
        api.post(reviews, &review).await.expect(201)["status"].clone()
    };
    let reviewed = review(json!(["vault", "other"])).await;
    assert_eq!(
        (&reviewed["authenticated"], &reviewed["audiences"]),
        (&json!(true), &json!(["vault"]))
    );
    assert_eq!(
        reviewed["user"]["username"],
        "system:serviceaccount:default:default"
    );
    assert!(review(json!([])).await["error"].is_string());

    let path = format!("{ACCOUNTS}/default/token");
    let short = json!({"spec": {"expirationSeconds": 10}});
    let refused = api.post(&path, &short).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.expirationSeconds");
    api.post(&format!("{ACCOUNTS}/nobody/token"), &json!({}))
        .await
        .expect(404);
    let other = json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}}});
    api.post(&path, &other).await.expect(400);
}

#[tokio::test]
async fn token_keys_are_published() {
    let api = Api::start().await;
    let keys = api.get("/openid/v1/jwks").await.expect(200);
    assert_eq!(keys["keys"][0]["alg"], "ES256");
    let issuer = api.get("/.well-known/openid-configuration").await.expect(200);
    assert_eq!(issuer["issuer"], "https://kubernetes.default.svc.cluster.local");
    assert_eq!(
        issuer["jwks_uri"],
        format!("https://{}/openid/v1/jwks", api.server.address())
    );
}

#[tokio::test]
async fn tokens_are_valid_after_a_restart() {
    let api = Api::start().await;
    let token = token(&api, "default", json!({})).await["status"]["token"].clone();
    let api = Api::start_in(api.stop().await).await;
    assert_eq!(code_with(&api, token.as_str().unwrap()).await, 403);
}

// Upstream: registry/core/serviceaccount/storage/token.go, `Create`.
#[tokio::test]
async fn invalid_requests_for_tokens_are_rejected() {
    let api = Api::start().await;
    let path = format!("{ACCOUNTS}/default/token");
    let other = json!({"metadata": {"name": "other"}});
    let refused = api.post(&path, &other).await.expect(422);
    assert_eq!(
        refused["message"],
        "TokenRequest.authentication.k8s.io \"default\" is invalid: metadata.name: Invalid value: \"other\": must match the \
         service account name if specified"
    );
    let short = json!({"spec": {"expirationSeconds": 5}});
    let refused = api.post(&path, &short).await.expect(422);
    assert_eq!(
        refused["message"],
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 5: may not specify a \
         duration less than 10 minutes"
    );
}
