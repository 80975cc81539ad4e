use super::*;

fn redirected(host: &'static str, target: &str, port: u16) -> String {
    let location = to_https(&HeaderValue::from_static(host), &target.parse().unwrap(), port);
    location.unwrap().to_str().unwrap().to_owned()
}

#[test]
fn keeps_host_path_and_query() {
    assert_eq!(
        redirected("a.example:8080", "/b?c=d", 443),
        "https://a.example/b?c=d"
    );
    assert_eq!(redirected("a.example", "/", 8443), "https://a.example:8443/");
    assert_eq!(redirected("[2001:db8::1]:80", "/", 443), "https://[2001:db8::1]/");
    assert_eq!(
        redirected("[2001:db8::1]", "//b", 8443),
        "https://[2001:db8::1]:8443//b"
    );
    assert_eq!(redirected("a", "*", 443), "https://a/");
    assert_eq!(redirected("a", "http://a/b", 443), "https://a/b");
}
