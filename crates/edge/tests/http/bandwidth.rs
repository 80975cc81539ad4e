//! Services with a bandwidth limit.

use crate::backend::Backend;
use crate::client::Client;
use crate::served::{Served, service};

#[test]
fn throttled_requests_and_responses_arrive_complete() {
    let backend = Backend::echoing();
    let mut service = service(&[backend.address]);
    service.policy.limits.received_bytes_per_second = 2_000_000;
    service.policy.limits.sent_bytes_per_second = 3_000_000;
    let served = Served::new(service);
    let body: String = ('a'..='z').cycle().take(300_000).collect();
    let mut client = Client::connect(served.address);
    for _ in 0..2 {
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let response = client.answer();
        assert!(response.ends_with(&body), "{} bytes", response.len());
    }
}
