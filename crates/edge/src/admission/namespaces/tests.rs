use super::*;

#[test]
fn services_of_a_namespace_have_one_load() {
    let mut loads = NamespaceLoads::default();
    let [shop, other] = ["shop", "other"].map(Arc::from);
    let first = loads.get(&shop);
    assert!(Arc::ptr_eq(&first, &loads.get(&shop)));
    assert!(!Arc::ptr_eq(&first, &loads.get(&other)));
    drop(first);
    let _held = loads.get(&other);
    assert_eq!(loads.0.len(), 1, "unused loads are removed");
}
