use super::*;

#[test]
fn clients_leave_bytes_to_others() {
    let waiting = WaitingResponses::with_limit(400);
    let admit = |last: u8, bytes| waiting.admit(IpAddr::from([192, 0, 2, last]), vec![0; bytes]);
    let of_first: Vec<WaitingResponse> = std::iter::from_fn(|| admit(1, 50)).collect();
    assert_eq!(of_first.len(), 2);
    let of_others: Vec<WaitingResponse> = (2..=20).filter_map(|last| admit(last, 50)).collect();
    assert_eq!(of_others.len(), 4);
    assert!(admit(21, 20).is_some());
    drop((of_first, of_others));
    let of_last: Vec<WaitingResponse> = std::iter::from_fn(|| admit(22, 50)).collect();
    assert_eq!(of_last.len(), 2);
}

#[test]
fn loopback_clients_have_no_share() {
    let waiting = WaitingResponses::with_limit(400);
    let admit = || waiting.admit(IpAddr::from([127, 0, 0, 1]), vec![0; 50]);
    let responses: Vec<WaitingResponse> = std::iter::from_fn(admit).collect();
    assert_eq!(responses.len(), 8);
}
