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
    let check = |query: &str| check_stream("web", &Query::parse(query));
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
