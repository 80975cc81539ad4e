//! Pods as `kubectl` sees them: an API server in this process, an agent in another, which can be killed. The binary
//! is its own agent and sandbox program, so it has no test harness.

mod ending;
mod limits;
mod logs;
mod probes;
mod static_pods;
mod taking_over;
mod users;
mod volumes;
mod world;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use world::World;

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// How long one test may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = agent::internal_command(&arguments) {
        return code;
    }
    if let Some((world::AGENT_SUBCOMMAND, rest)) = arguments.split_first().map(|(a, b)| (a.as_str(), b)) {
        return finish(world::run_agent(rest));
    }
    // Asked by `cargo test -- --list` and by tools that look for tests.
    if arguments.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    match testbed::enclose(None) {
        Ok(Some(status)) if status.success() => ExitCode::SUCCESS,
        Ok(Some(_)) => ExitCode::FAILURE,
        Ok(None) => finish(inside(arguments.first().map(String::as_str))),
        Err(error) => {
            eprintln!("skipped: pods: {error}");
            ExitCode::SUCCESS
        }
    }
}

fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the tests whose names contain `filter`.
fn inside(filter: Option<&str>) -> Outcome {
    testbed::settle()?;
    agent::network::prepare_node();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut world = World::start().await?;
        macro_rules! run {
            ($($module:ident::$name:ident),* $(,)?) => {$(
                let name = concat!(stringify!($module), "::", stringify!($name));
                if filter.is_none_or(|filter| name.contains(filter)) {
                    match tokio::time::timeout(PATIENCE, $module::$name(&mut world)).await {
                        Ok(Ok(())) => println!("test {name} ... ok"),
                        Ok(Err(error)) => return Err(format!("{name}: {error}\n{}", world.log_end()).into()),
                        Err(_) => return Err(format!("{name}: not done within {PATIENCE:?}\n{}", world.log_end()).into()),
                    }
                }
            )*};
        }
        run!(
            probes::readiness_follows_its_probe,
            probes::liveness_restarts_the_container,
            probes::grpc_and_http_are_asked_over_the_network,
            ending::the_hook_comes_before_the_signal,
            ending::sidecars_start_first_and_end_last,
            ending::a_pod_that_has_done_its_work_stays_so,
            taking_over::a_killed_agent_leaves_its_pods_running,
            taking_over::a_reboot_brings_them_back,
            limits::too_much_memory_ends_the_container,
            limits::a_fork_bomb_is_held,
            logs::logs_are_passed_on,
            logs::following_ends_with_the_container,
            logs::nobody_else_is_answered,
            volumes::volumes_are_filled_shared_and_refreshed,
            volumes::a_volume_that_is_not_there_is_waited_for,
            volumes::rights_are_given_up,
            volumes::memory_is_a_volume_of_its_size,
            volumes::a_token_is_there_unasked,
            users::every_pod_has_ids_of_its_own,
            users::the_built_in_image_has_users_of_its_own,
            static_pods::foreign_words_about_a_pod_are_put_right,
            static_pods::a_file_is_a_pod_until_it_goes,
            static_pods::a_file_is_a_pod_without_the_api,
        );
        Ok(())
    })
}
