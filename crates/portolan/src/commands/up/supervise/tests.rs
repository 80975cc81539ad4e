use std::sync::atomic::{AtomicU32, Ordering};

use super::super::board;
use super::*;

#[test]
fn pauses_grow_and_begin_anew() {
    let mut pauses = Pauses::default();
    let short = Duration::from_secs(1);
    let seconds: Vec<f32> = (0..9).map(|_| pauses.after(short).as_secs_f32()).collect();
    assert_eq!(seconds, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
    assert_eq!(pauses.after(PROVEN_AFTER), PAUSE_MIN);
}

#[test]
fn a_part_that_fails_is_started_anew_and_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = super::super::super::runtime(1).expect("a runtime");
    let path = directory.path().to_owned();
    runtime.block_on(async {
        let open = Board::open(&path, &path.join("admin.conf"));
        let board = Arc::new(open.expect("nobody else has it"));
        let second = Board::open(&path, &path).expect_err("it is taken").to_string();
        assert!(second.contains("is running already"), "{second}");
        let (end, ended) = watch::channel(false);
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let until = ended.clone();
        let task = tokio::spawn(supervise(Arc::clone(&board), "dns", ended, move || {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            let mut until = until.clone();
            async move {
                match run {
                    0 => Err("port in use".into()),
                    1 => panic!("for the test"),
                    _ => {
                        drop(until.wait_for(|ended| *ended).await);
                        Ok(())
                    }
                }
            }
        }));
        let report = loop {
            let report = board::read(&path).expect("a report").expect("it runs");
            match report.parts.get("dns") {
                Some(part) if part.restarts == 2 => break report,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let part = &report.parts["dns"];
        assert!(part.is_running);
        assert!(
            part.reason
                .as_ref()
                .is_some_and(|reason| reason.contains("panicked")),
            "{part:?}"
        );
        end.send_replace(true);
        task.await.expect("it ends when it is told to");
        drop(board);
        assert_eq!(board::read(&path).expect("no report"), None);
    });
}
