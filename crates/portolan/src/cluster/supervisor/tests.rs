use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::cluster::status_file;
use crate::runtime;

#[test]
fn delays_grow_and_are_reset_by_a_healthy_run() {
    let mut delays = RestartDelays::default();
    let short = Duration::from_secs(1);
    let seconds: Vec<f32> = (0..9).map(|_| delays.after(short).as_secs_f32()).collect();
    assert_eq!(seconds, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
    assert_eq!(delays.after(HEALTHY_AFTER), DELAY_MIN);
}

#[test]
fn failed_component_is_restarted_and_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = runtime::multi_thread(1).expect("a runtime");
    let path = directory.path().to_owned();
    runtime.block_on(async {
        let file = StatusFile::open(&path, &path.join("admin.conf")).expect("the lock");
        let second = StatusFile::open(&path, &path)
            .expect_err("a locked directory")
            .to_string();
        assert!(second.contains("is running already"), "{second}");
        let (request_shutdown, shutdown) = watch::channel(false);
        let runs = AtomicU32::new(0);
        let mut supervisor = Supervisor::new(Arc::new(file), shutdown.clone());
        supervisor.spawn("dns", move || {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            let shutdown = shutdown.clone();
            async move {
                match run {
                    0 => Err("port in use".into()),
                    1 => panic!("for the test"),
                    _ => {
                        crate::shutdown::wait_for_request(shutdown).await;
                        Ok(())
                    }
                }
            }
        });
        let status = loop {
            let status = status_file::read(&path)
                .expect("a status")
                .expect("a running process");
            match status.components.get("dns") {
                Some(component) if component.restarts == 2 => break status,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let component = &status.components["dns"];
        assert!(component.is_running);
        assert!(
            component
                .reason
                .as_ref()
                .is_some_and(|reason| reason.contains("panicked")),
            "{component:?}"
        );
        request_shutdown.send_replace(true);
        supervisor.join().await;
        // A child process that another test starts holds the lock, too, until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(10);
        while status_file::read(&path).expect("no status").is_some() {
            assert!(Instant::now() < deadline, "the lock is held");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
