use super::*;

#[test]
fn only_logs_are_served() {
    for (path, served) in [
        ("/logs", "/logs/"),
        ("/logs/", "/logs/"),
        ("/logs/a%20b", "/logs/a%20b"),
        ("/containerLogs/d/p/c", "/containerLogs/d/p/c"),
    ] {
        assert_eq!(served_path(path).ok(), Some(served));
    }
    for path in [
        "",
        "/",
        "/exec/d/p/c",
        "/nodeReports/a/flows",
        "/logsx",
        "/containerLogs",
    ] {
        assert_eq!(
            served_path(path).map_err(|failure| failure.code()),
            Err(StatusCode::NOT_FOUND)
        );
    }
}
