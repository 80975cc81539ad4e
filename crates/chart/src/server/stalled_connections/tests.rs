use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn connection_of_a_stalled_reader_is_closed() {
    let (server, _client) = duplex(16);
    let mut guard = StallGuard::new(server, TIMEOUT);
    let error = guard.write_all(&[0; 1_000]).await.expect_err("an error");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn slow_reader_keeps_its_connection() {
    let (server, mut client) = duplex(16);
    let mut guard = StallGuard::new(server, TIMEOUT);
    let reader = tokio::spawn(async move {
        let mut piece = [0; 16];
        let mut bytes = 0;
        while bytes < 160 {
            tokio::time::sleep(TIMEOUT / 2).await;
            bytes += client.read(&mut piece).await.expect("bytes");
        }
        bytes
    });
    guard.write_all(&[0; 160]).await.expect("a reader");
    assert_eq!(reader.await.expect("a result"), 160);
}
