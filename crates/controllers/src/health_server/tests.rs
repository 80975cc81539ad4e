use http::{StatusCode, Uri};

use super::route;
use crate::metrics::{Metrics, Phase};

fn status(metrics: &Metrics, path: &'static str) -> StatusCode {
    route(metrics, &Uri::from_static(path)).status
}

#[test]
fn initial_lists_are_live_and_not_ready() {
    let metrics = Metrics::default();
    assert_eq!(status(&metrics, "/readyz"), StatusCode::OK, "standing by");
    metrics.enter(Phase::Reading);
    assert_eq!(status(&metrics, "/readyz"), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(status(&metrics, "/livez"), StatusCode::OK);
    metrics.enter(Phase::Working);
    assert_eq!(status(&metrics, "/readyz"), StatusCode::OK);
    assert_eq!(status(&metrics, "/healthz?verbose"), StatusCode::OK);
    assert_eq!(status(&metrics, "/else"), StatusCode::NOT_FOUND);
}
