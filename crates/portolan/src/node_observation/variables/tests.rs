use super::*;

#[test]
fn reads_addresses_of_services_only() {
    let environment =
        b"PATH=/bin\0WEB_SERVICE_HOST=10.96.0.7\0WEB_SERVICE_PORT=80\0DB_SERVICE_HOST=secret\0\xff=1\0=\0A";
    assert_eq!(
        parse(environment),
        [("WEB_SERVICE_HOST".to_owned(), "10.96.0.7".to_owned())]
    );
    assert!(parse(b"").is_empty());
}
