use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    /// The set agrees with a plain one, whatever is taken and freed, at any density.
    #[test]
    fn agrees_with_a_btree_set(
        steps in prop::collection::vec((any::<bool>(), 0u64..9000, 1u64..700), 1..20),
        from in 0u64..9500,
    ) {
        let (mut set, mut model) = (OffsetSet::default(), BTreeSet::new());
        for (takes, start, count) in steps {
            for offset in start..start + count {
                if takes {
                    prop_assert_eq!(set.insert(offset), model.insert(offset));
                } else {
                    prop_assert_eq!(set.remove(offset), model.remove(&offset));
                }
            }
        }
        prop_assert_eq!(set.len(), model.len() as u64);
        let expected = (from..10_000).find(|offset| !model.contains(offset));
        prop_assert_eq!(set.first_free(from..10_000), expected);
        for offset in (0..10_000).step_by(37) {
            prop_assert_eq!(set.contains(offset), model.contains(&offset));
        }
    }
}

#[test]
fn skips_full_chunks_within_the_range() {
    let mut set = OffsetSet::default();
    for offset in 0..3 * CHUNK_OFFSETS as u64 {
        assert!(set.insert(offset));
    }
    assert_eq!(set.first_free(5..u64::MAX), Some(3 * CHUNK_OFFSETS as u64));
    assert_eq!(set.first_free(5..3 * CHUNK_OFFSETS as u64), None);
    assert!(set.remove(4097));
    assert_eq!(set.first_free(0..u64::MAX), Some(4097));
    assert_eq!(set.first_free(4098..8192), None);
}

#[test]
fn finds_the_largest_free_offset() {
    let mut set = OffsetSet::default();
    let last = u64::MAX - 1;
    assert!(set.insert(last));
    assert_eq!(set.first_free(last..u64::MAX), None);
    assert_eq!(set.first_free(last - 1..u64::MAX), Some(last - 1));
}

#[test]
fn removes_empty_chunks() {
    let mut set = OffsetSet::default();
    set.insert(1 << 40);
    set.remove(1 << 40);
    assert!(set.chunks.is_empty());
}
