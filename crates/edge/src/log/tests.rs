use super::*;
use crate::settings::LogFormat;

/// The file system of the tests may be almost full.
const WITHOUT_MINIMUM_OF_FREE_SPACE: DirectoryLimits = DirectoryLimits {
    bytes_max: 1 << 30,
    service_bytes_max: 256 << 20,
    free_percent_min: 0,
};

fn service(name: &str) -> ServiceName {
    ServiceName {
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn settings(prefix: &str) -> AccessLog {
    AccessLog {
        destination: LogDestination::Directory,
        prefix: prefix.into(),
        interval: Duration::from_secs(3600),
        format: LogFormat::Common,
    }
}

fn write(log: &Log, count: usize) {
    let service = service("web");
    let peer = Peer::direct(
        "192.0.2.7:40000".parse().unwrap(),
        "203.0.113.5:80".parse().unwrap(),
    );
    for _ in 0..count {
        log.connection(&Record {
            service: &service,
            port: 80,
            started_at: SystemTime::now(),
            duration: Duration::ZERO,
            peer: &peer,
            backend: None,
            received_bytes: 0,
            sent_bytes: 0,
            outcome: "ok",
        });
    }
}

/// All files below a directory, with their numbers of lines.
fn files(directory: &std::path::Path) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path.to_str().unwrap().to_owned(), text.lines().count()));
        }
    }
    found
}

#[tokio::test]
async fn services_have_separate_files() {
    let directory = tempfile::tempdir().unwrap();
    let destinations = Destinations {
        directory: Some(directory.path().join("logs")),
        directory_limits: WITHOUT_MINIMUM_OF_FREE_SPACE,
        host: "node-1".to_owned(),
        ..Destinations::default()
    };
    let logs = Logs::start(destinations, Handle::current());
    let (web, db) = (
        logs.open(&service("web"), &settings("a/b")),
        logs.open(&service("db"), &settings("a/b")),
    );
    write(&web, 2);
    write(&db, 3);
    logs.finish().await;
    let mut files = files(directory.path());
    files.sort();
    let [(db, 3), (web, 2)] = &files[..] else {
        panic!("{files:?}")
    };
    assert!(
        db.contains("/logs/a/b/20") && db.contains("/shop_db_node-1_"),
        "{db}"
    );
    assert!(
        web.contains("/shop_web_node-1_") && web.ends_with(".log"),
        "{web}"
    );
}

#[tokio::test]
async fn equal_settings_return_the_same_log() {
    let directory = tempfile::tempdir().unwrap();
    let destinations = Destinations {
        directory: Some(directory.path().to_owned()),
        directory_limits: WITHOUT_MINIMUM_OF_FREE_SPACE,
        ..Destinations::default()
    };
    let logs = Logs::start(destinations, Handle::current());
    let first = logs.open(&service("web"), &settings("a"));
    assert!(Arc::ptr_eq(&first, &logs.open(&service("web"), &settings("a"))));
    let other = logs.open(&service("web"), &settings("b"));
    assert!(!Arc::ptr_eq(&first, &other));
    assert!(Arc::ptr_eq(&first.counts, &other.counts));
}

#[tokio::test]
async fn counts_lines_beyond_the_queue() {
    let directory = tempfile::tempdir().unwrap();
    let destinations = Destinations {
        directory: Some(directory.path().to_owned()),
        directory_limits: WITHOUT_MINIMUM_OF_FREE_SPACE,
        ..Destinations::default()
    };
    let logs = Logs::start(destinations, Handle::current());
    let log = logs.open(&service("web"), &settings("a"));
    // Nothing takes from the queue, because this is the only thread.
    write(&log, QUEUE_LINES_MAX + 5);
    let mut text = MetricsText::default();
    logs.write_metrics(&mut text);
    let text = text.finish();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    let dropped = "portolan_edge_access_log_dropped_lines_total{namespace=\"shop\",service=\"web\",reason=\"queue\"} 5\n";
    assert!(text.contains(dropped), "{text}");
    logs.finish().await;
    assert_eq!(
        files(directory.path())
            .iter()
            .map(|(_, lines)| lines)
            .sum::<usize>(),
        QUEUE_LINES_MAX
    );
}

/// Lines of a namespace share its memory, even after a change of the settings has replaced a log.
#[tokio::test]
async fn bounds_the_memory_of_a_namespace() {
    let directory = tempfile::tempdir().unwrap();
    let destinations = Destinations {
        directory: Some(directory.path().to_owned()),
        directory_limits: WITHOUT_MINIMUM_OF_FREE_SPACE,
        ..Destinations::default()
    };
    let logs = Logs::start(destinations, Handle::current());
    let log = logs.open(&service("web"), &settings("a"));
    assert!(log.memory.add(64 << 20));
    let (web, db) = (
        logs.open(&service("web"), &settings("b")),
        logs.open(&service("db"), &settings("a")),
    );
    write(&web, 1);
    write(&db, 2);
    let other_service = ServiceName {
        namespace: "bank".into(),
        name: "web".into(),
    };
    let other_service = logs.open(&other_service, &settings("a"));
    write(&other_service, 3);
    assert_eq!([&web, &db, &other_service].map(|log| log.lost_lines()), [1, 2, 0]);
    log.memory.remove(64 << 20);
    write(&db, 4);
    assert_eq!(db.lost_lines(), 2);
    drop(log);
    logs.finish().await;
}

#[tokio::test]
async fn log_without_destination_loses_its_lines() {
    let logs = Logs::start(Destinations::default(), Handle::current());
    let log = logs.open(&service("web"), &settings("a"));
    write(&log, 2);
    assert_eq!(log.counts.lost_lines.load(Ordering::Relaxed), 2);
    let fault = log.fault().unwrap();
    assert!(fault.contains("--edge-access-log-directory"), "{fault}");
    logs.finish().await;
}

#[test]
fn reads_s3_settings_from_the_environment() {
    let variables = HashMap::from([
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
        ("AWS_DEFAULT_REGION", "eu-west-1"),
        ("AWS_REGION", ""),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
    ]);
    let s3 = S3::from_environment(|name| variables.get(name).map(|value| (*value).to_owned()));
    assert_eq!(s3.endpoint.as_deref(), Some("http://127.0.0.1:1"));
    assert_eq!(s3.region.as_deref(), Some("eu-west-1"));
    assert_eq!(s3.access_key_id, None);
    assert!(!format!("{s3:?}").contains("hush"));
}
