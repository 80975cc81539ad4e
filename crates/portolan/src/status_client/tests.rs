use std::net::TcpListener;

use super::*;

/// Serves one connection, and returns the address.
fn serve(respond: impl FnOnce(&mut TcpStream) -> io::Result<()> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let read = stream.read(&mut [0; 1_024]).expect("a request");
        assert!(read > 0);
        // The client closes the connection of a false report.
        respond(&mut stream).unwrap_or_default();
    });
    address
}

#[test]
fn slow_and_endless_responses_end() {
    let slow = serve(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            stream.write_all(b" ")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let error = read_text(slow, "/", Duration::from_millis(300)).expect_err("an error");
    assert!(matches!(error, StatusError::Read(_)), "{error}");
    let endless = serve(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            stream.write_all(&[b' '; READ_BYTES])?;
        }
    });
    let error = read_text(endless, "/", Duration::from_secs(60)).expect_err("an error");
    assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = serve(|_| Ok(()));
    let redirect = serve(move |stream| {
        write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: http://{elsewhere}/\r\n\r\n"
        )
    });
    let error = read_text(redirect, "/", Duration::from_secs(60)).expect_err("an error");
    assert!(matches!(error, StatusError::Rejected { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "expected status 200, found \"HTTP/1.1 302 Found\"; check the address, and the version of the component there"
    );
}
