use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};

use super::*;

#[test]
fn parameters_are_parsed() {
    let request = ReportRequest::parse("service=shop/web&probe=true&rows=10");
    assert_eq!(request.key("service"), Ok(Some(ObjectKey::new("shop", "web"))));
    assert_eq!(
        (request.flag("probe"), request.text("rows")),
        (Ok(true), Some("10"))
    );
    let without = ReportRequest::parse("");
    assert_eq!(
        (without.key("service"), without.flag("probe")),
        (Ok(None), Ok(false))
    );
}

#[test]
fn rejects_invalid_parameters() {
    for value in ["web", "shop/", "/web", "a/b/c", ""] {
        let request = ReportRequest::parse(&format!("service={value}&probe={value}"));
        assert!(request.key("service").is_err(), "{value}");
        assert!(request.flag("probe").is_err(), "{value}");
    }
}

#[tokio::test]
async fn report_of_a_kind_without_a_provider_is_not_provided() {
    let reports = Reports::default().with(ReportKind::Observation, Arc::new(|_| Ok(b"{}".to_vec())));
    let created = reports.create(ReportKind::Observation, ReportRequest::default());
    assert_eq!(created.await, Ok(b"{}".to_vec()));
    let created = reports.create(ReportKind::Flows, ReportRequest::default());
    assert_eq!(created.await, Err(ReportError::NotProvided("flows")));
}

#[tokio::test]
async fn rejects_reports_above_the_size_limit() {
    let provider: Provider = Arc::new(|_| Ok(vec![b' '; REPORT_BYTES_MAX + 1]));
    let reports = Reports::default().with(ReportKind::Observation, provider);
    let created = reports.create(ReportKind::Observation, ReportRequest::default());
    assert_eq!(created.await, Err(ReportError::TooLarge(REPORT_BYTES_MAX + 1)));
}

#[tokio::test]
async fn panic_of_a_provider_fails_one_report() {
    let provider: Provider = Arc::new(|request| {
        assert_eq!(request.flag("probe"), Ok(true), "a panic");
        Ok(Vec::new())
    });
    let reports = Reports::default().with(ReportKind::Observation, provider);
    for _ in 0..CONCURRENT_MAX + 1 {
        let created = reports.create(ReportKind::Observation, ReportRequest::default());
        assert!(matches!(created.await, Err(ReportError::Failed(_))));
    }
    let request = ReportRequest::parse("probe=true");
    assert_eq!(
        reports.create(ReportKind::Observation, request).await,
        Ok(Vec::new())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_concurrent_reports_is_bounded() {
    let (release, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let provider: Provider = Arc::new(move |_| {
        let wait = wait.lock().unwrap_or_else(PoisonError::into_inner);
        wait.recv()
            .map_err(|error| ReportError::Failed(error.to_string()))?;
        Ok(Vec::new())
    });
    let reports = Reports {
        wait_max: Duration::ZERO,
        ..Reports::default().with(ReportKind::Flows, provider)
    };
    let create = || {
        let reports = reports.clone();
        tokio::spawn(async move { reports.create(ReportKind::Flows, ReportRequest::default()).await })
    };
    let mut running: Vec<_> = (0..CONCURRENT_MAX).map(|_| create()).collect();
    while reports.permits[&ReportKind::Flows].available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    // A client that disconnects does not free its place: the provider still runs.
    running.remove(0).abort();
    assert_eq!(create().await.expect("a task"), Err(ReportError::Busy));
    for _ in 0..CONCURRENT_MAX {
        release.send(()).expect("a running provider");
    }
    for task in running {
        assert_eq!(task.await.expect("a task"), Ok(Vec::new()));
    }
}
