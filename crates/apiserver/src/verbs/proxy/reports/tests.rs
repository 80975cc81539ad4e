use super::*;
use crate::access::authentication::Identity;
use crate::access::flow_control::{FlowControl, RequestLimits, Subject};
use crate::request::negotiation::Encoding;

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

fn users() -> [UserKey; 4] {
    let flow_control = FlowControl::new(RequestLimits::default());
    ["ann", "bob", "carol", "root"].map(|name| {
        let user = Identity {
            user: name.to_owned(),
            ..Identity::default()
        };
        let subject = Subject {
            verb: "get",
            group: "",
            resource: "nodes",
        };
        flow_control.flow(&user, subject).user
    })
}

/// Takes permits until one is refused.
fn exhaust(reports: &NodeReports, user: UserKey, access: ReserveAccess) -> Vec<ReportPermit> {
    std::iter::from_fn(|| reports.permit(user, access).ok())
        .take(1_000)
        .collect()
}

#[test]
fn one_user_does_not_hold_all_permits() {
    let (reports, [ann, bob, carol, root]) = (NodeReports::new(), users());
    let of_ann = exhaust(&reports, ann, ReserveAccess::Common);
    assert_eq!(of_ann.len(), 16);
    let refused = reports
        .permit(ann, ReserveAccess::Common)
        .err()
        .expect("a refusal");
    let response = response::failure(&refused, Encoding::Json);
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        response
            .headers()
            .get(http::header::RETRY_AFTER)
            .expect("a delay"),
        "1"
    );
    let of_bob = exhaust(&reports, bob, ReserveAccess::Common);
    assert_eq!(of_bob.len(), 8, "others share the rest");
    assert!(reports.permit(carol, ReserveAccess::Common).is_err());
    assert_eq!(
        exhaust(&reports, carol, ReserveAccess::Reserved).len(),
        8,
        "the reserve is free"
    );
    assert!(
        reports.permit(root, ReserveAccess::Exempt).is_ok(),
        "administrators are never refused"
    );
    drop((of_ann, of_bob));
    assert_eq!(exhaust(&reports, carol, ReserveAccess::Common).len(), 16);
}

#[tokio::test(start_paused = true)]
async fn permit_is_returned_when_the_report_is_sent() {
    let (reports, [ann, ..]) = (NodeReports::new(), users());
    let permit = reports.permit(ann, ReserveAccess::Common).expect("a permit");
    let report = Bytes::from(vec![b' '; FRAME_BYTES * 3 + 1]);
    let mut body = respond(report, permit).into_body();
    let mut pieces = Vec::new();
    while let Some(frame) = body.frame().await {
        pieces.push(frame.expect("a frame").into_data().expect("data").len());
    }
    assert_eq!(pieces, [FRAME_BYTES, FRAME_BYTES, FRAME_BYTES, 1]);
    assert_eq!(lock(&reports.held).held(), 0);
}

#[tokio::test(start_paused = true)]
async fn stalled_client_does_not_hold_a_report() {
    let (reports, [ann, ..]) = (NodeReports::new(), users());
    let permit = reports.permit(ann, ReserveAccess::Common).expect("a permit");
    let response = respond(Bytes::from(vec![b' '; FRAME_BYTES * 8]), permit);
    let stated = response.headers()[CONTENT_LENGTH]
        .to_str()
        .expect("text")
        .to_owned();
    assert_eq!(stated, (FRAME_BYTES * 8).to_string());
    let body = response.into_body();
    tokio::time::sleep(DELIVERY_TIMEOUT / 2).await;
    assert_eq!(lock(&reports.held).held(), 1);
    tokio::time::sleep(DELIVERY_TIMEOUT).await;
    assert_eq!(lock(&reports.held).held(), 0);
    let rest = body.collect().await.expect("a body").to_bytes();
    assert!(rest.len() < FRAME_BYTES * 8, "the rest of the report is dropped");
}
