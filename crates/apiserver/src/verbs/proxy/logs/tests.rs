use serde_json::json;

use super::*;

#[test]
fn container_defaults_to_the_only_one() {
    let one = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}});
    assert_eq!(container(&one, "p", ""), Ok("a"));
    assert_eq!(container(&one, "p", "i"), Ok("i"));
    let message =
        |pod: &Value, requested: &str| container(pod, "p", requested).unwrap_err().message().to_owned();
    assert_eq!(message(&one, "b"), "container b is not valid for pod p");
    let two =
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}});
    assert_eq!(
        message(&two, ""),
        "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]"
    );
}

#[test]
fn stream_is_one_of_three_and_excludes_tail_lines() {
    let check = |query: &str| check_options("web", &Query::parse(query));
    for valid in [
        "",
        "stream=",
        "stream=Stderr",
        "stream=All&tailLines=3",
        "tailLines=3",
    ] {
        assert_eq!(check(valid), Ok(()), "{valid}");
    }
    let failure = check("stream=stdout").unwrap_err();
    assert_eq!(failure.code(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        failure.message(),
        "PodLogOptions \"web\" is invalid: stream: Unsupported value: \"stdout\": \
         supported values: \"All\", \"Stderr\", \"Stdout\""
    );
    let failure = check("stream=Stdout&tailLines=3").unwrap_err();
    assert!(
        failure
            .message()
            .contains("`tailLines` and specific `stream` are mutually exclusive"),
        "{}",
        failure.message()
    );
}

/// The responses of kube-apiserver 1.36.2.
#[test]
fn numbers_and_times_are_checked_before_the_pod_is_read() {
    let check = |query: &str| check_options("web", &Query::parse(query));
    for (query, code, text) in [
        (
            "tailLines=-1",
            422,
            "tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "tailLines=x",
            400,
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "sinceSeconds=0",
            422,
            "sinceSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "limitBytes=0",
            422,
            "limitBytes: Invalid value: 0: must be greater than 0",
        ),
        (
            "sinceSeconds=5&sinceTime=2024-01-01T00:00:00Z",
            422,
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("sinceTime=x", 400, "cannot parse \"x\" as \"2006\""),
    ] {
        let failure = check(query).unwrap_err();
        assert_eq!(failure.code().as_u16(), code, "{query}");
        assert!(failure.message().ends_with(text), "{}", failure.message());
    }
    for valid in [
        "tailLines=0",
        "sinceSeconds=1&limitBytes=1",
        "sinceTime=2024-01-01T00:00:00Z",
    ] {
        assert_eq!(check(valid), Ok(()), "{valid}");
    }
}
