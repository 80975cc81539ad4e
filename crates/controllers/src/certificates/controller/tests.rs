use super::*;

fn request(sender: &str, name: &str) -> CertificateSigningRequest {
    let mut request = CertificateSigningRequest::default();
    request.spec.username = sender.to_owned();
    request.metadata.name = name.to_owned();
    request
}

#[test]
fn many_requests_of_a_node_do_not_delay_that_of_another() {
    let mut controller = CertificateController::new(Settings::default(), WallClock::system());
    let mut queue = Queue::default().shared_by(CertificateController::tenant);
    let now = Instant::now();
    for number in 0..1_000 {
        let request = request("system:node:one", &format!("r{number}"));
        controller.apply_change(Event::Applied(request), &mut queue, now);
    }
    controller.apply_change(Event::Applied(request("system:node:two", "r")), &mut queue, now);
    let first = [queue.take(now), queue.take(now)];
    let senders = first.map(|taken| taken.map(|(key, _)| key.sender));
    assert!(
        senders.contains(&Some("system:node:two".to_owned())),
        "{senders:?}"
    );
}
