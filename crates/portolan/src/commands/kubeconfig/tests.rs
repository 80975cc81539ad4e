use super::*;

#[test]
fn names_of_files_stay_in_their_directory() {
    assert_eq!(file_name("system:node:n1"), "client-system:node:n1");
    assert_eq!(file_name("../ca"), "client-..%2fca");
    assert_ne!(file_name("a_b"), file_name("a b"));
}
