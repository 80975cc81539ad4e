use super::*;

fn backends(count: u8) -> Vec<Backend> {
    let backends = (0..count).map(|number| Backend::ready(([10, 0, 0, number], 80).into()));
    backends.collect()
}

#[test]
fn backends_of_all_ports_are_bounded() {
    let mut budget = BackendBudget::of(4, 5);
    let counts = [3, 0, 3].map(|count| budget.take(|| backends(count)).len());
    assert_eq!(counts, [3, 0, 2]);
    assert!(budget.fault().is_some());
    assert!(budget.take(|| panic!("no backends are left")).is_empty());
}

#[test]
fn ports_that_are_not_served_have_no_backends() {
    let mut budget = BackendBudget::of(1, 5);
    assert_eq!(budget.take(|| backends(2)).len(), 2);
    assert!(budget.take(|| panic!("the port is not served")).is_empty());
    assert_eq!(budget.fault(), None);
}
