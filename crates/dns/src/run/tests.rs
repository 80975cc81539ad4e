use super::*;

fn config(choose: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::new(Vec::new(), Name::from_text("cluster.local").expect("a name"));
    choose(&mut config);
    config
}

#[test]
fn watches_needed_kinds_only() {
    let plain = feed_for(&config(|_| {}));
    assert!(plain.slices.is_some() && plain.pods.is_none());
    let chosen = feed_for(&config(|config| {
        config.labels = "app=web".to_owned();
        config.namespace_labels = "dns".to_owned();
        config.no_endpoints = true;
        config.pods = PodNames::Verified;
    }));
    let pods = chosen.pods.expect("Pods are watched");
    assert_eq!(
        (
            &*chosen.services.label_selector,
            &*chosen.namespaces.label_selector,
            &*pods.label_selector
        ),
        ("app=web", "dns", "app=web")
    );
    assert!(chosen.slices.is_none());
}

#[test]
fn search_needs_all_pods_of_the_node() {
    let chosen = feed_for(&config(|config| {
        config.labels = "app=web".to_owned();
        config.server_side_search = true;
        config.node_name = Some("node-1".to_owned());
        config.namespaces = vec!["a".to_owned()];
    }));
    assert!(chosen.with_other_pods);
    let pods = chosen.pods.expect("Pods are watched");
    assert_eq!(
        (&*pods.label_selector, &*pods.field_selector),
        ("", "spec.nodeName=node-1")
    );
}

#[test]
fn unknown_objects_are_not_answered() {
    let settings = |choose: fn(&mut Config)| index_settings(&config(choose)).only_known_namespaces;
    assert!(!settings(|_| {}));
    assert!(settings(|config| config.namespaces = vec!["a".to_owned()]));
    assert!(settings(|config| config.namespace_labels = "dns".to_owned()));
}
