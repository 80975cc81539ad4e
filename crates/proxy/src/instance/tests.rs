use super::*;

#[test]
fn second_proxy_of_a_network_namespace_is_refused_until_the_first_exits() {
    testbed::in_namespace(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let first = InstanceGuard::acquire().await.expect("the lock");
            let refusal = InstanceGuard::acquire().await.expect_err("a refusal");
            let id = i32::try_from(std::process::id()).expect("a process ID");
            assert_eq!(refusal.process, Some(id));
            assert!(refusal.to_string().contains(&format!("(process {id})")));
            drop(first);
            // The runtime ends the task of the guard.
            let mut again = InstanceGuard::acquire().await;
            while again.is_err() {
                tokio::task::yield_now().await;
                again = InstanceGuard::acquire().await;
            }
        });
    });
}
