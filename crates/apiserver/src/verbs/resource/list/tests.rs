use super::*;

#[test]
fn short_pages_of_selected_objects_are_read_in_long_steps() {
    assert_eq!(keys_per_read(Some(1), false), Some(SELECTED_READ_KEYS_MIN));
    let longer = SELECTED_READ_KEYS_MIN + 1;
    assert_eq!(keys_per_read(Some(longer), false), Some(longer));
    assert_eq!(keys_per_read(None, false), None);
}

#[test]
fn pages_of_all_objects_are_read_as_requested() {
    assert_eq!(keys_per_read(Some(1), true), Some(1));
    assert_eq!(keys_per_read(None, true), None);
}
