use std::time::Duration;

use super::*;

#[test]
fn last_report_decides_about_the_connections_of_all_workers() {
    let endpoints = ["192.0.2.1:80", "192.0.2.2:80"].map(|address| address.parse::<SocketAddr>().unwrap());
    let (listener, other) = (Arc::new(AgeLimit::default()), Arc::new(AgeLimit::default()));
    let group = Group {
        listener: listener.clone(),
        endpoints: endpoints.to_vec(),
        percent: 50,
    };
    let round = Round::new(vec![group], 2);
    let start = Instant::now();
    // The first endpoint has all eight connections. Worker 1 has the oldest ones.
    let report_of = |worker: usize, listener: &Arc<AgeLimit>| {
        let mut report = Report::default();
        for number in 0..4_usize {
            let seconds = u64::try_from((1 - worker) * 10 + number).unwrap();
            let began_at = start + Duration::from_secs(seconds);
            let lifetime = Lifetime::start(listener.clone(), began_at, 0);
            let id = ConnectionId {
                worker,
                number,
                began_at,
            };
            round.add(&mut report, &lifetime, id, endpoints[0]);
        }
        report
    };
    let mut report = report_of(0, &listener);
    report.0.extend(report_of(0, &other).0);
    assert_eq!(round.take(report), []);
    let ended = round.take(report_of(1, &listener));
    let ended: Vec<_> = ended.iter().map(|id| (id.worker, id.number)).collect();
    assert_eq!(ended, [(1, 0), (1, 1), (1, 2), (1, 3)]);
}
