use api::kind::find;
use serde_json::json;

use super::*;

fn pod(node: &str) -> Value {
    json!({"metadata": {"name": "p", "generation": 1}, "spec": {"nodeName": node}, "status": {}})
}

#[test]
fn a_pod_on_a_node_gets_time_and_later_deletes_only_shorten_it() {
    let pods = find("", "v1", "pods").unwrap();
    assert_eq!(judge(pods, &pod(""), &DeleteOptions::default()), Verdict::Remove);
    let Verdict::Mark(marked) = judge(pods, &pod("n"), &DeleteOptions::default()) else {
        panic!("a running Pod is marked first");
    };
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(judge(pods, &marked, &DeleteOptions::default()), Verdict::Pending);
    let sooner = DeleteOptions {
        grace_period_seconds: Some(5),
        ..DeleteOptions::default()
    };
    let Verdict::Mark(shortened) = judge(pods, &marked, &sooner) else {
        panic!("it can be shortened")
    };
    assert_eq!(shortened["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(shortened["metadata"]["generation"], 2);
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    assert_eq!(judge(pods, &shortened, &now), Verdict::Remove);
}

#[test]
fn finalizers_hold_an_object_back() {
    let services = find("", "v1", "services").unwrap();
    let object = json!({"metadata": {"name": "s", "finalizers": ["example.com/f"]}});
    let Verdict::Mark(marked) = judge(services, &object, &DeleteOptions::default()) else {
        panic!("it is marked")
    };
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(
        judge(services, &marked, &DeleteOptions::default()),
        Verdict::Pending
    );
    let foreground = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    let Verdict::Mark(marked) = judge(services, &json!({"metadata": {"name": "s"}}), &foreground) else {
        panic!("it is marked")
    };
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}
