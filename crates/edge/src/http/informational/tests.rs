use http::HeaderValue;
use http::header::{CONNECTION, LINK, TRANSFER_ENCODING};

use super::*;

fn hints(number: usize) -> InformationalResponse {
    let link = HeaderValue::from_str(&format!("</{number}.css>; rel=preload")).expect("a value");
    let headers = HeaderMap::from_iter([(LINK, link)]);
    InformationalResponse::new(StatusCode::EARLY_HINTS, headers)
}

#[test]
fn removes_hop_by_hop_headers() {
    let value = HeaderValue::from_static;
    let mut headers = HeaderMap::new();
    headers.append(LINK, value("</a>"));
    headers.append(LINK, value("</b>"));
    headers.insert(CONNECTION, value("x-mine"));
    headers.insert("x-mine", value("1"));
    headers.insert(TRANSFER_ENCODING, value("chunked"));
    headers.insert(CONTENT_LENGTH, value("5"));
    let interim = InformationalResponse::new(StatusCode::EARLY_HINTS, headers);
    let text = String::from_utf8(interim.bytes()).expect("text");
    assert_eq!(
        text,
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\n"
    );
    let unknown = StatusCode::from_u16(199).expect("a status");
    assert_eq!(
        InformationalResponse::new(unknown, HeaderMap::new()).bytes(),
        b"HTTP/1.1 199 \r\n\r\n"
    );
}

#[tokio::test]
async fn queue_keeps_order_and_bound() {
    let informational = InformationalQueue::default();
    for number in 0..WAITING_MAX + 5 {
        informational.push(hints(number));
    }
    for number in 0..WAITING_MAX {
        assert_eq!(informational.next().await, hints(number));
    }
    assert_eq!(informational.pop(), None);
    informational.push(hints(100));
    assert_eq!(informational.next().await, hints(100));
}
