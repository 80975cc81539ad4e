use serde_json::json;

use super::*;

fn exec(pod: &Value, container: &str, query: &str) -> Result<String, String> {
    let kind = kind::find("", "v1", "pods").expect("a served kind");
    let target = Target::object(kind, "shop", "web").with_subresource(kind::EXEC);
    path(pod, &target, container, query).map_err(|failure| failure.message().to_owned())
}

#[test]
fn commands_reach_the_agent_with_escapes() {
    let pod = json!({"spec": {"containers": [{"name": "app"}]}});
    assert_eq!(
        exec(
            &pod,
            "",
            "command=sh&command=-c&command=echo+%22a%26b%22&stdin=true&stdout=true&tty=false"
        ),
        Ok("/exec/shop/web/app?input=1&output=1&command=sh&command=-c&command=echo%20%22a%26b%22".to_owned())
    );
    assert_eq!(
        exec(&pod, "", "command=sh"),
        Err("you must specify at least 1 of stdin, stdout, stderr".to_owned())
    );
}

#[test]
fn ports_reach_the_agent() {
    let ports = |query: &str| forwarded_ports(query).map_err(|failure| failure.message().to_owned());
    assert_eq!(ports(""), Ok(String::new()));
    assert_eq!(ports("ports=80&x=1&ports=81"), Ok("?port=80&port=81".to_owned()));
    assert_eq!(ports("ports=80%2C81"), Ok("?port=80&port=81".to_owned()));
    for (value, reason) in [
        ("x", "invalid syntax"),
        ("+80", "invalid syntax"),
        ("65536", "value out of range"),
    ] {
        let message = format!("cannot convert to []int32: strconv.ParseUint: parsing {value:?}: {reason}");
        assert_eq!(ports(&format!("ports={value}")), Err(message));
    }
}

#[test]
fn containers_are_named_as_upstream() {
    let pod = json!({"spec": {"containers": [{"name": "app"}, {"name": "log"}]}});
    assert_eq!(
        exec(&pod, "", "command=sh&stdout=1"),
        Err("a container name must be specified for pod web, choose one of: [app log]".to_owned())
    );
    assert_eq!(
        exec(&pod, "other", "command=sh&stdout=1"),
        Err("container other is not valid for pod web".to_owned())
    );
}

#[test]
fn only_headers_of_the_upgrade_are_forwarded() {
    let mut headers = HeaderMap::new();
    for name in ["authorization", "cookie", "upgrade", "x-stream-protocol-version"] {
        headers.append(name, http::HeaderValue::from_static("x"));
    }
    let forwarded = selected_headers(&headers, FORWARDED);
    let mut names: Vec<_> = forwarded.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["upgrade", "x-stream-protocol-version"]);
}
