use super::*;

fn sent(report: &str, query: &str) -> Result<String, String> {
    parameters(report, &Query::parse(query)).map_err(|failure| failure.message().to_owned())
}

#[test]
fn known_parameters_are_passed_on_without_escapes() {
    assert_eq!(sent("observation", ""), Ok(String::new()));
    assert_eq!(
        sent(
            "observation",
            "service=shop%2Fweb&probe=true&rows=1&from=shop/cart-1.a&pretty=true"
        ),
        Ok("from=shop/cart-1.a&probe=true&service=shop/web".to_owned())
    );
    assert_eq!(
        sent("flows", "client=fd00::/64&rows=10&probe=true"),
        Ok("client=fd00::/64&rows=10".to_owned())
    );
}

#[test]
fn rejects_values_that_change_the_request() {
    for value in [
        "a/b%26probe=true",
        "a/b%23",
        "a%20b",
        "%0d%0a",
        "%C3%A4",
        &"a".repeat(508),
    ] {
        let message = sent("flows", &format!("service={value}")).expect_err(value);
        assert!(message.contains("invalid parameter service"), "{message}");
    }
}

#[test]
fn report_has_to_be_json_without_control_characters() {
    assert_eq!(check(b"{\"a\": [\n\t1]}\r\n"), Ok(()));
    for (report, reason) in [
        (&b"\xff{}"[..], "is not UTF-8"),
        (b"<html>", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b"{\"a\": \"\x1b[2J\"}", "is not JSON"),
        ("{\"a\": \"\u{9b}1m\"}".as_bytes(), "has control characters"),
        (b"{\"a\": \"\x7f\"}", "has control characters"),
    ] {
        let error = check(report).expect_err(reason);
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn deeply_nested_report_does_not_exhaust_the_stack() {
    let depth = 1 << 20;
    let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    check(nested.as_bytes()).ok();
}

#[tokio::test]
async fn permit_is_returned_when_the_report_is_sent() {
    let permits = Arc::new(Semaphore::new(1));
    let permit = Arc::clone(&permits).try_acquire_owned().expect("a permit");
    let report = Bytes::from(vec![b' '; FRAME_BYTES + 1]);
    let mut body = respond(report, permit).into_body();
    let mut pieces = Vec::new();
    while let Some(frame) = body.frame().await {
        assert_eq!(permits.available_permits(), 0);
        pieces.push(frame.expect("a frame").into_data().expect("data").len());
    }
    drop(body);
    assert_eq!((pieces, permits.available_permits()), (vec![FRAME_BYTES, 1], 1));
}
