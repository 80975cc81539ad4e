use super::*;

#[derive(Debug, PartialEq)]
struct Value(&'static str, &'static str, u8);

impl Keyed for Value {
    fn key_texts(&self) -> (&str, &str) {
        (self.0, self.1)
    }
}

fn set() -> KeyedSet<Value> {
    let mut set = KeyedSet::default();
    for (namespace, name) in [("b", "x"), ("a", "y"), ("a", "x"), ("a-b", "x"), ("", "z")] {
        assert_eq!(set.insert(Value(namespace, name, 0)), None);
    }
    set
}

#[test]
fn values_have_the_order_of_their_keys() {
    let set = set();
    let keys: Vec<ObjectKey> = set.iter().map(|value| ObjectKey::new(value.0, value.1)).collect();
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(keys, sorted);
    assert_eq!(keys.len(), 5);
}

#[test]
fn value_replaces_the_one_with_its_key() {
    let mut set = set();
    assert_eq!(set.insert(Value("a", "x", 1)), Some(Value("a", "x", 0)));
    let key = ObjectKey::new("a", "x");
    assert_eq!(set.get(&key), Some(&Value("a", "x", 1)));
    assert_eq!(set.named("a-b", "x"), Some(&Value("a-b", "x", 0)));
    assert_eq!(set.remove(&key), Some(Value("a", "x", 1)));
    assert_eq!(set.remove(&key), None);
    assert_eq!(set.get(&key), None);
    assert_eq!(set.iter().count(), 4);
}

#[test]
fn namespace_contains_its_own_values_only() {
    let set = set();
    let names = |namespace: &'static str| {
        let values = set.in_namespace(namespace);
        values.map(|value| value.1).collect::<Vec<_>>()
    };
    assert_eq!(names("a"), ["x", "y"]);
    assert_eq!(names("a-b"), ["x"]);
    assert_eq!(names(""), ["z"]);
    assert!(names("c").is_empty());
}
