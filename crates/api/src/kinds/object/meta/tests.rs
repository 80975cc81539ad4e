use super::*;

#[test]
fn consecutive_keys_share_their_texts() {
    let first = ObjectKey::new("shop", "web");
    let second = ObjectKey::new("shop", "db");
    let again = ObjectKey::new("shop", "db");
    assert!(Arc::ptr_eq(&first.namespace, &second.namespace));
    assert!(Arc::ptr_eq(&second.name, &again.name));
    assert_eq!((&*first.name, &*again.name), ("web", "db"));
    let other = ObjectKey::new("", "db");
    assert_eq!((&*other.namespace, &*other.name), ("", "db"));
    assert_eq!(ObjectKey::new("shop", "web"), first);
}
