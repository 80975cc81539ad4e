use http::HeaderValue;
use http::header::{CONNECTION, LINK, TRANSFER_ENCODING};

use super::*;

fn hints(number: usize) -> Interim {
    let link = HeaderValue::from_str(&format!("</{number}.css>; rel=preload")).expect("a value");
    let headers = HeaderMap::from_iter([(LINK, link)]);
    Interim::new(StatusCode::EARLY_HINTS, headers)
}

#[test]
fn what_is_for_the_next_hop_alone_stays_here() {
    let value = HeaderValue::from_static;
    let mut headers = HeaderMap::new();
    headers.append(LINK, value("</a>"));
    headers.append(LINK, value("</b>"));
    headers.insert(CONNECTION, value("x-mine"));
    headers.insert("x-mine", value("1"));
    headers.insert(TRANSFER_ENCODING, value("chunked"));
    headers.insert(CONTENT_LENGTH, value("5"));
    let interim = Interim::new(StatusCode::EARLY_HINTS, headers);
    let text = String::from_utf8(interim.bytes()).expect("text");
    assert_eq!(
        text,
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\n"
    );
    let unknown = StatusCode::from_u16(199).expect("a status");
    assert_eq!(
        Interim::new(unknown, HeaderMap::new()).bytes(),
        b"HTTP/1.1 199 \r\n\r\n"
    );
}

#[tokio::test]
async fn they_keep_their_order_and_their_bound() {
    let interims = Interims::default();
    for number in 0..WAITING_MAX + 5 {
        interims.put(hints(number));
    }
    for number in 0..WAITING_MAX {
        assert_eq!(interims.next().await, hints(number));
    }
    assert_eq!(interims.take(), None);
    interims.put(hints(100));
    assert_eq!(interims.next().await, hints(100));
}
