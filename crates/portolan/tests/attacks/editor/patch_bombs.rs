//! Patches that are small and make much (H1): each is refused, and the server goes on.

use bytes::Bytes;
use client::{Client, ClientError, STRATEGIC_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::Api;

const JSON_PATCH: &str = "application/json-patch+json";
const OBJECT: &str = "/api/v1/namespaces/default/configmaps/own";

/// An editor of the namespace `default`, who has an object there.
async fn editor(api: &Api) -> Client {
    let admin = access::administrator(api);
    let binding = json!({"metadata": {"name": "edit"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let bound = admin
        .request(Method::POST, bindings, client::JSON, Some(&binding))
        .await;
    bound.expect("a role");
    let editor = access::with_certificate(api, "ann", "");
    let object = json!({"metadata": {"name": "own"}, "data": {"a": "b"}});
    let own = "/api/v1/namespaces/default/configmaps";
    let made = editor
        .request(Method::POST, own, client::JSON, Some(&object))
        .await;
    made.expect("an object");
    editor
}

/// The code of the refusal of a patch; it is sent as a dry run, which needs no other right.
async fn refusal(editor: &Client, content_type: &str, patch: String) -> u16 {
    let path = format!("{OBJECT}?dryRun=All");
    let sent = editor
        .send(Method::PATCH, &path, content_type, Bytes::from(patch))
        .await;
    match sent {
        Ok(_) => 200,
        Err(ClientError::Status { status, .. }) => status.code,
        Err(other) => panic!("the server did not answer: {other}"),
    }
}

fn nest(levels: usize) -> String {
    format!("{}{{}}{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

/// 110 levels, with what was built so far moved to their end, again and again: 400 KB make 44,000 levels.
fn deep_by_move() -> String {
    let (value, end) = (nest(110), "/a".repeat(110));
    let round = format!(
        r#",{{"op":"add","path":"/n","value":{value}}},{{"op":"move","from":"/x","path":"/n{end}/a"}},{{"op":"move","from":"/n","path":"/x"}}"#
    );
    format!(
        r#"[{{"op":"add","path":"/x","value":{{}}}}{}]"#,
        round.repeat(400)
    )
}

fn deep_by_copy() -> String {
    let round = r#",{"op":"copy","from":"/x","path":"/y"},{"op":"add","path":"/x","value":{}},{"op":"move","from":"/y","path":"/x/a"}"#;
    format!(
        r#"[{{"op":"add","path":"/x","value":{{}}}}{}]"#,
        round.repeat(3_000)
    )
}

fn doubled() -> String {
    let copy = r#",{"op":"copy","from":"","path":"/l/-"}"#;
    format!(r#"[{{"op":"add","path":"/l","value":[]}}{}]"#, copy.repeat(60))
}

fn large_copies() -> String {
    let large = "x".repeat(1 << 20);
    let copies: Vec<String> = (0..9_000)
        .map(|at| format!(r#",{{"op":"copy","from":"/data/a","path":"/data/b{at}"}}"#))
        .collect();
    format!(
        r#"[{{"op":"add","path":"/data/a","value":"{large}"}}{}]"#,
        copies.concat()
    )
}

fn shifted() -> String {
    let list = format!("[{}0]", "0,".repeat(1_000_000));
    let add = r#",{"op":"add","path":"/l/0","value":0}"#;
    format!(
        r#"[{{"op":"add","path":"/l","value":{list}}}{}]"#,
        add.repeat(9_000)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_json_patches_that_make_much_of_little() {
    let api = Api::start();
    let editor = editor(&api).await;
    let pointer = "/a".repeat(500_000);
    let bombs = [
        ("deep by move", deep_by_move(), 422),
        ("deep by copy", deep_by_copy(), 422),
        ("doubled", doubled(), 413),
        ("large copies", large_copies(), 422),
        ("shifted", shifted(), 413),
        (
            "a long pointer",
            format!(r#"[{{"op":"add","path":"{pointer}","value":1}}]"#),
            422,
        ),
        (
            "a deep test",
            format!(r#"[{{"op":"test","path":"/data","value":{}}}]"#, nest(110)),
            422,
        ),
        (
            "many operations",
            format!("[{}]", [r#"{"op":"remove","path":"/a"}"#; 10_001].join(",")),
            413,
        ),
    ];
    for (name, bomb, code) in bombs {
        assert_eq!(refusal(&editor, JSON_PATCH, bomb).await, code, "{name}");
    }
    let own: Value = editor.get(OBJECT).await.expect("a server that goes on");
    assert_eq!(own["data"], json!({"a": "b"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strategic_patch_of_many_fields_holds_nobody_up() {
    let api = Api::start();
    let editor = editor(&api).await;
    let directives: Vec<String> = (0..90_000)
        .map(|at| format!(r#""$setElementOrder/k{at}":[]"#))
        .collect();
    let patch = format!(r#"{{"data":{{{}}}}}"#, directives.join(","));
    // Quadratic work would take longer than the client waits.
    assert_eq!(refusal(&editor, STRATEGIC_PATCH, patch).await, 200);
}
