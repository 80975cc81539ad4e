use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[tokio::test]
async fn url_of_the_listener_is_in_a_private_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join(URL_FILE);
    let (url_file, (_listener, address)) = UrlFile::listen(loopback(0), &file).expect("a listener");
    assert_ne!(address.port(), 0);
    let url = fs::read_to_string(&file).expect("the file");
    assert_eq!(url, format!("http://127.0.0.1:{}/\n", address.port()));
    let mode = fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(url_file);
    assert!(!file.exists());
}

/// Another user's program has the port, and an earlier process left its file.
#[tokio::test]
async fn file_never_names_the_listener_of_another_program() {
    let foreign = std::net::TcpListener::bind(loopback(0)).expect("a listener");
    let address = foreign.local_addr().expect("an address");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join(URL_FILE);
    fs::write(&file, format!("http://{address}/\n")).expect("a file");
    UrlFile::remove_former(&file).expect("no file");
    UrlFile::remove_former(&file).expect("a missing file is not an error");
    let error = UrlFile::listen(address, &file).expect_err("an error").to_string();
    assert!(error.contains("--chart-bind-address"), "{error}");
    assert!(!file.exists());
}
