use bytes::Bytes;
use http_body_util::{BodyExt, Full};

use super::Lines;
use crate::{Client, Config};

fn client() -> Client {
    Client::new(Config {
        server: "http://127.0.0.1:1".to_owned(),
        ..Config::default()
    })
    .expect("a client")
}

fn lines_of(text: String) -> Lines {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    Lines::new("/watch".to_owned(), body.boxed_unsync())
}

/// Returns the sizes of all batches.
async fn batches(mut lines: Lines) -> Vec<usize> {
    let mut sizes = Vec::new();
    loop {
        let batch = lines.next_batch(&client()).await.expect("a batch");
        if batch.is_empty() {
            return sizes;
        }
        sizes.push(batch.len());
    }
}

#[tokio::test]
async fn batches_end_after_their_lines() {
    assert_eq!(batches(lines_of("{}\n".repeat(2_500))).await, [1_000, 1_000, 500]);
    assert!(batches(lines_of(String::new())).await.is_empty());
}

#[tokio::test]
async fn batches_end_after_their_bytes() {
    let line = format!("{}\n", "x".repeat(1 << 20));
    assert_eq!(batches(lines_of(line.repeat(10))).await, [4, 4, 2]);
}
