use super::*;

fn content_with(finalizers: &[&str]) -> Content {
    let mut content = Content::default();
    let value = json!({"metadata": {"name": "p", "finalizers": finalizers}}).to_string();
    let entry = Entry {
        key: "/pods/n/p".into(),
        value: value.into(),
        created: store::Revision(1),
        modified: store::Revision(1),
    };
    let pods = api::kind::find("", "v1", "pods").expect("the kind Pod");
    content.add(pods, &[entry]);
    content
}

fn status(namespace: &Value, kind: &str) -> (String, String) {
    let conditions = items(child(namespace, "status"), "conditions");
    let found = conditions
        .iter()
        .find(|condition| text(condition, "type") == kind);
    let found = found.expect("the condition");
    (
        text(found, "status").to_owned(),
        text(found, "message").to_owned(),
    )
}

#[test]
fn conditions_report_content_and_keep_their_transition_time() {
    let namespace = json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}});
    let content = content_with(&["example.com/wait"]);
    let first = content
        .with_conditions(&namespace, Timestamp::UNIX_EPOCH)
        .expect("changed conditions");
    assert_eq!(first["status"]["phase"], "Terminating");
    let (remains, message) = status(&first, "NamespaceContentRemaining");
    assert_eq!(
        (&*remains, &*message),
        (
            "True",
            "Some resources are remaining: pods. has 1 resource instances"
        )
    );
    let (_, message) = status(&first, "NamespaceFinalizersRemaining");
    assert!(
        message.ends_with("example.com/wait in 1 resource instances"),
        "{message}"
    );
    assert_eq!(status(&first, "NamespaceDeletionContentFailure").0, "False");
    let later: Timestamp = "2026-01-01T00:00:00Z".parse().expect("an RFC 3339 time");
    assert_eq!(content.with_conditions(&first, later), None, "unchanged content");
    let second = content_with(&[])
        .with_conditions(&first, later)
        .expect("changed conditions");
    assert_eq!(status(&second, "NamespaceFinalizersRemaining").0, "False");
    let conditions = items(child(&second, "status"), "conditions");
    let since = |index: usize| text(&conditions[index], "lastTransitionTime").to_owned();
    assert_eq!(
        (since(3), since(4)),
        (
            "1970-01-01T00:00:00Z".to_owned(),
            "2026-01-01T00:00:00Z".to_owned()
        )
    );
}
