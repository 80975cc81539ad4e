use super::*;

#[test]
fn users_of_a_key_share_its_value() {
    let values = SharedValues::default();
    let first = values.get("shop", || 1);
    assert!(Arc::ptr_eq(&first, &values.get("shop", || 2)));
    assert_eq!(*values.get("other", || 3), 3);
    drop(first);
    assert_eq!(*values.get("shop", || 4), 4, "a value ends with its last user");
}

#[test]
fn keys_without_users_are_removed() {
    let values = SharedValues::default();
    let held: Vec<Arc<usize>> = (0..100)
        .map(|number| values.get(&format!("held-{number}"), || number))
        .collect();
    for number in 0..10_000 {
        values.get(&format!("unused-{number}"), || number);
    }
    let keys = values.0.lock().unwrap().by_key.len();
    assert!((100..=300).contains(&keys), "{keys}");
    for (number, value) in held.iter().enumerate() {
        assert!(Arc::ptr_eq(value, &values.get(&format!("held-{number}"), || 0)));
    }
}
