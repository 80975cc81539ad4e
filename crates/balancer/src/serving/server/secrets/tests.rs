use super::*;

#[test]
fn secrets_of_one_namespace_leave_turns_to_others() {
    let pending = [
        ("a", "read", true),
        ("a", "1", false),
        ("a", "2", false),
        ("a", "3", false),
        ("b", "1", false),
        ("b", "read", true),
        ("c", "1", false),
    ];
    let pending = pending.map(|(namespace, name, is_read)| {
        let key = ObjectKey::new(namespace, name);
        (Arc::<str>::from(namespace), key, is_read)
    });
    let order = order_of_reads(
        pending
            .iter()
            .map(|(reader, key, is_read)| (key, *is_read, reader)),
    );
    let order: Vec<String> = order.iter().map(ObjectKey::to_string).collect();
    assert_eq!(order, ["a/1", "b/1", "c/1", "a/2", "a/3", "a/read", "b/read"]);
}

#[test]
fn secrets_in_another_namespace_take_the_turns_of_their_reader() {
    let reader: Arc<str> = "a".into();
    let own: Arc<str> = "b".into();
    let keys = ["1", "2", "3"].map(|name| ObjectKey::new("b", name));
    let [first, second, third] = &keys;
    let order = order_of_reads(
        [
            (first, false, &reader),
            (second, false, &reader),
            (third, false, &own),
        ]
        .into_iter(),
    );
    assert_eq!(order, [first.clone(), third.clone(), second.clone()]);
}
