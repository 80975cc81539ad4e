use proptest::prelude::*;

use super::*;

#[test]
fn adjacent_extents_are_joined() {
    let map = IdMap::parse("         0       1000          1\n 1 100000 99\n100 0 100\nnonsense\n5000 1\n");
    assert!(map.contains(0, 200) && map.contains(199, 1) && map.contains(50, 100));
    assert!(!map.contains(0, 201) && !map.contains(200, 1) && !map.contains(5000, 1));
    assert!(!IdMap::parse("").contains(0, 1));
    let all = IdMap::parse("0 0 4294967295");
    assert!(all.contains(0, u32::MAX) && !all.contains(u32::MAX, 1));
}

proptest! {
    /// A map contains a range if it contains each of its IDs.
    #[test]
    fn contains_a_range_if_it_contains_each_id(
        extents in proptest::collection::vec((0..40u32, 0..20u32), 0..6), first in 0..40u32, count in 1..30u32,
    ) {
        let text: String = extents.iter().map(|(first, count)| format!("{first} 0 {count}\n")).collect();
        let is_there = |id: u32| extents.iter().any(|(first, count)| (*first..first + count).contains(&id));
        let expected = (first..first + count).all(is_there);
        prop_assert_eq!(IdMap::parse(&text).contains(first, count), expected);
    }
}
