use super::*;

fn values(set: &CompactSet<usize>) -> Vec<usize> {
    set.iter().copied().collect()
}

#[test]
fn values_are_sorted_and_distinct() {
    let mut set = CompactSet::default();
    for value in [3, 1, 2, 3, 1] {
        set.insert(value);
    }
    assert_eq!(values(&set), [1, 2, 3]);
    set.remove(&2);
    set.remove(&9);
    assert_eq!((values(&set), set.len()), (vec![1, 3], 2));
    set.remove(&1);
    set.remove(&3);
    assert!(set.is_empty());
}

#[test]
fn large_set_has_the_same_values_as_a_small_one() {
    let mut set = CompactSet::default();
    let count = LIST_VALUES_MAX + 100;
    for value in (0..count).rev() {
        set.insert(value);
        set.insert(value);
    }
    assert!(matches!(set, CompactSet::Tree(_)));
    assert_eq!(values(&set), (0..count).collect::<Vec<_>>());
    for value in 1..count {
        set.remove(&value);
    }
    assert_eq!((values(&set), set.len()), (vec![0], 1));
}

#[test]
fn unused_space_of_a_list_is_bounded() {
    let mut set = CompactSet::default();
    for value in 0..16 {
        set.insert(value);
    }
    let capacity = |set: &CompactSet<usize>| match set {
        CompactSet::List(list) => list.capacity(),
        CompactSet::Tree(_) => 0,
    };
    assert!(capacity(&set) <= 20);
    for value in 1..16 {
        set.remove(&value);
    }
    assert!(capacity(&set) <= 4);
}
