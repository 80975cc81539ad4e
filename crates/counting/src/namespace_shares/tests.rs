use super::*;

#[test]
fn one_namespace_leaves_permits_to_others() {
    let shares = NamespaceShares::of(12);
    let all_of = |namespace: &str| std::iter::from_fn(|| shares.take(namespace)).collect::<Vec<_>>();
    let first = all_of("shop");
    let second = all_of("bank");
    assert_eq!((first.len(), second.len()), (6, 3));
    let rest: Vec<_> = (0..20)
        .filter_map(|number| shares.take(&format!("other-{number}")))
        .collect();
    assert_eq!(rest.len(), 3, "the limit in total");
    drop((first, second, rest));
    let held = shares.held();
    assert!(held.total == 0 && held.namespaces.is_empty());
}
