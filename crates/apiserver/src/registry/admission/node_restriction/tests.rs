use std::sync::Arc;

use api::kind;
use serde_json::{Value, json};
use store::{Expectation, SqliteOptions, SqliteStore, Store, Transaction, Write};

use super::*;
use crate::access::audit::Recorder;
use crate::access::authentication::Identity;
use crate::access::authorization::{AuthorizationMode, Authorizer};

/// A store with the Node n1 and Pods on n1 and n2.
struct Fixture {
    store: Arc<SqliteStore>,
    _directory: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
        let fixture = Fixture {
            store: Arc::new(store),
            _directory: directory,
        };
        let node = json!({"metadata": {"name": "n1", "uid": "u1"}});
        fixture.put(&target("nodes", "", "", "n1"), &node).await;
        for (name, node) in [("p", "n1"), ("q", "n2")] {
            let spec = json!({"nodeName": node, "volumes": [
                {"projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}}]});
            let pod = json!({"metadata": {"name": name, "namespace": "d", "uid": format!("uid-{name}")}, "spec": spec});
            fixture.put(&target("pods", "", "d", name), &pod).await;
        }
        fixture
    }

    async fn put(&self, target: &Target, object: &Value) {
        let key: store::Key = target.key().as_str().into();
        let value = store::Value {
            bytes: object.to_string().into(),
            revision_at: None,
        };
        let transaction = Transaction {
            expectations: vec![(key.clone(), Expectation::Absent)],
            writes: vec![Write::Put(key, value)],
        };
        self.store.commit(transaction).await.unwrap();
    }

    /// Returns the message with which a write of n1 is refused; "" if it is admitted.
    fn refusal(&self, target: &Target, stored: Option<&Value>, object: &Value) -> String {
        let attempt = WriteAttempt {
            target,
            requester: None,
            stored,
            recorder: Recorder::NONE,
        };
        message(admit("n1", self.store.index(), &attempt, object))
    }

    fn token_refusal(&self, request: &Value) -> String {
        let target = target("serviceaccounts", "", "d", "robot").with_subresource("token");
        let authorizer = Authorizer::new(vec![AuthorizationMode::Rbac], self.store.clone());
        let node = Identity {
            user: "system:node:n1".to_owned(),
            ..Identity::default()
        };
        message(admit_token_request(
            "n1",
            self.store.index(),
            &target,
            &node,
            &authorizer,
            request,
        ))
    }
}

fn message(admitted: Result<(), Failure>) -> String {
    let Err(failure) = admitted else {
        return String::new();
    };
    let text = failure.message();
    let (_, message) = text.split_once(" is forbidden: ").unwrap_or(("", text));
    message.to_owned()
}

fn target(plural: &str, group: &str, namespace: &str, name: &str) -> Target {
    let kind = kind::find(group, "v1", plural).unwrap();
    Target::object(kind, namespace, name)
}

fn mirror() -> Value {
    json!({
        "metadata": {
            "name": "m",
            "namespace": "d",
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": true}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    })
}

#[tokio::test]
async fn admits_mirror_pods_without_references() {
    let fixture = Fixture::new().await;
    let pods = Target {
        name: None,
        ..target("pods", "", "d", "")
    };
    let refusal = |change: &dyn Fn(&mut Value)| {
        let mut pod = mirror();
        change(&mut pod);
        fixture.refusal(&pods, None, &pod)
    };
    assert_eq!(refusal(&|_| {}), "");
    let spec = |field: &'static str, value: Value| refusal(&move |pod| pod["spec"][field] = value.clone());
    for (field, value, resource) in [
        ("serviceAccountName", json!("robot"), "serviceaccounts"),
        ("imagePullSecrets", json!([{"name": "s"}]), "secrets"),
        ("volumes", json!([{"configMap": {"name": "s"}}]), "configmaps"),
        ("resourceClaims", json!([{"name": "s"}]), "resourceclaims"),
        (
            "volumes",
            json!([{"persistentVolumeClaim": {"claimName": "s"}}]),
            "persistentvolumeclaims",
        ),
    ] {
        let expected = format!("node \"n1\" can not create pods that reference {resource}");
        assert_eq!(spec(field, value), expected);
    }
    assert_eq!(
        spec("nodeName", json!("n2")),
        "node \"n1\" can only create pods with spec.nodeName set to itself"
    );
    assert_eq!(
        refusal(&|pod| pod["metadata"]["annotations"] = json!({})),
        "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods"
    );
}

#[tokio::test]
async fn mirror_pods_must_be_owned_by_their_node() {
    let fixture = Fixture::new().await;
    let new = target("pods", "", "d", "m");
    let refusal = |owners: Value| {
        let mut pod = mirror();
        pod["metadata"]["ownerReferences"] = owners;
        fixture.refusal(&new, None, &pod)
    };
    let with = |field: &str, value: Value| {
        let mut owner = mirror()["metadata"]["ownerReferences"][0].clone();
        owner[field] = value;
        refusal(json!([owner]))
    };
    let other = "node \"n1\" can only create pods with an owner reference set to itself";
    assert_eq!(refusal(json!([])), other);
    assert_eq!(with("name", json!("n2")), other);
    assert_eq!(with("kind", json!("ReplicaSet")), other);
    assert_eq!(
        refusal(json!([{}, {}])),
        "node \"n1\" can only create pods with a single owner reference set to itself"
    );
    assert_eq!(
        with("controller", json!(false)),
        "node \"n1\" can only create pods with a controller owner reference set to itself"
    );
    assert_eq!(
        with("blockOwnerDeletion", json!(true)),
        "node \"n1\" must not set blockOwnerDeletion on an owner reference"
    );
    assert_eq!(
        with("uid", json!("u2")),
        "node n1 UID mismatch: expected u2 got u1"
    );
}

#[tokio::test]
async fn node_updates_the_status_of_its_own_pods_only() {
    let fixture = Fixture::new().await;
    let status = target("pods", "", "d", "p").with_subresource("status");
    let pod = |node: &str, labels: Value| json!({"metadata": {"labels": labels}, "spec": {"nodeName": node}});
    let (own, others) = (pod("n1", json!({"a": "1"})), pod("n2", json!({})));
    assert_eq!(fixture.refusal(&status, Some(&own), &own), "");
    assert_eq!(
        fixture.refusal(&status, Some(&others), &others),
        "node \"n1\" can only update pod status for pods with spec.nodeName set to itself"
    );
    for labels in [json!({"a": "2"}), json!({}), json!({"a": "1", "b": "1"})] {
        assert_eq!(
            fixture.refusal(&status, Some(&own), &pod("n1", labels)),
            "node \"n1\" cannot update labels through pod status"
        );
    }
    let mut claims = own.clone();
    claims["status"] = json!({"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]});
    assert_eq!(
        fixture.refusal(&status, Some(&own), &claims),
        "node \"n1\" cannot update resource claim statues"
    );
    assert_eq!(
        fixture.refusal(&target("pods", "", "d", "p"), Some(&own), &own),
        "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods"
    );
}

#[tokio::test]
async fn node_deletes_its_own_objects_only() {
    let fixture = Fixture::new().await;
    let refusal = |target: Target| message(admit_delete("n1", fixture.store.index(), &target));
    assert_eq!(refusal(target("pods", "", "d", "p")), "");
    assert_eq!(
        refusal(target("pods", "", "d", "q")),
        "node \"n1\" can only delete pods with spec.nodeName set to itself"
    );
    assert_eq!(
        refusal(target("pods", "", "d", "absent")),
        "pods \"absent\" not found"
    );
    assert_eq!(refusal(target("nodes", "", "", "n1")), "");
    assert_eq!(
        refusal(target("nodes", "", "", "n2")),
        "node \"n1\" is not allowed to modify node \"n2\""
    );
    let lease = |name| target("leases", "coordination.k8s.io", "kube-node-lease", name);
    assert_eq!(refusal(lease("n1")), "");
    assert_eq!(
        refusal(lease("n2")),
        "can only access node lease with the same name as the requesting node"
    );
}

#[tokio::test]
async fn node_cannot_change_its_taints_owners_and_pod_cidrs() {
    let fixture = Fixture::new().await;
    let node = target("nodes", "", "", "n1");
    for target in [node.clone(), node.clone().with_subresource("status")] {
        let stored = json!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}});
        let refusal = |field: &str, value: Value| {
            let mut changed = stored.clone();
            match field {
                "ownerReferences" | "annotations" => changed["metadata"][field] = value,
                _ => changed["spec"][field] = value,
            }
            fixture.refusal(&target, Some(&stored), &changed)
        };
        assert_eq!(refusal("unschedulable", json!(true)), "");
        assert_eq!(
            refusal("taints", json!([{"key": "a"}])),
            "node \"n1\" is not allowed to modify taints"
        );
        assert_eq!(
            refusal("ownerReferences", json!([{"name": "a"}])),
            "node \"n1\" is not allowed to modify ownerReferences"
        );
        assert_eq!(refusal("annotations", json!({"example.com/a": "b"})), "");
        assert_eq!(
            refusal("annotations", json!({"portolan.dev/incarnation": "r1"})),
            "node \"n1\" is not allowed to modify the annotation portolan.dev/incarnation"
        );
        assert_eq!(
            refusal("configSource", json!({"configMap": {}})),
            "node \"n1\" is not allowed to update configSource to a new non-nil configSource"
        );
        assert_eq!(
            refusal("podCIDRs", json!(["10.0.0.0/16"])),
            "node \"n1\" is not allowed to modify podCIDR or podCIDRs"
        );
    }
    let new = Target { name: None, ..node };
    let created = |object: Value| fixture.refusal(&new, None, &object);
    assert_eq!(
        created(json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a"}]}})),
        ""
    );
    assert_eq!(
        created(json!({"metadata": {"name": "n2"}})),
        "node \"n1\" is not allowed to modify node \"n2\""
    );
    assert_eq!(
        created(json!({"metadata": {"name": "n1"}, "spec": {"podCIDR": "10.0.0.0/24"}})),
        "node \"n1\" is not allowed to set podCIDR or podCIDRs"
    );
    assert_eq!(
        created(json!({"metadata": {"name": "n1"}, "spec": {"configSource": {}}})),
        "node \"n1\" is not allowed to create pods with a non-nil configSource"
    );
}

#[tokio::test]
async fn node_cannot_outlast_its_deletion_by_finalizers() {
    let fixture = Fixture::new().await;
    let node = target("nodes", "", "", "n1");
    let with = |finalizers: Value| json!({"metadata": {"name": "n1", "finalizers": finalizers}});
    let (bare, held) = (with(json!([])), with(json!(["example.com/hold"])));
    let refused = "node \"n1\" is not allowed to modify finalizers";
    assert_eq!(fixture.refusal(&node, None, &held), refused);
    for target in [node.clone(), node.with_subresource("status")] {
        assert_eq!(fixture.refusal(&target, Some(&bare), &held), refused);
        assert_eq!(fixture.refusal(&target, Some(&held), &bare), refused);
        assert_eq!(fixture.refusal(&target, Some(&held), &held), "");
    }
}

#[tokio::test]
async fn node_adds_no_finalizers_to_its_pods() {
    let fixture = Fixture::new().await;
    let mut held = mirror();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(
        fixture.refusal(&target("pods", "", "d", "m"), None, &held),
        "node \"n1\" can not create pods with finalizers"
    );
    let status = target("pods", "", "d", "m").with_subresource("status");
    for (before, after) in [(mirror(), held.clone()), (held.clone(), mirror())] {
        assert_eq!(
            fixture.refusal(&status, Some(&before), &after),
            "node \"n1\" cannot update finalizers through pod status"
        );
    }
    assert_eq!(fixture.refusal(&status, Some(&held), &held), "");
}

#[tokio::test]
async fn node_cordons_itself_and_does_not_uncordon_itself() {
    let fixture = Fixture::new().await;
    let node = target("nodes", "", "", "n1");
    let (open, cordoned) = (
        json!({"metadata": {"name": "n1"}, "spec": {}}),
        json!({"metadata": {"name": "n1"}, "spec": {"unschedulable": true}}),
    );
    assert_eq!(fixture.refusal(&node, Some(&open), &cordoned), "");
    assert_eq!(
        fixture.refusal(&node, Some(&cordoned), &open),
        "node \"n1\" is not allowed to uncordon itself"
    );
}

#[tokio::test]
async fn node_sets_kubelet_labels_only() {
    let fixture = Fixture::new().await;
    let node = target("nodes", "", "", "n1");
    let labelled = |key: &str| json!({"metadata": {"name": "n1", "labels": {key: "x"}}});
    for key in [
        "rack",
        "example.com/rack",
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/anything",
        "my.kubelet.kubernetes.io/anything",
    ] {
        assert_eq!(fixture.refusal(&node, None, &labelled(key)), "", "{key}");
    }
    let bare = json!({"metadata": {"name": "n1"}});
    let status = node.clone().with_subresource("status");
    for key in [
        "node-restriction.kubernetes.io/secret",
        "my.node-restriction.kubernetes.io/secret",
        "node-role.kubernetes.io/control-plane",
        "kubernetes.io/other",
        "k8s.io/other",
        "xnode.kubernetes.io/other",
    ] {
        assert_eq!(
            fixture.refusal(&node, None, &labelled(key)),
            format!("node \"n1\" is not allowed to set the following labels: {key}")
        );
        let modified = format!("is not allowed to modify labels: {key}");
        assert_eq!(fixture.refusal(&node, Some(&bare), &labelled(key)), modified);
        assert_eq!(fixture.refusal(&status, Some(&labelled(key)), &bare), modified);
    }
}

#[tokio::test]
async fn node_requests_tokens_for_its_own_pods_only() {
    let fixture = Fixture::new().await;
    let request = |name: &str, uid: &str, audiences: Value| {
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        fixture.token_refusal(&json!({"spec": {"boundObjectRef": bound, "audiences": audiences}}))
    };
    assert_eq!(request("p", "uid-p", json!(["vault"])), "");
    assert_eq!(
        fixture.token_refusal(&json!({})),
        "node requested token not bound to a pod"
    );
    assert_eq!(
        fixture.token_refusal(
            &json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}})
        ),
        "node requested token not bound to a pod"
    );
    assert_eq!(
        request("p", "", json!(["vault"])),
        "node requested token with a pod binding without a uid"
    );
    assert_eq!(
        request("p", "other", json!(["vault"])),
        "the UID in the bound object reference (other) does not match the UID in record. The object might have been \
         deleted and then recreated"
    );
    assert_eq!(
        request("q", "uid-q", json!(["vault"])),
        "node requested token bound to a pod scheduled on a different node"
    );
    assert_eq!(
        request("p", "uid-p", json!(["vault", "other"])),
        "node may only request 0 or 1 audiences"
    );
    for (audiences, audience) in [(json!(["other"]), "other"), (json!([]), "")] {
        assert_eq!(
            request("p", "uid-p", audiences),
            format!(
                "audience {audience:?} not found in pod spec volume, system:node:n1 is not authorized to request tokens \
                 for this audience"
            )
        );
    }
    assert_eq!(request("absent", "u", json!([])), "pods \"absent\" not found");
}

#[tokio::test]
async fn refuses_a_user_without_node_name() {
    let fixture = Fixture::new().await;
    let node = target("nodes", "", "", "n1");
    let attempt = WriteAttempt {
        target: &node,
        requester: None,
        stored: None,
        recorder: Recorder::NONE,
    };
    let refusal = message(admit("", fixture.store.index(), &attempt, &json!({})));
    assert_eq!(refusal, "could not determine node from user \"system:node:\"");
}

#[test]
fn node_requests_certificates_for_its_own_name_only() {
    let refusal = |signer: &str, common_name: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, common_name);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let request = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
        let object = json!({"spec": {"signerName": signer, "request": request}});
        match certificate_requests::admit("n1", &object) {
            Ok(()) => String::new(),
            Err(Refusal::Forbidden(message)) => message,
            Err(Refusal::Unreadable(failure)) => failure.message().to_owned(),
        }
    };
    for signer in [
        "kubernetes.io/kubelet-serving",
        "kubernetes.io/kube-apiserver-client-kubelet",
    ] {
        assert_eq!(refusal(signer, "system:node:n1"), "");
        for other in ["system:node:n2", "admin"] {
            assert_eq!(
                refusal(signer, other),
                "can only create a node CSR with CN=system:node:n1"
            );
        }
    }
    assert_eq!(refusal("portolan.dev/node-part", "system:kube-proxy"), "");
}
