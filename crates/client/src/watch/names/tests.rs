use std::collections::BTreeSet;

use super::*;

#[test]
fn names_equal_those_of_a_set() {
    let (mut names, mut expected) = (Names::default(), BTreeSet::new());
    let mut state = 1_u64;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = state >> 33;
        let name = ["", "é\n", "web-"][number as usize % 3].repeat(1 + number as usize % 5)
            + &(number % 499).to_string();
        if number % 7 < 4 {
            names.insert(&name);
            expected.insert(name);
        } else {
            names.remove(&name);
            assert!(!names.contains(&name));
            expected.remove(&name);
        }
    }
    assert!(!expected.is_empty());
    assert!(names.iter().eq(expected.iter().map(String::as_str)));
    assert!(expected.iter().all(|name| names.contains(name)));
}

#[test]
fn many_names_are_sorted_in_bounded_blocks() {
    let name = |number: usize| format!("web-{number:05}");
    let mut names = Names::default();
    // Ascending and descending from the middle.
    for number in (5_000..10_000).chain((0..5_000).rev()) {
        names.insert(&name(number));
    }
    assert!(names.iter().eq((0..10_000).map(name)));
    assert!(names.blocks.len() > 10);
    assert!(names.blocks.iter().all(|block| block.len() <= BLOCK_BYTES_MAX));
    for number in 0..10_000 {
        names.remove(&name(number));
    }
    assert!(names.is_empty());
}

#[test]
fn long_names_are_kept() {
    let (long, longer) = ("x".repeat(BLOCK_BYTES_MAX), "x".repeat(2 * BLOCK_BYTES_MAX));
    let mut names = Names::of(&longer);
    names.insert(&long);
    names.insert("y");
    assert!(names.iter().eq([&*long, &*longer, "y"]));
    names.remove(&longer);
    assert!(!names.contains(&longer) && names.contains(&long) && names.contains("y"));
}
