use super::certificate_file_name;

#[test]
fn file_names_cannot_leave_their_directory() {
    assert_eq!(certificate_file_name("system:node:n1"), "client-system:node:n1");
    assert_eq!(certificate_file_name("../ca"), "client-..%2fca");
    assert_ne!(certificate_file_name("a_b"), certificate_file_name("a b"));
}
