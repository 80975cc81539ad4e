use serde_json::{Value, json};

use super::*;
use crate::scheduler::cached_pod::SharedFacts;

fn node(name: &str, zone: &str) -> Node {
    let labels = json!({"host": name, "zone": zone});
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).expect("a Node")
}

fn pod(app: &str, spec: Value) -> SchedulePod {
    let metadata = json!({"name": "p", "namespace": "default", "labels": {"app": app}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a Pod")
}

fn term(app: &str, key: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}},
    ]})
}

/// Returns the reasons of the Nodes a (z1), b (z1) and c (z2) with these Pods.
fn refusals(pod: &SchedulePod, on: [Vec<&SchedulePod>; 3]) -> Vec<String> {
    let nodes = [node("a", "z1"), node("b", "z1"), node("c", "z2")];
    let mut shared = SharedFacts::default();
    let mut facts = |pod: &SchedulePod| PlacementFacts::of(pod, &mut shared);
    let own = facts(pod);
    let on = on.map(|pods| pods.into_iter().map(&mut facts).collect::<Vec<_>>());
    let on = on.iter().map(|pods| pods.iter().collect());
    let with_pods: Vec<NodeWithPods<'_>> = nodes.iter().zip(on).collect();
    let namespaces = Namespaces::from([("other".to_owned(), api::object::Labels::new())]);
    let constraints = Constraints::of(pod, &own, &with_pods, &namespaces);
    let reason = |node| {
        constraints
            .refusal(node)
            .map_or(String::new(), |refusal| refusal.to_string())
    };
    nodes.iter().map(reason).collect()
}

const ANTI: &str = "node(s) didn't match pod anti-affinity rules";
const OTHERS: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
const NEAR: &str = "node(s) didn't match pod affinity rules";
const SPREAD: &str = "node(s) didn't match pod topology spread constraints";

#[test]
fn anti_affinity_excludes_the_domain_of_selected_pods() {
    let web = pod(
        "web",
        json!({"affinity": {"podAntiAffinity": term("web", "zone")}}),
    );
    let plain = pod("web", json!({}));
    assert_eq!(refusals(&web, [vec![], vec![], vec![]]), ["", "", ""]);
    assert_eq!(refusals(&web, [vec![&plain], vec![], vec![]]), [ANTI, ANTI, ""]);
    assert_eq!(
        refusals(&plain, [vec![&web], vec![], vec![]]),
        [OTHERS, OTHERS, ""]
    );
}

#[test]
fn affinity_requires_the_domain_of_selected_pods() {
    let follower = pod(
        "follower",
        json!({"affinity": {"podAffinity": term("leader", "zone")}}),
    );
    let leader = pod("leader", json!({}));
    assert_eq!(refusals(&follower, [vec![], vec![], vec![]]), [NEAR, NEAR, NEAR]);
    assert_eq!(
        refusals(&follower, [vec![&leader], vec![], vec![]]),
        ["", "", NEAR]
    );
}

#[test]
fn affinity_counts_pods_that_all_terms_select() {
    const TERMS: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut both = term("leader", "zone");
    both[TERMS] = json!([both[TERMS][0], term("cache", "zone")[TERMS][0]]);
    let follower = pod("follower", json!({"affinity": {"podAffinity": both}}));
    let (leader, cache) = (pod("leader", json!({})), pod("cache", json!({})));
    assert_eq!(
        refusals(&follower, [vec![&leader, &cache], vec![], vec![]]),
        [NEAR, NEAR, NEAR]
    );
}

#[test]
fn first_pod_with_affinity_to_itself_finds_a_place() {
    let group = pod(
        "group",
        json!({"affinity": {"podAffinity": term("group", "host")}}),
    );
    assert_eq!(refusals(&group, [vec![], vec![], vec![]]), ["", "", ""]);
    assert_eq!(refusals(&group, [vec![&group], vec![], vec![]]), ["", NEAR, NEAR]);
}

#[test]
fn terms_select_the_namespace_of_the_pod_unless_they_name_others() {
    let mut other = pod("web", json!({}));
    other.metadata.namespace = "other".to_owned();
    let mut anti = term("web", "host");
    let subject = |anti: &Value| pod("web", json!({"affinity": {"podAntiAffinity": anti}}));
    assert_eq!(
        refusals(&subject(&anti), [vec![&other], vec![], vec![]]),
        ["", "", ""]
    );
    anti["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] = json!({});
    assert_eq!(
        refusals(&subject(&anti), [vec![&other], vec![], vec![]]),
        [ANTI, "", ""]
    );
}

#[test]
fn spread_keeps_the_skew_of_domains() {
    let constraint = |key: &str| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]})
    };
    let web = pod("web", constraint("zone"));
    assert_eq!(refusals(&web, [vec![&web], vec![], vec![]]), [SPREAD, SPREAD, ""]);
    assert_eq!(refusals(&web, [vec![&web], vec![], vec![&web]]), ["", "", ""]);
    let racks = pod("web", constraint("rack"));
    let missing = format!("{SPREAD} (missing required label)");
    assert_eq!(refusals(&racks, [vec![], vec![], vec![]]), [&*missing; 3]);
}

#[test]
fn terms_and_constraints_beyond_the_bound_refuse_only_their_pod() {
    const TERMS: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let spread = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
    let spec = |count: usize| {
        let (mut near, mut far) = (term("leader", "zone"), term("other", "zone"));
        near[TERMS] = json!(vec![near[TERMS][0].clone(); count]);
        far[TERMS] = json!(vec![far[TERMS][0].clone(); count]);
        let affinity = json!({"podAffinity": near, "podAntiAffinity": far});
        json!({"affinity": affinity, "topologySpreadConstraints": vec![spread.clone(); count]})
    };
    let leader = pod("leader", json!({}));
    // A term with one label has the size 3.
    let follower = pod("follower", spec(85));
    assert_eq!(
        refusals(&follower, [vec![&leader], vec![], vec![]]),
        ["", "", NEAR]
    );
    let greedy = pod("follower", spec(86));
    let reason = "pod's affinity terms or topology spread constraints exceeded 256 requirements and values";
    assert_eq!(refusals(&greedy, [vec![&leader], vec![], vec![]]), [reason; 3]);
    let other = pod("other", json!({}));
    assert_eq!(
        refusals(&other, [vec![&follower], vec![], vec![&greedy]]),
        [OTHERS, OTHERS, ""]
    );
}
