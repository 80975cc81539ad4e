//! Metrics and status of peers with and without a session.

use std::sync::Arc;

use super::{Metrics, ReportedPeer, ReportedSpeaker};

#[test]
fn reports_peers_with_faults() {
    let metrics = Metrics::default();
    let peer = ReportedPeer {
        address: "10.0.0.1".to_owned(),
        vrf: Some("red\"".to_owned()),
        bfd: Some(false),
        fault: Some("there is no Secret".to_owned()),
        session: Arc::default(),
    };
    metrics.set(ReportedSpeaker {
        peers: [("portolan.dev/router".to_owned(), peer)].into(),
        ..ReportedSpeaker::default()
    });
    metrics.set_bfd("portolan.dev/router", true);
    let text = metrics.render();
    telemetry::validate(&text).expect("valid metrics");
    for line in [
        "metallb_bgp_session_up{peer=\"10.0.0.1\",vrf=\"red_\"} 0",
        "metallb_bfd_session_up{peer=\"10.0.0.1\"} 1",
        "portolan_bgp_faults 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let status = metrics.status();
    assert_eq!(status.sessions[0].state, "Faulty");
    assert_eq!(
        status.sessions[0].last_error.as_deref(),
        Some("there is no Secret")
    );
}
