use super::*;

fn left(finalizers: &[&str]) -> Content {
    let mut content = Content::default();
    let value = json!({"metadata": {"name": "p", "finalizers": finalizers}}).to_string();
    let entry = Entry {
        key: "/pods/n/p".into(),
        value: value.into(),
        created: store::Revision(1),
        modified: store::Revision(1),
    };
    let pods = api::kind::find("", "v1", "pods").expect("pods are served");
    content.add(pods, &[entry]);
    content
}

fn status(namespace: &Value, kind: &str) -> (String, String) {
    let conditions = items(child(namespace, "status"), "conditions");
    let found = conditions
        .iter()
        .find(|condition| text(condition, "type") == kind);
    let found = found.expect("a condition");
    (
        text(found, "status").to_owned(),
        text(found, "message").to_owned(),
    )
}

#[test]
fn what_is_left_is_told_once_and_since_when() {
    let namespace = json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}});
    let content = left(&["example.com/wait"]);
    let told = content.told(&namespace, Timestamp::UNIX_EPOCH).expect("news");
    assert_eq!(told["status"]["phase"], "Terminating");
    let (remains, message) = status(&told, "NamespaceContentRemaining");
    assert_eq!(
        (&*remains, &*message),
        (
            "True",
            "Some resources are remaining: pods. has 1 resource instances"
        )
    );
    let (_, message) = status(&told, "NamespaceFinalizersRemaining");
    assert!(
        message.ends_with("example.com/wait in 1 resource instances"),
        "{message}"
    );
    assert_eq!(status(&told, "NamespaceDeletionContentFailure").0, "False");
    let later: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    assert_eq!(content.told(&told, later), None, "the same is no news");
    let unheld = left(&[]).told(&told, later).expect("news");
    assert_eq!(status(&unheld, "NamespaceFinalizersRemaining").0, "False");
    let conditions = items(child(&unheld, "status"), "conditions");
    let since = |index: usize| text(&conditions[index], "lastTransitionTime").to_owned();
    assert_eq!(
        (since(3), since(4)),
        (
            "1970-01-01T00:00:00Z".to_owned(),
            "2026-01-01T00:00:00Z".to_owned()
        )
    );
}
