use std::sync::Arc;

use api::object::Labels;

use super::{Interner, REMOVAL_VALUES_MIN};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn equal_values_are_shared() {
    let mut interner = Interner::default();
    assert!(Arc::ptr_eq(&interner.text("a"), &interner.text("a")));
    let first = interner.labels(&labels(&[("app", "x"), ("tier", "web")]));
    let second = interner.labels(&labels(&[("tier", "web"), ("app", "x")]));
    assert!(Arc::ptr_eq(&first.0, &second.0));
    assert_ne!(first, interner.labels(&labels(&[("app", "x")])));
}

#[test]
fn unused_values_are_removed() {
    let mut interner = Interner::default();
    let kept = interner.text("kept");
    for number in 0..10 * REMOVAL_VALUES_MIN {
        interner.text(&number.to_string());
    }
    assert!(interner.strings.cached.len() <= REMOVAL_VALUES_MIN + 1);
    assert!(Arc::ptr_eq(&kept, &interner.text("kept")));
}

#[test]
fn selectors_need_all_labels_and_empty_ones_match_nothing() {
    let set = Interner::default().labels(&labels(&[("app", "x"), ("tier", "web")]));
    assert!(set.is_selected_by(&labels(&[("tier", "web")])));
    assert!(!set.is_selected_by(&labels(&[("tier", "web"), ("app", "y")])));
    assert!(!set.is_selected_by(&labels(&[("zone", "a")])));
    assert!(!set.is_selected_by(&Labels::new()));
    assert_eq!((set.get("app"), set.get("none")), (Some("x"), None));
}
