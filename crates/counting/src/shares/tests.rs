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
    assert!(held.total == 0 && held.holders.is_empty());
}

#[test]
fn holder_has_a_part_of_the_free_units() {
    let shares = Shares::<u8>::with_divisor(1_000, 3);
    let all_of = |holder: u8| std::iter::from_fn(|| shares.take(&holder)).collect::<Vec<_>>();
    for holder in [1, 2] {
        assert_eq!(all_of(holder).len(), 250, "those of the other one are released");
    }
    let first = all_of(1);
    assert_eq!(all_of(2).len(), 188);
    assert!(shares.take_units(&3, 251).is_none());
    assert!(shares.take_units(&3, 250).is_some());
    drop(first);
}

#[test]
fn holder_without_a_share_is_bounded_by_the_limit() {
    let shares = Shares::<u8>::with_divisor(10, 3);
    let most = shares.take_beyond_share(&1, 9);
    assert!(most.is_some());
    assert!(shares.take_beyond_share(&1, 2).is_none());
    let last = shares.take(&2);
    assert!(last.is_some() && shares.take(&3).is_none());
    let nothing = shares.take_beyond_share(&4, 0);
    drop((most, last, nothing));
    let held = shares.held();
    assert!(held.total == 0 && held.holders.is_empty());
}
