use super::*;

#[test]
fn status_without_reason_has_code_and_message() {
    let mut status = Status {
        code: 500,
        message: "the store is unavailable".to_owned(),
        ..Status::default()
    };
    assert_eq!(status.to_string(), "500: the store is unavailable");
    status.reason = "InternalError".to_owned();
    assert_eq!(status.to_string(), "500 InternalError: the store is unavailable");
}
