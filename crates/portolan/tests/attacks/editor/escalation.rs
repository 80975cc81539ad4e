//! Privilege escalation from one namespace: roles, certificates, tokens, impersonation, subresources, forged
//! continue tokens and paths.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use client::{Client, Config, JSON};
use http::Method;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use super::{NAMESPACE, RBAC, grant};
use crate::access;
use crate::support::Api;

const GROUP: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Binds a user to a ClusterRole in the namespace `default`, and returns a client of the user.
async fn bound(api: &Api, user: &str, role: &str) -> Client {
    let binding = json!({"metadata": {"name": user},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}]});
    let path = format!("{RBAC}/namespaces/default/rolebindings");
    let administrator = access::administrator(api);
    let created = administrator
        .request(Method::POST, &path, JSON, Some(&binding))
        .await;
    created.expect("a role binding");
    access::with_certificate(api, user, "")
}

/// Sends an object and returns the status code.
async fn code(client: &Client, method: Method, path: &str, object: &Value) -> u16 {
    let content = match method {
        Method::PATCH => client::MERGE_PATCH,
        _ => JSON,
    };
    let response = client.request(method, path, content, Some(object)).await;
    response.map_or_else(|error| error.code().unwrap_or_default(), |_| 200)
}

#[tokio::test(flavor = "multi_thread")]
async fn editor_cannot_grant_more_than_its_own_rights() {
    let api = Api::start();
    let ann = bound(&api, "ann", "admin").await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let role = |rule: Value| json!({"metadata": {"name": "mine"}, "rules": [rule]});
    for rule in [
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        json!({"apiGroups": [""], "resources": ["pods/*"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["*/status"], "verbs": ["update"]}),
        json!({"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]}),
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "*"]}),
        json!({"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"]}),
        json!({"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["cluster-admin"]}),
        json!({"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}),
        json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve", "sign"]}),
    ] {
        let status = code(&ann, Method::POST, &roles, &role(rule.clone())).await;
        assert_eq!(status, 403, "{rule}");
    }
    // A permitted role cannot be widened later.
    let small = role(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}));
    assert_eq!(code(&ann, Method::POST, &roles, &small).await, 200);
    let wide = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    assert_eq!(
        code(&ann, Method::PATCH, &format!("{roles}/mine"), &wide).await,
        403
    );
    for name in ["cluster-admin", "system:node", "does-not-exist"] {
        let binding = json!({"metadata": {"name": format!("to-{}", name.replace(':', "-"))},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "ann"}]});
        let status = code(&ann, Method::POST, &bindings, &binding).await;
        assert!([403, 404].contains(&status), "{name}: {status}");
    }
    let aggregated = json!({"metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{}]}, "rules": []});
    let path = format!("{RBAC}/clusterroles");
    assert_eq!(code(&ann, Method::POST, &path, &aggregated).await, 403);
}

/// A user who may create ClusterRoles gains no rights from an aggregated ClusterRole.
#[tokio::test(flavor = "multi_thread")]
async fn aggregation_grants_no_rights() {
    let api = Api::start();
    let rule = json!({"apiGroups": [GROUP], "resources": ["clusterroles", "clusterrolebindings"],
                      "verbs": ["create", "get", "update", "patch"]});
    grant(&api, "ann", rule).await;
    let ann = access::with_certificate(&api, "ann", "");
    let aggregated = json!({"metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{}]}, "rules": []});
    let path = format!("{RBAC}/clusterroles");
    assert_eq!(code(&ann, Method::POST, &path, &aggregated).await, 403);
    let empty = json!({"metadata": {"name": "all"}, "rules": []});
    assert_eq!(code(&ann, Method::POST, &path, &empty).await, 200);
    let path = format!("{path}/all");
    assert_eq!(code(&ann, Method::PATCH, &path, &aggregated).await, 403);
    let binding = json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "ann"}]});
    code(
        &ann,
        Method::POST,
        &format!("{RBAC}/clusterrolebindings"),
        &binding,
    )
    .await;
    let secrets = ann.get::<Value>(&format!("{NAMESPACE}/secrets")).await;
    assert_eq!(secrets.err().and_then(|error| error.code()), Some(403));
}

/// Returns a CertificateSigningRequest for a user and a group.
fn signing_request(name: &str, signer: &str, user: &str, group: &str) -> Value {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let pem = params.serialize_request(&key).and_then(|request| request.pem());
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem.expect("a request")), "signerName": signer,
                 "usages": ["digital signature", "client auth"]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn user_cannot_approve_sign_or_change_certificate_requests() {
    let api = Api::start();
    let resources = [
        "certificatesigningrequests",
        "certificatesigningrequests/approval",
        "certificatesigningrequests/status",
    ];
    let rule = json!({"apiGroups": ["certificates.k8s.io"], "resources": resources,
                      "verbs": ["create", "get", "update", "patch"]});
    grant(&api, "ann", rule).await;
    let ann = access::with_certificate(&api, "ann", "");
    let client_signer = "kubernetes.io/kube-apiserver-client";
    let masters = signing_request("masters", client_signer, "ann", "system:masters");
    assert_eq!(code(&ann, Method::POST, CERTIFICATES, &masters).await, 403);
    let mut plain = signing_request("plain", client_signer, "bob", "devs");
    // The server sets the identity of the requester.
    plain["spec"]["username"] = json!("system:admin");
    plain["spec"]["groups"] = json!(["system:masters"]);
    let created = ann.request(Method::POST, CERTIFICATES, JSON, Some(&plain)).await;
    let created = created.expect("a CertificateSigningRequest");
    assert_eq!(created["spec"]["username"], "ann");
    assert_eq!(created["spec"]["groups"], json!(["system:authenticated"]));
    let approval = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Mine", "message": "mine"}]}});
    let path = format!("{CERTIFICATES}/plain/approval");
    assert_eq!(code(&ann, Method::PATCH, &path, &approval).await, 403);
    let signed = json!({"status": {"certificate": STANDARD.encode("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")}});
    let path = format!("{CERTIFICATES}/plain/status");
    let status = code(&ann, Method::PATCH, &path, &signed).await;
    assert!([403, 422].contains(&status), "{status}");
    for (field, value) in [
        ("signerName", json!("kubernetes.io/kubelet-serving")),
        ("username", json!("root")),
    ] {
        let path = format!("{CERTIFICATES}/plain");
        let changed = code(&ann, Method::PATCH, &path, &json!({"spec": {field: value}})).await;
        let now: Value = ann.get(&path).await.expect("the CertificateSigningRequest");
        assert!(
            changed != 200 || now["spec"][field] == created["spec"][field],
            "{field} changed"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_for_other_audiences_and_forged_tokens_are_rejected() {
    let api = Api::start();
    let ann = bound(&api, "ann", "edit").await;
    let token = async |spec: Value| {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let path = format!("{NAMESPACE}/serviceaccounts/default/token");
        let response = ann.request(Method::POST, &path, JSON, Some(&request)).await?;
        Ok::<_, client::ClientError>(
            response["status"]["token"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    let status_with = async |token: String| {
        let config = Config {
            server: api.server.clone(),
            certificate_authority: std::fs::read(api.directory.path().join("data/pki/ca.crt"))
                .expect("the CA certificate"),
            token: Some(token),
            ..Config::default()
        };
        let response = Client::new(config).expect("a client").get::<Value>("/apis").await;
        response.map_or_else(|error| error.code().unwrap_or_default(), |_| 200)
    };
    let own = token(json!({})).await.expect("a token");
    assert_eq!(status_with(own.clone()).await, 200);
    let other = token(json!({"audiences": ["vault"]})).await.expect("a token");
    assert_eq!(status_with(other).await, 401);
    // Tokens with changed claims or another algorithm.
    let parts: Vec<&str> = own.split('.').collect();
    let payload = URL_SAFE_NO_PAD.decode(parts[1]).expect("base64");
    let mut claims: Value = serde_json::from_slice(&payload).expect("claims in JSON");
    claims["sub"] = json!("system:serviceaccount:kube-system:generic-garbage-collector");
    claims["kubernetes.io"]["namespace"] = json!("kube-system");
    let forged = URL_SAFE_NO_PAD.encode(claims.to_string());
    let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
    for token in [
        format!("{}.{forged}.{}", parts[0], parts[2]),
        format!("{unsigned}.{forged}."),
        format!("{unsigned}.{forged}.{}", parts[2]),
    ] {
        assert_eq!(status_with(token).await, 401);
    }
    // Token of a ServiceAccount in another namespace.
    let path = "/api/v1/namespaces/kube-system/serviceaccounts/default/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    assert_eq!(code(&ann, Method::POST, path, &request).await, 403);
}

/// The role `edit` may impersonate the ServiceAccounts of its namespace, without other groups, UIDs or extra fields.
#[tokio::test(flavor = "multi_thread")]
async fn editor_impersonates_only_service_accounts_of_its_namespace() {
    let api = Api::start();
    let ann = bound(&api, "ann", "edit").await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("{NAMESPACE}/serviceaccounts/default/token");
    let response = ann.request(Method::POST, &path, JSON, Some(&request)).await;
    assert!(response.is_ok(), "{response:?}");
    let account = "system:serviceaccount:default:default";
    let attempts: [&[(&str, &str)]; 7] = [
        &[("Impersonate-User", "system:admin")],
        &[
            ("Impersonate-User", "system:node:one"),
            ("Impersonate-Group", "system:nodes"),
        ],
        &[
            ("Impersonate-User", account),
            ("Impersonate-Group", "system:masters"),
        ],
        &[("Impersonate-User", account), ("Impersonate-Uid", "1")],
        &[("Impersonate-User", account), ("Impersonate-Extra-Scopes", "all")],
        &[("Impersonate-User", "system:serviceaccount:kube-system:default")],
        &[("Impersonate-User", "system:serviceaccount:default:default:x")],
    ];
    for headers in attempts {
        let line = impersonation_status(&api, headers);
        assert!(line.starts_with("HTTP/1.1 403 "), "{headers:?}: {line}");
    }
    assert!(impersonation_status(&api, &[("Impersonate-User", account)]).starts_with("HTTP/1.1 200 "));
}

/// Sends a request with headers and the certificate of [`bound`] for the user `ann`, and returns the status line.
fn impersonation_status(api: &Api, headers: &[(&str, &str)]) -> String {
    let issued = apiserver::pki::client(&api.directory.path().join("data/pki"), "attacker-ann", "ann", "");
    let issued = issued.expect("a certificate");
    let config = Config {
        insecure_skip_tls_verify: true,
        client_certificate: Some((issued.pair.certificate.into_bytes(), issued.pair.key.into_bytes())),
        ..Config::default()
    };
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!("GET /apis HTTP/1.1\r\nhost: api\r\nconnection: close\r\n{headers}\r\n");
    let wire = crate::wire::Wire::with(api.address, &["http/1.1"], &config);
    let mut connection = wire.begin(request.as_bytes()).expect("a connection");
    crate::wire::first_line(&mut connection)
}

#[tokio::test(flavor = "multi_thread")]
async fn editor_cannot_use_privileged_subresources() {
    let api = Api::start();
    let ann = bound(&api, "ann", "edit").await;
    let pod = json!({"metadata": {"name": "own"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    assert_eq!(
        code(&ann, Method::POST, &format!("{NAMESPACE}/pods"), &pod).await,
        200
    );
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "own"},
                         "target": {"kind": "Node", "name": "one"}});
    let loopback = json!({"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}});
    let endpoints = json!({"metadata": {"name": "own"}, "subsets": [
        {"addresses": [{"ip": "169.254.169.254"}], "ports": [{"port": 80}]}]});
    let slice = json!({"metadata": {"name": "own"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    for (method, path, object) in [
        (Method::POST, format!("{NAMESPACE}/pods/own/binding"), &binding),
        (Method::POST, format!("{NAMESPACE}/bindings"), &binding),
        (
            Method::PATCH,
            format!("{NAMESPACE}/pods/own/ephemeralcontainers"),
            &pod,
        ),
        (
            Method::POST,
            format!("{NAMESPACE}/pods/own/eviction"),
            &Value::Null,
        ),
        (Method::PATCH, format!("{NAMESPACE}/pods/own/status"), &loopback),
        (
            Method::POST,
            "/api/v1/nodes/one/proxy/run".to_owned(),
            &Value::Null,
        ),
        (Method::POST, format!("{NAMESPACE}/endpoints"), &endpoints),
        (Method::POST, slices.to_owned(), &slice),
        (
            Method::PUT,
            "/api/v1/namespaces/default/finalize".to_owned(),
            &json!({"metadata": {"name": "default"}}),
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/default".to_owned(),
            &json!({"metadata": {"labels": {"a": "b"}}}),
        ),
    ] {
        let status = code(&ann, method, &path, object).await;
        assert!([403, 404, 405].contains(&status), "{path}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_continue_tokens_and_paths_reveal_no_other_namespace() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let secret = json!({"metadata": {"name": "loot"}, "stringData": {"k": "gold"}});
    for namespace in ["aaa", "zzz"] {
        let object = json!({"metadata": {"name": namespace}});
        assert_eq!(
            code(&administrator, Method::POST, "/api/v1/namespaces", &object).await,
            200
        );
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        assert_eq!(code(&administrator, Method::POST, &path, &secret).await, 200);
    }
    let ann = bound(&api, "ann", "edit").await;
    for after in [
        "/secrets/",
        "/secrets/aaa/",
        "/secrets/default/",
        "/secrets/zzz/",
        "/secrets/default/../zzz/",
        "/services/",
        "",
    ] {
        for revision in [-1, 0, 1, i64::MAX] {
            let token = URL_SAFE_NO_PAD.encode(json!({"rv": revision, "after": after}).to_string());
            let path = format!("{NAMESPACE}/secrets?limit=500&continue={token}");
            if let Ok(list) = ann.get::<Value>(&path).await {
                assert!(
                    !list.to_string().contains("loot"),
                    "{after} at {revision}: {list}"
                );
            }
        }
    }
    for path in [
        "/api/v1/namespaces/default/secrets/..%2Fzzz%2Floot",
        "/api/v1/namespaces/default/secrets/..%2F..%2Fsecrets%2Fzzz%2Floot",
        "/api/v1/namespaces/default%2F..%2Fzzz/secrets/loot",
        "/api/v1/namespaces/default/../zzz/secrets/loot",
        "/api/v1/namespaces/default/%2e%2e/zzz/secrets/loot",
        "/api/v1/namespaces//secrets/zzz%2Floot",
        "/api/v1/secrets/zzz%2Floot",
        "/api/v1/secrets?fieldSelector=metadata.namespace%3Ddefault",
        "/api/v1/secrets?fieldSelector=metadata.namespace%3Dzzz,metadata.name%3Dloot",
        "/api/v1/watch/secrets?timeoutSeconds=1",
        "/api/v1/namespaces/default/secrets?namespace=zzz",
        "//api/v1/namespaces/zzz/secrets/loot",
        "/api/v1/namespaces/zzz/secrets/loot/",
    ] {
        let response = ann.get::<Value>(path).await;
        assert!(
            !response.is_ok_and(|object| object.to_string().contains("loot")),
            "{path}"
        );
    }
}
