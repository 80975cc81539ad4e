use super::*;

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

#[test]
fn processes_find_each_other_until_they_end() {
    testbed::in_namespace(|| {
        run(async {
            let first = ProcessMark::set().expect("a mark");
            assert!(!first.has_others().await.expect("a list"));
            let second = ProcessMark::set().expect("a mark");
            assert!(first.has_others().await.expect("a list"));
            assert!(second.has_others().await.expect("a list"));
            drop(second);
            assert!(!first.has_others().await.expect("a list"));
        });
    });
}

#[test]
fn process_with_full_queue_of_connections_exists() {
    testbed::in_namespace(|| {
        testbed::write_sysctl("net.core.somaxconn", "1").expect("a limit");
        run(async {
            let first = ProcessMark::set().expect("a mark");
            let second = ProcessMark::set().expect("a mark");
            let mut queued = Vec::new();
            while let Ok(stream) = UnixStream::connect(format!("\0{}", second.name)).await {
                queued.push(stream);
            }
            assert!(!queued.is_empty());
            assert!(first.has_others().await.expect("a list"));
        });
    });
}

#[test]
fn marks_are_abstract_names_with_the_prefix() {
    let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                   00000000: 00000002 00000000 00010000 0001 01 21345 /run/portolan-edge-addresses/1\n\
                   00000000: 00000002 00000000 00010000 0001 01 21346 @portolan-announcer/192.0.2.1:7947\n\
                   00000000: 00000002 00000000 00010000 0001 01 21347 @portolan-edge-addresses/0123456789abcdef\n\
                   00000000: 00000003 00000000 00000000 0001 03 21348\n";
    assert_eq!(
        marks(sockets).collect::<Vec<_>>(),
        ["portolan-edge-addresses/0123456789abcdef"]
    );
}
