use api::object::ObjectKey;
use serde_json::json;

use super::*;
use crate::replica_set::ReplicaPod;
use crate::scheduler::SchedulePod;

fn applied(pod: &serde_json::Value) -> Event<Arc<PodText>> {
    Event::Applied(Arc::new(serde_json::from_str(&pod.to_string()).expect("a Pod")))
}

#[test]
fn views_read_the_text_of_the_pod() {
    let pod = json!({
        "metadata": {"namespace": "n", "name": "p", "uid": "u", "labels": {"app": "web"}},
        "spec": {"nodeName": "a"},
    });
    let Event::Applied(view) = view_of::<ReplicaPod>(applied(&pod)) else {
        panic!("expected a view");
    };
    assert_eq!(view, serde_json::from_value(pod).expect("a Pod"));
}

#[test]
fn pod_that_is_malformed_for_one_view_is_not_for_others() {
    let pod = json!({"metadata": {"namespace": "n", "name": "p"}, "spec": {"tolerations": "none"}});
    let event = view_of::<SchedulePod>(applied(&pod));
    assert!(
        matches!(&event, Event::Malformed { key, .. } if *key == ObjectKey::new("n", "p")),
        "{event:?}"
    );
    let event = view_of::<ReplicaPod>(applied(&pod));
    assert!(matches!(event, Event::Applied(_)), "{event:?}");
}

#[test]
fn texts_are_read_within_a_list() {
    let list = r#"[ {"metadata": {"name": "a"}} , {"metadata": {"name": "b"}, "spec": {}} ]"#;
    let pods: Vec<PodText> = serde_json::from_slice(list.as_bytes()).expect("a list");
    let names: Vec<&str> = pods.iter().map(|pod| &*pod.metadata().name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(pods[1].json.get(), r#"{"metadata": {"name": "b"}, "spec": {}}"#);
}
