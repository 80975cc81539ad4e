use super::*;

fn keys(all: &[(&str, &str)]) -> Keys {
    let mut keys = Keys::default();
    for (namespace, name) in all {
        keys.insert(&ObjectKey::new(namespace, name));
    }
    keys
}

fn shown(keys: Keys, other: &Keys) -> Vec<String> {
    keys.without(other).iter().map(ToString::to_string).collect()
}

#[test]
fn keys_of_the_first_set_alone_are_missing() {
    let first = keys(&[("b", "y"), ("a", "x"), ("a", "w"), ("", "node")]);
    let second = keys(&[("a", "x"), ("c", "z")]);
    assert_eq!(shown(first, &second), ["node", "a/w", "b/y"]);
}

#[test]
fn inserted_and_removed_keys_are_counted_once() {
    let mut all = keys(&[("a", "x"), ("a", "x"), ("b", "y")]);
    all.remove(&ObjectKey::new("a", "x"));
    all.remove(&ObjectKey::new("c", "z"));
    all.extend(keys(&[("b", "y"), ("b", "z")]));
    assert_eq!(shown(all, &Keys::default()), ["b/y", "b/z"]);
}
