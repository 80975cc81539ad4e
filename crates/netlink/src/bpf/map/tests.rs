use super::*;

#[test]
fn cpus_are_counted_from_ranges() {
    assert_eq!(count_of_ranges("0-3\n"), Some(4));
    assert_eq!(count_of_ranges("0,2-3,9\n"), Some(4));
    assert_eq!(count_of_ranges(""), None);
    assert_eq!(count_of_ranges("3-0"), None);
}

#[test]
fn object_name_ends_with_zero() {
    assert_eq!(&object_name("frontends"), b"frontends\0\0\0\0\0\0\0");
    assert_eq!(&object_name("a_name_that_is_too_long"), b"a_name_that_is_\0");
}
