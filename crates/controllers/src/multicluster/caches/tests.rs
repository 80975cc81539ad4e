use super::*;
use crate::multicluster::tests::export;

fn cache(exports_max: usize) -> ClusterCache {
    ClusterCache::new("west".parse().expect("a name"), exports_max)
}

fn named(name: &str) -> Event<ServiceExport> {
    let mut export = export(1);
    export.metadata.name = name.to_owned();
    Event::Applied(export)
}

/// Returns true if the state of a Service has its export.
fn counts(cache: &ClusterCache, name: &str) -> bool {
    cache.state(&ObjectKey::new("shop", name)).export.is_some()
}

#[test]
fn number_of_exports_is_bounded() {
    let mut cache = cache(2);
    for name in ["a", "b", "c"] {
        cache.apply_export(named(name));
    }
    assert!(counts(&cache, "a") && counts(&cache, "b") && !counts(&cache, "c"));
    cache.apply_export(named("b"));
    assert!(counts(&cache, "b"), "a change keeps its place");
    let changed = cache.apply_export(Event::Deleted(ObjectKey::new("shop", "a")));
    let keys = [ObjectKey::new("shop", "a"), ObjectKey::new("shop", "c")];
    assert_eq!(changed, BTreeSet::from(keys));
    assert!(!counts(&cache, "a") && counts(&cache, "c"));
}

#[test]
fn export_with_an_invalid_name_is_ignored() {
    let mut cache = cache(1);
    let long = "x".repeat(64);
    for name in ["a.b", "a,c=d", "../pods/x", long.as_str()] {
        cache.apply_export(named(name));
        assert!(!counts(&cache, name), "{name}");
    }
    cache.apply_export(named("web"));
    assert!(counts(&cache, "web"));
}
